"""Communication calls whose result must be the same on all members, and messages that must arrive as they were sent.

Rules, each tested under its name:

``one_result_for_all``
    all_reduce, broadcast and all_gather give every member the same tensor.
``received_as_sent``
    What a rank receives is what its peer sent: the n-th message of one direction and tag.
``own_part_is_kept``
    The source of a broadcast keeps its tensor; a gathered list holds the own input in the own place.
``nothing_behind_a_doubtful_match``
    Members with different numbers of calls (unless a file is cut), calls of an unknown group, and what stands behind
    different shapes at one place are not compared.
``several_names_of_one_group``
    A group of all ranks that is passed as such or left out, and two names of one operation, make one series.
``checksums_of_devices_count``
    Where all members took checksums of device tensors, they are compared beside the statistics; those of host tensors
    prove nothing.
``stale_results_say_nothing``
    The result of an asynchronous call may be older than the data that arrived.

One finding for each set of members: the first call in the order of the lowest rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from firstnan.agree.odd import groups, odd_ranks
from firstnan.agree.sources import Replica, Sources
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
from firstnan.dump.groups import as_group
from firstnan.dump.records import TensorStat
from firstnan.operators.communication import CallKey, CommCall, group_id, role
from firstnan.read.fingerprints import UNUSABLE, CallPrints, canonical, column
from firstnan.step.call_series import UNKNOWN_GROUP, Collective, Message, Series, series_of

MOST_LOOKS = 16
"""Calls of one series that are read again."""
CALL_NAME = "evidence.call_name"
"""Key of the note that says under which name a call stands on another rank."""


class _Line(Struct, frozen=True, dict=True):
    """The calls of one series on all members, place by place."""

    series: Series
    members: Mapping[int, CallPrints]
    keys: Mapping[int, frozenset[CallKey]]
    """Under which keys the calls stand on each member."""
    checked: bool
    """Checksums count."""
    digests: Mapping[int, tuple[int, ...]]
    length: int
    """Places that are compared."""

    @cached_property
    def places(self) -> frozenset[int]:
        """Positions at which digests differ, or a rank contradicts itself."""
        found = {
            at
            for at, values in enumerate(zip(*self.digests.values(), strict=False))
            if len(set(values)) > 1 and UNUSABLE not in values
        }
        return frozenset(found | {at for one in self.members.values() for at in one.inconsistent if at < self.length})


def disagreements(
    step: int, replicas: Mapping[int, Replica], sources: Sources, count: Count, before: float
) -> list[Disagreement]:
    """The first call of each set of members that did not give all of them the same.

    ``before``: calls that the lowest rank makes behind this record are not told, and so not read again.
    """
    found: dict[tuple[int, ...], Disagreement] = {}
    lines = list(_lines(replicas, count))
    looks = _Looks(step, replicas, sources, before)
    looks.begin(lines)
    for line in lines:
        finding = _differing(step, line, looks, count, before)
        known = None if finding is None else found.get(finding.ranks)
        if finding is not None and (known is None or (finding.exec_order or 0) < (known.exec_order or 0)):
            found[finding.ranks] = finding
    return list(found.values())


def by_series(replicas: Mapping[int, Replica], count: Count) -> dict[Series, dict[int, list[CallPrints]]]:
    """The calls whose results must be the same: series -> rank -> its calls (more than one: two names of a group)."""
    world = as_group(sorted(replicas))
    world_id = group_id(world)
    found: dict[Series, dict[int, list[CallPrints]]] = {}
    for rank in world:
        for prints in replicas[rank].prints.calls:
            series = series_of(prints.key, rank, world, world_id)
            if series is None:
                count.leave_out(NotComparable.DOUBTFUL_MATCH, prints.count)
                continue
            if isinstance(series, Collective) and not role(prints.key.api).result.is_same:
                continue  # every member gets another result
            both = replace(series, sends=True) if isinstance(series, Message) else series
            found.setdefault(both, {}).setdefault(rank, []).append(prints)
    return found


def comparable_length(
    series: Series, members: Mapping[int, Sequence[CallPrints]], replicas: Mapping[int, Replica]
) -> int:
    """Calls of a series that stand side by side on all members: nothing_behind_a_doubtful_match."""
    if len(members) < 2 or _is_doubtful(series, members):
        return 0
    counts = {rank: sum(one.count for one in parts) for rank, parts in members.items()}
    most = max(counts.values())
    if any(made < most and not replicas[rank].truncated for rank, made in counts.items()):
        return 0
    return min(counts.values())


def _is_doubtful(series: Series, members: Mapping[int, Sequence[CallPrints]]) -> bool:
    if isinstance(series, Collective):
        return series.key == UNKNOWN_GROUP
    return any(len(parts) > 1 for parts in members.values())


def merged(parts: Sequence[CallPrints]) -> CallPrints:
    """The calls of one series in their order, though the dump names its group or its operation in several ways.

    ``several_names_of_one_group``: a group that is recorded, and no group at all where it has all ranks.
    """
    if len(parts) == 1:
        return parts[0]
    order = sorted((one.place(at), number, at) for number, one in enumerate(parts) for at in range(one.count))

    def joined(columns: Sequence[bytes]) -> bytes:
        if not any(columns):
            return b""
        return b"".join(columns[number][4 * at : 4 * at + 4] or bytes(4) for _, number, at in order)

    return CallPrints(
        parts[0].stem,
        parts[0].key,
        b"".join(place.to_bytes(8, "little") for place, _, _ in order),
        joined([one.sent for one in parts]),
        joined([one.received for one in parts]),
        joined([one.checksums for one in parts]),
        sum(one.activations for one in parts),
        tuple(new for new, (_, number, at) in enumerate(order) if at in parts[number].inconsistent),
    )


def are_checked(members: Mapping[int, CallPrints], replicas: Mapping[int, Replica]) -> bool:
    """Whether checksums count: taken of device tensors, on all members."""
    return all(replicas[rank].prints.on_device and one.checksums for rank, one in members.items())


def digests_of(series: Series, rank: int, prints: CallPrints, *, checked: bool) -> tuple[int, ...]:
    """What is held against the other members, one digest for each call; empty: nothing usable."""
    numbers = column(_column(series, rank, prints))
    if not checked:
        return numbers
    return tuple(_both(one, other) for one, other in zip(numbers, column(prints.checksums), strict=False))


def _both(numbers: int, checksum: int) -> int:
    """A digest of statistics and checksum; where there is no checksum, that of the statistics."""
    if UNUSABLE in (numbers, checksum):
        return numbers
    return crc32(numbers.to_bytes(4, "little") + checksum.to_bytes(4, "little")) or 1


def _lines(replicas: Mapping[int, Replica], count: Count) -> Iterator[_Line]:
    """The series that can be compared; the others are counted."""
    for series, members in by_series(replicas, count).items():
        most = max(sum(prints.count for prints in parts) for parts in members.values())
        if len(members) < 2:
            count.leave_out(NotComparable.NO_PEER, most)
        elif _is_doubtful(series, members):
            count.leave_out(NotComparable.DOUBTFUL_MATCH, most)
        else:
            yield from _line(series, members, replicas, count)


def _line(
    series: Series, parts: Mapping[int, Sequence[CallPrints]], replicas: Mapping[int, Replica], count: Count
) -> Iterator[_Line]:
    members = {rank: merged(own) for rank, own in parts.items()}
    counts = {rank: prints.count for rank, prints in members.items()}
    length, most = min(counts.values()), max(counts.values())
    if any(made < most and not replicas[rank].truncated for rank, made in counts.items()):
        count.leave_out(NotComparable.DOUBTFUL_MATCH, most)  # nothing_behind_a_doubtful_match
        return
    count.leave_out(NotComparable.NO_PEER, most - length)
    columns = {rank: _column(series, rank, prints)[: 4 * length] for rank, prints in members.items()}
    if not all(columns.values()):
        count.leave_out(NotComparable.STALE, length)
        return
    checked = are_checked(members, replicas)
    checksums = {one.checksums[: 4 * length] for one in members.values()} if checked else set()
    first = next(iter(columns.values()))
    alike = all(one == first for one in columns.values()) and len(checksums) < 2
    if alike and not any(prints.inconsistent for prints in members.values()):
        usable = sum(one != UNUSABLE for one in column(first))
        late = 0 if checked else _late_checksums(members, length)
        count.compared += usable - late
        count.leave_out(NotComparable.CHECKSUM_OF_HOST_MEMORY, late)
        count.leave_out(NotComparable.STALE, length - usable)
        return
    keys = {rank: frozenset(one.key for one in own) for rank, own in parts.items()}
    digests = {rank: digests_of(series, rank, one, checked=checked)[:length] for rank, one in members.items()}
    yield _Line(series, members, keys, checked, digests, length)


def _late_checksums(members: Mapping[int, CallPrints], length: int) -> int:
    """Calls whose statistics are equal and whose checksums are not."""
    columns = [column(one.checksums)[:length] for one in members.values()]
    if not all(columns):
        return 0
    return sum(len(set(values)) > 1 and UNUSABLE not in values for values in zip(*columns, strict=False))


def _column(series: Series, rank: int, prints: CallPrints) -> bytes:
    is_sender = isinstance(series, Message) and series.source == rank
    return prints.sent if is_sender else prints.received


class _Looks:
    """Calls that are read again."""

    def __init__(self, step: int, replicas: Mapping[int, Replica], sources: Sources, before: float) -> None:
        self._before = before
        self._step = step
        self._replicas = replicas
        self._sources = sources
        self._known: dict[int, Mapping[int, tuple[CommCall, ...]]] = {}
        """Rank -> place -> the calls there."""

    def begin(self, lines: Sequence[_Line]) -> None:
        """Reads what decides whether more of each line is read, on each rank at once."""
        wanted: dict[int, list[int]] = {}
        for line in lines:
            at = min(line.places, default=None)
            if at is not None and not self.is_behind(line, at):
                lowest = min(line.members)
                wanted.setdefault(lowest, []).append(line.members[lowest].place(at))
        for rank, places in wanted.items():
            self._known[rank] = self._sources.calls(self._step, rank, self._replicas[rank].prints, places)

    def is_behind(self, line: _Line, position: int) -> bool:
        """Whether it is known without a look at the file that the lowest rank makes the call behind what is told."""
        if self._before < 0:
            return True
        lowest = min(line.members)
        keys = line.keys[lowest]
        index = self._replicas[lowest].index_of(next(iter(keys)), position) if len(keys) == 1 else None
        return index is not None and index > self._before

    def read(self, line: _Line, rank: int, position: int) -> CommCall | None:
        """The call of a series at this position."""
        place, keys = line.members[rank].place(position), line.keys[rank]
        found = self._known.get(rank, {}).get(place)
        if found is None:
            prints = self._replicas[rank].prints
            found = self._sources.calls(self._step, rank, prints, (place,)).get(place, ())
        own = [call for call in found if CallKey.of(call) in keys]
        return own[0] if len(own) == 1 else None


def _differing(step: int, line: _Line, looks: _Looks, count: Count, before: float) -> Disagreement | None:
    """The first call that differs when it is read again."""
    usable = sum(UNUSABLE not in values for values in zip(*line.digests.values(), strict=False))
    count.leave_out(NotComparable.STALE, line.length - usable)
    places = sorted(line.places)[:MOST_LOOKS]
    lowest = min(line.members)
    for at in places:
        if looks.is_behind(line, at):
            break
        first = looks.read(line, lowest, at)
        if first is not None and first.index > before:
            break
        members = line.members if first is not None else ()
        calls = {rank: looks.read(line, rank, at) for rank in members}
        found = {rank: call for rank, call in calls.items() if call is not None}
        if len(found) < len(line.members):
            count.leave_out(NotComparable.NOT_REACHED, len(places))
            count.compared += usable - len(places)
            return None
        tensors = {rank: _compared(line, rank, call) for rank, call in found.items()}
        if len({tuple((one.dtype, one.shape) for one in held) for held in tensors.values()}) > 1:
            count.leave_out(NotComparable.DOUBTFUL_MATCH, usable - at)
            count.compared += at
            return None
        if _is_different(tensors, line) or any(at in one.inconsistent for one in line.members.values()):
            count.compared += usable
            return _told(step, line, found, tensors, at)
    count.compared += usable
    return None


def _compared(line: _Line, rank: int, call: CommCall) -> tuple[TensorStat, ...]:
    """The tensors that are held against those of the other members."""
    is_sender = isinstance(line.series, Message) and line.series.source == rank
    return call.sent if is_sender else call.received


def _is_different(tensors: Mapping[int, Sequence[TensorStat]], line: _Line) -> bool:
    texts = {tuple(_text(one, line) for one in held) for held in tensors.values()}
    return len(texts) > 1 and all(held and None not in held for held in texts)


def _text(tensor: TensorStat, line: _Line) -> bytes | None:
    """What is compared of a tensor; None: nothing."""
    numbers = canonical(tensor)
    return numbers if numbers is None or not line.checked else numbers + (tensor.checksum or "").encode()


def _told(
    step: int,
    line: _Line,
    found: Mapping[int, CommCall],
    tensors: Mapping[int, Sequence[TensorStat]],
    at: int,
) -> Disagreement:
    ranks = tuple(sorted(line.members))
    contradicts = tuple(rank for rank in ranks if at in line.members[rank].inconsistent)
    values = {rank: tuple(_text(one, line) for one in held) for rank, held in tensors.items()}
    is_message = isinstance(line.series, Message)
    odd = None if is_message else odd_ranks(values) or contradicts or None
    first = found[ranks[0]]
    api = "p2p" if isinstance(line.series, Message) else line.series.api
    differing = next(
        (place for place in zip(*tensors.values(), strict=False) if len({_text(one, line) for one in place}) > 1),
        tuple(held[0] for held in tensors.values()),
    )
    place = tuple(tensors)
    explanation = Note("differ.why.result", {"api": api, "members": len(ranks)})
    confidence = Confidence.LIKELY if odd is None and not line.checked else Confidence.CERTAIN
    return Disagreement(
        kind=DisagreementKind.COMMUNICATION,
        step=step,
        since_step=step,
        ranks=ranks,
        odd_ranks=odd,
        op_name=first.name,
        parameter=None,
        exec_order=first.index,
        per_rank=dict(zip(place, differing, strict=True)),
        count=1,
        of=line.length,
        held=(Held(first.name, groups(values)),),
        mechanism=DisagreementMechanism.COMM_CORRUPTION,
        confidence=confidence,
        explanation=Note("differ.why.received") if is_message else explanation,
        evidence=tuple(
            Note(CALL_NAME, {"rank": rank, "op_name": found[rank].name})
            for rank in ranks
            if found[rank].name != first.name
        ),
    )
