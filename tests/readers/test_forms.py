"""Records that are built from their form are those that the parser gives."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from firstnan.read.records.builder import RecordBuilder
from firstnan.read.scan import forms
from firstnan.read.scan.forms import parsed, read
from firstnan.read.scan.record_index import Doubt

HERE = Path(__file__).parent.parent


def tensor(
    value: object, dtype: str = "torch.float32", shape: tuple[int, ...] = (2, 3), **more: object
) -> dict[str, object]:
    kind = {"type": "torch.Tensor", "dtype": dtype, "shape": list(shape)}
    return {**kind, "Max": value, "Min": value, "Mean": value, "Norm": value, "requires_grad": False, **more}


def written(number: int, *tensors: object, name: str = "Torch.add.{}.forward") -> bytes:
    content = {"input_args": [*tensors, {"type": "int", "value": 3}], "input_kwargs": {}, "output": list(tensors)}
    whole = json.dumps({"data": {name.format(number): content}}, indent=1)
    return whole[whole.index('  "') + 2 : whole.rindex("\n }")].encode()


def both(text: bytes, index: int = 5) -> tuple[str, str]:
    return repr(read(RecordBuilder(), text, index)), repr(parsed(RecordBuilder(), text, index))


VALUES = [1.5, -2.0, 3, 0, -0.0, 1e30, 5e-324, math.nan, math.inf, -math.inf, True, False, None, 2**70, "nan", " -Inf"]


@pytest.mark.parametrize("dtype", ["torch.float32", "bfloat16", "torch.int64", "torch.bool", "Float16", "float64"])
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 4)])
def test_whatever_the_statistics_are(dtype: str, shape: tuple[int, ...]) -> None:
    for number in range(3):
        read(RecordBuilder(), written(number, tensor(1.5, dtype, shape), tensor(0.5)), 0)
    for value in VALUES:
        text = written(7, tensor(value, dtype, shape), tensor(0.5))
        try:
            by_parser = repr(parsed(RecordBuilder(), text, 5))
        except Doubt:
            with pytest.raises(Doubt):
                read(RecordBuilder(), text, 5)
        else:
            assert repr(read(RecordBuilder(), text, 5)) == by_parser


def test_a_third_record_of_a_form_needs_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        written(number, tensor(1.25 * number), tensor(math.nan), name="Torch.third.{}.forward") for number in (1, 2, 3)
    ]
    expected = repr(parsed(RecordBuilder(), texts[2], 9))
    for text in texts[:2]:
        read(RecordBuilder(), text, 0)
    monkeypatch.setattr(forms, "parsed", None)
    assert repr(read(RecordBuilder(), texts[2], 9)) == expected


def test_what_stands_in_the_places_of_arguments_tells_forms_apart() -> None:
    """Shapes, flags, plain numbers: everything but statistics."""
    first = written(1, tensor(1.0), tensor(2.0))
    for _ in range(3):
        read(RecordBuilder(), first, 0)
    for other in (
        written(1, tensor(1.0, shape=(3, 2)), tensor(2.0)),
        written(1, tensor(1.0, requires_grad=True), tensor(2.0)),
        written(1, tensor(1.0)),
        first.replace(b'"value": 3', b'"value": 4'),
        first.replace(b"Torch.add", b"Distributed.all_reduce"),
    ):
        assert other != first
        assert both(other)[0] == both(other)[1]


def test_a_missing_comma_behind_known_statistics_is_seen() -> None:
    sound = written(1, tensor(7.25), tensor(2.0), name="Torch.comma.{}.forward")
    for _ in range(3):
        read(RecordBuilder(), sound, 0)
    broken = sound.replace(b'"Norm": 7.25,', b'"Norm": 7.25', 1)
    assert broken != sound
    with pytest.raises(Doubt):
        read(RecordBuilder(), broken, 0)


def test_a_name_with_another_form_than_the_last_time() -> None:
    """On another rank the same name may stand for other shapes, other arguments or a cut text."""
    usual = written(1, tensor(3.5), tensor(4.5), name="Torch.turns.{}.forward")
    for _ in range(4):
        read(RecordBuilder(), usual, 0)
    for other in (
        written(1, tensor(3.5, shape=(6,)), tensor(4.5), name="Torch.turns.{}.forward"),
        written(1, tensor(3.5), name="Torch.turns.{}.forward"),
        written(1, tensor(3.5), tensor(None), name="Torch.turns.{}.forward"),
        written(1, tensor(math.nan, "torch.int64"), tensor(4.5), name="Torch.turns.{}.forward"),
        usual.replace(b'"value": 3', b'"value": 4'),
    ):
        for _ in range(4):
            one, expected = both(other)
            assert one == expected
    for broken in (usual[:-20], usual + b" 1", usual.replace(b'"Norm": 4.5', b'"Norm": 4.5.5')):
        with pytest.raises(Doubt):
            read(RecordBuilder(), broken, 0)


def test_unjudged_operands_are_counted_every_time() -> None:
    builder = RecordBuilder()
    for number in range(4):
        read(builder, written(number, tensor(None), tensor(1.0)), number)
    assert len(builder.blank) + len(builder.settled) == 4


@pytest.mark.parametrize("path", sorted((HERE / "data").rglob("dump.json"))[:40], ids=lambda path: path.parent.name)
def test_records_of_real_dumps(path: Path) -> None:
    data = path.read_bytes()
    _, *texts = data.split(b'\n  "')
    for index, text in enumerate(texts[:-1]):
        text = b'"' + text
        for _ in range(2):
            try:
                by_parser = repr(parsed(RecordBuilder(), text, index))
            except Doubt:
                continue
            assert repr(read(RecordBuilder(), text, index)) == by_parser
