"""How much is done: lines of the package that are run, not seconds."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import firstnan

_PACKAGE = str(Path(firstnan.__file__).parent)


def lines(function: Callable[[], object]) -> int:
    """Lines of firstnan that run during the call; those of a comprehension count for each item."""
    return sum(by_file(function).values())


def by_file(function: Callable[[], object]) -> Counter[str]:
    """The same for each file and function."""
    count: Counter[str] = Counter()

    def trace(frame: FrameType, _event: str, _: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            return None
        key = f"{code.co_filename[len(_PACKAGE) + 1 :]}:{code.co_name}"

        def local(_frame: FrameType, event: str, _arg: Any) -> Any:
            if event == "line":
                count[key] += 1
            return local

        return local

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
