"""First of two stages: read the ranks of this host, and write a part file for merge, a few KB for each rank.

Run it on every host over its own ranks, copy the part files to one place, and merge them there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from firstnan.cli.arguments import add_input, add_language, add_reading
from firstnan.cli.arguments import options as options_of
from firstnan.cli.delivery import language_of, say_what_is_lacking, target_of, worked
from firstnan.cli.output import check_target, write_whole
from firstnan.cli.progress import ReadingProgress
from firstnan.cli.terminal import put, say
from firstnan.dump.printable import printable
from firstnan.dump.ranges import format_ranges
from firstnan.words import Words, text

EXIT_CODES = """\
exit codes:
  0  the part is written, whatever it holds
  2  usage error, or the part could not be written
  3  no dump at the path
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the part file (default: stdout)")
    parser.add_argument(
        "--others",
        type=Path,
        nargs="+",
        default=[],
        metavar="PART",
        help="part files of the other hosts: also answer what merge will ask about the ranks of this host",
    )
    add_reading(parser)
    add_language(parser)


def run(chosen: argparse.Namespace) -> int:
    from firstnan.run import parts, two_stage

    target, language = target_of(chosen), language_of(chosen)
    if target is not None:
        for path in chosen.path:
            check_target(target, path)
    others, unusable = two_stage.read_all(chosen.others) if chosen.others else ([], [])
    for problem in unusable:
        say(f"firstnan: {printable(f'{problem.file}: {problem.detail}')}")
    options = options_of(chosen)
    say_what_is_lacking(language)

    def scanned() -> parts.Part:
        with ReadingProgress(language) as progress:
            return two_stage.scan(chosen.path, options, progress, others)

    part = worked(options, scanned)
    content = parts.to_text(part)
    if target is None:
        put(content, is_text=False)
    else:
        write_whole(target, content.encode("utf-8"))
    suspected = {one.folder.rank for one in part.ranks if one.summary.suspect is not None}
    say(
        text(
            "scan.done" if suspected else "scan.clean",
            language,
            ranks=Words(format_ranges(sorted({one.folder.rank for one in part.ranks}))),
            suspected=Words(format_ranges(sorted(suspected))),
        )
    )
    return 0
