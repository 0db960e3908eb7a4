"""Typed values as strict JSON and back, by the types that their dataclasses declare.

Used for files that this program writes for itself (:mod:`firstnan.run.parts`). Numbers that are not finite are words
in an object (``{"number": "NaN"}``), so that no text can be mistaken for one; enum members are their values; mappings
are lists of pairs, since their keys need not be texts.
"""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

_NUMBER = "number"
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class CodecError(ValueError):
    """A JSON value that does not have the form of its type."""


def encode(value: object) -> object:
    """A value as JSON values alone."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_NUMBER: _word(value)}
    if isinstance(value, Enum):
        return encode(value.value)
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value):
        members = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: encode(member) for field, member in members if not _is_default(field, member)}
    if isinstance(value, Mapping):
        return [[encode(key), encode(item)] for key, item in value.items()]
    if isinstance(value, (frozenset, set)):
        return sorted((encode(item) for item in value), key=repr)
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    raise TypeError(f"no JSON form for {type(value).__name__}")


def _is_default(field: Field[Any], member: object) -> bool:
    """What is absent comes back as its default."""
    if field.default is not MISSING:
        return member is field.default or (member == field.default and type(member) is type(field.default))
    return field.default_factory is not MISSING and member == field.default_factory()


def _word(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def decode(expected: Any, raw: object) -> Any:
    """The value of a type from its JSON form.

    Raises:
        CodecError: the JSON has another form.
    """
    if expected is Any or expected is object:
        return raw
    if expected in (int, float, str, bool, type(None), complex):
        return _plain(expected, raw)
    if isinstance(expected, type) and issubclass(expected, Enum):
        try:
            return expected(raw)
        except ValueError as error:
            raise CodecError(str(error)) from error
    if expected is Path:
        return Path(_plain(str, raw))
    if isinstance(expected, type) and is_dataclass(expected):
        return _dataclass(expected, raw)
    if isinstance(expected, type) and issubclass(expected, tuple) and hasattr(expected, "_fields"):
        hints = _hints(expected)
        items = _items(raw, len(expected._fields))
        return expected(*(decode(hints[name], item) for name, item in zip(expected._fields, items, strict=True)))
    return _generic(expected, raw)


def _generic(expected: Any, raw: object) -> Any:
    origin, arguments = get_origin(expected), get_args(expected)
    if origin in (Union, types.UnionType):
        return _union(arguments, raw)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(decode(arguments[0], item) for item in _items(raw))
        items = _items(raw, len(arguments))
        return tuple(decode(kind, item) for kind, item in zip(arguments, items, strict=True))
    if origin is frozenset:
        return frozenset(decode(arguments[0], item) for item in _items(raw))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        pairs = [_items(pair, 2) for pair in _items(raw)]
        return {decode(arguments[0], key): decode(arguments[1], item) for key, item in pairs}
    raise TypeError(f"no way back to {expected}")


def _union(members: tuple[Any, ...], raw: object) -> Any:
    """The first member that fits; None only for null."""
    if raw is None:
        if type(None) in members:
            return None
        raise CodecError("null where a value is needed")
    others = [member for member in members if member is not type(None)]
    if len(others) == 1:
        return decode(others[0], raw)  # and what is wrong inside it is told
    for member in sorted(others, key=lambda kind: kind is float):  # an int stays an int
        try:
            return decode(member, raw)
        except CodecError:
            continue
    raise CodecError(f"{_short(raw)} fits none of {', '.join(map(str, members))}")


def _plain(expected: Any, raw: object) -> Any:
    if expected is float:
        word = raw[_NUMBER] if isinstance(raw, dict) and raw.keys() == {_NUMBER} else None
        if isinstance(word, str) and word in _WORDS:
            return _WORDS[word]
        if type(raw) in (int, float):
            try:
                return float(raw)  # type: ignore[arg-type]
            except OverflowError as error:
                raise CodecError(f"{_short(raw)} is no float") from error
    elif type(raw) is expected:
        return raw
    raise CodecError(f"{_short(raw)} is no {expected.__name__}")


def _dataclass(expected: type, raw: object) -> Any:
    if not isinstance(raw, dict):
        raise CodecError(f"{_short(raw)} is no {expected.__name__}")
    hints = _hints(expected)
    unknown = raw.keys() - hints.keys()
    if unknown:
        raise CodecError(f"{expected.__name__} has no {', '.join(sorted(unknown))}")
    try:
        return expected(**{name: decode(hints[name], item) for name, item in raw.items()})
    except TypeError as error:  # a field without a default is absent
        raise CodecError(f"{expected.__name__}: {error}") from error


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Types of the fields; names that a module imports for type checkers only are looked up where they live."""
    import firstnan.answer.model
    import firstnan.answer.views
    import firstnan.dump.records
    import firstnan.operators.communication
    import firstnan.rank.events

    known: dict[str, Any] = {}
    homes = (
        firstnan.dump.records,
        firstnan.operators.communication,
        firstnan.answer.model,
        firstnan.answer.views,
        firstnan.rank.events,
    )
    for home in (*homes, sys.modules[kind.__module__]):
        known.update(vars(home))
    return get_type_hints(kind, known)


def _items(raw: object, count: int | None = None) -> list[object]:
    if not isinstance(raw, list) or (count is not None and len(raw) != count):
        raise CodecError(f"{_short(raw)} is no list{'' if count is None else f' of {count}'}")
    return raw


def _short(raw: object) -> str:
    text = repr(raw)
    return text if len(text) <= 60 else text[:60] + "..."
