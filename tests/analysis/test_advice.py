"""The most special advice that fits, about the mechanism before the place."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from firstnan.answer.model import Confidence, Mechanism, MechanismKind, Note, RootCause, RunUp, Where
from firstnan.causes.advice import advice
from firstnan.dump.language import Language
from firstnan.dump.records import Direction, TensorStat
from firstnan.dump.values import ValueState
from firstnan.words import catalog


def cause(
    kind: MechanismKind,
    reason: str = "why.unknown",
    where: Where = Where.OPERATOR,
    direction: Direction = Direction.FORWARD,
) -> RootCause:
    mechanism = Mechanism(kind, Confidence.CERTAIN, Note(reason))
    return RootCause(0, 0, "Torch.x.0.forward", 3, direction, where, mechanism)


def keys(of: RootCause) -> list[str]:
    return [note.key for note in advice(of)]


@pytest.mark.parametrize("kind", MechanismKind)
@pytest.mark.parametrize("where", Where)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("language", Language)
def test_every_cause_gets_advice_that_has_words(
    kind: MechanismKind, where: Where, direction: Direction, language: Language
) -> None:
    found = keys(cause(kind, where=where, direction=direction))
    assert found
    assert set(found) <= catalog(language).keys()


def test_the_mechanism_comes_before_the_place() -> None:
    assert keys(cause(MechanismKind.FP32_OVERFLOW, where=Where.UNDUMPED_OPERATOR)) == [
        "mechanism.fp32_overflow.advice",
        "where.undumped_operator.advice",
    ]
    assert keys(cause(MechanismKind.UNKNOWN, where=Where.UNDUMPED_OPERATOR)) == ["where.undumped_operator.advice"]
    assert keys(cause(MechanismKind.UNKNOWN)) == ["mechanism.unknown.advice"]


def test_memory_that_was_not_written_needs_no_dump_of_hidden_operators() -> None:
    of_memory = cause(MechanismKind.UNINITIALISED_MEMORY, where=Where.UNDUMPED_OPERATOR)
    assert keys(of_memory) == ["mechanism.uninitialised_memory.advice"]


def test_a_gradient_that_overflows_in_float16_is_a_matter_of_the_loss_scale() -> None:
    backward = cause(MechanismKind.CAST_OVERFLOW, direction=Direction.BACKWARD)
    assert keys(backward) == ["mechanism.cast_overflow.advice.backward"]
    assert keys(cause(MechanismKind.CAST_OVERFLOW)) == ["mechanism.cast_overflow.advice"]


@pytest.mark.parametrize(
    ("kind", "reason", "ending"),
    [
        (MechanismKind.DIV_BY_ZERO, "why.no_variance", "no_variance"),
        (MechanismKind.DIV_BY_ZERO, "why.empty_mean", "empty_mean"),
        (MechanismKind.DIV_BY_ZERO, "why.all_ignored", "all_ignored"),
        (MechanismKind.UNKNOWN, "why.received", "received"),
        (MechanismKind.UNKNOWN, "why.unmatched_call", "unmatched"),
    ],
)
def test_a_reason_can_have_advice_of_its_own(kind: MechanismKind, reason: str, ending: str) -> None:
    key = f"mechanism.{kind.value}.advice.{ending}"
    assert keys(cause(kind, reason)) == [key]
    assert all(key in catalog(language) for language in Language)


@pytest.mark.parametrize("gap", ["absent", "cut", "empty"])
def test_what_a_rank_lacks_decides_the_advice(gap: str) -> None:
    missing = replace(
        cause(MechanismKind.UNKNOWN, where=Where.MISSING_RANK), evidence=(Note(f"evidence.rank_{gap}", {"rank": 2}),)
    )
    key = f"where.missing_rank.advice.{gap}"
    assert keys(missing) == [key]
    assert all(key in catalog(language) for language in Language)


def test_the_record_where_the_values_turned_comes_first() -> None:
    steps = (RunUp("Torch.mul.0.forward", 7, 2.0, 600.0), RunUp("Torch.add.0.forward", 9, 600.0, 601.0))
    notes = advice(replace(cause(MechanismKind.EXP_OVERFLOW), run_up=steps))
    assert notes[0] == Note("advice.turn", {"index": 7, "op": "Torch.mul.0.forward"})
    assert keys(replace(cause(MechanismKind.EXP_OVERFLOW), run_up=steps[1:])) == ["mechanism.exp_overflow.advice"]


def test_a_divisor_that_became_zero_is_a_turn() -> None:
    steps = (RunUp("Torch.mul.0.forward", 7, 7.0, 0.0),)
    assert keys(replace(cause(MechanismKind.DIV_BY_ZERO), run_up=steps))[0] == "advice.turn"
    assert "advice.turn" not in keys(replace(cause(MechanismKind.EXP_OVERFLOW), run_up=steps))


def test_a_bad_result_that_forward_drops_is_cured_before_the_operator() -> None:
    trapped = replace(cause(MechanismKind.DIV_BY_ZERO), evidence=(Note("evidence.twin_bad", {"op_name": "x"}),))
    assert keys(trapped) == ["advice.where_trap", "mechanism.div_by_zero.advice"]


@pytest.mark.parametrize(("dtype", "more"), [("float16", 1), ("bfloat16", 0), ("float32", 0)])
def test_small_numbers_of_float16_are_told_where_there_is_float16(dtype: str, more: int) -> None:
    tensor = TensorStat("output.0", dtype, (2,), None, None, None, None, ValueState.NAN)
    assert (
        keys(replace(cause(MechanismKind.LOG_ZERO), outputs=(tensor,)))[1:]
        == ["mechanism.log_zero.advice.float16"][:more]
    )


def test_an_unknown_mechanism_inside_a_module_asks_for_its_operators() -> None:
    module = replace(cause(MechanismKind.UNKNOWN), op_name="Module.layers.0.Block.forward.0")
    assert keys(module) == ["mechanism.unknown.advice.module"]
