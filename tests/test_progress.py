"""Progress: on a terminal only."""

from __future__ import annotations

import io

import pytest

from firstnan.cli import progress
from firstnan.cli.progress import ReadingProgress
from firstnan.dump.language import Language
from firstnan.dump.options import ProgressEvent, Suspicion


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_nothing() -> None:
    stream = io.StringIO()
    with ReadingProgress(Language.EN, stream) as report:
        assert report is None
    assert stream.getvalue() == ""


def test_a_terminal_gets_a_bar_and_one_line_at_the_end() -> None:
    pytest.importorskip("rich")
    stream = Terminal()
    with ReadingProgress(Language.EN, stream) as report:
        assert report is not None
        report(ProgressEvent(3, 4, 3_000_000, 4_000_000))
        report(ProgressEvent(4, 4, 4_000_000, 4_000_000))
    assert "read 4 ranks, 4.0 MB in" in stream.getvalue().splitlines()[-1]


def test_a_terminal_shows_the_first_bad_value_so_far() -> None:
    pytest.importorskip("rich")
    stream = Terminal()
    with ReadingProgress(Language.EN, stream) as report:
        assert report is not None
        report(ProgressEvent(1, 4, 1, 4, Suspicion(0, True, 9, 3, "Distributed.all_reduce.0.forward")))
        report(ProgressEvent(2, 4, 2, 4, Suspicion(0, False, 1204, 300, "Torch.exp.0.forward")))
    shown = stream.getvalue()
    assert "first non-finite value so far: rank 300, record 1,204, Torch.exp.0.forward" in shown
    assert "Torch.exp" not in shown.splitlines()[-1]


def test_an_error_gets_no_closing_line() -> None:
    pytest.importorskip("rich")
    stream = Terminal()

    def read() -> None:
        with ReadingProgress(Language.EN, stream) as report:
            assert report is not None
            report(ProgressEvent(1, 4, 1, 4))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read()
    assert "read 1 ranks" not in stream.getvalue()


def test_without_rich_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HAS_RICH", False)
    stream = Terminal()
    with ReadingProgress(Language.ZH, stream) as report:
        assert report is None
    assert stream.getvalue() == ""
