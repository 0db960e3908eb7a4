"""One file a command: the table of contents of the command line.

A command is a module: its docstring is its help (the first line the summary, the rest what is said below the options),
``EXIT_CODES`` what it ends with, ``add_arguments`` its arguments, ``run`` its work. A new command is a module here and
its name in :data:`NAMES`.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Protocol, cast

NAMES = (
    *("analyze", "ranks", "agree", "trace"),
    *("scan", "merge", "show", "compare", "watch"),
    *("replay", "mcp", "completion", "rules", "schema", "demo"),
)
"""Every command, in the order in which the help lists them."""


class Command(Protocol):
    """What a command's module holds."""

    EXIT_CODES: str
    """What each exit code of the command means, for its help."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments."""
        ...

    def run(self, chosen: argparse.Namespace) -> int:
        """Does the work; gives the exit code.

        Raises:
            FirstnanError: what goes wrong, with a hint what to do.
        """
        ...


def load(name: str) -> Command:
    """The command with a name of :data:`NAMES`."""
    return cast(Command, import_module(f"{__name__}.{name}"))


def help_of(name: str) -> tuple[str, str]:
    """A command's summary, a sentence, and what its help says below the options."""
    summary, _, rest = (import_module(f"{__name__}.{name}").__doc__ or "").strip().partition("\n")
    return summary.strip(), rest.strip()
