"""Part files: what one host saw of its ranks, so that the rest can be done anywhere (schema ``firstnan.part/2``).

A part file is JSON. Its head says in plain words which host and folders it came from; what the analysis needs of a rank
stands beside it in packed form (``data``: MessagePack, deflated, in base64): some KB for a rank on which something is
suspected, less for a healthy one. It holds names, source lines and paths of the dump, like a report.

A part file is untrusted: :func:`read` checks every value against its type and bounds what it unpacks.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from firstnan.dump.call_site import CallSite
from firstnan.dump.errors import InputError
from firstnan.dump.folders import RankFolder
from firstnan.dump.problems import Problem
from firstnan.dump.ranges import MAX_NUMBERS
from firstnan.dump.records import Record
from firstnan.operators.communication import CallKey
from firstnan.rank.magnitudes import Magnitudes
from firstnan.rank.roster import Roster
from firstnan.rank.sharing import Sharing
from firstnan.rank.summary import RankSummary, Weights
from firstnan.read.fingerprints import OperatorPrints
from firstnan.read.layout.dump_layout import Layout
from firstnan.read.sources import places
from firstnan.read.sources.files import Fault, open_regular
from firstnan.run import packed_roster
from firstnan.run.packed_roster import PackedRoster
from firstnan.run.second_pass import AllCalls, Question, Wanted
from firstnan.version import __version__

SCHEMA = "firstnan.part/2"
MAX_BYTES = 256 << 20
"""Bytes of a part file that is read."""
MAX_PACKED = 64 << 20
"""Bytes of one rank's data, unpacked."""
MAX_UNPACKED = 1 << 30
"""Bytes of the data of all ranks of a part file, unpacked."""

_HINT = "give files that 'firstnan scan' wrote"
_INTEGERS = (-(2**63), 2**64 - 1)
"""The integers of MessagePack."""


T = TypeVar("T")


class Site(Struct, frozen=True):
    """Where one record was called from, and what was wrong with the files that say so."""

    site: CallSite
    problems: tuple[Problem, ...] = ()


class Answered(Struct, frozen=True):
    """A second look at a rank, made when another part asked for it."""

    summary: RankSummary
    """What the look gave."""
    whole: bool = False
    wanted: Wanted | None = None
    weights: bool = False
    disproved: frozenset[int] = frozenset()
    """What was asked (:class:`firstnan.run.second_pass.Question`)."""

    @classmethod
    def to(cls, question: Question, summary: RankSummary) -> Answered:
        return cls(summary, question.whole, question.wanted, question.weights, question.disproved)

    def answers(self, question: Question) -> bool:
        return self == self.to(question, self.summary)


class Stamp(Struct, frozen=True):
    """What tells a file from another one at the same path."""

    size: int
    """Bytes."""
    modified: int
    """Nanoseconds since 1970."""

    @classmethod
    def of(cls, path: Path) -> Stamp | None:
        """None where there is no such file."""
        found = places.stamp(path)
        return None if found is None else cls(*found)


class RankPart(Struct, frozen=True, omit_defaults=True):
    """One rank of one step, as its host saw it."""

    folder: RankFolder
    summary: RankSummary
    stamp: Stamp | None = None
    """Of dump.json."""
    made: Mapping[CallKey, int] | None = None
    """All calls by series, where the summary does not hold them."""
    mentioned: tuple[tuple[int, int], ...] = ()
    """Ranks that all its calls name: first and last of each range."""
    weights: Weights | None = None
    """The weights that the step begins with; None: only one step was scanned."""
    magnitudes: Magnitudes | None = None
    """The largest values, where several steps were scanned and a bad value may begin on this rank."""
    calls: bytes = b""
    """All calls, where they are few, packed: many ranks have them, few are asked (:func:`calls_of`)."""
    roster: bytes = b""
    """All calls by name, packed (:func:`roster_of`)."""
    operators: bytes = b""
    """Fingerprints of all operators, where the file is small, packed (:func:`operators_of`)."""
    gradients: bytes = b""
    """What is recorded of the gradients of parameters, where the file is small, packed (:func:`gradients_of`)."""
    sites: Mapping[str, Site] | None = None
    """Record name -> call site, for the records that can be named."""
    answered: tuple[Answered, ...] = ()
    """Second looks that another part asked for."""
    records: Mapping[str, Record | None] | None = None
    """Records that another part asked for by name."""


class Part(Struct, frozen=True):
    """What one host saw."""

    host: str
    path: str
    """The analysed path, on that host."""
    rules: str
    """The rules in force, as a rules file."""
    excluded: tuple[str, ...]
    """Answers that the user rejected."""
    ranks: tuple[RankPart, ...]
    layout: Layout
    """What lies at the path; its folders are those of the ranks."""
    asked: tuple[int, ...] | None = None
    """Ranks that were asked for; None: all."""
    asked_steps: tuple[int, ...] | None = None
    """Steps that were asked for; None: all."""


def packed_calls(calls: AllCalls | None) -> bytes:
    """Calls as a part holds them."""
    return b"" if calls is None else _pack(calls)


def calls_of(part: RankPart) -> AllCalls | None:
    """All calls of the rank; None where they are many."""
    return _CALLS.decode(_inflated(part.calls, MAX_PACKED)) if part.calls else None


def packed_calls_by_name(roster: Roster) -> bytes:
    """A roster as a part holds it."""
    return _pack(packed_roster.pack(roster))


def roster_of(part: RankPart) -> Roster | None:
    """All calls of a rank by name; None where the part is of a version that did not keep them.

    Raises:
        InputError: what the part holds is damaged.
    """
    folder = part.folder
    if not part.roster:
        return None if part.summary.records else Roster(folder.step, folder.rank)
    try:
        told = _ROSTER.decode(_inflated(part.roster, MAX_PACKED))
        return packed_roster.roster_of(told, folder.step, folder.rank)
    except (msgspec.DecodeError, zlib.error) as error:
        raise InputError(f"the calls of {folder.label} in its part are damaged: {error}", hint=_HINT) from error


def packed_operators(operators: OperatorPrints | None) -> bytes:
    """Fingerprints of operators as a part holds them."""
    return b"" if operators is None else _pack(operators)


def operators_of(part: RankPart) -> OperatorPrints | None:
    """Fingerprints of all operators of the rank; None where the file is large."""
    return _OPERATORS.decode(_inflated(part.operators, MAX_PACKED)) if part.operators else None


def packed_gradients(gradients: Mapping[str, Record] | None) -> bytes:
    """Records of gradients as a part holds them."""
    return b"" if gradients is None else _pack(gradients)


def gradients_of(part: RankPart) -> Mapping[str, Record] | None:
    """Records of the gradients of parameters by name; None where the file is large."""
    return _GRADIENTS.decode(_inflated(part.gradients, MAX_PACKED)) if part.gradients else None


class _Tool(Struct, frozen=True):
    name: str = "firstnan"
    version: str = __version__


class _PackedRank(Struct, frozen=True):
    """The first four are for people; :func:`read` uses ``data`` alone."""

    step: int
    rank: int
    folder: str
    suspected: bool
    data: bytes
    """A :class:`RankPart`."""


class _File(Struct, frozen=True):
    """A part file as JSON; bytes are in base64."""

    schema: str
    tool: _Tool
    host: str
    path: str
    asked: tuple[int, ...] | None
    asked_steps: tuple[int, ...] | None
    excluded: tuple[str, ...]
    rules: bytes
    """A text."""
    layout: bytes
    """A :class:`Layout` without its folders."""
    ranks: tuple[_PackedRank, ...]


class _Marked(Struct, frozen=True):
    """What every part file has, whatever its version."""

    schema: object = None


def to_text(part: Part) -> str:
    """A part as JSON text, ending with a line end."""
    file = _File(
        schema=SCHEMA,
        tool=_Tool(),
        host=_clean(part.host),
        path=_clean(part.path),
        asked=part.asked,
        asked_steps=part.asked_steps,
        excluded=tuple(map(_clean, part.excluded)),
        rules=_pack(part.rules),
        layout=_pack(replace(part.layout, folders=())),
        ranks=tuple(
            _PackedRank(
                step=one.folder.step,
                rank=one.folder.rank,
                folder=_clean(str(one.folder.path)),
                suspected=one.summary.suspect is not None,
                data=_pack(one),
            )
            for one in part.ranks
        ),
    )
    return msgspec.json.format(msgspec.json.encode(file), indent=1).decode() + "\n"


def read(path: Path, sharing: Sharing | None = None) -> Part:
    """A part file; with ``sharing``, what is equal to something in an earlier part takes no memory of its own.

    Raises:
        InputError: it cannot be read, or is no part file of this version.
    """
    raw = _content(path)
    try:
        schema = msgspec.json.decode(raw, type=_Marked).schema
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path} is no part file: {error}", hint=_HINT) from error
    if schema is None:
        raise InputError(f"{path} is no part file", hint=_HINT)
    if schema != SCHEMA:
        raise InputError(f"{path} has schema {schema!r}", hint=f"this version reads {SCHEMA!r}, from 'firstnan scan'")
    try:
        return _part(msgspec.json.decode(raw, type=_File), sharing or Sharing())
    except (msgspec.DecodeError, RecursionError, zlib.error) as error:
        raise InputError(f"{path} is damaged, or of another version: {error}", hint="scan that host again") from error


def _content(path: Path) -> bytes:
    try:
        opened = open_regular(path)
        if isinstance(opened, Fault):
            raise InputError(f"{path}: {opened.detail}", hint=_HINT)
        with io.BufferedReader(opened.file) as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}", hint=_HINT) from error
    if len(raw) > MAX_BYTES:
        raise InputError(f"{path} is larger than {MAX_BYTES} bytes", hint=_HINT)
    return raw


def _part(file: _File, sharing: Sharing) -> Part:
    ranks: list[RankPart] = []
    left = MAX_UNPACKED
    for one in file.ranks:
        content = _inflated(one.data, min(left, MAX_PACKED))
        left -= len(content)
        part = _RANK.decode(content)
        for packed, decoder in ((part.calls, _CALLS), (part.operators, _OPERATORS), (part.gradients, _GRADIENTS)):
            if packed:  # checked now, and unpacked again where they are asked for
                content = _inflated(packed, min(left, MAX_PACKED))
                left -= len(content)
                decoder.decode(content)
        part = _checked(part)
        ranks.append(replace(part, summary=sharing.summary(part.summary)))
    layout = _LAYOUT.decode(_inflated(file.layout, MAX_PACKED))
    return Part(
        host=file.host,
        path=file.path,
        rules=_TEXT.decode(_inflated(file.rules, MAX_PACKED)),
        excluded=file.excluded,
        ranks=tuple(ranks),
        layout=replace(layout, folders=tuple(one.folder for one in ranks)),
        asked=file.asked,
        asked_steps=file.asked_steps,
    )


def _checked(part: RankPart) -> RankPart:
    folder, summary = part.folder, part.summary
    if (folder.step, folder.rank) != (summary.step, summary.rank):
        raise msgspec.ValidationError(f"rank {folder.rank} holds what was seen of rank {summary.rank}")
    for ranges in (part.mentioned, *(one.mentioned for one in (summary, *(look.summary for look in part.answered)))):
        if sum(max(last - first, 0) + 1 for first, last in ranges) > MAX_NUMBERS:
            raise msgspec.ValidationError(f"rank {folder.rank} names more than {MAX_NUMBERS} ranks")
    return part


def _inflated(packed: bytes, most: int) -> bytes:
    opened = zlib.decompressobj()
    content = opened.decompress(packed, most + 1)
    if len(content) > most or not opened.eof:
        raise msgspec.DecodeError(f"packed data that is cut off or longer than {most} bytes")
    return content


def _pack(value: object) -> bytes:
    return zlib.compress(_encoded(value), 9)


def _encoded(value: object) -> bytes:
    try:
        return _ENCODER.encode(value)
    except (OverflowError, UnicodeEncodeError):  # an integer or a text of the dump that MessagePack cannot hold
        return _ENCODER.encode(_holdable(msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_plain)))


def _holdable(value: object) -> object:
    """Builtin values with integers cut to 64 bits and half characters written out.

    Such integers are sizes, ranks and numbers in names that no run has; numbers of tensors are floats where they are
    that large.
    """
    if isinstance(value, int):
        return value if isinstance(value, bool) else max(_INTEGERS[0], min(value, _INTEGERS[1]))
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, dict):
        return {_holdable(key): _holdable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_holdable(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_holdable(item) for item in value)
    return value


def _clean(text: str) -> str:
    """The text in UTF-8: names of files need not be."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain(value: object) -> bytes:
    """A path as the bytes that the system knows it by."""
    if isinstance(value, Path):
        return os.fsencode(value)
    raise NotImplementedError(f"no form for {type(value).__name__}")


def _typed(expected: type[T], raw: object) -> T:
    if expected is Path and isinstance(raw, bytes):
        return expected(os.fsdecode(raw))  # type: ignore[call-arg]
    return raw  # type: ignore[return-value]  # msgspec refuses what is not of the type


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)
_RANK = msgspec.msgpack.Decoder(RankPart, dec_hook=_typed)
_CALLS = msgspec.msgpack.Decoder(AllCalls)
_ROSTER = msgspec.msgpack.Decoder(PackedRoster)
_OPERATORS = msgspec.msgpack.Decoder(OperatorPrints)
_GRADIENTS = msgspec.msgpack.Decoder(dict[str, Record])
_LAYOUT = msgspec.msgpack.Decoder(Layout, dec_hook=_typed)
_TEXT = msgspec.msgpack.Decoder(str)
