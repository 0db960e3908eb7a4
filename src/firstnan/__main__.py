"""The program: ``firstnan`` and ``python -m firstnan``."""

from __future__ import annotations

import gc
import sys

from firstnan.dump.errors import EXIT_INTERRUPTED


def main() -> int:
    """Run one command; gives its exit code. Ctrl-C while the program is still being loaded ends as any other does."""
    gc.disable()  # while modules are loaded, all that comes into being stays
    try:
        from firstnan.cli.main import main as run

        gc.freeze()
        gc.enable()
        return run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            print("firstnan: interrupted", file=sys.stderr)  # noqa: T201
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
