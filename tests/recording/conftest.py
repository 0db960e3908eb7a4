"""Without PyTorch the tests here are skipped, each file with its reason, and what they share is not imported."""

from __future__ import annotations

import importlib.util

collect_ignore = [] if importlib.util.find_spec("torch") else ["nets.py", "ranks.py"]
