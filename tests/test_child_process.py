"""Work in a process of its own, and what becomes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from firstnan.dump.errors import InputError, UsageError
from firstnan.run.engines import child_process

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
    # Where the tests ran threads before, Python 3.12 and newer warn of every fork.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def test_it_gives_what_the_function_gives_from_another_process() -> None:
    there, answer = child_process.run(lambda: (os.getpid(), "x" * 1_000_000))
    assert there != os.getpid()
    assert answer == "x" * 1_000_000


def test_an_error_comes_with_its_advice() -> None:
    def refused() -> None:
        raise UsageError("no such rank", hint="there are 0-7")

    with pytest.raises(UsageError, match="no such rank") as caught:
        child_process.run(refused)
    assert caught.value.hint == "there are 0-7"


def test_too_little_memory_there_is_too_little_here() -> None:
    def greedy() -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        child_process.run(greedy)


@pytest.mark.parametrize(
    ("ending", "told"),
    [(lambda: os._exit(1), "exit code 1"), (lambda: os.kill(os.getpid(), signal.SIGKILL), "signal 9")],
    ids=["exit", "kill"],
)
def test_a_process_that_is_ended_is_no_answer(ending: object, told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        child_process.run(ending)  # type: ignore[arg-type]
    assert caught.value.exit_code == 3


WAITING = """
import os, signal, sys, time
from pathlib import Path
from firstnan.run.engines import child_process as apart

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored

def work():
    Path(sys.argv[1]).write_text(str(os.getpid()))
    time.sleep(60)

try:
    apart.run(work)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_process_that_waits(how: signal.Signals, tmp_path: Path) -> None:
    program, begun = tmp_path / "program.py", tmp_path / "begun"
    program.write_text(WAITING)
    with subprocess.Popen(
        [sys.executable, str(program), str(begun)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as waiting:
        there = _when(begun)
        waiting.send_signal(how)
        said, _ = waiting.communicate(timeout=30)
    assert said == ("interrupted\n" if how is signal.SIGINT else "")
    deadline = time.monotonic() + 30
    while Path(f"/proc/{there}").exists() and _state(there) != "Z" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{there}").exists() or _state(there) == "Z"


def _when(begun: Path) -> int:
    """The number of the process that writes it there."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if begun.exists() and (number := begun.read_text()):
            return int(number)
        time.sleep(0.02)
    raise AssertionError("it did not begin")


def _state(process: int) -> str:
    """``Z``: ended, and nobody has asked for its exit code."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
