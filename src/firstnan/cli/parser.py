"""The command line as argparse sees it; each command stands in :mod:`firstnan.cli.commands`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from firstnan.cli import commands
from firstnan.cli.arguments import REPORT_EXIT_CODES
from firstnan.version import __version__

_WIDTH = 80
"""Columns of help where there is no terminal."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal. argparse makes one for every argument, and would load a package each time to ask."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


@cache
def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS", "")) or _WIDTH
    except ValueError:
        pass
    try:
        return os.get_terminal_size().columns or _WIDTH
    except OSError:
        return _WIDTH


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The chosen command and its options; ``firstnan PATH`` means ``firstnan analyze PATH``.

    A path that is a command's name, or is misspelt like one, needs ``analyze``.

    Raises:
        SystemExit: the arguments make no sense, or ask for help or the version.
    """
    first = next(iter(arguments), "")
    if first and first not in (*commands.NAMES, *_OWN_OPTIONS) and not _is_misspelt(first):
        return parser(["analyze"]).parse_args(["analyze", *arguments])
    if first == "--version":
        return parser([]).parse_args(arguments)
    is_alone = first in commands.NAMES and first != "completion"  # which tells the shell of all of them
    return parser([first] if is_alone else commands.NAMES).parse_args(arguments)


_OWN_OPTIONS = ("-h", "--help", "--version")
"""Options of the program itself."""


def _is_misspelt(word: str) -> bool:
    """Whether a word means a command and not a path."""
    if Path(word).exists():
        return False
    import difflib

    return bool(difflib.get_close_matches(word, commands.NAMES, cutoff=0.75))


def parser(names: Iterable[str] = commands.NAMES) -> argparse.ArgumentParser:
    """The parser of ``firstnan`` for these commands, which are loaded; the chosen one stands in ``command``."""
    made = argparse.ArgumentParser(
        prog="firstnan",
        description="Find the rank, the operator and the line of code where NaN or Inf began, from MSProbe dumps.",
        usage="firstnan [-h] [--version] COMMAND ...\n       firstnan PATH ...   (means firstnan analyze PATH ...)",
        epilog=REPORT_EXIT_CODES,
        formatter_class=_Help,
    )
    made.set_defaults(program=made)  # of which completion tells the shell
    made.add_argument("--version", action="version", version=f"firstnan {__version__}")
    subparsers = made.add_subparsers(dest="command", metavar="COMMAND", required=True, prog="firstnan")
    for name in names:
        command = commands.load(name)
        summary, epilog = commands.help_of(name)
        added = subparsers.add_parser(
            name,
            help=f"{summary[:1].lower()}{summary[1:].rstrip('.')}",
            description=summary,
            epilog=f"{epilog}\n\n{command.EXIT_CODES}" if epilog else command.EXIT_CODES,
            formatter_class=_Help,
        )
        command.add_arguments(added)
    return made
