"""Print the JSON Schema of the report."""

from __future__ import annotations

import argparse

from firstnan.cli.arguments import add_language
from firstnan.cli.terminal import put

EXIT_CODES = """\
exit codes:
  0  the schema is printed
  2  usage error, or stdout could not be written
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_language(parser)


def run(_: argparse.Namespace) -> int:
    from firstnan.answer.schema import json_schema
    from firstnan.show.json import dumps

    put(dumps(json_schema()), is_text=False)
    return 0
