"""The server of the Model Context Protocol: the one module that knows its SDK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from firstnan.dump.errors import FirstnanError
from firstnan.serving.tools import Document, Tools
from firstnan.version import __version__

INSTRUCTIONS = (
    "Find which rank, operator and line of code turned a distributed training run to NaN, from MSProbe dumps. Begin "
    "with analyze. verdict is anomaly, clean or unknown; complete false means that something was not looked at "
    "(input.problems, caveats): do not take such a clean for clean. Lists are cut to three entries; left_out says what "
    "more=true would add."
)


def server(tools: Tools) -> MCPServer[Any]:
    """A server with the five tools."""
    made: MCPServer[Any] = MCPServer("firstnan", instructions=INSTRUCTIONS, version=__version__)

    def analyze(
        path: str, steps: list[int] | None = None, ranks: list[int] | None = None, more: bool = False
    ) -> Document:
        """Which rank, which operator and which line of code turned the run to NaN or Inf, why, and how sure.

        path: a dump (folder, step folder, rank folder or archive), relative to the server's root.
        """
        return _told(lambda: tools.analyze(path, steps, ranks, more))

    def ranks(path: str, steps: list[int] | None = None, more: bool = False) -> Document:
        """Source, propagated and normal ranks of every affected communication call."""
        return _told(lambda: tools.ranks(path, steps, more))

    def trace(path: str, rank: int, steps: list[int] | None = None, more: bool = False) -> Document:
        """The first anomalous operator on one rank, whatever reached it from elsewhere."""
        return _told(lambda: tools.trace(path, rank, steps, more))

    def show(
        path: str, rank: int, step: int | None = None, op: str | None = None, at: int | None = None, around: int = 2
    ) -> Document:
        """The recorded statistics around the record op, the record with index at, or the first bad record."""
        return _told(lambda: tools.show(path, rank, step, op, at, around))

    def agree(path: str, steps: list[int] | None = None, more: bool = False) -> Document:
        """Whether ranks that must hold the same numbers do (replicas, results of collectives), also without a NaN."""
        return _told(lambda: tools.agree(path, steps, more))

    for tool in (analyze, ranks, trace, show, agree):
        made.add_tool(tool)
    return made


def _told(work: Callable[[], Document]) -> Document:
    """The answer; what went wrong becomes the tool's error, in the words of the command line."""
    try:
        return work()
    except FirstnanError as error:
        raise ToolError(f"{error}. {error.hint}" if error.hint else str(error)) from error
