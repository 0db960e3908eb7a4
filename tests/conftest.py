"""Settings of the whole suite."""

from __future__ import annotations

import os

from hypothesis import settings

# On a build machine the same examples are tried every time: new ones are looked for where somebody can look at them.
settings.register_profile("build", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("build")
