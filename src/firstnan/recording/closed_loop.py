"""From the dump of a second run to one message: ``firstnan analyze`` in a process of its own, with a time limit."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from firstnan.answer.model import NoteValue
from firstnan.answer.replay import ReplayVerdict
from firstnan.dump.guard_file import number_of
from firstnan.dump.language import Language
from firstnan.dump.printable import printable
from firstnan.recording.outcome import Answer, Failure, Finding
from firstnan.words import Words, number, text

TIME_LIMIT = 60.0
"""Seconds; the other ranks may already wait for this one."""
_ANSWERED = frozenset({0, 1, 4})
"""Exit codes of ``analyze`` that come with a report."""


def analyze(dump: Path, step: int, limit: float = TIME_LIMIT) -> Answer:
    """What ``firstnan analyze`` says of one step of a dump, in a few words. A failure is an answer as well."""
    command = [sys.executable, "-m", "firstnan", "analyze", str(dump), "--step", str(step), "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=limit, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return Answer(failure=Failure.TIME_LIMIT)
    except OSError:
        return Answer(failure=Failure.NOT_STARTED)
    if done.returncode not in _ANSWERED:
        return Answer(failure=Failure.NO_REPORT)
    try:
        return _first_cause(json.loads(done.stdout))
    except ValueError:
        return Answer(failure=Failure.NO_REPORT)


def can_replay() -> bool:
    """Whether records can run again on the CPU here."""
    return importlib.util.find_spec("firstnan.replaying") is not None and importlib.util.find_spec("numpy") is not None


def needed_for(name: str) -> tuple[str, ...]:
    """The records whose elements a record needs to run again: a gradient needs its forward call as well."""
    stem, _, direction = name.rpartition(".")
    return (name, f"{stem}.forward") if direction == "backward" else (name,)


def replay(tensors: Path, step: int, rank: int, name: str, limit: float = TIME_LIMIT) -> ReplayVerdict | None:
    """The verdict of ``firstnan replay`` on one record; None when there is none."""
    command = [sys.executable, "-m", "firstnan", "replay", str(tensors)]
    command += ["--step", str(step), "--rank", str(rank), "--op", name, "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=limit, check=False, stdin=subprocess.DEVNULL)
        report = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return _verdict(report)


def _verdict(report: Mapping[str, object]) -> ReplayVerdict | None:
    replayed = report.get("replayed")
    told = replayed.get("told") if isinstance(replayed, dict) else None
    first = told[0].get("replay") if isinstance(told, list) and told and isinstance(told[0], dict) else None
    known = {verdict.value: verdict for verdict in ReplayVerdict}
    return known.get(str(first.get("verdict"))) if isinstance(first, dict) else None


def _first_cause(report: Mapping[str, object]) -> Answer:
    causes = report.get("root_causes")
    cause = causes[0] if isinstance(causes, list) and causes else None
    if not isinstance(cause, dict):
        return Answer()
    mechanism, location = cause.get("mechanism"), cause.get("location")
    place = f"{location.get('file')}:{location.get('line')}" if isinstance(location, dict) else ""
    kind = mechanism.get("kind") if isinstance(mechanism, dict) else None
    confidence = mechanism.get("confidence") if isinstance(mechanism, dict) else None
    rank = cause.get("rank")
    return Answer(
        rank if isinstance(rank, int) else None, str(cause.get("op_name") or ""), place, str(kind), str(confidence)
    )


def message(finding: Finding, language: Language) -> str:
    """The one message of a guard that fired: what came, whether it came again, where, and how to see more."""
    lines = [
        text(
            f"guard.fired.{finding.trigger.value}",
            language,
            step=finding.step,
            value=Words(_value(finding)),
            again=Words(text(f"guard.again.{_outcome(finding)}", language)),
        )
    ]
    if finding.answer is not None:
        lines.append("  " + _words(finding.answer, language))
    if finding.replay is not None:
        lines.append("  " + text(f"guard.replay.{finding.replay.value}", language))
    if finding.dump is not None:
        lines.append("  " + text("guard.dump", language, path=Words(printable(str(finding.dump)))))
    return "\n".join(lines)


def _outcome(finding: Finding) -> str:
    return {True: "reproduced", False: "transient", None: "unfinished"}[finding.reproduced]


def _value(finding: Finding) -> str:
    value = number_of(finding.first.of(finding.trigger))
    return "-" if value is None else number(value)


def _words(answer: Answer, language: Language) -> str:
    if answer.failure is not None:
        return text(f"guard.no_answer.{answer.failure.value}", language)
    if answer.rank is None:
        return text("guard.no_cause", language)
    mechanism = Words(text(f"mechanism.{answer.mechanism}.name", language))
    confidence = Words(text(f"confidence.{answer.confidence}", language))
    facts: dict[str, NoteValue] = {"mechanism": mechanism, "confidence": confidence}
    facts |= {"rank": answer.rank, "op": Words(printable(answer.op_name))}
    if answer.location:
        return text("guard.cause.line", language, place=Words(printable(answer.location)), **facts)
    return text("guard.cause", language, **facts)
