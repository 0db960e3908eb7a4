"""The commands that come next, ready to be pasted into a shell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shlex import quote

from msgspec.structs import replace

from firstnan.answer.model import Report, Where
from firstnan.causes.turning_point import turning_point
from firstnan.dump.language import Language
from firstnan.dump.printable import printable
from firstnan.report.dump_again import dump_again
from firstnan.show.outline.headline import CauseGroup, causes_on, group_causes
from firstnan.show.outline.model import Block, Code, Item, Section, sentence
from firstnan.show.reporter import Settings, View
from firstnan.words import text

Command = tuple[str, str]
"""What it is for, as a key of the messages, and the command line."""


def next_commands(report: Report, settings: Settings) -> tuple[Command, ...]:
    """Look at the records of the first cause, reject it, dump what it leaves open; for step 1, go on to step 2."""
    if not settings.program:
        return ()
    made = _of_ranks(report, settings) if settings.view is View.RANKS else _of_cause(report, settings)
    return tuple((key, line) for key, line in made if printable(line) == line)


def commands_section(report: Report, settings: Settings) -> Section:
    """The commands as a part of the outline."""
    language = settings.language
    return Section(text("section.commands", language), tuple(_blocks(next_commands(report, settings), language)))


def _blocks(commands: Iterable[Command], language: Language) -> Iterator[Block]:
    for key, line in commands:
        yield Item(sentence(key, language))
        yield Code(line, is_command=True)


def _of_ranks(report: Report, settings: Settings) -> Iterator[Command]:
    path = _path(report, settings)
    for call in report.collectives[:1]:
        for rank in call.source_ranks[:1]:
            yield "command.trace", f"{settings.program} trace {path} --rank {rank}{_step(report, call.step)}"
    if report.root_causes:
        yield "command.analyze", f"{settings.program} analyze {path}"


def _of_cause(report: Report, settings: Settings) -> Iterator[Command]:
    path = _path(report, settings)
    group = _shown_group(report, settings)
    if group is None:
        return
    cause = group.cause
    step = _step(report, cause.step)
    if cause.exec_order is not None:
        yield "command.show", f"{settings.program} show {path} --rank {cause.rank}{step} --at {cause.exec_order}"
    command = f"trace {path} --rank {settings.rank}" if settings.view is View.TRACE else f"analyze {path}"
    turn = turning_point(cause)
    if turn is not None:
        yield "command.turn", f"{settings.program} show {path} --rank {cause.rank}{step} --at {turn.step.exec_order}"
    known = _rejected(report)
    rejected = "".join(f" --exclude-op {quote(name)}" for name in known)
    name = cause.op_name if len(group.ranks) > 1 else f"{cause.rank}:{cause.op_name}"
    if cause.op_name and name not in known:  # once more would give the same answer
        yield "command.reject", f"{settings.program} {command}{rejected} --exclude-op {quote(name)}"
    is_proven = cause.where is Where.OPERATOR and dump_again(replace(report, root_causes=(cause,))).task == "tensor"
    key = "command.dump_tensors" if is_proven else "command.dump"
    yield key, f"{settings.program} {command}{rejected} --write-config config.json"


def _shown_group(report: Report, settings: Settings) -> CauseGroup | None:
    """The first cause that is shown, with all ranks that have it."""
    shown = causes_on(report, settings.rank if settings.view is View.TRACE else None)
    return next(iter(group_causes(shown)), None)


def _path(report: Report, settings: Settings) -> str:
    """The analysed path; ``PATH`` where it is several, or is not to be shown."""
    path = report.input.path
    return "PATH" if settings.redact or ", " in path or not path else quote(path)


def _step(report: Report, step: int) -> str:
    """Commands that take one step take the first one by default."""
    return "" if report.input.steps[:1] == (step,) else f" --step {step}"


def _rejected(report: Report) -> tuple[str, ...]:
    """What was rejected before: the next answer depends on it."""
    note = next((note for note in report.caveats if note.key == "caveat.excluded"), None)
    return () if note is None else tuple(str(note.params.get("names", "")).split(", "))
