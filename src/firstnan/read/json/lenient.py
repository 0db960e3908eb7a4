"""JSON as dying training jobs leave it: bare NaN, cut files, odd bytes.

A sound file goes through jiter. Whatever jiter refuses takes a second, slower way in Python, which gives the same
values and what can be saved of the rest. Nothing here knows what the file means.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from jiter import from_json
from msgspec import Struct
from msgspec.structs import replace

from firstnan.read.json import memory

MAX_DEPTH = 500
"""Containers inside containers that are followed (the writer itself stops at 400)."""

_LONGEST_INTEGER = 4300  # digits; Python refuses longer ones, and no dtype holds them
_BARE = frozenset("+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_BLANK = frozenset(" \t\r\n")
_TOKEN = re.compile(r'(?s)[{}\[\]]|"[^"\\]*(?:\\.[^"\\]*)*"|"')
_ESCAPE = re.compile(
    r"(?s)\\(?:(?P<pair>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
_KEYS_SHOWN = 3


class Cut(Struct, frozen=True):
    """The place from which on the text could not be used."""

    offset: int
    """Bytes that were sound (of the UTF-8 text)."""
    depth: int
    """Containers that were open there, the outermost included; the last child of each is incomplete."""
    why: str


class Oddity(Struct, frozen=True):
    """Something unusual that was read all the same."""

    detail: str
    lossy: bool
    """True: a part of the text was left out."""


class Parsed(Struct, frozen=True):
    """What a text held."""

    value: object = None
    """Dicts, lists, str, int, float, bool, None. Of equal keys in one object the last counts, in the last place."""
    cut: Cut | None = None
    """Set when only the part before a place could be used; ``value`` holds that part."""
    fault: str | None = None
    """Set when there is no value at all."""
    notes: tuple[Oddity, ...] = ()
    """Encoding, equal keys, text behind the end."""


@contextmanager
def collector_off() -> Iterator[None]:
    """Python's garbage collector rests inside: containers that all stay need not be walked again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def loads(data: bytes) -> Parsed:
    r"""Read a JSON text, or as much of it as is there. Never raises for what the bytes are.

    - ``NaN``, ``Infinity``, ``-Infinity`` are numbers; ``1e999`` is infinite.
    - A text that ends early, or is damaged from some place on, gives everything before that place. A number
      or word that touches it is left out, since a part of it may be missing.
    - A byte order mark is skipped; UTF-16 and UTF-32 are read and noted; bytes that are no UTF-8 and lone
      surrogates become U+FFFD.

    >>> loads(b'{"a": {"Max": NaN, "Min": -1.5, "Mean": 0.2').value
    {'a': {'Max': nan, 'Min': -1.5}}
    """
    notes: list[Oddity] = []
    try:
        with collector_off():
            text, encoding = _as_utf8(data, notes)
            parsed = _loads(text, notes)
    except MemoryError:
        return Parsed(fault="does not fit into memory")
    if parsed.cut is None or text is data:
        return parsed
    before = text[: parsed.cut.offset].decode("utf-8", "replace").encode(encoding, "replace")
    whole = parsed.cut.offset >= len(text)
    return replace(parsed, cut=replace(parsed.cut, offset=len(data) if whole else min(len(before), len(data))))


def sound(data: bytes) -> object | None:
    """The value of a JSON text about which nothing is unusual; None for every other text, and for ``null``."""
    try:
        value: object = from_json(data, catch_duplicate_keys=True)
    except (ValueError, RecursionError):
        return None
    return value


def quoted(text: str) -> str:
    """A text as the dumping tool writes it: in quotes, characters beyond ASCII as ``\\uXXXX``."""
    return json.dumps(text)


def _as_utf8(data: bytes, notes: list[Oddity]) -> tuple[bytes, str]:
    """The text in UTF-8, and the encoding it had."""
    if data.startswith(b"\xef\xbb\xbf"):
        return data[3:], "utf-8-sig"
    head = data[:4]
    if not head.strip(b"\0") or (b"\0" not in head and not head.startswith((b"\xff\xfe", b"\xfe\xff"))):
        return data, "utf-8"
    encoding = json.detect_encoding(head)
    if encoding.startswith("utf-8"):
        return data, encoding
    notes.append(Oddity(f"encoded as {encoding}, read all the same", False))
    return data.decode(encoding, "replace").lstrip("\ufeff").encode("utf-8", "replace"), encoding


def _loads(data: bytes, notes: list[Oddity]) -> Parsed:
    if not data.strip(b" \t\r\n\0"):
        return Parsed(fault=f"holds nothing but {len(data)} blank or NUL bytes" if data else "empty file")
    lacking = memory.shortage(data)
    if lacking is not None:
        return Parsed(fault=lacking)
    try:
        return Parsed(from_json(data, catch_duplicate_keys=True), notes=tuple(notes))
    except (ValueError, RecursionError):
        return _careful(data, notes)


class _LastWins:
    """Object hook that keeps the last of equal keys, and remembers that there were some."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.count = 0

    def __call__(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        self.count += len(pairs) - len(found)
        ordered: dict[str, object] = {}
        for key, value in pairs:
            if key in ordered:
                del ordered[key]
                if len(self.keys) < _KEYS_SHOWN and key not in self.keys:
                    self.keys.append(key)
            ordered[key] = value
        return ordered

    def note(self) -> Oddity:
        keys = ", ".join(map(repr, self.keys))
        return Oddity(f"{self.count} repeated keys, the last of each was used (as {keys})", True)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


def _without_lone_surrogates(text: str) -> str:
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda match: "\\ufffd" if match["lone"] else match[0], text)


def _careful(data: bytes, notes: list[Oddity]) -> Parsed:
    text = data.decode("utf-8", "replace")
    if "\ufffd" in text[:-1] and "\ufffd".encode() not in data:
        notes.append(Oddity("bytes that are not UTF-8 were replaced", False))
    text = _without_lone_surrogates(text)
    hook = _LastWins()
    decoder = json.JSONDecoder(object_pairs_hook=hook, parse_int=_integer, strict=False)
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        early = error.msg.startswith("Unterminated string") or _only_a_word(text, error.pos)
        why = "ends early" if early else error.msg
        repaired = _repair(text, min(error.pos, len(text)))
    except RecursionError:
        why = f"nested deeper than {MAX_DEPTH}"
        repaired = _repair(text, len(text))
    else:
        rest = len(text[end:].strip(" \t\r\n"))
        if rest:
            notes.append(Oddity(f"{rest} characters behind the end of the JSON text were ignored", True))
        return _finish(value, None, hook, notes)
    if repaired is None:
        return Parsed(fault=f"no JSON text ({why} at byte 0)")
    sound, offset, depth = repaired
    hook.count = 0
    hook.keys.clear()
    try:
        value = decoder.decode(sound)
    except (json.JSONDecodeError, RecursionError) as error:
        return Parsed(fault=f"no usable JSON text ({why}; {error})")
    cut = Cut(len(data) if why == "ends early" else _bytes_before(data, text, offset), depth, why)
    return _finish(value, cut, hook, notes)


def _bytes_before(data: bytes, text: str, count: int) -> int:
    """How many bytes the first ``count`` characters of the decoded text took.

    Bytes that are no UTF-8 became characters of another length: then the place is searched by decoding.
    """
    if text.isascii():
        return count
    sound = len(text[:count].encode("utf-8", "replace"))
    if "\ufffd" not in text[:count]:
        return sound
    low, high = 0, min(sound, len(data))
    while low < high:
        middle = (low + high) // 2
        if len(data[:middle].decode("utf-8", "replace")) < count:
            low = middle + 1
        else:
            high = middle
    return low


def _only_a_word(text: str, position: int) -> bool:
    """Nothing follows but a part of a number or of ``true``, ``NaN`` ..."""
    return len(text) - position < len("-Infinity") and all(c in _BARE or c in _BLANK for c in text[position:])


def _finish(value: object, cut: Cut | None, hook: _LastWins, notes: list[Oddity]) -> Parsed:
    if hook.count:
        notes.append(hook.note())
    return Parsed(value, cut, notes=tuple(notes))


def _repair(text: str, end: int) -> tuple[str, int, int] | None:
    """The longest JSON text that ``text[:end]`` is the beginning of; None when it holds no value.

    Gives the text with its containers closed, the length of the sound part, and how many were open.
    """
    closers: list[str] = []
    string = (0, 0)
    for match in _TOKEN.finditer(text, 0, end):
        first = text[match.start()]
        if first == '"':
            if match.end() - match.start() == 1:  # not closed before the end
                end = match.start()
                break
            string = match.span()
        elif first in "{[":
            if len(closers) == MAX_DEPTH:
                end = match.start()
                break
            closers.append("}" if first == "{" else "]")
        elif closers:
            closers.pop()
    offset = end
    while end and text[end - 1] in _BARE:
        end -= 1
    end = _strip(text, end)
    in_object = bool(closers) and closers[-1] == "}"
    if end and (text[end - 1] == ":" or (in_object and end == string[1] and _starts_member(text, string[0]))):
        end = string[0]  # a key whose value is gone
    end = _strip(text, end)
    if end and text[end - 1] == ",":
        end = _strip(text, end - 1)
    if not end:
        return None
    return text[:end] + "".join(reversed(closers)), offset, len(closers)


def _starts_member(text: str, position: int) -> bool:
    """The string at this place is a key: it follows ``{`` or ``,`` in an object."""
    return text[_strip(text, position) - 1] in "{,"


def _strip(text: str, end: int) -> int:
    while end and text[end - 1] in _BLANK:
        end -= 1
    return end
