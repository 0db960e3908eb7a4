"""Forms in which a report is shown; they compute nothing.

Start at :mod:`firstnan.show.outline` for text and Markdown (one outline, two forms), at :mod:`firstnan.show.html.model`
for the page, at :mod:`firstnan.show.json` for programs.

:func:`render` is the one way in: it takes out what must not leave the house (``Settings.redact``) before any
reporter sees the report.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import cast

from firstnan.answer.model import Report
from firstnan.dump.errors import UsageError
from firstnan.show.reporter import Format, Reporter, Settings, View

__all__ = ["MODULES", "Format", "Reporter", "Settings", "View", "load", "render"]

MODULES: Mapping[Format, str] = {
    Format.TEXT: "firstnan.show.console",
    Format.MARKDOWN: "firstnan.show.markdown",
    Format.LINE: "firstnan.show.line",
    Format.JSON: "firstnan.show.json",
    Format.HTML: "firstnan.show.html.page",
    Format.TRACE: "firstnan.show.chrome_trace",
    Format.MISSION: "firstnan.show.mission_files",
}
"""Where each form is made; loaded when asked for."""


def load(form: Format) -> Reporter:
    """The reporter of one form.

    Raises:
        UsageError: this installation does not have it.
    """
    name = MODULES[form]
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UsageError(f"format '{form.value}' is not available in this installation") from error
    return cast(Reporter, module)


def render(report: Report, form: Format, settings: Settings) -> str:
    """The report in one form.

    Raises:
        UsageError: the form is not available, or has nothing to show for the view.
    """
    if settings.redact:
        from firstnan.report.redaction import redact  # few reports leave the house

        report = redact(report)
    return load(form).render(report, settings)
