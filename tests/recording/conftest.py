"""Without PyTorch the tests here are skipped, each file with its reason, and what they share is not imported."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

collect_ignore = [] if importlib.util.find_spec("torch") else ["nets.py", "ranks.py"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests run in the environment with PyTorch (``make torch``)."""
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.torch)
