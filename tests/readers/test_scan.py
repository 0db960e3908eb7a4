"""The scanning reader: the same answers as the full one, or doubt."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_dumps import DATA, INF, NAN, SMALL, backward, bare, forward, group, scalar, tensor, text
from msgspec.structs import replace
from two_ways import BOOK, scanned, seen, whole, write

from firstnan.dump.folders import RankFolder
from firstnan.rank.suspects import Lookout
from firstnan.read.scan import record_index, search, sweep
from firstnan.read.scan.lines import Sieve
from firstnan.read.scan.places import Places
from firstnan.read.scan.record_index import BUFFER, Buffer, Doubt, RecordFile

Json = dict[str, Any]
MASK = tensor(2.0, -INF)


def alike(path: Path, content: str | bytes, buffers: tuple[int, ...] = (64, 700, 4096)) -> dict[str, object]:
    """What both readers see, for several sizes of the buffer."""
    folder = write(path, content)
    full = seen(*whole(folder))
    for buffer in buffers:
        assert seen(*scanned(folder, buffer)) == full
    return full


def doubt(path: Path, content: str | bytes) -> str:
    """Why the scan leaves a file to the full reader."""
    with pytest.raises(Doubt) as caught:
        seen(*scanned(write(path, content)))
    return str(caught.value)


def plain(records: int = 4) -> Json:
    return {f"Torch.relu.{number}.forward": forward([tensor()], {}, [tensor()]) for number in range(records)}


# -- what is read alike ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(plain(), id="healthy"),
        pytest.param(SMALL, id="each kind"),
        pytest.param({**plain(), **SMALL}, id="late"),
        pytest.param({**plain(), "Torch.add.0.forward": forward([MASK], {}, [MASK])}, id="mask from outside"),
        pytest.param(
            {**plain(), "Torch.add.0.forward": {"input_args": [tensor()], "input_kwargs": {}}},
            id="unfinished at the end",
        ),
        pytest.param(
            {"Torch.add.0.forward": {"input_args": [tensor()], "input_kwargs": {"a": scalar(1)}}, **plain()},
            id="unfinished at the beginning",
        ),
        pytest.param(
            {"Module.a.B.forward.0": {"input_args": [tensor()], "input_kwargs": {}}, **plain(), **SMALL},
            id="unfinished module, and backward behind it",
        ),
        pytest.param(
            {**plain(), "Torch.empty.0.forward": forward([scalar(3)], {}, [tensor(NAN, NAN)]), **SMALL}, id="garbage"
        ),
        pytest.param({**plain(), "Torch.relu.9.forward": forward([tensor(None, None)], {}, [tensor()])}, id="blank"),
        pytest.param(
            {**plain(), "Torch.div.0.forward": forward([], {}, [tensor(NAN, NAN)]),
             "Torch.relu.9.forward": forward([tensor(None, None)], {}, [tensor()])}, id="blank behind a suspect"
        ),
        pytest.param({**plain(), "Torch.relu.9.forward": forward([tensor("nan", "nan")], {}, [])}, id="words"),
        pytest.param({**plain(), "Torch.relu.9.forward": forward([tensor(2.0, "-inf")], {}, [])}, id="words in a mask"),
        pytest.param({**plain(), "Torch.relu.9.forward": forward([bare(Max=NAN, Min=1.0)], {}, [])}, id="Max alone"),
        pytest.param({**plain(), "Torch.relu.9.forward": forward([bare(Max=1.0, Min=NAN)], {}, [])}, id="Min alone"),
        pytest.param(
            {**plain(), "Torch.relu.9.forward": forward([tensor(7, 3, "torch.int64"), tensor(True, False, "bool")])},
            id="integers",
        ),
        pytest.param(
            {**plain(), "Torch.masked_fill.9.forward": forward([tensor(7, -INF, "torch.int64")], {}, [])},
            id="nonsense",
        ),
        pytest.param({**plain(), "Torch.where.0.forward": forward([MASK], {}, {"a": MASK, "b": MASK})}, id="named"),
        pytest.param({**plain(600), "Torch.div.0.forward": backward([tensor()], [tensor(INF)])}, id="long"),
    ],
)  # fmt: skip
def test_the_scan_sees_what_the_full_reader_sees(data: Json, tmp_path: Path) -> None:
    alike(tmp_path, text(data))


def test_every_border_of_the_buffer_may_fall_anywhere(tmp_path: Path) -> None:
    alike(tmp_path, text({**SMALL, **plain(2)}), tuple(range(40, 2500, 7)))


def test_numbers_outside_of_tensors_do_not_stand_for_missing_ones(tmp_path: Path) -> None:
    """As many of one as of the other: the first part of a file is searched, not counted alone."""
    odd = {"type": "torch.Tensor", "Max": 1.5, "Min": 0.5}  # two numbers, no dtype
    seen_by_both = alike(
        tmp_path, text({**plain(), "Torch.a.0.forward": forward([odd], {}, [tensor(NAN, NAN)])}), (BUFFER,)
    )
    assert seen_by_both["suspects"] == [4]


@pytest.mark.parametrize(
    ("tensors", "counts"),
    [
        pytest.param([tensor()], (0, 0, 0, 0), id="numbers"),
        pytest.param([tensor(True, False, "torch.bool"), tensor(-3, 1e-5), tensor(0)], (0, 0, 0, 0), id="of each kind"),
        pytest.param([tensor(), MASK, tensor(-INF, -INF)], (0, 3, 0, 0), id="masks"),
        pytest.param([MASK, tensor(NAN, NAN), tensor(NAN, 1.0)], (0, 1, 2, 1), id="NaN"),
        pytest.param([tensor(INF, 1.0)], (1, 0, 0, 0), id="infinity"),
        pytest.param([tensor(None, None)], (2, 0, 0, 0), id="null"),
        pytest.param([tensor("nan", "nan")], (2, 0, 0, 0), id="text"),
        pytest.param([bare(Max=1.0)], (1, 0, 0, 0), id="no Min"),
        pytest.param([bare(Min=1.0)], (1, 0, 0, 0), id="no Max"),
    ],
)
def test_how_values_are_spelled_is_counted(tensors: list[Json], counts: tuple[int, ...]) -> None:
    content = text({**plain(), "Torch.a.0.forward": forward(tensors)}).encode()
    buffer = Buffer(len(content))
    buffer.data[:] = content
    sieve = Sieve(Lookout(BOOK, 0))
    sieve.check(buffer, 0, len(content))
    found = sieve.spelling(buffer, 0, len(content))
    assert (found.others, len(found.negative), found.largest_nan, found.least_nan) == counts
    assert all(content[place + 3 :].startswith(b'": -Infinity') for place in found.negative)


def test_text_that_looks_like_structure_is_text(tmp_path: Path) -> None:
    told = 'he said "Max": NaN,\n  "Torch.fake.0.forward": {\n   "output": [ and \\ "Min": -Infinity'
    data = {
        **plain(),
        "Torch.einsum.0.forward": forward([scalar(told)], {"Max": scalar(told), told: tensor()}, [tensor()]),
        'Custom.NaN "quoted" Distributed.Infinity.0.forward': forward([tensor()], {}, [tensor()]),
        "Custom.caf\u00e9.\u6d4b\u8bd5.0.forward": forward([tensor()], {"key": {"Max": tensor(NAN, NAN)}}, [tensor()]),
    }
    full = alike(tmp_path, text(data))
    assert full["suspects"] == [6]


def test_a_record_may_be_longer_than_the_buffer(tmp_path: Path) -> None:
    many = forward([tensor() for _ in range(300)] + [tensor(NAN, NAN)], {}, [tensor()])
    full = alike(tmp_path, text({**plain(), "Torch.stack.0.forward": many, **SMALL}), (64, 1000))
    assert full["suspects"] == [4, 6, 7, 8]


def test_large_groups(tmp_path: Path) -> None:
    calls = {
        f"Distributed.all_reduce.{number}.forward": forward(
            [tensor(), group(*range(900))], {}, [tensor(), group(*range(900))]
        )
        for number in range(3)
    }
    alike(tmp_path, text({**plain(), **calls}), (64, 5000))


def test_calls_that_differ_in_a_number_are_kept_apart(tmp_path: Path) -> None:
    data: Json = {**plain()}
    for number, peer in enumerate((1, 2, 1, 3)):
        data[f"Distributed.send.{number}.forward"] = forward([tensor(float(number))], {"dst": scalar(peer)}, [tensor()])
        operation = {
            "class_type": "torch.distributed.P2POp",
            "tensor": tensor(NAN),
            "op": "isend",
            "peer": peer,
            "tag": 0,
        }
        data[f"Distributed.batch_isend_irecv.{number}.forward"] = forward([[operation]], {}, [[operation]])
        data[f"Distributed.broadcast.{number}.forward"] = forward(
            [tensor(), scalar(peer)], {}, [tensor(), scalar(peer)]
        )
        data[f"MintDistributed.all_reduce.{number}.forward"] = forward([tensor(), group(0, peer)], {}, [tensor()])
        data[f"NotDistributed.all_reduce.{number}.forward"] = forward([tensor()], {}, [tensor()])
    full = alike(tmp_path, text(data))
    calls = full["calls"]
    assert isinstance(calls, list)
    assert len(calls) == 16


@pytest.mark.parametrize(
    "name", sorted(p.parent.parent.parent.name for p in DATA.glob("*/step0/rank0/dump.json")) or ["-"]
)
def test_samples(name: str) -> None:
    folder = RankFolder(0, 0, DATA / name / "step0" / "rank0", name)
    if not (folder.path / "dump.json").is_file():
        pytest.skip("no sample of this name")
    try:
        found = seen(*scanned(folder, 512))
    except Doubt:
        return
    assert found == seen(*whole(folder))


def test_without_stringzilla_the_answers_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "HAS_STRINGZILLA", False)
    monkeypatch.setattr(search, "_HAS_TARGET", False)
    alike(tmp_path, text({**plain(), **SMALL, "Torch.masked_fill.0.forward": forward([MASK], {}, [MASK])}))


# -- what is left to the full reader -----------------------------------------------------------------------

SOUND = text({**plain(), **SMALL})
LEFT_TO_THE_FULL_READER: dict[str, Callable[[str], str | bytes]] = {
    "compact": lambda t: json.dumps(json.loads(t)),
    "indented by two": lambda t: json.dumps(json.loads(t), indent=2),
    "indented by a tab": lambda t: json.dumps(json.loads(t), indent="\t"),
    "sorted": lambda t: json.dumps(json.loads(t), indent=1, sort_keys=True),
    "carriage returns": lambda t: t.replace("\n", "\r\n"),
    "byte order mark": lambda t: "\ufeff" + t,
    "UTF-16": lambda t: t.encode("utf-16"),
    "blank at the beginning": lambda t: " " + t,
    "text behind the end": lambda t: t + "\nnull",
    "a key behind the records": lambda t: t.removesuffix("\n}") + ',\n "more": 1\n}',
    "an object behind the records": lambda t: t.removesuffix("\n}") + ',\n "more": {\n  "a": {}\n }\n}',
    "no task": lambda t: t.replace(' "task": "statistics",\n', ""),
    "another task": lambda t: t.replace('"statistics"', '"nan_check"'),
    "no framework": lambda t: t.replace(' "framework": "pytorch",\n', ""),
    "no records": lambda t: t[: t.index('\n  "Torch')] + "}\n}",
    "a comma too many": lambda t: t.removesuffix("\n }\n}") + ",\n }\n}",
    "umlaut": lambda t: t.replace("Functional.linear.0.backward", "Functional.l\u00fcnear.0.backward"),
    "NUL": lambda t: t.replace("Functional.linear.0.backward", "Functional.l\0near.0.backward"),
    "blanks in place of an object": lambda t: t.replace('  "Torch.relu.1.forward": {', '  "Torch.relu.1.forward":  {'),
    "no object": lambda t: t.replace('  "Torch.relu.1.', '  "Torch.relu.8.forward": null,\n  "Torch.relu.1.'),
    "a broken record with a bad value": lambda t: t.replace('"Max": NaN,', '"Max": NaN', 1),
    "equal keys in a record with a bad value": lambda t: t.replace('"Max": NaN,', '"Max": NaN,\n     "Max": 1.0,', 1),
    "two outputs": lambda t: t.replace('   "output": [', '   "output": [],\n   "output": [', 1),
}  # fmt: skip


@pytest.mark.parametrize("change", LEFT_TO_THE_FULL_READER)
def test_another_layout_is_left_to_the_full_reader(change: str, tmp_path: Path) -> None:
    changed = LEFT_TO_THE_FULL_READER[change](SOUND)
    assert changed != SOUND
    assert doubt(tmp_path, changed)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"Torch.a.0.forward": forward([bare()], {}, [bare(md5="0x1")])}, id="checksums"),
        pytest.param({**plain(), "Torch.a.0.forward": forward([bare(tensor_stat_index=3)])}, id="placeholders"),
        pytest.param({"Torch.a.0.forward": forward([bare()], is_nan=1), **plain()}, id="flags"),
        pytest.param({**plain(), "Torch.a.0.forward": forward([tensor(INF, 0.0, "torch.float64")])}, id="float64"),
        pytest.param({**plain(), "Torch.a.0.forward": forward("text", {}, [tensor(NAN)])}, id="unknown form"),
        pytest.param({**plain(), "Distributed.all_reduce_0_0": forward([tensor(NAN, NAN)])}, id="hand-made names"),
    ],
)
def test_values_that_need_the_whole_file_are_left_to_the_full_reader(data: Json, tmp_path: Path) -> None:
    assert doubt(tmp_path, text(data))


@pytest.mark.parametrize("end", range(0, len(SOUND), 61))
def test_a_file_that_is_cut_is_left_to_the_full_reader(end: int, tmp_path: Path) -> None:
    assert doubt(tmp_path, SOUND[:end])


def test_a_newline_at_the_end_is_no_doubt(tmp_path: Path) -> None:
    alike(tmp_path, SOUND + "\n")


def test_a_file_that_is_not_there_is_left_to_the_full_reader(tmp_path: Path) -> None:
    with pytest.raises(Doubt):
        scanned(RankFolder(0, 0, tmp_path / "nowhere", "nowhere"))


def test_a_record_beyond_the_limit_is_left_to_the_full_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_index, "LONGEST", 1000)
    folder = write(tmp_path, text({"Torch.stack.0.forward": forward([tensor() for _ in range(40)])}))
    with pytest.raises(Doubt, match="record of more than"):
        scanned(folder, 256)


def test_a_file_that_is_written_to_in_between_is_doubtful(tmp_path: Path) -> None:
    written = text(plain(60))
    folder = write(tmp_path, written)
    view, _ = scanned(folder, 4096)
    (folder.path / "dump.json").write_text(written.replace("1.0", "1.25"))
    with pytest.raises(Doubt, match="written to"):
        view.records(0, 60)


def test_a_small_file_is_read_once(tmp_path: Path) -> None:
    """Whatever becomes of it meanwhile."""
    folder = write(tmp_path, SOUND)
    expected = seen(*whole(folder))
    view, watch = scanned(folder)
    (folder.path / "dump.json").unlink()
    assert seen(view, watch) == expected


def test_a_file_that_becomes_shorter_while_it_is_read_is_doubtful(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    def short(file: Any, buffer: Any, start: int, end: int) -> int:
        reads.append(start)
        return file.readinto(buffer.window[start:end]) if len(reads) < 4 else 0

    monkeypatch.setattr(RecordFile, "_fill", staticmethod(short))
    with pytest.raises(Doubt, match="shorter"):
        scanned(write(tmp_path, text(plain(60))), 4096)


def test_a_file_may_come_in_small_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(file: Any, buffer: Any, start: int, end: int) -> int:
        return int(file.readinto(buffer.window[start : min(end, start + 100)]) or 0)

    folder = write(tmp_path, SOUND)
    full = seen(*whole(folder))
    monkeypatch.setattr(RecordFile, "_fill", staticmethod(slowly))
    assert seen(*scanned(folder, 3000)) == full


def test_one_record_is_found_without_reading_on(tmp_path: Path) -> None:
    folder = write(tmp_path, text({**plain(40), **SMALL}))
    view, _ = whole(folder)
    found = sweep.find_record(folder, "Torch.relu.7.forward")
    assert found is not None
    assert repr(replace(found, index=7)) == repr(view.find("Torch.relu.7.forward"))
    assert sweep.find_record(folder, "Torch.nothing.0.forward") is None


@pytest.mark.parametrize("task", [[], {}])
def test_a_task_of_another_type_is_doubted(tmp_path: Path, task: object) -> None:
    written = text(plain()).replace('"task": "statistics"', f'"task": {json.dumps(task)}')
    assert f'"task": {json.dumps(task)}' in written
    assert "another task" in doubt(tmp_path, written)


def test_a_name_of_foreign_bytes_is_doubted(tmp_path: Path) -> None:
    written = text({**plain(), "Torch.XX.9.forward": forward([MASK], {}, [MASK])}).encode()
    assert "bytes that MSProbe does not write" in doubt(tmp_path, written.replace(b"XX", b"\xf9\xf9"))


def test_many_records_are_searched_by_name(tmp_path: Path) -> None:
    """Beyond some searches all names are looked at once; whether a record is there or not, the answers are the same."""
    folder = write(tmp_path, text({**plain(60), **SMALL}))
    full, _ = whole(folder)
    view, _ = scanned(folder, 2048)
    names = [record.name.full for record in full.records(0, full.overview.end)]
    assert len(names) > 2 * sweep.MOST_SEARCHES
    for name in (*names, *(f"{name}.not" for name in names)):
        assert repr(view.find(name)) == repr(full.find(name))


def test_another_name_of_the_same_hash_is_not_taken_for_it() -> None:
    class Alike(bytes):
        def __hash__(self) -> int:
            return 1

    found = Places([(Alike(b"a"), 5), (b"b", 7), (Alike(b"c"), 9)])
    assert (found.get(b"b"), found.get(Alike(b"c")), found.get(b"d")) == (7, 5, None)
