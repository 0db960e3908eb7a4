"""How surely a bad value that a record reads is the one that another record wrote.

Rules, each tested under its name:

``a_guess_needs_an_unrecorded_operator``
    A reader and a writer whose numbers or sizes differ are linked only where the dump leaves out an operator of a
    module around one of them that can make the one of the other: cuts make tensors smaller, joins make them larger,
    views change neither numbers nor size. Slices leave no trace where no ``__getitem__`` is listed.
``a_guess_keeps_the_class``
    NaN stays NaN, +Inf stays +Inf; and it stays near.
``what_is_not_listed_keeps_the_size``
    ... except for what stands right behind: functions that a program bound before the tool wrapped them (tables of
    activations) are listed nowhere. They keep the number of elements, and an infinity may become NaN.
``between_modules_an_infinity_becomes_nan``
    Nor in a dump of modules alone: what the module around two of them does with the result of the first has no record,
    and sums, products and softmax turn an infinity into NaN.
``a_guess_never_enters_a_parameter``
    Nor a buffer, nor the batch: these come from outside. Only an all_gather brings weights (sharded training), and what
    arrived from another rank and was not read may have been joined with a batch (halos of a split image or sequence).
"""

from __future__ import annotations

import math
from enum import Enum

from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.dump.values import INFINITE, ValueState
from firstnan.operators.table import STORED_STATISTICS, WEIGHT_KEYWORDS, Rulebook, short_api
from firstnan.rank.taint.structure import Structure

NEAR = 64
"""Records within which a value is usually read again."""
FAR = 4096
"""Records behind which a value that nothing read is not read any more."""
BESIDE = 8
"""Records within which it is read by what directly follows."""


class Link(Enum):
    """How surely a reader's value is a writer's."""

    SAME = "same"
    """Class, Max, Min and shape agree."""
    RESIZED = "resized"
    """The same numbers, or their negation, in another shape of the same size."""
    GUESS = "guess"
    """The nearest value that an operator without a record can have turned into it, or one of the same class that no
    number tells from others and that was written long before."""


SMALLER = frozenset(
    ["__getitem__", "select", "narrow", "slice", "split", "split_with_sizes", "chunk", "unbind", "index_select",
     "masked_select", "gather", "take", "take_along_dim", "tensor_split", "diagonal", "unfold", "sum", "mean", "amax",
     "amin", "max", "min", "topk", "squeeze", "as_strided"]
)  # fmt: skip
"""Operators that give fewer elements than they take."""
LARGER = frozenset(
    ["cat", "concat", "concatenate", "stack", "hstack", "vstack", "pad", "expand", "expand_as", "repeat",
     "repeat_interleave", "tile", "broadcast_to", "roll", "__setitem__", "copy", "index_put", "index_add", "index_copy",
     "scatter", "scatter_add", "diag_embed", "meshgrid", "interpolate"]
)  # fmt: skip
"""Operators that give more elements than they take, or write them into a larger tensor."""
UNCHANGED = frozenset(
    ["view", "view_as", "reshape", "flatten", "transpose", "permute", "t", "swapaxes", "unsqueeze", "contiguous",
     "clone", "detach", "movedim", "ravel", "unflatten", "size", "dim", "numel", "stride", "type", "float", "to",
     "half", "bfloat16", "double", "cpu", "cuda", "npu", "long", "int", "bool", "item", "tolist", "requires_grad",
     "empty", "empty_like", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "arange", "triu", "tril"]
)  # fmt: skip
"""Operators that give the numbers that they take, or read none."""


def same_values(one: TensorStat, other: TensorStat) -> bool:
    """The same class, and the same Max and Min where they are numbers."""
    if one.state is not other.state:
        return False
    if one.state is ValueState.NAN or one.state is ValueState.NON_FINITE:
        return True
    return one.max == other.max and one.min == other.min


def is_distinct(tensor: TensorStat) -> bool:
    """Its numbers tell it from others: Max or Min is a number."""
    return any(number is not None and math.isfinite(number) for number in (tensor.max, tensor.min))


def is_mirrored(one: TensorStat, other: TensorStat) -> bool:
    """Each is the other's negation: ``-x`` has no record in any version."""
    numbers = one.max, one.min, other.max, other.min
    if any(number is None for number in numbers) or ValueState.NAN in (one.state, other.state):
        return False
    return one.max == -(other.min or 0) and one.min == -(other.max or 0)


def keeps_the_class(written: TensorStat, read: TensorStat) -> bool:
    """a_guess_keeps_the_class; a flag for a whole record stands for any class."""
    return written.state is read.state or written.state is ValueState.NON_FINITE


def may_be_guessed(
    structure: Structure,
    book: Rulebook,
    writer: Record,
    written: TensorStat,
    reader: Record,
    read: TensorStat,
    *,
    gathers: bool = False,
    arrived: bool = False,
) -> bool:
    """Whether an operator without a record can have made the reader's value of the writer's.

    ``gathers``: the writer is an all_gather, which brings the weights of sharded training. ``arrived``: the value came
    from another rank, and nothing has read it.
    """
    follows = structure.has_apis and _follows_directly(writer, written, reader, read)
    if not keeps_the_class(written, read) and not (
        _may_become_nan(written, read) and (follows or _is_left_between(structure, writer, reader))
    ):
        return False
    if is_weight(reader, read, book):
        return gathers and reader.name.direction is Direction.FORWARD
    if reader.name.direction is Direction.BACKWARD:
        return True  # the backward of what has no record has none either, and sums of gradients never have
    if reader.index - writer.index > NEAR or (is_at_the_door(structure, reader, read) and not arrived):
        return False
    if (
        written.numel is None
        or not structure.lists_calls
        or not structure.has_apis
        or RecordKind.MODULE in (writer.name.kind, reader.name.kind)
    ):
        return True  # the dump does not tell what it leaves out, or the size of what was written
    if follows:
        return True
    apis = structure.left_out_around(writer.name.full) | structure.left_out_around(reader.name.full)
    if not structure.lists_slices:
        apis |= {"__getitem__"}
    return any(_explains(api, written, read) for api in apis)


def _may_become_nan(written: TensorStat, read: TensorStat) -> bool:
    return written.state in INFINITE and read.state is ValueState.NAN


def _follows_directly(writer: Record, written: TensorStat, reader: Record, read: TensorStat) -> bool:
    """what_is_not_listed_keeps_the_size."""
    alike = written.numel is not None and written.numel == read.numel and written.requires_grad == read.requires_grad
    return alike and reader.index - writer.index <= BESIDE


def _is_left_between(structure: Structure, writer: Record, reader: Record) -> bool:
    """between_modules_an_infinity_becomes_nan."""
    around = structure.parents.get(writer.name.full)
    return not structure.has_apis and around is not None and around == structure.parents.get(reader.name.full)


def is_at_the_door(structure: Structure, record: Record, tensor: TensorStat) -> bool:
    """An argument that needs no gradient of the outermost module around a record, or of the record itself."""
    if tensor.requires_grad:  # the module need not be looked for
        return False
    chain = structure.ancestors(record.name.full)
    if record.name.kind is RecordKind.MODULE:
        chain = (record.name.full, *chain)
    outer = structure.by_name.get(chain[-1]) if chain else None
    given = outer.inputs if outer is not None else ()
    return any(not t.requires_grad and t.state is tensor.state and t.numel == tensor.numel for t in given)


def is_weight(record: Record, tensor: TensorStat, book: Rulebook) -> bool:
    """a_guess_never_enters_a_parameter: a tensor in the place of a weight or of a buffer, as far as its place tells."""
    place, _, key = tensor.slot.partition(".")
    if place == "parameters":
        return True
    api = short_api(record.name)
    if api in STORED_STATISTICS and key in ("1", "2"):
        return True
    if tensor.requires_grad is False:
        return False
    head = key.split(".", 1)[0]
    if place == "input_kwargs":
        return head in WEIGHT_KEYWORDS
    return head.isdigit() and int(head) in book.weights(api)


def _explains(api: str, written: TensorStat, read: TensorStat) -> bool:
    """a_guess_needs_an_unrecorded_operator."""
    if api in UNCHANGED or written.numel is None or read.numel is None:
        return False
    if api in SMALLER:
        return read.numel < written.numel
    if api in LARGER:
        return read.numel > written.numel or written.state is not ValueState.NAN  # other numbers joined it
    return True
