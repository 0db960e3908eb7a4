#!/usr/bin/env python3
"""Step 1: source, propagated and normal ranks of every communication call, affected calls first.

Prints a summary and writes cross_rank_analysis.json (or OUTPUT_PATH), never inside the dump folder. After a failure
(exit code 2 or 3) the result of an earlier run is renamed to cross_rank_analysis.json.previous.
Exit code: 0 clean, 1 an anomaly was found, 2 usage, 3 nothing readable, 4 undecided.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from load_firstnan import parsed, run

OUTPUT = "cross_rank_analysis.json"


def main():
    """Read the arguments, hand over to ``firstnan ranks``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input_path", help="folder that holds rank0/, rank1/ ... (or step0/rank0/ ...)")
    parser.add_argument("output_path", nargs="?", default=OUTPUT, help=f"default: {OUTPUT} in the current folder")
    parser.add_argument(
        "--exclude-op",
        action="append",
        default=[],
        metavar="NAME",
        help="reject an operator as the cause and go on to the next: a record name, or RANK:NAME; may be repeated",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="print every communication call")
    chosen = parsed(parser.parse_args, OUTPUT)
    options = [f"--exclude-op={name}" for name in chosen.exclude_op] + ["--verbose"] * chosen.verbose
    arguments = ["ranks", *options, f"--mission-file={chosen.output_path}", "--", chosen.input_path]
    return run(arguments, chosen.input_path, chosen.output_path)


if __name__ == "__main__":
    sys.exit(main())
