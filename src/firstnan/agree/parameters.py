"""Parameters at their first use in a step, over replicas.

Rules, each tested under its name:

``replicas_stay_equal``
    Among ranks that exchange no activations, a parameter that was equal, or constant, differs: a gradient is not
    reduced, or a memory cell changed. The set is a set of replicas by its other parameters.
``equal_after_an_update_is_meant``
    A parameter that changed between two dumped steps and was equal in both is meant to be equal, whatever else the
    ranks do together. Not if it differed in between: replicas that are averaged every few steps part on purpose.
``one_seed_is_no_replica``
    Ranks that exchange activations and began with everything equal hold parts that were initialised alike: nothing is
    said when they drift apart, unless a sister of the same module stays equal (experts) or a majority is left.
``mixed_beginnings_are_deliberate``
    Where some parameters of such ranks differ from the beginning and others are equal, the equal ones are meant to be.
    One whose module gives its result to a reduction holds a part all the same.
``norms_before_a_gather_are_replicated``
    A module of vectors (a norm) whose result is gathered over the ranks works on a part of the sequence with the whole
    weight: its weight, constant at the beginning, must stay equal.
``norms_that_worked_alike_are_replicated``
    The same module gave all ranks the same result in the step before: its weight was the same, and must stay so.
``ranks_that_work_alone_are_replicas``
    Where no communication is recorded: most modules gave each rank another result, so that the ranks have data of their
    own, and every module of a differing parameter took in what an operator of its own rank gave. Parts of a tensor
    parallel model give or take equal activations, those of a sequence parallel one and experts take in what came from
    others.
``reduced_gradients_make_replicas``
    A parameter that differs from the beginning is meant to be equal if its gradient is reduced over the set.
``majority_of_three``
    Of at least three replicas most are equal and the others differ from the beginning: those stand out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property

from msgspec import Struct, field

from firstnan.agree.odd import groups as rank_groups
from firstnan.agree.odd import odd_ranks
from firstnan.agree.replicas import FEWEST, REPLICA, Traffic, group_of, groups, replica_sets, traffic
from firstnan.agree.sources import Replica, Sources
from firstnan.agree.tables import Names, Table, Value
from firstnan.agree.tally import Count
from firstnan.answer.model import (
    Confidence,
    Disagreement,
    DisagreementKind,
    DisagreementMechanism,
    Held,
    NotComparable,
    Note,
)
from firstnan.dump.records import TensorStat
from firstnan.dump.values import ValueState
from firstnan.operators.communication import ROLES, CommCall, Result, Root
from firstnan.read.fingerprints import UNUSABLE, OperatorPrints, RankPrints, column, digest_of, written

MAX_NAMED = 100
"""Parameters of one finding that are named."""
MAX_HELD = 24
"""Parameters of one finding of which is told which ranks hold the same."""
_PROVEN = 8
"""Parameters whose reduction is looked for; if all of these are reduced, the others are taken for reduced."""
MOST_READ = 512
"""Calls of one series that are read again to see what they carry."""
_ACCUMULATIONS = 4
"""Micro-batches whose gradients are looked for."""
_REDUCTIONS = tuple(r.api for r in ROLES.values() if r.reduces and r.root is Root.NONE and not r.family)
_GATHERS = tuple(r.api for r in ROLES.values() if r.result is Result.GATHERED and not r.family)


class _Beginning(Enum):
    """How a parameter was when it was first seen on a set of ranks."""

    EQUAL = "equal"
    """Equal, and its elements differ: no accident."""
    CONSTANT = "constant"
    """Equal, and all its elements are: says nothing."""
    DIFFERING = "differing"
    """Different."""


class _Seen(Struct):
    """One set in one step."""

    step: int
    equal: frozenset[str]
    constant: frozenset[str]
    differ: Mapping[str, Mapping[int, Value]]
    """Name -> what each rank holds, in execution order."""
    anchor: Table
    """The parameters of its first rank."""

    def value(self, name: str) -> Value | None:
        at = self.anchor.places.get(name)
        return None if at is None else self.anchor.value(at)


class _Set(Struct):
    """Ranks that are held against each other, over all steps."""

    ranks: tuple[int, ...]
    past: list[_Seen] = field(default_factory=list)
    is_replica: bool = False
    """At some step nearly all its parameters were equal."""
    is_settled: bool = False
    """It was reported: what follows are consequences."""


class Doubt(Struct, frozen=True):
    """Ranks that may be replicas and differ, without proof: worth a look at their operators."""

    step: int
    ranks: tuple[int, ...]


class Parameters:
    """Goes through the steps of a run, in order."""

    def __init__(self, sources: Sources, count: Count) -> None:
        self._sources = sources
        self._count = count
        self._sets: dict[tuple[int, ...], _Set] = {}
        self._prints: dict[int, Mapping[int, RankPrints]] = {}
        self.doubts: list[Doubt] = []

    def step(self, step: int, replicas: Mapping[int, Replica]) -> list[Disagreement]:
        """What differs for the first time in this step."""
        usable = {rank: one for rank, one in replicas.items() if len(one.prints.parameters)}
        self._prints[step] = {rank: one.prints for rank, one in usable.items()}
        wanted = [*self._sets, *groups(usable), *replica_sets(usable)]
        found: list[Disagreement] = []
        equal: set[str] = set()
        differ: set[str] = set()
        for ranks in dict.fromkeys(tuple(rank for rank in one if rank in usable) for one in wanted):
            if len(ranks) < 2:
                continue
            kept = self._sets.setdefault(ranks, _Set(ranks))
            seen = self._look(step, usable, ranks)
            total = len(seen.equal) + len(seen.differ)
            if total >= FEWEST and len(seen.equal) >= REPLICA * total:
                kept.is_replica = True
            equal.update(seen.equal)
            differ.update(seen.differ)
            if kept.is_settled:
                equal.update(seen.differ)  # compared, and a consequence
            elif seen.differ:
                finding = _Case(self._sources, kept, seen, usable, self._prints).finding()
                if finding is not None:
                    kept.is_settled = True
                    found.append(finding)
                elif kept.is_replica and kept.past:
                    self.doubts.append(Doubt(step, ranks))
            kept.past.append(seen)
        found = _without_repeats(found)
        self._tell(usable, equal, differ, found)
        return found

    def _look(self, step: int, replicas: Mapping[int, Replica], ranks: Sequence[int]) -> _Seen:
        tables = {rank: replicas[rank].table for rank in ranks}
        anchor = tables[ranks[0]]
        if all(anchor.same_as(tables[rank]) for rank in ranks[1:]):
            informative = frozenset(name for name, at in anchor.places.items() if anchor.is_informative(at))
            known = frozenset(name for name, at in anchor.places.items() if anchor.value(at) is not None)
            self._checksums(list(tables.values()))
            return _Seen(step, informative & known, known - informative, {}, anchor)
        names = dict.fromkeys(name for table in tables.values() for name in table.names)
        equal: set[str] = set()
        unchanging: set[str] = set()
        differ: dict[str, dict[int, Value]] = {}
        for name in names:
            held = {rank: tables[rank].places[name] for rank in ranks if name in tables[rank].places}
            values = {rank: tables[rank].value(at) for rank, at in held.items()}
            there = {rank: value for rank, value in values.items() if value is not None}
            if len(there) < 2 or len({tables[rank].forms[held[rank]] for rank in there}) > 1:
                continue
            if len(set(there.values())) > 1:
                differ[name] = there
            elif any(tables[rank].is_informative(held[rank]) for rank in there):
                equal.add(name)
            else:
                unchanging.add(name)
        order = sorted(differ, key=lambda name: min(tables[r].index(tables[r].places[name]) for r in differ[name]))
        return _Seen(step, frozenset(equal), frozenset(unchanging), {name: differ[name] for name in order}, anchor)

    def _checksums(self, tables: Sequence[Table]) -> None:
        """Counts checksums that differ beside equal statistics, and prove nothing."""
        if all(table.checksums and not table.on_device for table in tables):
            late = sum(len(set(values)) > 1 for values in zip(*(table.checksums for table in tables), strict=False))
            self._count.leave_out(NotComparable.CHECKSUM_OF_HOST_MEMORY, late)

    def _tell(
        self, replicas: Mapping[int, Replica], equal: set[str], differ: set[str], found: Iterable[Disagreement]
    ) -> None:
        """Each parameter of the step is counted once."""
        named = {name for finding in found for name in (finding.name, *finding.also)}
        forms: dict[str, set[str]] = {}
        holders: dict[str, int] = {}
        plain: dict[str, bool] = {}
        for replica in replicas.values():
            table = replica.table
            for at, name in enumerate(table.names):
                forms.setdefault(name, set()).add(table.forms[at])
                holders[name] = holders.get(name, 0) + 1
                plain[name] = plain.get(name, False) or table.value(at) is not None
        self._count.compared += len(equal | named)
        for name in forms.keys() - equal - named:
            if not plain[name]:
                self._count.leave_out(NotComparable.NO_STATISTICS)
            elif holders[name] < 2:
                self._count.leave_out(NotComparable.NO_PEER)
            elif name in differ:
                self._count.leave_out(NotComparable.MAYBE_SHARD)
            elif len(forms[name]) > 1:
                self._count.leave_out(NotComparable.OTHER_SHAPE)
            else:
                self._count.leave_out(NotComparable.CONSTANT)


def _without_repeats(found: Sequence[Disagreement]) -> list[Disagreement]:
    """Of findings that share ranks and parameters the surest counts, then the one over most ranks."""
    sure = list(Confidence)
    kept: list[Disagreement] = []
    for one in sorted(found, key=lambda f: (sure.index(f.confidence), f.odd_ranks is None, -len(f.ranks))):
        names = {one.name, *one.also}
        if not any(set(one.ranks) & set(k.ranks) and names & {k.name, *k.also} for k in kept):
            kept.append(one)
    return sorted(kept, key=lambda f: f.ranks)


class _Case:
    """One set in one step in which parameters differ: which of them are meant to be equal."""

    def __init__(
        self,
        sources: Sources,
        kept: _Set,
        seen: _Seen,
        replicas: Mapping[int, Replica],
        prints: Mapping[int, Mapping[int, RankPrints]],
    ) -> None:
        self._sources = sources
        self._set = kept
        self._seen = seen
        self._replicas = replicas
        self._traffic = traffic(replicas, kept.ranks)
        self._prints = prints

    def finding(self) -> Disagreement | None:
        """The finding, if there is one."""
        meant = dict(self._meant())
        if not meant:
            return None
        modules = {_module(name) for name in meant}
        for name in self._seen.differ:  # biases beside a weight that is meant to be equal
            if name not in meant and _module(name) in modules and self._began(name) is _Beginning.CONSTANT:
                meant[name] = Confidence.POSSIBLE
        names = [name for name in self._seen.differ if name in meant]
        return self._told(names, meant[names[0]])

    # -- the rules ---------------------------------------------------------------------------------------

    def _meant(self) -> Iterator[tuple[str, Confidence]]:
        if not self._set.past:
            yield from self._first()
            return
        for name, values in self._seen.differ.items():
            sure = self._sure(values)
            began = self._began(name)
            if self._updated(name):  # equal_after_an_update_is_meant
                yield name, sure
            elif began is _Beginning.EQUAL:
                confidence = self._was_equal(name, values)
                if confidence is not None:
                    yield name, sure if confidence is Confidence.CERTAIN else confidence
            elif began is _Beginning.CONSTANT:
                if self._is_minority and self._traffic is Traffic.NONE:  # replicas_stay_equal
                    yield name, sure
                elif self._traffic is Traffic.ACTIVATIONS and self._is_gathered(name):
                    yield name, Confidence.POSSIBLE  # norms_before_a_gather_are_replicated
                elif self._traffic is Traffic.ACTIVATIONS and self._worked_alike(name):
                    yield name, Confidence.POSSIBLE  # norms_that_worked_alike_are_replicated

    def _sure(self, values: Mapping[int, Value]) -> Confidence:
        """How sure it is that ranks which are meant to be equal are not: somebody stands out, or checksums tell."""
        tables = [self._replicas[rank].table for rank in values]
        checked = all(table.on_device and table.checksums for table in tables)
        return Confidence.CERTAIN if checked or odd_ranks(values) is not None else Confidence.LIKELY

    @property
    def _is_minority(self) -> bool:
        """The ranks are replicas by their other parameters."""
        return self._set.is_replica and len(self._seen.equal) >= len(self._seen.differ)

    def _was_equal(self, name: str, values: Mapping[int, Value]) -> Confidence | None:
        """A parameter that was equal at the beginning; ``CERTAIN``: as sure as the number of members makes it."""
        still = any(name in self._set.past[0].equal for name in self._seen.equal)
        if self._is_minority:
            if self._traffic is Traffic.NONE:  # replicas_stay_equal
                return Confidence.CERTAIN
            has_sister = self._has_sister(name)
            if self._traffic is Traffic.UNKNOWN:
                if odd_ranks(values):
                    return Confidence.CERTAIN
                return Confidence.LIKELY if has_sister else Confidence.POSSIBLE if self._work_alone else None
            if self._traffic is Traffic.TOKENS and has_sister:
                return Confidence.LIKELY
        if self._traffic in (Traffic.UNKNOWN, Traffic.MESSAGES) or not still or not self._is_deliberate:
            return None
        return None if self._is_reduced(name) else Confidence.POSSIBLE  # mixed_beginnings_are_deliberate

    def _first(self) -> Iterator[tuple[str, Confidence]]:
        """In the first dumped step: reduced_gradients_make_replicas, majority_of_three."""
        is_near = self._is_minority
        if self._traffic is not Traffic.NONE and not (is_near and self._traffic in (Traffic.TOKENS, Traffic.UNKNOWN)):
            return
        reduced: list[bool] = []
        for name, values in self._seen.differ.items():
            odd = odd_ranks(values)
            if is_near and odd and self._traffic is not Traffic.TOKENS:
                yield name, Confidence.CERTAIN
                continue
            if self._traffic is Traffic.UNKNOWN:
                continue
            if len(reduced) < _PROVEN and all(reduced):
                reduced.append(self._reduction_is_recorded(self._seen.step, name))
            if all(reduced):
                yield name, self._sure(values)

    # -- what is known of one parameter --------------------------------------------------------------------

    def _began(self, name: str) -> _Beginning | None:
        """How the parameter was when it was first seen on these ranks; None: it was not."""
        for seen in self._set.past:
            if name in seen.equal:
                return _Beginning.EQUAL
            if name in seen.differ:
                return _Beginning.DIFFERING
            if name in seen.constant:
                return _Beginning.CONSTANT
        return None

    def _updated(self, name: str) -> bool:
        """It changed between two steps and was equal in both, up to the step before this one.

        A vector of ones does not count as the first of them: what an optimizer makes of it in one update takes so few
        values that different vectors often have the same statistics.
        """
        past = self._set.past
        values = {seen.value(name) for seen in past if name in seen.equal}
        parted = any(name in seen.differ for seen in past)  # and met again: averaged every few steps
        return name in past[-1].equal and len(values) > 1 and not parted

    @property
    def _is_deliberate(self) -> bool:
        """Some parameters differed from the beginning, others were equal."""
        first = self._set.past[0]
        return bool(first.differ) and bool(first.equal)

    def _has_sister(self, name: str) -> bool:
        """Another parameter of the same module was updated and is equal."""
        first = self._set.past[0]
        return any(
            _module(other) == _module(name) and first.value(other) != self._seen.value(other)
            for other in self._seen.equal
        )

    def _module_result(self, name: str) -> int:
        anchor = self._seen.anchor
        return anchor.result(anchor.places[name]) if name in anchor.places else UNUSABLE

    def _is_gathered(self, name: str) -> bool:
        """norms_before_a_gather_are_replicated."""
        anchor = self._seen.anchor
        if name not in anchor.places or not anchor.is_affine(anchor.places[name]):
            return False
        return self._module_result(name) in self._digests(_GATHERS, sent=True)

    def _worked_alike(self, name: str) -> bool:
        """norms_that_worked_alike_are_replicated."""
        before, anchor = self._set.past[-1], self._seen.anchor
        if name not in before.equal | before.constant or not anchor.is_affine(anchor.places.get(name, 0)):
            return False
        tables = [Table(self._past_prints(before.step, rank).parameters, Names()) for rank in self._set.ranks]
        results = {table.result(table.places[name]) if name in table.places else UNUSABLE for table in tables}
        return len(results) == 1 and UNUSABLE not in results

    @cached_property
    def _work_alone(self) -> bool:
        """ranks_that_work_alone_are_replicas."""
        tables = [self._replicas[rank].table for rank in self._set.ranks]
        results = [
            {t.result(t.places[name]) if name in t.places else UNUSABLE for t in tables} for name in self._seen.equal
        ]
        told = [found for found in results if UNUSABLE not in found]
        own = sum(len(found) == len(tables) for found in told)
        return 2 * own > len(told) and all(self._feeds_itself(rank) for rank in self._set.ranks)

    def _feeds_itself(self, rank: int) -> bool:
        """Every module of a differing parameter took in what an operator of this rank gave."""
        modules = {f"{_module(name)}.forward.0" for name in self._seen.differ}
        records = self._sources.records(self._seen.step, rank, modules)
        taken = {digest_of(record.inputs[:1]) for record in records.values()}
        if len(records) < len(modules) or UNUSABLE in taken:
            return False
        given = self._sources.operators(self._seen.step, (rank,)).get(rank, OperatorPrints())
        return taken <= set(column(given.outputs))

    def _is_reduced(self, name: str) -> bool:
        """The module gives its result to a reduction, or gets it from one: it holds a part."""
        result = self._module_result(name)
        return result in self._digests(_REDUCTIONS, sent=True) or result in self._digests(_REDUCTIONS, sent=False)

    def _digests(self, families: Collection[str], *, sent: bool) -> frozenset[int]:
        """Digests of what the first rank of the set puts into calls over ranks of the set, or gets from them."""
        inside = frozenset(self._set.ranks)
        found: set[int] = set()
        for call in self._calls(self._seen.step, families, lambda members: len(members & inside) > 1, last=False):
            found.add(digest_of((call.sent if sent else call.received)[:1]))
        return frozenset(found - {UNUSABLE})

    def _calls(
        self, step: int, families: Collection[str], over: Callable[[frozenset[int]], bool], *, last: bool
    ) -> Sequence[CommCall]:
        """Calls of the first rank of the set, read again: the first MOST_READ of each series, or the last ones."""
        rank = self._set.ranks[0]
        prints = self._past_prints(step, rank)
        places: list[int] = []
        for series in prints.calls:
            members = group_of(series, self._replicas)
            if series.key.api in families and members is not None and over(members):
                positions = range(series.count)
                places += [series.place(at) for at in (positions[-MOST_READ:] if last else positions[:MOST_READ])]
        found = self._sources.calls(step, rank, prints, places)
        return [call for place in places for call in found.get(place, ())]

    def _past_prints(self, step: int, rank: int) -> RankPrints:
        return self._prints.get(step, {}).get(rank, RankPrints())

    def _reduction_is_recorded(self, step: int, name: str) -> bool:
        """Whether the gradient of a parameter is reduced over these ranks: by its numbers, or in a flat buffer."""
        rank, inside = self._set.ranks[0], frozenset(self._set.ranks)
        sent = [call.sent[0] for call in self._calls(step, _REDUCTIONS, inside.issubset, last=True) if call.sent]
        table = Table(self._past_prints(step, rank).parameters, Names())
        total = sum(map(_numel, table.forms))
        if 0 < total <= sum(one.numel or 0 for one in sent if len(one.shape or ()) == 1):
            return True
        form = table.forms[table.places[name]] if name in table.places else ""
        digests = {digest_of([one]) for one in sent if f"[{written(one.shape)}]" in form} - {UNUSABLE}
        gradients = self._gradients(step, rank, name) if digests else []
        return any(scaled in digests for one in gradients for scaled in _scalings(one, len(self._set.ranks)))

    def _gradients(self, step: int, rank: int, name: str) -> list[TensorStat]:
        """What is recorded of the gradient of a parameter."""
        module, _, parameter = name.rpartition(".")
        names = [f"{module}.parameters_grad", *(f"{module}.parameters_grad.{k}" for k in range(_ACCUMULATIONS))]
        return [
            tensor
            for record in self._sources.records(step, rank, names).values()
            for tensor in record.outputs
            if tensor.slot == f"grad.{parameter}"
        ]

    # -- the finding -------------------------------------------------------------------------------------

    def _told(self, names: Sequence[str], confidence: Confidence) -> Disagreement:
        seen, kept = self._seen, self._set
        first = names[0]
        odds = {odd_ranks(seen.differ[name]) for name in names}
        odd = next(iter(odds)) if len(odds) == 1 else None
        table = self._replicas[next(iter(seen.differ[first]))].table
        evidence = [Note("evidence.replicas_equal", {"equal": len(seen.equal), "of": len(seen.equal) + len(names)})]
        before = kept.past[-1] if kept.past else None
        if before is not None and first in before.equal:
            evidence.append(Note("evidence.equal_at_step", {"step": before.step}))
        elif before is not None and first in before.constant:
            evidence.append(Note("evidence.constant_at_step", {"step": before.step}))
        kind = self._mechanism(names, odd)
        if kind is DisagreementMechanism.REDUCTION_MISSING and before is not None and self._traffic is Traffic.NONE:
            reduced = self._reduction_is_recorded(before.step, first)
            if reduced:
                kind = DisagreementMechanism.MEMORY_CORRUPTION
                evidence.append(Note("evidence.gradient_was_reduced", {"step": before.step}))
        return Disagreement(
            kind=DisagreementKind.PARAMETER,
            step=seen.step,
            since_step=seen.step,
            ranks=kept.ranks,
            odd_ranks=odd,
            op_name=None,
            parameter=first,
            exec_order=table.index(table.places[first]),
            per_rank={rank: _stat(self._replicas[rank].table, first) for rank in seen.differ[first]},
            count=len(names),
            of=len(seen.equal) + len(names),
            mechanism=kind,
            confidence=confidence,
            explanation=_why(kind, confidence),
            also=tuple(names[1:MAX_NAMED]),
            held=tuple(Held(name, rank_groups(seen.differ[name])) for name in names[:MAX_HELD]),
            evidence=tuple(evidence),
        )

    def _mechanism(self, names: Sequence[str], odd: tuple[int, ...] | None) -> DisagreementMechanism:
        if not self._set.past:
            return DisagreementMechanism.SEED_MISMATCH
        if odd is not None and len(odd) == 1 and len(names) == 1:
            return DisagreementMechanism.MEMORY_CORRUPTION
        if len(names) == 1 and len(self._set.ranks) == 2 and self._updated(names[0]):
            return DisagreementMechanism.MEMORY_CORRUPTION  # it came through an update before
        return DisagreementMechanism.REDUCTION_MISSING


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _numel(form: str) -> int:
    result = 1
    for size in form.partition("[")[2].rstrip("]").split(","):
        result *= int(size or 1)
    return result


def _scalings(tensor: TensorStat, ranks: int) -> Iterator[int]:
    """Digests of a gradient as it may go into a reduction: as it is, or divided by a power of two."""
    numbers = (tensor.max, tensor.min, tensor.mean, tensor.norm)
    for divisor in (1, ranks, 2 * ranks):
        if divisor & (divisor - 1) == 0 and all(isinstance(number, float) for number in numbers):
            high, low, mean, norm = (float(number or 0) / divisor for number in numbers)
            yield digest_of(
                [TensorStat(tensor.slot, tensor.dtype, tensor.shape, high, low, mean, norm, ValueState.FINITE)]
            )


def _stat(table: Table, name: str) -> TensorStat:
    """One parameter as it was recorded."""
    at = table.places[name]
    form = table.forms[at]
    dtype, _, sizes = form.partition("[")
    shape = tuple(int(size) for size in sizes.rstrip("]").split(",") if size)
    high, low, mean, norm = (None if number != number else number for number in table.statistics(at))
    state = ValueState.UNKNOWN if high is None else ValueState.FINITE
    checksum = (table.checksums[at] or None) if table.checksums else None
    slot = f"parameters.{name.rpartition('.')[2]}"
    return TensorStat(slot, dtype, shape, high, low, mean, norm, state, None, checksum)


def _why(kind: DisagreementMechanism, confidence: Confidence) -> Note:
    possible = kind is DisagreementMechanism.REDUCTION_MISSING and confidence is Confidence.POSSIBLE
    return Note(f"differ.why.{kind.value}" + (".possible" if possible else ""))
