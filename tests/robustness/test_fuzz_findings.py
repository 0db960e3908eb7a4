"""What fuzzing found, kept; and the targets of the fuzzing on their own seeds, so that they stay in order."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from fuzz_readers import TARGETS
from mutate import mutate
from seeds import seeds

from firstnan.dump.folders import RankFolder
from firstnan.operators.table import load
from firstnan.rank.in_memory import WholeDump
from firstnan.rank.suspects import Lookout
from firstnan.read.json.lenient import loads
from firstnan.read.records import full_reader
from firstnan.read.scan.record_index import Doubt
from firstnan.read.scan.sweep import ScannedDump


@pytest.mark.parametrize("name", TARGETS)
def test_seeds(name: str) -> None:
    begin = seeds(name)
    assert begin
    for data in begin:
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_some_broken_inputs(name: str) -> None:
    """The same ones every time."""
    chance = random.Random(name)
    begin = seeds(name)
    for _ in range(300):
        TARGETS[name](mutate(chance.choice(begin), begin, chance))


# --- JSON ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b'{"a":"\xff\xff\xff\xff", ]}', 13),
        (b'{"a":"\xe2\x82", "b": 1, ]}', 19),
        ('{"é": "é", ]'.encode(), 13),
        (b'{"a": 1, ]', 9),
        ('{"�": 1, ]'.encode(), 11),
        ('{"é": 1, ]'.encode("utf-16-le"), 18),
        ('{"é": 1, ]'.encode("utf-16"), 20),
        ('{"é": 1, '.encode("utf-32-be"), 36),
        (b'\xef\xbb\xbf{"a": 1, ]', 12),
    ],
)
def test_the_place_of_a_cut_is_counted_in_bytes_of_the_file(data: bytes, offset: int) -> None:
    """Bytes that are no UTF-8 are replaced by a character of three bytes, and pointed behind the end of the file."""
    cut = loads(data).cut
    assert cut is not None
    assert cut.offset == offset <= len(data)


# --- the scan reader ----------------------------------------------------------------------------------------------


def record(**more: Any) -> dict[str, Any]:
    stat = {
        "type": "torch.Tensor",
        "dtype": "torch.float16",
        "shape": [2],
        "Max": 1.0,
        "Min": 0.5,
        "Mean": 0.7,
        "Norm": 1.1,
    }
    return {"input_args": [stat | {"requires_grad": True}], "input_kwargs": {}, "output": [stat], **more}


def dump(data: dict[str, Any], **header: Any) -> bytes:
    top = {"task": "statistics", "level": "mix", "framework": "pytorch", **header, "data": data}
    return json.dumps(top, indent=1).encode()


def same(tmp_path: Path, data: bytes) -> None:
    """The scan reader gives what the full reader gives, or says that it doubts."""
    (tmp_path / "dump.json").write_bytes(data)
    folder = RankFolder(0, 0, tmp_path, "rank0")
    book = load()
    whole = WholeDump(full_reader.read(folder), Lookout(book, 0, frozenset()))
    try:
        scanned = ScannedDump(folder, Lookout(book, 0, frozenset()))
        assert scanned.overview == whole.overview
        assert repr(scanned.records(0, 100)) == repr(list(whole.records(0, 100)))  # no NaN equals another
    except Doubt:
        pass


TAKEN_FOR_GRANTED = "a search of its own, which would cost 2 % of every sound run; MSProbe does not write it"


def gap(*values: Any, reason: str) -> Any:
    return pytest.param(*values, marks=pytest.mark.xfail(strict=True, reason=reason))


SOUND = {f"Torch.exp.{i}.forward": record() for i in range(10)}
STAT = {"type": "torch.Tensor", "dtype": "torch.float16", "shape": [2], "Max": 4.25, "Min": 1.0}
FOREIGN = dump({**SOUND, "Torch.XX.1.forward": {"input_args": []}}).replace(b"XX", b"\xf9\xf9")
LATE = dump(SOUND).replace(b"\n }\n}", b',\n  "Torch.log.0.forward": {"input_args": [], "output": []}\n }\n}')
BEYOND = dump({**SOUND, "Torch.a.0.forward": record(output=[STAT])})
WITHOUT_MAX = record(output=[{key: value for key, value in STAT.items() if key != "Max"}])
NULL_MIN = record(output=[WITHOUT_MAX["output"][0], STAT | {"Max": None, "Min": None}])
LIST_AS_MAX = record(output=[STAT | {"Max": []}])
OBJECT_AS_MIN = record(output=[STAT | {"Min": {"a": 1}}])
SHARED_LINE = dump(SOUND).replace(b'{},\n   "output"', b'{}, "output"', 1)
GRADIENT_AS_KEY = record(input_args=[STAT | {"Module.a.parameters_grad": 3.5}])
WEIGHT = STAT | {"Mean": 1.5, "Norm": 5.5, "requires_grad": True}
NO_NUMBER = dump({"Module.a.Linear.forward.0": record(input_args=[WEIGHT], output=[WEIGHT], parameters={"w": WEIGHT})})
NO_FLOAT = {"input_args": [], "output": [STAT | {"type": "mindspore.Tensor", "dtype": "odd"}]}


@pytest.mark.parametrize(
    "data",
    [
        gap(BEYOND.replace(b"4.25", b"1" + b"0" * 400), reason=TAKEN_FOR_GRANTED),
        gap(BEYOND.replace(b"4.25", b"1e999"), reason=TAKEN_FOR_GRANTED),
        BEYOND.replace(b"4.25", b" NaN"),
        BEYOND.replace(b"4.25", b" -Infinity"),
        NO_NUMBER.replace(b"5.5", b"5>5"),
        FOREIGN,
        dump(SOUND, task=[]),
        dump(SOUND, task={}),
        LATE,
        SHARED_LINE,
        dump({**SOUND, "Torch.a.0.forward": {k: v for k, v in GRADIENT_AS_KEY.items() if k != "output"}}),
        dump({**SOUND, "Torch.a.0.forward": WITHOUT_MAX}),
        dump({**SOUND, "Torch.a.0.forward": WITHOUT_MAX, "Torch.b.0.forward": NULL_MIN}),
        dump({"Torch.a.0.forward": WITHOUT_MAX, **SOUND}),
        dump({**SOUND, "Torch.a.0.forward": LIST_AS_MAX}),
        dump({**SOUND, "Torch.a.0.forward": OBJECT_AS_MIN}),
        dump({"Cell.a.Dense.forward.0": NO_FLOAT}),
    ],
    ids=[
        "400_digits", "1e999", "nan_behind_two_blanks", "inf_behind_two_blanks",
        "no_number", "foreign_name", "task_is_a_list", "task_is_an_object", "on_one_line", "output_on_a_shared_line",
        "gradient_as_a_key", "no_max", "no_max_and_null",
        "no_max_among_the_first", "max_is_a_list", "min_is_an_object", "no_float",
    ],
)  # fmt: skip
def test_scan_and_full_reader(tmp_path: Path, data: bytes) -> None:
    same(tmp_path, data)
