"""The whole report as JSON, schema ``firstnan.report/1``; the view does not matter."""

from __future__ import annotations

from firstnan.answer.model import Report
from firstnan.show.json import dumps, to_dict
from firstnan.show.reporter import Settings


def render(report: Report, settings: Settings) -> str:
    """Strict JSON text."""
    return dumps(to_dict(report, settings.language))
