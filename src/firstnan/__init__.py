"""firstnan: which rank, which operator, which line of code turned the run to NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstnan.version import __version__

if TYPE_CHECKING:
    from firstnan.answer.model import Report
    from firstnan.dump.errors import FirstnanError, InputError, OutputError, UsageError
    from firstnan.dump.options import Options
    from firstnan.recording.by_hand import record
    from firstnan.recording.guard import Guard, guard
    from firstnan.run.pipeline import analyze, trace
    from firstnan.run.replay import ReplayRequest, replay
    from firstnan.run.two_stage import merge, scan

__all__ = [
    "FirstnanError",
    "Guard",
    "InputError",
    "Options",
    "OutputError",
    "ReplayRequest",
    "Report",
    "UsageError",
    "__version__",
    "analyze",
    "guard",
    "merge",
    "record",
    "replay",
    "scan",
    "trace",
]


def __dir__() -> list[str]:
    """The public names alone."""
    return sorted(__all__)


_HOMES = {
    "dump.errors": ("FirstnanError", "InputError", "OutputError", "UsageError"),
    "dump.options": ("Options",),
    "run.pipeline": ("analyze", "trace"),
    "run.replay": ("ReplayRequest", "replay"),
    "run.two_stage": ("merge", "scan"),
    "recording.by_hand": ("record",),
    "recording.guard": ("Guard", "guard"),
    "answer.model": ("Report",),
}


def __getattr__(name: str) -> object:
    """Public names are loaded when they are asked for: importing a part of the package does not load all of it."""
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    try:
        return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        hint = f'firstnan.{name} needs PyTorch: pip install "firstnan[record]"'
        raise ModuleNotFoundError(hint, name="torch") from error
