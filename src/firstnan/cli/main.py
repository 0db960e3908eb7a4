"""``firstnan``: arguments in, report to stdout or a file, words for people to stderr, an exit code back."""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TextIO, TypeVar

from msgspec.structs import replace

from firstnan.answer.model import Report
from firstnan.cli import parser as command_line
from firstnan.cli.commands import Terminal
from firstnan.cli.output import check_folder, check_target, write_whole
from firstnan.cli.progress import ReadingProgress
from firstnan.dump.errors import EXIT_INTERRUPTED, FirstnanError, InputError, OutputError, UsageError
from firstnan.dump.language import Language
from firstnan.dump.options import EngineKind, Options
from firstnan.dump.printable import printable
from firstnan.dump.ranges import format_ranges
from firstnan.rank.roster import Roster
from firstnan.read.scan.search import HAS_STRINGZILLA
from firstnan.run import pipeline
from firstnan.show import Format, Settings, View, load, mission_files, render
from firstnan.show.console import HAS_RICH, render_outline
from firstnan.show.outline.headline import causes_on
from firstnan.step.every_call import EveryCall
from firstnan.words import Words, default_language, text

R = TypeVar("R")

_DEFAULT_WIDTH = 80
_WIDTHS = range(40, 121)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives its exit code (see :data:`firstnan.cli.parser.EXIT_CODES`)."""
    if sys.stderr is None:  # closed (``2>&-``): nobody hears what is said
        with open(os.devnull, "w", encoding="utf-8") as sink, contextlib.redirect_stderr(sink):  # noqa: PTH123
            return _run(argv)
    try:
        return _run(argv)
    finally:
        _settle_stderr()


def _run(argv: Sequence[str] | None) -> int:
    try:
        chosen = command_line.parse(sys.argv[1:] if argv is None else argv)
        return _COMMANDS[chosen.command](chosen)
    except SystemExit as stop:  # argparse: --help, --version, usage errors
        return _settled_stdout(stop.code if isinstance(stop.code, int) else 0)
    except OSError:  # argparse lets its message fail on some versions of Python
        return _settled_stdout(UsageError.exit_code)
    except FirstnanError as error:
        _say(f"firstnan: {printable(str(error))}")
        if error.hint:
            _say(f"  {printable(error.hint)}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("firstnan: interrupted")
        return EXIT_INTERRUPTED
    except MemoryError:
        _say("firstnan: out of memory")
        _say("  look at fewer ranks or steps at once (--ranks, --step), with fewer processes (--jobs 1)")
        return InputError.exit_code


def _analyze(chosen: argparse.Namespace) -> int:
    return _report(chosen, View.FULL)


def _ranks(chosen: argparse.Namespace) -> int:
    return _report(chosen, View.RANKS)


def _agree(chosen: argparse.Namespace) -> int:
    return _report(chosen, View.AGREE)


def _trace(chosen: argparse.Namespace) -> int:
    return _report(chosen, View.TRACE)


def _report(chosen: argparse.Namespace, view: View) -> int:
    form = _form(chosen)
    _check_targets(chosen, chosen.path)
    options = command_line.options(chosen)
    settings = _settings(chosen, view, _rank(chosen, options) if view is View.TRACE else None)
    report = _read(chosen.path, settings, options)
    if view is View.RANKS and (form in _LISTS_CALLS or chosen.mission_file is not None):
        settings = replace(settings, every_call=_every_call(chosen.path, report, options, settings.language))
    return _deliver(report, form, settings, chosen)


def _write_config(report: Report, settings: Settings, file: Path) -> None:
    """MSProbe's config.json for what the answer leaves open."""
    from firstnan.report.dump_again import dump_again
    from firstnan.show.json import dumps

    shown = replace(report, root_causes=causes_on(report, settings.rank))
    write_whole(file, dumps(dump_again(shown).config()).encode("utf-8"))
    _say(text("output.written", settings.language, file=Words(printable(str(file)))))


_LISTS_CALLS = (Format.TEXT, Format.MARKDOWN, Format.MISSION)
"""Forms of the command ranks that show calls which are not affected."""


def _every_call(path: Sequence[Path], report: Report, options: Options, language: Language) -> EveryCall:
    """All communication calls, from one more pass over the ranks."""

    def read() -> list[Roster]:
        with ReadingProgress(language) as progress:
            return pipeline.rosters(path, options, progress)

    return EveryCall(report, _worked(options, read))


def _merge(chosen: argparse.Namespace) -> int:
    from firstnan.run import two_stage

    form = _form(chosen)
    targets = {file.resolve() for file in _targets(chosen)}
    for file in chosen.parts:
        if file.resolve() in targets:
            raise UsageError(f"'{file}' cannot be both a part and the report")
    parts, problems = two_stage.read_all(chosen.parts)
    _check_targets(chosen, [part.folder.path for one in parts for part in one.ranks[:1]])
    settings = _settings(chosen, View.FULL)
    _say_what_is_lacking(settings.language)
    return _deliver(two_stage.put_together(parts, Options(jobs=chosen.jobs), problems=problems), form, settings, chosen)


def _form(chosen: argparse.Namespace) -> Format:
    """The form of the report: one that is not there is told before the work, not after."""
    form = command_line.form(chosen)
    load(form)
    return form


def _check_targets(chosen: argparse.Namespace, dumps: Sequence[Path]) -> None:
    files = _targets(chosen)
    for file in files:
        for dump in dumps:
            check_target(file, dump)
    for file, other in itertools.combinations(files, 2):
        if file.resolve() == other.resolve():
            raise UsageError(f"'{file}' cannot hold two results")


def _targets(chosen: argparse.Namespace) -> list[Path]:
    """All files that are asked for."""
    besides: list[Path | None] = [getattr(chosen, name, None) for name in ("mission_file", "write_config")]
    return [file for file in (_target(chosen), *besides) if file is not None]


def _target(chosen: argparse.Namespace) -> Path | None:
    """The file to write; None: stdout."""
    target: Path | None = chosen.output
    return None if target is None or str(target) == "-" else target


def _settings(chosen: argparse.Namespace, view: View, rank: int | None = None) -> Settings:
    to_file = _target(chosen) is not None
    return Settings(
        language=_language(chosen),
        view=view,
        rank=rank,
        verbose=chosen.verbose,
        redact=chosen.redact,
        width=_DEFAULT_WIDTH if to_file else _width(),
        colour=not to_file and _colour(),
        program=_program(),
    )


def _deliver(report: Report, form: Format, settings: Settings, chosen: argparse.Namespace) -> int:
    """The report to where it is wanted; gives the exit code."""
    mission = mission_files.parts(report, settings) if form is Format.MISSION else None  # may be long
    content = "" if mission is not None else render(report, form, settings)
    mission_file: Path | None = getattr(chosen, "mission_file", None)
    if mission_file is not None:
        step = replace(settings, view=View.RANKS) if settings.view is View.FULL else settings
        write_whole(mission_file, (part.encode("utf-8") for part in mission_files.parts(report, step)))
        _say(text("output.written", settings.language, file=Words(printable(str(mission_file)))))
        if step.view is View.RANKS and step.every_call is None:
            _say(text("output.affected_only", settings.language))
    if chosen.write_config is not None:
        _write_config(report, settings, chosen.write_config)
    target = _target(chosen)
    if target is None:
        for part in (content,) if mission is None else mission:
            _put(part, is_text=form is Format.TEXT)
    else:
        write_whole(target, (part.encode("utf-8") for part in ((content,) if mission is None else mission)))
        if target.is_file():  # who reads from a pipe sees what comes
            _say(text("output.written", settings.language, file=Words(printable(str(target)))))
    if settings.view is View.AGREE:
        return report.exit_code_of_agreement
    return report.exit_code if settings.view is View.FULL else report.exit_code_of_values


def _scan(chosen: argparse.Namespace) -> int:
    from firstnan.run import parts, two_stage

    target, language = _target(chosen), _language(chosen)
    if target is not None:
        for path in chosen.path:
            check_target(target, path)
    others, unusable = two_stage.read_all(chosen.others) if chosen.others else ([], [])
    for problem in unusable:
        _say(f"firstnan: {printable(f'{problem.file}: {problem.detail}')}")
    options = command_line.options(chosen)
    _say_what_is_lacking(language)

    def scanned() -> parts.Part:
        with ReadingProgress(language) as progress:
            return two_stage.scan(chosen.path, options, progress, others)

    part = _worked(options, scanned)
    content = parts.to_text(part)
    if target is None:
        _put(content, is_text=False)
    else:
        write_whole(target, content.encode("utf-8"))
    suspected = {one.folder.rank for one in part.ranks if one.summary.suspect is not None}
    _say(
        text(
            "scan.done" if suspected else "scan.clean",
            language,
            ranks=Words(format_ranges(sorted({one.folder.rank for one in part.ranks}))),
            suspected=Words(format_ranges(sorted(suspected))),
        )
    )
    return 0


def _rank(chosen: argparse.Namespace, options: Options) -> int:
    if chosen.rank is not None:
        return int(chosen.rank)
    return _worked(options, lambda: pipeline.only_rank(chosen.path, options))


def _read(path: pipeline.Paths, settings: Settings, options: Options) -> Report:
    _say_what_is_lacking(settings.language)

    def read() -> Report:
        if settings.view is View.TRACE and settings.rank is not None:
            return pipeline.trace(path, settings.rank, options)
        with ReadingProgress(settings.language) as progress:
            return pipeline.analyze(path, options, progress)

    return _worked(options, read)


def _worked(options: Options, function: Callable[[], R]) -> R:
    """What a function gives; with Ray, in a process of its own.

    Ray writes news of its workers to stdout, where the report belongs; the report tells what is left of them.
    """
    if options.engine is EngineKind.LOCAL:
        return function()
    from firstnan.run import child_process

    with contextlib.redirect_stdout(io.StringIO()):
        return child_process.run(function)


def _show(chosen: argparse.Namespace) -> int:
    rank = pipeline.only_rank(chosen.path) if chosen.rank is None else chosen.rank
    found = pipeline.show(chosen.path, rank, step=chosen.step, op=chosen.op, at=chosen.at, around=chosen.around)
    settings = Settings(language=_language(chosen), verbose=chosen.verbose, width=_width(), colour=_colour())
    from firstnan.show.outline.excerpt import outline_excerpt

    _put(render_outline(outline_excerpt(found, settings), settings), is_text=True)
    return 0


def _replay(chosen: argparse.Namespace) -> int:
    from firstnan.run import replay

    form = _form(chosen)
    _check_targets(chosen, chosen.path)
    if chosen.repro is not None:
        check_folder(chosen.repro)
    if chosen.rank is not None and chosen.op is None and not chosen.all:
        raise UsageError("--rank goes with --op or --all")
    replay.check_torch()
    options = command_line.options(chosen)
    settings = _settings(chosen, View.FULL)
    _say_what_is_lacking(settings.language)
    request = replay.Request(chosen.rank, chosen.op, chosen.all, chosen.budget)

    def run() -> Report:
        with ReadingProgress(settings.language) as progress:
            return replay.replay(chosen.path, request, options, progress)

    report = _worked(options, run)
    code = _deliver(report, form, settings, chosen)
    if chosen.repro is not None:
        written = replay.write_repro(chosen.path, report, request, chosen.repro)
        _say(text("output.written", settings.language, file=Words(printable(str(written)))))
    return code


def _rules(chosen: argparse.Namespace) -> int:
    _put(pipeline.rules_text(chosen.rules), is_text=True)
    return 0


def _schema(_: argparse.Namespace) -> int:
    from firstnan.answer.schema import json_schema
    from firstnan.show.json import dumps

    _put(dumps(json_schema()), is_text=False)
    return 0


def _demo(chosen: argparse.Namespace) -> int:
    """The example ends with 0 although it holds an anomaly: it is what the example is for."""
    if chosen.to is None:
        import tempfile

        with tempfile.TemporaryDirectory(prefix="firstnan-demo-") as folder:
            return _demo_in(Path(folder), chosen)
    check_folder(chosen.to)
    if chosen.to.exists() and (not chosen.to.is_dir() or any(chosen.to.iterdir())):
        raise UsageError(f"'{chosen.to}' is there already and not an empty folder")
    return _demo_in(chosen.to, chosen)


def _demo_in(folder: Path, chosen: argparse.Namespace) -> int:
    from firstnan.cli import demo

    language = _language(chosen)
    try:
        path = demo.unpack(folder)
    except OSError as error:
        raise OutputError(f"the example could not be written to '{folder}': {error.strerror or error}") from error
    program = "" if chosen.to is None else _program()  # an example that is not kept cannot be asked again
    settings = Settings(language=language, verbose=chosen.verbose, width=_width(), colour=_colour(), program=program)
    form = Format(chosen.format)
    report = _read(path, settings, Options())
    _say(text("demo.what", language))
    _say(text("demo.ran", language, command=Words(f"firstnan analyze {printable(str(path))}")))
    if chosen.to is None:
        _say(text("demo.keep", language))
    _say("")
    _put(render(report, form, settings), is_text=form is Format.TEXT)
    return 0


def _compare(chosen: argparse.Namespace) -> int:
    from firstnan.cli.commands import compare

    return compare.run(chosen, _terminal(chosen))


def _watch(chosen: argparse.Namespace) -> int:
    from firstnan.cli.commands import watch

    return watch.run(chosen, _terminal(chosen))


def _completion(chosen: argparse.Namespace) -> int:
    from firstnan.cli.commands import completion

    return completion.run(chosen, _terminal(chosen), command_line.parser())


def _terminal(chosen: argparse.Namespace) -> Terminal:
    """What the commands with files of their own are given."""
    target = getattr(chosen, "output", None)
    to_file = target is not None and str(target) != "-"
    width, colour = (_DEFAULT_WIDTH, False) if to_file else (_width(), _colour())
    return Terminal(_say, _put, Settings(language=_language(chosen), width=width, colour=colour))


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "analyze": _analyze,
    "ranks": _ranks,
    "agree": _agree,
    "trace": _trace,
    "scan": _scan,
    "merge": _merge,
    "show": _show,
    "compare": _compare,
    "watch": _watch,
    "completion": _completion,
    "replay": _replay,
    "rules": _rules,
    "schema": _schema,
    "demo": _demo,
}


def _language(chosen: argparse.Namespace) -> Language:
    return default_language() if chosen.lang is None else Language(chosen.lang)


def _program() -> str:
    """How this program is called, for commands that are to be pasted."""
    called = Path(sys.argv[0])
    if called.suffix == ".pyz":
        return f"python3 {quote(str(called))}"
    if shutil.which("firstnan") is not None:
        return "firstnan"
    if called.parts[-2:] == ("firstnan", "__main__.py"):
        return "python3 -m firstnan"
    return quote(str(called)) if called.name == "firstnan" and len(called.parts) > 1 else "firstnan"


def _width() -> int:
    """The terminal's columns within reason; 80 when the output goes elsewhere."""
    if not _is_terminal():
        return _DEFAULT_WIDTH
    columns = shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns
    return min(max(columns, _WIDTHS.start), _WIDTHS.stop - 1)


def _is_terminal() -> bool:
    """Whether stdout is one; False where there is no stdout at all (``>&-``)."""
    return sys.stdout is not None and sys.stdout.isatty()


def _colour() -> bool:
    """Colour on a terminal that has it, unless the user does not want any (``NO_COLOR``)."""
    return _is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _say(line: str) -> None:
    """A line for people, on stderr; nobody may be listening."""
    with contextlib.suppress(OSError, UnicodeEncodeError):
        print(line, file=sys.stderr)  # noqa: T201  (the one module that prints)


def _settled_stdout(code: int) -> int:
    """The exit code of a command of argparse's own (--help, --version): 2 when stdout cannot take what it said."""
    if sys.stdout is None:
        return code
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout)
    except OSError:
        _drop(sys.stdout)
        return OutputError.exit_code
    return code


def _settle_stderr() -> None:
    """What stderr cannot take (disk full) must not change the exit code when the interpreter flushes it."""
    try:
        sys.stderr.flush()
    except OSError:
        _drop(sys.stderr)


def _say_what_is_lacking(language: Language) -> None:
    """One line where an optional package is not installed; what is found does not depend on them."""
    there = {"setup.stringzilla": HAS_STRINGZILLA, "setup.rich": HAS_RICH}
    lacking = ", ".join(text(key, language) for key, installed in there.items() if not installed)
    if lacking:
        _say("firstnan: " + text("setup.lacking", language, packages=Words(lacking)))


def _put(content: str, *, is_text: bool) -> None:
    """The answer, on stdout. A reader that went away (``| head``) is no error.

    Raises:
        OutputError: stdout cannot take it (disk full, closed).
    """
    if sys.stdout is None:
        raise OutputError("the report could not be written: stdout is closed")
    encoding = sys.stdout.encoding or "utf-8"
    raw = content.encode(encoding, "replace") if is_text else content.encode("utf-8")
    try:
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.flush()
            sys.stdout.buffer.write(raw)
            sys.stdout.buffer.flush()
        else:
            sys.stdout.write(content)
            sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout)
    except OSError as error:
        _drop(sys.stdout)
        raise OutputError(f"the report could not be written to stdout: {error.strerror or error}") from error


def _drop(stream: TextIO) -> None:
    """What is still buffered must not fail again when the interpreter ends."""
    with contextlib.suppress(io.UnsupportedOperation):  # a stream that is no file has nothing to fail
        number = stream.fileno()
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, number)
        os.close(sink)
