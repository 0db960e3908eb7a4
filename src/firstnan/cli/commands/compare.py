"""Find the first record whose numbers differ between two runs of one program, or between two steps."""

from __future__ import annotations

import argparse
from pathlib import Path

from firstnan.cli import arguments
from firstnan.cli.arguments import add_words, jobs, numbers
from firstnan.cli.delivery import language_of, target_of
from firstnan.cli.output import check_target, write_whole
from firstnan.cli.terminal import colour, put, say, width
from firstnan.dump.options import Options
from firstnan.dump.printable import printable
from firstnan.show import Format, Settings
from firstnan.words import Words, text

EXIT_CODES = """\
exit codes:
  0  no difference, and everything was compared
  1  a difference was found
  2  usage error, or the answer could not be written
  3  nothing readable at one of the paths
  4  undecided: no difference, but not everything could be compared
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", type=Path, metavar="A", help="the good run, or the earlier step")
    parser.add_argument("b", type=Path, metavar="B", help="the bad run, or the later step")
    parser.add_argument(
        "--noise",
        type=Path,
        metavar="C",
        help="a second good run: differences as large as those between A and C do not count",
    )
    parser.add_argument("--step", type=numbers, metavar="LIST", help="only these steps")
    parser.add_argument("--ranks", type=numbers, metavar="LIST", help="only these ranks")
    parser.add_argument(
        "--jobs", type=jobs, metavar="N", help="how many processes run at once (default: the cores available)"
    )
    parser.add_argument(
        "--format",
        choices=[Format.TEXT.value, Format.JSON.value, Format.HTML.value],
        help="format of the answer (default: by the suffix of the output file, else text)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write to FILE instead of stdout; never inside a dump"
    )
    add_words(parser)


def run(chosen: argparse.Namespace) -> int:
    """Shows the first difference; the exit code says whether there is one."""
    from firstnan.run.compare import compare
    from firstnan.show.comparison import render

    form, target, language = arguments.form(chosen), target_of(chosen), language_of(chosen)
    if target is not None:
        for path in (chosen.a, chosen.b, chosen.noise):
            if path is not None:
                check_target(target, path)
    options = Options(steps=chosen.step, ranks=chosen.ranks, jobs=chosen.jobs)
    found = compare(chosen.a, chosen.b, chosen.noise, options)
    settings = Settings(language=language, verbose=chosen.verbose, width=width(), colour=target is None and colour())
    content = render(found, form, settings)
    if target is None:
        put(content, is_text=form is Format.TEXT)
    else:
        write_whole(target, content.encode("utf-8"))
        say(text("output.written", language, file=Words(printable(str(target)))))
    return found.exit_code
