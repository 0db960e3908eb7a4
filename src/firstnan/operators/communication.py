"""What the arguments of a communication record mean: which is an input, which a result.

``output`` of a ``Distributed.*`` record is a re-read of its arguments after the call, not a return
value (dump format, section 7.2); a receive buffer is not an input. The table :data:`ROLES`
holds one row per API; :func:`calls` turns a record into typed :class:`CommCall` values.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from firstnan.dump.records import GroupRef, PeerOp, Record, Scalar, TensorStat
from firstnan.dump.values import ValueState

COMMUNICATION_PREFIXES = frozenset({"Distributed", "MintDistributed"})


class Root(Enum):
    """Which member of a rooted collective holds the tensors that matter."""

    NONE = "none"
    """Not rooted: every member sends and receives."""
    SENDS = "sends"
    """Only the root's input counts (broadcast, scatter)."""
    RECEIVES = "receives"
    """Only the root's result counts (reduce, gather)."""


class Result(Enum):
    """What the members of a collective get."""

    OWN = "own"
    """Each a part of its own."""
    SAME = "same"
    """All the same tensors."""
    GATHERED = "gathered"
    """All the same tensors: what every member put in, side by side."""
    EXCHANGED = "exchanged"
    """Each a piece of what every member put in; pieces may be empty."""

    @property
    def is_same(self) -> bool:
        return self in (Result.SAME, Result.GATHERED)


class CallKind(Enum):
    """How calls are matched across ranks."""

    COLLECTIVE = "collective"
    """Every member of the group takes part."""
    SEND = "send"
    """One message to a peer."""
    RECEIVE = "receive"
    """One message from a peer."""

    __hash__ = object.__hash__  # one object per member; that of Enum is Python, and asked for again and again


class GroupKnowledge(Enum):
    """How well the process group of a call is known."""

    RECORDED = "recorded"
    """The dump lists its global ranks."""
    DEFAULT = "default"
    """No group was passed: all ranks of the run."""
    NAMED = "named"
    """The group has a name but no ranks (MindSpore)."""
    UNKNOWN = "unknown"
    """This dump does not record groups (1.0.x, hand-made formats)."""

    __hash__ = object.__hash__  # one object per member; that of Enum is Python, and asked for again and again


class Freshness(Enum):
    """Whether the recorded result was taken after the communication was over."""

    FRESH = "fresh"
    """Taken after the call was complete."""
    MAYBE_STALE = "maybe_stale"
    """Asynchronous: the value may be the one from before the communication."""
    WORTHLESS = "worthless"
    """Taken before the data arrived, or overwritten by another call."""


class Role(Struct, frozen=True, cache_hash=True):
    """One row of the table: all that is known of an API. Other code asks the row, and keeps no lists of names."""

    api: str
    signature: tuple[str, ...]
    """Its parameters in order."""
    sends: str | None
    """Parameter with the rank's real input."""
    receives: str | None
    """Parameter that holds the result after the call."""
    root: Root = Root.NONE
    kind: CallKind = CallKind.COLLECTIVE
    reduces: bool = False
    result: Result = Result.OWN
    same_size: bool = False
    """All members put in tensors of one size."""
    family: str = ""
    """Name under which calls are matched, where several APIs are one operation."""
    peer: tuple[str, str] = ("", "")
    """P2P and rooted calls: parameter with the global rank, parameter with the group-local rank."""


_SENDS, _RECEIVES = Root.SENDS, Root.RECEIVES
_SRC, _DST = ("src", "group_src"), ("dst", "group_dst")
ROLES: dict[str, Role] = {
    role.api: role
    for role in (
        Role("all_reduce", ("tensor", "op", "group", "async_op"), "tensor", "tensor", reduces=True,
             result=Result.SAME, same_size=True),
        Role("broadcast", ("tensor", "src", "group", "async_op", "group_src"), "tensor", "tensor", _SENDS, peer=_SRC,
             result=Result.SAME, same_size=True),
        Role("reduce", ("tensor", "dst", "op", "group", "async_op", "group_dst"), "tensor", "tensor", _RECEIVES,
             reduces=True, same_size=True, peer=_DST),
        Role("all_gather", ("tensor_list", "tensor", "group", "async_op"), "tensor", "tensor_list",
             result=Result.GATHERED, same_size=True),
        Role("all_gather_into_tensor", ("output_tensor", "input_tensor", "group", "async_op"),
             "input_tensor", "output_tensor", result=Result.GATHERED, same_size=True),
        Role("_all_gather_base", ("output_tensor", "input_tensor", "group", "async_op"),
             "input_tensor", "output_tensor", family="all_gather_into_tensor"),
        Role("gather", ("tensor", "gather_list", "dst", "group", "async_op", "group_dst"),
             "tensor", "gather_list", _RECEIVES, same_size=True, peer=_DST),
        Role("gather_into_tensor", ("tensor", "dst", "group"), "tensor", None, _RECEIVES, peer=_DST),
        Role("scatter", ("tensor", "scatter_list", "src", "group", "async_op", "group_src"),
             "scatter_list", "tensor", _SENDS, peer=_SRC),
        Role("scatter_tensor", ("tensor", "src", "group"), "tensor", None, _SENDS, peer=_SRC),
        Role("reduce_scatter", ("output", "input_list", "op", "group", "async_op"),
             "input_list", "output", reduces=True, same_size=True),
        Role("reduce_scatter_tensor", ("output", "input", "op", "group", "async_op"),
             "input", "output", reduces=True, same_size=True),
        Role("_reduce_scatter_base", ("output", "input", "op", "group", "async_op"),
             "input", "output", reduces=True, family="reduce_scatter_tensor"),
        Role("all_to_all", ("output_tensor_list", "input_tensor_list", "group", "async_op"),
             "input_tensor_list", "output_tensor_list", result=Result.EXCHANGED),
        Role("all_to_all_single", ("output", "input", "output_split_sizes", "input_split_sizes", "group", "async_op"),
             "input", "output", result=Result.EXCHANGED),
        Role("all_to_all_single_with_output_shape", ("output_shape", "tensor"), "tensor", None,
             family="all_to_all_single"),
        Role("all_to_all_with_output_shape", ("output_shape_list", "input_tensor_list"), "input_tensor_list", None,
             family="all_to_all"),
        Role("send", ("tensor", "dst", "group", "tag", "group_dst"), "tensor", None, kind=CallKind.SEND, peer=_DST),
        Role("isend", ("tensor", "dst", "group", "tag", "group_dst"), "tensor", None, kind=CallKind.SEND, peer=_DST),
        Role("recv", ("tensor", "src", "group", "tag", "group_src"), None, "tensor", kind=CallKind.RECEIVE, peer=_SRC),
        Role("irecv", ("tensor", "src", "group", "tag", "group_src"), None, "tensor", kind=CallKind.RECEIVE, peer=_SRC),
    )
}  # fmt: skip
"""Dump format, section 7.2, and section 12 for MindSpore's ``comm_func``."""


def role(family: str) -> Role:
    """The row of a matching family; for point-to-point calls of a batch an empty one."""
    return ROLES.get(family, _NONE)


_NONE = Role("", (), None, None)
_SYNONYMS = {"output": ("output_tensor", "output"), "input": ("input_tensor", "input"),
             "output_tensor": ("output_tensor", "output"), "input_tensor": ("input_tensor", "input")}  # fmt: skip
_REDUCE_OP = re.compile(r"(?i)\b(SUM|AVG|PRODUCT|MIN|MAX|BAND|BOR|BXOR|PREMUL_SUM)\b")
_BATCH = "batch_isend_irecv"


class CommCall(Struct, frozen=True, gc=False, omit_defaults=True):
    """One rank's part of one communication call."""

    index: int
    """Position of the record in dump.json."""
    name: str
    api: str
    """The matching family (``all_gather_into_tensor`` for ``_all_gather_base`` too)."""
    kind: CallKind
    group: tuple[int, ...] | None
    """Global ranks in group order, where recorded."""
    knowledge: GroupKnowledge
    group_label: str | None
    """Name or id of the group where its ranks are not recorded."""
    sent: tuple[TensorStat, ...]
    """What this rank put in; empty where its input does not count."""
    received: tuple[TensorStat, ...]
    """What this rank got; empty where its result does not count."""
    freshness: Freshness
    peer: int | None = None
    """P2P: the other side's global rank; None: any source, or not recorded."""
    tag: int = 0
    root: int | None = None
    """Rooted collectives: global rank of the root."""
    rooted: Root = Root.NONE
    reduces: bool = False
    reduce_op: str | None = None
    in_place: bool = False
    finished: bool = True
    """False: the record has no output, the run died or raised inside the call."""


class CallKey(NamedTuple):
    """What tells the series that a call belongs to on its rank; the calls of one series are counted together."""

    kind: CallKind
    api: str
    group: tuple[int, ...] | None
    knowledge: GroupKnowledge
    label: str | None
    peer: int | None
    tag: int

    @classmethod
    def of(cls, call: CommCall) -> CallKey:
        peer = None if call.kind is CallKind.COLLECTIVE else call.peer
        return cls(call.kind, call.api, call.group, call.knowledge, call.group_label, peer, call.tag)


def is_communication(record: Record) -> bool:
    """True for the records that :func:`calls` understands."""
    name = record.name
    return name.prefix in COMMUNICATION_PREFIXES and (name.api in ROLES or name.api == _BATCH)


def group_id(ranks: Iterable[int]) -> str:
    """The id that MSProbe gives a group: CRC-32 of the rank list's text (dump format, section 4).

    >>> group_id((0, 1))
    '77849d8c'
    """
    return f"{zlib.crc32(str(list(ranks)).encode()):08x}"


def calls(record: Record, rank: int, *, groups_recorded: bool = True) -> tuple[CommCall, ...]:
    """The communication calls of one record: one, or one per element of ``batch_isend_irecv``.

    ``groups_recorded`` is False for dumps whose format has no groups; a missing group then means
    "unknown" instead of "all ranks".

    Example (reduce_scatter_tensor(output, input, group=g)): ``input_args.1`` is what the rank sent,
    ``output.0`` what it received; ``output.1`` is its own input once more and never a result.
    """
    if record.name.prefix not in COMMUNICATION_PREFIXES or _is_cut_before_its_group(record):
        return ()
    if record.name.api == _BATCH:
        tensors = _by_operation(record)
        return tuple(_batch_element(record, op, tuple(tensors[op.slot])) for op in record.peers)
    role = ROLES.get(record.name.api)
    if role is None:
        return ()
    known = _LATELY.get(id(record))
    if known is None or known[0] is not record or known[1] != rank or known[2] is not groups_recorded:
        if len(_LATELY) >= _MOST_LATELY:
            _LATELY.clear()
        call = _plain(record, role, rank, groups_recorded)
        _LATELY[id(record)] = known = record, rank, groups_recorded, (call,)
    return known[3]


def kinds(record: Record) -> frozenset[CallKind]:
    """The kinds of the calls of one record (:func:`calls`)."""
    if record.name.prefix not in COMMUNICATION_PREFIXES or _is_cut_before_its_group(record):
        return frozenset()
    if record.name.api == _BATCH:
        return frozenset(CallKind.SEND if _sends(op) else CallKind.RECEIVE for op in record.peers)
    role = ROLES.get(record.name.api)
    return frozenset((role.kind,)) if role else frozenset()


_MOST_LATELY = 64
_LATELY: dict[int, tuple[Record, int, bool, tuple[CommCall, ...]]] = {}
"""Calls of the last records, by identity: fingerprints, the log of calls and the flow ask for the same ones."""


def _is_cut_before_its_group(record: Record) -> bool:
    """The last record of a cut file: that it names no group does not mean the default group."""
    return record.distrusted and not record.groups and not record.peers


def _by_operation(record: Record) -> dict[str, list[TensorStat]]:
    """The tensors inside each point-to-point operation, by its slot; a list of operations may be long."""
    found: dict[str, list[TensorStat]] = {op.slot: [] for op in record.peers}
    for tensor in record.inputs:
        slot = tensor.slot
        while slot:
            slot = slot.rpartition(".")[0]
            if slot in found:
                found[slot].append(tensor)
    return found


def _batch_element(record: Record, op: PeerOp, tensors: tuple[TensorStat, ...]) -> CommCall:
    sends = _sends(op)
    return CommCall(
        index=record.index,
        name=record.name.full,
        api="p2p",
        kind=CallKind.SEND if sends else CallKind.RECEIVE,
        group=None,
        knowledge=GroupKnowledge.NAMED if op.group else GroupKnowledge.DEFAULT,
        group_label=op.group,
        sent=tensors if sends else (),
        received=() if sends else tensors,
        # its output is read when the call returns and normally never again; only the shape counts (dump format,
        # section 7.3)
        freshness=Freshness.WORTHLESS,
        peer=op.peer,
        tag=op.tag,
        finished=record.has_output,
    )


def _sends(op: PeerOp) -> bool:
    return op.op.endswith("isend") or op.op == "send"


def _plain(record: Record, role: Role, rank: int, groups_recorded: bool) -> CommCall:
    group, knowledge, label = _group(record, groups_recorded)
    n_args, n_kwargs, n_out = record.arity
    places = _places(role, n_args, record.kwargs)
    scalars = record.scalars
    peer = _rank_argument(scalars, places, group)
    if peer is None and role.kind is CallKind.RECEIVE and group is not None and len(group) == 2:
        peer = next((r for r in group if r != rank), None)  # any source, of one possible
    aligned = n_out == n_args + n_kwargs
    sent = _select(record.inputs, places.sends)
    received: tuple[TensorStat, ...] = ()
    if not aligned and role.kind is not CallKind.COLLECTIVE:
        freshness = Freshness.WORTHLESS  # overwritten by a later inner call (dump format, section 7.3)
    elif not aligned:
        received, freshness = record.outputs, Freshness.FRESH  # a returned tensor: MindSpore, hand-made formats
    else:
        received = _select(record.outputs, places.receives)
        freshness = Freshness.FRESH
    if freshness is Freshness.FRESH and (role.api == "irecv" or _is_async(scalars, places)):
        freshness = Freshness.MAYBE_STALE
    if role.kind is CallKind.SEND:
        received = ()
    root = peer if role.root is not Root.NONE else None
    if role.root is Root.NONE and role.kind is CallKind.COLLECTIVE:
        peer = None
    if role.root is Root.SENDS and root is not None and root != rank:
        sent = ()
    if role.root is Root.RECEIVES and root is not None and root != rank:
        received = ()
    return CommCall(
        index=record.index,
        name=record.name.full,
        api="p2p" if role.kind is not CallKind.COLLECTIVE else role.family or role.api,
        kind=role.kind,
        group=group,
        knowledge=knowledge,
        group_label=label,
        sent=sent,
        received=received,
        freshness=freshness,
        peer=peer if role.kind is not CallKind.COLLECTIVE else None,
        tag=_int_argument(scalars, places.tag) or 0,
        root=root,
        rooted=role.root,
        reduces=role.reduces,
        reduce_op=_reduce_op(record),
        in_place=role.sends is not None and role.sends == role.receives,
        finished=record.has_output,
    )


_POSITIONAL = ("input_args", "input")
"""Keys under which a record holds its positional arguments."""


class _Place(NamedTuple):
    """Where an argument or a result stands."""

    slots: frozenset[str]
    inside: tuple[str, ...]
    """What the slots of its parts begin with, where it is a list."""

    @classmethod
    def of(cls, slots: Iterable[str]) -> _Place:
        found = tuple(slots)
        return cls(frozenset(found), tuple(f"{slot}." for slot in found))


class _Places(NamedTuple):
    """Where the arguments that matter stand in the records of one API with the same arguments."""

    sends: _Place
    receives: _Place
    peer: frozenset[str]
    local_peer: frozenset[str]
    tag: frozenset[str]
    is_async: frozenset[str]


@lru_cache(maxsize=256)
def _places(role: Role, positional: int, keywords: tuple[str, ...]) -> _Places:
    """The places in a record with so many positional arguments and these keyword arguments.

    A run makes a few forms of calls, thousands of times on thousands of ranks.
    """

    def of(parameter: str | None) -> list[str]:
        return _argument_slots(role, parameter, positional, keywords) if parameter else []

    wide, local = role.peer
    results = []
    for slot in of(role.receives):
        place, key = slot.split(".", 1)
        at = int(key) if place in _POSITIONAL else positional + keywords.index(key)
        results.append(f"output.{at}")
    return _Places(
        _Place.of(of(role.sends)),
        _Place.of(results),
        frozenset(of(wide)),
        frozenset(of(local)),
        frozenset(of("tag")),
        frozenset(of("async_op")),
    )


def _argument_slots(role: Role, parameter: str, positional: int, keywords: tuple[str, ...]) -> list[str]:
    """Slots on the input side under which a parameter may stand, by position and by keyword.

    Hand-made dumps write positional arguments under ``input``, under ``input_args``, or under both.
    """
    slots = [f"input_kwargs.{name}" for name in _SYNONYMS.get(parameter, (parameter,)) if name in keywords]
    position = role.signature.index(parameter) if parameter in role.signature else -1
    if 0 <= position < positional:
        slots += [f"{place}.{position}" for place in _POSITIONAL]
    return slots


def _select(tensors: tuple[TensorStat, ...], place: _Place) -> tuple[TensorStat, ...]:
    slots, inside = place
    return tuple([t for t in tensors if t.slot in slots or t.slot.startswith(inside)]) if slots else ()


def _scalar(scalars: tuple[Scalar, ...], slots: frozenset[str]) -> Scalar | None:
    if slots:
        for scalar in scalars:
            if scalar.slot in slots:
                return scalar
    return None


def _int_argument(scalars: tuple[Scalar, ...], slots: frozenset[str]) -> int | None:
    scalar = _scalar(scalars, slots)
    value = scalar.value if scalar else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _rank_argument(scalars: tuple[Scalar, ...], places: _Places, group: tuple[int, ...] | None) -> int | None:
    """``src``/``dst`` are global ranks, ``group_src``/``group_dst`` places in the group (dump format, section 7.4)."""
    value = _int_argument(scalars, places.peer)
    if value is not None:
        return value
    position = _int_argument(scalars, places.local_peer)
    if position is None:
        return None
    if group is None:
        return position  # default group: position and global rank are the same
    return group[position] if 0 <= position < len(group) else None


def _group(record: Record, groups_recorded: bool) -> tuple[tuple[int, ...] | None, GroupKnowledge, str | None]:
    ref: GroupRef | None = record.groups[0] if record.groups else None
    if ref is not None and ref.ranks is not None:
        return ref.ranks, GroupKnowledge.RECORDED, ref.name
    if ref is not None and ref.name is not None:
        world = "world" in ref.name.lower()
        return None, GroupKnowledge.DEFAULT if world else GroupKnowledge.NAMED, ref.name
    return None, GroupKnowledge.DEFAULT if groups_recorded else GroupKnowledge.UNKNOWN, None


def _is_async(scalars: tuple[Scalar, ...], places: _Places) -> bool:
    scalar = _scalar(scalars, places.is_async)
    return scalar is not None and scalar.value is True


def _reduce_op(record: Record) -> str | None:
    """``SUM``, ``MAX`` ...; None where the dump does not say (the default is SUM)."""
    for scalar in record.scalars:
        if isinstance(scalar.value, str) and (found := _REDUCE_OP.search(scalar.value)):
            return found.group(1).upper()
    return None


def without_stale(call: CommCall) -> CommCall:
    """The call with a result that is known to be stale taken out; what remains of it is its size."""
    unknown = ValueState.UNKNOWN
    received = tuple(replace(t, max=None, min=None, mean=None, norm=None, state=unknown) for t in call.received)
    return replace(call, received=received, freshness=Freshness.WORTHLESS)


def may_be_stale(call: CommCall) -> bool:
    """Whether the recorded result may be older than the data that arrived (dump format, section 7.3)."""
    return call.kind is not CallKind.SEND and (call.freshness is not Freshness.FRESH or not call.finished)
