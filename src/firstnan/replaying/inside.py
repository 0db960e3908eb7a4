"""A module is run again through the records inside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from firstnan.answer.replay import NotRun, Replay, ReplayVerdict
from firstnan.dump.folders import FileKind
from firstnan.dump.names import parse_name
from firstnan.dump.records import RecordKind
from firstnan.read.json import lenient
from firstnan.read.sources.files import Fault
from firstnan.read.sources.places import read_bytes
from firstnan.replaying.experiment import RankTensors
from firstnan.replaying.record import Limits, replay_record

_MOST = 200
"""Records inside one module that are run."""
_TELLING = (
    ReplayVerdict.NOT_REPRODUCED,
    ReplayVerdict.VALUES_DIFFER,
    ReplayVerdict.REPRODUCED_RANGE,
    ReplayVerdict.REPRODUCED,
)


def replay_module(name: str, tensors: RankTensors, rank: Path, limits: Limits) -> Replay:
    """The first record inside a module that is not what the CPU gets, else the first that makes NaN or Inf.

    The answer's detail names that record.
    """
    inner = [one for one in _records_inside(name, rank) if one in tensors.records][:_MOST]
    if not inner:
        return Replay(ReplayVerdict.NOT_RUN, NotRun.MODULE, name)
    answers = {one: replay_record(one, tensors, limits) for one in inner}
    for verdict in _TELLING:
        for one, answer in answers.items():
            if answer.verdict is verdict:
                return replace(answer, detail=one)
    unrun = next(((one, answer) for one, answer in answers.items() if answer.verdict is ReplayVerdict.NOT_RUN), None)
    if unrun is not None:
        return replace(unrun[1], detail=unrun[0])
    return Replay(ReplayVerdict.AGREES, detail=inner[-1])


def _records_inside(name: str, rank: Path) -> Iterator[str]:
    """Records of operators whose chain of callers leads to the module, in the order of construct.json."""
    data = read_bytes(rank / FileKind.CONSTRUCT.value)
    parents = {} if isinstance(data, Fault) else lenient.loads(data).value
    if not isinstance(parents, dict):
        return
    direction = parse_name(name).direction
    for child in parents:
        parsed = parse_name(child)
        if parsed.kind is RecordKind.API and parsed.direction is direction and name in _callers(child, parents):
            yield child


def _callers(name: str, parents: dict[str, object]) -> Iterator[str]:
    seen: set[str] = set()
    while name not in seen:
        seen.add(name)
        parent = parents.get(name)
        if isinstance(parent, list) and parent:
            parent = parent[0]
        if not isinstance(parent, str) or not parent:
            return
        yield parent
        name = parent
