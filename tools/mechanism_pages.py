"""Writes what is generated from the rooms of the mechanisms (``src/firstnan/causes/mechanisms``).

``python tools/mechanism_pages.py`` renews the sections of ``docs/concepts/mechanisms.md`` and the table of the skill's
``references/mechanisms.md`` (of ``references/zh/mechanisms.md`` from ``docs/zh/mechanisms.md``); then
``tools/docs_output.py`` fills in what the commands print.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from firstnan.answer.model import MechanismKind
from firstnan.causes.mechanisms import registry

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "concepts" / "mechanisms.md"
REFERENCE = ROOT / "skills" / "nan-overflow-detection" / "references" / "mechanisms.md"
CHINESE = ROOT / "docs" / "zh" / "mechanisms.md"
REFERENCE_ZH = REFERENCE.parent / "zh" / "mechanisms.md"
_ROOM_ZH = re.compile(r"^## [^\n]*：(\w+)\n\n([^\n]*)\n.*?^\*\*怎么办。\*\* ([^\n]*)", re.M | re.S)
_SECTIONS = re.compile(r"^## \w+$.*\Z", re.M | re.S)
_ROWS = re.compile(r"^\| `.*\n(?:\|.*\n)*", re.M)
_SHOWN = "sed -n '1,/^$/p; /^  code/,/^$/p; /^Why/,/^$/p'"
"""The parts of a report that a page shows."""


@dataclass(frozen=True, slots=True)
class Room:
    """The documentation of one mechanism, taken apart."""

    kind: str
    what: str
    proof: str
    example: str
    fix: str

    @classmethod
    def of(cls, kind: MechanismKind) -> Room:
        """Raises:
        ValueError: a part is absent.
        """
        parts = re.split(r"^#+ (.*)\n", registry.room(kind).strip(), flags=re.M)
        told = {title: text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}
        absent = {"What proves it", "Example", "How to fix it"} - told.keys()
        if absent or len(told) != 4:
            raise ValueError(f"the room of {kind.value} lacks {', '.join(sorted(absent)) or 'its title'}")
        return cls(kind.value, parts[2].strip(), told["What proves it"], told["Example"], told["How to fix it"])

    def section(self) -> str:
        """Of the documentation's page."""
        command = f"```console\n$ firstnan analyze examples/small/{self.kind} | {_SHOWN}\n```"
        if self.kind == MechanismKind.DEVICE_FAULT.value:  # shown where torch is needed to show it
            command = "[An example, from the answer to the repro](../replay.md)."
        link = f"[Program and report](../../examples/small/{self.kind}/)."
        return (
            f"## {self.kind}\n\n{self.what}\n\n**Proof.** {self.proof}\n\n**Example.** {self.example} {link}\n\n"
            f"{command}\n\n**Then.** {self.fix}\n"
        )

    def row(self) -> str:
        """Of the skill's table: the first sentence of what it is and of how to fix it."""
        return f"| `{self.kind}` | {_first(self.what)} | {_first(self.fix)} |\n"


def _row_zh(room: re.Match[str]) -> str:
    """The same in Chinese, from the written page."""
    kind, what, fix = room.groups()
    told = (re.sub(r"（[^（）]*\[[^（）]*）|\[采两个 step\]\([^)]*\)", "", text).split("。")[0] for text in (what, fix))
    return f"| `{kind}` | {' | '.join(text.rstrip('；，').replace('|', chr(92) + '|') for text in told)} |\n"


def _first(text: str) -> str:
    """The first sentence, on one line, without links."""
    line = re.sub(r" \(\[[^]]*\]\([^)]*\)\)|\]\([^)]*\)|\[", "", " ".join(text.split())).replace("|", "\\|")
    return re.split(r"(?<=[a-z0-9`)])[.:;] ", line + " ")[0].rstrip(" .")


def pages() -> dict[Path, str]:
    """The generated files with their text; what commands print is left out of the page."""
    rooms = [Room.of(kind) for kind in MechanismKind]
    page, reference = PAGE.read_text("utf-8"), REFERENCE.read_text("utf-8")
    sections, rows = "\n".join(room.section() for room in rooms), "".join(room.row() for room in rooms)
    return {
        PAGE: _SECTIONS.sub(lambda _: sections, page),
        REFERENCE: _ROWS.sub(lambda _: rows, reference, count=1),
        REFERENCE_ZH: _ROWS.sub(
            lambda _: "".join(map(_row_zh, _ROOM_ZH.finditer(CHINESE.read_text("utf-8")))),
            REFERENCE_ZH.read_text("utf-8"),
            count=1,
        ),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, "utf-8")
