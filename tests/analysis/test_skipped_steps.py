"""Steps that the loss scaler skipped: the rules of :mod:`firstnan.run.skipped_steps`."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Run, batch, t, the_cause
from msgspec.structs import replace

import firstnan
from firstnan.answer.model import Confidence, Report, Verdict
from firstnan.run import parts, two_stage

SCALAR = ()
LAYERS = 4


def train(
    run: Run,
    step: int,
    *,
    rank: int = 0,
    gradient: float = 1.0,
    data: float = 1.0,
    weight: float = 0.5,
    scale: float = 6e4,
) -> None:
    """One step of a float16 model of some layers; ``gradient`` is what the last layer's backward gives."""
    mine = run.rank(rank, step)
    calls = []
    value = batch(data, dtype="float16")
    for layer in range(LAYERS):
        output = t(data * 2 + layer, dtype="float16")
        weights = [t(weight + layer, shape=(8, 8), dtype="float16"), t(0.25, shape=(8,), dtype="float16")]
        calls.append(mine.op("Functional.linear", [value, *weights], [output]))
        value = output
    total = mine.op("Torch.sum", [value], [t(data, data, SCALAR, "float16")])
    mine.backward(total, [t(scale, scale, SCALAR, "float16")], [t(scale, dtype="float16")])
    coming = scale
    for call in reversed(calls):
        mine.backward(call, [t(coming, dtype="float16")], [t(gradient, dtype="float16")])
        coming = gradient


def steps_told(report: Report, key: str) -> list[object]:
    return [note.params.get("steps") for note in (*report.story, *report.caveats) if note.key == key]


def test_a_skipped_step_leaves_the_weights(tmp_path: Path) -> None:
    """Two overflows in a row are skipped; the real fault of the step after them is the answer."""
    run = Run()
    for rank in (0, 1):
        train(run, 0, rank=rank, gradient=INF)
        train(run, 1, rank=rank, gradient=INF)
        train(run, 2, rank=rank, data=NAN if rank else 1.0)
    report = run.analyze(tmp_path)
    assert (report.verdict, report.step) == (Verdict.ANOMALY, 2)
    assert [(cause.rank, cause.op_name) for cause in report.root_causes] == [(1, "Functional.linear.0.forward")]
    assert steps_told(report, "story.skipped") == ["0,1"]


@pytest.mark.parametrize("rank", [0, 1])
def test_other_weights_show_that_the_update_was_made(rank: int, tmp_path: Path) -> None:
    run = Run()
    for one in (0, 1):
        train(run, 0, rank=one, gradient=INF)
        train(run, 1, rank=one, weight=0.75 if one == rank else 0.5)
    report = run.analyze(tmp_path)
    assert (report.verdict, report.step) == (Verdict.ANOMALY, 0)
    assert steps_told(report, "caveat.skip_changed") == [None]


def test_only_gradients_overflowed(tmp_path: Path) -> None:
    """A NaN that backward makes of a finite gradient comes again in every step."""
    run = Run()
    train(run, 0, gradient=NAN, scale=2.0)
    train(run, 1)
    report = run.analyze(tmp_path)
    assert (report.verdict, report.step) == (Verdict.ANOMALY, 0)
    assert not steps_told(report, "story.skipped")


@pytest.mark.parametrize("case", ["last", "gap", "cut", "one rank"])
def test_thin_evidence_is_not_taken(case: str, tmp_path: Path) -> None:
    run = Run()
    for rank in (0, 1):
        train(run, 0, rank=rank, gradient=INF)
        if case in ("cut", "one rank"):
            train(run, 1, rank=rank)
        elif case == "gap":
            train(run, 2, rank=rank)
    if case == "cut":
        for rank in (0, 1):
            data = run.rank(rank, 1).data
            for name in list(data)[1:]:
                del data[name]
    if case == "one rank":
        run.rank(1, 1).data.clear()
        run.rank(1, 1).op("Torch.relu", [t(1.0)], [t(1.0)])
    report = run.analyze(tmp_path)
    assert (report.verdict, report.step) == (Verdict.ANOMALY, 0)
    key = {"last": "caveat.skip_unknown", "gap": "caveat.skip_gap"}.get(case, "caveat.skip_thin")
    assert steps_told(report, key) == [None]


def test_a_weight_of_two_micro_batches_counts_once(tmp_path: Path) -> None:
    """The step after has one micro-batch, and a weight without statistics in it."""
    run = Run()
    train(run, 0, gradient=INF)
    first = run.rank(0, 0)
    again = {name.replace(".forward", "0.forward"): r for name, r in first.data.items() if "linear" in name}
    first.data = {n: r for n, r in again.items() if n.endswith("forward")} | first.data
    train(run, 1)
    run.rank(0, 1).data["Functional.linear.0.forward"]["input_args"][1] |= {"Max": None, "Min": None}
    report = run.analyze(tmp_path)
    assert (report.verdict, steps_told(report, "story.skipped")) == (Verdict.CLEAN, ["0"])


def test_parts_of_hosts_that_are_gone_tell_the_same(tmp_path: Path) -> None:
    run = Run()
    train(run, 0, gradient=INF)
    train(run, 1)
    run.write(tmp_path / "dump")
    part = two_stage.scan(tmp_path / "dump")
    files = [tmp_path / "part.json"]
    files[0].write_text(parts.to_text(part), encoding="utf-8")
    whole = firstnan.analyze(tmp_path / "dump")
    for folder in (tmp_path / "dump").rglob("dump.json"):
        folder.unlink()
    merged = two_stage.merge(files)
    assert whole.verdict is Verdict.CLEAN
    assert steps_told(merged, "story.skipped") == ["0"]
    assert replace(merged, input=whole.input) == whole


@pytest.mark.parametrize(("records", "sure"), [(1, Confidence.LIKELY), (None, Confidence.CERTAIN)])
def test_what_may_have_been_skipped_is_not_certain(records: int | None, sure: Confidence, tmp_path: Path) -> None:
    """A step of one record tells nothing of the weights; a dump that ends with the bad step tells it is the last."""
    run = Run()
    train(run, 0, gradient=INF)
    if records is not None:
        train(run, 1)
        data = run.rank(0, 1).data
        for name in list(data)[records:]:
            del data[name]
    assert the_cause(run.analyze(tmp_path)).place_confidence is sure
