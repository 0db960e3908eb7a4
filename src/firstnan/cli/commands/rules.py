"""Print the rules in force: what is benign, carries, absorbs, masks."""

from __future__ import annotations

import argparse
from pathlib import Path

from firstnan.cli.arguments import add_language
from firstnan.cli.terminal import put
from firstnan.run import lookups

EXIT_CODES = """\
exit codes:
  0  the rules are printed
  2  usage: the request makes no sense, the rules file cannot be read, or stdout could not be written
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rules", type=Path, metavar="FILE", help="a rules file that adds to or overrides the default")

    add_language(parser)


def run(chosen: argparse.Namespace) -> int:
    put(lookups.rules_text(chosen.rules), is_text=True)
    return 0
