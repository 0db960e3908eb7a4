"""Text for a terminal or a pipe. ``rich`` gives the colours; without it the same lines come plain."""

from __future__ import annotations

import io
from collections.abc import Iterable
from importlib.util import find_spec

from firstnan.answer.model import Report
from firstnan.show.outline.model import Line, Outline, Tone, plain
from firstnan.show.outline.sections import outline
from firstnan.show.outline.text_lines import lines
from firstnan.show.reporter import Settings

HAS_RICH = find_spec("rich") is not None
"""One of the seams where a dependency is optional: a machine with Python alone. It is loaded for colours only."""

_STYLES = {
    Tone.PLAIN: "",
    Tone.STRONG: "bold",
    Tone.FAINT: "dim",
    Tone.GOOD: "green",
    Tone.WARN: "yellow",
    Tone.BAD: "bold red",
}


def render(report: Report, settings: Settings) -> str:
    """The report as text of ``settings.width`` columns, ending with a line end."""
    return render_outline(outline(report, settings), settings)


def render_outline(content: Outline, settings: Settings) -> str:
    """Any outline as text; used for the records of ``firstnan show`` as well."""
    made = lines(content, settings.width)
    return _coloured(made) if settings.colour and HAS_RICH else "".join(f"{plain(line)}\n" for line in made)


def _coloured(made: Iterable[Line]) -> str:
    """The same lines with ANSI colours; text goes in as rich ``Text``, never as markup."""
    from rich.console import Console
    from rich.text import Text

    target = io.StringIO()
    console = Console(file=target, force_terminal=True, color_system="standard", highlight=False, legacy_windows=False)
    for line in made:
        text = Text()
        for span in line:
            text.append(span.text, _STYLES[span.tone])
        console.print(text, soft_wrap=True)
    return target.getvalue()
