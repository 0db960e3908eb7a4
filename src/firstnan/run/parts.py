"""Part files: what one host saw of its ranks, so that the rest can be done anywhere (schema ``firstnan.part/1``).

A part file is JSON. Its head says in plain words which host and folders it came from; what the analysis needs of a rank
stands beside it in packed form (``data``: JSON, deflated, in base64): some KB for a rank on which something is
suspected, less for a healthy one. It holds names, source lines and paths of the dump, like a report.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

import firstnan
from firstnan.dump.call_site import CallSite
from firstnan.dump.errors import InputError
from firstnan.dump.folders import RankFolder
from firstnan.dump.problems import Problem
from firstnan.dump.records import Record
from firstnan.operators.communication import CallKey
from firstnan.rank.summary import RankSummary, Weights
from firstnan.read.layout.dump_layout import Layout
from firstnan.run.codec import CodecError, decode, encode
from firstnan.run.second_pass import AllCalls, Question, Wanted

SCHEMA = "firstnan.part/1"
MAX_BYTES = 256 << 20
"""Bytes of a part file that is read."""
MAX_PACKED = 64 << 20
"""Bytes of one rank's data, unpacked."""


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
    """What was asked (:class:`firstnan.run.second_pass.Question`)."""

    def answers(self, question: Question) -> bool:
        return (self.whole, self.wanted, self.weights) == (question.whole, question.wanted, question.weights)


class Stamp(Struct, frozen=True):
    """What tells a file from another one at the same path."""

    size: int
    """Bytes."""
    modified: int
    """Nanoseconds since 1970."""

    @classmethod
    def of(cls, path: Path) -> Stamp | None:
        """None where there is no such file."""
        try:
            seen = path.stat()
        except (OSError, ValueError):
            return None
        return cls(seen.st_size, seen.st_mtime_ns)


class RankPart(Struct, frozen=True):
    """One rank of one step, as its host saw it."""

    folder: RankFolder
    summary: RankSummary
    stamp: Stamp | None = None
    """Of dump.json."""
    made: Mapping[CallKey, int] | None = None
    """All calls by series, where the summary does not hold them."""
    mentioned: frozenset[int] = frozenset()
    """Ranks that all its calls name."""
    weights: Weights | None = None
    """The weights that the step begins with; None: only one step was scanned."""
    calls: AllCalls | None = None
    """All calls, where they are few."""
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


def to_text(part: Part) -> str:
    """A part as JSON text, ending with a line end."""
    document = {
        "schema": SCHEMA,
        "tool": {"name": "firstnan", "version": firstnan.__version__},
        "host": part.host,
        "path": part.path,
        "asked": encode(part.asked),
        "asked_steps": encode(part.asked_steps),
        "excluded": encode(part.excluded),
        "rules": _packed(part.rules),
        "layout": _packed(encode(replace(part.layout, folders=()))),
        "ranks": [_rank(one) for one in part.ranks],
    }
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {_shown(value)}" for key, value in document.items()) + "\n}\n"


def _shown(value: object) -> str:
    """One line for each item of the head, and for each rank."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"  {json.dumps(item, allow_nan=False)}" for item in value) + "\n ]"
    return json.dumps(value, allow_nan=False)


def _rank(part: RankPart) -> dict[str, object]:
    """The first four are for people; what is read back stands in ``data``."""
    return {
        "step": part.folder.step,
        "rank": part.folder.rank,
        "folder": str(part.folder.path),
        "suspected": part.summary.suspect is not None,
        "data": _packed(encode(part)),
    }


def read(path: Path) -> Part:
    """A part file.

    Raises:
        InputError: it cannot be read, or is no part file of this version.
    """
    document = _document(path)
    schema = document.get("schema")
    if schema is None:
        raise InputError(f"{path} is no part file", hint="give files that 'firstnan scan' wrote")
    if schema != SCHEMA:
        raise InputError(f"{path} has schema {schema!r}", hint=f"this version reads {SCHEMA!r}, from 'firstnan scan'")
    try:
        ranks = tuple(_read_rank(one) for one in decode(tuple[Any, ...], document.get("ranks")))
        layout: Layout = decode(Layout, _unpacked(document.get("layout")))
        return Part(
            host=decode(str, document.get("host")),
            path=decode(str, document.get("path")),
            rules=decode(str, _unpacked(document.get("rules"))),
            excluded=decode(tuple[str, ...], document.get("excluded")),
            ranks=ranks,
            layout=replace(layout, folders=tuple(one.folder for one in ranks)),
            asked=decode(tuple[int, ...] | None, document.get("asked")),
            asked_steps=decode(tuple[int, ...] | None, document.get("asked_steps")),
        )
    except (CodecError, RecursionError) as error:
        raise InputError(f"{path} is damaged, or of another version: {error}", hint="scan that host again") from error


def _document(path: Path) -> dict[str, Any]:
    hint = "give files that 'firstnan scan' wrote"
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        document = json.loads(raw) if len(raw) <= MAX_BYTES else None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no part file: {error}", hint=hint) from error
    if len(raw) > MAX_BYTES:
        raise InputError(f"{path} is larger than {MAX_BYTES} bytes", hint=hint)
    if not isinstance(document, dict):
        raise InputError(f"{path} is no part file", hint=hint)
    return document


def _read_rank(raw: object) -> RankPart:
    if not isinstance(raw, dict):
        raise CodecError("a rank that is no object")
    part: RankPart = decode(RankPart, _unpacked(raw.get("data")))
    folder, summary = part.folder, part.summary
    if (folder.step, folder.rank) != (summary.step, summary.rank):
        raise CodecError(f"rank {folder.rank} holds what was seen of rank {summary.rank}")
    return part


def _packed(value: object) -> str:
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _unpacked(raw: object) -> object:
    if not isinstance(raw, str):
        raise CodecError("packed data that is no text")
    try:
        opened = zlib.decompressobj()
        text = opened.decompress(base64.b64decode(raw, validate=True), MAX_PACKED)
        if not opened.eof:
            raise CodecError(f"packed data that is cut off or longer than {MAX_PACKED} bytes")
        return json.loads(text)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise CodecError(str(error)) from error
