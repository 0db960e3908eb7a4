#!/usr/bin/env python3
"""Step 2: the first anomalous operator on one rank, with its inputs, its call chain and its code location.

Give one rank's folder, or the folder of all ranks and --rank N. Prints a summary and writes
single_rank_trace.json (or OUTPUT_PATH), never inside the dump folder. After a failure (exit code 2 or 3) the result of
an earlier run is renamed to single_rank_trace.json.previous.
Exit code: 0 clean, 1 an anomaly was found, 2 usage, 3 nothing readable, 4 undecided.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from load_firstnan import parsed, run

OUTPUT = "single_rank_trace.json"


def main():
    """Read the arguments, hand over to ``firstnan trace``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", metavar="rank_path", help="one rank's folder, or the folder of all ranks with --rank N")
    parser.add_argument("output_path", nargs="?", default=OUTPUT, help=f"default: {OUTPUT} in the current folder")
    parser.add_argument("--rank", type=int, metavar="N", help="the rank to trace")
    parser.add_argument(
        "--exclude-op",
        action="append",
        default=[],
        metavar="NAME",
        help="reject an operator as the cause and go on to the next: a record name, or RANK:NAME; may be repeated",
    )
    chosen = parsed(parser.parse_intermixed_args, OUTPUT)  # OUTPUT_PATH may stand behind --rank N
    options = [f"--exclude-op={name}" for name in chosen.exclude_op]
    options += [] if chosen.rank is None else [f"--rank={chosen.rank}"]
    arguments = ["trace", *options, f"--mission-file={chosen.output_path}", "--", chosen.path]
    return run(arguments, chosen.path, chosen.output_path)


if __name__ == "__main__":
    sys.exit(main())
