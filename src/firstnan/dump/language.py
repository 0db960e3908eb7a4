"""The languages in which a report can be shown."""

from __future__ import annotations

from enum import Enum


class Language(Enum):
    """A language in which a report can be shown."""

    EN = "en"
    """English."""
    ZH = "zh"
    """Simplified Chinese."""
