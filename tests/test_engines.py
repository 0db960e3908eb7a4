"""Work on many items: every item has an answer, whatever happens to one of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest

from engine_work import mortal, picky, squared
from firstnan.answer.model import Verdict
from firstnan.dump.errors import UsageError
from firstnan.dump.options import EngineKind, Options
from firstnan.dump.problems import ProblemKind
from firstnan.run.engines import opening as engines
from firstnan.run.engines.engine import Engine, Failed, available_cores
from firstnan.run.engines.opening import InProcess, ProcessPool
from firstnan.run.pipeline import analyze

ENGINES = [
    pytest.param(InProcess(), id="in-process"),
    pytest.param(ProcessPool(2), id="pool"),
    pytest.param(ProcessPool(2, together=3), id="some together"),
]
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")


def with_its_process(number: int) -> tuple[int, int]:
    return number, os.getpid()


@pytest.mark.parametrize("engine", ENGINES)
def test_every_item_has_its_result(engine: Engine) -> None:
    assert dict(engine.map(squared, range(40))) == {number: number * number for number in range(40)}


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_to_do_is_no_work(engine: Engine) -> None:
    assert list(engine.map(squared, [])) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_is_the_result_of_its_item(engine: Engine) -> None:
    found = dict(engine.map(picky, range(6)))
    assert found == {0: 0, 1: 1, 2: 2, 3: Failed("MemoryError"), 4: Failed("ValueError: four"), 5: 5}


@forks
@pytest.mark.parametrize("together", [1, 3, 8])
def test_a_worker_that_dies_takes_one_item_with_it(together: int) -> None:
    found = dict(ProcessPool(2, together=together).map(mortal, range(8)))
    assert {n: result for n, result in found.items() if not isinstance(result, Failed)} == {
        n: n for n in (0, 1, 3, 4, 6, 7)
    }
    assert found[2] == Failed("the worker process was killed (SIGKILL, out of memory?)")
    assert found[5] == Failed("the worker process ended (exit code 7)")


@forks
def test_all_workers_may_die() -> None:
    found = dict(ProcessPool(3).map(mortal, [2] * 7))
    assert len(found) == 7
    assert all(isinstance(result, Failed) for result in found.values())


@forks
def test_small_items_are_given_together() -> None:
    """Fewer messages: a worker has as many as make its time worth while, and all workers have some."""
    few, many = (engines.local(2, items, items * 1000) for items in (10, 1000))
    large = engines.local(2, 1000, 1000 * engines.TOGETHER)
    for engine, expected in ((few, 1), (many, engines.MOST_TOGETHER), (large, 1)):
        runs = [process for _, (_, process) in sorted(engine.map(with_its_process, range(64)))]  # type: ignore[misc]
        assert all(len(set(runs[at : at + expected])) == 1 for at in range(0, 64, expected))
        assert isinstance(engine, ProcessPool)


@forks
def test_no_more_processes_than_asked_for() -> None:
    processes = {process for _, result in ProcessPool(2).map(with_its_process, range(30)) for process in (result[1],)}  # type: ignore[index]
    assert len(processes) <= 2
    assert os.getpid() not in processes


@forks
def test_workers_end_with_whoever_stops_asking() -> None:
    results = ProcessPool(2).map(with_its_process, range(1000))
    _, (_, process) = next(results)  # type: ignore[misc]
    results.close()  # type: ignore[attr-defined]
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    pytest.fail("a worker goes on")


def test_small_work_stays_in_this_process() -> None:
    assert isinstance(engines.local(None, 8, engines.SMALL - 1), InProcess)
    assert isinstance(engines.local(1, 8, 10 * engines.SMALL), InProcess)
    assert isinstance(engines.local(None, 1, 10 * engines.SMALL), InProcess)
    assert isinstance(engines.local(2, 8, 0), ProcessPool)


EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "dp2-tp2"


def two_ranks(path: Path) -> Path:
    for rank in (0, 1):
        folder = path / "step0" / f"rank{rank}"
        folder.mkdir(parents=True)
        record = '"Torch.log.0.forward": {"input_args": [], "input_kwargs": {}, "output": []}'
        (folder / "dump.json").write_text('{"task": "statistics", "framework": "pytorch", "data": {' + record + "}}")
    return path


@forks
def test_a_rank_that_fails_is_reported_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    survey = engines_survey()

    def failing(folder: object, **options: object) -> object:
        if getattr(folder, "rank", None) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return survey(folder, **options)

    monkeypatch.setattr("firstnan.run.rank_passes.survey", failing)
    report = analyze(two_ranks(tmp_path), Options(jobs=2))
    assert report.verdict is Verdict.UNKNOWN
    assert not report.complete
    lost = [problem for problem in report.input.problems if problem.kind is ProblemKind.WORKER_FAILED]
    assert [(problem.rank, problem.judged) for problem in lost] == [(1, False)]
    assert "SIGKILL" in lost[0].detail
    assert report.input.records == 1


def engines_survey():  # type: ignore[no-untyped-def]
    from firstnan.run.rank_passes import survey

    return survey


SLOW = """
import os, signal, sys, time
from firstnan.cli import main as cli
from firstnan.run import rank_passes

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored

def slow(folder, **options):
    os.write(1, b"begun\\n")
    time.sleep(60)

rank_passes.survey = slow
sys.exit(cli.main(["analyze", sys.argv[1], "--jobs", "2"]))
"""


@forks
def test_an_interrupt_ends_everything_at_once_without_a_trace(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(textwrap.dedent(SLOW))
    dump = two_ranks(tmp_path / "dump")
    ended = [_interrupted(script, dump) for _ in range(3)]
    assert (130, "firstnan: interrupted\n") in ended


def _interrupted(script: Path, dump: Path) -> tuple[int | None, str]:
    """Exit code and words on stderr; None when it did not end at once. An interpreter may lose an interrupt that comes
    while it runs a destructor, so that one try of three has to do."""
    with subprocess.Popen(
        [sys.executable, str(script), str(dump)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the parent and to every worker
        try:
            _, words = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return None, ""
        return process.returncode, words


# --- the Ray engine where there is none: with one, tests/test_ray_engine.py -------------------------------------------


def test_without_the_package_the_ray_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="not installed") as caught:
        analyze(EXAMPLE, Options(engine=EngineKind.RAY))
    assert "firstnan[ray]" in caught.value.hint


@pytest.mark.parametrize(
    ("option", "options"),
    [("--ray-address", Options(ray_address="local")), ("--node-local", Options(node_local=True))],
)
def test_options_of_a_cluster_need_the_ray_engine(option: str, options: Options) -> None:
    with pytest.raises(UsageError, match=f"{option} is for a Ray cluster") as caught:
        analyze(EXAMPLE, options)
    assert caught.value.hint == "add --engine ray"


def test_ray_is_loaded_only_when_it_is_asked_for() -> None:
    script = f"import sys, firstnan; firstnan.analyze({str(EXAMPLE)!r}); sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    ("quota", "most"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", None), ("x", None)]
)
def test_a_container_with_less_time_has_fewer_cores(quota: str, most: int | None, tmp_path: Path) -> None:
    limit = tmp_path / "cpu.max"
    limit.write_text(quota + "\n")
    unlimited = available_cores(tmp_path / "absent")
    assert available_cores(limit) == (unlimited if most is None else most)
    assert unlimited >= 1
