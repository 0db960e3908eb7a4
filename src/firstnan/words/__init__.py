"""Every word shown to people, in English and Chinese, by key.

``text(Note("evidence.inputs_finite", {"largest": 65504.0}), Language.EN)`` gives one sentence;
:func:`pieces` gives the same sentence in parts, so that a reporter can set text from the dump apart from ours.

Templates are ``str.format``-like: ``{name}`` is a parameter, ``{name:area}`` a parameter whose value is itself
looked up as ``area.value`` (``{direction:direction}`` becomes ``backward`` or its Chinese word); the area ``ranks``
sets ``rank`` or ``ranks`` before a list of ranks (``{receivers:ranks}`` becomes ``ranks 0-3``).

Where a sentence stands, in ``en/`` and ``zh/``:

==============  ================================================================================
report          headlines, sections, labels, columns, states (``verdict section label column ...``)
mechanisms      name, explanation and advice of each mechanism (``mechanism.<kind>.*``)
evidence        why this mechanism, what proves it, doubts (``why evidence reason story caveat``)
problems        what is wrong with the input, and its effect (``problem.<kind>``)
agreement       ranks that should be equal (``differ disagreement not_comparable``)
replay          records run again (``replay not_run``)
recording       what a guard says (``guard``)
commands        ``watch`` and ``compare``
html            what only the page says (``html chrome``)
known_issues    faults of other projects (``known_issue``)
==============  ================================================================================
"""

from __future__ import annotations

import math
import os
import string
from collections.abc import Mapping

from msgspec import Struct

from firstnan.answer.model import Note, NoteValue
from firstnan.dump.language import Language
from firstnan.dump.printable import show
from firstnan.words import en


class Words(str):
    """A parameter that is already words of ours in the reader's language, not text from a dump."""

    __slots__ = ()


class Piece(Struct, frozen=True):
    """A part of a sentence."""

    text: str
    """Printable; text from a dump is shortened."""
    is_data: bool = False
    """True: a value from the dump or computed from it; False: our own words."""


_MISSING = "?"
_ABSENT = Words()
"""Stands for a parameter that was not given."""
_RANKS = "ranks"
_FORMATTER = string.Formatter()


def catalog(language: Language) -> Mapping[str, str]:
    """All templates of one language by key."""
    if language is Language.EN:
        return en.MESSAGES
    from firstnan.words import zh

    return zh.MESSAGES


def default_language(environ: Mapping[str, str] | None = None) -> Language:
    """The language of the user's locale: LC_ALL before LC_MESSAGES before LANG; English when none is Chinese.

    >>> default_language({"LANG": "zh_CN.UTF-8"}), default_language({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"})
    (<Language.ZH: 'zh'>, <Language.EN: 'en'>)
    """
    env = os.environ if environ is None else environ
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := env.get(name, ""):
            return Language.ZH if value.lower().startswith("zh") else Language.EN
    return Language.EN


def number(value: float) -> str:
    """A number as an engineer reads it; integers exactly, the rest to six digits or in powers of ten.

    One that is no integer does not look like one: a cosine of 1.0000005 is beyond 1.

    >>> number(1.0000005)
    '1.000001'
    >>> number(65504.0), number(65519.7), number(3.4028234663852886e38), number(math.nan), number(-math.inf)
    ('65504', '65519.7', '3.403e+38', 'NaN', '-Inf')
    """
    if isinstance(value, int):
        if abs(value) < 10**16:
            return str(value)
        return f"{'-' if value < 0 else ''}~1e+{int(math.log10(abs(value)))}"
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e6:
        least = (f"{value:.{digits}g}" for digits in range(6, 18))
        return f"{value:.6g}" if float(value).is_integer() else next((n for n in least if "." in n), repr(value))
    return f"{value:.3e}"


def has(key: str) -> bool:
    """Whether there are words for the key."""
    return key in en.MESSAGES


def text(message: Note | str, language: Language, **params: NoteValue) -> str:
    """One sentence. A key or parameter that is not known is shown as such; nothing is raised for it.

    >>> text("label.ranks", Language.EN, ranks="0-3")
    'ranks 0-3'
    """
    return "".join(piece.text for piece in pieces(message, language, **params))


def pieces(message: Note | str, language: Language, **params: NoteValue) -> tuple[Piece, ...]:
    """One sentence in parts, our words and data apart.

    >>> pieces("label.ranks", Language.EN, ranks="0-3")
    (Piece(text='ranks ', is_data=False), Piece(text='0-3', is_data=True))
    """
    note = message if isinstance(message, Note) else Note(message)
    values: dict[str, NoteValue] = {**note.params, **params}
    template = catalog(language).get(note.key)
    if template is None:
        told = ", ".join(f"{name}={_value(value, language)}" for name, value in values.items())
        return (Piece(show(f"{note.key} ({told})" if told else note.key, 400), is_data=True),)
    parts: list[Piece] = []
    for literal, field, area, _ in _FORMATTER.parse(template):
        if literal:
            parts.append(Piece(literal))
        if field is not None:
            value = values.get(field, _ABSENT)
            if area == _RANKS and isinstance(value, (str, int)) and not isinstance(value, (bool, Words)):
                several = isinstance(value, str) and any(sign in value for sign in ",-")
                parts += pieces("label.ranks" if several else "label.rank", language, ranks=value)
            else:
                parts.append(Piece(_MISSING) if value is _ABSENT else _piece(value, area or "", language))
    return tuple(part for part in parts if part.text)


def _piece(value: NoteValue, area: str, language: Language) -> Piece:
    if isinstance(value, Words):
        return Piece(str(value))
    if area and isinstance(value, str):
        word = catalog(language).get(f"{area}.{value}")
        if word is not None:
            return Piece(word)
    return Piece(_value(value, language), is_data=not (value is None or isinstance(value, bool)))


def _value(value: NoteValue, language: Language) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return catalog(language)["label.yes" if value else "label.no"]
    if isinstance(value, str):
        return show(value)
    return number(value)
