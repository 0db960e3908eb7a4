"""Changes to a dump whose root cause is known: some must not change the answer, some take the cause away.

All work on folders ``step<N>/rank<R>`` with the files as the dumping tool lays them out.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Json = Any
_RECORD = re.compile(rb'\n  "((?:[^"\\]|\\.)*)": \{')
_PEER_APIS = frozenset({"send", "isend", "recv", "irecv", "broadcast", "reduce", "scatter", "gather"})
_ROOTS = ("src", "dst", "peer")


def ranks_of(root: Path) -> list[int]:
    """Ranks with a numbered folder."""
    names = {path.name for path in root.glob("step*/rank*")}
    return sorted(int(name[4:]) for name in names if name[4:].isdigit())


def folders_of(root: Path, rank: int) -> list[Path]:
    """The rank's folder in every step."""
    return sorted(root.glob(f"step*/rank{rank}"))


# --- that must not change the answer -------------------------------------------------------------------------------


def drop(root: Path, rank: int) -> None:
    """The rank's folders are not there."""
    for folder in folders_of(root, rank):
        shutil.rmtree(folder)


def remove_files(root: Path, name: str) -> None:
    for path in root.glob(f"step*/*/{name}"):
        path.unlink()


def compact(root: Path) -> None:
    """Every file on one line, without blanks; what is cut stays as it is."""
    for path in root.glob("step*/*/*.json"):
        try:
            text = json.dumps(json.loads(path.read_bytes()), separators=(",", ":"))
        except ValueError:
            continue
        path.write_text(text)


def made_anew(root: Path, target: Path, chance: random.Random) -> None:
    """A copy whose folders came into being in another order, at other times."""
    folders = list(root.glob("step*/*"))
    chance.shuffle(folders)
    for folder in folders:
        copy = target / folder.relative_to(root)
        shutil.copytree(folder, copy)
        for path in (*copy.iterdir(), copy, copy.parent):
            moment = chance.randrange(1, 2**31)
            os.utime(path, (moment, moment))


def records_in(data: bytes) -> list[tuple[str, int]]:
    """Name and place of every record of a dump.json."""
    return [(match[1].decode(), match.start()) for match in _RECORD.finditer(data)]


def cut(path: Path, offset: int) -> None:
    path.write_bytes(path.read_bytes()[:offset])


# --- other numbers for the ranks -----------------------------------------------------------------------------------


def renumber(root: Path, to: Mapping[int, int]) -> bool:
    """Other numbers for all ranks: of folders, of groups, of peers. False when a file cannot be rewritten."""
    documents = {}
    for rank in ranks_of(root):
        for folder in folders_of(root, rank):
            try:
                documents[folder] = json.loads((folder / "dump.json").read_bytes())
            except (OSError, ValueError):
                return False
    for folder, document in documents.items():
        for name, record in document["data"].items():
            if "Distributed" in name.split(".")[0]:
                _renumber_record(name, record, to)
        (folder / "dump.json").write_text(json.dumps(document, indent=1))
    for step in root.glob("step*"):
        there = [rank for rank in ranks_of(root) if (step / f"rank{rank}").is_dir()]
        for rank in there:
            (step / f"rank{rank}").rename(step / f"moved{rank}")
        for rank in there:
            (step / f"moved{rank}").rename(step / f"rank{to[rank]}")
    return True


def _renumber_record(name: str, record: dict[str, Json], to: Mapping[int, int]) -> None:
    for value in _objects(record):
        members = value.get("group_ranks")
        if isinstance(members, list):
            value["group_ranks"] = [to.get(rank, rank) for rank in members]
            value["group_id"] = f"{zlib.crc32(str(value['group_ranks']).encode()):08x}"
        for key in _ROOTS:
            if isinstance(value.get(key), int):
                value[key] = to.get(value[key], value[key])
            elif isinstance(value.get(key), dict) and isinstance(value[key].get("value"), int):
                value[key]["value"] = to[value[key]["value"]]
    if name.split(".")[1] in _PEER_APIS:
        for side in ("input_args", "output"):
            arguments = record.get(side)
            if isinstance(arguments, list) and len(arguments) > 1 and _is_int(arguments[1]):
                arguments[1]["value"] = to[arguments[1]["value"]]


def _objects(value: Json) -> Iterator[dict[str, Json]]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _objects(item)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item)


def _is_int(value: Json) -> bool:
    return isinstance(value, dict) and value.get("type") == "int" and isinstance(value.get("value"), int)
