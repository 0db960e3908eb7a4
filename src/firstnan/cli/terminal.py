"""The terminal: what is written to stdout and stderr, how wide, in which colours."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from pathlib import Path
from shlex import quote
from typing import TextIO

from firstnan.dump.errors import OutputError

DEFAULT_WIDTH = 80
"""Columns where the output goes elsewhere."""
_WIDTHS = range(40, 121)


def is_single_file() -> bool:
    """Whether this is ``firstnan.pyz``, which carries the packages that it needs and does without the others."""
    return Path(sys.argv[0]).suffix == ".pyz"


def program() -> str:
    """How this program is called, for commands that are to be pasted."""
    called = Path(sys.argv[0])
    if is_single_file():
        return f"python3 {quote(str(called))}"
    if shutil.which("firstnan") is not None:
        return "firstnan"
    if called.parts[-2:] == ("firstnan", "__main__.py"):
        return _as_a_module()
    return quote(str(called)) if called.name == "firstnan" and len(called.parts) > 1 else "firstnan"


def _as_a_module() -> str:
    """The script that is installed beside this Python, else this Python with what it was started with."""
    script = Path(sys.executable).with_name("firstnan")
    if script.is_file():
        here = Path.cwd()
        return quote(str(script.relative_to(here) if script.is_relative_to(here) else script))
    python = "python3" if shutil.which("python3") == sys.executable else quote(sys.executable)
    source = Path(__file__).resolve().parents[2]
    is_found = source in map(Path, sys.path[1:])  # the first one is that of a script, or the current folder
    return f"{python} -m firstnan" if is_found else f"PYTHONPATH={quote(str(source))} {python} -m firstnan"


def width() -> int:
    """The terminal's columns within reason; 80 when the output goes elsewhere."""
    if not is_terminal():
        return DEFAULT_WIDTH
    columns = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    return min(max(columns, _WIDTHS.start), _WIDTHS.stop - 1)


def is_terminal() -> bool:
    """Whether stdout is one; False where there is no stdout at all (``>&-``)."""
    return sys.stdout is not None and sys.stdout.isatty()


def colour() -> bool:
    """Colour on a terminal that has it, unless the user does not want any (``NO_COLOR``)."""
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def say(line: str) -> None:
    """A line for people, on stderr; nobody may be listening."""
    with contextlib.suppress(OSError, UnicodeEncodeError):
        print(line, file=sys.stderr)  # noqa: T201  (the one place that prints)


def settled_stdout(code: int) -> int:
    """The exit code of a command of argparse's own (--help, --version): 2 when stdout cannot take what it said."""
    if sys.stdout is None:
        return code
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop(sys.stdout)
    except OSError:
        drop(sys.stdout)
        return OutputError.exit_code
    return code


def settle_stderr() -> None:
    """What stderr cannot take (disk full) must not change the exit code when the interpreter flushes it."""
    try:
        sys.stderr.flush()
    except OSError:
        drop(sys.stderr)


def put(content: str, *, is_text: bool) -> None:
    """The answer, on stdout. A reader that went away (``| head``) is no error.

    Raises:
        OutputError: stdout cannot take it (disk full, closed).
    """
    if sys.stdout is None:
        raise OutputError("the report could not be written: stdout is closed")
    encoding = sys.stdout.encoding or "utf-8"
    raw = content.encode(encoding, "replace") if is_text else content.encode("utf-8")
    try:
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.flush()
            sys.stdout.buffer.write(raw)
            sys.stdout.buffer.flush()
        else:
            sys.stdout.write(content)
            sys.stdout.flush()
    except BrokenPipeError:
        drop(sys.stdout)
    except OSError as error:
        drop(sys.stdout)
        raise OutputError(f"the report could not be written to stdout: {error.strerror or error}") from error


def drop(stream: TextIO) -> None:
    """What is still buffered must not fail again when the interpreter ends."""
    with contextlib.suppress(io.UnsupportedOperation):  # a stream that is no file has nothing to fail
        number = stream.fileno()
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, number)
        os.close(sink)
