"""Random programs over several ranks, in which one known record makes the first NaN.

A program is a list of actions in one global order (so that nothing can hang). Every rank holds a list of tensors;
an action reads some and changes or adds one; NaN in gives NaN out, as in arithmetic. At the end each rank reads all
its tensors, so that every bad value matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from hypothesis import strategies as st
from made_runs import INF, NAN, Json, Rank, Run, p2p_op, t


class Act(Enum):
    """What one action does."""

    COMPUTE = "compute"
    """A rank computes from two of its tensors, into the first or into a new one."""
    ALL_REDUCE = "all_reduce"
    ASYNC_ALL_REDUCE = "async all_reduce"
    """Its record shows the values from before the communication."""
    BROADCAST = "broadcast"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    SEND = "send"
    BATCH = "batch_isend_irecv"
    """The receiver's record shows the buffer from before the message."""


class Source(Enum):
    """How the first NaN comes about."""

    BIRTH = "birth"
    """Clean inputs, bad output."""
    ENTRY = "entry"
    """An input is bad that no record wrote."""


@dataclass(frozen=True)
class Action:
    act: Act
    ranks: tuple[int, ...]
    """Members in group order; for messages sender and receiver; for computation the rank."""
    pick: tuple[int, int]
    """Which of its tensors each rank takes (modulo their number)."""
    named: bool = True
    """Whether the group is written; only a call of all ranks can leave it out."""
    fresh: bool = False
    """Computation: into a new tensor."""


@dataclass(frozen=True)
class Program:
    world: int
    actions: tuple[Action, ...]
    origin: int
    """Index of the action that makes the first NaN (a computation)."""
    source: Source
    wrapped: bool
    """Whether each rank's records stand inside one module."""
    pauses: tuple[int, ...] = ()
    """Numbers of actions before which every rank does something else for a long time."""


@st.composite
def programs(draw: st.DrawFn, *, named: bool = False, long: bool = False) -> Program:
    """Any program; ``named``: every collective writes its group; ``long``: with pauses, and without records that are
    older than their results."""
    world = draw(st.integers(2, 4 if long else 6))
    acts = [act for act in Act if not (long and act in (Act.BATCH, Act.ASYNC_ALL_REDUCE))]
    actions = draw(st.lists(_actions(world, named, acts), min_size=3, max_size=14))
    computing = [at for at, action in enumerate(actions) if action.act is Act.COMPUTE]
    if not computing:
        actions.insert(0, Action(Act.COMPUTE, (draw(st.integers(0, world - 1)),), (0, 1)))
        computing = [0]
    origin = draw(st.sampled_from(computing))
    pauses = draw(st.lists(st.integers(0, len(actions)), min_size=1, max_size=2)) if long else []
    source, wrapped = draw(st.sampled_from(Source)), draw(st.booleans())
    return Program(world, tuple(actions), origin, source, wrapped, tuple(pauses))


@st.composite
def _actions(draw: st.DrawFn, world: int, named: bool, acts: Sequence[Act]) -> Action:
    act = draw(st.sampled_from([Act.COMPUTE, *acts]))
    ranks = draw(st.permutations(range(world)))
    pick = (draw(st.integers(0, 7)), draw(st.integers(0, 7)))
    if act is Act.COMPUTE:
        return Action(act, tuple(ranks[:1]), pick, fresh=draw(st.booleans()))
    if act in (Act.SEND, Act.BATCH):
        return Action(act, tuple(ranks[:2]), pick)
    members = tuple(ranks[: draw(st.integers(2, world))])
    return Action(act, members, pick, named=named or len(members) < world or draw(st.booleans()))


@dataclass
class Played:
    """A program as a dump, with what is true of it."""

    run: Run
    cause: tuple[int, str]
    """Rank and record of the first NaN."""
    infected: set[int]
    """Ranks that hold a bad value at the end."""
    provable: bool
    """Every rank that got it from the source itself got it through a call that names the source and was recorded
    after it was complete."""


PAUSE = 700
"""Records of a pause: dumps of that length are not looked at whole."""
_COMPUTATIONS = ("Torch.mul", "Torch.lerp", "Tensor.__add__", "Torch.sub")


@dataclass
class _Player:
    program: Program
    numbers: Sequence[int]
    """Logical rank -> rank number."""
    run: Run = field(default_factory=Run)
    tensors: dict[int, list[Json]] = field(default_factory=dict)
    made: int = 0
    direct: list[bool] = field(default_factory=list)
    cause: tuple[int, str] | None = None

    def play(self) -> Played:
        for rank in self.order():
            self.tensors[rank] = [self.finite(), self.finite()]
        if self.program.wrapped:
            self.play_wrapped(list(self.order()))
        else:
            self.play_all()
        infected = {self.numbers[r] for r, held in self.tensors.items() if any(_is_bad(one) for one in held)}
        assert self.cause is not None
        return Played(self.run, self.cause, infected, bool(self.direct) and all(self.direct))

    def play_wrapped(self, left: list[int]) -> None:
        if not left:
            self.play_all()
            return
        rank, *rest = left
        result = [t(1.0)]
        with self.on(rank).module("stage", "Stage", [t(1.0)], result):
            self.play_wrapped(rest)
            result[:] = [self.outcome(rank)]

    def play_all(self) -> None:
        for at, action in enumerate(self.program.actions):
            self.pause(at)
            if action.act is Act.COMPUTE:
                self.compute(at, action)
            else:
                self.communicate(action)
        self.pause(len(self.program.actions))
        for rank in self.order():
            self.on(rank).op("Torch.addcmul", self.tensors[rank], [self.outcome(rank)])

    def pause(self, at: int) -> None:
        """Records that have nothing to do with the program, of another shape."""
        for _ in range(self.program.pauses.count(at)):
            for rank in self.order():
                self.on(rank).skip(PAUSE)

    def order(self) -> range:
        return range(self.program.world)

    def on(self, rank: int) -> Rank:
        return self.run.rank(self.numbers[rank])

    def finite(self) -> Json:
        self.made += 1
        return t(1.0 + self.made / 64.0)

    def result(self, *inputs: Json) -> Json:
        return t(NAN) if any(map(_is_bad, inputs)) else self.finite()

    def total(self, inputs: Iterable[Json]) -> Json:
        """The sum of tensors, at most."""
        known = list(inputs)
        return t(NAN) if any(map(_is_bad, known)) else t(sum(one["Max"] for one in known))

    def outcome(self, rank: int) -> Json:
        return self.result(*self.tensors[rank])

    def compute(self, at: int, action: Action) -> None:
        rank = action.ranks[0]
        held = self.tensors[rank]
        first, second = (p % len(held) for p in action.pick)
        api = _COMPUTATIONS[action.pick[0] % len(_COMPUTATIONS)]
        source = self.program.source if at == self.program.origin else None
        if source is Source.ENTRY and not _is_bad(held[first]):
            held[first] = t(NAN)
        inputs = [held[first], held[second]]
        output = t(NAN) if source else self.result(*inputs)
        name = self.on(rank).op(api, inputs, [output])
        if source:
            self.cause = (self.numbers[rank], name)
        if action.fresh:
            held.append(output)
        else:
            held[first] = output

    def communicate(self, action: Action) -> None:
        """One call, and whether it proves to the ranks that got the source's NaN where they have it from."""
        before = self.bad_ranks()
        is_message = action.act in (Act.SEND, Act.BATCH)
        if is_message:
            self.message(action)
        else:
            self.collective(action)
        source = self.numbers.index(self.cause[0]) if self.cause else -1
        if self.bad_ranks() - before and source in action.ranks:
            alone = len(before.intersection(action.ranks)) == 1
            told = is_message or (action.named and action.act is not Act.ASYNC_ALL_REDUCE)
            self.direct.append(alone and told)

    def bad_ranks(self) -> set[int]:
        return {rank for rank, held in self.tensors.items() if any(map(_is_bad, held))}

    def message(self, action: Action) -> None:
        sender, receiver = action.ranks
        value = self.tensors[sender][action.pick[0] % len(self.tensors[sender])]
        source, target = self.numbers[sender], self.numbers[receiver]
        if action.act is Act.SEND:
            self.on(sender).send(value, target)
            self.on(receiver).recv(value, source)
        else:
            pair = tuple(sorted((source, target)))
            self.on(sender).batch_isend_irecv(p2p_op("isend", value, target, ranks=pair))
            self.on(receiver).batch_isend_irecv(p2p_op("irecv", t(0.0), source, ranks=pair))
        self.tensors[receiver].append(value)

    def parts(self, rank: int, first: int, count: int) -> list[Json]:
        held = self.tensors[rank]
        return [held[(first + at) % len(held)] for at in range(count)]

    def collective(self, action: Action) -> None:
        members, pick = action.ranks, action.pick[0]
        places = {r: pick % len(self.tensors[r]) for r in members}
        sent = {r: self.tensors[r][places[r]] for r in members}
        group = tuple(self.numbers[r] for r in members) if action.named else None
        if action.act is Act.BROADCAST:
            root = members[action.pick[1] % len(members)]
            for rank in members:
                before = sent[root] if rank == root else self.finite()
                self.on(rank).broadcast(before, sent[root], self.numbers[root], group)
                if rank != root:
                    self.tensors[rank].append(sent[root])
            return
        if action.act is Act.ALL_GATHER:
            gathered = [sent[r] for r in members]
            for rank in members:
                self.on(rank).all_gather(sent[rank], gathered, group)
                self.tensors[rank] += gathered
        elif action.act is Act.REDUCE_SCATTER:
            lists = {r: self.parts(r, pick, len(members)) for r in members}
            for at, rank in enumerate(members):
                result = self.total(lists[r][at] for r in members)
                self.on(rank).reduce_scatter(lists[rank], result, group)
                self.tensors[rank].append(result)
        else:
            late = action.act is Act.ASYNC_ALL_REDUCE
            result = self.total(sent.values())
            for rank in members:
                self.on(rank).all_reduce(sent[rank], sent[rank] if late else result, group, async_op=late)
                self.tensors[rank][places[rank]] = result


def _is_bad(tensor: Json) -> bool:
    return bool(tensor["Max"] != tensor["Max"] or tensor["Max"] == INF)


def play(program: Program, numbers: Sequence[int] | None = None) -> Played:
    """The dump of a program; ``numbers`` gives each rank its number (0, 1, 2 ... by default)."""
    return _Player(program, numbers or range(program.world)).play()
