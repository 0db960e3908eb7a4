"""The same operator with equal inputs gives equal outputs on all ranks, or one of the devices computes wrongly.

Statistics prove that inputs are equal only where they are particular enough. Rules, each tested under its name:

``rich_inputs_only``
    Every input is floating point and finite; those whose elements differ have at least 48 significant bits in their
    four numbers. bfloat16 seldom has.
``no_hidden_inputs``
    Random numbers, indices, masks, process groups and uninitialised memory are inputs that no statistics show.
``no_order_of_additions``
    Operators that add with atomics on devices (scatter, attention and convolution backward) differ by themselves.
``permuted_elements_look_equal``
    Permuted elements have the same statistics. An operator that pairs elements of several activations counts only where
    others of that kind agreed before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from zlib import crc32

from firstnan.agree.odd import groups, odd_ranks
from firstnan.agree.sources import Sources
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
from firstnan.dump.records import Direction, Record, RecordKind, TensorStat
from firstnan.operators.communication import COMMUNICATION_PREFIXES
from firstnan.read.fingerprints import OperatorPrints, canonical, column, packed_column

RICH = 48
"""Significant bits of the four numbers from which on equal statistics mean equal tensors."""
AGREED = 8
"""Operators that pair elements and agreed before one that differs."""
_HIDDEN = re.compile(
    r"drop|rand|normal_?$|bernoulli|multinomial|uniform|exponential|geometric|cauchy|gumbel|poisson|shuffle"
    r"|empty|resize|_like$|^set_|narrow|chunk|split|select|getitem|setitem|slice|index|gather|scatter|take|masked"
    r"|unique|sort|topk|argmax|argmin|nonzero|where|roll|flip|permute_tokens|unpermute|moe|all_to_all|allto|reduce_from"
    r"|copy_|fill|put|embedding|histc|bincount|one_hot|arange|linspace|as_strided|unfold|view_as|data_ptr|item|tolist"
)
"""Short names of operators with an input that is not recorded, or that only index."""
_ATOMIC = re.compile(
    r"attention|flash|conv|interpolate|upsample|pool|pad|ctc|cumsum|cumprod|grid_sample|segment|grouped"
)
"""Short names of operators whose backward adds in any order."""
_WEIGHTED = re.compile(
    r"^(linear|matmul|__matmul__|__rmatmul__|mm|bmm|addmm|baddbmm|mv|conv\w*|layer_norm|rms_norm|group_norm|batch_norm"
    r"|instance_norm|npu_rms_norm|npu_linear|fused_\w*norm|dense)$"
)
"""Operators that treat every row of one activation alike, with weights beside it."""
_ALONE = re.compile(r"sum|mean|norm$|var|std|loss|entropy|dot|logsumexp|trace|softmax")
"""Operators over one input whose result rounds by the order of elements."""
_NUMBERS = ("max", "min", "mean", "norm")


def fingerprints(records: Iterable[Record]) -> OperatorPrints:
    """Fingerprints of all operators of one rank."""
    names: list[str] = []
    inputs: list[int] = []
    outputs: list[int] = []
    aligned: list[bool] = []
    forward: dict[str, Record] = {}
    left_out = 0
    for record in records:
        name = record.name
        if name.kind is not RecordKind.API or name.prefix in COMMUNICATION_PREFIXES:
            continue
        taken: tuple[Record, ...] = (record,)
        if name.direction is Direction.BACKWARD:
            twin = forward.get(name.full.removesuffix(".backward") + ".forward")
            taken = (record, twin) if twin is not None else ()
        else:
            forward[name.full] = record
        given = _output_digest(record)
        found = _input_digest(taken) if taken and given and is_telling(record) else None
        if found is None:
            left_out += 1
            continue
        names.append(name.full)
        inputs.append(found)
        outputs.append(given)
        aligned.append(_is_aligned(name.api, taken))
    return OperatorPrints(tuple(names), packed_column(inputs), packed_column(outputs), tuple(aligned), left_out)


def disagreement(
    step: int, prints: Mapping[int, OperatorPrints], sources: Sources, count: Count
) -> Disagreement | None:
    """The first operator that gave different outputs for equal inputs."""
    ranks = sorted(prints)
    tables = {
        rank: {
            name: (given, got, aligned)
            for name, given, got, aligned in zip(
                one.names, column(one.inputs), column(one.outputs), one.aligned, strict=True
            )
        }
        for rank, one in prints.items()
    }
    compared = unlike = agreed = 0
    found: Disagreement | None = None
    for name in dict.fromkeys(name for rank in ranks for name in prints[rank].names):
        held = {rank: tables[rank][name] for rank in ranks if name in tables[rank]}
        groups: dict[int, list[int]] = {}
        for rank, (given, _, _) in held.items():
            groups.setdefault(given, []).append(rank)
        alike = [members for members in groups.values() if len(members) > 1]
        compared += bool(alike)
        unlike += not alike
        is_aligned = next(iter(held.values()))[2]
        for members in alike:
            if len({held[rank][1] for rank in members}) == 1:
                agreed += is_aligned
            elif found is None and (not is_aligned or agreed >= AGREED):
                found = _verified(step, name, {rank: held[rank][1] for rank in members}, sources)
    count.compared += compared
    count.leave_out(NotComparable.OTHER_INPUTS, unlike)
    count.leave_out(NotComparable.NOT_TELLING, max(one.left_out for one in prints.values()))
    return found


# -- one record --------------------------------------------------------------------------------------------


def is_telling(record: Record) -> bool:
    """The recorded inputs determine the output of such an operator."""
    api = record.name.api.rpartition(".")[2].strip("_") if record.name.api.startswith("__") else record.name.api
    api = api.rpartition(".")[2]
    if _HIDDEN.search(api) or record.groups or record.peers or not record.has_output or record.distrusted:
        return False
    if record.name.direction is Direction.BACKWARD and _ATOMIC.search(api):
        return False
    return not any("drop" in scalar.slot or "keep_prob" in scalar.slot for scalar in record.scalars)


def is_rich(tensor: TensorStat) -> bool:
    """rich_inputs_only.

    >>> from firstnan.dump.values import ValueState
    >>> is_rich(TensorStat("input.0", "float32", (9,), 0.1, -0.3, 0.7, 1.9, ValueState.FINITE))
    True
    >>> is_rich(TensorStat("input.0", "float32", (9,), 1.0, -0.5, 0.0, 2.0, ValueState.FINITE))
    False
    """
    return sum(_bits(getattr(tensor, key)) for key in _NUMBERS) >= RICH


def _bits(number: object) -> int:
    """Significant bits of the mantissa."""
    if not isinstance(number, float) or not math.isfinite(number) or number == 0:
        return 0
    mantissa = int(abs(math.frexp(number)[0]) * 2**53)
    return 54 - (mantissa & -mantissa).bit_length()


def _is_constant(tensor: TensorStat) -> bool:
    return tensor.max == tensor.min


def _tensors(records: Iterable[Record]) -> Iterator[TensorStat]:
    for record in records:
        yield from record.inputs


def _input_digest(taken: Sequence[Record]) -> int | None:
    """One number for inputs and settings; None: equal statistics would prove nothing."""
    parts: list[bytes] = []
    any_rich = False
    for tensor in _tensors(taken):
        text = canonical(tensor)
        if text is None:
            return None
        rich = is_rich(tensor)
        if not rich and not _is_constant(tensor):
            return None
        any_rich = any_rich or rich
        parts += (tensor.slot.encode(), tensor.dtype.encode(), text)
    if not any_rich:
        return None
    for record in taken:
        parts += (f"{scalar.slot}={scalar.type}:{scalar.value!r}".encode() for scalar in record.scalars)
        parts.append(f"{record.arity[:2]}{record.kwargs}".encode())
    return crc32(b"|".join(parts)) or 1


def _output_digest(record: Record) -> int:
    texts = [canonical(tensor) for tensor in record.outputs]
    known = [text for text in texts if text is not None]
    return (crc32(b"|".join(known)) or 1) if known and len(known) == len(texts) else 0


def _is_aligned(api: str, taken: Sequence[Record]) -> bool:
    short = api.rpartition(".")[2]
    if _WEIGHTED.search(short):
        return False
    return bool(_ALONE.search(short)) or sum(is_rich(tensor) for tensor in _tensors(taken)) > 1


# -- the finding -------------------------------------------------------------------------------------------


def _verified(step: int, name: str, digests: Mapping[int, int], sources: Sources) -> Disagreement | None:
    """The finding, once the records themselves show it (a digest may be that of other inputs).

    ``digests``: what each rank with equal inputs gave. Where no record can be reached they have to do.
    """
    twin = name.removesuffix(".backward") + ".forward"
    wanted = (name, twin) if name.endswith(".backward") else (name,)
    read = {rank: sources.records(step, rank, wanted) for rank in digests}
    if not any(read.values()):
        return _told(step, name, digests, {})
    held = {rank: found for rank, found in read.items() if len(found) == len(wanted)}
    inputs = {_inputs_text([found[each] for each in wanted]) for found in held.values()}
    outputs = {rank: tuple(canonical(tensor) for tensor in found[name].outputs) for rank, found in held.items()}
    if len(held) < 2 or len(inputs) > 1 or len(set(outputs.values())) == 1:
        return None
    return _told(step, name, outputs, {rank: found[name] for rank, found in held.items()})


def _told(step: int, name: str, outputs: Mapping[int, Hashable], records: Mapping[int, Record]) -> Disagreement:
    members = tuple(sorted(outputs))
    odd = odd_ranks(outputs)
    lists = [[canonical(tensor) for tensor in record.outputs] for record in records.values()]
    place = next((at for at, values in enumerate(zip(*lists, strict=False)) if len(set(values)) > 1), 0)
    api = name.split(".")[1]
    return Disagreement(
        kind=DisagreementKind.OPERATOR,
        step=step,
        since_step=step,
        ranks=members,
        odd_ranks=odd,
        op_name=name,
        parameter=None,
        exec_order=records[members[0]].index if records else None,
        per_rank={rank: record.outputs[place] for rank, record in records.items()},
        count=1,
        of=1,
        held=(Held(name, groups(outputs)),),
        mechanism=DisagreementMechanism.DEVICE_FAULT_SUSPECTED,
        confidence=Confidence.LIKELY if odd is None else Confidence.CERTAIN,
        explanation=Note("differ.why.operator", {"api": api, "members": len(members)}),
        evidence=(Note("evidence.equal_inputs"),),
    )


def _inputs_text(records: Sequence[Record]) -> tuple[object, ...]:
    tensors = tuple((tensor.slot, tensor.dtype, canonical(tensor)) for tensor in _tensors(records))
    scalars = tuple((s.slot, s.type, repr(s.value)) for record in records for s in record.scalars)
    return tensors, scalars
