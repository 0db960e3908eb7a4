"""Small runs of training for the tests of the analysis, written as the dumping tool writes them.

A rank is built record by record, in execution order::

    run = Run()
    rank = run.rank(0)
    with rank.module("layers.0", "Mlp", [t(2.0)], [t(INF)]):
        rank.op("Torch.exp", [t(100.0)], [t(INF)])
    rank.all_reduce(t(INF), t(INF), group=(0, 1))
    report = run.analyze(tmp_path)

Every method gives the record's name. Numbers in names count per rank and operator, modules stand after the
records inside them, and ``output`` of communication repeats its arguments, as in real dumps.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import firstnan
from firstnan.answer.model import Report, RootCause
from firstnan.causes.step_answer import StepAnswer
from firstnan.dump.folders import RankFolder
from firstnan.dump.records import Record
from firstnan.dump.view import RankDump
from firstnan.operators import table
from firstnan.operators.communication import group_id
from firstnan.rank.summary import RankSummary
from firstnan.rank.survey import summarize
from firstnan.rank.taint.events import Event
from firstnan.read.callers import call_site
from firstnan.read.layout import dump_layout
from firstnan.read.records import full_reader
from firstnan.run.one_step import judge

NAN, INF = float("nan"), float("inf")
SHAPE = (4, 8)
Json = Any
_TINY: Json = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [3], "Max": 0.5, "Min": 0.25}


def t(
    high: Json, low: Json = "mirror", shape: Sequence[int] = SHAPE, dtype: str = "float32", grad: bool | None = True
) -> dict[str, Json]:
    """A tensor: ``t(2.0)`` lies in [-2, 2], ``t(INF)`` in [0, Inf], ``t(-INF)`` is a mask, ``t(NAN)`` holds NaN."""
    if low == "mirror":
        low = _mirror(high)
        high = 0.0 if high == -INF else high
    mean = None if high is None else 0.5 * (high + low)
    norm = None if high is None else abs(high)
    tensor: dict[str, Json] = {"type": "torch.Tensor", "dtype": f"torch.{dtype}", "shape": list(shape)}
    tensor |= {"Max": high, "Min": low, "Mean": mean, "Norm": norm}
    return tensor if grad is None else {**tensor, "requires_grad": grad}


def _mirror(high: Json) -> Json:
    if high is None or (isinstance(high, float) and math.isnan(high)):
        return high
    return -INF if high == -INF else 0.0 if high == INF else -abs(high)


def batch(high: Json, low: Json = "mirror", shape: Sequence[int] = SHAPE, dtype: str = "float32") -> dict[str, Json]:
    """A tensor that needs no gradient: input data."""
    return t(high, low, shape, dtype, grad=False)


def blank(shape: Sequence[int] = SHAPE, dtype: str = "float32") -> dict[str, Json]:
    """A tensor whose statistics are null."""
    return t(None, None, shape, dtype)


def scalar(value: Json, kind: str | None = None) -> dict[str, Json]:
    return {"type": kind or type(value).__name__, "value": value}


def group(*ranks: int) -> dict[str, Json]:
    return {"type": "torch.ProcessGroup", "group_ranks": list(ranks), "group_id": group_id(ranks)}


def reduce_op(name: str) -> dict[str, Json]:
    return {"type": "torch.distributed.ReduceOp", "value": f"RedOpType.{name}"}


def p2p_op(op: str, tensor: Json, peer: int, tag: int = 0, ranks: Sequence[int] = (0, 1)) -> dict[str, Json]:
    """One element of ``batch_isend_irecv``."""
    kind = "torch.distributed.P2POp"
    return {"class_type": kind, "tensor": tensor, "op": op, "peer": peer, "tag": tag, "group_id": group_id(ranks)}


def _value(raw: Json) -> Json:
    """Plain numbers, texts and lists as the tool writes them among arguments."""
    if isinstance(raw, (bool, int, float, str)):
        return scalar(raw)
    return [_value(item) for item in raw] if isinstance(raw, (list, tuple)) else raw


@dataclass
class Rank:
    """One rank of one step under construction."""

    step: int
    number: int
    data: dict[str, Json] = field(default_factory=dict)
    construct: dict[str, str | None] = field(default_factory=dict)
    header: dict[str, Json] = field(default_factory=dict)
    inside: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def _number(self, what: str) -> int:
        self.counts[what] = self.counts.get(what, -1) + 1
        return self.counts[what]

    def _put(self, name: str, record: dict[str, Json], parent: str | None) -> str:
        assert name not in self.data
        self.data[name] = record
        self.construct[name] = parent
        return name

    # -- compute ---------------------------------------------------------------------------------------

    def op(self, api: str, inputs: Sequence[Json] = (), outputs: Sequence[Json] = (), **kwargs: Json) -> str:
        """A forward call of an operator (``Torch.exp``)."""
        record = {
            "input_args": _value(inputs),
            "input_kwargs": {key: _value(item) for key, item in kwargs.items()},
            "output": _value(outputs),
        }
        name = f"{api}.{self._number(api)}.forward"
        return self._put(name, record, self.inside[-1] if self.inside else None)

    def backward(self, forward: str, gradients: Sequence[Json], outputs: Sequence[Json]) -> str:
        """The backward record of a call: gradients of its outputs in, gradients of its inputs out."""
        parent = self.construct.get(forward)
        turned = parent.replace(".forward", ".backward") if parent else None
        record = {"input": list(gradients), "output": list(outputs)}
        return self._put(forward.replace(".forward", ".backward"), record, turned)

    def skip(self, records: int) -> None:
        """So many small records that have nothing to do with the others."""
        for _ in range(records):
            self.op("Torch.relu", [_TINY], [_TINY])

    @contextmanager
    def module(
        self,
        path: str,
        kind: str,
        inputs: Sequence[Json] = (),
        outputs: Sequence[Json] = (),
        parameters: Mapping[str, Json] | None = None,
        **kwargs: Json,
    ) -> Iterator[str]:
        """A forward call of a module; the records of the ``with`` block are inside."""
        stem = f"Module.{path}.{kind}"
        name = f"{stem}.forward.{self._number(stem)}"
        parent = self.inside[-1] if self.inside else None
        self.inside.append(name)
        yield name
        self.inside.pop()
        record = {
            "input_args": _value(inputs),
            "input_kwargs": {key: _value(item) for key, item in kwargs.items()},
            "output": _value(outputs),
            "parameters": dict(parameters or {}),
        }
        self._put(name, record, parent)

    def parameters_grad(self, module: str, **gradients: Json) -> str:
        """Accumulated gradients of a module's own parameters."""
        stem, number = module.split(".forward.")
        record = {name: [gradient] for name, gradient in gradients.items()}
        return self._put(f"{stem}.parameters_grad.{number}", record, None)

    # -- communication ---------------------------------------------------------------------------------

    def comm(self, api: str, args: Sequence[Json], kwargs: Mapping[str, Json], after: Mapping[Json, Json]) -> str:
        """Any call of ``torch.distributed``: ``after`` holds what position or keyword shows afterwards."""
        output = [_value(after.get(at, item)) for at, item in enumerate(args)]
        output += [_value(after.get(key, item)) for key, item in kwargs.items()]
        name = f"Distributed.{api}.{self._number(api)}.forward"
        record = {
            "input_args": _value(list(args)),
            "input_kwargs": {key: _value(item) for key, item in kwargs.items()},
            "output": output,
        }
        return self._put(name, record, self.inside[-1] if self.inside else None)

    def all_reduce(
        self, sent: Json, received: Json, group: Sequence[int] | None = None, op: str = "", async_op: bool = False
    ) -> str:
        kwargs = {"op": reduce_op(op)} if op else {}
        return self.comm("all_reduce", [sent], kwargs | _more(group, async_op), {0: received})

    def broadcast(self, before: Json, received: Json, src: int, group: Sequence[int] | None = None) -> str:
        return self.comm("broadcast", [before], {"src": src} | _more(group), {0: received})

    def all_gather(self, sent: Json, received: Sequence[Json], group: Sequence[int] | None = None) -> str:
        return self.comm("all_gather", [None, sent], _more(group), {0: list(received)})

    def all_gather_into_tensor(self, sent: Json, received: Json, group: Sequence[int] | None = None) -> str:
        return self.comm("all_gather_into_tensor", [None, sent], _more(group), {0: received})

    def reduce_scatter(self, sent: Sequence[Json], received: Json, group: Sequence[int] | None = None) -> str:
        return self.comm("reduce_scatter", [None, list(sent)], _more(group), {0: received})

    def send(self, tensor: Json, dst: int, group: Sequence[int] | None = None, tag: int = 0) -> str:
        return self.comm("send", [tensor], {"dst": dst, **({"tag": tag} if tag else {})} | _more(group), {})

    def recv(self, tensor: Json, src: int, group: Sequence[int] | None = None, tag: int = 0) -> str:
        return self.comm("recv", [None], {"src": src, **({"tag": tag} if tag else {})} | _more(group), {0: tensor})

    def batch_isend_irecv(self, *operations: Json) -> str:
        return self.comm("batch_isend_irecv", [list(operations)], {}, {})

    # -- files -----------------------------------------------------------------------------------------

    def write(self, folder: Path) -> None:
        """dump.json, construct.json and stack.json as the tool writes them (bare NaN, indent 1)."""
        folder.mkdir(parents=True, exist_ok=True)
        top = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
        files = {"dump": {**top, **self.header, "data": self.data}, "construct": self.construct, "stack": self.stack()}
        for name, content in files.items():
            (folder / f"{name}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")

    def stack(self) -> dict[str, Json]:
        names = [n for n in self.data if n.endswith(".forward") or ".forward." in n]
        frame = "File /train/model.py, line {}, in forward, \n step()"
        return {str(at): [[name], [frame.format(at + 1)]] for at, name in enumerate(names)}


def _more(ranks: Sequence[int] | None, async_op: bool = False) -> dict[str, Json]:
    found: dict[str, Json] = {} if ranks is None else {"group": group(*ranks)}
    return found | ({"async_op": True} if async_op else {})


@dataclass
class Run:
    """Ranks and steps of one dump."""

    ranks: dict[tuple[int, int], Rank] = field(default_factory=dict)

    def rank(self, number: int, step: int = 0) -> Rank:
        return self.ranks.setdefault((step, number), Rank(step, number))

    def drop(self, number: int) -> None:
        """The rank's folders are not there."""
        self.ranks = {key: rank for key, rank in self.ranks.items() if key[1] != number}

    def write(self, root: Path) -> Path:
        for (step, number), rank in self.ranks.items():
            rank.write(root / f"step{step}" / f"rank{number}")
        return root

    def analyze(self, root: Path, **options: Json) -> Report:
        return firstnan.analyze(self.write(root), firstnan.Options(jobs=1, **options))

    def trace(self, root: Path, rank: int, **options: Json) -> Report:
        return firstnan.trace(self.write(root), rank, firstnan.Options(jobs=1, **options))

    def dumps(self, root: Path) -> dict[int, RankDump]:
        """The ranks of the first step as the reader gives them."""
        first = min(step for step, _ in self.ranks)
        folders = dump_layout.find(self.write(root)).folders
        return {f.rank: full_reader.read(f) for f in folders if f.step == first}

    def summaries(self, root: Path) -> dict[int, RankSummary]:
        return {rank: summary(dump.folder, dump) for rank, dump in self.dumps(root).items()}

    def judge(self, root: Path) -> StepAnswer:
        summaries = self.summaries(root)
        return judge(min(step for step, _ in self.ranks), summaries, sorted(summaries), table.load())


def summary(folder: RankFolder, dump: RankDump | None = None) -> RankSummary:
    parents, _ = call_site.parents(folder)
    return summarize(dump or full_reader.read(folder), parents, table.load())


def events(rank: Rank, root: Path) -> list[Event]:
    """The events of one rank, in execution order."""
    run = Run({(rank.step, rank.number): rank})
    return list(run.summaries(root)[rank.number].events)


def record(rank: Rank, name: str, root: Path) -> Record:
    run = Run({(rank.step, rank.number): rank})
    return next(r for r in run.dumps(root)[rank.number].records if r.name.full == name)


def the_cause(report: Report) -> RootCause:
    """The only root cause of a report."""
    assert len(report.root_causes) == 1, [(c.rank, c.op_name) for c in report.root_causes]
    return report.root_causes[0]


def named(report: Report) -> list[tuple[int, str]]:
    """Rank and record of every root cause."""
    return [(cause.rank, cause.op_name) for cause in report.root_causes]
