"""Run the suspect records again on the CPU, to tell numerics from the device (extra: firstnan[replay]).

Needs the tensors of the records (task 'tensor'); without them, the command prints the configuration that dumps them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from firstnan.cli.arguments import add_input, add_reading, add_showing, whole_number
from firstnan.cli.arguments import options as options_of
from firstnan.cli.delivery import check_targets, deliver, form_of, say_what_is_lacking, settings_of, worked
from firstnan.cli.output import check_folder
from firstnan.cli.progress import ReadingProgress
from firstnan.cli.terminal import say
from firstnan.dump.errors import UsageError
from firstnan.dump.printable import printable
from firstnan.show import Format, View
from firstnan.words import Words, text

if TYPE_CHECKING:
    from firstnan.answer.model import Report

EXIT_CODES = """\
exit codes:
  0  clean and complete, and every record that was run is what the CPU gets
  1  anomaly found
  2  usage error, torch is not installed, or the report could not be written
  3  nothing readable at the path
  4  undecided: no record could be run (the tensors are not in the dump), the time was up, or nothing could be judged
"""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    group = parser.add_argument_group("records to run")
    group.add_argument("--rank", type=whole_number, metavar="R", help="the rank of --op or --all")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--op", metavar="NAME", help="this record alone (default: the records of every cause)")
    which.add_argument("--all", action="store_true", help="every record of the rank, or of every rank")
    group.add_argument(
        "--budget", type=_duration, metavar="TIME", help="stop after this time, such as 30s or 10m (with --all: 10m)"
    )
    group.add_argument(
        "--repro", type=Path, metavar="DIR", help="write repro.py and the record's inputs there, to run on a device"
    )
    add_reading(parser, ranks=False)
    add_showing(parser, [form for form in Format if form is not Format.MISSION])


def _duration(text: str) -> float:
    number, unit = (text[:-1], text[-1:]) if text[-1:] in _UNITS else (text, "s")
    if not number.isascii() or not number.isdigit() or not int(number) or len(number) > 6:
        raise argparse.ArgumentTypeError(f"'{text}' is no time such as 30s, 10m or 1h")
    return int(number) * _UNITS[unit]


def run(chosen: argparse.Namespace) -> int:
    from firstnan.run import replay

    form = form_of(chosen)
    check_targets(chosen, chosen.path)
    if chosen.repro is not None:
        check_folder(chosen.repro)
    if chosen.rank is not None and chosen.op is None and not chosen.all:
        raise UsageError("--rank goes with --op or --all")
    replay.check_torch()
    options = options_of(chosen)
    settings = settings_of(chosen, View.FULL)
    say_what_is_lacking(settings.language)
    request = replay.ReplayRequest(chosen.rank, chosen.op, chosen.all, chosen.budget)

    def replayed() -> Report:
        with ReadingProgress(settings.language) as progress:
            return replay.replay(chosen.path, request, options, progress)

    report = worked(options, replayed)
    code = deliver(report, form, settings, chosen)
    if chosen.repro is not None:
        written = replay.write_repro(chosen.path, report, request, chosen.repro)
        say(text("output.written", settings.language, file=Words(printable(str(written)))))
    return code
