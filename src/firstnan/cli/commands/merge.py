"""Second of two stages: make one report from the part files of all hosts."""

from __future__ import annotations

import argparse
from pathlib import Path

from msgspec.structs import replace

from firstnan.cli.arguments import REPORT_EXIT_CODES, add_showing, jobs
from firstnan.cli.delivery import check_targets, deliver, form_of, say_what_is_lacking, settings_of, targets_of
from firstnan.dump.errors import UsageError
from firstnan.dump.options import Options
from firstnan.show import Format, View
from firstnan.show.reporter import CROSS_RANK_FILE
from firstnan.step.every_call import EveryCall

EXIT_CODES = REPORT_EXIT_CODES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("parts", type=Path, nargs="+", metavar="PART", help="files that 'firstnan scan' wrote")
    parser.add_argument(
        "--jobs", type=jobs, metavar="N", help="how many processes read files again, where a part lacks something"
    )
    add_showing(parser, [form for form in Format if form is not Format.MISSION], CROSS_RANK_FILE)


def run(chosen: argparse.Namespace) -> int:
    from firstnan.run import two_stage

    form = form_of(chosen)
    targets = {file.resolve() for file in targets_of(chosen)}
    for file in chosen.parts:
        if file.resolve() in targets:
            raise UsageError(f"'{file}' cannot be both a part and the report")
    parts, problems = two_stage.read_all(chosen.parts)
    check_targets(chosen, [part.folder.path for one in parts for part in one.ranks[:1]])
    settings = settings_of(chosen, View.FULL)
    say_what_is_lacking(settings.language)
    report = two_stage.put_together(parts, Options(jobs=chosen.jobs), problems=problems)
    if chosen.mission_file is not None and (rosters := two_stage.rosters(parts)) is not None:
        settings = replace(settings, every_call=EveryCall(report, rosters))
    return deliver(report, form, settings, chosen)
