"""The templates in English, put together; each area has one file."""

from __future__ import annotations

from firstnan.messages.en.evidence import EVIDENCE
from firstnan.messages.en.html import HTML
from firstnan.messages.en.mechanisms import MECHANISMS
from firstnan.messages.en.problems import PROBLEMS
from firstnan.messages.en.report import REPORT

PARTS = (REPORT, MECHANISMS, PROBLEMS, EVIDENCE, HTML)
"""The areas; no key stands in two of them (tested)."""

MESSAGES: dict[str, str] = {key: template for part in PARTS for key, template in part.items()}
