"""Kinds of damage to one file of a dump, each with what the report has to say about it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

LARGE = int(os.environ.get("FIRSTNAN_TEST_LARGE_MB", "20")) << 20
"""Bytes of the huge files; 100 MB where a long run is wanted."""
BUFFER = 8187
"""Where a writer that is killed while rewriting leaves the file (dump format, section 11)."""


class Effect(Enum):
    """What a damage to dump.json does to what is known."""

    NONE = "none"
    """Everything was read as if the file were sound; nothing needs to be said."""
    TOLD = "told"
    """Everything that could be judged was read; the oddity is told."""
    UNJUDGED = "unjudged"
    """A part could not be judged: a clean verdict would not be complete."""


@dataclass(frozen=True)
class Damage:
    """One way to break a file."""

    name: str
    apply: Callable[[Path], None]
    effect: Effect = Effect.UNJUDGED


def _bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return apply


def _in_place(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """Something else stands where the file was."""

    def apply(path: Path) -> None:
        path.unlink()
        make(path)

    return apply


# --- not a file -------------------------------------------------------------------------------------------------


def _directory(path: Path) -> None:
    path.mkdir()
    (path / "inside.json").write_text("{}")


def _loop(path: Path) -> None:
    other = path.with_name("loop")
    other.symlink_to(path.name)
    path.symlink_to(other.name)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere.json")


def _to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _out_of_the_tree(path: Path) -> None:
    """The sound file, moved out of the dump with a link left behind."""
    outside = path.absolute().parents[3] / f"outside-{path.parent.name}-{path.name}"
    shutil.move(path, outside)
    path.symlink_to(outside)


NO_FILE = (
    Damage("absent", lambda path: path.unlink()),
    Damage("directory", _in_place(_directory)),
    Damage("fifo", _in_place(os.mkfifo)),
    Damage("link_loop", _in_place(_loop)),
    Damage("dangling_link", _in_place(_dangling)),
    Damage("link_to_a_device", _in_place(_to_a_device)),
    Damage("link_out_of_the_tree", _out_of_the_tree, Effect.NONE),
)


# --- other bytes ------------------------------------------------------------------------------------------------


def _latin_1(data: bytes) -> bytes:
    """An accent in a text that nobody needs, in a one-byte encoding."""
    return data.replace(b"{", b'{"caf\xe9": null, ', 1)


def _in_a_number(data: bytes) -> bytes:
    return data.replace(b"3.5", b"3\0.5", 1) if b"3.5" in data else data.replace(b": ", b": \0", 1)


BYTES = (
    Damage("empty", _bytes(lambda _: b"")),
    Damage("one_line_end", _bytes(lambda _: b"\n")),
    Damage("garbage", _bytes(lambda _: b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)),
    Damage("garbage_of_a_pickle", _bytes(lambda _: b"\x80\x04\x95\x10cos\nsystem\n")),
    Damage("garbage_behind", _bytes(lambda data: data + b"\xff\xfe\x00 }{"), Effect.UNJUDGED),
    Damage("html_of_a_proxy", _bytes(lambda _: b"<html><body>502</body></html>")),
    Damage("bom", _bytes(lambda data: b"\xef\xbb\xbf" + data), Effect.NONE),
    Damage("crlf", _bytes(lambda data: data.replace(b"\n", b"\r\n")), Effect.NONE),
    Damage("old_mac_lines", _bytes(lambda data: data.replace(b"\n", b"\r")), Effect.NONE),
    Damage("utf_16", _bytes(lambda data: data.decode().encode("utf-16")), Effect.TOLD),
    Damage("utf_16_without_mark", _bytes(lambda data: data.decode().encode("utf-16-le")), Effect.TOLD),
    Damage("utf_32", _bytes(lambda data: data.decode().encode("utf-32-be")), Effect.TOLD),
    Damage("latin_1", _bytes(_latin_1), Effect.TOLD),
    Damage("nul_only", _bytes(lambda data: b"\0" * len(data))),
    Damage("nul_behind", _bytes(lambda data: data + b"\0" * 4096), Effect.UNJUDGED),
    Damage("nul_second_half", _bytes(lambda data: data[: len(data) // 2].ljust(len(data), b"\0"))),
    Damage("nul_first_block", _bytes(lambda data: b"\0" * 512 + data[512:])),
    Damage("nul_in_a_number", _bytes(_in_a_number)),
    Damage("null", _bytes(lambda _: b"null")),
    Damage("list", _bytes(lambda data: b"[" + data + b"]")),
    Damage("string", _bytes(lambda data: json.dumps(data.decode()).encode())),
    Damage("twice", _bytes(lambda data: data * 2), Effect.UNJUDGED),
    Damage("older_longer_file_below", _bytes(lambda data: data + data[-300:]), Effect.UNJUDGED),
)


# --- cut --------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?(?:NaN|Infinity)|[-+.0-9eE]+|true|false|null|[{}\[\]:,]')


def places(data: bytes) -> dict[str, int]:
    """Every structural kind of place in a JSON text, with one offset for each.

    A kind is what stands there (before, inside or behind a bracket, key, string, number, word, colon or comma), how
    deep, and in an object or a list.
    """
    found: dict[str, int] = {}
    open_: list[str] = []
    for token in _TOKEN.finditer(data):
        text = token.group()
        if text in b"}]":
            open_.pop()
        where = f"depth {len(open_)} in {open_[-1] if open_ else 'the file'}"
        what = _kind(text, data[token.end() : token.end() + 1])
        found.setdefault(f"before {what}, {where}", token.start())
        if len(text) > 1:
            found.setdefault(f"inside {what}, {where}", token.start() + (len(text) + 1) // 2)
        found.setdefault(f"behind {what}, {where}", token.end())
        if text in b"{[":
            open_.append("object" if text == b"{" else "list")
    return {kind: offset for kind, offset in found.items() if 0 < offset < len(data)}


def _kind(text: bytes, behind: bytes) -> str:
    if text[:1] == b'"':
        return "key" if behind == b":" else "string"
    if text in b"{}[]:,":
        return f"'{text.decode()}'"
    return "word" if text.lstrip(b"-")[:1].isalpha() else "number"


def cut_at(offset: int) -> Callable[[Path], None]:
    return _bytes(lambda data: data[:offset])


def cut_damages(data: bytes) -> Iterator[Damage]:
    """Cuts at every kind of place; behind the end of ``data`` nothing that could be judged is lost."""
    end = data.rfind(b"}", 0, data.rfind(b"}"))
    for kind, offset in places(data).items():
        yield Damage(kind, cut_at(offset), Effect.TOLD if offset > end else Effect.UNJUDGED)


# --- rewritten --------------------------------------------------------------------------------------------------


def _rewriting(data: bytes) -> bytes:
    """Opened with truncation, one buffer written (the sample of a run killed while it rewrote the file)."""
    return data[: min(BUFFER, len(data) // 2)]


REWRITTEN = (
    Damage("truncated_by_open", _bytes(lambda _: b"")),
    Damage("first_buffer_only", _bytes(_rewriting)),
    Damage("shorter_over_longer", _bytes(lambda data: data[: len(data) // 3] + b"\n }\n}" + data[len(data) // 2 :])),
)


# --- content ----------------------------------------------------------------------------------------------------


def _huge_string(path: Path) -> None:
    """One line; a text of LARGE bytes in it."""
    head, tail = json.dumps(json.loads(path.read_bytes())).encode()[:-1], b"}"
    with path.open("wb") as file:
        file.write(head + b', "note": "')
        for _ in range(LARGE >> 20):
            file.write(b"x" * (1 << 20))
        file.write(b'"' + tail)


def _huge_number(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'{"data": {"Torch.exp.0.forward": ')
        for _ in range(LARGE >> 20):
            file.write(b"7" * (1 << 20))
        file.write(b"}}")


def _huge_blank(path: Path) -> None:
    data = path.read_bytes()
    with path.open("wb") as file:
        file.write(data[:1])
        for _ in range(LARGE >> 20):
            file.write(b" " * (1 << 20))
        file.write(data[1:])


def _huge_brackets(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'{"data": ')
        for _ in range(LARGE >> 20):
            file.write(b"[" * (1 << 20))


HUGE = (
    Damage("one_line_with_a_huge_string", _huge_string, Effect.NONE),
    Damage("one_huge_number", _huge_number),
    Damage("huge_blank", _huge_blank, Effect.NONE),
    Damage("huge_brackets", _huge_brackets),
)

DEEP = 10_000


def _nested(opening: str, closing: str) -> Callable[[Path], None]:
    """A new last entry, nested DEEP times."""

    def change(data: bytes) -> bytes:
        text = data.decode().rstrip()
        end = text.rindex("}", 0, len(text) - 1) if '"data"' in text else len(text) - 1
        deep = f', "Tensor.deep.0.forward": {{"input_args": {opening * DEEP}1{closing * DEEP}, "output": []}}'
        return (text[:end] + deep + text[end:]).encode()

    return _bytes(change)


NESTED = (
    Damage("lists_in_lists", _nested("[", "]")),
    Damage("objects_in_objects", _nested('{"a": ', "}")),
    Damage("nested_and_never_closed", _bytes(lambda data: data + b'{"a":[' * (DEEP // 2)), Effect.UNJUDGED),
)


Step = str | int


def replaced(path: tuple[Step, ...], value: Any) -> Callable[[Path], None]:
    """The value at a place of the document, replaced."""

    def apply(file: Path) -> None:
        top = json.loads(file.read_bytes())
        if not path:
            file.write_text(json.dumps(value, indent=1))
            return
        holder = top
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = value
        file.write_text(json.dumps(top, indent=1))

    return apply


ODD: dict[str, Any] = {
    "null": None,
    "true": True,
    "a number": 7,
    "a fraction": -0.5,
    "a text": "text",
    "no text": "",
    "a list": [],
    "a list of lists": [[[]]],
    "an object": {},
    "an object of objects": {"a": {"b": {}}},
}
"""One value of every type, full and empty."""


def typed_places(document: Any) -> Iterator[tuple[Step, ...]]:
    """One place for every level of a document: names of records and positions in lists count as one."""
    seen: set[tuple[str, ...]] = set()
    waiting: list[tuple[tuple[Step, ...], Any]] = [((), document)]
    while waiting:
        place, value = waiting.pop(0)
        kind = tuple(_general(step) for step in place)
        if kind in seen:
            continue
        seen.add(kind)
        yield place
        if len(place) > 3 and place[1] not in ("Functional.linear.0.forward", "Distributed.all_reduce.0.forward"):
            continue  # tensors are alike in every record
        if isinstance(value, dict):
            waiting += [((*place, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [((*place, index), item) for index, item in enumerate(value)]


def _general(step: Step) -> str:
    """``Functional.linear.0.forward`` stands for all forward operators, ``0`` for every position."""
    if isinstance(step, int) or step.isdigit():
        return "[]"
    if "." not in step:
        return step
    first, last = step.split(".")[0], step.rstrip(".0123456789").rpartition(".")[2]
    return first if first == "Distributed" else last if first != "Module" else f"module {last}"


# --- content that parses but cannot be ---------------------------------------------------------------------------

BIG = "1" + "0" * 399
NUMBERS = ("1e999", "-1e999", BIG, "-" + BIG, "9" * 5000, "1e-400", "-0", "1E+2", "NaN", '"1e999"', f'"{BIG}"')
"""Beyond what a double holds, and other forms of numbers."""


def with_numbers(keys: tuple[str, ...], number: str, upto: int = 1000) -> Callable[[Path], None]:
    """Every value of these keys (and every entry of lists of sizes and ranks), written as this number."""
    pattern = re.compile(rf'("(?:{"|".join(keys)})": )(-?[0-9.e+]+|-?Infinity|NaN|\[[^\]]*\])'.encode())

    def one(match: re.Match[bytes]) -> bytes:
        listed = b"[" + number.encode() + b", 1]" if match[2].startswith(b"[") else number.encode()
        return match[1] + listed

    return _bytes(lambda data: pattern.sub(one, data, count=upto))


def said_twice(key: str, first: str) -> Callable[[Path], None]:
    """The first occurrence of a key, with another value put before it."""
    return _bytes(lambda data: data.replace(f'"{key}"'.encode(), f'"{key}": {first}, "{key}"'.encode(), 1))
