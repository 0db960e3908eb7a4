"""What decides (docs/architecture.md, "Values" to "Mechanism and confidence"): a test for each point, whole program."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Run, batch, named, p2p_op, t, the_cause

from firstnan.answer.model import Confidence, MechanismKind, SymptomKind, Verdict, Where

SCALAR = ()


def loss(value: float) -> dict[str, object]:
    return t(value, value, shape=SCALAR)


def test_01_who_wrote_it(tmp_path: Path) -> None:
    """A birth is clean in, bad out; an entry is bad in without a writer; all else carries."""
    births, entries = Run(), Run()
    rank = births.rank(0)
    birth = rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    rank.op("Torch.mul", [t(NAN), t(2.0)], [t(NAN)])  # carries
    rank.op("Torch.sum", [t(NAN)], [loss(NAN)])  # carries
    rank = entries.rank(0)
    rank.op("Torch.sin", [t(1.0)], [t(1.0)])
    entry = rank.op("Torch.mul", [t(NAN), t(2.0)], [t(NAN)])
    rank.op("Torch.sum", [t(NAN)], [loss(NAN)])
    cause = the_cause(births.analyze(tmp_path / "birth"))
    assert (cause.op_name, cause.where) == (birth, Where.OPERATOR)
    cause = the_cause(entries.analyze(tmp_path / "entry"))
    assert (cause.op_name, cause.where) == (entry, Where.UNDUMPED_OPERATOR)
    between = next(note for note in cause.evidence if note.key == "evidence.between")
    assert between.params == {"before": "Torch.sin.0.forward", "after": entry}


def test_02_links_by_shape_class_and_order_to_all_writers_alike(tmp_path: Path) -> None:
    """Two infinities with the same Max and Min: both may be what is read, so that neither counts as unread."""
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0)], [t(NAN)]):
        first = rank.op("Torch.exp", [t(100.0, 1.0)], [t(INF, 2.7)])
        rank.op("Torch.exp", [t(200.0, 1.0)], [t(INF, 2.7)])
        rank.op("Torch.sub", [t(INF, 2.7), t(INF, 2.7)], [t(NAN)])
    report = run.analyze(tmp_path)
    assert named(report) == [(0, first)]
    assert report.contained == ()


def test_03_a_module_repeats_and_contains(tmp_path: Path) -> None:
    """Through a module whose output is bad the chain goes on; one whose output is finite ends it."""
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0)], [t(NAN)]):
        with rank.module("model.gate", "Gate", [t(1.0)], [t(1.0)]):
            rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
            rank.op("Torch.nansum", [t(NAN)], [t(1.0)])
        with rank.module("model.mix", "Mix", [t(1.0)], [t(NAN, shape=(2, 16))]):
            born = rank.op("Torch.sqrt", [t(1.0, -1.0, shape=(32,))], [t(NAN, shape=(32,))])
        rank.op("Torch.mul", [t(NAN, shape=(2, 16)), t(1.0)], [t(NAN)])
    report = run.analyze(tmp_path)
    assert named(report) == [(0, born)]
    assert the_cause(report).module == "model.mix"


def test_04_a_forward_birth_counts_when_it_matters(tmp_path: Path) -> None:
    """Dropped by selection: contained. Swallowed by saturation while its own gradient is bad: the cause."""
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0)], [t(1.0)]):
        dropped = rank.op("Torch.log", [t(1.0, 0.0)], [t(0.0, -INF)])
        rank.op("Torch.where", [t(True, False, dtype="bool"), t(0.0, -INF), t(1.0)], [t(1.0)])
        born = rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(INF, -5.0)])
        tanh = rank.op("Torch.tanh", [t(INF, -5.0)], [t(1.0)])
    total = rank.op("Torch.sum", [t(1.0)], [loss(8.0)])
    rank.backward(total, [loss(1.0)], [t(1.0)])
    rank.backward(tanh, [t(1.0)], [t(1.0, 0.0)])
    rank.backward(born, [t(1.0, 0.0)], [t(1.0, 0.0), t(NAN)])
    report = run.analyze(tmp_path)
    assert named(report) == [(0, born)]
    assert the_cause(report).mechanism.kind is MechanismKind.DIV_BY_ZERO
    assert [c.op_name for c in report.contained] == [dropped]


def test_05_a_forward_value_never_writes_a_gradient(tmp_path: Path) -> None:
    """The where trap: the forward NaN is dropped, the backward of the same operator makes one of a finite gradient."""
    run = Run()
    rank = run.rank(0)
    with rank.module("model", "Model", [t(1.0, 0.0)], [t(1.0)]):
        root = rank.op("Torch.sqrt", [t(1.0, -1.0)], [t(NAN)])
        chosen = rank.op("Torch.where", [t(True, False, dtype="bool"), t(NAN), t(1.0)], [t(1.0)])
    total = rank.op("Torch.sum", [t(1.0)], [loss(8.0)])
    rank.backward(total, [loss(1.0)], [t(1.0)])
    rank.backward(chosen, [t(1.0)], [t(1.0, 0.0)])
    rank.backward(root, [t(1.0, 0.0)], [t(NAN)])
    report = run.analyze(tmp_path)
    cause = the_cause(report)
    assert cause.op_name == root.replace("forward", "backward")
    assert cause.mechanism.kind is MechanismKind.SQRT_BACKWARD
    assert {s.kind for s in report.symptoms} == {SymptomKind.GRADIENT}
    assert [note.key for note in report.story] == ["story.gradient"]


def test_06_every_live_birth_with_clean_inputs_is_a_cause(tmp_path: Path) -> None:
    """Micro-batches: forward records stand between backward ones, and only what follows the last is an update."""
    run = Run()
    rank = run.rank(0)
    for value in (1.0, NAN):
        with rank.module("model", "Model", [batch(1.0)], [t(value)]):
            name = rank.op("Torch.log", [t(1.0, -1.0 if value != value else 0.5)], [t(value)])
        total = rank.op("Torch.sum", [t(value)], [loss(value)])
        rank.backward(total, [loss(1.0)], [t(1.0)])
        rank.backward(name, [t(1.0)], [t(value)])
    rank.op("Torch._foreach_norm", [t(NAN)], [loss(NAN)])
    rank.op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(INF)])  # its own inputs are finite
    assert named(run.analyze(tmp_path)) == [(0, "Torch.log.1.forward"), (0, "Torch.div.0.forward")]


def test_07_bad_input_on_one_member_makes_receivers_of_the_others(tmp_path: Path) -> None:
    """Groups by rank set and n-th call: numbers differ, and only the argument that is an input says who sent it."""
    run = Run()
    run.rank(0).reduce_scatter([t(1.0), t(1.0)], t(2.0), (0, 2))
    born = run.rank(1).op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    for rank in (0, 1):
        run.rank(rank).reduce_scatter([t(NAN) if rank else t(1.0)] * 2, t(NAN), (1, 0))
        run.rank(rank).op("Torch.sum", [t(NAN)], [loss(NAN)])
    run.rank(2).reduce_scatter([t(1.0), t(1.0)], t(2.0), (0, 2))
    report = run.analyze(tmp_path)
    assert named(report) == [(1, born)]
    first = report.collectives[0]
    assert (first.group, first.source_ranks, first.propagated_ranks) == ((0, 1), (1,), (0,))
    assert dict(first.ops) == {0: "Distributed.reduce_scatter.1.forward", 1: "Distributed.reduce_scatter.0.forward"}


def test_08_the_sender_is_believed_where_results_are_old(tmp_path: Path) -> None:
    run = Run()
    born = run.rank(0).op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    run.rank(0).batch_isend_irecv(p2p_op("isend", t(NAN), 1), p2p_op("irecv", t(NAN), 1))  # garbage in its own buffer
    run.rank(1).batch_isend_irecv(p2p_op("isend", t(1.0), 0), p2p_op("irecv", t(3.0), 0))
    for rank, other in ((0, 1.0), (1, NAN)):
        run.rank(rank).op("Torch.add", [t(1.0), t(other)], [t(other)])
    for rank in (0, 1):
        sent = t(1.0) if rank == 0 else t(NAN)
        run.rank(rank).all_reduce(sent, sent, async_op=True)
        run.rank(rank).op("Torch.mul", [t(NAN), t(1.0)], [t(NAN)])
    report = run.analyze(tmp_path)
    assert named(report) == [(0, born)]
    assert [(h.from_rank, h.to_ranks) for h in report.propagation] == [(0, (1,))]


def test_09_minus_inf_is_legal_by_inheritance(tmp_path: Path) -> None:
    """Written by a mask and passed on: legal. The softmax over nothing else is the cause; log(0) never was legal."""
    run = Run()
    masked, logged = run.rank(0), run.rank(1)
    masked.op("Tensor.masked_fill", [t(1.0)], [t(1.0, -INF)])
    masked.op("Torch.add", [t(1.0, -INF), t(2.0)], [t(3.0, -INF)])
    cause = masked.op("Functional.softmax", [t(3.0, -INF)], [t(NAN)])
    masked.op("Torch.sum", [t(NAN)], [loss(NAN)])
    zero = logged.op("Torch.log", [t(3.0, 0.0)], [t(1.1, -INF)])
    logged.op("Torch.sum", [t(1.1, -INF)], [loss(-INF)])
    report = run.analyze(tmp_path)
    assert {(c.op_name, c.mechanism.kind) for c in report.root_causes} == {
        (cause, MechanismKind.MASKED_SOFTMAX),
        (zero, MechanismKind.LOG_ZERO),
    }
    assert {rule.rule for rule in report.benign} == {"legal_minus_inf", "inherited_minus_inf"}


def test_10_fresh_memory_counts_only_when_it_is_read(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    rank.op("Torch.empty", [16], [t(NAN, shape=(16,))])  # never read
    rank.op("Torch.empty", [4, 8], [t(NAN)])
    read = rank.op("Torch.add", [t(NAN), t(1.0)], [t(NAN)])
    rank.op("Torch.sum", [t(NAN)], [loss(NAN)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.mechanism.kind) == (read, MechanismKind.UNINITIALISED_MEMORY)
    assert cause.mechanism.explanation.params["memory"] == "Torch.empty.1.forward"


@pytest.mark.parametrize(
    ("path", "where", "why"),
    [
        ("parameters", Where.PARAMETER, MechanismKind.BAD_PARAMETER),
        ("weight", Where.PARAMETER, MechanismKind.BAD_PARAMETER),
        ("batch", Where.INPUT_DATA, MechanismKind.BAD_INPUT),
        ("between", Where.UNDUMPED_OPERATOR, MechanismKind.UNKNOWN),
    ],
)
def test_11_kind_of_entry(path: str, where: Where, why: MechanismKind, tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    outside = batch(NAN) if path == "batch" else batch(1.0)
    with rank.module("model", "Model", [outside], [t(NAN)]):
        rank.op("Torch.sin", [t(1.0)], [t(1.0)])
        if path == "parameters":
            scale = t(NAN, shape=(8,))
            with rank.module("model.scale", "Scale", [t(1.0)], [t(NAN)], {"gamma": scale}):
                read = rank.op("Torch.mul", [t(1.0), scale], [t(NAN)])
        elif path == "weight":
            read = rank.op("Functional.linear", [t(1.0), t(NAN, shape=(8, 8))], [t(NAN)])
        elif path == "batch":
            read = rank.op("Torch.mul", [batch(NAN), t(1.0)], [t(NAN)])
        else:
            read = rank.op("Torch.mul", [t(NAN), t(1.0)], [t(NAN)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.where, cause.mechanism.kind) == (read, where, why)


def test_12_all_recorded_inputs_finite_output_bad(tmp_path: Path) -> None:
    """An absent member; else the bound of the sum tells an overflow from corruption."""
    answers = {}
    for name, value, group in (("absent", 1.0, (0, 1, 2)), ("overflow", 4e4, (0, 1)), ("corrupt", 1.0, (0, 1))):
        run = Run()
        for rank in (0, 1):
            run.rank(rank).all_reduce(t(value, dtype="float16"), t(INF, dtype="float16"), group)
            run.rank(rank).op("Torch.sum", [t(INF, dtype="float16")], [t(INF, INF, SCALAR, "float16")])
        cause = the_cause(run.analyze(tmp_path / name))
        answers[name] = (cause.where, cause.mechanism.kind)
    assert answers == {
        "absent": (Where.MISSING_RANK, MechanismKind.UNKNOWN),
        "overflow": (Where.COMMUNICATION, MechanismKind.REDUCTION_OVERFLOW),
        "corrupt": (Where.COMMUNICATION, MechanismKind.COMM_CORRUPTION),
    }


def test_13_communication_without_a_record(tmp_path: Path) -> None:
    """Modules alone, gathered by FSDP: rank 0's module reads a NaN that nothing made, after rank 1's own birth."""
    run = Run()
    for rank in (0, 1):
        mine = run.rank(rank)
        mine.header["level"] = "L0"
        with mine.module("model", "Model", [batch(1.0)], [t(NAN)]):
            with mine.module("model.fc1", "Linear", [batch(1.0)], [t(NAN if rank else 1.0)]) as born:
                pass
            with mine.module("model.fc2", "Linear", [t(NAN)], [t(NAN)]):
                pass
    report = run.analyze(tmp_path)
    assert named(report) == [(1, born)]
    assert [(h.from_rank, h.to_ranks, h.via) for h in report.propagation] == [(1, (0,), "unrecorded")]


@pytest.mark.parametrize("damaged", [False, True], ids=["skipped by the loss scaler", "damage"])
def test_14_a_gradient_overflow_is_judged_by_the_next_step(damaged: bool, tmp_path: Path) -> None:
    run = Run()
    for rank in (0, 1):
        for step in (0, 1):
            mine = run.rank(rank, step)
            weight = t(NAN if damaged and step else 0.5, shape=(8, 8), dtype="float16")
            output = t(NAN if damaged and step else 2.0, dtype="float16")
            with mine.module("fc", "Linear", [batch(1.0, dtype="float16")], [output], {"weight": weight}):
                product = mine.op("Functional.linear", [batch(1.0, dtype="float16"), weight], [output])
            total = mine.op("Torch.sum", [output], [t(output["Max"], output["Max"], SCALAR, "float16")])
            mine.backward(total, [t(6e4, 6e4, SCALAR, "float16")], [t(6e4, dtype="float16")])
            gradient = t(INF if step == 0 else output["Max"], dtype="float16")
            mine.backward(product, [t(6e4, dtype="float16")], [gradient])
    report = run.analyze(tmp_path)
    if damaged:
        assert (report.verdict, report.step) == (Verdict.ANOMALY, 0)
        assert {c.op_name for c in report.root_causes} == {"Functional.linear.0.backward"}
        assert {c.mechanism.kind for c in report.root_causes} == {MechanismKind.FP16_OVERFLOW}
    else:
        assert (report.verdict, report.exit_code) == (Verdict.CLEAN, 0)
        assert [(note.key, note.params["steps"]) for note in report.story] == [("story.skipped", "0")]


def test_unknown_with_the_right_operator_is_an_answer(tmp_path: Path) -> None:
    run = Run()
    rank = run.rank(0)
    born = rank.op("Torch.frobnicate", [t(1.0)], [t(NAN)])
    rank.op("Torch.sum", [t(NAN)], [loss(NAN)])
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.op_name, cause.mechanism.kind) == (born, MechanismKind.UNKNOWN)
    assert cause.mechanism.confidence is Confidence.POSSIBLE


@pytest.mark.parametrize(("weight", "exit_code"), [(NAN, 1), (INF, 1), (-INF, 0)])
@pytest.mark.parametrize("level", ["L0", "L1"])
def test_a_bad_weight_lives_on(weight: float, exit_code: int, level: str, tmp_path: Path) -> None:
    """No token chose the bad row of an embedding: the step is finite, and the next one may choose it."""
    run = Run()
    rank = run.rank(0)
    rank.header["level"] = level
    bad = t(weight, weight if weight is NAN else -1.0, shape=(64, 8), grad=True)
    if weight == -INF:
        bad = t(1.0, -INF, shape=(64, 8), grad=True)
    tokens = t(9, 0, shape=(4,), dtype="int64")
    if level == "L0":
        with rank.module("embed", "Embedding", [tokens], [t(1.0)], {"weight": bad}) as read:
            pass
    else:
        read = rank.op("Functional.embedding", [tokens, bad], [t(1.0)])
        rank.backward(rank.op("Torch.sum", [t(1.0)], [t(8.0, 8.0, shape=())]), [t(1.0, shape=())], [t(1.0)])
    report = run.analyze(tmp_path)
    assert report.exit_code == exit_code
    assert named(report) == ([(0, read)] if exit_code else [])


@pytest.mark.parametrize("shape", [(8,), (4, 8)])
def test_a_dropped_vector_is_no_bad_weight(shape: tuple[int, ...], tmp_path: Path) -> None:
    """``where`` leaves out a NaN that no record wrote, of the shape of a weight or not."""
    run = Run()
    rank = run.rank(0)
    rank.op("Functional.linear", [batch(1.0), t(1.0, shape=(8, 8))], [t(2.0)])
    rank.op("Torch.where", [t(True, False, dtype="bool"), t(2.0), t(NAN, shape=shape)], [t(2.0)])
    total = rank.op("Torch.sum", [t(2.0)], [t(1.0, shape=SCALAR)])
    rank.backward(total, [t(1.0, shape=SCALAR)], [t(1.0)])
    assert run.analyze(tmp_path).exit_code == 0
