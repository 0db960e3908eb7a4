"""Where steps and ranks are (dump format, section 2)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from made_dumps import forward, kinds, tensor, text, write

from firstnan.dump.errors import InputError
from firstnan.dump.folders import FileKind
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.read.layout.dump_layout import Layout, find

DUMP = text({"Torch.a.0.forward": forward(output=[tensor()])})
Tree = Callable[..., Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Makes files below a fresh folder; a rank folder's name stands for its dump.json."""

    def make(*names: str) -> Path:
        root = tmp_path / "dump"
        root.mkdir(exist_ok=True)
        for name in names:
            if name.endswith("/"):
                (root / name).mkdir(parents=True, exist_ok=True)
            elif "." in name.rpartition("/")[2]:
                write(root / name, "{}")
            else:
                write(root / name / "dump.json", DUMP)
        return root

    return make


def places(layout: Layout) -> list[tuple[int, int, str]]:
    return [(f.step, f.rank, f.label) for f in layout.folders]


def only(layout: Layout, kind: ProblemKind) -> Problem:
    found = [p for p in layout.problems if p.kind is kind]
    assert len(found) == 1, layout.problems
    return found[0]


def test_steps_and_ranks_in_numeric_order(tree: Tree) -> None:
    layout = find(tree("step10/rank0", "step9/rank10", "step9/rank9", "step2/rank3"))
    assert places(layout) == [
        (2, 3, "step2/rank3"), (9, 9, "step9/rank9"), (9, 10, "step9/rank10"), (10, 0, "step10/rank0"),
    ]  # fmt: skip
    assert layout.steps == (2, 9, 10)
    assert layout.found_steps == (2, 9, 10)
    assert layout.found_ranks == (0, 3, 9, 10)
    assert {p.kind for p in layout.problems} == {ProblemKind.MISSING_FILE}  # no step holds all ranks
    assert all(f.dump_bytes == len(DUMP) for f in layout.folders)
    assert all((f.path / "dump.json").is_file() for f in layout.folders)


def test_a_step_folder(tree: Tree) -> None:
    root = tree("step0/rank0", "step7/rank1", "step7/rank0")
    assert places(find(root / "step7")) == [(7, 0, "rank0"), (7, 1, "rank1")]


def test_a_rank_folder(tree: Tree) -> None:
    assert places(find(tree("step7/rank3") / "step7" / "rank3")) == [(7, 3, "rank3")]
    assert places(find(tree("rank5") / "rank5")) == [(0, 5, "rank5")]
    assert places(find(tree("step1/proc77") / "step1" / "proc77")) == [(1, 0, "proc77")]


def test_the_current_folder(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree("step7/rank3")
    monkeypatch.chdir(root / "step7" / "rank3")
    assert places(find(Path())) == [(7, 3, "rank3")]
    assert places(find(Path(".."))) == [(7, 3, "rank3")]
    assert places(find(Path("../..")))[0][:2] == (7, 3)


def test_rank_folders_without_a_step_are_step_0(tree: Tree) -> None:
    assert places(find(tree("rank0", "rank168"))) == [(0, 0, "rank0"), (0, 168, "rank168")]


def test_rank_without_a_number_is_rank_0(tree: Tree) -> None:
    layout = find(tree("step0/rank"))
    assert places(layout) == [(0, 0, "step0/rank")]
    assert layout.problems == ()


def test_a_single_process_is_rank_0(tree: Tree) -> None:
    layout = find(tree("step0/proc1234", "step1/proc1234"))
    assert places(layout) == [(0, 0, "step0/proc1234"), (1, 0, "step1/proc1234")]
    assert layout.problems == ()


@pytest.mark.parametrize("helper", ["step0/proc1234", "step0/rank"])
def test_processes_beside_ranks_are_ignored(tree: Tree, helper: str) -> None:
    layout = find(tree("step0/rank0", "step0/rank1", helper))
    assert [rank for _, rank, _ in places(layout)] == [0, 1]
    problem = only(layout, ProblemKind.IGNORED_FOLDER)
    assert (problem.file, problem.step, problem.judged) == (helper, 0, True)


def test_of_several_processes_the_first_with_a_dump_is_used(tree: Tree) -> None:
    layout = find(tree("step0/proc9/", "step0/proc20", "step0/proc100"))
    assert places(layout) == [(0, 0, "step0/proc20")]
    assert [p.file for p in layout.problems] == ["step0/proc9", "step0/proc100"]
    assert kinds(layout.problems) == [ProblemKind.DUPLICATE_RANK] * 2
    assert not any(p.judged for p in layout.problems)


@pytest.mark.parametrize(
    ("name", "step", "rank"),
    [("step_3/rank_12", 3, 12), ("Step3/Rank12", 3, 12), ("step003/rank_0012", 3, 12), ("step-3/rank-12", 3, 12)],
)
def test_spellings(tree: Tree, name: str, step: int, rank: int) -> None:
    assert places(find(tree(name))) == [(step, rank, name)]


def test_two_folders_of_one_rank(tree: Tree) -> None:
    layout = find(tree("step0/rank0", "step0/rank_0", "step0/rank1"))
    assert places(layout) == [(0, 0, "step0/rank0"), (0, 1, "step0/rank1")]
    problem = only(layout, ProblemKind.DUPLICATE_RANK)
    assert (problem.file, problem.step, problem.rank, problem.judged) == ("step0/rank_0", 0, 0, False)


def test_two_spellings_of_one_step_are_one_step(tree: Tree) -> None:
    layout = find(tree("step0/rank0", "step_0/rank1", "step_0/rank0"))
    assert places(layout) == [(0, 0, "step0/rank0"), (0, 1, "step_0/rank1")]
    assert only(layout, ProblemKind.DUPLICATE_RANK).file == "step_0/rank0"


def test_one_recipe_below_a_prefix(tree: Tree) -> None:
    assert places(find(tree("exp/update_actor/step0/rank0"))) == [(0, 0, "exp/update_actor/step0/rank0")]


def test_recipes_with_the_same_ranks_are_kept_apart(tree: Tree) -> None:
    layout = find(tree("exp/generate/step0/rank0", "exp/update_actor/step0/rank0", "exp/old_log_prob/step0/rank0"))
    assert places(layout) == [(0, 0, "exp/update_actor/step0/rank0")]
    assert [(p.kind, p.file, p.judged) for p in layout.problems] == [
        (ProblemKind.SECOND_DUMP, "exp/generate", False),
        (ProblemKind.SECOND_DUMP, "exp/old_log_prob", False),
    ]


def test_processes_that_hold_different_ranks_are_one_dump(tree: Tree) -> None:
    layout = find(tree("417/step_0/rank_1", "93/step_0/rank_0", "93/step_1/rank_0", "93/dispatch_log.jsonl"))
    assert places(layout) == [
        (0, 0, "93/step_0/rank_0"), (0, 1, "417/step_0/rank_1"), (1, 0, "93/step_1/rank_0"),
    ]  # fmt: skip
    assert "dispatch_log.jsonl" in only(layout, ProblemKind.IGNORED_FOLDER).detail


def test_mindspore_mixed_mode(tree: Tree) -> None:
    layout = find(tree("graph/step0/rank0", "pynative/step0/rank0"))
    assert places(layout) == [(0, 0, "pynative/step0/rank0")]
    assert only(layout, ProblemKind.SECOND_DUMP).file == "graph"


def test_rank_folders_beside_step_folders_are_told(tree: Tree) -> None:
    layout = find(tree("step0/rank0", "rank0"))
    assert places(layout) == [(0, 0, "step0/rank0")]
    assert not only(layout, ProblemKind.IGNORED_FOLDER).judged


def test_a_dump_file_beside_step_folders_is_no_rank(tree: Tree) -> None:
    root = tree("step0/rank0")
    write(root / "dump.json", DUMP)
    assert places(find(root)) == [(0, 0, "step0/rank0")]


def test_an_empty_step(tree: Tree) -> None:
    layout = find(tree("step0/rank0", "step1/"))
    assert layout.steps == (0,)
    assert layout.found_steps == (0, 1)
    problem = only(layout, ProblemKind.EMPTY_STEP)
    assert (problem.step, problem.file, problem.judged) == (1, "step1", False)


def test_rank_of_another_step(tree: Tree) -> None:
    """A step without a folder for a rank that another step has."""
    layout = find(tree("run/step0/rank0", "run/step0/rank1", "run/step1/rank0"))
    problem = only(layout, ProblemKind.MISSING_FILE)
    assert (problem.step, problem.rank, problem.file) == (1, 1, "run/step1/rank1/dump.json")
    assert not problem.judged
    assert "step 0" in problem.detail


def test_rank_of_another_step_that_was_not_asked_for(tree: Tree) -> None:
    root = tree("step0/rank0", "step0/rank1", "step1/rank0")
    assert find(root, ranks=(0,)).problems == ()
    assert find(root, steps=(0,)).problems == ()
    assert find(root, steps=(1,)).problems == ()


def test_an_empty_rank_folder(tree: Tree) -> None:
    layout = find(tree("step0/rank0", "step0/rank1/"))
    assert places(layout) == [(0, 0, "step0/rank0")]
    assert layout.found_ranks == (0, 1)
    problem = only(layout, ProblemKind.EMPTY_RANK)
    assert (problem.step, problem.rank, problem.file, problem.judged) == (0, 1, "step0/rank1", False)


def test_a_rank_folder_without_dump_json(tree: Tree) -> None:
    layout = find(tree("step0/rank0", "step0/rank1/stack.json"))
    problem = only(layout, ProblemKind.MISSING_FILE)
    assert (problem.step, problem.rank, problem.file, problem.judged) == (0, 1, "step0/rank1/dump.json", False)


def test_saved_values_count_where_there_is_no_dump_json(tree: Tree) -> None:
    layout = find(tree("step0/rank0", "step0/rank0/debug.json", "step0/rank1/debug.json"))
    assert [(folder.rank, folder.file) for folder in layout.folders] == [(0, FileKind.DUMP), (1, FileKind.SAVED)]


def test_a_kernel_dump_is_another_dump(tree: Tree) -> None:
    layout = find(tree("step0/rank0", "step1/kernel_config_77.json"))
    assert only(layout, ProblemKind.OTHER_DUMP).file == "step1"


def test_the_tools_own_errors_are_told(tree: Tree) -> None:
    layout = find(tree("step0/rank0", "step0/rank0/dump_error_info.log"))
    problem = only(layout, ProblemKind.TOOL_ERROR)
    assert (problem.rank, problem.file, problem.judged) == (0, "step0/rank0/dump_error_info.log", True)
    assert places(layout) == [(0, 0, "step0/rank0")]


def test_extra_files_are_named_together(tree: Tree) -> None:
    layout = find(tree("step0/rank0", "a.csv", "b.csv", "c.csv", "d.csv", ".hidden.txt", "step0/rank0/x.pt"))
    problem = only(layout, ProblemKind.IGNORED_FOLDER)
    assert problem.judged
    assert problem.detail == "not part of the dump: a.csv, b.csv, c.csv and 1 more"


def test_only_the_steps_and_ranks_asked_for(tree: Tree) -> None:
    root = tree("step0/rank0", "step0/rank1", "step1/rank0", "step1/rank1/", "step2/")
    layout = find(root, steps=[0, 1], ranks=[0])
    assert places(layout) == [(0, 0, "step0/rank0"), (1, 0, "step1/rank0")]
    assert layout.problems == ()
    assert layout.found_steps == (0, 1, 2)
    assert layout.found_ranks == (0, 1)


def test_steps_and_ranks_that_are_not_there_leave_nothing(tree: Tree) -> None:
    root = tree("step0/rank0")
    for layout in (find(root, steps=[7]), find(root, ranks=[7]), find(root / "step0" / "rank0", ranks=[7])):
        assert layout.folders == ()
        assert layout.found_steps == (0,)


# --- nothing to be found ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ((), "empty folder"),
        (("logs/a.txt", "model.py"), "logs, model.py"),
        (("step0/", "step1/"), "step0: no rank folders"),
        (("step0/rank0/",), "step0/rank0: an empty folder"),
        (("step0/rank0/stack.json", "step0/rank1/", "step0/rank2/", "step0/rank3/"), "and 1 more"),
    ],
)
def test_nothing_readable_is_an_input_error_that_says_what_is_there(
    tree: Tree, names: tuple[str, ...], words: str
) -> None:
    with pytest.raises(InputError) as error:
        find(tree(*names))
    assert words in str(error.value)
    assert error.value.hint


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        find(tmp_path / "nothing")
    with pytest.raises(InputError):
        find(tmp_path / "nul\0byte")


def test_a_file_in_place_of_a_folder(tree: Tree) -> None:
    with pytest.raises(InputError) as error:
        find(tree("rank0") / "rank0" / "dump.json")
    assert error.value.hint.endswith("rank0")


# --- hostile folders --------------------------------------------------------------------------------


def test_a_folder_called_dump_json(tree: Tree) -> None:
    layout = find(tree("step0/rank0", "step0/rank1/dump.json/"))
    problem = only(layout, ProblemKind.UNREADABLE)
    assert (problem.rank, problem.judged) == (1, False)
    assert "directory" in problem.detail


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this system")
def test_a_fifo_called_dump_json(tree: Tree) -> None:
    root = tree("step0/rank0", "step0/rank1/")
    os.mkfifo(root / "step0/rank1/dump.json")
    os.mkfifo(root / "step0/rank2")
    os.mkfifo(root / "step1")
    layout = find(root)
    assert [(p.kind, p.step, p.rank) for p in layout.problems] == [
        (ProblemKind.UNREADABLE, 0, 1), (ProblemKind.UNREADABLE, 0, 2), (ProblemKind.UNREADABLE, 1, None),
    ]  # fmt: skip


def test_links_are_followed_and_loops_are_told(tree: Tree, tmp_path: Path) -> None:
    root = tree("step0/rank0")
    write(tmp_path / "elsewhere" / "dump.json", DUMP)
    (root / "step0/rank1").symlink_to(tmp_path / "elsewhere")
    (root / "step0/rank2").symlink_to("rank2")
    (root / "step0/rank3").symlink_to("nowhere")
    (root / "step0/rank4").symlink_to("..")
    (root / "step1").symlink_to("step1")
    layout = find(root)
    assert places(layout) == [(0, 0, "step0/rank0"), (0, 1, "step0/rank1")]
    assert sorted((p.step, p.rank) for p in layout.problems if p.rank is not None) == [(0, 2), (0, 3), (0, 4)]
    assert not any(p.judged for p in layout.problems)


def test_folders_that_contain_themselves_end(tree: Tree) -> None:
    root = tree("a/b/")
    for name in ("x", "y", "z"):
        (root / "a/b" / name).symlink_to(root)
    with pytest.raises(InputError):
        find(root)


def test_names_that_are_no_text(tree: Tree) -> None:
    root = tree("step0/rank0")
    odd = os.fsencode(root) + b"/\xff\xfe"
    try:
        os.mkdir(odd)  # noqa: PTH102 - a name in bytes
    except OSError:
        pytest.skip("the file system takes no such names")
    layout = find(root)
    assert places(layout) == [(0, 0, "step0/rank0")]
    assert only(layout, ProblemKind.IGNORED_FOLDER).detail.encode("utf-8").startswith(b"not part of the dump")


@pytest.mark.parametrize("name", ["rank99999999999999999999", "step99999999999999999999999", "rank1x", "xrank1"])
def test_names_that_are_no_numbers(tree: Tree, name: str) -> None:
    layout = find(tree("step0/rank0", f"{name}/"))
    assert places(layout) == [(0, 0, "step0/rank0")]
    assert name in only(layout, ProblemKind.IGNORED_FOLDER).detail


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may list everything")
def test_folders_without_permission(tree: Tree) -> None:
    root = tree("step0/rank0", "step0/rank1", "step1/rank0")
    (root / "step0/rank1").chmod(0)
    (root / "step1").chmod(0)
    try:
        layout = find(root)
    finally:
        (root / "step0/rank1").chmod(0o700)
        (root / "step1").chmod(0o700)
    assert places(layout) == [(0, 0, "step0/rank0")]
    assert kinds(layout.problems) == [ProblemKind.UNREADABLE] * 2


def test_a_folder_that_vanishes_while_it_is_looked_at(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    from firstnan.read.layout import dump_layout, rank_files
    from firstnan.read.sources import folders

    root = tree("step0/rank0", "step0/rank1")
    real = folders.entries

    def vanishing(path: Path) -> object:
        if path.name == "rank1":
            (path / "dump.json").unlink(missing_ok=True)
            path.rmdir()
        return real(path)

    monkeypatch.setattr(rank_files, "entries", vanishing)
    found = dump_layout.find(root)
    assert places(found) == [(0, 0, "step0/rank0")]
    assert [(p.kind, p.rank) for p in found.problems] == [(ProblemKind.UNREADABLE, 1)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("step0/rank0", "graph/step1/rank0"), [(0, 0, "step0/rank0"), (1, 0, "graph/step1/rank0")]),
        (("step0/rank0", "other/graph/step1/rank0"), [(0, 0, "step0/rank0"), (1, 0, "other/graph/step1/rank0")]),
        (("rank0", "node0/rank1"), [(0, 0, "rank0"), (0, 1, "node0/rank1")]),
        (("step0/rank0", "node0/step0/rank1"), [(0, 0, "step0/rank0"), (0, 1, "node0/step0/rank1")]),
        (("step0/rank0", "step0/node0/rank1"), [(0, 0, "step0/rank0"), (0, 1, "step0/node0/rank1")]),
        (("step3/node0/rank0", "step3/node1/rank1"), [(3, 0, "step3/node0/rank0"), (3, 1, "step3/node1/rank1")]),
    ],
)
def test_what_lies_beside_is_looked_at(
    names: tuple[str, ...], expected: list[tuple[int, int, str]], tree: Tree
) -> None:
    layout = find(tree(*names))
    assert places(layout) == expected
    assert [problem for problem in layout.problems if not problem.judged] == []


@pytest.mark.parametrize(
    ("names", "file", "detail"),
    [
        (("step0/rank0", "copy/step0/rank0"), "copy", "another dump of the same steps and ranks"),
        (("step0/rank0", "elsewhere"), "elsewhere", "holds a dump and is named like no rank"),
        (("step0/rank0", "step0/elsewhere"), "step0/elsewhere", "holds a dump and is named like no rank"),
        (("step0/rank0", "step0/step1/rank0"), "step0", "steps inside a step, not looked at: step1"),
        (("step0/rank0", "step0/rank0/rank1"), "step0/rank0", "steps or ranks inside a rank, not looked at: rank1"),
        (("step0/rank0", "step0/n0/rank0"), "step0/n0/rank0", "step0/rank0 was used"),
    ],
)  # fmt: skip
def test_what_lies_beside_and_is_not_looked_at_is_named(
    names: tuple[str, ...], file: str, detail: str, tree: Tree
) -> None:
    layout = find(tree(*names))
    assert places(layout) == [(0, 0, "step0/rank0")]
    (problem,) = layout.problems
    assert (problem.file, problem.judged) == (file, False)
    assert problem.detail.startswith(detail)


def test_links_beside_steps_are_not_followed(tree: Tree) -> None:
    """``latest`` is a step once more."""
    root = tree("step0/rank0", "step1/rank0", "logs/a/b/c/d.txt")
    (root / "latest").symlink_to(root / "step1")
    (root / "here").symlink_to(root)
    layout = find(root)
    assert places(layout) == [(0, 0, "step0/rank0"), (1, 0, "step1/rank0")]
    problem = only(layout, ProblemKind.IGNORED_FOLDER)
    assert (problem.judged, problem.detail) == (True, "not part of the dump: here, latest, logs")
