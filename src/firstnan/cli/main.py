"""``firstnan``: arguments in, report to stdout or a file, words for people to stderr, an exit code back."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from firstnan.cli import commands
from firstnan.cli.parser import parse
from firstnan.cli.terminal import say, settle_stderr, settled_stdout
from firstnan.dump.errors import EXIT_INTERRUPTED, FirstnanError, InputError, UsageError
from firstnan.dump.printable import printable


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives its exit code (:data:`firstnan.cli.arguments.REPORT_EXIT_CODES`)."""
    if sys.stderr is None:  # closed (``2>&-``): nobody hears what is said
        with open(os.devnull, "w", encoding="utf-8") as sink, contextlib.redirect_stderr(sink):  # noqa: PTH123
            return _run(argv)
    try:
        return _run(argv)
    finally:
        settle_stderr()


def _run(argv: Sequence[str] | None) -> int:
    try:
        chosen = parse(sys.argv[1:] if argv is None else argv)
        return commands.load(chosen.command).run(chosen)
    except SystemExit as stop:  # argparse: --help, --version, usage errors
        return settled_stdout(stop.code if isinstance(stop.code, int) else 0)
    except OSError:  # argparse lets its message fail on some versions of Python
        return settled_stdout(UsageError.exit_code)
    except FirstnanError as error:
        say(f"firstnan: {printable(str(error))}")
        if error.hint:
            say(f"  {printable(error.hint)}")
        return error.exit_code
    except KeyboardInterrupt:
        say("firstnan: interrupted")
        return EXIT_INTERRUPTED
    except MemoryError:
        say("firstnan: out of memory")
        say("  look at fewer ranks or steps at once (--ranks, --step), with fewer processes (--jobs 1)")
        return InputError.exit_code
