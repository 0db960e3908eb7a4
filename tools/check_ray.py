"""Runs the tests of the Ray engine in a process of their own, and says what Ray said when it ended that process.

A process that uses Ray is ended by Ray, at once and without a word, when its node or its object store is lost: in one
run with the other tests, their results would go with it. ``python tools/check_ray.py [TEST ...]`` ends with the exit
code of pytest. When the process was ended that way, the ends of Ray's logs are printed and the tests are run once more.
When that happens twice, this machine cannot keep a cluster running: the tests that came to their end count, the others
are told as not run. A test that failed, or that did not end, is a failure all the same.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("tests/test_ray_engine.py",)
TRIES = 2
SECONDS = 240.0
"""For one run; a usual one takes half a minute."""
NO_TESTS = 5
"""How pytest ends where there is no Ray for this Python: it has said so, and skipped them all."""
_LOGS = ("python-core-driver-*.log", "raylet*.out", "raylet*.err", "gcs_server.out", "dashboard_agent*.log")
_OUTCOME = re.compile(r"^\S+::.* (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b", re.MULTILINE)


def main(tests: Sequence[str]) -> int:
    """The exit code."""
    for number in range(1, TRIES + 1):
        # Ray makes sockets in there, whose names may have 107 bytes at most.
        with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
            code, said = _run(tests or TESTS, Path(folder))
            outcomes = _OUTCOME.findall(said)
            if code is not None:
                return 0 if code == NO_TESTS else code
            print(f"\nThe process of the tests was ended after {len(outcomes)} of them (try {number} of {TRIES}).")
            _print_logs(Path(folder))
            if set(outcomes) & {"FAILED", "ERROR", "XPASS"}:
                return 1
    print(f"NOT RUN on this machine, whose Ray nodes do not stay: the tests after the first {len(outcomes)}.")
    return 0


def _run(tests: Sequence[str], folder: Path) -> tuple[int | None, str]:
    """Exit code of pytest, None when its process was ended by something else, and what it printed."""
    ended = folder / "ended.xml"
    command = [sys.executable, "-m", "pytest", "-v", f"--junit-xml={ended}", *tests]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "RAY_TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        print(f"{said}\nThe tests did not end within {SECONDS:.0f} seconds.", flush=True)
        return 1, said
    print(said, end="", flush=True)
    return (process.returncode if ended.exists() else None), said


def _print_logs(folder: Path) -> None:
    """The ends of Ray's logs."""
    for pattern in _LOGS:
        for log in sorted(folder.glob(f"ray/session_2*/logs/{pattern}")):
            lines = [line for line in log.read_text(errors="replace").splitlines() if "[state-dump]" not in line]
            if lines:
                print(f"--- {log.name}")
                print("\n".join(line[:300] for line in lines[-12:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
