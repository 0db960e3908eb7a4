"""What a caller can ask for; built by the command line, taken by the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path

from msgspec import Struct


class EngineKind(Enum):
    """Where ranks are read."""

    LOCAL = "local"
    """Processes on this machine."""
    RAY = "ray"
    """Workers of a running Ray cluster (extra ``firstnan[ray]``)."""


class Options(Struct, frozen=True):
    """Settings of one analysis; the defaults are what a user wants at 3 a.m."""

    steps: tuple[int, ...] | None = None
    """Only these steps; None: all that are found."""
    ranks: tuple[int, ...] | None = None
    """Only these ranks; None: all that are found."""
    rules: Path | None = None
    """A rules file that adds to or overrides ``operators/operators.toml``."""
    exclude_ops: tuple[str, ...] = ()
    """Answers the user rejects: ``record name`` or ``rank:record name``."""
    jobs: int | None = None
    """Processes, or tasks at a time of a cluster; None: the cores available."""
    engine: EngineKind = EngineKind.LOCAL
    ray_address: str | None = None
    """The Ray cluster; ``local`` starts one here; None: that of ``RAY_ADDRESS``, or one that runs here."""
    node_local: bool = False
    """Every node of the Ray cluster has rank folders of its own at the path."""
    first: bool = False
    """Read no further than to the first rank on which a bad value began; the report is not complete then."""
    draws_equals: bool = True
    """Draw the map of equal results where ranks differ (``Report.agreement_map``): JSON and the page show it."""


class Suspicion(Struct, frozen=True, order=True):
    """The first bad value of a rank that may matter. What is smaller is more likely to be the cause."""

    step: int
    is_received: bool
    """It came by communication."""
    index: int
    rank: int
    op_name: str


class ProgressEvent(Struct, frozen=True):
    """How far the reading of ranks has come."""

    ranks_done: int
    ranks_total: int
    bytes_done: int
    bytes_total: int
    first: Suspicion | None = None
    """The smallest suspicion so far."""


Progress = Callable[[ProgressEvent], None]
"""Called on the caller's thread after each rank; must not raise."""
