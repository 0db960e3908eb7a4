"""Print the rules in force: which NaN and Inf are harmless, and which operators only pass them on."""

from __future__ import annotations

import argparse
from pathlib import Path

from firstnan.cli.arguments import add_language
from firstnan.cli.terminal import put
from firstnan.run import lookups

EXIT_CODES = """\
exit codes:
  0  the rules are printed
  2  usage error, the rules file cannot be read, or stdout could not be written
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rules",
        type=Path,
        metavar="FILE",
        help="your rules: they add to the default ones, or replace those of the same name",
    )

    add_language(parser)


def run(chosen: argparse.Namespace) -> int:
    put(lookups.rules_text(chosen.rules), is_text=True)
    return 0
