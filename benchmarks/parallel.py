"""Healthy runs of other people's parallel code have to be clean, faulty ones named right.

    python benchmarks/parallel.py [--programs NAME ...] [--levels L0 L1 mix] [--risk ALL] [--keep DIR]

Needs torch and mindstudio-probe. Every program of :mod:`parallel_programs` runs under MSProbe on some gloo processes,
healthy and with one fault on one rank. A healthy run must be ``clean``, complete, exit code 0; of a faulty one the rank
must be named, and the operator where operators are dumped. Exit code 1 when a run was judged wrong.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import socket
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import parallel_programs
import torch
from parallel_programs import PROGRAMS, Fault, Place

import firstnan
from firstnan.answer.model import Report

LEVELS = ("L0", "L1", "mix")
LIMIT = 120.0
"""Seconds after which a run is given up: a rank that died leaves the others waiting."""
TOGETHER = 5.0
"""Seconds that the other ranks get when one has ended."""
SHOWS = {Fault.EXP: ("exp",), Fault.ROOT: ("sqrt",)}
"""Operators that may be named; others: any."""


def _rank(name: str, place: Place, port: int, level: str, risk: str, folder: Path) -> None:
    """One process: the steps of a program under MSProbe."""
    with folder.with_suffix(f".log{place.rank}").open("w", encoding="utf-8") as words:
        for descriptor in (1, 2):
            os.dup2(words.fileno(), descriptor)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(100 + len(name))
    from msprobe.pytorch import PrecisionDebugger

    statistics = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    config: dict[str, object] = {"task": "statistics", "dump_path": str(folder), "rank": [], "step": [], "level": level}
    config |= {"async_dump": False, "statistics": statistics} | ({"risk_level": risk} if risk else {})
    path = folder.with_suffix(f".config{place.rank}.json")
    path.write_text(json.dumps(config), encoding="utf-8")
    make, _, steps, _ = PROGRAMS[name]
    with parallel_programs.group(place.rank, place.world, port):
        debugger = PrecisionDebugger(config_path=str(path))
        model, step = make(place)
        try:
            for _ in range(steps):
                debugger.start(model=model)
                step()
                debugger.stop()
                debugger.step()
        except Exception:
            debugger.stop()
            raise


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def run(name: str, fault: Fault, level: str, risk: str, keep: Path) -> Path:
    """The folder that all ranks of a run dumped into."""
    _, world, _, _ = PROGRAMS[name]
    folder = keep / f"{name}-{fault.value}-{level}{risk and '-' + risk}"
    folder.mkdir(parents=True, exist_ok=True)
    at = random.Random(f"{name}{fault.value}").randrange(1 if fault is not Fault.BATCH else 0, world)
    (folder.with_suffix(".at")).write_text(str(at), encoding="utf-8")
    port = _port()
    fork = multiprocessing.get_context("fork")
    ranks = [
        fork.Process(target=_rank, args=(name, Place(rank, world, fault, at), port, level, risk, folder))
        for rank in range(world)
    ]
    for process in ranks:
        process.start()
    left = LIMIT
    for process in ranks:
        process.join(left)
        left = TOGETHER if process.exitcode else left
    for process in ranks:
        process.kill()
        process.join()
    return folder


def wrong(answer: Report, fault: Fault, at: int, level: str) -> str:
    """What is wrong with an answer; empty: nothing."""
    named = [f"{c.rank}:{c.op_name} {c.where.value} {c.mechanism.kind.value}" for c in answer.root_causes]
    problems = [f"{p.kind.value} ({p.detail})" for p in answer.input.problems if not p.judged]
    told = f"exit {answer.exit_code}: " + "; ".join(named + problems)
    if fault is Fault.NONE:
        return "" if answer.exit_code == 0 else told
    if level == "L0" and answer.exit_code == 4:
        return ""  # a run that died between two modules shows nothing bad: that it is no clean one is all to be told
    first = answer.root_causes[:1]
    ranks = {rank for cause in answer.root_causes for rank in (cause.rank, *cause.ranks_also)}
    shows = SHOWS.get(fault, ("",)) if level != "L0" else ("",)
    alone = len({cause.op_name for cause in answer.root_causes}) == 1  # a shard is bad wherever it is gathered
    right = at in ranks and alone and any(word in first[0].op_name for word in shows)
    return "" if right else told


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints each run that was judged wrong, and the count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=LEVELS)
    parser.add_argument("--risk", default="", help="risk_level of MSProbe (ALL)")
    parser.add_argument("--keep", type=Path, help="folder for the dumps; default: they are removed")
    asked = parser.parse_args(arguments)
    import msprobe.pytorch  # once, here: the children then start at once

    del msprobe
    right = count = 0
    with tempfile.TemporaryDirectory(prefix="firstnan-parallel-") as scratch:
        keep = asked.keep or Path(scratch)
        for name in asked.programs:
            for fault in PROGRAMS[name][3]:
                for level in asked.levels:
                    folder = run(name, fault, level, asked.risk, keep)
                    at = int(folder.with_suffix(".at").read_text(encoding="utf-8"))
                    found = wrong(firstnan.analyze(folder, firstnan.Options(jobs=1)), fault, at, level)
                    count, right = count + 1, right + (not found)
                    if found:
                        print(f"WRONG: {folder.name}, fault on rank {at}: {found}", flush=True)
    print(f"{right} of {count} runs judged right")
    return 0 if right == count else 1


if __name__ == "__main__":
    sys.exit(main())
