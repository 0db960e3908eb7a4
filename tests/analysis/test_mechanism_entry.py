"""Why an input is bad that no record wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Json, Run, batch, p2p_op, t, the_cause

from firstnan.answer.model import Confidence, MechanismKind, RootCause, Where

Kind = MechanismKind
CERTAIN, LIKELY, POSSIBLE = Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE


def entered(path: Path, writer: Json, read: Json, operator: str = "Torch.mul") -> RootCause:
    """``linear`` writes, something that is not dumped happens, ``mul`` reads."""
    run = Run()
    rank = run.rank(0)
    rank.op("Functional.linear", [t(1.0), t(1.0, shape=(8, 8))], [writer])
    rank.op(operator, [read, t(1.0)], [read])
    return the_cause(run.analyze(path))


@pytest.mark.parametrize(
    ("given", "kind"),
    [(t(2.0), Kind.BAD_PARAMETER), (t(2.0, shape=(4, 2, 1)), Kind.BAD_PARAMETER), (t(2.0, shape=(8, 1)), Kind.UNKNOWN)],
    ids=["no vector", "as many elements", "a vector"],
)
@pytest.mark.parametrize("shape", [(8,), (1, 8)])
def test_a_spread_vector_is_a_weight(given: Json, kind: Kind, shape: tuple[int, ...], tmp_path: Path) -> None:
    """``weight * x`` of a normalisation that is written out, in a dump without modules."""
    run = Run()
    rank = run.rank(0)
    rank.op("Functional.linear", [t(1.0), t(1.0, shape=(8, 8))], [t(2.0)])
    rank.op("Torch.frob", [t(2.0)], [given])
    read = rank.op("Torch.mul", [t(NAN, shape=shape), t(2.0)], [t(NAN)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.mechanism.kind) == (read, kind)
    assert cause.mechanism.confidence is (LIKELY if kind is Kind.BAD_PARAMETER else POSSIBLE)


def test_a_cast_between_two_records(tmp_path: Path) -> None:
    """84000 in float32, then Inf in float16 of the same size: an undumped cast, proven."""
    cause = entered(tmp_path, t(84e3), t(INF, dtype="float16"))
    assert (cause.where, cause.mechanism.kind) == (Where.UNDUMPED_OPERATOR, Kind.CAST_OVERFLOW)
    assert cause.mechanism.confidence is CERTAIN
    assert cause.mechanism.explanation.params["value"] == 84e3


@pytest.mark.parametrize(
    ("writer", "read"),
    [(t(100.0), t(INF, dtype="float16")), (t(84e3), t(INF)), (t(84e3, shape=(5, 5)), t(INF, dtype="float16"))],
    ids=["within the range", "the same type", "another size"],
)
def test_no_cast_between_two_records(writer: Json, read: Json, tmp_path: Path) -> None:
    assert entered(tmp_path, writer, read).mechanism.kind is not Kind.CAST_OVERFLOW


def test_an_infinity_in_float16_from_nowhere(tmp_path: Path) -> None:
    cause = entered(tmp_path, t(100.0), t(INF, dtype="float16"))
    assert (cause.mechanism.kind, cause.mechanism.confidence) == (Kind.FP16_OVERFLOW, POSSIBLE)


@pytest.mark.parametrize("read", [t(NAN, dtype="float16"), t(INF, dtype="bfloat16"), t(INF)])
def test_a_nan_or_a_wide_type_from_nowhere_is_unknown(read: Json, tmp_path: Path) -> None:
    cause = entered(tmp_path, t(100.0), read)
    assert (cause.where, cause.mechanism.kind) == (Where.UNDUMPED_OPERATOR, Kind.UNKNOWN)


@pytest.mark.parametrize(
    ("operator", "inputs", "name"),
    [
        ("Functional.linear", [t(1.0), t(NAN, shape=(8, 8))], "weight"),
        ("Functional.linear", [t(1.0), t(1.0, shape=(8, 8)), t(NAN, shape=(8,))], "bias"),
        ("Functional.embedding", [batch(5, 0, dtype="int64"), t(NAN, shape=(50, 8))], "weight"),
        ("Functional.layer_norm", [t(1.0), [8], t(NAN, shape=(8,))], "weight"),
        ("Functional.batch_norm", [t(1.0), batch(NAN, shape=(8,)), batch(1.0, shape=(8,))], "running_mean"),
        ("Functional.batch_norm", [t(1.0), batch(1.0, shape=(8,)), batch(NAN, shape=(8,))], "running_var"),
    ],
)
def test_a_weight_is_told_by_its_place(operator: str, inputs: list[Json], name: str, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.sin", [t(1.0)], [t(1.0)])
    rank.op(operator, inputs, [t(NAN)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.where, cause.mechanism.kind, cause.mechanism.confidence) == (
        Where.PARAMETER, Kind.BAD_PARAMETER, CERTAIN,
    )  # fmt: skip
    assert cause.mechanism.explanation.params["name"] == name


def test_a_weight_is_told_by_the_parameters_of_its_module(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    with rank.module("scale", "Scale", [t(1.0)], [t(NAN)], {"gamma": t(NAN, shape=(8,))}):
        read = rank.op("Torch.mul", [t(1.0), t(NAN, shape=(8,))], [t(NAN)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (read, Where.PARAMETER)
    assert cause.mechanism.explanation.params["name"] == "gamma"


def test_an_activation_in_front_of_a_weight_is_no_weight(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.sin", [t(1.0)], [t(1.0)])
    rank.op("Functional.linear", [t(NAN), t(1.0, shape=(8, 8))], [t(NAN)])
    assert the_cause(run.analyze(tmp_path)).where is Where.UNDUMPED_OPERATOR


def test_the_batch_is_an_argument_of_the_outermost_module(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    with (
        rank.module("model", "Model", [batch(NAN)], [t(NAN)]),
        rank.module("model.fc", "Linear", [batch(NAN)], [t(NAN)]),
    ):
        read = rank.op("Functional.linear", [batch(NAN), t(1.0, shape=(8, 8))], [t(NAN)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (read, Where.INPUT_DATA)
    assert (cause.mechanism.kind, cause.mechanism.confidence) == (Kind.BAD_INPUT, LIKELY)


def test_the_batch_of_a_later_micro_batch_is_data_too(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    for value in (1.0, NAN):
        with rank.module("model", "Model", [batch(value)], [t(value)]):
            product = rank.op("Functional.linear", [batch(value), t(1.0, shape=(8, 8))], [t(value)])
        loss = rank.op("Torch.sum", [t(value)], [t(value, value, ())])
        rank.backward(loss, [t(1.0, 1.0, ())], [t(1.0)])
        rank.backward(product, [t(1.0)], [t(value)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == ("Functional.linear.1.forward", Where.INPUT_DATA)


def test_the_batch_is_data_though_a_clean_message_of_its_size_came_before(tmp_path: Path) -> None:
    run = Run()
    first, second = run.rank(0), run.rank(1)
    second.batch_isend_irecv(p2p_op("isend", t(1.0), 0))
    first.batch_isend_irecv(p2p_op("irecv", t(0.0), 1))
    first.op("Torch.frob", [t(1.0)], [t(2.0, shape=(3,))])
    with first.module("model", "Model", [batch(NAN)], [t(NAN)]):
        read = first.op("Functional.linear", [batch(NAN), t(1.0, shape=(8, 8))], [t(NAN)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.op_name, cause.where) == (0, read, Where.INPUT_DATA)


def test_an_argument_of_an_inner_module_is_no_batch(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [batch(1.0)], [t(NAN)]):
        rank.op("Torch.sin", [batch(1.0)], [t(1.0)])
        with rank.module("model.fc", "Linear", [batch(NAN)], [t(NAN)]):
            rank.op("Functional.linear", [batch(NAN), t(1.0, shape=(8, 8))], [t(NAN)])
    assert the_cause(run.analyze(tmp_path)).where is Where.UNDUMPED_OPERATOR


def test_memory_that_was_never_written(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    memory = rank.op("Torch.empty", [4, 8], [t(NAN)])
    read = rank.op("Torch.mul", [t(NAN), t(1.0)], [t(NAN)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (read, Where.UNDUMPED_OPERATOR)
    assert (cause.mechanism.kind, cause.mechanism.confidence) == (Kind.UNINITIALISED_MEMORY, LIKELY)
    assert cause.mechanism.explanation.params["memory"] == memory


def test_memory_that_was_written_meanwhile(tmp_path: Path) -> None:
    """The content of ``empty`` was finite: what the reader sees came from something else."""
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.empty", [4, 8], [t(3.0)])
    rank.op("Torch.mul", [t(NAN), t(1.0)], [t(NAN)])
    assert the_cause(run.analyze(tmp_path)).mechanism.kind is Kind.UNKNOWN


def test_bad_from_the_first_record_on(tmp_path: Path) -> None:
    run = Run()
    read = run.rank(0).op("Torch.mul", [t(NAN), t(1.0)], [t(NAN)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where) == (read, Where.BEFORE_DUMP)
