"""dump.json that is cut, damaged, hostile or no file at all: told, never raised, and the rest is used."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_dumps import NAN, SMALL, forward, kinds, rank_folder, tensor, text, write

from firstnan.dump.problems import ProblemKind
from firstnan.dump.values import ValueState
from firstnan.dump.view import RankDump
from firstnan.read.records import full_reader


def read(path: Path, content: str | bytes | None) -> RankDump:
    return full_reader.read(rank_folder(path / "rank0", content))


# --- cut and damaged files --------------------------------------------------------------------------


def sound_part(records: tuple[Any, ...]) -> list[str]:
    return [repr(r) for r in records]


def _end_of_value(whole: bytes, name: str) -> int:
    """Where the value of a key ends."""
    text = whole.decode()
    begin = text.index("{", text.index(json.dumps(name)))
    return json.JSONDecoder().raw_decode(text, begin)[1]


@pytest.mark.parametrize("indent", [1, None])
def test_cut_at_every_byte(tmp_path: Path, indent: int | None) -> None:
    """Records before the cut are those of the whole file; the one that it goes through is marked."""
    data = {name: SMALL[name] for name in list(SMALL)[:3]}
    whole = json.dumps({"task": "statistics", "data": data, "framework": "pytorch"}, indent=indent).encode()
    full = sound_part(tuple(read(tmp_path, whole).records))
    ends = [_end_of_value(whole, name) for name in data]
    folder = rank_folder(tmp_path / "cut", b"")
    seen = set()
    for end in range(len(whole)):
        (folder.path / "dump.json").write_bytes(whole[:end])
        found = full_reader.read(folder)
        count = len(found.records)
        seen.add(count)
        if end == 0:
            assert kinds(found.problems) == [ProblemKind.UNREADABLE]
            continue
        assert kinds(found.problems) == [ProblemKind.TRUNCATED]
        in_data = end <= whole.rindex(b"}", 0, whole.index(b'"framework"'))
        assert found.truncated is in_data
        sound = sum(place <= end for place in ends)
        assert sound_part(tuple(found.records))[:sound] == full[:sound]
        assert [r.distrusted for r in found.records] == [False] * sound + [True] * (count - sound)
    assert seen == {0, 1, 2, 3}


def test_a_number_at_the_cut_is_not_trusted(tmp_path: Path) -> None:
    whole = text({"Torch.exp.0.forward": forward([tensor()], output=[tensor(12345.5, -1.0)])})
    found = read(tmp_path, whole[: whole.index("12345.5") + 3])
    output = found.records[0].outputs[0]
    assert (output.max, output.state) == (None, ValueState.UNKNOWN)
    assert found.records[0].distrusted
    assert kinds(found.problems) == [ProblemKind.TRUNCATED]


def test_a_record_cut_before_its_output_is_not_unfinished(tmp_path: Path) -> None:
    whole = text(SMALL)
    found = read(tmp_path, whole[: whole.index('"output"')])
    assert not found.records[0].has_output
    assert found.records[0].distrusted
    assert kinds(found.problems) == [ProblemKind.TRUNCATED]


def test_cut_in_the_header(tmp_path: Path) -> None:
    found = read(tmp_path, text(SMALL)[:25])
    assert found.records == ()
    assert kinds(found.problems) == [ProblemKind.TRUNCATED]
    assert "after 0 complete records" in found.problems[0].detail


def test_nul_blocks_at_the_end(tmp_path: Path) -> None:
    """What a file system leaves behind a crash."""
    whole = text(SMALL).encode()
    found = read(tmp_path, whole[:1500] + b"\0" * 4096)
    assert kinds(found.problems) == [ProblemKind.TRUNCATED]
    assert len(found.records) > 1


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        pytest.param(None, ProblemKind.MISSING_FILE, id="absent"),
        pytest.param(b"", ProblemKind.UNREADABLE, id="empty"),
        pytest.param(b"\0" * 9000, ProblemKind.UNREADABLE, id="nul"),
        pytest.param(b"\x89PNG\r\n\x1a\n" + bytes(range(256)), ProblemKind.UNREADABLE, id="garbage"),
        pytest.param(b"[1, 2]", ProblemKind.UNREADABLE, id="list"),
        pytest.param(b"null", ProblemKind.UNREADABLE, id="null"),
        pytest.param(b'"data"', ProblemKind.UNREADABLE, id="string"),
        pytest.param(b"{}", ProblemKind.UNREADABLE, id="no_data"),
        pytest.param(b'{"data": []}', ProblemKind.UNREADABLE, id="data_is_a_list"),
        pytest.param(b'{"data": null}', ProblemKind.UNREADABLE, id="data_is_null"),
        pytest.param(b'{"task": "statistics", "data": {}}', ProblemKind.NO_RECORDS, id="no_records"),
        pytest.param(b'{"task": "structure", "data": {}}', ProblemKind.NO_STATISTICS, id="structure"),
        pytest.param(b'{"data": {"Torch.a.0.forward": 3}}', ProblemKind.BAD_CONTENT, id="record_is_a_number"),
    ],
)
def test_nothing_to_judge_is_never_silent(tmp_path: Path, content: bytes | None, kind: ProblemKind) -> None:
    found = read(tmp_path, content)
    assert found.records == ()
    assert kinds(found.problems) == [kind]
    problem = found.problems[0]
    assert not problem.judged
    assert (problem.step, problem.rank, problem.file) == (0, 0, "rank0/dump.json")
    assert problem.detail


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32-be"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    found = read(tmp_path, text(SMALL).encode(encoding))
    assert len(found.records) == 5
    assert all(p.judged for p in found.problems)


def test_crlf_and_one_long_line(tmp_path: Path) -> None:
    expected = [repr(r) for r in read(tmp_path, text(SMALL)).records]
    assert [repr(r) for r in read(tmp_path, text(SMALL).replace("\n", "\r\n")).records] == expected
    assert [repr(r) for r in read(tmp_path, json.dumps({"data": SMALL})).records] == expected


def test_equal_names_are_told(tmp_path: Path) -> None:
    one, other = json.dumps(forward(output=[tensor()])), json.dumps(forward(output=[tensor(NAN, NAN)]))
    found = read(tmp_path, f'{{"data": {{"T.a.0.forward": {one}, "T.b.0.forward": {one}, "T.a.0.forward": {other}}}}}')
    assert [(r.name.full, r.outputs[0].state) for r in found.records] == [
        ("T.b.0.forward", ValueState.FINITE),
        ("T.a.0.forward", ValueState.NAN),
    ]
    assert kinds(found.problems) == [ProblemKind.BAD_CONTENT]
    assert not found.problems[0].judged


def test_a_part_that_is_no_record_is_skipped_and_keeps_its_place(tmp_path: Path) -> None:
    found = read(tmp_path, text({"a": 1, "T.b.0.forward": forward(output=[tensor()]), "c": [], "d": None}))
    assert [r.index for r in found.records] == [1]
    assert kinds(found.problems) == [ProblemKind.BAD_CONTENT]
    assert "3 records" in found.problems[0].detail


@pytest.mark.parametrize(
    "raw",
    [
        {"input_args": 5, "output": "x"},
        {"input_args": [], "input_kwargs": [tensor()], "output": []},
        {"input_args": [], "parameters": [tensor()], "output": [tensor()]},
        {"input": "x", "output": 1.5},
        {"input_args": [{"type": "torch.Tensor", "shape": "x"}], "output": True},
        {"input_args": [{"type": "torch.Tensor", "dtype": [1], "shape": [{}]}], "output": [[[{}]], {"": {"": []}}]},
    ],
)
def test_wrong_types_at_every_level(tmp_path: Path, raw: dict[str, Any]) -> None:
    found = read(tmp_path, text({"T.a.0.forward": raw, "T.b.0.forward": forward(output=[tensor(NAN, NAN)])}))
    assert found.records[1].outputs[0].state is ValueState.NAN
    if raw.get("output") != [[[{}]], {"": {"": []}}]:
        assert ProblemKind.BAD_CONTENT in kinds(found.problems)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "dtype", "shape", "Max", "Min", "Mean", "is_nan", "input", "input_args", "input_kwargs",
                 "output", "parameters", "value", "tensor", "class_type", "group_ranks", "group_id", "peer", "tag",
                 "op", "md5", "requires_grad", "is_recompute", "weight", "0"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)  # fmt: skip
NAMES = st.sampled_from(
    ["Functional.f.0.forward", "Distributed.all_reduce.0.forward", "Module.a.B.parameters_grad", "Module.a.B.forward.0"]
)


@settings(deadline=None)
@given(
    st.dictionaries(NAMES | st.text(max_size=4), ODD, max_size=4) | ODD, st.sampled_from(["statistics", "structure"])
)
def test_no_content_raises(tmp_path_factory: pytest.TempPathFactory, data: Any, task: str) -> None:
    folder = rank_folder(tmp_path_factory.getbasetemp() / "odd", text(data, task=task))
    found = full_reader.read(folder)
    assert found.records or any(not p.judged for p in found.problems)


# --- files that are no files ------------------------------------------------------------------------


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    folder = rank_folder(tmp_path / "rank0", None)
    (folder.path / "dump.json").mkdir()
    assert kinds(full_reader.read(folder).problems) == [ProblemKind.UNREADABLE]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this system")
def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    folder = rank_folder(tmp_path / "rank0", None)
    os.mkfifo(folder.path / "dump.json")
    found = full_reader.read(folder)
    assert kinds(found.problems) == [ProblemKind.UNREADABLE]
    assert "FIFO" in found.problems[0].detail


def test_a_link_loop_and_a_link_out_of_the_tree(tmp_path: Path) -> None:
    folder = rank_folder(tmp_path / "rank0", None)
    (folder.path / "dump.json").symlink_to("dump.json")
    assert kinds(full_reader.read(folder).problems) == [ProblemKind.UNREADABLE]
    write(tmp_path / "elsewhere.json", text(SMALL))
    folder = rank_folder(tmp_path / "rank1", None)
    (folder.path / "dump.json").symlink_to(tmp_path / "elsewhere.json")
    assert len(full_reader.read(folder).records) == 5


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    folder = rank_folder(tmp_path / "rank0", text(SMALL))
    (folder.path / "dump.json").chmod(0)
    assert kinds(full_reader.read(folder).problems) == [ProblemKind.UNREADABLE]


def test_the_file_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = rank_folder(tmp_path / "rank0", text(SMALL))
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: (opened.append(Path(path).name), real(path, *rest))[1])
    full_reader.read(folder)
    assert opened == ["dump.json"]


def test_the_collector_is_on_again_afterwards(tmp_path: Path) -> None:
    read(tmp_path, text(SMALL))
    assert gc.isenabled()
    read(tmp_path, b"{")
    assert gc.isenabled()
