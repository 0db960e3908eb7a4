"""The built skill folder, and a Python that has nothing but it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CACHE = tempfile.TemporaryDirectory(prefix="firstnan-cache-")
"""Where the single file unpacks what it carries."""


def isolated(
    *arguments: str | Path,
    folder: Path,
    python: str = sys.executable,
    locale: str = "C.UTF-8",
    cache: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run Python without site-packages, without user settings and with an empty environment but for a cache."""
    command = [python, "-I", "-S", *(str(argument) for argument in arguments)]
    environment = {"LC_ALL": locale, "XDG_CACHE_HOME": str(cache or CACHE.name)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )


def build(target: Path) -> Path:
    """What ``make skill`` makes."""
    ended = subprocess.run(
        [sys.executable, ROOT / "tools" / "build_skill.py", target], capture_output=True, text=True, check=False
    )
    if "no wheels for Python" in ended.stderr and "CI" not in os.environ:
        pytest.skip("the wheels that the single file carries are neither in build/wheels nor in a registry")
    assert ended.returncode == 0, ended.stderr
    return target
