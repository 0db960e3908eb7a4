"""The report as strict JSON (schema ``firstnan.report/1``); :mod:`firstnan.answer.load` is the way back.

Words for people stand beside the note they come from: ``explanation`` and ``explanation_note``, ``evidence`` and
``evidence_notes``. Only the notes are read back, so that ``from_dict(to_dict(report)) == report`` in every language.
Non-finite numbers are the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``; an integer beyond the double range is
infinite (as it is for the analysis).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable

import firstnan
from firstnan.answer.load import from_dict
from firstnan.answer.model import SCHEMA_VERSION, CollectiveReport, Hop, InputSummary, Note, Report, RootCause, Symptom
from firstnan.answer.views import CallMap, Surroundings
from firstnan.dump.call_site import Frame
from firstnan.dump.language import Language
from firstnan.dump.records import TensorStat
from firstnan.dump.values import Number
from firstnan.words import text

__all__ = ["dumps", "from_dict", "number", "to_dict"]

_DOUBLE_BITS = 1024
_INVISIBLE = re.compile(
    "[\\x7f-\\xa0\\xad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202f\\u2060-\\u206f\\ud800-\\udfff\\ufeff\\ufff9-\\ufffb]"
)


def dumps(document: object) -> str:
    """Strict JSON text, indented, ending with a line end.

    Letters of every script stay readable; what is invisible, turns the writing direction or is half a character is
    escaped, so that the text is harmless in a terminal and encodes as UTF-8.
    """
    return _visible(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def on_one_line(value: object) -> str:
    """The same without indentation and line end."""
    return _visible(json.dumps(value, ensure_ascii=False, allow_nan=False))


def _visible(made: str) -> str:
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match.group()):04x}", made)


def to_dict(report: Report, language: Language = Language.EN) -> dict[str, object]:
    """The report as JSON values; words for people in ``language``."""
    write = _Writer(language)
    return {
        "schema": SCHEMA_VERSION,
        "tool": {"name": "firstnan", "version": firstnan.__version__},
        "language": language.value,
        "verdict": report.verdict.value,
        "complete": report.complete,
        "input": write.input(report.input),
        "step": report.step,
        "root_causes": [write.cause(cause) for cause in report.root_causes],
        "collectives": [write.collective(call) for call in report.collectives],
        "propagation": [_hop(hop) for hop in report.propagation],
        "contained": [
            {
                "step": value.step,
                "rank": value.rank,
                "op_name": value.op_name,
                "exec_order": value.exec_order,
                **write.note("reason", value.reason),
            }
            for value in report.contained
        ],
        "benign": {
            "rules": [{"rule": rule.rule, "count": rule.count, "example": rule.example} for rule in report.benign]
        },
        "symptom": _symptom(report.symptoms[0]) if report.symptoms else None,
        "symptoms": [_symptom(symptom) for symptom in report.symptoms],
        **write.notes("story", report.story),
        **write.notes("caveats", report.caveats),
        "call_map": _call_map(report.call_map),
        "surroundings": [_surroundings(excerpt) for excerpt in report.surroundings],
    }


class _Writer:
    """The parts that hold words."""

    def __init__(self, language: Language) -> None:
        self._language = language

    def note(self, name: str, note: Note) -> dict[str, object]:
        return {name: text(note, self._language), f"{name}_note": _note(note)}

    def notes(self, name: str, notes: Iterable[Note]) -> dict[str, object]:
        kept = list(notes)
        return {name: [text(note, self._language) for note in kept], f"{name}_notes": [_note(note) for note in kept]}

    def input(self, looked: InputSummary) -> dict[str, object]:
        return {
            "path": looked.path,
            "steps": list(looked.steps),
            "ranks": list(looked.ranks),
            "missing_ranks": list(looked.missing_ranks),
            "records": looked.records,
            "bytes": looked.bytes,
            "problems": [
                {
                    "kind": problem.kind.value,
                    "step": problem.step,
                    "rank": problem.rank,
                    "file": problem.file,
                    "detail": problem.detail,
                    "judged": problem.judged,
                    "effect": text(f"problem.{problem.kind.value}.effect", self._language),
                }
                for problem in looked.problems
            ],
        }

    def cause(self, cause: RootCause) -> dict[str, object]:
        return {
            "step": cause.step,
            "rank": cause.rank,
            "ranks_also": list(cause.ranks_also),
            "op_name": cause.op_name,
            "exec_order": cause.exec_order,
            "direction": cause.direction.value,
            "where": cause.where.value,
            "mechanism": {
                "kind": cause.mechanism.kind.value,
                "confidence": cause.mechanism.confidence.value,
                **self.note("explanation", cause.mechanism.explanation),
            },
            "inputs": [_tensor(stat) for stat in cause.inputs],
            "outputs": [_tensor(stat) for stat in cause.outputs],
            "construct_chain": list(cause.construct_chain),
            "module": cause.module,
            "stack_info": [entry if isinstance(entry, str) else number(entry) for entry in cause.stack_info],
            "location": _frame(cause.location),
            **self.notes("evidence", cause.evidence),
            **self.notes("advice", cause.advice),
            "alternatives": [
                {
                    "step": other.step,
                    "rank": other.rank,
                    "op_name": other.op_name,
                    "exec_order": other.exec_order,
                    "direction": other.direction.value,
                    **self.note("reason", other.reason),
                }
                for other in cause.alternatives
            ],
            "run_up": [
                {
                    "op_name": step.op_name,
                    "exec_order": step.exec_order,
                    "magnitude_in": number(step.magnitude_in),
                    "magnitude_out": number(step.magnitude_out),
                }
                for step in cause.run_up
            ],
        }

    def collective(self, call: CollectiveReport) -> dict[str, object]:
        return {
            "op": call.op,
            "step": call.step,
            "group": None if call.group is None else list(call.group),
            "call": call.call,
            "ops": {str(rank): name for rank, name in call.ops.items()},
            "source_ranks": list(call.source_ranks),
            "propagated_ranks": list(call.propagated_ranks),
            "normal_ranks": list(call.normal_ranks),
            "undecided_ranks": list(call.undecided_ranks),
            "total_ranks": call.total_ranks,
            "match": call.match.value,
            **self.notes("remarks", call.notes),
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


def _note(note: Note) -> dict[str, object]:
    params = {
        name: value if isinstance(value, str) or value is None else number(value) for name, value in note.params.items()
    }
    return {"key": note.key, "params": params}


def _tensor(stat: TensorStat) -> dict[str, object]:
    return {
        "slot": stat.slot,
        "dtype": stat.dtype,
        "shape": None if stat.shape is None else list(stat.shape),
        "Max": number(stat.max),
        "Min": number(stat.min),
        "Mean": number(stat.mean),
        "Norm": number(stat.norm),
        "state": stat.state.value,
        "requires_grad": stat.requires_grad,
    }


def _frame(frame: Frame | None) -> dict[str, object] | None:
    if frame is None:
        return None
    return {"file": frame.file, "line": frame.line, "function": frame.function, "source": frame.source}


def _hop(hop: Hop) -> dict[str, object]:
    return {
        "from": {"step": hop.step, "rank": hop.from_rank, "op_name": hop.from_op},
        "to": {"ranks": list(hop.to_ranks), "ops": {str(rank): name for rank, name in hop.to_ops.items()}},
        "via": hop.via,
    }


def _call_map(found: CallMap | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {
        "step": found.step,
        "columns": list(found.columns),
        "rows": [{"ranks": list(row.ranks), "cells": row.cells} for row in found.rows],
        "listed": list(found.listed),
        "calls": found.calls,
        "places_per_column": found.places_per_column,
        "complete": found.complete,
    }


def _surroundings(excerpt: Surroundings) -> dict[str, object]:
    return {
        "step": excerpt.step,
        "rank": excerpt.rank,
        "records": [
            {
                "exec_order": record.exec_order,
                "op_name": record.op_name,
                "module": record.module,
                "dtype": record.dtype,
                "magnitude_in": number(record.magnitude_in),
                "Max": number(record.max_out),
                "Min": number(record.min_out),
                "state_in": record.state_in.value,
                "state_out": record.state_out.value,
            }
            for record in excerpt.records
        ],
    }


def _symptom(symptom: Symptom) -> dict[str, object]:
    return {
        "kind": symptom.kind.value,
        "step": symptom.step,
        "rank": symptom.rank,
        "op_name": symptom.op_name,
        "exec_order": symptom.exec_order,
    }
