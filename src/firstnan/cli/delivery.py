"""A report from the dump to where it is wanted: what the commands that give one share."""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from firstnan.answer.model import Report
from firstnan.cli import arguments
from firstnan.cli.output import check_target, write_whole
from firstnan.cli.progress import ReadingProgress
from firstnan.cli.terminal import DEFAULT_WIDTH, colour, is_single_file, program, put, say, width
from firstnan.dump.errors import UsageError
from firstnan.dump.language import Language
from firstnan.dump.options import EngineKind, Options
from firstnan.dump.printable import printable
from firstnan.read.scan.search import HAS_STRINGZILLA
from firstnan.run import lookups, pipeline
from firstnan.run.paths import Paths
from firstnan.show import Format, Settings, View, load, render
from firstnan.show.console import HAS_RICH
from firstnan.show.outline.headline import causes_on
from firstnan.words import Words, default_language, text

if TYPE_CHECKING:
    from firstnan.rank.roster import Roster
    from firstnan.step.every_call import EveryCall

R = TypeVar("R")


def _write_config(report: Report, settings: Settings, file: Path) -> None:
    """MSProbe's config.json for what the answer leaves open."""
    from firstnan.report.dump_again import dump_again
    from firstnan.show.json import dumps

    shown = replace(report, root_causes=causes_on(report, settings.rank))
    write_whole(file, dumps(dump_again(shown).config()).encode("utf-8"))
    say(text("output.written", settings.language, file=Words(printable(str(file)))))


_DRAWS_EQUALS = (Format.JSON, Format.HTML)
"""Forms that show the map of equal results."""
_LISTS_CALLS = (Format.TEXT, Format.MARKDOWN, Format.MISSION)
"""Forms of the command ranks that show calls which are not affected."""


def report(chosen: argparse.Namespace, view: View) -> int:
    form = form_of(chosen)
    check_targets(chosen, chosen.path)
    options = replace(arguments.options(chosen), draws_equals=form in _DRAWS_EQUALS)
    settings = settings_of(chosen, view, _rank(chosen, options) if view is View.TRACE else None)
    report = read(chosen.path, settings, options)
    if view is View.RANKS and (form in _LISTS_CALLS or chosen.mission_file is not None):
        settings = replace(settings, every_call=_every_call(chosen.path, report, options, settings.language))
    return deliver(report, form, settings, chosen)


def _every_call(path: Sequence[Path], report: Report, options: Options, language: Language) -> EveryCall:
    """All communication calls, from one more pass over the ranks."""
    from firstnan.step.every_call import EveryCall

    def read() -> list[Roster]:
        with ReadingProgress(language) as progress:
            return lookups.rosters(path, options, progress)

    return EveryCall(report, worked(options, read))


def form_of(chosen: argparse.Namespace) -> Format:
    """The form of the report: one that is not there is told before the work, not after."""
    form = arguments.form(chosen)
    load(form)
    return form


def check_targets(chosen: argparse.Namespace, dumps: Sequence[Path]) -> None:
    files = targets_of(chosen)
    for file in files:
        for dump in dumps:
            check_target(file, dump)
    for file, other in itertools.combinations(files, 2):
        if file.resolve() == other.resolve():
            raise UsageError(f"'{file}' cannot hold two results")


def targets_of(chosen: argparse.Namespace) -> list[Path]:
    """All files that are asked for."""
    besides: list[Path | None] = [getattr(chosen, name, None) for name in ("mission_file", "write_config")]
    return [file for file in (target_of(chosen), *besides) if file is not None]


def target_of(chosen: argparse.Namespace) -> Path | None:
    """The file to write; None: stdout."""
    target: Path | None = chosen.output
    return None if target is None or str(target) == "-" else target


def settings_of(chosen: argparse.Namespace, view: View, rank: int | None = None) -> Settings:
    to_file = target_of(chosen) is not None
    return Settings(
        language=language_of(chosen),
        view=view,
        rank=rank,
        verbose=chosen.verbose,
        redact=chosen.redact,
        width=DEFAULT_WIDTH if to_file else width(),
        colour=not to_file and colour(),
        program=program(),
    )


def deliver(report: Report, form: Format, settings: Settings, chosen: argparse.Namespace) -> int:
    """The report to where it is wanted; gives the exit code."""
    mission = _mission_parts(report, settings) if form is Format.MISSION else None  # may be long
    content = "" if mission is not None else render(report, form, settings)
    mission_file: Path | None = getattr(chosen, "mission_file", None)
    if mission_file is not None:
        step = replace(settings, view=View.RANKS) if settings.view is View.FULL else settings
        write_whole(mission_file, (part.encode("utf-8") for part in _mission_parts(report, step)))
        say(text("output.written", settings.language, file=Words(printable(str(mission_file)))))
        if step.view is View.RANKS and step.every_call is None:
            say(text("output.affected_only", settings.language))
    if chosen.write_config is not None:
        _write_config(report, settings, chosen.write_config)
    target = target_of(chosen)
    if target is None:
        for part in (content,) if mission is None else mission:
            put(part, is_text=form is Format.TEXT)
    else:
        write_whole(target, (part.encode("utf-8") for part in ((content,) if mission is None else mission)))
        if target.is_file():  # who reads from a pipe sees what comes
            say(text("output.written", settings.language, file=Words(printable(str(target)))))
    if settings.view is View.AGREE:
        return report.exit_code_of_agreement
    return report.exit_code if settings.view is View.FULL else report.exit_code_of_values


def _mission_parts(report: Report, settings: Settings) -> Iterator[str]:
    from firstnan.show import mission_files  # few ask for this form

    return mission_files.parts(report, settings)


def _rank(chosen: argparse.Namespace, options: Options) -> int:
    if chosen.rank is not None:
        return int(chosen.rank)
    return worked(options, lambda: lookups.only_rank(chosen.path, options))


def read(path: Paths, settings: Settings, options: Options) -> Report:
    say_what_is_lacking(settings.language)

    def read() -> Report:
        if settings.view is View.TRACE and settings.rank is not None:
            return pipeline.trace(path, settings.rank, options)
        with ReadingProgress(settings.language) as progress:
            return pipeline.analyze(path, options, progress)

    return worked(options, read)


def worked(options: Options, function: Callable[[], R]) -> R:
    """What a function gives; with Ray, in a process of its own.

    Ray writes news of its workers to stdout, where the report belongs; the report tells what is left of them.
    """
    if options.engine is EngineKind.LOCAL:
        return function()
    from firstnan.run.engines import child_process

    with contextlib.redirect_stdout(io.StringIO()):
        return child_process.run(function)


def language_of(chosen: argparse.Namespace) -> Language:
    return default_language() if chosen.lang is None else Language(chosen.lang)


def say_what_is_lacking(language: Language) -> None:
    """One line where an optional package is not installed; what is found does not depend on them."""
    if is_single_file():
        return
    there = {"setup.stringzilla": HAS_STRINGZILLA, "setup.rich": HAS_RICH}
    lacking = ", ".join(text(key, language) for key, installed in there.items() if not installed)
    if lacking:
        say("firstnan: " + text("setup.lacking", language, packages=Words(lacking)))
