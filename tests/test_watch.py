"""A run that is watched while it writes: every step once it is complete, and the first anomaly is the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from made_dumps import NAN, forward, rank_folder, tensor, text

from firstnan.cli import main as cli
from firstnan.cli.commands import watch as watch_command
from firstnan.dump.errors import InputError
from firstnan.dump.options import Options
from firstnan.run.watch import Event, Outcome, Pace, Watch

ROOT = Path(__file__).parents[1]


def dump(value: float = 1.0, records: int = 3) -> str:
    return text({f"Torch.add.{n}.forward": forward([tensor()], output=[tensor(value, -1.0)]) for n in range(records)})


class Run:
    """A run that writes while time passes: what to do at which second."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 0.0
        self._plan: list[tuple[float, Callable[[], object]]] = []

    def at(self, second: float, step: int, rank: int, content: str | None) -> Run:
        folder = self.root / f"step{step}" / f"rank{rank}"
        self._plan.append((second, lambda: rank_folder(folder, content, step, rank)))
        return self

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        due = [what for second, what in self._plan if second <= self.now]
        self._plan = [one for one in self._plan if one[0] > self.now]
        for what in due:
            what()

    def watched(self, ranks: int | None = None) -> list[Event]:
        pace = Pace(interval=1.0, settle=5.0, timeout=50.0, ranks=ranks)
        watch = Watch([self.root], Options(jobs=1), pace, clock=lambda: self.now, sleep=self.sleep)
        return list(watch.events())


def seen(events: list[Event]) -> list[tuple[Outcome, int | None]]:
    return [(event.outcome, event.step) for event in events]


def test_clean_steps_until_the_run_ends(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for step in range(3):
        for rank in range(2):
            run.at(10 * step + rank, step, rank, dump())
    events = run.watched()
    assert seen(events) == [*((Outcome.CLEAN, step) for step in range(3)), (Outcome.ENDED, None)]
    assert events[-1].report is not None
    assert events[-1].report.exit_code == 0


def test_a_forward_anomaly_ends_it_at_once(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for step in range(3):
        run.at(10 * step, step, 0, dump(NAN if step == 1 else 1.0))
    events = run.watched()
    assert seen(events) == [(Outcome.CLEAN, 0), (Outcome.ANOMALY, 1)]
    assert run.now < 20, "step 2 was not waited for"


def test_a_half_written_file_is_not_taken_for_cut(tmp_path: Path) -> None:
    whole = dump(records=9)
    run = Run(tmp_path).at(0, 0, 0, dump()).at(0, 0, 1, whole[: len(whole) // 2]).at(20, 0, 1, whole)
    events = run.watched()
    assert seen(events) == [(Outcome.CLEAN, 0), (Outcome.ENDED, None)]
    report = events[0].report
    assert report is not None
    assert report.complete
    assert report.input.records == 12


def test_a_file_that_stays_cut_counts_as_cut(tmp_path: Path) -> None:
    run = Run(tmp_path).at(0, 0, 0, dump()).at(0, 0, 1, dump()[:-300])
    assert seen(run.watched()) == [(Outcome.UNDECIDED, 0), (Outcome.ENDED, None)]


def test_a_rank_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    run = Run(tmp_path).at(0, 0, 0, dump()).at(0, 0, 1, dump()).at(10, 1, 0, dump()).at(40, 1, 1, dump(NAN))
    assert seen(run.watched()) == [(Outcome.CLEAN, 0), (Outcome.ANOMALY, 1)]
    alone = Run(tmp_path / "new").at(0, 0, 0, dump()).at(30, 0, 1, dump(NAN))
    assert seen(alone.watched(ranks=2)) == [(Outcome.ANOMALY, 0)]


def test_a_rank_that_never_comes_is_told(tmp_path: Path) -> None:
    run = Run(tmp_path).at(0, 0, 0, dump()).at(0, 0, 1, dump()).at(10, 1, 0, dump())
    events = run.watched()
    assert seen(events) == [(Outcome.CLEAN, 0), (Outcome.UNDECIDED, 1), (Outcome.ENDED, None)]


def test_nothing_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        Run(tmp_path).watched()
    with pytest.raises(InputError):
        Run(tmp_path / "absent").watched()


def gradient(value: float) -> str:
    """A step in float16 whose gradient may overflow: linear, its loss, and backward."""
    half = "torch.float16"
    weight = tensor(0.5, -0.5, half, (3, 3), requires_grad=True)
    data = {
        "Functional.linear.0.forward": forward([tensor(1.0, -1.0, half), weight], output=[tensor(2.0, -2.0, half)]),
        "Functional.mse_loss.0.forward": forward([tensor(2.0, -2.0, half)], output=[tensor(1.0, 1.0, half, ())]),
        "Functional.mse_loss.0.backward": {
            "input": [tensor(60000.0, 60000.0, half, ())],
            "output": [tensor(60000.0, -60000.0, half)],
        },
        "Functional.linear.0.backward": {
            "input": [tensor(60000.0, -60000.0, half)],
            "output": [tensor(value, -value, half)],
        },
    }
    return text(data)


def test_a_skipped_step_is_no_anomaly(tmp_path: Path) -> None:
    inf = float("inf")
    run = Run(tmp_path).at(0, 0, 0, gradient(inf)).at(10, 1, 0, gradient(3.0))
    events = run.watched()
    assert seen(events) == [
        (Outcome.SUSPECTED, 0),
        (Outcome.SKIPPED, 0),
        (Outcome.CLEAN, 1),
        (Outcome.ENDED, None),
    ]


def test_a_gradient_overflow_that_was_not_skipped(tmp_path: Path) -> None:
    inf = float("inf")
    alone = Run(tmp_path / "a").at(0, 0, 0, gradient(inf))
    assert seen(alone.watched()) == [(Outcome.SUSPECTED, 0), (Outcome.ANOMALY, 0)]
    changed = gradient(3.0).replace("0.5", "0.25")
    run = Run(tmp_path / "b").at(0, 0, 0, gradient(inf)).at(10, 1, 0, changed)
    assert seen(run.watched()) == [(Outcome.SUSPECTED, 0), (Outcome.ANOMALY, 0)]


# -- the command ----------------------------------------------------------------------------------------------

FAST = ["--interval", "0", "--settle", "0", "--timeout", "0", "--jobs", "1"]


@pytest.mark.parametrize(("lang", "word"), [("en", "first bad step"), ("zh", "首个异常 step")])
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], lang: str, word: str) -> None:
    shutil.copytree(ROOT / "examples" / "dp2-tp2", tmp_path / "run")
    page = tmp_path / "page.html"
    arguments = ["watch", str(tmp_path / "run"), "--html", str(page), "--format", "json", "--lang", lang, *FAST]
    assert cli.main(arguments) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["verdict"] == "anomaly"
    assert word in err
    assert "<html" in page.read_text("utf-8")


def test_every_step_is_a_line_and_renews_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in range(3):
        rank_folder(tmp_path / "run" / f"step{step}" / "rank0", dump())
    written: list[bytes] = []
    monkeypatch.setattr(watch_command, "write_whole", lambda _, content: written.append(content))
    assert cli.main(["watch", str(tmp_path / "run"), "--html", str(tmp_path / "page.html"), "--lang", "en", *FAST]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["step 0", "step 1", "step 2"]
    assert len(written) >= 3
    assert all(b"<html" in page for page in written)


def test_a_clean_run_ends_with_0_and_nothing_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rank_folder(tmp_path / "run" / "step0" / "rank0", dump())
    assert cli.main(["watch", str(tmp_path / "run"), *FAST]) == 0
    assert cli.main(["watch", str(tmp_path / "nothing"), *FAST]) == 3
    assert cli.main(["watch", str(tmp_path / "run"), "--html", str(tmp_path / "run" / "a.html"), *FAST]) == 2
    assert cli.main(["watch", str(tmp_path / "run"), "--settle", "soon"]) == 2
    capsys.readouterr()
