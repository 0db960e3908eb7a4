"""``firstnan replay`` as a program: causes, silent faults, a child process that dies, the repro."""

from __future__ import annotations

import doctest
import json
import math
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch: make torch")

import docs_output  # noqa: E402
from made_tensors import TensorDump  # noqa: E402
from torch.nn import functional  # noqa: E402

from firstnan.answer.model import MechanismKind, Report, Verdict  # noqa: E402
from firstnan.answer.replay import NotRun, Replay, ReplayVerdict  # noqa: E402
from firstnan.cli.main import main  # noqa: E402
from firstnan.replaying import process  # noqa: E402
from firstnan.replaying.communication import replay_call  # noqa: E402
from firstnan.replaying.experiment import RankTensors  # noqa: E402
from firstnan.replaying.inside import replay_module  # noqa: E402
from firstnan.replaying.job import Job, Task  # noqa: E402
from firstnan.replaying.record import Limits  # noqa: E402
from firstnan.run.replay import ReplayRequest, replay  # noqa: E402

pytestmark = pytest.mark.torch
ROOT = Path(__file__).resolve().parents[2]
KNOWN = ROOT.parent / "shared" / "cases" / "second" / "replay.tar.gz"
V = ReplayVerdict


@pytest.fixture
def dump(tmp_path: Path) -> TensorDump:
    torch.manual_seed(0)
    return TensorDump(tmp_path / "dump")


def network(dump: TensorDump, spoil: Callable[[torch.Tensor], None] = lambda _: None) -> TensorDump:
    """Embedding, product, sum; ``spoil`` is done to the product's result."""
    tokens, table, w = torch.arange(8).view(2, 4), torch.randn(8, 6), torch.randn(5, 6)
    x = functional.embedding(tokens, table)
    y = functional.linear(x, w)
    spoil(y)
    z = torch.exp(y)
    dump.forward("Functional.embedding.0.forward", [tokens, table], x)
    dump.forward("Functional.linear.0.forward", [x, w], y)
    dump.forward("Torch.exp.0.forward", [y], z)
    dump.forward("Torch.mean.0.forward", [z], z.mean())
    return dump


def told(path: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    code = main(["replay", str(path), "--format", "json", *words])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else None


# --- what is found ----------------------------------------------------------------------------------


def test_a_silent_fault_is_found_where_the_analysis_finds_nothing(
    dump: TensorDump, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoil(y: torch.Tensor) -> None:
        y[1, 2, 3] += 2.0

    network(dump, spoil).write()
    code, report = told(dump.root, capsys=capsys)
    (cause,) = report["root_causes"]
    assert (code, report["verdict"], cause["op_name"]) == (1, "anomaly", "Functional.linear.0.forward")
    assert (cause["mechanism"]["kind"], cause["mechanism"]["confidence"]) == ("device_fault", "likely")
    assert cause["replay"]["verdict"] == "values_differ"
    assert cause["replay"]["elements"]["first"] == [1, 2, 3]
    place = cause["replay"]["elements"]["batch"]
    assert (place["index"], place["value"]) == ([1, 2], 6)


def test_a_healthy_dump_ends_with_0(dump: TensorDump) -> None:
    network(dump).write()
    report = replay(dump.root)
    assert report.replayed is not None
    assert (report.verdict, report.exit_code, report.replayed.verdicts) == (Verdict.CLEAN, 0, {V.AGREES: 4})


def test_one_record_is_told_whatever_is_made_of_it(dump: TensorDump) -> None:
    network(dump).write()
    report = replay(dump.root, ReplayRequest(op_name="Torch.exp.0.forward"))
    assert report.replayed is not None
    assert [(one.op_name, one.replay.verdict) for one in report.replayed.told] == [("Torch.exp.0.forward", V.AGREES)]


def test_a_module_is_run_through_the_records_inside(dump: TensorDump) -> None:
    network(dump, lambda y: y.fill_(math.nan))
    dump.records["Module.net.Net.forward.0"] = dump.records["Functional.linear.0.forward"]
    tensors = dump.rank()
    inside = {"Functional.linear.0.forward": "Module.net.Net.forward.0", "Module.net.Net.forward.0": None}
    (dump.folder / "construct.json").write_text(json.dumps(inside), "utf-8")
    answer = replay_module("Module.net.Net.forward.0", tensors, dump.folder, Limits())
    assert (answer.verdict, answer.detail) == (V.NOT_REPRODUCED, "Functional.linear.0.forward")


def test_a_dump_of_numpy_files_is_run_through_the_torch_twins(dump: TensorDump) -> None:
    import numpy

    x = torch.tensor([1.0, 200.0])
    dump.forward("Mint.exp.0.forward", [x], torch.exp(x))
    for part in ("input_args", "output"):
        entry = dump.records["Mint.exp.0.forward"][part][0]
        entry |= {"type": "mindspore.Tensor", "dtype": "Float32"}
        file = dump.tensors / entry["data_name"]
        numpy.save(file.with_suffix(".npy"), torch.load(file).numpy())
        entry["data_name"] = file.with_suffix(".npy").name
    dump.write()
    report = replay(dump.root, ReplayRequest(op_name="Mint.exp.0.forward"))
    assert report.replayed is not None
    assert report.replayed.told[0].replay.verdict is V.REPRODUCED_RANGE


# --- ranks that should be equal ---------------------------------------------------------------------


@pytest.fixture
def replicas(tmp_path: Path) -> Path:
    """Two ranks that compute the same; on rank 1 one element of one result is another, and everything is finite."""
    for rank in (0, 1):
        torch.manual_seed(0)
        dump = TensorDump(tmp_path / "dump", rank)

        def spoil(y: torch.Tensor, rank: int = rank) -> None:
            y[1, 2, 3] *= 1 + rank

        network(dump, spoil).write()
    return tmp_path / "dump"


def test_the_record_of_a_disagreement_is_run_on_both_ranks(replicas: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two ranks differ, and which of them is wrong no comparison tells: the CPU does."""
    code, report = told(replicas, capsys=capsys)
    (found,) = report["disagreements"]
    assert (found["kind"], found["op_name"], found["odd_ranks"]) == ("operator", "Functional.linear.0.forward", None)
    verdicts = {
        one["rank"]: one["replay"]["verdict"]
        for one in report["replayed"]["told"]
        if one["op_name"] == "Functional.linear.0.forward"
    }
    assert (code, verdicts) == (1, {0: "agrees", 1: "values_differ"})
    (cause,) = report["root_causes"]
    assert (cause["rank"], cause["op_name"], cause["mechanism"]["kind"]) == (1, found["op_name"], "device_fault")


@pytest.mark.parametrize("form", ["text", "markdown", "html", "line"])
def test_every_format_tells_what_became_of_a_disagreement(
    replicas: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(replicas), "--format", form]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "Functional.linear.0.forward" in shown
    assert "device fault" in shown
    if form != "line":
        assert "Ranks that should be equal" in shown
        assert "Agrees: from" in shown
        if form != "html":  # its text is in pieces
            assert "Functional.linear.0.forward rank 0, step 0 Agrees: from" in shown.replace("*", "").replace("`", "")


def test_records_of_disagreements_come_first_when_everything_is_run(replicas: Path) -> None:
    report = replay(replicas, ReplayRequest(everything=True, budget=0.0))
    assert report.replayed is not None
    assert report.replayed.left_out == 8, "each record once"


# --- communication ----------------------------------------------------------------------------------


def ranks(tmp_path: Path, sent: list[torch.Tensor], got: list[torch.Tensor], api: str = "all_reduce") -> Path:
    group = {"type": "torch.ProcessGroup", "group_ranks": [0, 1], "group_id": "77849d8c"}
    for rank in (0, 1):
        dump = TensorDump(tmp_path / "dump", rank)
        name = f"Distributed.{api}.0.forward"
        args = {"all_reduce": [sent[rank]], "broadcast": [sent[rank], 0]}[api]
        out = {"all_reduce": [got[rank]], "broadcast": [got[rank], 0]}[api]
        dump.forward(name, args, [*out, group], {"group": group})
        dump.write()
    return tmp_path / "dump"


def answer_of(root: Path, rank: int, api: str = "all_reduce", there: tuple[int, ...] = (0, 1)) -> Replay:
    folders = {one: root / "step0" / f"rank{one}" for one in there}
    members = {
        one: RankTensors.of(json.loads((place / "dump.json").read_text("utf-8"))["data"], "pytorch", place)
        for one, place in folders.items()
    }
    return replay_call(f"Distributed.{api}.0.forward", rank, members, 1 << 30)


def test_a_sum_over_ranks_beyond_the_dtype(tmp_path: Path) -> None:
    parts = [torch.tensor([1.0, -40000.0]).half(), torch.tensor([2.0, -30000.0]).half()]
    total = parts[0] + parts[1]
    answer = answer_of(ranks(tmp_path, parts, [total, total]), 1)
    assert answer.verdict is V.REPRODUCED_RANGE
    assert [(one.rank, one.value) for one in answer.shares] == [(0, -40000.0), (1, -30000.0)]


def test_a_sum_that_the_members_do_not_give(tmp_path: Path) -> None:
    parts = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])]
    total = parts[0] + parts[1]
    root = ranks(tmp_path, parts, [total, total + torch.tensor([0.0, 1.0])])
    assert answer_of(root, 0).verdict is V.AGREES
    answer = answer_of(root, 1)
    assert answer.elements is not None
    assert (answer.verdict, answer.elements.first) == (V.VALUES_DIFFER, (1,))
    report = replay(root)
    assert report.root_causes[0].mechanism.kind is MechanismKind.COMM_CORRUPTION


def test_what_is_broadcast_arrives_as_it_was_sent(tmp_path: Path) -> None:
    got = [torch.ones(3), torch.tensor([1.0, math.nan, 1.0])]
    root = ranks(tmp_path, [torch.ones(3), torch.zeros(3)], got, "broadcast")
    assert answer_of(root, 0, "broadcast").verdict is V.AGREES
    assert answer_of(root, 1, "broadcast").verdict is V.NOT_REPRODUCED


SPLITS = ([1, 2, 3], [2, 0, 1], [4, 1, 1])
"""How many rows each of three ranks sends to each."""


def exchanged(
    tmp_path: Path, *, by_keyword: bool, spoil: Callable[[torch.Tensor], None] = lambda _: None, sent: Any = SPLITS
) -> Path:
    """``all_to_all_single`` of three ranks; what rank 1 gets is spoilt."""
    torch.manual_seed(0)
    given = [torch.randn(sum(rows), 2) for rows in SPLITS]
    for rank in range(3):
        rows = [given[other].split(list(SPLITS[other]))[rank] for other in range(3)]
        got, into = torch.cat(rows), [len(one) for one in rows]
        if rank == 1:
            spoil(got)
        group = {"type": "torch.ProcessGroup", "group_ranks": [0, 1, 2], "group_id": "2a3070ce"}
        sizes = {"output_split_sizes": into, "input_split_sizes": list(sent[rank])}
        args = [None, given[rank], *(() if by_keyword else sizes.values())]
        kwargs = {**(sizes if by_keyword else {}), "group": group}
        dump = TensorDump(tmp_path / "dump", rank)
        output = [got, given[rank], *(list(one) for one in sizes.values()), group]
        dump.forward("Distributed.all_to_all_single.0.forward", args, output, kwargs)
        dump.write()
    return tmp_path / "dump"


@pytest.mark.parametrize("by_keyword", [False, True])
def test_rows_of_recorded_split_sizes_arrive_where_they_were_sent(tmp_path: Path, by_keyword: bool) -> None:
    def spoil(got: torch.Tensor) -> None:
        got[2, 1] = 7.0

    root = exchanged(tmp_path, by_keyword=by_keyword, spoil=spoil)
    found = [answer_of(root, rank, "all_to_all_single", (0, 1, 2)) for rank in range(3)]
    assert [one.verdict for one in found] == [V.AGREES, V.VALUES_DIFFER, V.AGREES]
    assert found[1].elements is not None
    assert (found[1].elements.first, found[1].shares[0].rank) == ((2, 1), 2), "rows 0 and 1 are rank 0's, 2 is rank 2's"


def test_without_split_sizes_the_parts_are_equal(tmp_path: Path) -> None:
    given = [torch.arange(8.0) + 100 * rank for rank in (0, 1)]
    for rank in (0, 1):
        dump = TensorDump(tmp_path / "dump", rank)
        got = torch.cat([given[0][4 * rank : 4 * rank + 4], given[1][4 * rank : 4 * rank + 4]])
        dump.forward("Distributed.all_to_all_single.0.forward", [None, given[rank]], [got, given[rank]])
        dump.write()
    assert [answer_of(tmp_path / "dump", rank, "all_to_all_single").verdict for rank in (0, 1)] == [V.AGREES] * 2


def test_split_sizes_that_do_not_fit_the_tensor_are_a_reason(tmp_path: Path) -> None:
    root = exchanged(tmp_path, by_keyword=True, sent=([1, 2, 3], [2, 0, 5], [4, 1, 1]))
    answer = answer_of(root, 0, "all_to_all_single", (0, 1, 2))
    assert (answer.reason, answer.detail) == (NotRun.MEMBERS, "split sizes of rank 1")


def test_a_member_that_is_not_there_is_a_reason(tmp_path: Path) -> None:
    root = ranks(tmp_path, [torch.ones(3)] * 2, [torch.ones(3) * 2] * 2)
    assert answer_of(root, 0, there=(0,)).reason is NotRun.MEMBERS


# --- the child process ------------------------------------------------------------------------------


def dying(_job: Job, start: int, answers: Any, _repro: Path | None) -> None:
    """A child that crashes at its first record, as native code does."""
    from firstnan.replaying import child

    if start:
        child.serve(_job, start, answers)
    answers.send("ready")
    os.abort()


def sleeping(_job: Job, start: int, answers: Any, _repro: Path | None) -> None:
    """A child that does not end at its first record."""
    from firstnan.replaying import child

    if start:
        child.serve(_job, start, answers)
    answers.send("ready")
    time.sleep(600)


@pytest.mark.parametrize(("child", "reason"), [(dying, NotRun.CRASHED), (sleeping, NotRun.TIMED_OUT)])
def test_a_child_that_is_lost_costs_one_record(
    dump: TensorDump, monkeypatch: pytest.MonkeyPatch, child: Any, reason: NotRun
) -> None:
    network(dump).write()
    monkeypatch.setattr(process, "_serve", child)
    tasks = tuple(Task(0, 0, name, at) for at, name in enumerate(dump.records))
    limit = 1.0 if child is sleeping else 60.0
    answers = [answer for _, answer in process.run(Job({(0, 0): dump.folder}, tasks, time_limit=limit))]
    assert answers[0].reason is reason
    assert [answer.verdict for answer in answers[1:]] == [V.AGREES] * 3 or child is sleeping
    assert len(answers) == 4


def test_a_script_is_not_run_again_by_the_child(dump: TensorDump, tmp_path: Path) -> None:
    """No ``if __name__ == "__main__"``: a child that imported the script would replay, and start a child ..."""
    network(dump).write()
    script = tmp_path / "script.py"
    script.write_text(f"import firstnan\nprint(firstnan.replay({str(dump.root)!r}).replayed.records)\n", "utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "4\n"), ended.stderr


def test_a_budget_leaves_records_out(dump: TensorDump, monkeypatch: pytest.MonkeyPatch) -> None:
    network(dump).write()
    monkeypatch.setattr(process, "_serve", sleeping)
    report = replay(dump.root, ReplayRequest(everything=True, budget=0.5))
    assert report.replayed is not None
    assert (report.replayed.left_out, report.exit_code) == (4, 4)


def test_more_memory_than_the_limit_is_refused_where_it_is_asked_for(dump: TensorDump) -> None:
    x = torch.ones(4)
    dump.forward("Tensor.repeat.0.forward", [x, 1 << 31], x)
    dump.write()
    job = Job({(0, 0): dump.folder}, (Task(0, 0, "Tensor.repeat.0.forward", 0),), memory=256 << 20)
    ((_, answer),) = process.run(job)
    assert answer.reason is NotRun.TOO_LARGE


# --- the repro --------------------------------------------------------------------------------------


def test_the_repro_runs_by_itself(dump: TensorDump, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network(dump, lambda y: y[0, 1].fill_(math.nan)).write()
    folder = tmp_path / "repro"
    assert main(["replay", str(dump.root), "--repro", str(folder), "-o", str(tmp_path / "report.md")]) == 1
    capsys.readouterr()
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(
        [sys.executable, "-I", "-c", f"import runpy, sys; sys.path.insert(0, {str(folder)!r}); "
         f"sys.modules['firstnan'] = None; sys.argv = ['repro.py', '--times', '3']; "
         f"runpy.run_path({str(folder / 'repro.py')!r}, run_name='__main__')"],
        env=clean, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "recorded        5 NaN/Inf, 5 of them not on the CPU, first at [0, 1, 0]" in ended.stdout
    assert "cpu: 0 of 3 runs give NaN/Inf that the CPU does not" in ended.stdout


def test_nothing_of_the_dump_becomes_code(dump: TensorDump, tmp_path: Path) -> None:
    x = torch.ones(2)
    evil = "__import__('os').mkdir('mark')"
    dump.forward("Functional.softmax.0.forward", [x], torch.tensor([0.5, math.nan]), {"dim": 0, "_stacklevel": evil})
    dump.write()
    folder = tmp_path / "repro"
    main(["replay", str(dump.root), "--repro", str(folder), "-o", str(tmp_path / "report.md")])
    code = [file for file in folder.rglob("*.py") if evil in file.read_text("utf-8")]
    assert code == []
    assert evil in (folder / "record.json").read_text("utf-8") or not folder.exists()


def test_a_repro_is_never_written_into_the_dump(dump: TensorDump, capsys: pytest.CaptureFixture[str]) -> None:
    network(dump).write()
    before = sorted(dump.root.rglob("*"))
    assert main(["replay", str(dump.root), "--repro", str(dump.root / "repro")]) == 2
    assert "nothing is ever written there" in capsys.readouterr().err
    assert sorted(dump.root.rglob("*")) == before


# --- known dumps and the documentation --------------------------------------------------------------


@pytest.mark.skipif(not KNOWN.is_file(), reason=f"no {KNOWN}")
@pytest.mark.parametrize("name", ["c3-over", "k-matmul", "k-silent", "l4-list", "t-ceignored", "t-exp", "t-matmul16"])
def test_verdicts_of_known_dumps(name: str, tmp_path: Path) -> None:
    with tarfile.open(KNOWN) as packed:
        wanted = [one for one in packed.getmembers() if one.name.removeprefix("./").startswith(f"{name}/")]
        packed.extractall(tmp_path, members=wanted)
    truth = json.loads((tmp_path / name / "truth.json").read_text("utf-8"))
    report: Report = replay(tmp_path / name)
    cause = report.root_causes[0]
    assert cause.replay is not None
    assert cause.replay.verdict.value == truth["replay"]
    assert cause.rank in {place["rank"] for place in truth["of"]}


@pytest.mark.parametrize("page", ["replay.md", "zh/replay.md"])
def test_the_story_is_real(page: str) -> None:
    shown = (ROOT / "docs" / page).read_text("utf-8")
    assert docs_output.commands(shown, docs_output.TORCH_BLOCK)
    assert shown == docs_output.renewed(shown, docs_output.TORCH_BLOCK), "python tools/docs_output.py --torch"


@pytest.mark.parametrize("page", ["replay.md", "zh/replay.md"])
def test_python_examples_are_real(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testfile(str(ROOT / "docs" / page), module_relative=False, encoding="utf-8")
    assert tried
    assert not failed
