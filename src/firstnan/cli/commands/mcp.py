"""Serve five tools to agents over the Model Context Protocol, on standard input and output.

The tools are analyze, ranks, trace, show and agree. They read only below one folder, and write nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from firstnan.cli.arguments import add_language, jobs
from firstnan.cli.delivery import language_of
from firstnan.dump.errors import UsageError

EXIT_CODES = """\
exit codes:
  0  the client has ended the connection
  2  usage error, no such folder, or the package mcp is not installed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="read dumps only below this folder (default: the current one)",
    )
    parser.add_argument(
        "--jobs", type=jobs, metavar="N", help="how many processes run at once (default: the cores available)"
    )
    add_language(parser)


def run(chosen: argparse.Namespace) -> int:
    if not chosen.root.is_dir():
        raise UsageError(f"'{chosen.root}' is no folder", hint="give the folder that holds the dumps")
    if importlib.util.find_spec("mcp") is None:
        raise UsageError("the server needs the package mcp, which is not installed", hint="pip install 'firstnan[mcp]'")
    from firstnan.serving.server import server
    from firstnan.serving.tools import Tools

    server(Tools(chosen.root, language_of(chosen), chosen.jobs)).run("stdio")
    return 0
