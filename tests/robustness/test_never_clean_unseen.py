"""Nothing is called clean that was not looked at."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking import Answer, ask
from damage import BYTES, NO_FILE, REWRITTEN, Damage, Effect, cut_damages
from three_ranks import OTHER, RANKS, contents, rank_folder, write

Json = dict[str, Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "dump", faulty=False)


def change(root: Path, edit: Callable[[Json], Json | None], ranks: tuple[int, ...] = RANKS) -> None:
    """Rewrites dump.json of these ranks."""
    for rank in ranks:
        path = rank_folder(root, rank) / "dump.json"
        path.write_text(json.dumps(edit(json.loads(path.read_text())), indent=1))


def tensors(value: Any) -> list[Json]:
    if isinstance(value, dict):
        found = [value] if "dtype" in value else []
        return found + [t for item in value.values() for t in tensors(item)]
    return [t for item in value for t in tensors(item)] if isinstance(value, list) else []


def without(*keys: str, put: Json | None = None) -> Callable[[Json], Json]:
    def edit(top: Json) -> Json:
        for tensor in tensors(top):
            for key in keys:
                tensor.pop(key, None)
            tensor.update(put or {})
        return top

    return edit


STATISTICS = ("Max", "Min", "Mean", "Norm")
NULLS = dict.fromkeys(STATISTICS)


def verdict(answer: Answer) -> tuple[int, str, bool]:
    return answer.code, answer.report["verdict"], answer.report["complete"]


def test_a_sound_run_is_clean(root: Path) -> None:
    assert verdict(ask("analyze", root)) == (0, "clean", True)


# --- nothing to judge: unknown, 4 ----------------------------------------------------------------------------------

NOTHING: dict[str, Callable[[Json], Json | None]] = {
    "no_records": lambda top: {**top, "data": {}},
    "md5": without(*STATISTICS, put={"md5": "00b23902"}),
    "xor": without(*STATISTICS, put={"md5": "0x00b2390282791dda"}),
    "structure": lambda top: {**top, "task": "structure", "data": {}},
    "null_statistics": without(put=NULLS),
    "no_statistics": without(*STATISTICS),
    "placeholders": without(*STATISTICS, put={"tensor_stat_index": 5}),
    "words": without(put={"Max": "n/a", "Min": "n/a"}),
    "integers_only": without(put={"dtype": "torch.int64", "Mean": None}),
    "empty_tensors": without(put={"shape": [0, 8], **NULLS}),
    "records_without_tensors": lambda top: {
        **top,
        "data": {name: {"input_args": [], "output": []} for name in top["data"]},
    },
    "names_without_records": lambda top: {**top, "data": dict.fromkeys(top["data"])},
}


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_to_judge_is_unknown(root: Path, name: str) -> None:
    change(root, NOTHING[name])
    answer = ask("analyze", root)
    assert verdict(answer) == (4, "unknown", False)
    assert answer.report["root_causes"] == []


@pytest.mark.parametrize("name", set(NOTHING) - {"integers_only", "empty_tensors", "records_without_tensors"})
def test_why_nothing_could_be_judged_is_told(root: Path, name: str) -> None:
    change(root, NOTHING[name])
    told = ask("analyze", root).report["input"]["problems"]
    assert {problem["rank"] for problem in told if problem["effect"]} == set(RANKS)


@pytest.mark.parametrize("command", [["ranks"], ["trace", "--rank", "1"]])
def test_the_other_commands_know_no_more(root: Path, command: list[str]) -> None:
    change(root, NOTHING["null_statistics"])
    assert verdict(ask(command[0], root, *command[1:])) == (4, "unknown", False)


# --- nothing readable: 3 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage", [d for d in (*NO_FILE, *BYTES) if d.effect is Effect.UNJUDGED], ids=lambda damage: damage.name
)
def test_no_readable_rank_ends_with_3(root: Path, damage: Damage) -> None:
    """Or with 4, where some records could be read after all."""
    for rank in RANKS:
        damage.apply(rank_folder(root, rank) / "dump.json")
    answer = ask("analyze", root)
    if answer.report:
        assert answer.code == 4
        assert not answer.report["complete"]
        assert answer.report["input"]["records"] > 0
    else:
        assert answer.code == 3
        assert "rank" in answer.said


@pytest.mark.parametrize("what", ["nothing there", "empty", "no steps", "no ranks", "a file", "a dump.json"])
def test_no_dump_ends_with_3(tmp_path: Path, what: str) -> None:
    path = tmp_path / "dump"
    if what == "a file":
        path.write_text("{}")
    elif what == "a dump.json":
        path = tmp_path / "dump.json"
        path.write_text("{}")
    elif what != "nothing there":
        path.mkdir()
    if what == "no steps":
        (path / "logs").mkdir()
        (path / "readme.txt").write_text("nothing")
    if what == "no ranks":
        (path / "step0").mkdir()
    answer = ask("analyze", path)
    assert (answer.code, answer.report) == (3, {})
    assert answer.said.startswith("firstnan: ")
    assert len(answer.said.splitlines()) == 2, "what is wrong, and what to do"


# --- a part not judged: clean, but not complete, 4 ------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage", [d for d in (*NO_FILE, *BYTES, *REWRITTEN) if d.effect is Effect.UNJUDGED], ids=lambda damage: damage.name
)
def test_clean_with_a_rank_not_judged_is_not_complete(root: Path, damage: Damage) -> None:
    damage.apply(rank_folder(root, OTHER) / "dump.json")
    answer = ask("analyze", root)
    assert verdict(answer) == (4, "clean", False)
    told = [p for p in answer.report["input"]["problems"] if p["rank"] == OTHER and not p["judged"]]
    assert told
    assert all(problem["effect"] for problem in told)


WHOLE = json.dumps(contents(OTHER, faulty=False)["dump.json"], indent=1).encode()
CUTS = [d for d in cut_damages(WHOLE) if d.effect is Effect.UNJUDGED]


@pytest.mark.parametrize("damage", CUTS, ids=lambda damage: damage.name)
def test_clean_before_a_cut_is_not_complete(root: Path, damage: Damage) -> None:
    damage.apply(rank_folder(root, OTHER) / "dump.json")
    assert verdict(ask("analyze", root)) == (4, "clean", False)


def test_clean_without_a_rank_that_others_name(root: Path) -> None:
    shutil.rmtree(rank_folder(root, OTHER))
    answer = ask("analyze", root)
    assert verdict(answer) == (4, "clean", False)
    assert answer.report["input"]["missing_ranks"] == [OTHER]


def test_clean_without_a_rank_that_another_step_holds(root: Path) -> None:
    shutil.copytree(root / "step0", root / "step1")
    shutil.rmtree(root / "step1" / f"rank{OTHER}")
    assert verdict(ask("analyze", root)) == (4, "clean", False)
    change(root, lambda top: {**top, "data": {n: r for n, r in top["data"].items() if "Distributed" not in n}})
    answer = ask("analyze", root)
    assert verdict(answer) == (4, "clean", False)
    assert [(p["kind"], p["step"], p["rank"]) for p in answer.report["input"]["problems"]] == [
        ("missing_file", 1, OTHER)
    ]


def test_clean_without_one_step(root: Path) -> None:
    (root / "step1").mkdir()
    answer = ask("analyze", root)
    assert verdict(answer) == (4, "clean", False)
    assert [(p["kind"], p["step"]) for p in answer.report["input"]["problems"]] == [("empty_step", 1)]


@pytest.mark.parametrize("value", [NULLS, {"Max": None}, {"Min": None}, {"Max": "?"}])
@pytest.mark.parametrize(
    ("place", "code", "kind"), [("output", 4, "partly_no_statistics"), ("input_args", 0, "settled_operands")]
)
def test_clean_with_one_tensor_not_judged(root: Path, place: str, code: int, kind: str, value: Json) -> None:
    """A result that is unknown is not clean; an operand is settled by the finite result of its record."""

    def edit(top: Json) -> Json:
        top["data"]["Functional.softmax.0.forward"][place][0].update(value)
        return top

    change(root, edit, (OTHER,))
    answer = ask("analyze", root)
    assert verdict(answer) == (code, "clean", code == 0)
    assert [p["kind"] for p in answer.report["input"]["problems"]] == [kind]


def test_clean_but_the_run_died_inside_a_call(root: Path) -> None:
    def edit(top: Json) -> Json:
        name = "Distributed.all_reduce.1.forward"
        del top["data"][name]["output"]
        return top

    change(root, edit, (OTHER,))
    assert verdict(ask("analyze", root)) == (4, "clean", False)


def test_clean_but_a_rank_ends_before_the_others(root: Path) -> None:
    """A whole file with fewer records: the rank was flushed earlier, or died."""

    def edit(top: Json) -> Json:
        names = list(top["data"])
        return {**top, "data": {n: top["data"][n] for n in names[: names.index("Functional.softmax.0.forward")]}}

    change(root, edit, (OTHER,))
    answer = ask("analyze", root)
    assert verdict(answer) == (4, "clean", False)
    assert [(p["kind"], p["rank"]) for p in answer.report["input"]["problems"]] == [("short_rank", OTHER)]


def test_clean_on_the_ranks_that_were_asked_for(root: Path) -> None:
    """The user left ranks out on purpose: said as a caveat."""
    answer = ask("analyze", root, "--ranks", "0,1")
    assert answer.report["verdict"] == "clean"
    assert answer.report["caveats"]


def test_a_clean_part_beside_a_part_without_statistics(root: Path) -> None:
    change(root, NOTHING["md5"], (OTHER,))
    answer = ask("analyze", root)
    assert verdict(answer) == (4, "clean", False)
    assert [(p["kind"], p["rank"]) for p in answer.report["input"]["problems"]] == [("no_statistics", OTHER)]
