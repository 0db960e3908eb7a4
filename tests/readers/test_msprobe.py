"""dump.json as records, and what only the whole file tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_dumps import DATA, INF, NAN, SMALL, backward, bare, forward, group, kinds, rank_folder, scalar, tensor, text

from firstnan.dump.folders import RankFolder
from firstnan.dump.problems import ProblemKind
from firstnan.dump.records import Direction, RecordKind, TensorStat
from firstnan.dump.values import ValueState
from firstnan.dump.view import RankDump
from firstnan.read.json import lenient
from firstnan.read.records import full_reader


def read(path: Path, content: str | bytes | None, name: str = "rank0") -> RankDump:
    return full_reader.read(rank_folder(path / name, content))


def test_order_of_the_file_is_the_order_of_execution(tmp_path: Path) -> None:
    found = read(tmp_path, text(SMALL))
    assert [r.name.full for r in found.records] == list(SMALL)
    assert [r.index for r in found.records] == [0, 1, 2, 3, 4]
    assert [r.name.kind for r in found.records] == [
        RecordKind.API, RecordKind.API, RecordKind.MODULE, RecordKind.API, RecordKind.PARAMETERS_GRAD,
    ]  # fmt: skip
    assert [r.name.direction for r in found.records[3:]] == [Direction.BACKWARD] * 2
    assert found.problems == ()
    assert (found.task, found.level, found.framework, found.truncated) == ("statistics", "mix", "pytorch", False)
    assert found.bytes_read == len(text(SMALL))


def test_header_in_any_order_and_without_framework(tmp_path: Path) -> None:
    found = read(tmp_path, json.dumps({"data": SMALL, "level": "L1", "task": "statistics", "framework": "mindspore"}))
    assert (len(found.records), found.framework, found.level) == (5, "mindspore", "L1")
    found = read(tmp_path, json.dumps({"data": SMALL, "task": 3}))
    assert (len(found.records), found.framework, found.task) == (5, None, None)
    assert found.problems == ()


def test_the_careful_parser_gives_the_same_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = rank_folder(tmp_path / "rank0", text(SMALL))
    usual = full_reader.read(folder)

    def refuse(data: bytes, **_: object) -> object:
        raise ValueError(data)

    monkeypatch.setattr(lenient, "from_json", refuse)
    assert repr(full_reader.read(folder)) == repr(usual)


@pytest.mark.parametrize("name", ["pytorch", "old", "mindspore", "handmade"])
def test_fixtures_of_every_family(name: str) -> None:
    """The smallest dump of each family: one clean operator, one that gives a bad value, one communication."""
    found = full_reader.read(RankFolder(0, 0, DATA / name / "step0" / "rank0", name))
    states = [[s.state.is_bad for s in r.outputs] for r in found.records]
    assert states[0] == [False]
    assert states[1] == [True]
    assert found.records[2].name.prefix == "Distributed"
    assert found.problems == ()


# --- what only the whole file tells ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (bare(md5="0x00b2390282791dda"), "checksums"),
        (bare(tensor_stat_index=3), "placeholders"),
        (tensor(None, None), "null"),
        (bare(), "no statistics"),
    ],
)
def test_modes_without_statistics(tmp_path: Path, raw: dict[str, Any], words: str) -> None:
    blank = forward([raw], output=[raw])
    found = read(tmp_path, text({"T.a.0.forward": blank, "T.b.0.forward": blank}))
    assert kinds(found.problems) == [ProblemKind.NO_STATISTICS]
    assert words in found.problems[0].detail
    assert not found.problems[0].judged
    found = read(tmp_path, text({"T.a.0.forward": blank, "T.b.0.forward": forward(output=[tensor()])}))
    assert kinds(found.problems) == [ProblemKind.PARTLY_NO_STATISTICS]
    assert "1 record (first: T.a.0.forward) of 2" in found.problems[0].detail


def test_null_statistics_of_integers_hide_nothing(tmp_path: Path) -> None:
    found = read(tmp_path, text({"T.a.0.forward": forward([tensor(None, None, "torch.int64")], output=[tensor()])}))
    assert found.problems == ()


def narrowing(integer: TensorStat | dict[str, Any]) -> str:
    return text(
        {
            "T.arange.0.forward": forward(output=[integer]),
            "T.a.0.forward": forward(
                [tensor(INF, 0.0, "torch.float64"), tensor(INF, 0.0)],
                output=[tensor(1e30, 0.0, "torch.float64"), tensor(NAN, NAN, "torch.float64")],
            ),
        }
    )


def test_narrowed_float64_is_unknown(tmp_path: Path) -> None:
    """Integers with a float Max and a Mean: everything went through float32, 1e300 was written as Infinity."""
    found = read(tmp_path, narrowing(tensor(5.0, 0.0, "torch.int64")))
    assert [s.state for s in found.records[1].inputs] == [ValueState.UNKNOWN, ValueState.POS_INF]
    assert [s.state for s in found.records[1].outputs] == [ValueState.FINITE, ValueState.NAN]
    assert kinds(found.problems) == [ProblemKind.NARROWED_FLOAT64]
    assert not found.problems[0].judged


@pytest.mark.parametrize(
    "integer",
    [
        {**tensor(5, 0, "torch.int64"), "Mean": None, "Norm": None},
        {**tensor(5.0, 0.0, "torch.int64"), "Mean": None},
        {**tensor(5.0, 0.0, "int64"), "type": "numpy.ndarray"},
    ],
)
def test_float64_is_believed_when_nothing_was_narrowed(tmp_path: Path, integer: dict[str, Any]) -> None:
    found = read(tmp_path, narrowing(integer))
    assert found.records[1].inputs[0].state is ValueState.POS_INF
    assert found.problems == ()


OPEN = {"input_args": [tensor()], "input_kwargs": {}}
DONE = forward([tensor()], output=[tensor()])


@pytest.mark.parametrize(
    ("data", "judged"),
    [
        pytest.param({"T.a.0.forward": DONE, "T.b.0.forward": OPEN}, False, id="died_in_the_last_call"),
        pytest.param({"T.a.0.forward": OPEN, "T.b.0.forward": DONE}, True, id="went_on_after_it"),
        pytest.param({"Module.n.Net.forward.0": OPEN, "T.a.0.forward": DONE}, False, id="died_inside_a_module"),
        pytest.param(
            {"Module.n.Net.forward.1": OPEN, "T.a.0.forward": DONE, "Module.n.Net.backward.0": backward([tensor()])},
            True, id="recomputation_stopped_early",
        ),
    ],
)  # fmt: skip
def test_unfinished_records(tmp_path: Path, data: dict[str, Any], judged: bool) -> None:
    found = read(tmp_path, text(data))
    assert kinds(found.problems).count(ProblemKind.UNFINISHED_RECORDS) == 1
    problem = next(p for p in found.problems if p.kind is ProblemKind.UNFINISHED_RECORDS)
    assert problem.judged is judged
    assert [r.name.full for r in found.records if not r.has_output] == [n for n, raw in data.items() if raw is OPEN]


def test_a_call_that_returns_nothing_is_finished(tmp_path: Path) -> None:
    found = read(tmp_path, text({"T.a.0.forward": forward(output=[None]), "T.b.0.forward": forward(output=[])}))
    assert [r.has_output for r in found.records] == [True, True]
    assert [r.arity[2] for r in found.records] == [1, 0]
    assert found.problems == ()


# --- differential -----------------------------------------------------------------------------------

NUMBER = st.floats(width=32) | st.integers(-1000, 1000) | st.none()
LEAF = st.one_of(
    st.builds(tensor, NUMBER, NUMBER, st.sampled_from(["torch.float32", "torch.int64", "torch.bool"])),
    st.none(),
    st.builds(scalar, st.integers(-5, 5) | st.text(max_size=3)),
    st.builds(group, st.integers(0, 3), st.integers(4, 7)),
)
TREE = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["k", "mask", "0"]), inner, max_size=2),
    max_leaves=8,
)


def expected(value: Any, slot: str) -> list[tuple[str, Any, Any]]:
    """The tensors of a tree, found the plain way."""
    if isinstance(value, dict) and value.get("type") == "torch.Tensor":
        return [(slot, value["Max"], value["Min"])]
    if isinstance(value, dict) and "type" not in value:
        return [hit for key, inner in value.items() for hit in expected(inner, f"{slot}.{key}")]
    if isinstance(value, list):
        return [hit for index, inner in enumerate(value) for hit in expected(inner, f"{slot}.{index}")]
    return []


@settings(deadline=None)
@given(st.lists(st.lists(TREE, max_size=3), min_size=1, max_size=4), st.dictionaries(st.just("mask"), TREE))
def test_generated_dumps_are_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, records: list[list[Any]], kwargs: dict[str, Any]
) -> None:
    data = {f"Torch.f.{i}.forward": forward(values, kwargs, values[::-1]) for i, values in enumerate(records)}
    found = full_reader.read(rank_folder(tmp_path_factory.getbasetemp() / "made", text(data)))
    assert len(found.records) == len(records)
    for record, values in zip(found.records, records, strict=True):
        inputs = expected(values, "input_args") + expected(kwargs, "input_kwargs")
        outputs = expected(values[::-1], "output")
        assert repr([(s.slot, s.max, s.min) for s in record.inputs]) == repr(inputs)
        assert repr([(s.slot, s.max, s.min) for s in record.outputs]) == repr(outputs)
        assert record.arity == (len(values), len(kwargs), len(values))
