"""One record, one experiment: run it again, compare, say what that means.

1. The CPU in the dumped dtype. Where its result is the recorded one to the last digits, the record ``agrees``.
2. Else float64, the truth; and, for finite values out of place, how sensitive the result is (:mod:`.tolerance`).

NaN and Inf are compared as sets of places. An Inf within a few units of rounding of the dtype's limit is no set apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from msgspec import Struct
from torch import Tensor

from firstnan.answer.replay import BadElements, Example, NotRun, Replay, ReplayVerdict
from firstnan.replaying import tolerance
from firstnan.replaying.arguments import Leaf, decode, raw_tensors
from firstnan.replaying.bad_elements import masks
from firstnan.replaying.bad_elements.minimal import smallest
from firstnan.replaying.bad_elements.rows import cut_to_rows, fits, float64_bytes, plain_bytes
from firstnan.replaying.experiment import FLOATING, Experiment, RankTensors, experiment
from firstnan.replaying.refusal import RefusedError
from firstnan.replaying.tensors import is_stale


class Limits(Struct, frozen=True):
    """What one record may use."""

    memory: int = 1 << 30
    """Bytes for the tensors of one run."""


class _Judged(Struct, frozen=True):
    """One tensor of the result."""

    verdict: ReplayVerdict
    device: int
    cpu: int
    float64: int | None
    elements: BadElements | None
    example: Example | None = None


_WORST_FIRST = (
    ReplayVerdict.NOT_REPRODUCED,
    ReplayVerdict.VALUES_DIFFER,
    ReplayVerdict.REPRODUCED_RANGE,
    ReplayVerdict.REPRODUCED,
    ReplayVerdict.AGREES,
)


def replay_record(name: str, rank: RankTensors, limits: Limits) -> Replay:
    """Run one record again. Whatever keeps it from being run is in the answer."""
    try:
        made = experiment(name, rank)
    except RefusedError as refusal:
        return _not_run(refusal, _elements_alone(name, rank, limits))
    try:
        return judge(made, limits)
    except RefusedError as refusal:
        return _not_run(refusal, _recorded_elements(made.recorded))


def _not_run(refusal: RefusedError, elements: BadElements | None) -> Replay:
    return Replay(
        ReplayVerdict.NOT_RUN,
        refusal.reason,
        refusal.detail,
        device_elements=None if elements is None else elements.bad,
        elements=elements,
    )


def _elements_alone(name: str, rank: RankTensors, limits: Limits) -> BadElements | None:
    """What the recorded result shows, where the record cannot be run."""
    raw = rank.records.get(name, {}).get("output")
    if not fits(raw_tensors(raw), limits.memory):
        return None
    try:
        return _recorded_elements(decode(raw, "output", rank.folder).leaves)
    except RefusedError:
        return None


def _recorded_elements(recorded: Sequence[Leaf]) -> BadElements | None:
    described = [masks.describe(leaf.slot, leaf.tensor, masks.non_finite(leaf.tensor)) for leaf in recorded]
    return max((found for found in described if found is not None), key=lambda found: found.bad, default=None)


def judge(made: Experiment, limits: Limits) -> Replay:
    """Run an experiment and say what its recorded result means.

    Raises:
        RefusedError: it cannot be run.
    """
    whole, rows = made, None
    if plain_bytes(made) > limits.memory:
        made, rows = cut_to_rows(made, limits.memory)
    here = _in_recorded_dtype(made)
    if all(result is None or _is_same(leaf.tensor, result) for leaf, result in zip(made.recorded, here, strict=True)):
        return Replay(ReplayVerdict.AGREES, device_elements=0, cpu_elements=0, rows=rows)
    if rows is None and float64_bytes(made) > limits.memory:
        if _is_roughly(made, here):
            return Replay(ReplayVerdict.AGREES, device_elements=0, cpu_elements=0)
        made, rows = cut_to_rows(made, limits.memory, here)
        here = _in_recorded_dtype(made)
    truth = _in_float64(made)
    judged = [
        _tensor(made, at, leaf, result, truth)
        for at, (leaf, result) in enumerate(zip(made.recorded, here, strict=True))
        if result is not None
    ]
    if not judged:
        raise RefusedError(NotRun.NO_OPERATOR, "no reference for its results")
    worst = min(judged, key=lambda one: _WORST_FIRST.index(one.verdict))
    if worst.verdict.blames_device:
        _check_inputs(whole)
    minimal = smallest(made) if worst.verdict.is_reproduced and rows is None else None
    return Replay(
        worst.verdict,
        device_elements=worst.device,
        cpu_elements=worst.cpu,
        float64_elements=worst.float64,
        elements=worst.elements,
        minimal=minimal,
        example=worst.example,
        rows=rows,
    )


def _check_inputs(made: Experiment) -> None:
    """A device is blamed only for inputs that are what the record tells of them.

    Raises:
        RefusedError: an input's file was saved after the tensor had changed.
    """
    for leaf in made.leaves:
        if is_stale(leaf.tensor, leaf.raw):
            raise RefusedError(NotRun.STALE_INPUT, leaf.slot)


def _is_roughly(made: Experiment, here: Sequence[Tensor | None]) -> bool:
    """The same result by a coarse measure, where float64 does not fit."""
    floating = [leaf.tensor for leaf in (*made.leaves, *made.recorded) if leaf.tensor.is_floating_point()]
    step = tolerance.input_unit(floating, is_product=made.operator.is_product)
    return all(
        result is None
        or (result.is_floating_point() and tolerance.is_roughly(masks.plain(leaf.tensor), masks.plain(result), step))
        for leaf, result in zip(made.recorded, here, strict=True)
    )


def _in_recorded_dtype(made: Experiment) -> list[Tensor | None]:
    """The CPU's result in the recorded dtypes.

    Under autocast a record's arguments are those before the cast, and only its result shows what it was computed in:
    where the CPU gives another dtype, the inputs are cast to the recorded one.
    """
    wanted = next((leaf.tensor.dtype for leaf in made.recorded if leaf.tensor.dtype in FLOATING), None)
    try:
        found = made.run()
    except RefusedError as refusal:
        inputs = {leaf.tensor.dtype for leaf in made.leaves if leaf.tensor.dtype in FLOATING}
        if refusal.reason is not NotRun.RAISED or wanted is None or len(inputs) < 2:
            raise
        found = made.run(dtype=wanted)
    other = [
        leaf
        for leaf, result in zip(made.recorded, found, strict=True)
        if result is not None
        and result.dtype != leaf.tensor.dtype
        and {result.dtype, leaf.tensor.dtype} <= set(FLOATING)
    ]
    if other and made.gradients is None:
        found = made.run(dtype=other[0].tensor.dtype)
    return [
        None if result is None else _as_recorded(result, leaf.tensor)
        for leaf, result in zip(made.recorded, found, strict=True)
    ]


def _as_recorded(result: Tensor, recorded: Tensor) -> Tensor:
    if result.dtype == recorded.dtype:
        return result
    if result.dtype in FLOATING and recorded.is_floating_point():
        return result.to(recorded.dtype)
    raise RefusedError(NotRun.OTHER_RESULT, f"{result.dtype} here, {recorded.dtype} recorded")


def _is_same(recorded: Tensor, here: Tensor) -> bool:
    """The same result and nothing bad in it: nothing more has to be asked."""
    if not (recorded.is_floating_point() or recorded.is_complex()):
        return bool(torch.equal(recorded, here))
    if recorded.is_complex():
        return bool(torch.isfinite(recorded).all()) and torch.allclose(recorded, here, rtol=1e-5)
    recorded, here = masks.plain(recorded), masks.plain(here)
    if not bool(torch.isfinite(recorded).all() & torch.isfinite(here).all()):
        return False
    return bool(torch.equal(recorded, here)) or tolerance.all_close(recorded, here)


def _in_float64(made: Experiment) -> list[Tensor | None] | None:
    """The truth; None for operators that there are not in float64."""
    try:
        return made.run(dtype=torch.float64)
    except RefusedError:
        return None


def _tensor(
    made: Experiment,
    at: int,
    leaf: Leaf,
    result: Tensor,
    truths: list[Tensor | None] | None,
) -> _Judged:
    recorded, here = masks.plain(leaf.tensor), masks.plain(result)
    if not recorded.is_floating_point():
        return _whole_numbers(made, leaf, here)
    truth = None if truths is None else truths[at]
    if truth is None or not truth.is_floating_point():
        truth = here.double()
        known = False
    else:
        known = True
    bad, bad_here, bad_truth = masks.non_finite(recorded), masks.non_finite(here), masks.non_finite(truth)
    alone = bad & ~bad_here & ~_at_limit(recorded, truth)
    counts = (int(bad.sum()), int(bad_here.sum()), int(bad_truth.sum()) if known else None)
    if bool(alone.any()):
        place = masks.first_index(alone)
        return _Judged(
            ReplayVerdict.NOT_REPRODUCED,
            *counts,
            masks.describe(leaf.slot, recorded, alone),
            _example(place, recorded, here, truth if known else None),
        )
    wrong, allowed = _out_of_tolerance(made, at, recorded, here, truth, truths)
    if bool(wrong.any()):
        place = _worst(recorded, truth, wrong, allowed)
        limit = None if allowed is None else float(allowed[place])
        return _Judged(
            ReplayVerdict.VALUES_DIFFER,
            *counts,
            masks.describe(leaf.slot, recorded, wrong),
            _example(place, recorded, here, truth if known else None, limit),
        )
    if counts[0]:
        cured = known and _is_cured(made, bad & bad_here, bad_truth)
        verdict = ReplayVerdict.REPRODUCED_RANGE if cured else ReplayVerdict.REPRODUCED
        return _Judged(verdict, *counts, masks.describe(leaf.slot, recorded, bad))
    return _Judged(ReplayVerdict.AGREES, *counts, None)


def _is_cured(made: Experiment, bad: Tensor, bad_truth: Tensor) -> bool:
    """Whether a wider dtype makes the NaN and Inf go away that came into being here.

    With finite inputs all of them have to: an exponent of 1000 overflows float64 as well. What went in non-finite comes
    out so in every dtype: then it is enough that some of them go away.
    """
    cured = bad & ~bad_truth
    if not bool(cured.any()):
        return False
    fed = any(bool(masks.non_finite(leaf.tensor).any()) for leaf in made.leaves)
    return fed or not bool((bad & bad_truth).any())


def _at_limit(recorded: Tensor, truth: Tensor) -> Tensor:
    """An Inf where the truth is so close to the dtype's limit that rounding decides."""
    info = torch.finfo(recorded.dtype)
    near = truth.double().abs() >= info.max * (1 - tolerance.CLOSE * info.eps)
    return torch.isinf(recorded) & near & (torch.sign(truth) == torch.sign(recorded))


def _out_of_tolerance(
    made: Experiment,
    at: int,
    recorded: Tensor,
    here: Tensor,
    truth: Tensor,
    truths: list[Tensor | None] | None,
) -> tuple[Tensor, Tensor | None]:
    """Finite elements that no rounding explains, and the tolerance."""
    finite = torch.isfinite(recorded)
    saturated = recorded.abs() == torch.finfo(recorded.dtype).max
    # The CPU overflows and the recorded result does not: right if float64 gives it, or the device clamps.
    suspects = finite & ~tolerance.close(recorded, here) & ~(saturated & ~torch.isfinite(here))
    if not bool(suspects.any()):
        return suspects, None
    floating = [leaf.tensor for leaf in made.leaves if leaf.tensor.is_floating_point()]
    step = tolerance.input_unit([*floating, recorded] if floating else [], is_product=made.operator.is_product)
    moved: Tensor | None = None
    if truths is not None and step:
        moved = tolerance.sensitivity(lambda change: made.run(change, torch.float64), truths, step)[at]
    is_sum = made.operator.is_product or made.gradients is not None
    allowed = tolerance.allowed(recorded, here, truth, moved, is_sum=is_sum)
    error = (recorded.double() - truth.double()).abs()
    return suspects & ~(error <= allowed), allowed


def _worst(recorded: Tensor, truth: Tensor, wrong: Tensor, allowed: Tensor | None) -> tuple[int, ...]:
    if allowed is None:
        return masks.first_index(wrong)
    ratio = ((recorded.double() - truth.double()).abs() / allowed.clamp_min(1e-300)).nan_to_num(torch.inf, torch.inf)
    return masks.first_index(ratio == ratio.masked_fill(~wrong, -1.0).max())


def _example(
    place: tuple[int, ...], recorded: Tensor, here: Tensor, truth: Tensor | None, allowed: float | None = None
) -> Example:
    exact = None if truth is None else float(truth[place])
    return Example(place, float(recorded[place]), float(here[place]), exact, allowed)


def _whole_numbers(made: Experiment, leaf: Leaf, here: Tensor) -> _Judged:
    recorded = leaf.tensor
    if recorded.is_complex():
        bad = masks.non_finite(recorded)
        alone = bad & ~masks.non_finite(here)
        wrong = ~bad & ((recorded - here).abs() > 1e-3 * here.abs() + 1e-3 * here.abs().mean())
    else:
        bad = alone = torch.zeros_like(recorded, dtype=torch.bool)
        wrong = recorded != here
        if made.operator.gives_positions:  # of equal elements any may be meant
            wrong = torch.zeros_like(wrong)
    for mask, verdict in ((alone, ReplayVerdict.NOT_REPRODUCED), (wrong, ReplayVerdict.VALUES_DIFFER)):
        if bool(mask.any()):
            place = masks.first_index(mask)
            example = None if recorded.is_complex() else _example(place, recorded, here, None)
            return _Judged(verdict, int(bad.sum()), 0, None, masks.describe(leaf.slot, recorded, mask), example)
    verdict = ReplayVerdict.REPRODUCED if bool(bad.any()) else ReplayVerdict.AGREES
    return _Judged(verdict, int(bad.sum()), int(bad.sum()), None, masks.describe(leaf.slot, recorded, bad))
