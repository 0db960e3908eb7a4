"""What the documentation shows is what the program does, and every state and command has its place there."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
import shlex
import sys
from argparse import ArgumentParser, _SubParsersAction
from pathlib import Path
from types import ModuleType

import command_pages
import pytest

import firstnan
from firstnan.answer.model import Confidence, MechanismKind, RankState, Report, Verdict, Where
from firstnan.cli import commands
from firstnan.cli.arguments import REPORT_EXIT_CODES
from firstnan.cli.parser import parser
from firstnan.dump.problems import ProblemKind
from firstnan.operators.table import OperatorKind
from firstnan.show.json import dumps

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SMALL = ROOT / "examples" / "small"
CHINESE = (
    "index.md",
    "quick-start.md",
    "verdicts.md",
    "mechanisms.md",
    "agree.md",
    "clusters.md",
    "commands.md",
    "packed.md",
    "collecting.md",
    "recording.md",
    "replay.md",
)
ANALYSED = [kind for kind in MechanismKind if kind is not MechanismKind.DEVICE_FAULT]
"""Mechanisms that the analysis finds; the other one needs torch (tests/replaying)."""
PLACES = {
    "before_dump": Where.BEFORE_DUMP,
    "cast_not_recorded": Where.UNDUMPED_OPERATOR,
    "exp_overflow": Where.OPERATOR,
    "bad_input": Where.INPUT_DATA,
    "bad_parameter": Where.PARAMETER,
    "missing_rank": Where.MISSING_RANK,
    "reduction_overflow": Where.COMMUNICATION,
    "transient": Where.FIRST_RUN,
}


def tool(name: str) -> ModuleType:
    """A program of ``tools/`` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


docs_output = tool("docs_output")
build_gallery = tool("build_gallery")
PAGES = [path.relative_to(DOCS).as_posix() for path in docs_output.pages()]


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def commands_of_the_program() -> dict[str, ArgumentParser]:
    (action,) = (a for a in parser()._actions if isinstance(a, _SubParsersAction))
    return dict(action.choices)


def analysed(name: str) -> Report:
    return firstnan.analyze(SMALL / name, firstnan.Options(jobs=1))


# --- what is shown ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in PAGES if docs_output.commands(page(name))])
def test_shown_output_is_real(name: str) -> None:
    shown = page(name)
    assert shown == docs_output.renewed(shown), "'make readme' renews the output"


@pytest.mark.parametrize("name", PAGES)
def test_what_a_filter_selects_is_there(name: str) -> None:
    """A title that was renamed would leave an empty block behind."""
    for block in docs_output.BLOCK.finditer(page(name)):
        lines = [line.strip() for line in block["session"].splitlines()]
        for line, following in zip(lines, [*lines[1:], "$ "], strict=True):
            if line.startswith("$ firstnan") and " | " in line:
                assert not following.startswith("$ "), line


@pytest.mark.parametrize("name", PAGES)
def test_shown_commands_can_be_parsed(name: str) -> None:
    sh = re.findall(r"^```sh\n(.*?)^```", page(name), re.MULTILINE | re.DOTALL)
    lines = [*docs_output.commands(page(name)), *(line for block in sh for line in block.splitlines())]
    for line in lines:
        words = shlex.split(re.split(r"[|;>]|2>", line)[0], comments=True)
        if words[:1] == ["firstnan"] and "--version" not in words:
            parser().parse_args(words[1:])


def test_python_examples_are_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testfile(str(DOCS / "python-api.md"), module_relative=False, encoding="utf-8")
    assert tried
    assert not failed


def test_a_session_of_several_lines_is_read_as_the_shell_gets_it() -> None:
    shown = "```console\n$ cat > x <<'END'\n> a\n>\n> END\n$ cat x; false\na\n\n$ echo $?\n1\n```"
    assert docs_output.commands(shown) == ["cat > x <<'END'\na\n\nEND", "cat x; false", "echo $?"]
    assert docs_output.outputs(docs_output.commands(shown)) == ["", "a\n\n", "1\n"]


# --- what has to be there ---------------------------------------------------------------------------


LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")


@pytest.mark.parametrize("name", [*PAGES, "report-schema.md"])
def test_links_lead_somewhere_on_a_code_host(name: str) -> None:
    """Every target is a file or folder of the repository, every part of a page one of its headings."""
    here = DOCS / name
    for target, anchor in LINK.findall(page(name)):
        if "://" in target:
            continue
        path = (here.parent / target).resolve() if target else here
        assert path.exists(), target
        assert path.is_relative_to(ROOT), target
        if anchor and path.suffix == ".md":
            assert anchor[1:] in _anchors(path), f"{target}{anchor}"


def _anchors(path: Path) -> set[str]:
    text = path.read_text("utf-8")
    named = set(re.findall(r'<a id="([\w-]+)"></a>', text))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return named | {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere_in_the_site(name: str, generated: dict[str, str]) -> None:
    """What the site's build makes of a link is a page, or a file of the documentation."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    shown = hooks.in_site(page(name), name)
    for target, _ in LINK.findall(shown):
        if target and "://" not in target:
            path = (DOCS / name).parent.joinpath(target).resolve()
            inside = path.relative_to(DOCS).as_posix()
            assert path.exists() or inside in generated, target


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    assert [name for name in PAGES if f"- {name}\n" not in f"{navigation}\n"] == []


@pytest.mark.parametrize("name", commands.NAMES)
def test_a_page_of_a_command_shows_its_help(name: str) -> None:
    assert page(f"commands/{name}.md") == command_pages.page(name), "renew it: python tools/command_pages.py"
    assert f"[{name}]({name}.md)" in page("commands/index.md")


def test_every_state_is_explained() -> None:
    for name, states in (
        ("concepts/verdicts.md", [*Verdict, *Confidence, *ProblemKind]),
        ("concepts/rank-states.md", [*RankState]),
        ("concepts/where.md", [*Where]),
        ("concepts/mechanisms.md", [*MechanismKind]),
        ("concepts/benign.md", [*OperatorKind]),
        ("zh/verdicts.md", [*Verdict, *Confidence, *RankState, *Where]),
        ("zh/mechanisms.md", [*MechanismKind]),
    ):
        shown = page(name)
        missing = [state.value for state in states if not re.search(rf"\b{state.value}\b", shown)]
        assert missing == [], name


@pytest.mark.parametrize("name", ["concepts/verdicts.md", "zh/verdicts.md"])
def test_every_exit_code_is_told(name: str) -> None:
    codes = re.findall(r"^  (\d+)  ", REPORT_EXIT_CODES, re.MULTILINE)
    assert [code for code in codes if f"| {code} |" not in page(name)] == []


def test_the_chinese_pages_are_there_and_show_the_same_mechanisms() -> None:
    assert sorted(path.name for path in (DOCS / "zh").glob("*.md")) == sorted(CHINESE)

    def sections(name: str) -> list[str]:
        return re.findall(r"^\$ firstnan analyze examples/small/(\w+)", page(name), re.MULTILINE)

    assert sections("concepts/mechanisms.md") == sections("zh/mechanisms.md") == [kind.value for kind in ANALYSED]


@pytest.mark.parametrize("path", sorted(SMALL.rglob("*.json")) + [DOCS / name for name in PAGES], ids=lambda p: p.name)
def test_no_path_of_a_machine_is_in_it(path: Path) -> None:
    found = re.findall(r"/(?:root|tmp|work|Users|home)/[\w./-]*", path.read_text("utf-8"))
    assert [place for place in found if not place.startswith("/home/you/")] == []


# --- the examples -----------------------------------------------------------------------------------


def test_every_example_has_its_program_and_the_other_way_round() -> None:
    dumps_there = {path.name for path in SMALL.iterdir() if path.name != "programs"}
    programs = {path.stem for path in (SMALL / "programs").glob("*.py")} - {"collect"}
    assert dumps_there == programs
    assert {kind.value for kind in MechanismKind} <= programs


@pytest.mark.parametrize("kind", ANALYSED)
def test_the_example_of_a_mechanism_shows_it(kind: MechanismKind) -> None:
    (cause,) = analysed(kind.value).root_causes
    assert cause.mechanism.kind is kind


@pytest.mark.parametrize("name", PLACES)
def test_the_example_of_a_place_shows_it(name: str) -> None:
    assert set(PLACES.values()) == set(Where)
    (cause,) = analysed(name).root_causes
    assert cause.where is PLACES[name]


@pytest.mark.parametrize("name", [kind.value for kind in MechanismKind if kind is not MechanismKind.TRANSIENT])
def test_the_named_line_is_the_line_of_the_program(name: str) -> None:
    (cause,) = analysed(name).root_causes
    assert cause.location is not None
    assert cause.location.line is not None
    assert cause.location.file.endswith(f"/programs/{name}.py")
    lines = (SMALL / "programs" / f"{name}.py").read_text("utf-8").splitlines()
    assert lines[cause.location.line - 1].strip() == cause.location.source


@pytest.mark.parametrize(
    ("name", "verdict", "exit_code"),
    [
        ("masks", Verdict.CLEAN, 0),
        ("contained", Verdict.CLEAN, 0),
        ("scaler_skip", Verdict.CLEAN, 0),
        ("no_statistics", Verdict.UNKNOWN, 4),
    ],
)
def test_examples_without_an_anomaly(name: str, verdict: Verdict, exit_code: int) -> None:
    report = analysed(name)
    assert (report.verdict, report.exit_code) == (verdict, exit_code)


# --- generated pages --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return dict(build_gallery.files())


def test_every_dump_is_in_the_gallery_in_every_form(generated: dict[str, str]) -> None:
    names = {"dp2-tp2"} | {path.name for path in SMALL.iterdir() if path.name != "programs"}
    names |= {path.name.removesuffix(".tar.gz") for path in (ROOT / "tests" / "data" / "own").glob("*.tar.gz")}
    for name in names:
        assert f"[{name}]({name}.md)" in generated["gallery/index.md"]
        for form in (f"{name}.md", f"reports/{name}.html", f"reports/{name}.json", f"reports/{name}.trace.json"):
            assert generated[f"gallery/{form}"]
    assert len(generated) == 4 * len(names) + 2


def test_pages_of_the_gallery_name_no_folder_of_this_machine(generated: dict[str, str]) -> None:
    for name, content in generated.items():
        assert "firstnan-gallery-" not in content, name
        assert str(ROOT) not in content, name


def test_the_schema_page_has_every_field(generated: dict[str, str]) -> None:
    schema = build_gallery.json_schema()
    shown = generated["report-schema.md"]
    fields = [field for part in [schema, *schema["$defs"].values()] for field in part.get("properties", ())]
    assert [field for field in fields if f"| `{field}` |" not in shown] == []
    assert dumps(schema).splitlines()[1].strip() in shown


@pytest.mark.parametrize("path", sorted((SMALL / "programs").glob("*.py")), ids=lambda path: path.stem)
def test_every_program_says_what_is_wrong_with_it(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))
