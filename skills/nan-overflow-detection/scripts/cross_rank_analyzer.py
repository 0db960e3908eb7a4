#!/usr/bin/env python3
"""Step 1: source, propagated and normal ranks of every communication call that a NaN or Inf touches.

Prints a summary and writes cross_rank_analysis.json (or OUTPUT_PATH), never inside the dump folder.
Exit code: 0 clean, 1 an anomaly was found, 2 usage, 3 nothing readable, 4 undecided.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from load_firstnan import firstnan_main

OUTPUT = "cross_rank_analysis.json"


def main():
    """Read the arguments, hand over to ``firstnan ranks``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input_path", help="folder that holds rank0/, rank1/ ... (or step0/rank0/ ...)")
    parser.add_argument("output_path", nargs="?", default=OUTPUT, help=f"default: {OUTPUT} in the current folder")
    chosen = parser.parse_args()
    return firstnan_main()(["ranks", f"--mission-file={chosen.output_path}", "--", chosen.input_path])


if __name__ == "__main__":
    sys.exit(main())
