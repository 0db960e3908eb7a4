"""A communication call again, from the tensors of its members.

A reduction is summed in float64, element by element; whatever is only moved has to arrive as it was sent. The n-th call
of an API in a group on one member is the n-th on the others, as everywhere in firstnan.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from msgspec import Struct
from torch import Tensor

from firstnan.answer.replay import Example, NotRun, Replay, ReplayVerdict, Share
from firstnan.dump.names import parse_name
from firstnan.dump.records import TensorStat
from firstnan.operators.communication import ROLES, CallKind, CommCall, Freshness, calls, is_communication
from firstnan.read.records.builder import RecordBuilder
from firstnan.replaying.bad_elements import masks
from firstnan.replaying.bad_elements.rows import fits
from firstnan.replaying.experiment import RankTensors
from firstnan.replaying.refusal import RefusedError

_ROUNDINGS = 4
"""Units of rounding for each member of a sum."""
_FOLDS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "SUM": torch.add, "AVG": torch.add, "MAX": torch.maximum, "MIN": torch.minimum, "PRODUCT": torch.mul,
}  # fmt: skip
_LOSES_NAN = ("MAX", "MIN")
"""Reductions that may drop a NaN."""

_Series = tuple[object, ...]


class _Member(Struct, frozen=True):
    """One rank's part of the call."""

    rank: int
    call: CommCall
    raw: Mapping[str, object]
    tensors: RankTensors

    def load(self, stats: Sequence[TensorStat]) -> list[Tensor]:
        return [self.tensors.folder.load(self.entry(stat.slot)) for stat in stats]

    def entry(self, slot: str) -> Mapping[str, object]:
        """The tensor entry of dump.json at a slot (``input_args.0``, ``output.0.1``)."""
        place: object = self.raw
        for key in slot.split("."):
            if isinstance(place, list):
                place = place[int(key)]
            elif isinstance(place, dict):
                place = place.get(key)
        if not isinstance(place, dict):
            raise RefusedError(NotRun.MEMBERS, slot)
        return place

    def pieces(self, members: int) -> Sequence[Tensor]:
        """What this rank sends to each member (``all_to_all_single``): rows by its split sizes, else equal parts."""
        if len(self.call.sent) != 1:
            raise RefusedError(NotRun.MEMBERS, f"rank {self.rank}")
        (sent,), sizes = self.load(self.call.sent), self._split_sizes()
        rows = sent.shape[0] if sent.dim() else 0
        if sizes is None and rows % members == 0:
            sizes = [rows // members] * members
        if sizes is None or len(sizes) != members or sum(sizes) != rows:
            raise RefusedError(NotRun.MEMBERS, f"split sizes of rank {self.rank}")
        pieces: Sequence[Tensor] = sent.split(sizes)
        return pieces

    def _split_sizes(self) -> list[int] | None:
        name = "input_split_sizes"
        place = ROLES["all_to_all_single"].signature.index(name)
        positional, keywords = self.raw.get("input_args"), self.raw.get("input_kwargs")
        given = keywords.get(name) if isinstance(keywords, dict) else None
        if given is None and isinstance(positional, list) and len(positional) > place:
            given = positional[place]
        if not isinstance(given, list) or not given:
            return None
        sizes = [one.get("value") if isinstance(one, dict) else one for one in given]
        if not all(isinstance(size, int) and size >= 0 for size in sizes):
            raise RefusedError(NotRun.ARGUMENT, name)
        return [size for size in sizes if isinstance(size, int)]


def replay_call(name: str, rank: int, ranks: Mapping[int, RankTensors], memory: int) -> Replay:
    """One rank's result of a communication call, compared with what the members put in.

    ``ranks``: every rank of the step whose dump is there.
    """
    try:
        members = _members(name, rank, ranks)
        own = members[rank]
        if not own.call.received:
            raise RefusedError(NotRun.NO_RESULT)
        entries = [m.entry(s.slot) for m in members.values() for s in (*m.call.sent, *m.call.received)]
        if not fits(entries, memory // 4):  # each is held in float64 besides
            raise RefusedError(NotRun.TOO_LARGE)
        received = own.load(own.call.received)
        parts = _contributions(own, members, len(received))
        reduces = own.call.reduces
        found = [_compare(own, at, result, part) if reduces else _moved(own, at, result, part)
                 for at, (result, part) in enumerate(zip(received, parts, strict=True))]  # fmt: skip
        worst = min(found, key=lambda one: _ORDER.index(one.verdict))
        if worst.verdict.blames_device and own.call.freshness is not Freshness.FRESH:
            raise RefusedError(NotRun.ASYNCHRONOUS)
    except RefusedError as refusal:
        return Replay(ReplayVerdict.NOT_RUN, refusal.reason, refusal.detail)
    return worst


_ORDER = (ReplayVerdict.NOT_REPRODUCED, ReplayVerdict.VALUES_DIFFER, ReplayVerdict.REPRODUCED_RANGE,
          ReplayVerdict.REPRODUCED, ReplayVerdict.AGREES)  # fmt: skip


def is_call(name: str) -> bool:
    """Whether a record is one of communication."""
    return parse_name(name).prefix.endswith("Distributed")


def _members(name: str, rank: int, ranks: Mapping[int, RankTensors]) -> dict[int, _Member]:
    world = tuple(sorted(ranks))
    own = next(
        ((series, member) for series, member in _calls(rank, ranks[rank], world) if member.call.name == name), None
    )
    if own is None:
        raise RefusedError(NotRun.REDUCTION, name)
    series, mine = own
    if mine.call.kind is CallKind.COLLECTIVE:
        group = mine.call.group or world
        others = [one for one in group if one != rank]
    else:
        others = [mine.call.peer] if mine.call.peer is not None else []
        if not others:
            raise RefusedError(NotRun.MEMBERS)
    members = {rank: mine}
    for other in others:
        found = None
        if other in ranks:
            found = next((m for key, m in _calls(other, ranks[other], world) if key == series), None)
        if found is None:
            raise RefusedError(NotRun.MEMBERS, f"rank {other}")
        members[other] = found
    return members


def _calls(rank: int, tensors: RankTensors, world: tuple[int, ...]) -> Iterator[tuple[_Series, _Member]]:
    """Every communication call of a rank with what tells it from all others: its series and its number in it."""
    builder, counts = RecordBuilder(), Counter[_Series]()
    for index, (name, raw) in enumerate(tensors.records.items()):
        if not is_call(name):
            continue
        record = builder.build(name, dict(raw), index)
        if not is_communication(record):
            continue
        for call in calls(record, rank):
            if call.kind is CallKind.COLLECTIVE:
                key: _Series = (
                    call.api,
                    tuple(sorted(call.group or world)),
                    call.group_label if call.group is None else None,
                )
            else:
                ends = (rank, call.peer) if call.kind is CallKind.SEND else (call.peer, rank)
                key = ("p2p", *ends, call.tag)
            yield (*key, counts[key]), _Member(rank, call, raw, tensors)
            counts[key] += 1


def _contributions(own: _Member, members: Mapping[int, _Member], results: int) -> list[list[tuple[int, Tensor]]]:
    """For each tensor of the result, the tensors of which it is made, with their ranks."""
    call = own.call
    order = [rank for rank in call.group or sorted(members) if rank in members]
    place = order.index(own.rank)
    sent = {rank: member.load(member.call.sent) for rank, member in members.items()}
    if call.kind is CallKind.RECEIVE:
        return [[(rank, tensor)] for rank in members if rank != own.rank for tensor in sent[rank]]
    if call.api in ("all_reduce", "reduce"):
        made = [[(rank, sent[rank][0]) for rank in order if sent[rank]]]
    elif call.api == "reduce_scatter":
        made = [[(rank, sent[rank][place]) for rank in order if len(sent[rank]) == len(order)]]
    elif call.api == "reduce_scatter_tensor":
        made = [[(rank, sent[rank][0].chunk(len(order))[place]) for rank in order if sent[rank]]]
    elif call.api in ("broadcast", "scatter") and call.root in sent:
        given = sent[call.root]
        made = [[(call.root, given[place if call.api == "scatter" else 0])]] if given else []
    elif call.api in ("all_gather", "gather"):
        made = [[(rank, sent[rank][0])] for rank in order if sent[rank]]
    elif call.api == "all_gather_into_tensor":
        made = [[(rank, sent[rank][0]) for rank in order if sent[rank]]]
    elif call.api == "all_to_all":
        made = [[(rank, sent[rank][place])] for rank in order if len(sent[rank]) == len(order)]
    elif call.api == "all_to_all_single":
        made = [[(rank, members[rank].pieces(len(order))[place]) for rank in order]]
    else:
        raise RefusedError(NotRun.REDUCTION, call.api)
    if len(made) != results or any(not part for part in made):
        raise RefusedError(NotRun.MEMBERS)
    if call.reduces and any(len(part) != len(order) for part in made):
        raise RefusedError(NotRun.MEMBERS)
    return made


def _compare(own: _Member, at: int, result: Tensor, part: list[tuple[int, Tensor]]) -> Replay:
    how = own.call.reduce_op or "SUM"
    fold = _FOLDS.get(how)
    if fold is None or not result.is_floating_point() or any(t.numel() != result.numel() for _, t in part):
        raise RefusedError(NotRun.REDUCTION, f"{own.call.api} {how}")
    divisor = len(part) if how == "AVG" else 1
    wide = [tensor.reshape(result.shape).double() for _, tensor in part]
    truth = functools.reduce(fold, wide) / divisor
    here = functools.reduce(fold, [t.reshape(result.shape).to(result.dtype) for _, t in part]) / divisor
    reach = functools.reduce(torch.add, [tensor.abs() for tensor in wide])
    info = torch.finfo(result.dtype)
    bad, bad_truth = masks.non_finite(result), masks.non_finite(truth)
    over = bad & ~bad_truth & (reach > info.max * (1 - _ROUNDINGS * info.eps))
    alone = bad & ~bad_truth & ~over
    allowed = _ROUNDINGS * len(part) * info.eps * reach + info.tiny
    error = (result.double() - truth).abs()
    wrong = ~bad & (torch.zeros_like(bad) if how in _LOSES_NAN else ~(error <= allowed))
    if how in _LOSES_NAN:
        wrong = ~bad & ~bad_truth & (error > allowed)
    counts = (int(bad.sum()), int(masks.non_finite(here).sum()), int(bad_truth.sum()))
    slot = own.call.received[at].slot
    for mask, verdict in (
        (alone, ReplayVerdict.NOT_REPRODUCED),
        (wrong, ReplayVerdict.VALUES_DIFFER),
        (over, ReplayVerdict.REPRODUCED_RANGE),
        (bad, ReplayVerdict.REPRODUCED),
    ):
        if bool(mask.any()):
            place = masks.first_index(mask)
            limit = float(allowed[place]) if verdict is ReplayVerdict.VALUES_DIFFER else None
            example = Example(place, float(result[place]), float(here[place]), float(truth[place]), limit)
            shares = tuple(Share(rank, float(t.reshape(result.shape)[place])) for rank, t in part)
            shown = masks.describe(slot, result, bad if verdict.is_reproduced else mask)
            return Replay(verdict, None, "", *counts, elements=shown, example=example, shares=shares)
    return Replay(ReplayVerdict.AGREES, None, "", *counts)


def _moved(own: _Member, at: int, result: Tensor, part: list[tuple[int, Tensor]]) -> Replay:
    """What is moved arrives as it was sent, bit by bit; from several members, one behind the other."""
    if sum(sent.numel() for _, sent in part) != result.numel() or any(sent.dtype != result.dtype for _, sent in part):
        raise RefusedError(NotRun.REDUCTION, f"{own.call.api} of other sizes")
    sent = torch.cat([sent.flatten() for _, sent in part]).reshape(result.shape)
    plain, given = masks.plain(result), masks.plain(sent)
    both_nan = (
        torch.isnan(plain) & torch.isnan(given)
        if plain.is_floating_point()
        else torch.zeros_like(plain, dtype=torch.bool)
    )
    wrong = ~both_nan & (plain != given)
    bad, bad_sent = masks.non_finite(result), masks.non_finite(sent)
    counts = (int(bad.sum()), int(bad_sent.sum()), int(bad_sent.sum()))
    slot = own.call.received[at].slot
    if bool(wrong.any()):
        alone = bad & ~bad_sent
        mask = alone if bool(alone.any()) else wrong
        place = masks.first_index(mask)
        verdict = ReplayVerdict.NOT_REPRODUCED if bool(alone.any()) else ReplayVerdict.VALUES_DIFFER
        example = None
        if not result.is_complex():
            example = Example(place, float(plain[place]), float(given[place]), float(given[place]))
        shares = (Share(_sender(part, result, place), float(given[place])),) if example is not None else ()
        return Replay(
            verdict, None, "", *counts, elements=masks.describe(slot, result, mask), example=example, shares=shares
        )
    if counts[0]:
        return Replay(ReplayVerdict.REPRODUCED, None, "", *counts, elements=masks.describe(slot, result, bad))
    return Replay(ReplayVerdict.AGREES, None, "", *counts)


def _sender(part: Sequence[tuple[int, Tensor]], result: Tensor, place: tuple[int, ...]) -> int:
    """The member whose tensor an element of the result comes from."""
    flat = functools.reduce(lambda before, axis: before * axis[0] + axis[1], zip(result.shape, place, strict=True), 0)
    ends = itertools.accumulate(sent.numel() for _, sent in part)
    return next(rank for (rank, _), end in zip(part, ends, strict=True) if flat < end)
