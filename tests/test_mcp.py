"""The server of the Model Context Protocol, asked by the client of its own SDK."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from firstnan.answer.schema import json_schema
from firstnan.cli import main as cli
from firstnan.dump.errors import UsageError
from firstnan.run import pipeline
from firstnan.serving.tools import SHORT, Tools
from firstnan.show.json import to_dict

pytest.importorskip("mcp", reason="the SDK is not here")
ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "dp2-tp2"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "root" / "dump")
    return tmp_path / "root"


def asked(root: Path, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The results of calls, through the SDK's client and server."""
    from mcp.client.client import Client

    from firstnan.serving.server import server

    async def run() -> list[Any]:
        async with Client(server(Tools(root, jobs=1))) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(run())


def document(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content or json.loads(result.content[0].text)
    return found


def test_there_are_five_tools(root: Path) -> None:
    from mcp.client.client import Client

    from firstnan.serving.server import server

    async def names() -> set[str]:
        async with Client(server(Tools(root))) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert asyncio.run(names()) == {"analyze", "ranks", "trace", "show", "agree"}


def test_analyze_is_short_and_gives_more(root: Path) -> None:
    short, whole = map(
        document, asked(root, ("analyze", {"path": "dump"}), ("analyze", {"path": "dump", "more": True}))
    )
    cause = short["report"]["root_causes"][0]
    assert (cause["rank"], cause["op_name"]) == (2, "Torch.exp.0.forward")
    assert len(short["report"]["collectives"]) == SHORT
    assert short["left_out"]["collectives"] == len(whole["report"]["collectives"]) - SHORT
    assert whole["left_out"] == {}
    expected = to_dict(pipeline.analyze(root / "dump"))
    assert whole["report"] == json.loads(json.dumps(expected))
    Draft202012Validator(json_schema()).validate(short["report"])
    assert len(json.dumps(short)) < len(json.dumps(whole)) / 1.5


def test_the_other_tools(root: Path) -> None:
    ranks, trace, show, agree = map(
        document,
        asked(
            root,
            ("ranks", {"path": "dump"}),
            ("trace", {"path": "dump", "rank": 3}),
            ("show", {"path": "dump", "rank": 2, "op": "Torch.exp.0.forward"}),
            ("agree", {"path": "dump"}),
        ),
    )
    assert ranks["report"]["collectives"][0]["source_ranks"] == [2]
    assert trace["report"]["root_causes"][0]["rank"] == 3
    assert any(record["name"]["full"] == "Torch.exp.0.forward" for record in show["records"])
    assert len(show["records"]) == 5
    assert "verdict_agreement" in agree["report"]


@pytest.mark.parametrize("path", ["..", "../outside", "/etc", "dump/../../outside", "link"])
def test_paths_stay_below_the_root(root: Path, path: str) -> None:
    shutil.copytree(EXAMPLE, root.parent / "outside")
    (root / "link").symlink_to(root.parent / "outside")
    (result,) = asked(root, ("analyze", {"path": path}))
    assert result.is_error
    assert "not below" in result.content[0].text
    with pytest.raises(UsageError):
        Tools(root).show(path, 0)


@pytest.mark.parametrize("tool", ["analyze", "ranks", "trace", "show", "agree"])
@pytest.mark.parametrize("what", ["rank folder", "file", "link to a link", "behind a link inside"])
def test_a_link_inside_a_dump_does_not_lead_outside(root: Path, what: str, tool: str) -> None:
    """Nothing outside the root is read, not even to say what is wrong with it."""
    outside = root.parent / "outside"
    shutil.copytree(EXAMPLE / "step0" / "rank2", outside)
    rank = root / "dump" / "step0" / "rank2"
    if what == "file":
        (rank / "stack.json").unlink()
        (rank / "stack.json").symlink_to(outside / "stack.json")
    else:
        shutil.rmtree(rank)
        rank.symlink_to({"rank folder": outside, "link to a link": root / "hop"}.get(what, root / "elsewhere"))
        (root / "hop").symlink_to(outside)
        (root / "elsewhere").mkdir()
        (root / "elsewhere" / "dump.json").symlink_to(outside / "dump.json")
    arguments = {"path": "dump"} | ({"rank": 2} if tool in ("trace", "show") else {})
    (result,) = asked(root, (tool, arguments))
    assert result.is_error
    assert "is a link that is not below the folder" in result.content[0].text


def test_links_that_stay_inside_are_followed(root: Path) -> None:
    rank = root / "dump" / "step0" / "rank2"
    shutil.move(rank, root / "elsewhere")
    rank.symlink_to(root / "elsewhere")
    (root / "dump" / "loop").symlink_to(root / "dump")
    (found,) = asked(root, ("analyze", {"path": "dump"}))
    assert document(found)["report"]["root_causes"][0]["rank"] == 2


def test_errors_are_words(root: Path) -> None:
    absent, rank, record = asked(
        root,
        ("analyze", {"path": "nothing"}),
        ("trace", {"path": "dump", "rank": 99}),
        ("show", {"path": "dump", "rank": 0, "op": "Nothing.0.forward"}),
    )
    assert all(result.is_error for result in (absent, rank, record))
    assert "no rank 99" in rank.content[0].text


def test_over_standard_input_and_output(root: Path) -> None:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters

    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "firstnan", "mcp", "--root", str(root)],
        env={"PYTHONPATH": str(ROOT / "src")},
    )

    async def run() -> Any:
        async with Client(parameters) as client:
            return await client.call_tool("analyze", {"path": "dump"})

    assert document(asyncio.run(run()))["report"]["verdict"] == "anomaly"


def test_without_the_sdk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert cli.main(["mcp", "--root", str(tmp_path)]) == 2
    assert "firstnan[mcp]" in capsys.readouterr().err
    assert cli.main(["mcp", "--root", str(tmp_path / "absent")]) == 2
