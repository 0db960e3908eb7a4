"""Step 1 alone: list the source, propagated and normal ranks of every affected communication call.

-o cross_rank_analysis.json (or --format mission) writes that file: per call source_ranks, propagated_ranks,
normal_ranks and total_ranks. --format json is the whole report.
"""

from __future__ import annotations

import argparse

from firstnan.cli.arguments import REPORT_EXIT_CODES, add_input, add_reading, add_showing
from firstnan.cli.delivery import report
from firstnan.show import Format, View
from firstnan.show.reporter import CROSS_RANK_FILE

EXIT_CODES = REPORT_EXIT_CODES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_reading(parser)
    add_showing(parser, list(Format), CROSS_RANK_FILE)


def run(chosen: argparse.Namespace) -> int:
    return report(chosen, View.RANKS)
