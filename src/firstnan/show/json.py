"""The report as strict JSON (schema ``firstnan.report/1``); :mod:`firstnan.answer.load` is the way back.

The document is the model (:mod:`firstnan.answer.model`) field by field. Words for people stand beside the note they
come from: ``explanation`` and ``explanation_note``, ``evidence`` and ``evidence_notes``. Only the notes are read back,
so that ``Report.from_dict(to_dict(report)) == report`` in every language. Non-finite numbers are the strings ``"NaN"``,
``"Infinity"`` and ``"-Infinity"``; an integer beyond the double range is infinite (as it is for the analysis).
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import msgspec

from firstnan.answer.load import SCHEMA_VERSION
from firstnan.answer.model import Note, Report
from firstnan.dump.language import Language
from firstnan.dump.values import Number
from firstnan.rank.surroundings.excerpt import Excerpt
from firstnan.show.reporter import Settings
from firstnan.version import __version__
from firstnan.words import text

__all__ = ["dumps", "excerpt_dict", "number", "on_one_line", "render", "to_dict"]

RECORDS_SCHEMA = "firstnan.records/1"
_DOUBLE_BITS = 1024
_INVISIBLE = re.compile(
    "[\\x7f-\\xa0\\xad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202f\\u2060-\\u206f\\ud800-\\udfff\\ufeff\\ufff9-\\ufffb]"
)


def dumps(document: object) -> str:
    """Strict JSON text, indented, ending with a line end.

    Letters of every script stay readable; what is invisible, turns the writing direction or is half a character is
    escaped, so that the text is harmless in a terminal and encodes as UTF-8.
    """
    try:  # indented afterwards: json.dumps itself takes ten times as long when it indents
        return msgspec.json.format(on_one_line(document), indent=2) + "\n"
    except msgspec.DecodeError:  # half a character, which msgspec refuses
        return _visible(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def on_one_line(value: object) -> str:
    """The same without indentation and line end."""
    return _visible(json.dumps(value, ensure_ascii=False, allow_nan=False))


def _visible(made: str) -> str:
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match.group()):04x}", made)


def render(report: Report, settings: Settings) -> str:
    """Strict JSON text; the view does not matter."""
    return dumps(to_dict(report, settings.language))


def to_dict(report: Report, language: Language = Language.EN) -> dict[str, object]:
    """The report as JSON values; words for people in ``language``."""
    from firstnan.show.outline.sections import headline

    made: dict[str, Any] = _worded(msgspec.to_builtins(report, str_keys=True), language)
    for problem, written in zip(report.input.problems, made["input"]["problems"], strict=True):
        written["effect"] = text(f"problem.{problem.kind.value}.effect", language)
    for call, written in zip(report.collectives, made["collectives"], strict=True):
        written["total_ranks"] = call.total_ranks
    made["benign"] = {"rules": made["benign"]}
    made["propagation"] = [_hop(hop) for hop in made["propagation"]]
    return {
        "schema": SCHEMA_VERSION,
        "tool": {"name": "firstnan", "version": __version__},
        "language": language.value,
        "headline": headline(report, Settings(language=language)),
        **made,
        "symptom": made["symptoms"][0] if made["symptoms"] else None,
    }


def excerpt_dict(excerpt: Excerpt) -> dict[str, object]:
    """The records around one place as strict JSON values (schema ``firstnan.records/1``)."""
    made = _worded(msgspec.to_builtins(excerpt, str_keys=True), Language.EN)
    return {"schema": RECORDS_SCHEMA, "tool": {"name": "firstnan", "version": __version__}, **made}


def _worded(value: Any, language: Language) -> Any:
    """Strict JSON values, with the text beside every note."""
    if isinstance(value, dict):
        made: dict[str, object] = {}
        for name, item in value.items():
            if name.endswith("_note") and isinstance(item, dict):
                made[name.removesuffix("_note")] = text(Note(**item), language)
            elif name.endswith("_notes") and isinstance(item, (list, tuple)):
                made[name.removesuffix("_notes")] = [text(Note(**note), language) for note in item]
            made[name] = _worded(item, language)
        return made
    if isinstance(value, (list, tuple)):
        return [_worded(item, language) for item in value]
    return number(value) if isinstance(value, (int, float)) else value


def _hop(hop: dict[str, object]) -> dict[str, object]:
    return {
        "from": {"step": hop["step"], "rank": hop["from_rank"], "op_name": hop["from_op"]},
        "to": {"ranks": hop["to_ranks"], "ops": hop["to_ops"]},
        "via": hop["via"],
    }


def number(value: Number | None) -> Number | str | None:
    """A number for strict JSON.

    >>> number(float("nan")), number(float("-inf")), number(2.5), number(None)
    ('NaN', '-Infinity', 2.5, None)
    """
    if isinstance(value, int) and value.bit_length() > _DOUBLE_BITS:
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value
