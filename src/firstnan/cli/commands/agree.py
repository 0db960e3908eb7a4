"""Check that ranks which should hold the same numbers do: parameters, communication, operators.

analyze shows the same in one of its sections.
"""

from __future__ import annotations

import argparse

from firstnan.cli.arguments import add_input, add_reading, add_showing
from firstnan.cli.delivery import report
from firstnan.show import Format, View

EXIT_CODES = """\
exit codes:
  0  they agree
  1  they differ
  2  usage error, or the report could not be written
  3  nothing readable at the path
  4  nothing could be compared
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_reading(parser)
    add_showing(parser, [Format.TEXT, Format.MARKDOWN, Format.JSON, Format.HTML])


def run(chosen: argparse.Namespace) -> int:
    return report(chosen, View.AGREE)
