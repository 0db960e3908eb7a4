"""The templates in English, put together; each area has one file."""

from __future__ import annotations

from firstnan.words.en.agreement import AGREEMENT
from firstnan.words.en.commands import COMMANDS
from firstnan.words.en.evidence import EVIDENCE
from firstnan.words.en.html import HTML
from firstnan.words.en.known_issues import KNOWN_ISSUES
from firstnan.words.en.mechanisms import MECHANISMS
from firstnan.words.en.problems import PROBLEMS
from firstnan.words.en.recording import RECORDING
from firstnan.words.en.replay import REPLAY
from firstnan.words.en.report import REPORT

PARTS = (REPORT, AGREEMENT, MECHANISMS, PROBLEMS, EVIDENCE, REPLAY, HTML, COMMANDS, RECORDING, KNOWN_ISSUES)
"""The areas; no key stands in two of them (tested)."""

MESSAGES: dict[str, str] = {key: template for part in PARTS for key, template in part.items()}
