"""The templates in Simplified Chinese, put together; each area has one file."""

from __future__ import annotations

from firstnan.words.zh.agreement import AGREEMENT
from firstnan.words.zh.commands import COMMANDS
from firstnan.words.zh.evidence import EVIDENCE
from firstnan.words.zh.html import HTML
from firstnan.words.zh.known_issues import KNOWN_ISSUES
from firstnan.words.zh.mechanisms import MECHANISMS
from firstnan.words.zh.problems import PROBLEMS
from firstnan.words.zh.recording import RECORDING
from firstnan.words.zh.replay import REPLAY
from firstnan.words.zh.report import REPORT

PARTS = (REPORT, AGREEMENT, MECHANISMS, PROBLEMS, EVIDENCE, REPLAY, HTML, COMMANDS, RECORDING, KNOWN_ISSUES)
"""The areas; no key stands in two of them (tested)."""

MESSAGES: dict[str, str] = {key: template for part in PARTS for key, template in part.items()}
