"""The cases by which the skill is tried: their answers are true, and the built folder gives them."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

import firstnan
from firstnan.answer.model import MechanismKind, Verdict, Where
from firstnan.dump.language import Language
from firstnan.show import Format, Settings, render
from skill_folder import build, isolated

ROOT = Path(__file__).parents[1]
FILE = ROOT / "skills" / "nan-overflow-detection" / "evals" / "evals.json"
DOCUMENT = json.loads(FILE.read_text("utf-8"))
EVALS: list[dict[str, Any]] = DOCUMENT["evals"]


def truth_of(archive: Path) -> dict[str, Any]:
    with tarfile.open(archive) as packed:
        (name,) = (name for name in packed.getnames() if name.endswith("/truth.json"))
        content = packed.extractfile(name)
        assert content is not None
        found: dict[str, Any] = json.load(content)
        return found


def test_there_are_ten_and_they_are_whole() -> None:
    assert DOCUMENT["skill_name"] == "nan-overflow-detection"
    assert [one["id"] for one in EVALS] == list(range(1, 11))
    for one in EVALS:
        assert {"id", "prompt", "expected_output", "files", "expectations", "answer"} == one.keys()
        assert one["expectations"]
        assert all((ROOT / file).is_file() for file in one["files"])
        assert "op_names" not in one["prompt"]
    assert {one["answer"]["verdict"] for one in EVALS} == {"anomaly", "clean"}
    assert any(ord(letter) > 0x4E00 for one in EVALS for letter in one["prompt"])


@pytest.mark.parametrize("one", EVALS, ids=lambda one: Path(one["files"][0]).name)
def test_the_answer_is_the_truth_that_was_put_in(one: dict[str, Any]) -> None:
    truth, answer = truth_of(ROOT / one["files"][0]), one["answer"]
    assert Verdict(answer["verdict"]).value == truth["verdict"]
    told = [{"ranks": {cause["rank"], *cause.get("ranks_also", ())}, **cause} for cause in truth["root_causes"]]
    for cause in answer["causes"]:
        assert any(
            cause["rank"] in known["ranks"]
            and (cause["operator"] is None or cause["operator"] in known["op_names"])
            and Where(cause["where"]).value in (known["where"], *known["where_also"])
            and MechanismKind(cause["mechanism"]).value in (known["mechanism"], *known["mechanism_also"])
            for known in told
        ), cause


@pytest.mark.parametrize("language", Language)
@pytest.mark.parametrize("one", EVALS, ids=lambda one: Path(one["files"][0]).name)
def test_the_answer_stands_in_what_is_printed(one: dict[str, Any], language: Language) -> None:
    report = firstnan.analyze(ROOT / one["files"][0], firstnan.Options(jobs=1))
    shown = "".join(render(report, Format.TEXT, Settings(language=language, width=120)).split())
    for cause in one["answer"]["causes"]:
        assert re.search(rf"ranks?(?:\d+,)*{cause['rank']}(?!\d)", shown)
        for part in ("operator", "line"):
            assert cause[part] is None or cause[part] in shown, part


# --- the built folder, and nothing else --------------------------------------------------------------


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("cluster") / "nan-overflow-detection") / "scripts"


@pytest.fixture
def dump(one: dict[str, Any], tmp_path: Path) -> Path:
    """The case as its files lie in a folder, without the truth."""
    (file,) = one["files"]
    with tarfile.open(ROOT / file) as packed:
        unpack(packed, tmp_path)
    (folder,) = tmp_path.iterdir()
    (folder / "truth.json").unlink()
    return folder


def unpack(packed: tarfile.TarFile, target: Path) -> None:
    safe = getattr(tarfile, "data_filter", None)  # not known to the first patch releases
    if safe is not None:
        packed.extraction_filter = safe
    packed.extractall(target)


@pytest.mark.parametrize("one", EVALS, ids=lambda one: Path(one["files"][0]).name)
def test_the_built_folder_gives_the_answer(one: dict[str, Any], scripts: Path, dump: Path) -> None:
    """The whole analysis names rank, operator, line, mechanism and place; step 2 names the operator on its rank."""
    answer = one["answer"]
    ended = isolated(scripts / "firstnan.pyz", "analyze", dump, "--format", "json", folder=dump.parent)
    report = json.loads(ended.stdout)
    assert report["verdict"] == answer["verdict"]
    assert {told(cause) for cause in report["root_causes"]} == {tuple(cause.values()) for cause in answer["causes"]}
    for cause in answer["causes"]:
        if cause["operator"] is None:
            continue
        file = dump.parent / "single_rank_trace.json"
        ended = isolated(
            scripts / "single_rank_tracer.py", dump, "--rank", str(cause["rank"]), file, folder=dump.parent
        )
        assert ended.returncode == 1, ended.stderr
        first = json.loads(file.read_text("utf-8"))["first_anomaly"]
        assert first["op_name"] == cause["operator"]


def told(cause: dict[str, Any]) -> tuple[Any, ...]:
    place = cause["location"]
    line = f"{Path(place['file']).name}:{place['line']}" if place else None
    return cause["rank"], cause["op_name"] or None, line, cause["mechanism"]["kind"], cause["where"]


@pytest.mark.parametrize("one", EVALS, ids=lambda one: Path(one["files"][0]).name)
def test_step_1_of_the_built_folder_agrees(one: dict[str, Any], scripts: Path, dump: Path) -> None:
    """Where a call has a source, the first one is a rank of the answer, or one that an absent rank reached."""
    file = dump.parent / "cross_rank_analysis.json"
    ended = isolated(scripts / "cross_rank_analyzer.py", dump, file, folder=dump.parent)
    assert ended.returncode in (0, 1), ended.stderr
    assert (ended.returncode == 1) == (one["answer"]["verdict"] == "anomaly")
    calls = json.loads(file.read_text("utf-8"))
    live = [call for call in calls.values() if "contained" not in call]
    sources = next((call["source_ranks"] for call in live if call["source_ranks"]), [])
    causes = {cause["rank"] for cause in one["answer"]["causes"]}
    absent = {cause["rank"] for cause in one["answer"]["causes"] if cause["where"] == "missing_rank"}
    assert absent or set(sources) <= causes
