"""Progress on a terminal while ranks are read. ``rich`` draws it; without it, or without a terminal, there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, TextIO, cast

from firstnan.dump.language import Language
from firstnan.dump.options import Progress, ProgressEvent
from firstnan.dump.printable import printable
from firstnan.show.outline.inputs import size_words
from firstnan.words import Words, text

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    class Bar(RichProgress):
        """A bar with a line below it."""

        below: str


HAS_RICH = find_spec("rich") is not None
"""A machine with Python alone has no bar. It is loaded when there is a terminal to draw on."""


class ReadingProgress:
    """A bar of the bytes read, with ranks, rate and time left, the first bad value so far, and one line at the end.

    Use as ``with ReadingProgress(language) as progress: analyze(path, options, progress)``. Gives None, and shows
    nothing, when the stream is not a terminal.
    """

    def __init__(self, language: Language, stream: TextIO | None = None) -> None:
        self._language = language
        self._stream = stream or sys.stderr
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._last: ProgressEvent | None = None
        self._start = 0.0

    def __enter__(self) -> Progress | None:
        if not HAS_RICH or not self._stream.isatty():
            return None
        self._start = time.monotonic()
        self._bar = _bar(self._stream)
        self._bar.start()
        self._task = self._bar.add_task(text("progress.reading", self._language), total=None)
        return self._update

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is None:
            return
        self._bar.stop()
        if kind is None and self._last is not None:
            self._stream.write(self._summary(self._last) + "\n")

    def _update(self, event: ProgressEvent) -> None:
        self._last = event
        if self._bar is None or self._task is None:
            return
        done = Words(f"{event.ranks_done}/{event.ranks_total}")
        description = text("progress.ranks", self._language, done=done)
        self._bar.update(self._task, completed=event.bytes_done, total=event.bytes_total, description=description)
        if event.first is not None:
            found = Words(printable(event.first.op_name))
            number = Words(f"{event.first.index:,}")
            self._bar.below = text("progress.first", self._language, rank=event.first.rank, record=number, name=found)

    def _summary(self, event: ProgressEvent) -> str:
        seconds = max(time.monotonic() - self._start, 0.001)
        return text(
            "progress.done",
            self._language,
            ranks=event.ranks_done,
            size=Words(size_words(event.bytes_done)),
            seconds=Words(f"{seconds:.1f}"),
            rate=Words(size_words(int(event.bytes_done / seconds))),
        )


def _bar(stream: TextIO) -> Bar:
    from rich.console import Console, RenderableType
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.text import Text

    class WithLine(Progress):
        below = ""

        def get_renderables(self) -> Iterable[RenderableType]:
            yield from super().get_renderables()
            if self.below:
                yield Text(self.below)

    bar = WithLine(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(file=stream),
        transient=True,
    )
    return cast("Bar", bar)
