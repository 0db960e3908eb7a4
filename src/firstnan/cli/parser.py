"""The command line as argparse sees it: every command, every option, and what they mean."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from firstnan.dump.errors import UsageError
from firstnan.dump.language import Language
from firstnan.dump.options import EngineKind, Options
from firstnan.dump.ranges import parse_ranges
from firstnan.show import Format
from firstnan.show.reporter import CROSS_RANK_FILE, SINGLE_RANK_FILE
from firstnan.version import __version__

EXIT_CODES = """\
exit codes:
  0  clean and complete
  1  an anomaly was found, or ranks differ that should be equal
  2  usage: the request makes no sense, or the report could not be written
  3  nothing readable at the path
  4  undecided: nothing could be judged, or clean but not complete
"""

EXIT_CODES_OF_AGREE = """\
exit codes:
  0  they agree
  1  they differ
  2  usage: the request makes no sense, or the report could not be written
  3  nothing readable at the path
  4  nothing could be compared
"""

EXIT_CODES_OF_SCAN = """\
exit codes:
  0  the part is written, whatever it holds
  2  usage: the request makes no sense, or the part could not be written
  3  no dump at the path
"""

EXIT_CODES_OF_SHOW = """\
exit codes:
  0  there was something to show
  2  usage: the request makes no sense, or stdout could not be written
  3  nothing readable at the path
"""

EXIT_CODES_OF_REPLAY = """\
exit codes:
  0  clean and complete, and every record that was run is what the CPU gets
  1  anomaly found
  2  usage: the request makes no sense, torch is not installed, or the report could not be written
  3  nothing readable at the path
  4  undecided: no record could be run (the tensors are not in the dump), the time was up, or nothing could be judged
"""

EXIT_CODES_OF_RULES = """\
exit codes:
  0  the rules are printed
  2  usage: the request makes no sense, the rules file cannot be read, or stdout could not be written
"""

EXIT_CODES_OF_SCHEMA = """\
exit codes:
  0  the schema is printed
  2  usage: the request makes no sense, or stdout could not be written
"""

EXIT_CODES_OF_COMPARE = """\
exit codes:
  0  no difference, and everything was compared
  1  a difference was found
  2  usage: the request makes no sense, or the answer could not be written
  3  nothing readable at one of the paths
  4  undecided: no difference, but not everything could be compared
"""

EXIT_CODES_OF_COMPLETION = """\
exit codes:
  0  the script is printed
  2  usage: the request makes no sense, or stdout could not be written
"""

EXIT_CODES_OF_DEMO = """\
exit codes:
  0  the example was analysed, and its anomaly found
  2  usage: the request makes no sense, or the example or the report could not be written
"""

_SUFFIXES = {
    ".json": Format.JSON,
    ".md": Format.MARKDOWN,
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".txt": Format.TEXT,
    ".log": Format.TEXT,
    "": Format.TEXT,
}
_MOST_AROUND = 1000
_WIDTH = 80
"""Columns of help where there is no terminal."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal. argparse makes one for every argument, and would load a package each time to ask."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


@cache
def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS", "")) or _WIDTH
    except ValueError:
        pass
    try:
        return os.get_terminal_size().columns or _WIDTH
    except OSError:
        return _WIDTH


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The chosen command and its options; ``firstnan PATH`` means ``firstnan analyze PATH``.

    A path that is a command's name, or is misspelt like one, needs ``analyze``.

    Raises:
        SystemExit: the arguments make no sense, or ask for help or the version.
    """
    made, commands = _parser()
    first = next(iter(arguments), "")
    if first and first not in commands and first not in _OWN_OPTIONS and not _is_misspelt(first, commands):
        return made.parse_args(["analyze", *arguments])
    return made.parse_args(arguments)


_OWN_OPTIONS = ("-h", "--help", "--version")
"""Options of the program itself."""


def _is_misspelt(word: str, commands: Collection[str]) -> bool:
    """Whether a word means a command and not a path."""
    if Path(word).exists():
        return False
    import difflib

    return bool(difflib.get_close_matches(word, commands, cutoff=0.75))


def parser() -> argparse.ArgumentParser:
    """The parser of ``firstnan``; the chosen command stands in ``command``."""
    return _parser()[0]


def _parser() -> tuple[argparse.ArgumentParser, Collection[str]]:
    """The parser, and the names of its commands."""
    made = argparse.ArgumentParser(
        prog="firstnan",
        description="Find the rank, the operator and the line of code where NaN or Inf began, from MSProbe dumps.",
        usage="firstnan [-h] [--version] COMMAND ...\n       firstnan PATH ...   (means firstnan analyze PATH ...)",
        epilog=EXIT_CODES,
        formatter_class=_Help,
    )
    made.add_argument("--version", action="version", version=f"firstnan {__version__}")
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True, prog="firstnan")

    analyze = _command(commands, "analyze", "everything: which rank, which operator, which line of code, and why")
    _input(analyze)
    _reading(analyze)
    _showing(analyze, [form for form in Format if form is not Format.MISSION])

    ranks = _command(
        commands,
        "ranks",
        "step 1 alone: source, propagated and normal ranks of every affected communication call",
        f"-o {CROSS_RANK_FILE} (or --format mission) writes that file: per call source_ranks, propagated_ranks,\n"
        "normal_ranks and total_ranks. --format json is the whole report.",
    )
    _input(ranks)
    _reading(ranks)
    _showing(ranks, list(Format), CROSS_RANK_FILE)

    agree = _command(
        commands,
        "agree",
        "whether ranks that should hold the same numbers do: parameters, communication, operators",
        "analyze says the same in one of its sections.",
        EXIT_CODES_OF_AGREE,
    )
    _input(agree)
    _reading(agree)
    _showing(agree, [Format.TEXT, Format.MARKDOWN, Format.JSON, Format.HTML])

    trace = _command(
        commands,
        "trace",
        "step 2 alone: the first anomalous operator on one rank, its call chain and its code location",
        f"-o {SINGLE_RANK_FILE} (or --format mission) writes that file: rank and first_anomaly with op_name,\n"
        "exec_order, output, input_info, construct_chain and stack_info. --format json is the whole report.",
    )
    _input(trace)
    _rank(trace)
    _reading(trace, ranks=False)
    _showing(trace, list(Format), SINGLE_RANK_FILE)

    scan = _command(
        commands,
        "scan",
        "first of two stages: look at the ranks of this host and write what merge needs, some KB for each",
        "Run it on every host over its own ranks, copy the part files to one place, and merge them there.",
        EXIT_CODES_OF_SCAN,
    )
    _input(scan)
    scan.add_argument("-o", "--output", type=Path, metavar="FILE", help="the part file (default: stdout)")
    scan.add_argument(
        "--others",
        type=Path,
        nargs="+",
        default=[],
        metavar="PART",
        help="part files of the other hosts: answer what merging will ask of the ranks here",
    )
    _reading(scan)
    _language(scan)

    merge = _command(commands, "merge", "second of two stages: one report from the part files of all hosts")
    merge.add_argument("parts", type=Path, nargs="+", metavar="PART", help="files that 'firstnan scan' wrote")
    merge.add_argument("--jobs", type=_jobs, metavar="N", help="processes where files are read again")
    _showing(merge, [form for form in Format if form is not Format.MISSION], CROSS_RANK_FILE)

    show = _command(commands, "show", "look at the records around one place", exit_codes=EXIT_CODES_OF_SHOW)
    _input(show)
    _rank(show)
    show.add_argument("--step", type=_whole_number, metavar="N", help="the step (default: the first one)")
    place = show.add_mutually_exclusive_group()
    place.add_argument("--op", metavar="NAME", help="the record with this name")
    place.add_argument("--at", type=_whole_number, metavar="INDEX", help="the record with this index, counted from 0")
    show.add_argument("--around", type=_around, default=5, metavar="K", help="records before and after it (default: 5)")
    _words(show)

    compare = _command(
        commands,
        "compare",
        "a good and a bad run of one program, or two steps: where their numbers first leave each other",
        exit_codes=EXIT_CODES_OF_COMPARE,
    )
    compare.add_argument("a", type=Path, metavar="A", help="the good run, or the earlier step")
    compare.add_argument("b", type=Path, metavar="B", help="the bad run, or the later step")
    compare.add_argument(
        "--noise", type=Path, metavar="C", help="a second good run: what it differs from A by is no difference"
    )
    compare.add_argument("--step", type=_numbers, metavar="LIST", help="only these steps")
    compare.add_argument("--ranks", type=_numbers, metavar="LIST", help="only these ranks")
    compare.add_argument("--jobs", type=_jobs, metavar="N", help="processes (default: the cores available)")
    compare.add_argument(
        "--format",
        choices=[Format.TEXT.value, Format.JSON.value, Format.HTML.value],
        help="form of the answer (default: from the name of the output file, else text)",
    )
    compare.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write there in place of stdout; never inside a dump"
    )
    _words(compare)

    watch = _command(
        commands,
        "watch",
        "follow a run that writes its dump: one line a step, and the report at the first anomaly",
        "An anomaly that the loss scaler may have skipped is final when the next step has shown that it was none.",
    )
    watch.add_argument("path", type=Path, metavar="DIR", help="the folder that the run writes step*/rank* into")
    watch.add_argument("--html", type=Path, metavar="FILE", help="a page that is renewed after each step")
    watch.add_argument(
        "--world", type=_whole_number, metavar="N", help="ranks of the run (default: the most of any step)"
    )
    _waiting(watch)
    watch.add_argument("--rules", type=Path, metavar="FILE", help="a rules file that adds to or overrides the default")
    watch.add_argument("--jobs", type=_jobs, metavar="N", help="processes (default: the cores available)")
    _showing(watch, [Format.TEXT, Format.MARKDOWN, Format.JSON])

    replay = _command(
        commands,
        "replay",
        "run the suspect records again on the CPU: numerics, dtype, or device (extra: firstnan[replay])",
        "Needs the tensors of the records (task 'tensor'); without them it prints the configuration that dumps them.",
        EXIT_CODES_OF_REPLAY,
    )
    _input(replay)
    _replay(replay)
    _reading(replay, ranks=False)
    _showing(replay, [form for form in Format if form is not Format.MISSION])

    rules = _command(
        commands,
        "rules",
        "print the rules in force: what is benign, carries, absorbs, masks",
        exit_codes=EXIT_CODES_OF_RULES,
    )
    rules.add_argument("--rules", type=Path, metavar="FILE", help="a rules file that adds to or overrides the default")
    _language(rules)

    schema = _command(commands, "schema", "print the JSON Schema of the report", exit_codes=EXIT_CODES_OF_SCHEMA)
    _language(schema)

    completion = _command(
        commands,
        "completion",
        "print the script that makes a shell complete commands and options",
        'bash: eval "$(firstnan completion bash)"   zsh: eval "$(firstnan completion zsh)"\n'
        "fish: firstnan completion fish | source",
        EXIT_CODES_OF_COMPLETION,
    )
    completion.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell")
    _language(completion)

    demo = _command(
        commands, "demo", "analyse the example dump that comes with firstnan", exit_codes=EXIT_CODES_OF_DEMO
    )
    demo.add_argument("--to", type=Path, metavar="FOLDER", help="unpack the example there and keep it")
    demo.add_argument(
        "--format", choices=["text", "markdown", "json"], default="text", help="form of the report (default: text)"
    )
    _words(demo)
    return made, commands.choices


def options(arguments: argparse.Namespace) -> Options:
    """What the pipeline takes, from the arguments of a command that reads a dump."""
    return Options(
        steps=_merged(arguments.step),
        ranks=_merged(getattr(arguments, "ranks", None)),
        rules=arguments.rules,
        exclude_ops=tuple(arguments.exclude_op),
        jobs=arguments.jobs,
        engine=EngineKind(arguments.engine),
        ray_address=arguments.ray_address,
        node_local=arguments.node_local,
    )


def form(arguments: argparse.Namespace) -> Format:
    """The form asked for; without ``--format`` the name of the output file tells it.

    ``cross_rank_analysis.json`` and ``single_rank_trace.json`` are the mission's forms for the commands ranks and
    trace; ``.json``, ``.md`` and ``.html`` say what they are; ``.txt``, ``.log`` and no suffix are text.

    Raises:
        UsageError: another suffix.
    """
    if arguments.format is not None:
        return Format(arguments.format)
    target: Path | None = arguments.output
    if target is None:
        return Format.TEXT
    if (arguments.command, target.name) in (("ranks", CROSS_RANK_FILE), ("trace", SINGLE_RANK_FILE)):
        return Format.MISSION
    suffix = target.suffix.lower()
    if suffix not in _SUFFIXES and (target.is_file() or not target.exists()):
        known = ", ".join(one for one in _SUFFIXES if one)
        raise UsageError(f"'{target}': no form of report has the suffix {suffix}", hint=f"known: {known}; or --format")
    return _SUFFIXES.get(suffix, Format.TEXT)


_Commands = argparse._SubParsersAction  # the type has no public name


def _command(
    commands: _Commands[argparse.ArgumentParser],
    name: str,
    summary: str,
    epilog: str = "",
    exit_codes: str = EXIT_CODES,
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"{epilog}\n\n{exit_codes}" if epilog else exit_codes,
        formatter_class=_Help,
    )


def _input(command: argparse.ArgumentParser) -> None:
    words = "dump root, step folder, rank folder, or an archive of one; several: parts of one dump, of hosts or ranks"
    command.add_argument("path", type=Path, nargs="+", metavar="PATH", help=words)


def _rank(command: argparse.ArgumentParser) -> None:
    words = "the rank (not needed when PATH holds one rank only)"
    command.add_argument("--rank", type=_whole_number, metavar="N", help=words)


def _replay(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("what is run")
    group.add_argument("--rank", type=_whole_number, metavar="R", help="the rank of --op or --all")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--op", metavar="NAME", help="this record alone (default: the records of every cause)")
    which.add_argument("--all", action="store_true", help="every record of the rank, or of every rank")
    group.add_argument(
        "--budget", type=_duration, metavar="TIME", help="stop after this time, such as 30s or 10m (with --all: 10m)"
    )
    group.add_argument(
        "--repro", type=Path, metavar="DIR", help="write repro.py and the record's inputs there, to run on a device"
    )


def _reading(command: argparse.ArgumentParser, *, ranks: bool = True) -> None:
    group = command.add_argument_group("what is read")
    group.add_argument(
        "--step",
        type=_numbers,
        action="append",
        metavar="LIST",
        help="only these steps, such as 3 or 0-4,7; may be repeated",
    )
    if ranks:
        group.add_argument(
            "--ranks",
            type=_numbers,
            action="append",
            metavar="LIST",
            help="only these ranks, such as 0-7,9; may be repeated",
        )
    group.add_argument("--rules", type=Path, metavar="FILE", help="a rules file that adds to or overrides the default")
    group.add_argument(
        "--exclude-op",
        action="append",
        default=[],
        metavar="NAME",
        help="reject an answer and get the next: a record name, or rank:record name; may be repeated",
    )
    group.add_argument(
        "--jobs", type=_jobs, metavar="N", help="processes, or tasks at a time (default: the cores available)"
    )
    group.add_argument(
        "--engine",
        choices=[kind.value for kind in EngineKind],
        default=EngineKind.LOCAL.value,
        help="where ranks are read: processes here, or a running Ray cluster (default: local)",
    )
    group.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help="the Ray cluster, HOST:PORT; 'local' starts one here (default: RAY_ADDRESS, or the one that runs here)",
    )
    group.add_argument(
        "--node-local",
        action="store_true",
        help="every node of the Ray cluster has rank folders of its own at PATH, and reads them",
    )


def _showing(command: argparse.ArgumentParser, forms: Sequence[Format], mission_file: str = "") -> None:
    group = command.add_argument_group("how it is shown")
    group.add_argument(
        "--format",
        choices=[known.value for known in forms],
        help="form of the report (default: from the name of the output file, else text)",
    )
    group.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write there in place of stdout; never inside the dump"
    )
    if mission_file:
        group.add_argument(
            "--mission-file", type=Path, metavar="FILE", help=f"besides, write what {mission_file} holds there"
        )
    group.add_argument(
        "--write-config",
        type=Path,
        metavar="FILE",
        help="besides, write MSProbe's config.json for a dump of exactly what the answer leaves open",
    )
    group.add_argument("--redact", action="store_true", help="leave out source lines and absolute paths")
    _words(command)


def _waiting(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("how long it waits (seconds)")
    group.add_argument("--interval", type=_seconds, default=2.0, metavar="S", help="between two looks (default: 2)")
    group.add_argument(
        "--settle", type=_seconds, default=10.0, metavar="S", help="files count as finished after this (default: 10)"
    )
    group.add_argument(
        "--timeout",
        type=_seconds,
        default=600.0,
        metavar="S",
        help="without a change: absent ranks count as absent, and a run without a new step as ended (default: 600)",
    )


def _language(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--lang", choices=[language.value for language in Language], help="language (default: from the locale)"
    )


def _words(command: argparse.ArgumentParser) -> None:
    _language(command)
    command.add_argument("-v", "--verbose", action="store_true", help="lists in full length, the whole stack")


def _merged(lists: Sequence[tuple[int, ...]] | None) -> tuple[int, ...] | None:
    return None if lists is None else tuple(sorted({number for numbers in lists for number in numbers}))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return parse_ranges(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _whole_number(text: str) -> int:
    numbers = _numbers(text)
    if len(numbers) != 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not one number")
    return numbers[0]


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds")
    return found


def _jobs(text: str) -> int:
    count = _whole_number(text)
    if not 1 <= count <= 4096:
        raise argparse.ArgumentTypeError("at least 1 and at most 4096")
    return count


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def _duration(text: str) -> float:
    number, unit = (text[:-1], text[-1:]) if text[-1:] in _UNITS else (text, "s")
    if not number.isascii() or not number.isdigit() or not int(number) or len(number) > 6:
        raise argparse.ArgumentTypeError(f"'{text}' is no time such as 30s, 10m or 1h")
    return int(number) * _UNITS[unit]


def _around(text: str) -> int:
    count = _whole_number(text)
    if count > _MOST_AROUND:
        raise argparse.ArgumentTypeError(f"at most {_MOST_AROUND}")
    return count
