"""One dump in parts: what several machines have at the same path, put together."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from firstnan.dump.errors import InputError
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.read.layout import dump_layout
from firstnan.read.layout.dump_layout import Layout, checked
from firstnan.read.layout.nodes import Listing, NodeListing, joined, listing

ASKED = Path("/dumps/run")


def dump(root: Path, files: Mapping[str, str]) -> Path:
    """Rank folders by their label, with the content of dump.json."""
    for label, content in files.items():
        folder = root / label
        folder.mkdir(parents=True)
        if content:
            (folder / "dump.json").write_text(content)
    return root


def whole(*listings: Listing) -> Layout:
    found = joined(ASKED, [NodeListing(f"id{n}", f"node{n}", one) for n, one in enumerate(listings)])
    return checked(found, None, None)


def parts(tmp_path: Path, *nodes: Mapping[str, str]) -> Layout:
    return whole(*(listing(dump(tmp_path / str(n), files)) for n, files in enumerate(nodes)))


def places(found: Layout) -> list[tuple[int, int, tuple[str, ...]]]:
    return [(folder.step, folder.rank, folder.nodes) for folder in found.folders]


def told(problems: tuple[Problem, ...]) -> list[tuple[ProblemKind, int | None, int | None]]:
    return [(problem.kind, problem.step, problem.rank) for problem in problems]


def test_the_parts_make_the_whole(tmp_path: Path) -> None:
    one, other = {"step0/rank0": "{}", "step1/rank0": "{}"}, {"step0/rank1": "{}", "step1/rank1": "{}"}
    found = parts(tmp_path, one, other)
    at_once = dump_layout.find(dump(tmp_path / "all", {**one, **other}))
    assert places(found) == [(0, 0, ("id0",)), (0, 1, ("id1",)), (1, 0, ("id0",)), (1, 1, ("id1",))]
    assert (found.root, found.steps, found.found_ranks) == (ASKED, at_once.steps, at_once.found_ranks)
    assert found.problems == at_once.problems == ()
    assert [folder.label for folder in found.folders] == [folder.label for folder in at_once.folders]


def test_a_folder_is_absent_when_no_node_has_it(tmp_path: Path) -> None:
    found = parts(tmp_path, {"step0/rank0": "{}", "step1": "", "step2/rank1": ""}, {"step1/rank0": "{}"})
    assert places(found) == [(0, 0, ("id0",)), (1, 0, ("id1",))]
    assert told(found.problems) == [
        (ProblemKind.MISSING_FILE, 0, 1),
        (ProblemKind.MISSING_FILE, 1, 1),
        (ProblemKind.MISSING_FILE, 2, 0),
        (ProblemKind.EMPTY_RANK, 2, 1),
    ]


def test_an_empty_rank_folder_is_told_unless_another_node_has_the_dump(tmp_path: Path) -> None:
    found = parts(tmp_path, {"step0/rank0": "", "step0/rank1": ""}, {"step0/rank0": "{}"})
    assert told(found.problems) == [(ProblemKind.EMPTY_RANK, 0, 1)]


def test_one_folder_seen_by_several_nodes(tmp_path: Path) -> None:
    """They take turns, so that each has something to read."""
    shared = dump(tmp_path, {f"step0/rank{rank}": "{}" for rank in range(3)})
    found = whole(listing(shared), listing(shared))
    assert places(found) == [(0, 0, ("id0", "id1")), (0, 1, ("id1", "id0")), (0, 2, ("id0", "id1"))]
    assert found.problems == ()


def test_a_problem_that_several_nodes_see_is_told_once(tmp_path: Path) -> None:
    shared = dump(tmp_path, {"step0/rank0": "{}", "step0/rank1": "", "step0/notes": ""})
    assert whole(listing(shared), listing(shared)).problems == dump_layout.find(shared).problems


def test_a_copy_is_no_other_dump(tmp_path: Path) -> None:
    first = dump(tmp_path / "first", {"step0/rank0": "{}"})
    shutil.copytree(first, tmp_path / "copy")
    assert whole(listing(first), listing(tmp_path / "copy")).problems == ()


@pytest.mark.parametrize("change", ["content", "time"])
def test_two_dumps_of_one_rank(change: str, tmp_path: Path) -> None:
    first = dump(tmp_path / "first", {"step0/rank0": '{"a": 1}'})
    shutil.copytree(first, tmp_path / "second")
    file = tmp_path / "second" / "step0" / "rank0" / "dump.json"
    before = file.stat()
    if change == "content":
        file.write_text('{"a": 2}')
    os.utime(file, ns=(0, before.st_mtime_ns + (change == "time")))
    found = whole(listing(first), listing(tmp_path / "second"))
    assert places(found) == [(0, 0, ("id0",))]
    (problem,) = found.problems
    assert (problem.kind, problem.rank, problem.judged) == (ProblemKind.DUPLICATE_RANK, 0, False)
    assert problem.detail.startswith("on node node1: another dump of this rank than on node node0")


def test_a_node_that_has_nothing_is_no_problem(tmp_path: Path) -> None:
    there = listing(dump(tmp_path / "a", {"step0/rank0": "{}"}))
    found = whole(listing(tmp_path / "nowhere"), there, listing(dump(tmp_path / "b", {"notes": ""})))
    assert places(found) == [(0, 0, ("id1",))]
    assert found.problems == ()


def test_a_node_that_could_not_be_asked_is_told(tmp_path: Path) -> None:
    there = listing(dump(tmp_path, {"step0/rank0": "{}"}))
    (problem,) = whole(there, Listing(fault="it is gone")).problems
    assert (problem.kind, problem.judged, problem.detail) == (
        ProblemKind.UNREADABLE,
        False,
        "on node node1: it is gone",
    )


def test_nothing_anywhere_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no node has /dumps/run \(asked: node0, node1\)"):
        whole(Listing(), Listing())
    with pytest.raises(InputError, match="no node could list /dumps/run: on node node1: it is gone"):
        whole(Listing(), Listing(fault="it is gone"))
    with pytest.raises(InputError, match="no dump in /dumps/run: only notes"):
        parts(tmp_path, {"notes": ""})


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "a regular file" in listing(tmp_path / "file").fault
