"""Arguments that several commands share, and what the pipeline and the reporters take of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from firstnan.dump.errors import UsageError
from firstnan.dump.language import Language
from firstnan.dump.options import EngineKind, Options
from firstnan.dump.ranges import parse_ranges
from firstnan.show import Format
from firstnan.show.reporter import CROSS_RANK_FILE, SINGLE_RANK_FILE

_SUFFIXES = {
    ".json": Format.JSON,
    ".md": Format.MARKDOWN,
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".txt": Format.TEXT,
    ".log": Format.TEXT,
    "": Format.TEXT,
}
REPORT_EXIT_CODES = """\
exit codes:
  0  clean and complete
  1  an anomaly was found, or ranks differ that should be equal
  2  usage error, or the report could not be written
  3  nothing readable at the path
  4  undecided: nothing could be judged, or clean but not complete
"""
"""Of commands that end with what a report says."""
_MOST_AROUND = 1000


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
        first=getattr(arguments, "first", False),
    )


def form(arguments: argparse.Namespace) -> Format:
    """The form asked for; without ``--format`` the name of the output file tells it.

    ``cross_rank_analysis.json`` and ``single_rank_trace.json`` are the files that skills/nan-overflow-detection wants
    of the commands ranks and trace; ``.json``, ``.md`` and ``.html`` say what they are; ``.txt``, ``.log`` and no
    suffix are text.

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


def add_input(command: argparse.ArgumentParser) -> None:
    words = "dump root, step folder or rank folder, or an archive of it; several paths are parts of one dump"
    command.add_argument("path", type=Path, nargs="+", metavar="PATH", help=words)


def add_rank(command: argparse.ArgumentParser) -> None:
    words = "the rank (not needed when PATH holds one rank only)"
    command.add_argument("--rank", type=whole_number, metavar="N", help=words)


def add_reading(command: argparse.ArgumentParser, *, ranks: bool = True) -> None:
    group = command.add_argument_group("input options")
    group.add_argument(
        "--step",
        type=numbers,
        action="append",
        metavar="LIST",
        help="only these steps, such as 3 or 0-4,7; may be repeated",
    )
    if ranks:
        group.add_argument(
            "--ranks",
            type=numbers,
            action="append",
            metavar="LIST",
            help="only these ranks, such as 0-7,9; may be repeated",
        )
    group.add_argument(
        "--rules",
        type=Path,
        metavar="FILE",
        help="your rules: they add to the default ones, or replace those of the same name",
    )
    group.add_argument(
        "--exclude-op",
        action="append",
        default=[],
        metavar="NAME",
        help="rule this record out as the cause and get the next candidate: NAME, or RANK:NAME; may be repeated",
    )
    group.add_argument(
        "--jobs", type=jobs, metavar="N", help="how many processes or tasks run at once (default: the cores available)"
    )
    group.add_argument(
        "--engine",
        choices=[kind.value for kind in EngineKind],
        default=EngineKind.LOCAL.value,
        help="what reads the ranks: processes on this machine, or a Ray cluster (default: local)",
    )
    group.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help="the Ray cluster, HOST:PORT; 'local' starts one here (default: RAY_ADDRESS, or the one that runs here)",
    )
    group.add_argument(
        "--node-local",
        action="store_true",
        help="each node of the Ray cluster reads the rank folders that it has at PATH",
    )


def add_showing(command: argparse.ArgumentParser, forms: Sequence[Format], mission_file: str = "") -> None:
    group = command.add_argument_group("output options")
    group.add_argument(
        "--format",
        choices=[known.value for known in forms],
        help="format of the report (default: by the suffix of the output file, else text)",
    )
    group.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write to FILE instead of stdout; never inside the dump"
    )
    if mission_file:
        group.add_argument("--mission-file", type=Path, metavar="FILE", help=f"also write {mission_file} to FILE")
    group.add_argument(
        "--write-config",
        type=Path,
        metavar="FILE",
        help="also write the MSProbe config.json that dumps what the answer still lacks",
    )
    group.add_argument("--redact", action="store_true", help="leave out source lines and absolute paths")
    add_words(command)


def add_language(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--lang", choices=[language.value for language in Language], help="language (default: from the locale)"
    )


def add_words(command: argparse.ArgumentParser) -> None:
    add_language(command)
    command.add_argument("-v", "--verbose", action="store_true", help="show lists in full, and the whole stack")


def _merged(lists: Sequence[tuple[int, ...]] | None) -> tuple[int, ...] | None:
    return None if lists is None else tuple(sorted({number for numbers in lists for number in numbers}))


def numbers(text: str) -> tuple[int, ...]:
    try:
        return parse_ranges(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def whole_number(text: str) -> int:
    found = numbers(text)
    if len(found) != 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not one number")
    return found[0]


def seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds")
    return found


def jobs(text: str) -> int:
    count = whole_number(text)
    if not 1 <= count <= 4096:
        raise argparse.ArgumentTypeError("at least 1 and at most 4096")
    return count


def around(text: str) -> int:
    count = whole_number(text)
    if count > _MOST_AROUND:
        raise argparse.ArgumentTypeError(f"at most {_MOST_AROUND}")
    return count
