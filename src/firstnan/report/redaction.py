"""``--redact``: a report without source lines and absolute paths, to be sent out of the house.

Operator, module and file names, line numbers and statistics stay: they are the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from firstnan.answer.model import Note, NoteValue, Report, RootCause
from firstnan.answer.replay import Replay, ReplaySummary
from firstnan.dump.call_site import Frame
from firstnan.dump.problems import Problem

_START = r"""
    (?: [A-Za-z][\w+.-]{0,31}:/{1,3}(?=[^\s\\/])         # file:///home, hdfs://host:9000
      | [A-Za-z]:[\\/]{1,2}(?=[^\s\\/])                  # C:\Users
      | [\\/]{1,2}(?=[^\s\\/])                          # /home, \\server
      | ~[\w.-]{0,64}[\\/](?=[^\s\\/])                  # ~ann/
      | \$\{?\w{1,64}\}?[\\/] | %\w{1,64}%[\\/]         # $HOME, %USERPROFILE%
      | (?:\.\.[\\/])+(?=[^\s\\/])                      # ../
    )
"""
_PATH = re.compile(
    rf"""(?<![\w.)\]/\\}}%]) {_START}                      # not in the middle of a relative path
        (?: (?! [\s,;(=|]+ ['"]? {_START} ) [^\n] )* [\\/]+ (?=[^\s\\/])   # all folders of the line
        | (?<![\w.)\]/\\}}%]) {_START}                    # or none: a file of the root
    """,
    re.VERBOSE,
)
"""A path that is not below the dump, without its last part. Names of folders may hold anything, blanks and commas too:
what stands between two separators is taken for one, rather than let through."""

StackEntry = str | int | float | None


def redact(report: Report) -> Report:
    """The report without source lines and without folders of absolute paths."""
    return replace(
        report,
        input=replace(
            report.input,
            path=redact_text(report.input.path),
            problems=tuple(_problem(problem) for problem in report.input.problems),
        ),
        root_causes=tuple(_cause(cause) for cause in report.root_causes),
        collectives=tuple(replace(call, notes=_notes(call.notes)) for call in report.collectives),
        contained=tuple(replace(value, reason=_note(value.reason)) for value in report.contained),
        benign=tuple(replace(rule, example=redact_text(rule.example)) for rule in report.benign),
        accounts=replace(
            report.accounts,
            entries=tuple(replace(one, example=redact_text(one.example)) for one in report.accounts.entries),
        ),
        story=_notes(report.story),
        caveats=_notes(report.caveats),
        replayed=_replayed(report.replayed),
    )


def redact_text(text: str) -> str:
    r"""The text with every absolute path cut down to its last part.

    >>> redact_text("File /home/ann/train/model.py, line 3, in forward")
    'File model.py, line 3, in forward'
    >>> redact_text("C:\\Users\\ann\\run 1\\dump.json: cut at byte 12")
    'dump.json: cut at byte 12'
    >>> redact_text("step0/rank3/dump.json")
    'step0/rank3/dump.json'
    >>> redact_text("hdfs://store:9000/ann/a, b/run and $HOME/x|y/run")
    'run and run'
    """
    shown = _PATH.sub("", text)
    return shown if shown == text else shown.rstrip("\\/")


def redact_stack(stack: Iterable[StackEntry]) -> tuple[StackEntry, ...]:
    r"""A stack of stack.json without source lines (all after the first line end) and absolute paths.

    >>> redact_stack(["File /a/b.py, line 2, in f, \n x = secret", "forward.py", 123])
    ('File b.py, line 2, in f', 'forward.py', 123)
    """
    return tuple(_entry(entry) for entry in stack)


def _entry(entry: StackEntry) -> StackEntry:
    if not isinstance(entry, str):
        return entry
    head, cut, _ = entry.partition("\n")
    return redact_text(head.rstrip().rstrip(",") if cut else head)


def _cause(cause: RootCause) -> RootCause:
    return replace(
        cause,
        mechanism=replace(cause.mechanism, explanation=_note(cause.mechanism.explanation)),
        stack_info=redact_stack(cause.stack_info),
        location=_frame(cause.location),
        called_at=_frame(cause.called_at),
        evidence=_notes(cause.evidence),
        advice=_notes(cause.advice),
        alternatives=tuple(replace(other, reason=_note(other.reason)) for other in cause.alternatives),
        replay=None if cause.replay is None else _replay(cause.replay),
    )


def _replay(replay: Replay) -> Replay:
    """Errors of torch can name files."""
    return replace(replay, detail=redact_text(replay.detail))


def _replayed(summary: ReplaySummary | None) -> ReplaySummary | None:
    if summary is None:
        return None
    return replace(summary, told=tuple(replace(one, replay=_replay(one.replay)) for one in summary.told))


def _frame(frame: Frame | None) -> Frame | None:
    return None if frame is None else replace(frame, file=redact_text(frame.file), source="")


def _problem(problem: Problem) -> Problem:
    file = None if problem.file is None else redact_text(problem.file)
    return replace(problem, file=file, detail=redact_text(problem.detail))


def _notes(notes: tuple[Note, ...]) -> tuple[Note, ...]:
    return tuple(_note(note) for note in notes)


def _note(note: Note) -> Note:
    return replace(note, params={name: _value(value) for name, value in note.params.items()})


def _value(value: NoteValue) -> NoteValue:
    return redact_text(value) if isinstance(value, str) else value
