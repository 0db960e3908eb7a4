"""One file a command: ``run`` carries it out and gives the exit code.

Nothing here prints: what a command says goes through the :class:`Terminal` it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from firstnan.dump.language import Language
from firstnan.show.reporter import Settings


class Put(Protocol):
    """Writes the answer to stdout; text is fitted to the encoding there, everything else is UTF-8."""

    def __call__(self, content: str, *, is_text: bool) -> None: ...


class Terminal(Struct, frozen=True):
    """What the person at the other end sees."""

    say: Callable[[str], None]
    """A line on stderr."""
    put: Put
    settings: Settings
    """Language, width and colour for stdout."""

    @property
    def language(self) -> Language:
        return self.settings.language
