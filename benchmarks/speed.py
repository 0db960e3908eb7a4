"""How fast and how small: firstnan against programs that read the same files.

``cat`` copies them; ``grep -c NaN`` and ``rg -c NaN`` count lines, the latter where it is installed; ``json.load`` and
simdjson (the package ``pysimdjson``, where it is installed) parse them, and no more.

    python benchmarks/speed.py DIR [--runs 5] [--jobs 1] [--no-json]

The commands run one after the other, round by round, so that what else the machine does hits all of them. Of
each the lowest processor time counts (user and system, of the command and all its children) and the largest resident
memory of one process. The page cache is warm after the first round. Only the ratios can be compared between machines.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

_LOAD = "import json, sys\nfor name in sys.argv[1:]:\n    with open(name) as file:\n        data = json.load(file)\n"
_SIMD = (
    "import simdjson, sys\nparser = simdjson.Parser()\n"
    "for name in sys.argv[1:]:\n    with open(name, 'rb') as file:\n"
    "        data = parser.parse(file.read()).as_dict()\n"
)
_FILES_AT_ONCE = 200
"""Files on one command line."""


@dataclass(frozen=True)
class Cost:
    """What one command took."""

    seconds: float
    """Processor time, user and system, children included."""
    wall: float
    """Time that passed, in seconds."""
    peak: float
    """Largest resident memory of one process, in MB (10^6 bytes)."""
    exit_code: int


def run(command: Sequence[str]) -> Cost:
    """Runs a command to its end, its output thrown away."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - begin
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024 / 1e6, process.returncode)


def together(costs: Sequence[Cost]) -> Cost:
    """Several commands as one."""
    return Cost(
        sum(cost.seconds for cost in costs),
        sum(cost.wall for cost in costs),
        max(cost.peak for cost in costs),
        max(cost.exit_code for cost in costs),
    )


def over_files(command: Sequence[str], files: Sequence[Path]) -> Cost:
    """A command over all files, some hundred at a time."""
    batches = [files[at : at + _FILES_AT_ONCE] for at in range(0, len(files), _FILES_AT_ONCE)]
    return together([run([*command, *map(str, batch)]) for batch in batches])


def measure(folder: Path, runs: int, jobs: int, *, with_json: bool) -> dict[str, Cost]:
    """Lowest processor time of each command, and its largest memory."""
    files = sorted(folder.rglob("dump.json"))
    analyse = [sys.executable, "-m", "firstnan", "analyze", str(folder), "--jobs", str(jobs)]
    peers = {"cat": ["cat"]}
    peers.update({f"{name} NaN": [name, "-c", "NaN"] for name in ("grep", "rg") if shutil.which(name)})
    if with_json:
        peers["json.load"] = [sys.executable, "-c", _LOAD]
        if find_spec("simdjson") is not None:
            peers["simdjson"] = [sys.executable, "-c", _SIMD]
    found: dict[str, list[Cost]] = {name: [] for name in ("firstnan", *peers)}
    for _ in range(runs):
        found["firstnan"].append(run(analyse))
        for name, command in peers.items():
            found[name].append(over_files(command, files))
    return {
        name: Cost(
            min(cost.seconds for cost in costs),
            min(cost.wall for cost in costs),
            max(cost.peak for cost in costs),
            max(cost.exit_code for cost in costs),
        )
        for name, costs in found.items()
    }


def main() -> int:
    """Measures and prints; the exit code is that of ``firstnan``, 2 and more being an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a dump")
    parser.add_argument("--runs", type=int, default=5, help="rounds, of which the best counts (5)")
    parser.add_argument("--jobs", type=int, default=1, help="processes of firstnan (1)")
    parser.add_argument("--no-json", action="store_true", help="leave out json.load, which takes long")
    chosen = parser.parse_args()
    files = sorted(chosen.folder.rglob("dump.json"))
    if not files:
        parser.error(f"no dump.json below {chosen.folder}")
    size = sum(file.stat().st_size for file in files) / 1e6
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PYTHONPYCACHEPREFIX"] = cache  # compiled once, as an installed package is
        run([sys.executable, "-m", "firstnan", "--version"])
        costs = measure(chosen.folder, max(chosen.runs, 1), chosen.jobs, with_json=not chosen.no_json)
    print(f"{len(files)} files, {size:.1f} MB, jobs {chosen.jobs}, best of {chosen.runs}")
    print(f"{'':12}{'CPU s':>9}{'wall s':>9}{'peak MB':>9}{'x cat':>8}{'json.load / this':>18}")
    for name, cost in costs.items():
        gain = f"{costs['json.load'].seconds / cost.seconds:.1f}" if "json.load" in costs else "-"
        ratio = cost.seconds / max(costs["cat"].seconds, 1e-9)
        print(f"{name:12}{cost.seconds:9.3f}{cost.wall:9.3f}{cost.peak:9.1f}{ratio:8.1f}{gain:>18}")
    return costs["firstnan"].exit_code


if __name__ == "__main__":
    sys.exit(main())
