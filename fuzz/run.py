"""Fuzzing for a given time: ``python fuzz/run.py --seconds 60 [--target NAME ...]``.

Runs the promises of :mod:`fuzz_readers` on broken inputs, one target after the other, and prints executions and
findings. With atheris (``pip install atheris``) the search is led by coverage; without it inputs are broken at random.
Inputs that break a promise are saved under ``--findings``; ``--replay FILE --target NAME`` runs one again. Exit code 1
when there are findings.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from fuzz_readers import TARGETS, Target
from mutate import mutate
from seeds import SAMPLES, seeds

HERE = Path(__file__).resolve().parent
SLOWEST = 20
"""Seconds that one small input may take."""
_MAX_KEPT = 400
"""Inputs that the random search keeps as starting points besides the seeds."""


@dataclass
class Result:
    """What came of one target."""

    target: str
    executions: int
    seconds: float
    findings: list[Path]


class TooSlowError(Exception):
    """An input took longer than SLOWEST."""


def main() -> int:
    """Runs the targets; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="in total, shared by the targets")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="may be repeated; default: all")
    parser.add_argument("--engine", choices=["auto", "atheris", "random"], default="auto")
    parser.add_argument("--seed", type=int, default=None, help="of the random search; default: the time")
    parser.add_argument("--samples", type=Path, default=SAMPLES, help="folder of dumps to begin with")
    parser.add_argument("--findings", type=Path, default=HERE / "findings", help="where breaking inputs are saved")
    parser.add_argument("--replay", type=Path, help="run one saved input and show what breaks")
    chosen = parser.parse_args()
    targets = chosen.target or list(TARGETS)
    if chosen.replay:
        TARGETS[targets[0]](chosen.replay.read_bytes())
        return 0
    led = chosen.engine == "atheris" or (chosen.engine == "auto" and importlib.util.find_spec("atheris") is not None)
    chosen.findings.mkdir(parents=True, exist_ok=True)
    results = []
    for number, name in enumerate(targets):
        share = chosen.seconds / len(targets)
        begin = seeds(name, chosen.samples)
        seed = time.time_ns() if chosen.seed is None else chosen.seed + number
        if led:
            results.append(by_coverage(name, begin, share, chosen.findings))
        else:
            results.append(at_random(name, TARGETS[name], begin, share, seed, chosen.findings))
        last = results[-1]
        print(
            f"{name:10} {last.executions:>10} executions {last.seconds:>8.0f} s {len(last.findings):>4} findings",
            flush=True,
        )
    found = [path for result in results for path in result.findings]
    for path in found:
        print(path)
    total = sum(r.executions for r in results)
    print(f"{'total':10} {total:>10} executions {sum(r.seconds for r in results):>8.0f} s {len(found):>4} findings")
    return 1 if found else 0


# --- at random --------------------------------------------------------------------------------------------------


def at_random(name: str, target: Target, begin: list[bytes], seconds: float, seed: int, findings: Path) -> Result:
    """Breaks seeds, and inputs that came from them, until the time is over; every place of failure is kept once."""
    chance = random.Random(seed)
    pool = list(begin) or [b"{}"]
    places: dict[str, Path] = {}
    executions, start = 0, time.monotonic()
    signal.signal(signal.SIGALRM, _too_slow)
    for data in pool:
        executions += 1
        _one(name, target, data, findings, places)
    while time.monotonic() - start < seconds:
        data = mutate(chance.choice(pool), pool, chance)
        executions += 1
        _one(name, target, data, findings, places)
        if chance.random() < 0.02:
            if len(pool) < len(begin) + _MAX_KEPT:
                pool.append(data)
            else:
                pool[len(begin) + chance.randrange(_MAX_KEPT)] = data
    return Result(name, executions, time.monotonic() - start, list(places.values()))


def _one(name: str, target: Target, data: bytes, findings: Path, places: dict[str, Path]) -> None:
    signal.alarm(SLOWEST)
    try:
        target(data)
    except Exception as error:  # noqa: BLE001  (whatever a target raises is a finding)
        place = _place(error)
        if place not in places:
            places[place] = _save(name, data, findings)
            print(f"--- {name}: {places[place]}\n{''.join(traceback.format_exception(error)[-8:])}", flush=True)
    finally:
        signal.alarm(0)


def _too_slow(_: int, __: FrameType | None) -> None:
    raise TooSlowError(f"more than {SLOWEST} seconds")


def _place(error: BaseException) -> str:
    """Kind and place of a failure: the same one is told once."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} {[(f.filename, f.lineno) for f in frames[-2:]]}"


def _save(name: str, data: bytes, findings: Path) -> Path:
    path = findings / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return path


# --- led by coverage --------------------------------------------------------------------------------------------


def by_coverage(name: str, begin: list[bytes], seconds: float, findings: Path) -> Result:
    """libFuzzer in a process of its own, started again behind every finding."""
    start, executions, found = time.monotonic(), 0, []
    with tempfile.TemporaryDirectory(prefix="firstnan-fuzz-") as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for number, data in enumerate(begin):
            (corpus / f"seed{number:04}").write_bytes(data)
        while (left := int(seconds - (time.monotonic() - start))) > 0:
            command = [
                *(sys.executable, str(HERE / "coverage_led.py"), name, str(corpus)),
                *(f"-max_total_time={left}", f"-timeout={SLOWEST}", "-rss_limit_mb=2048", "-max_len=16384"),
                *(f"-artifact_prefix={folder}/", "-print_final_stats=1", "-verbosity=0"),
            ]
            ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            executions += sum(map(int, re.findall(r"number_of_executed_units:\s*(\d+)", ended.stderr)))
            broken = [p for p in Path(folder).iterdir() if p.is_file()]
            for path in broken:
                found.append(_save(name, path.read_bytes(), findings))
                path.unlink()
                print(f"--- {name}: {found[-1]}\n{_told(ended.stdout + ended.stderr)}", flush=True)
            if ended.returncode and not broken:
                raise SystemExit(f"the fuzzer of {name} failed:\n{ended.stdout}{ended.stderr}")
            if ended.returncode == 0:
                break
    return Result(name, executions, time.monotonic() - start, list(dict.fromkeys(found)))


def _told(output: str) -> str:
    at = output.find("=== Uncaught Python exception")
    return output[at : at + 3000] if at >= 0 else output[-3000:]


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
