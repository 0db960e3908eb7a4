"""Find the rank, the operator and the line of code where NaN or Inf began, and why."""

from __future__ import annotations

import argparse

from firstnan.cli.arguments import REPORT_EXIT_CODES, add_input, add_reading, add_showing
from firstnan.cli.delivery import report
from firstnan.show import Format, View

EXIT_CODES = REPORT_EXIT_CODES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_reading(parser)
    parser.add_argument(
        "--first",
        action="store_true",
        help="stop at the first rank on which a bad value began: an answer in seconds, marked as not complete",
    )
    add_showing(parser, [form for form in Format if form is not Format.MISSION])


def run(chosen: argparse.Namespace) -> int:
    return report(chosen, View.FULL)
