"""Follow a run while it writes its dump: one line for each step, and the report at the first anomaly.

Where the loss scaler may have skipped the step, the command waits for the next step before it calls it an anomaly.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from firstnan.cli.arguments import REPORT_EXIT_CODES, add_showing, jobs, seconds, whole_number
from firstnan.cli.delivery import check_targets, deliver, form_of, settings_of
from firstnan.cli.output import check_target, write_whole
from firstnan.cli.terminal import say
from firstnan.dump.errors import UsageError
from firstnan.dump.language import Language
from firstnan.dump.options import Options
from firstnan.show import Format, View, render
from firstnan.words import text

if TYPE_CHECKING:
    from firstnan.run.watch import Event


EXIT_CODES = REPORT_EXIT_CODES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="DIR", help="the folder that the run writes step*/rank* into")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as a page, again after each step")
    parser.add_argument(
        "--world", type=whole_number, metavar="N", help="how many ranks the run has (default: as many as any step has)"
    )
    _add_waiting(parser)
    parser.add_argument(
        "--rules",
        type=Path,
        metavar="FILE",
        help="your rules: they add to the default ones, or replace those of the same name",
    )
    parser.add_argument(
        "--jobs", type=jobs, metavar="N", help="how many processes run at once (default: the cores available)"
    )
    add_showing(parser, [Format.TEXT, Format.MARKDOWN, Format.JSON])


def _add_waiting(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("waiting, in seconds")
    group.add_argument("--interval", type=seconds, default=2.0, metavar="S", help="look every S seconds (default: 2)")
    group.add_argument(
        "--settle",
        type=seconds,
        default=10.0,
        metavar="S",
        help="a file that did not change for so long is finished (default: 10)",
    )
    group.add_argument(
        "--timeout",
        type=seconds,
        default=600.0,
        metavar="S",
        help="after so long without a change, missing ranks count as missing and the run as ended (default: 600)",
    )


def run(chosen: argparse.Namespace) -> int:
    """Follows the run; the exit code is that of the report it ends with."""
    from firstnan.run.watch import Outcome, Pace, Watch

    form, page = form_of(chosen), chosen.html
    check_targets(chosen, [chosen.path])
    if page is not None:
        check_target(page, chosen.path)
        if chosen.output is not None and page.resolve() == chosen.output.resolve():
            raise UsageError(f"'{page}' cannot hold both the page and the report")
    settings = settings_of(chosen, View.FULL)
    pace = Pace(chosen.interval, chosen.settle, chosen.timeout, chosen.world)
    undecided = False
    last: Event | None = None
    for event in Watch([chosen.path], Options(rules=chosen.rules, jobs=chosen.jobs), pace).events():
        say(line(event, settings.language))
        undecided = undecided or event.outcome is Outcome.UNDECIDED
        last = event
        if page is not None and event.report is not None:
            write_whole(page, render(event.report, Format.HTML, settings).encode("utf-8"))
    if last is None or last.report is None:
        return 4
    return deliver(last.report, form, settings, chosen) or (4 if undecided else 0)


def line(event: Event, language: Language) -> str:
    """What became known, in one line."""
    report = event.report
    cause = report.root_causes[0] if report is not None and report.root_causes else None
    return text(
        f"watch.{event.outcome.value}",
        language,
        step="-" if event.step is None else event.step,
        ranks=0 if report is None else len(report.input.ranks),
        op="" if cause is None else cause.op_name,
        rank="" if cause is None else cause.rank,
    )
