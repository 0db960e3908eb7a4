"""One record's values: tensors, scalars, groups and P2P operations out of nested JSON.

A leaf is told by its form (dump format, section 4):

- an object whose ``type`` is a string and that has ``dtype`` or ``shape`` or ``Max``/``Min`` is a tensor;
- an object without ``type`` but with ``Max``/``Min``, or with ``dtype`` and ``shape``, that are no objects
  themselves, is a tensor of the hand-made form (section 14);
- an object with ``group_ranks``, or of a ``...ProcessGroup`` type, is a process group;
- an object with ``class_type`` (and no ``type``) is a P2P operation;
- any other object whose ``type`` is a string is a scalar; every other object, and every list, is a container.
"""

from __future__ import annotations

import json
import math
import sys
from enum import Enum
from functools import lru_cache

from firstnan.dump.groups import as_group
from firstnan.dump.records import GroupRef, PeerOp, Scalar, TensorStat
from firstnan.dump.values import INFINITE, Number, ValueState, judge, normalise_dtype, parse_number

MAX_NESTING = 400
"""Containers inside one argument that are followed; the writer stops there as well."""

LONGEST_SLOT = 500
"""Characters of a slot's name; what is longer is cut, lest a long key is repeated in every slot below it."""

_INTEGER_DTYPES = ("int", "uint", "bool", "qint", "quint")
_TEXT_DTYPES = ("<u", ">u", "|s", "str", "object", "datetime", "timedelta")  # numpy arrays without numbers
_REDUCE_WORDS = frozenset({"sum", "max", "min", "prod", "product", "avg", "mean", "band", "bor", "bxor"})
_PLACEHOLDERS = ("tensor_stat_index", "is_nan_index", "md5_index")
_USUAL_LENGTH = 64  # arguments whose slots are made beforehand
_LARGEST = int(sys.float_info.max)
_LONGEST_LIST = 200  # characters of a list that is a scalar's value (a size, a slice)

_FINITE = ValueState.FINITE
_UNKNOWN = ValueState.UNKNOWN


class Absence(Enum):
    """Why a floating tensor has no usable Max and Min."""

    NULL = "null statistics"
    """The keys are there and hold null or no number."""
    PLACEHOLDER = "placeholders"
    """The writer left an index in place of the statistics."""
    CHECKSUM = "checksums only"
    """``md5`` stands where the statistics are expected."""
    NO_KEYS = "no statistics"
    """Neither statistics nor anything else that tells about the values."""


class Reader:
    """Takes one value tree after the other and keeps what the whole file tells.

    One instance per file; :meth:`start` before each record.
    """

    __slots__ = (
        "absences", "blank", "communication", "deep", "default", "dtypes", "groups", "narrowed", "odd",
        "peers", "scalars", "seen", "texts", "wide",
    )  # fmt: skip

    def __init__(self) -> None:
        self.dtypes: dict[object, tuple[str, bool]] = {}
        self.texts: dict[str, str] = {}
        """One object for each text that many records share (slots, dtypes)."""
        self.narrowed = False
        """An integer tensor with a float Max and a Mean was seen: statistics went through float32."""
        self.deep = 0
        """Values that were skipped because they are nested too deeply."""
        self.absences: dict[Absence, int] = {}
        self.start(communication=False)

    def start(self, *, communication: bool) -> None:
        """Begin a record: empty collections."""
        self.scalars: list[Scalar] = []
        self.groups: list[GroupRef] = []
        self.peers: list[PeerOp] = []
        self.communication = communication
        self.default: ValueState = _UNKNOWN
        """State of a floating tensor that has neither statistics nor a flag of its own."""
        self.blank = 0
        """Floating tensors of this record that could not be judged."""
        self.seen = 0
        """Floating tensors of this record that could be judged."""
        self.wide = False
        """A float64 tensor of this record is infinite."""
        self.odd = 0
        """Parts of this record that have no known form."""

    def top(self, value: object, prefix: str) -> tuple[list[TensorStat], int]:
        """The tensors of ``input_args``, ``output`` ... and the number of elements at its top.

        A list and an object are both containers there; a lone leaf counts as a list of one.
        """
        tensors: list[TensorStat] = []
        if type(value) is dict and not _is_leaf(value):
            for key, item in value.items():
                if item is not None:
                    self._walk(item, self._shared(f"{prefix}.{key}"), tensors, 0)
            return tensors, len(value)
        if value is None:
            return tensors, 0
        items: list[object] = value if type(value) is list else [value]
        if type(value) is not list and type(value) is not dict:
            self.odd += 1
        slots = _numbered(prefix)
        for index, item in enumerate(items):
            if item is not None:
                slot = slots[index] if index < _USUAL_LENGTH else self._shared(f"{prefix}.{index}")
                self._walk(item, slot, tensors, 0)
        return tensors, len(items)

    def named(self, value: object, prefix: str) -> list[TensorStat]:
        """Tensors by name (``parameters``, gradients): a list of one tensor stands for the tensor."""
        tensors: list[TensorStat] = []
        if type(value) is not dict:
            self.odd += value is not None
            return tensors
        for key, item in value.items():
            if type(item) is list and len(item) == 1:
                item = item[0]
            if item is not None:
                self.odd += type(item) is not dict and type(item) is not list
                self._walk(item, self._shared(f"{prefix}.{key}"), tensors, 0)
        return tensors

    def _shared(self, text: str) -> str:
        if len(text) > LONGEST_SLOT:
            text = text[:LONGEST_SLOT]
        return self.texts.setdefault(text, text)

    def _walk(self, value: object, slot: str, tensors: list[TensorStat], depth: int) -> None:
        if type(value) is dict:
            kind = value.get("type")
            if type(kind) is str:
                if "dtype" in value or "shape" in value or "Max" in value or "Min" in value:
                    tensors.append(self._tensor(value, slot))
                else:
                    self._scalar(value, kind, slot)
                return
            if type(value.get("class_type")) is str:
                self._peer(value, slot, tensors, depth)
                return
            if _is_bare_tensor(value):
                tensors.append(self._tensor(value, slot))
                return
            if "group_ranks" in value and type(value["group_ranks"]) is list:
                self._scalar(value, "ProcessGroup", slot)
                return
            if depth >= MAX_NESTING:
                self.deep += 1
                return
            for key, item in value.items():
                if item is not None:
                    self._walk(item, self._shared(f"{slot}.{key}"), tensors, depth + 1)
        elif type(value) is list:
            if depth >= MAX_NESTING:
                self.deep += 1
                return
            for index, item in enumerate(value):
                if item is not None:
                    self._walk(item, self._shared(f"{slot}.{index}"), tensors, depth + 1)
        elif isinstance(value, (str, int, float)):
            self.scalars.append(Scalar(slot, type(value).__name__, value if isinstance(value, str) else _number(value)))

    def _tensor(self, raw: dict[str, object], slot: str) -> TensorStat:
        name = raw.get("dtype")
        known = self.dtypes.get(name) if type(name) is str else _NO_DTYPE
        dtype, integer = known if known is not None else self._dtype(str(name))
        sizes = raw.get("shape")
        shape: tuple[int, ...] | None = None
        empty = False
        if type(sizes) is list:
            if all(type(size) is int and size >= 0 for size in sizes):
                shape = tuple(sizes)
                empty = 0 in shape
            else:
                self.odd += 1
        elif sizes is not None:
            self.odd += 1
        largest, least = raw.get("Max"), raw.get("Min")
        mean, norm = raw.get("Mean"), raw.get("Norm")
        if type(largest) is float and type(least) is float and largest - largest == 0.0 and least - least == 0.0:
            state = ValueState.EMPTY if empty else _FINITE  # the common case; x - x is NaN for a non-finite x
            high: Number | None = largest
            low: Number | None = least
            if integer and mean is not None and not self.narrowed and raw.get("type") != "numpy.ndarray":
                self.narrowed = True
            if not integer:
                self.seen += 1
        else:
            high, low = _number(largest), _number(least)
            state = self._state(raw, high, low, dtype, integer=integer, empty=empty)
            if dtype == "float64" and state in INFINITE and raw.get("type") != "numpy.ndarray":
                self.wide = True
        grad = raw.get("requires_grad")
        return TensorStat(
            slot, dtype, shape, high, low,
            mean if type(mean) is float else _number(mean), norm if type(norm) is float else _number(norm),
            state, grad if type(grad) is bool else None, _text(raw.get("md5")),
        )  # fmt: skip

    def _state(
        self, raw: dict[str, object], high: Number | None, low: Number | None, dtype: str, *, integer: bool, empty: bool
    ) -> ValueState:
        state = judge(high, low)
        if empty and not state.is_bad:
            return ValueState.EMPTY
        if integer:  # cannot hold a non-finite value, whatever was recorded
            return _FINITE
        if state is _UNKNOWN:
            state = _flag(raw["is_nan"]) if "is_nan" in raw else self.default
        if state is not _UNKNOWN:
            self.seen += 1
        elif "FakeTensor" not in str(raw.get("type")) and not dtype.startswith(
            _TEXT_DTYPES
        ):  # nothing in these could be bad
            self.blank += 1
            why = _absence(raw)
            self.absences[why] = self.absences.get(why, 0) + 1
        return state

    def _dtype(self, name: str) -> tuple[str, bool]:
        dtype = self._shared(normalise_dtype(name))
        known = (dtype, dtype.startswith(_INTEGER_DTYPES))
        self.dtypes[name] = known
        return known

    def _scalar(self, raw: dict[str, object], kind: str, slot: str) -> None:
        if "group_ranks" in raw or kind.endswith("ProcessGroup"):
            members = raw.get("group_ranks")
            ranks = _ranks(members)
            self.odd += ranks is None and members is not None and members != []  # empty where a file is cut
            self.groups.append(GroupRef(slot, ranks, _text(raw.get("group_id"))))
            return
        value = raw.get("value", raw.get("format"))
        if kind == "str" and type(value) is str and self._is_group_name(value, slot):
            self.groups.append(GroupRef(slot, None, value))
            return
        if isinstance(value, (int, float)):
            self.scalars.append(Scalar(slot, self._shared(kind), _number(value)))
        elif isinstance(value, str) or value is None:
            self.scalars.append(Scalar(slot, self._shared(kind), value))
        else:
            self.scalars.append(Scalar(slot, self._shared(kind), _shortened(value)))

    def _is_group_name(self, value: str, slot: str) -> bool:
        """MindSpore writes a group as its name (dump format, section 12): the argument ``group``, or
        any text among a communication's arguments that is no reduction."""
        if slot.endswith(".group"):
            return True
        return self.communication and slot.count(".") == 1 and value.lower().rpartition(".")[2] not in _REDUCE_WORDS

    def _peer(self, raw: dict[str, object], slot: str, tensors: list[TensorStat], depth: int) -> None:
        peer, tag = raw.get("peer"), raw.get("tag")
        self.peers.append(
            PeerOp(
                slot,
                _text(raw.get("op")) or "",
                peer if type(peer) is int else None,
                tag if type(tag) is int else 0,
                _text(raw.get("group_id")),
            )
        )
        tensor = raw.get("tensor")
        if tensor is not None and depth < MAX_NESTING:
            self._walk(tensor, f"{slot}.tensor", tensors, depth + 1)


_NO_DTYPE = ("", False)


def _number(raw: object) -> Number | None:
    """A statistic; integers beyond 64 bits become floats, those that no dtype holds (``1`` with 400 zeros) infinite, as
    ``1e400`` does."""
    value = parse_number(raw)
    if type(value) is int and not -(2**63) <= value < 2**64:
        return float(value) if -_LARGEST <= value <= _LARGEST else (math.inf if value > 0 else -math.inf)
    return value


def _flag(raw: object) -> ValueState:
    """``is_nan`` of one tensor or record: 0 finite, 1 not, null not known."""
    if isinstance(raw, (bool, int)):
        return ValueState.NON_FINITE if raw else _FINITE
    return _UNKNOWN


def flag_of(raw: object) -> bool | None:
    """``is_nan`` of a record: True, False, or None when the device could not tell."""
    return bool(raw) if isinstance(raw, (bool, int)) else None


def _absence(raw: dict[str, object]) -> Absence:
    if any(key in raw for key in _PLACEHOLDERS):
        return Absence.PLACEHOLDER
    if "Max" in raw or "Min" in raw:
        return Absence.NULL
    return Absence.CHECKSUM if "md5" in raw else Absence.NO_KEYS


@lru_cache(maxsize=64)
def _numbered(prefix: str) -> tuple[str, ...]:
    """The slots of usual arguments: ``prefix.0``, ``prefix.1`` ..."""
    return tuple(f"{prefix}.{index}" for index in range(_USUAL_LENGTH))


def _is_bare_tensor(value: dict[str, object]) -> bool:
    """A tensor of the hand-made form: no ``type``, and statistics that are no objects themselves."""
    for key in ("Max", "Min"):
        if key in value and not isinstance(value[key], (dict, list)):
            return True
    return type(value.get("dtype")) is str and type(value.get("shape")) is list


def _is_leaf(value: dict[str, object]) -> bool:
    return type(value.get("type")) is str or type(value.get("class_type")) is str or _is_bare_tensor(value)


def _ranks(raw: object) -> tuple[int, ...] | None:
    if type(raw) is list and raw and set(map(type, raw)) == {int} and min(raw) >= 0:
        return as_group(raw)
    return None


def _text(raw: object) -> str | None:
    return raw if type(raw) is str else None


def _shortened(value: object) -> str:
    """A list or object that is a scalar's value, as JSON text (``[512]``)."""
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError):
        return "..."
    return text if len(text) <= _LONGEST_LIST else text[:_LONGEST_LIST] + "..."
