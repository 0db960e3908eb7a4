"""Show the records around the cause, or around any other record."""

from __future__ import annotations

import argparse

from firstnan.cli.arguments import add_input, add_rank, add_words, around, whole_number
from firstnan.cli.delivery import language_of
from firstnan.cli.terminal import colour, put, width
from firstnan.run import lookups
from firstnan.show import Settings
from firstnan.show.console import render_outline
from firstnan.show.json import dumps, excerpt_dict

EXIT_CODES = """\
exit codes:
  0  there was something to show
  2  usage error, or stdout could not be written
  3  nothing readable at the path
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_rank(parser)
    parser.add_argument(
        "--step", type=whole_number, metavar="N", help="the step (default: that of the cause, else the first one)"
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--op", metavar="NAME", help="the record with this name")
    place.add_argument("--at", type=whole_number, metavar="INDEX", help="the record with this index, counted from 0")
    parser.add_argument(
        "--around", type=around, default=5, metavar="K", help="records before and after it (default: 5)"
    )
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="format of the answer (default: text)"
    )
    add_words(parser)


def run(chosen: argparse.Namespace) -> int:
    rank = lookups.only_rank(chosen.path) if chosen.rank is None else chosen.rank
    found = lookups.show(chosen.path, rank, step=chosen.step, op=chosen.op, at=chosen.at, around=chosen.around)
    if chosen.format == "json":
        put(dumps(excerpt_dict(found)), is_text=False)
        return 0
    settings = Settings(language=language_of(chosen), verbose=chosen.verbose, width=width(), colour=colour())
    from firstnan.show.outline.excerpt import outline_excerpt

    put(render_outline(outline_excerpt(found, settings), settings), is_text=True)
    return 0
