"""``firstnan watch``: one line a step while a run writes its dump, and the report at the first anomaly."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstnan.cli import parser
from firstnan.cli.commands import Terminal
from firstnan.cli.output import check_target, write_whole
from firstnan.dump.errors import UsageError
from firstnan.dump.options import Options
from firstnan.dump.printable import printable
from firstnan.show import Format, load, render
from firstnan.words import Words, text

if TYPE_CHECKING:
    from firstnan.run.watch import Event


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Follows the run; the exit code is that of the report it ends with."""
    from firstnan.run.watch import Outcome, Pace, Watch

    form, page = parser.form(arguments), arguments.html
    for target in (page, arguments.output):
        if target is not None:
            check_target(target, arguments.path)
    if page is not None and arguments.output is not None and page.resolve() == arguments.output.resolve():
        raise UsageError(f"'{page}' cannot hold both the page and the report")
    load(form)
    pace = Pace(arguments.interval, arguments.settle, arguments.timeout, arguments.world)
    undecided = False
    last: Event | None = None
    for event in Watch([arguments.path], Options(rules=arguments.rules, jobs=arguments.jobs), pace).events():
        terminal.say(line(event, terminal))
        undecided = undecided or event.outcome is Outcome.UNDECIDED
        last = event
        if page is not None and event.report is not None:
            settings = replace(terminal.settings, redact=arguments.redact)
            write_whole(page, render(event.report, Format.HTML, settings).encode("utf-8"))
    if last is None or last.report is None:
        return 4
    settings = replace(terminal.settings, redact=arguments.redact, verbose=arguments.verbose)
    _deliver(render(last.report, form, settings), form, arguments.output, terminal)
    return last.report.exit_code or (4 if undecided else 0)


def _deliver(content: str, form: Format, target: Path | None, terminal: Terminal) -> None:
    if target is None or str(target) == "-":
        terminal.put(content, is_text=form is Format.TEXT)
        return
    write_whole(target, content.encode("utf-8"))
    terminal.say(text("output.written", terminal.language, file=Words(printable(str(target)))))


def line(event: Event, terminal: Terminal) -> str:
    """What became known, in one line."""
    report = event.report
    cause = report.root_causes[0] if report is not None and report.root_causes else None
    return text(
        f"watch.{event.outcome.value}",
        terminal.language,
        step="-" if event.step is None else event.step,
        ranks=0 if report is None else len(report.input.ranks),
        op="" if cause is None else cause.op_name,
        rank="" if cause is None else cause.rank,
    )
