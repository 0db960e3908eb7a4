"""The child process: loads torch, runs one record after the other, sends each answer before it begins the next."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from msgspec.structs import replace

from firstnan.answer.replay import BatchPlace, NotRun, Replay, ReplayVerdict
from firstnan.dump.folders import FileKind
from firstnan.dump.names import parse_name
from firstnan.dump.records import RecordKind
from firstnan.read.json import lenient
from firstnan.read.sources.files import Fault
from firstnan.read.sources.places import read_bytes
from firstnan.replaying import inside, repro
from firstnan.replaying.bad_elements.elements import Batch, batch_index
from firstnan.replaying.communication import is_call, replay_call
from firstnan.replaying.experiment import RankTensors
from firstnan.replaying.job import READY, Job, Task
from firstnan.replaying.record import Limits, replay_record
from firstnan.replaying.refusal import RefusedError

_ROOM = 2
"""Times the memory of one record that the process may take beyond what torch itself does."""
_FIRST = 64
"""Records among which the batch is looked for."""


def serve(job: Job, start: int, answers: Connection) -> None:
    """Answer the tasks of a job from the ``start``-th on, in their order."""
    torch.set_num_threads(1)
    _bound_memory(job.memory)
    work = _Work(job)
    answers.send(READY)
    for task in job.tasks[start:]:
        answers.send(work.answer(task))


def serve_repro(job: Job, answers: Connection, folder: Path) -> None:
    """Write the repro of the job's one record; answer None, or why not."""
    _bound_memory(job.memory)
    answers.send(READY)
    (chosen,) = job.tasks
    try:
        repro.write(chosen.op_name, _read(job.folders[chosen.step, chosen.rank]), folder)
    except RefusedError as refusal:
        answers.send(str(refusal))
    except OSError as error:
        answers.send(error)
    else:
        answers.send(None)


def _bound_memory(memory: int) -> None:
    """An allocation beyond the limit fails here, and the record is not run; the machine does not swap."""
    if sys.platform == "win32":  # the sizes that records tell are the only bound
        return
    import resource

    used = next(
        (int(line.split()[1]) << 10 for line in _lines(Path("/proc/self/status")) if line.startswith("VmData")), None
    )
    if used is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (used + _ROOM * memory, hard))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("ascii").splitlines()
    except OSError:
        return []


class _Ranks(Mapping[int, RankTensors]):
    """The ranks of one step, each read when it is asked for."""

    def __init__(self, folders: Mapping[int, Path]) -> None:
        self._folders = folders
        self._read: dict[int, RankTensors] = {}

    def __getitem__(self, rank: int) -> RankTensors:
        if rank not in self._read:
            self._read[rank] = _read(self._folders[rank])
        return self._read[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self._folders)

    def __len__(self) -> int:
        return len(self._folders)

    def __contains__(self, rank: object) -> bool:
        return rank in self._folders


def _read(folder: Path) -> RankTensors:
    data = read_bytes(folder / FileKind.DUMP.value)
    top = {} if isinstance(data, Fault) else lenient.loads(data).value
    if not isinstance(top, dict) or not isinstance(top.get("data"), dict):
        return RankTensors.of({}, None, folder)
    framework = top.get("framework")
    return RankTensors.of(top["data"], framework if isinstance(framework, str) else None, folder)


class _Work:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._limits = Limits(job.memory)
        self._ranks = cache(lambda step: _Ranks({rank: path for (at, rank), path in job.folders.items() if at == step}))

    def answer(self, task: Task) -> Replay:
        ranks = self._ranks(task.step)
        tensors = ranks[task.rank]
        if task.op_name not in tensors.records:
            return Replay(ReplayVerdict.NOT_RUN, NotRun.UNFINISHED, task.op_name)
        try:
            made = self._run(task, ranks, tensors)
        except MemoryError:
            made = Replay(ReplayVerdict.NOT_RUN, NotRun.TOO_LARGE)
        if made.elements is None:
            return made
        return replace(made, elements=replace(made.elements, batch=_batch_place(made, tensors)))

    def _run(self, task: Task, ranks: _Ranks, tensors: RankTensors) -> Replay:
        if is_call(task.op_name):
            return replay_call(task.op_name, task.rank, ranks, self._job.memory)
        if parse_name(task.op_name).kind is not RecordKind.API:
            return inside.replay_module(task.op_name, tensors, self._job.folders[task.step, task.rank], self._limits)
        return replay_record(task.op_name, tensors, self._limits)


def _batch_place(made: Replay, tensors: RankTensors) -> BatchPlace | None:
    """The element of the batch to which the first bad element belongs, where the sizes match."""
    bad, batch = made.elements, _batch(tensors)
    if bad is None or batch is None:
        return None
    index = batch_index(bad.first, bad.shape, batch.shape)
    if index is None:
        return None
    entry = _entry(tensors, batch)
    try:
        value = int(tensors.folder.load(entry)[index])
    except RefusedError:
        value = None
    return BatchPlace(batch.op_name, batch.slot, batch.shape, index, value)


def _batch(tensors: RankTensors) -> Batch | None:
    """The first whole numbers with two axes that go in: the tokens of a language model, as a rule."""
    for name, raw in list(tensors.records.items())[:_FIRST]:
        given = raw.get("input_args")
        for at, entry in enumerate(given if isinstance(given, list) else []):
            shape = entry.get("shape") if isinstance(entry, dict) else None
            whole = isinstance(entry, dict) and str(entry.get("dtype")).rpartition(".")[2].lower() in ("int64", "int32")
            if whole and isinstance(shape, list) and len(shape) == 2 and all(isinstance(size, int) for size in shape):
                return Batch(name, f"input_args.{at}", tuple(shape))
    return None


def _entry(tensors: RankTensors, batch: Batch) -> Mapping[str, object]:
    given = tensors.records[batch.op_name]["input_args"]
    entry = given[int(batch.slot.rpartition(".")[2])] if isinstance(given, list) else {}
    return entry if isinstance(entry, dict) else {}
