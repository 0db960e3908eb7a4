"""The answer in one line, for chat and logs."""

from __future__ import annotations

from firstnan.answer.model import Report
from firstnan.dump.printable import printable
from firstnan.show.outline.headline import group_causes
from firstnan.show.outline.sections import headline
from firstnan.show.reporter import Settings
from firstnan.words import text


def render(report: Report, settings: Settings) -> str:
    """The headline and the line of code of the first cause, ending with a line end."""
    line = headline(report, settings)
    groups = group_causes(report.root_causes)
    if len(groups) > 1:
        line += " " + headline(report, settings, first=True)
    frame = groups[0].cause.location if groups else None
    if frame is not None:
        at = frame.file if frame.line is None else f"{frame.file}:{frame.line}"
        line += text("line.code", settings.language, place=printable(at))
    return line + "\n"
