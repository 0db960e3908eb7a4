"""Analyse the example dump that comes with firstnan."""

from __future__ import annotations

import argparse
from pathlib import Path

from firstnan.cli.arguments import add_words
from firstnan.cli.delivery import language_of, read
from firstnan.cli.output import check_folder
from firstnan.cli.terminal import colour, program, put, say, width
from firstnan.dump.errors import OutputError, UsageError
from firstnan.dump.options import Options
from firstnan.dump.printable import printable
from firstnan.show import Format, Settings, render
from firstnan.words import Words, text

EXIT_CODES = """\
exit codes:
  0  the example was analysed, and its anomaly found
  2  usage error, or the example or the report could not be written
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="unpack the example into FOLDER and keep it")
    parser.add_argument(
        "--format", choices=["text", "markdown", "json"], default="text", help="format of the report (default: text)"
    )
    add_words(parser)


def run(chosen: argparse.Namespace) -> int:
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

    language = language_of(chosen)
    try:
        path = demo.unpack(folder)
    except OSError as error:
        raise OutputError(f"the example could not be written to '{folder}': {error.strerror or error}") from error
    called = "" if chosen.to is None else program()  # an example that is not kept cannot be asked again
    settings = Settings(language=language, verbose=chosen.verbose, width=width(), colour=colour(), program=called)
    form = Format(chosen.format)
    report = read(path, settings, Options())
    say(text("demo.what", language))
    say(text("demo.ran", language, command=Words(f"firstnan analyze {printable(str(path))}")))
    if chosen.to is None:
        say(text("demo.keep", language))
    say("")
    put(render(report, form, settings), is_text=form is Format.TEXT)
    return 0
