"""Makes the generated pages of the documentation: the gallery of real reports, and the schema of the report.

``python tools/build_gallery.py FOLDER`` writes them below FOLDER; the documentation takes them from :func:`files` while
it is built (``docs/hooks.py``). Nothing of it is committed: what the pages show is what the program says today about

- ``examples/dp2-tp2`` and ``examples/small/*``, dumps of small programs, shown with their source;
- ``tests/data/own/*.tar.gz``, dumps of small real models, shown with the truth that was put in.
"""

from __future__ import annotations

import ast
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

import firstnan
from firstnan.answer.model import Report
from firstnan.answer.schema import json_schema
from firstnan.dump.language import Language
from firstnan.dump.ranges import format_ranges
from firstnan.show import Format, Settings, render
from firstnan.show.json import dumps
from firstnan.words import Words, text

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "dp2-tp2"
SMALL = ROOT / "examples" / "small"
OWN = ROOT / "tests" / "data" / "own"
PROGRAMS = SMALL / "programs"
FENCE = "``````"
"""Longer than any fence inside a report."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One dump of the gallery."""

    name: str
    shown: str
    """The path as a reader of the page would type it."""
    what: str
    """What was put in, in words."""
    program: str
    """The program that was dumped; empty for the larger ones."""
    report: Report


def entries() -> Iterator[Entry]:
    """Every dump with its report: the example, the small programs, the real models."""
    what = "Four ranks, data parallel 2, tensor parallel 2. On rank 2 a gate computes `exp(s)` of far too large an `s`."
    yield _entry(EXAMPLE, EXAMPLE.name, _below_root(EXAMPLE), what)
    for folder in sorted(path for path in SMALL.iterdir() if path.is_dir() and path != PROGRAMS):
        program = (PROGRAMS / f"{folder.name}.py").read_text("utf-8")
        yield _entry(folder, folder.name, _below_root(folder), ast.get_docstring(ast.parse(program)) or "", program)
    with tempfile.TemporaryDirectory(prefix="firstnan-gallery-") as place:
        for packed in sorted(OWN.glob("*.tar.gz")):
            with tarfile.open(packed) as archive:
                archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
                archive.extractall(place)
            name = packed.name.removesuffix(".tar.gz")
            folder = Path(place) / name
            truth = json.loads((folder / "truth.json").read_text("utf-8"))
            (folder / "truth.json").unlink()
            yield _entry(folder, name, name, _truth(truth))


def _entry(folder: Path, name: str, shown: str, what: str, program: str = "") -> Entry:
    report = firstnan.analyze(folder, firstnan.Options(jobs=1))
    return Entry(name, shown, what, program, replace(report, input=replace(report.input, path=shown)))


def _below_root(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _truth(truth: Mapping[str, object]) -> str:
    """What was put into a dump, from its ``truth.json``, in words."""
    setup, roots = truth["setup"], truth["root_causes"]
    assert isinstance(setup, dict)
    assert isinstance(roots, list)
    model = f"{setup['model']}, {setup['topology']}, {setup['world']} ranks, {setup['dtype']}, level {setup['level']}"
    parts = [f"Model {model}."]
    for root in roots:
        place = f"`{root['op_names'][0]}`" if root["op_names"] else "no record that could be read"
        parts.append(f"Put in: rank {root['rank']}, {place}, {root['where']}, {root['mechanism']}.")
    if not roots:
        benign = ", ".join(setup["benign_kinds"])
        parts.append(f"Nothing was put in that matters ({benign}).")
    if truth["notes"]:
        parts.append(f"{truth['notes']}.")
    return " ".join(parts)


def headline(entry: Entry, language: Language = Language.EN) -> str:
    """The first line of the report on one line."""
    shown = render(entry.report, Format.TEXT, Settings(language=language, width=10_000))
    return shown.splitlines()[0]


def page(entry: Entry) -> str:
    """The page of one dump."""
    parts = [f"# {entry.name}", entry.what]
    if entry.program:
        parts += ["## The program", _fenced("python", entry.program)]
    parts.append(
        f"## The report\n\nThe same report as a page: [{entry.name}.html](reports/{entry.name}.html), as "
        f"[JSON](reports/{entry.name}.json), as a [trace](reports/{entry.name}.trace.json) for Perfetto."
    )
    parts += [
        _fenced("console", f"$ firstnan analyze {entry.shown}{lang}\n" + render(entry.report, Format.TEXT, settings))
        for lang, settings in (("", Settings()), (" --lang zh", Settings(language=Language.ZH)))
    ]
    markdown = render(entry.report, Format.MARKDOWN, Settings())
    parts.append("## As Markdown, for a ticket\n\n" + _fenced("markdown", markdown))
    return "\n\n".join(parts) + "\n"


def _fenced(kind: str, content: str) -> str:
    return f"{FENCE}{kind}\n{content.rstrip()}\n{FENCE}"


def index(shown: list[Entry]) -> str:
    """The list of all dumps."""
    lines = [
        "# Gallery of real reports",
        "Every dump was written by MSProbe while the program ran; the reports are made anew whenever this site is "
        "built. The page of a dump shows the report in English and Chinese, as a page, as JSON, as a trace and as "
        "Markdown.",
    ]
    groups = (
        ("The example", [e for e in shown if e.name == EXAMPLE.name]),
        ("Small programs, one fault each", [e for e in shown if e.program]),
        ("Real models with a fault put in", [e for e in shown if not e.program and e.name != EXAMPLE.name]),
    )
    for title, group in groups:
        rows = [f"| [{e.name}]({e.name}.md) | {_ranks(e.report)} | {headline(e)} |" for e in group]
        lines += [f"## {title}", "\n".join(["| dump | ranks | first line of the report |", "|---|---|---|", *rows])]
    return "\n\n".join(lines) + "\n"


def _ranks(report: Report) -> str:
    return format_ranges(report.input.ranks)


def schema_page() -> str:
    """The schema of the report: a table per part, and the whole."""
    schema = json_schema()
    parts = [
        "# Schema of the report",
        "What `firstnan analyze --format json` writes, as `firstnan schema` prints it. Non-finite numbers are the "
        'strings `"NaN"`, `"Infinity"` and `"-Infinity"`; the document is strict JSON.',
        "## The report",
        _fields(schema),
    ]
    for name, part in schema["$defs"].items():
        if "properties" in part:
            parts += [f"## {name}", part.get("description", ""), _fields(part)]
    parts += [
        "## The whole schema",
        '??? note "JSON Schema, draft 2020-12"\n\n' + _indented(_fenced("json", dumps(schema))),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _fields(part: Mapping[str, object]) -> str:
    properties = part["properties"]
    assert isinstance(properties, dict)
    rows = [
        f"| `{name}` | {_type(field)} | {_cell(field.get('description', ''))} |" for name, field in properties.items()
    ]
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])


def _type(field: Mapping[str, object]) -> str:
    """A field's type on one line, such as ``list of cause`` or ``anomaly, clean, unknown``."""
    if "$ref" in field:
        name = str(field["$ref"]).rsplit("/", 1)[-1]
        part = json_schema()["$defs"][name]
        return f"[{name}](#{name.lower()})" if "properties" in part else _type(part) if "enum" in part else name
    if "const" in field:
        return f"`{field['const']}`"
    choices = field.get("enum")
    if isinstance(choices, list):
        return ", ".join(f"`{choice}`" for choice in choices)
    either = field.get("anyOf")
    if isinstance(either, list):
        return " or ".join(_type(choice) for choice in either)
    items = field.get("items")
    if isinstance(items, dict):
        return f"list of {_type(items)}"
    kind = field.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _cell(words: object) -> str:
    return str(words).replace("|", "\\|").replace("\n", " ")


def _indented(block: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in block.splitlines())


def files() -> Iterator[tuple[str, str]]:
    """Every generated file: its path below the documentation's folder, and its content."""
    shown = list(entries())
    for entry in shown:
        yield f"gallery/{entry.name}.md", page(entry)
        for suffix, form in ((".html", Format.HTML), (".json", Format.JSON), (".trace.json", Format.TRACE)):
            yield f"gallery/reports/{entry.name}{suffix}", render(entry.report, form, Settings())
    yield "gallery/index.md", index(shown)
    yield "report-schema.md", schema_page()


def main(arguments: list[str]) -> int:
    """Write everything below the folder; gives the exit code."""
    if len(arguments) != 1:
        print(__doc__)
        return 2
    target = Path(arguments[0])
    for name, content in files():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
    print(text("output.written", Language.EN, file=Words(str(target))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
