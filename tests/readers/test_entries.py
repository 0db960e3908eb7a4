"""construct.json and stack.json of long dumps: only the entries that are asked for are parsed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from firstnan.dump.folders import RankFolder
from firstnan.dump.problems import ProblemKind
from firstnan.read.callers import call_site, entries
from firstnan.read.callers.construct import Callers
from firstnan.read.callers.entries import EntryFile, beginning_of
from firstnan.read.scan.record_index import Buffer, Doubt, RecordFile, Region

LAYER = "Module.layers.{}.Layer.forward.0"
CONSTRUCT: dict[str, Any] = {
    "Module.net.Net.forward.0": None,
    **{LAYER.format(layer): "Module.net.Net.forward.0" for layer in range(300)},
    **{f"Functional.linear.{call}.forward": LAYER.format(call // 10) for call in range(3000)},
    'Custom.caf\u00e9 "x".0.forward': ["Module.net.Net.forward.0", 3],
    "Torch.first.0.forward": "",
    "megatron_micro_step_number": 4,
}
FRAME = "File /train/model.py, line {}, in forward, \n step()"
STACK = {
    str(group): [
        [f"Functional.linear.{call}.forward" for call in range(3000) if call % 7 == group],
        [FRAME.format(group + 1)],
    ]
    for group in range(7)
}


def folder(path: Path, **files: Any) -> RankFolder:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content, indent=1)
        (path / f"{name}.json").write_text(text, encoding="utf-8")
    return RankFolder(0, 0, path, path.name)


@pytest.mark.parametrize("region", [200, 3000, 1 << 20])
def test_callers_of_records_and_of_their_callers(region: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "REGION", region)
    rank = folder(tmp_path, construct=CONSTRUCT)
    whole, _ = call_site.parents(rank)
    names = ["Functional.linear.5.forward", "Functional.linear.2999.forward", 'Custom.caf\u00e9 "x".0.forward',
             "Torch.first.0.forward", "Torch.absent.0.forward", "Module.a.B.parameters_grad.0"]  # fmt: skip
    callers = Callers(rank, small=0)
    found = callers(names)
    assert callers.problems == ()
    for name in (*names, LAYER.format(0), LAYER.format(299), "Module.net.Net.forward.0"):
        assert found.get(name) == whole.get(name)
        assert (name in found) == (name in whole)
    assert len(found) < len(whole) or region > 100_000


def test_names_from_everywhere_do_not_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions that are read for all names in the order of a file: some times as many as there are, not their square."""
    monkeypatch.setattr(entries, "REGION", 200)
    rank = folder(tmp_path, construct=CONSTRUCT)
    reads = 0
    fill = RecordFile._fill

    def counted(*arguments: Any) -> int:
        nonlocal reads
        reads += 1
        return fill(*arguments)

    monkeypatch.setattr(RecordFile, "_fill", staticmethod(counted))
    names = [f"Functional.linear.{call}.forward" for call in range(3000)]
    found = Callers(rank, small=0)(names)
    assert [found[name] for name in names] == [LAYER.format(call // 10) for call in range(3000)]
    assert reads < 10 * (rank.path / "construct.json").stat().st_size // 200


def test_what_is_asked_for_next_is_looked_for_nearby(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that was entered before the call inside stands before it; what is asked for last ends the file."""
    monkeypatch.setattr(entries, "REGION", 1000)
    names = [f"Functional.linear.{call}.forward" for call in range(3000)]
    rank = folder(tmp_path, construct=dict.fromkeys(names))
    file = EntryFile(rank.path / "construct.json", 0, beginning_of(names[1500]))
    reads: list[object] = []
    reread = RecordFile.reread

    def counted(self: RecordFile, regions: Iterable[Region], *more: Any) -> Iterator[tuple[Buffer, Region]]:
        for buffer, region in reread(self, regions, *more):
            reads.append(region)
            yield buffer, region

    monkeypatch.setattr(RecordFile, "reread", counted)
    for at in (1500, 1470, 1530, 2999, 1440):
        before = len(reads)
        assert file.entry(beginning_of(names[at])) == {names[at]: None}
        assert len(reads) - before < 16 or at == 2999


def test_a_small_file_is_read_whole(tmp_path: Path) -> None:
    rank = folder(tmp_path, construct=CONSTRUCT)
    assert Callers(rank)([]) == call_site.parents(rank)[0]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(CONSTRUCT),
        json.dumps(CONSTRUCT, indent=2),
        json.dumps(CONSTRUCT, indent=1)[:-2],
        json.dumps(CONSTRUCT, indent=1).replace("\n", "\r\n"),
        json.dumps([*CONSTRUCT], indent=1),
        "{}",
        "",
    ],
    ids=["compact", "indented by two", "cut", "carriage returns", "a list", "empty object", "empty"],
)
def test_another_layout_is_read_whole(content: str, tmp_path: Path) -> None:
    rank = folder(tmp_path, construct=content)
    whole, problems = call_site.parents(rank)
    callers = Callers(rank, small=0)
    assert callers(["Functional.linear.5.forward"]) == whole
    assert callers.problems == problems


def test_an_entry_of_unknown_form_is_told(tmp_path: Path) -> None:
    rank = folder(tmp_path, construct={**CONSTRUCT, "Torch.odd.0.forward": {"a": 1}})
    callers = Callers(rank, small=0)
    assert callers(["Torch.odd.0.forward"]) == call_site.parents(rank)[0]
    assert len(callers.problems) == 1


NOT_LISTED = ["Functional.linear.5.forward", "Module.new.New.forward.0", "Torch.absent.0.forward"]


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["searched", "read whole"])
def test_a_file_that_does_not_list_a_module_gives_nothing(tmp_path: Path, small: int) -> None:
    """It is of another time than dump.json; an operator that is not listed is no sign of that (checkpointing)."""
    rank = folder(tmp_path, construct=CONSTRUCT)
    callers = Callers(rank, small)
    assert callers(NOT_LISTED[:1] + NOT_LISTED[2:])
    assert callers.problems == ()
    assert callers(NOT_LISTED) == {}
    (told,) = callers.problems
    assert (told.kind, told.judged) == (ProblemKind.BAD_CONTENT, True)
    assert told.detail == "does not list 1 record (first: Module.new.New.forward.0)"


def test_modules_that_were_not_searched_are_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstnan.read.callers.construct.MAX_SEARCHES", 1)
    callers = Callers(folder(tmp_path, construct=CONSTRUCT), small=0)
    found = callers(["Torch.absent.0.forward", *NOT_LISTED])
    assert "Functional.linear.5.forward" not in found
    (told,) = callers.problems
    assert (told.kind, told.judged) == (ProblemKind.LIMIT, False)


def test_call_sites_of_a_long_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = folder(tmp_path, construct=CONSTRUCT, stack=STACK)
    names = ["Functional.linear.1234.forward", "Functional.linear.77.backward", "Torch.absent.0.forward"]
    whole = call_site.read(rank, names)
    monkeypatch.setattr(entries.EntryFile.__init__, "__defaults__", (0, None))
    assert call_site.read(rank, names) == whole
    assert whole[0][names[0]].frames[0].line == 1234 % 7 + 1


def test_stacks_by_name_as_old_versions_write_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = {f"Functional.linear.{call}.forward": [FRAME.format(call)] for call in range(1, 2000)}
    rank = folder(tmp_path, construct=CONSTRUCT, stack=old)
    whole = call_site.read(rank, ["Functional.linear.1234.forward"])
    monkeypatch.setattr(entries.EntryFile.__init__, "__defaults__", (0, None))
    assert call_site.read(rank, ["Functional.linear.1234.forward"]) == whole


def test_a_file_that_is_not_there_is_doubtful(tmp_path: Path) -> None:
    with pytest.raises(Doubt):
        EntryFile(tmp_path / "construct.json")


def test_an_entry_begins_with_its_name() -> None:
    assert beginning_of('caf\u00e9 "x"') == b'\n "caf\\u00e9 \\"x\\"": '
