"""Writes each command's help into its page ``docs/commands/<name>.md``, at the end, under ``## Help``.

``python tools/command_pages.py``. The layout is our own: argparse's differs between versions of Python.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from firstnan.cli import commands
from firstnan.cli.parser import parser

PAGES = Path(__file__).resolve().parents[1] / "docs" / "commands"
_HELP = re.compile(r"\n## Help\n.*\Z", re.S)
_INDENT = 26


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Every command's parser by its name."""
    (action,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(action.choices)


def _arguments(command: argparse.ArgumentParser) -> Iterator[str]:
    for action in command._actions:
        if action.dest == "help" or action.help is argparse.SUPPRESS:
            continue
        choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
        value = "" if action.nargs == 0 else choices or str(action.metavar or "")
        name = " ".join(part for part in (", ".join(action.option_strings), value) if part)
        lines = textwrap.wrap(action.help or "", 88 - _INDENT)
        if len(name) > _INDENT - 4:
            yield f"  {name}"
            name = ""
        for line in lines:
            yield f"  {name:<{_INDENT - 2}}{line}"
            name = ""


def help_text(name: str) -> str:
    """Summary, arguments, notes and exit codes of a command."""
    summary, rest = commands.help_of(name)
    parts = [summary, "\n".join(_arguments(parsers()[name])), rest, commands.load(name).EXIT_CODES.strip()]
    return "\n\n".join(part for part in parts if part)


def page(name: str) -> str:
    """The page with today's help."""
    shown = (PAGES / f"{name}.md").read_text("utf-8")
    return _HELP.sub("", shown).rstrip("\n") + f"\n\n## Help\n\n```text\n{help_text(name)}\n```\n"


if __name__ == "__main__":
    for name in commands.NAMES:
        (PAGES / f"{name}.md").write_text(page(name), "utf-8")
