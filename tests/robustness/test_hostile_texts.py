"""Names and texts of a dump are a stranger's: they reach every form of the report, and do nothing there."""

from __future__ import annotations

import contextlib
import html.parser
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from three_ranks import FILES, ROOT, SOURCE, contents, rank_folder, write

from firstnan.cli import main as cli

EVIL = {
    "escape": "\x1b[31m\x1b]0;title\x07",
    "direction": "\u202egnol\u2066",
    "markup": "[red]x[/red][link=http://x]y[/link]",
    "html": "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&",
    "json_in_html": "</script><!--<script>",
    "markdown": "`|x|` ](http://x) # *a* <b>",
    "placeholders": "{value} {0} {} %s %(x)s {value!r:>99999999}",
    "lines": "a\nb\r\nc\u2028d\x85e\x0b",
    "nul": "a\0b",
    "surrogate": "\ud800x",
    "wide": "宽" * 50 + "e\u0301" * 50 + "👩‍👩‍👧" * 10,
    "long": "x" * 20_000,
    "dots": "." * 500,
    "empty": "",
    "template": "${x} #{y} {{z}} {% w %}",
    "path": "../../../etc/passwd",
}
FORMS = ("text", "markdown", "json", "html", "trace")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def poisoned(root: Path, evil: str) -> Path:
    """The source's files with a stranger's text in every place that holds a text, the decisive words kept."""
    bad = f"Torch.{evil}.exp.0.forward"
    for name, content in contents(SOURCE).items():
        changed = json.dumps(_everywhere(content, evil, bad), indent=1)
        assert name in FILES
        (rank_folder(root, SOURCE) / name).write_text(changed)
    return root


def _everywhere(value: Any, evil: str, bad: str) -> Any:
    if isinstance(value, dict):
        return {(bad if key == ROOT[1] else key): _everywhere(item, evil, bad) for key, item in value.items()}
    if isinstance(value, list):
        return [_everywhere(item, evil, bad) for item in value]
    if value == ROOT[1]:
        return bad
    if isinstance(value, str) and value.startswith("File "):
        return f"File /train/{evil}.py, line 7, in {evil}, \n {evil}"
    return value


def output(root: Path, form: str, *more: str) -> str:
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(["analyze", str(root), "--format", form, "--lang", "en", "--jobs", "1", *more])
    out.flush()
    assert (code, err.getvalue()) == (1, "")
    return out.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]


class Page(html.parser.HTMLParser):
    """Tags and attributes that could do something."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.images = 0
        self.handlers: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.images += tag == "img"
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self._inside = tag == "script"
        if self._inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "dump")


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("form", FORMS)
def test_a_strangers_text_does_nothing(root: Path, name: str, form: str) -> None:
    text = output(poisoned(root, EVIL[name]), form, "-v" if form == "text" else "--redact")
    assert "\x1b" not in text
    assert not _CONTROL.search(text)
    if form in ("json", "trace"):
        json.loads(text)
    if form == "html":
        page = Page()
        page.feed(text)
        assert (page.images, page.handlers) == (0, [])
        assert not [script for script in page.scripts if script.startswith("alert(1)")]
        assert len(page.scripts) == len(scripts_of_a_sound_page(root))


def scripts_of_a_sound_page(root: Path) -> list[str]:
    for file, content in contents(SOURCE).items():
        (rank_folder(root, SOURCE) / file).write_text(json.dumps(content, indent=1))
    page = Page()
    page.feed(output(root, "html"))
    return page.scripts


@pytest.mark.parametrize("name", sorted(set(EVIL) - {"long", "dots", "surrogate"}))
def test_it_is_in_the_answer_as_it_is(root: Path, name: str) -> None:
    """JSON gives the text itself, escaped where it has to be."""
    report = json.loads(output(poisoned(root, EVIL[name]), "json"))
    assert report["root_causes"][0]["op_name"] == f"Torch.{EVIL[name]}.exp.0.forward"


@pytest.mark.parametrize("name", EVIL)
def test_other_commands_show_it_as_well(root: Path, name: str) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out):
        assert cli.main(["show", str(poisoned(root, EVIL[name])), "--rank", str(SOURCE), "--lang", "en"]) == 0
        assert cli.main(["trace", str(root), "--rank", str(SOURCE), "--format", "mission", "--lang", "en"]) == 1
    out.flush()
    assert not _CONTROL.search(out.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
