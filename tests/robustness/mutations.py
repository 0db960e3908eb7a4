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
from enum import Enum
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


def written_anew(root: Path, indent: int | None) -> None:
    """Every file with the same content in another layout; what is cut stays as it is."""
    for path in root.glob("step*/*/*.json"):
        try:
            content = json.loads(path.read_bytes())
        except ValueError:
            continue
        path.write_text(json.dumps(content, indent=indent))


# --- other names of modules -----------------------------------------------------------------------------------------

_MODULE = re.compile(r"^(Module|Cell)\.(.+)\.([^.]+)\.(forward|backward|parameters_grad)(\.\d+)?$")


def renamed(name: str) -> str:
    """A record name with other names for the parts of its module's path; class and number stay.

    >>> renamed("Module.layers.0.fc.Linear.forward.3")
    'Module.xlayers.0.xfc.Linear.forward.3'
    """
    found = _MODULE.match(name)
    if not found:
        return name
    path = ".".join(part if part.isdigit() or part.startswith("_") else f"x{part}" for part in found[2].split("."))
    return f"{found[1]}.{path}.{found[3]}.{found[4]}{found[5] or ''}"


def rename_modules(root: Path) -> bool:
    """Other names for all modules, in every file. False when a file cannot be rewritten, or there are none."""
    texts: dict[Path, str] = {}
    changed = False
    for path in root.glob("step*/*/*.json"):
        try:
            content = json.loads(path.read_bytes())
        except ValueError:
            return False
        anew = _with_names(content)
        changed = changed or anew != content
        texts[path] = json.dumps(anew, indent=1)
    for path, text in texts.items():
        path.write_text(text)
    return changed


def _with_names(value: Json) -> Json:
    if isinstance(value, dict):
        return {renamed(key): _with_names(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_names(item) for item in value]
    return renamed(value) if isinstance(value, str) else value


# --- that take knowledge away ---------------------------------------------------------------------------------------


def place_of(folder: Path) -> tuple[int, int]:
    """Step and rank of a rank folder; a process without a rank is rank 0."""
    rank = folder.name.removeprefix("rank")
    return int(folder.parent.name.removeprefix("step")), int(rank) if rank.isdigit() else 0


def operator_of(name: str) -> str:
    """A record name without its number.

    >>> operator_of("Torch.exp.2.forward"), operator_of("Module.layers.0.fc.Linear.forward.3")
    ('Torch.exp.forward', 'Module.layers.0.fc.Linear.forward')
    """
    parts = name.split(".")
    number = len(parts) - 1 if parts[-1].isdigit() else len(parts) - 2
    return ".".join(parts[:number] + parts[number + 1 :])


class Blinding(Enum):
    """What is taken away of one record."""

    STATISTICS = "statistics"
    """Max, Min, Mean and Norm of all its tensors are null."""
    RESULTS = "results"
    """... of its results alone."""
    KEYS = "keys"
    """The keys of the statistics are not there."""
    NO_TENSOR = "no tensor"
    """``"output": []``."""
    NULL = "null"
    """``"output": null``."""
    NO_RESULT = "no result"
    """No ``output``."""
    READER = "reader"
    """All its statistics, and those that the next record takes in."""
    NEIGHBOURS = "neighbours"
    """All statistics of the record, of the four before it and of the one behind it."""
    END = "end"
    """All its statistics, and the file ends a few records behind it."""


_STATISTICS = ("Max", "Min", "Mean", "Norm")


def blank(root: Path, step: int, rank: int, name: str, way: Blinding = Blinding.STATISTICS, left: int = 3) -> bool:
    """Takes what is recorded of one record away; ``left``: so many records stand behind it where the file ends there.

    False when the file cannot be rewritten, or has no such record.
    """
    folder = next((f for f in root.glob(f"step{step}/*") if f.is_dir() and place_of(f)[1] == rank), None)
    if folder is None:
        return False
    try:
        document = json.loads((folder / "dump.json").read_bytes())
    except (OSError, ValueError):
        return False
    data = document["data"]
    record = data.get(name)
    if record is None:
        return False
    names = list(data)
    at = names.index(name)
    if way is Blinding.NO_TENSOR:
        record["output"] = []
    elif way is Blinding.NULL:
        record["output"] = None
    elif way is Blinding.NO_RESULT:
        record.pop("output", None)
    elif way is Blinding.KEYS:
        for value in _objects(record):
            for key in _STATISTICS:
                value.pop(key, None)
    else:
        _forget(record.get("output") if way is Blinding.RESULTS else record)
    if way is Blinding.READER:
        for behind in names[at + 1 : at + 2]:
            _forget([value for key, value in data[behind].items() if key.startswith("input")])
    if way is Blinding.NEIGHBOURS:
        for near in names[max(at - 4, 0) : at + 2]:
            _forget(data[near])
    if way is Blinding.END:
        for behind in names[at + 1 + left :]:
            del data[behind]
    (folder / "dump.json").write_text(json.dumps(document, indent=1))
    return True


def _forget(content: Json) -> None:
    for value in _objects(content):
        if "Max" in value:
            value.update(dict.fromkeys(_STATISTICS))


def holds_bad_values(root: Path) -> bool:
    """Whether any file shows a value that is not finite and no mask."""
    bad = re.compile(rb'NaN|(?<!-)Infinity|"nan"|"inf"')
    return any(bad.search(path.read_bytes()) for path in root.glob("step*/*/dump.json"))


def mentions(root: Path, rank: int) -> bool:
    """Whether the other ranks' files show that a rank was there: a group, a peer, or a larger rank."""
    if any(other > rank for other in ranks_of(root)):
        return True
    for path in root.glob("step*/rank*/dump.json"):
        try:
            content = json.loads(path.read_bytes())
        except ValueError:
            continue
        for value in _objects(content):
            members = value.get("group_ranks")
            peers = [value.get(key) for key in _ROOTS]
            numbers = [peer.get("value") if isinstance(peer, dict) else peer for peer in peers]
            if (isinstance(members, list) and rank in members) or rank in numbers:
                return True
    return False


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
