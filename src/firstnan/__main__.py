"""The program: ``firstnan`` and ``python -m firstnan``."""

from __future__ import annotations

import sys

EXIT_INTERRUPTED = 130
"""Ctrl-C, as a shell counts it."""


def main() -> int:
    """Run one command; gives its exit code. Ctrl-C while the program is still being loaded ends as any other does."""
    try:
        from firstnan.cli import main as run

        return run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            print("firstnan: interrupted", file=sys.stderr)  # noqa: T201
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
