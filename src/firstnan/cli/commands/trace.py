"""Step 2 alone: find the first anomalous operator on one rank, its call chain and its line of code.

-o single_rank_trace.json (or --format mission) writes that file: rank and first_anomaly with op_name, exec_order,
output, input_info, construct_chain and stack_info. --format json is the whole report.
"""

from __future__ import annotations

import argparse

from firstnan.cli.arguments import REPORT_EXIT_CODES, add_input, add_rank, add_reading, add_showing
from firstnan.cli.delivery import report
from firstnan.show import Format, View
from firstnan.show.reporter import SINGLE_RANK_FILE

EXIT_CODES = REPORT_EXIT_CODES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_rank(parser)
    add_reading(parser, ranks=False)
    add_showing(parser, list(Format), SINGLE_RANK_FILE)


def run(chosen: argparse.Namespace) -> int:
    return report(chosen, View.TRACE)
