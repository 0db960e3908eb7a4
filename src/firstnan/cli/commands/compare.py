"""``firstnan compare``: a good and a bad run of one program, or two steps."""

from __future__ import annotations

import argparse

from msgspec.structs import replace

from firstnan.cli import parser
from firstnan.cli.commands import Terminal
from firstnan.cli.output import check_target, write_whole
from firstnan.dump.options import Options
from firstnan.dump.printable import printable
from firstnan.show.reporter import Format
from firstnan.words import Words, text


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Shows the first difference; the exit code says whether there is one."""
    from firstnan.run.compare import compare
    from firstnan.show.comparison import render

    form, target = parser.form(arguments), arguments.output
    if target is not None and str(target) != "-":
        for path in (arguments.a, arguments.b, arguments.noise):
            if path is not None:
                check_target(target, path)
    options = Options(steps=arguments.step, ranks=arguments.ranks, jobs=arguments.jobs)
    found = compare(arguments.a, arguments.b, arguments.noise, options)
    content = render(found, form, replace(terminal.settings, verbose=arguments.verbose))
    if target is None or str(target) == "-":
        terminal.put(content, is_text=form is Format.TEXT)
    else:
        write_whole(target, content.encode("utf-8"))
        terminal.say(text("output.written", terminal.language, file=Words(printable(str(target)))))
    return found.exit_code
