"""Memory, depth and work are bounded whatever a file holds; what lies beyond a limit is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_sizes
import pytest
from asking import ask
from three_ranks import OTHER, ROOT, rank_folder, write
from work import lines

import firstnan
from firstnan.dump.folders import RankFolder
from firstnan.dump.names import parse_name
from firstnan.dump.problems import ProblemKind
from firstnan.rank.window import SMALL
from firstnan.read.callers import call_site
from firstnan.read.callers.call_site import MAX_CHAIN
from firstnan.read.json import lenient, memory
from firstnan.read.layout import dump_layout
from firstnan.read.records import full_reader
from firstnan.read.records.builder import RecordBuilder
from firstnan.read.records.values import LONGEST_SLOT, MAX_NESTING
from firstnan.read.sources import files
from firstnan.run import pipeline, rank_passes

MB = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "dump")


def spoil(root: Path, content: bytes) -> Path:
    path = rank_folder(root, OTHER) / "dump.json"
    path.write_bytes(content)
    return path


# --- memory -------------------------------------------------------------------------------------------------------

GREEDY: dict[str, Callable[[int], bytes]] = {
    "objects": lambda n: b'{"data":{"Torch.a.0.forward":{"input_args":[' + b"{}," * (n // 3) + b'{}],"output":[]}}}',
    "lists": lambda n: b"[" + b"[]," * (n // 3) + b"[]]",
    "numbers": lambda n: b'{"data":[' + b"1," * (n // 2) + b"1]}",
    "brackets": lambda n: b"[" * n,
    "records": lambda n: b'{"data":{' + b",".join(b'"T.a.%d.forward":{}' % i for i in range(n // 22)) + b"}}",
}
"""Texts whose values take much more room than their bytes."""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize("kind", GREEDY)
def test_a_file_that_does_not_fit_into_memory(root: Path, kind: str) -> None:
    """In a process with little memory: told for its rank, and the others are analysed."""
    import resource

    spoil(root, GREEDY[kind](12 * MB))
    command = [
        sys.executable,
        "-m",
        "firstnan",
        "analyze",
        str(root),
        "--format",
        "json",
        "--jobs",
        "1",
        "--lang",
        "en",
    ]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (220 * MB, 220 * MB)),
    )
    assert (ended.returncode, ended.stderr) == (1, "")
    report = json.loads(ended.stdout)
    assert [(c["rank"], c["op_name"]) for c in report["root_causes"]] == [ROOT]
    told = [p for p in report["input"]["problems"] if p["rank"] == OTHER]
    assert [problem["kind"] for problem in told] == ["unreadable"]
    assert "memory" in told[0]["detail"] or kind == "numbers"
    assert not report["complete"]


def test_what_is_needed_is_told_beside_what_is_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SMALL", 100)
    monkeypatch.setattr(memory, "available", lambda: 1 * MB)
    spoil(root, GREEDY["objects"](30_000))
    answer = ask("analyze", root)
    assert answer.causes == [ROOT]
    assert [p["detail"] for p in answer.problems("dump.json")] == ["needs about 2 MiB of memory, 1 MiB are there"]


@pytest.mark.parametrize("kind", GREEDY)
def test_the_estimate_is_not_too_low(kind: str) -> None:
    """More than what the standard library really takes for the values."""
    data = GREEDY[kind](200_000).removesuffix(b"[")
    tracemalloc.start()
    value = lenient.loads(data)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert value is not None
    assert memory.needed(data) > taken


def test_nobody_tells_how_much_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a system that is not asked the way Linux answers nothing is refused."""
    for name in ("_MEMORY_INFO", "_OWN_PAGES", "_GROUP"):
        monkeypatch.setattr(memory, name, tmp_path / "nothing")
    assert memory.available() is None
    assert memory.shortage(b"[" * (memory.SMALL + 1)) is None


def test_a_container_with_little_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, text in (
        ("memory.max", "1000000\n"),
        ("memory.current", "900000\n"),
        ("memory.stat", "inactive_file 5000\n"),
    ):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    assert memory.available() == 105_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available() != 105_000


def test_records_that_do_not_fit_into_memory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(RecordBuilder, "build", full)
    found = full_reader.read(RankFolder(0, OTHER, rank_folder(root, OTHER), "rank2"))
    assert [(p.kind, p.judged) for p in found.problems] == [(ProblemKind.UNREADABLE, False)]
    assert "memory" in found.problems[0].detail


def test_out_of_memory_elsewhere_ends_with_3(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(pipeline, "analyze", full)
    answer = ask("analyze", root)
    assert (answer.code, answer.report) == (3, {})
    assert answer.said.startswith("firstnan: out of memory\n")


def test_a_long_key_is_not_repeated_below_it(tmp_path: Path) -> None:
    """The slot of a tensor names all keys above it: 20 000 tensors below one key of a megabyte are no 20 gigabytes."""
    few = '{"type": "torch.Tensor", "dtype": "torch.float16", "shape": [], "Max": 1.0, "Min": 1.0}'
    inside = ", ".join(f'"{i}": {few}' for i in range(2000))
    record = f'{{"input_args": [], "input_kwargs": {{"{"k" * MB}": {{{inside}}}}}, "output": []}}'
    (tmp_path / "dump.json").write_text(f'{{"task": "statistics", "data": {{"Torch.a.0.forward": {record}}}}}')
    tracemalloc.start()
    found = full_reader.read(RankFolder(0, 0, tmp_path, "rank0"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.records[0].inputs) == 2000
    assert max(len(stat.slot) for stat in found.records[0].inputs) <= LONGEST_SLOT
    assert peak < 50 * MB


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the patch reaches the worker by forking")
def test_a_worker_that_is_killed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system does when memory ends: its rank is told, the others are analysed."""
    real = rank_passes.survey

    def survey(folder: RankFolder, *args: Any, **more: Any) -> Any:
        if folder.rank == OTHER:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(folder, *args, **more)

    survey.__module__, survey.__qualname__ = "firstnan.run.rank_passes", "survey"
    monkeypatch.setattr(rank_passes, "survey", survey)
    report = firstnan.analyze(root, firstnan.Options(jobs=2))
    assert [(cause.rank, cause.op_name) for cause in report.root_causes] == [ROOT]
    assert [p.rank for p in report.input.problems] == [OTHER]


# --- sizes and depths ---------------------------------------------------------------------------------------------


def test_a_file_beyond_every_size(root: Path) -> None:
    """65 GiB of nothing (a sparse file): not read."""
    path = spoil(root, b"{")
    try:
        os.truncate(path, files.MAX_BYTES + 1)
    except OSError:
        pytest.skip("the file system has no files of this size")
    answer = ask("analyze", root)
    assert answer.causes == [ROOT]
    assert [p["kind"] for p in answer.problems("dump.json")] == ["unreadable"]
    assert "more than the limit" in answer.problems("dump.json")[0]["detail"]


@pytest.mark.parametrize(
    ("depth", "told"),
    [(MAX_NESTING - 1, []), (MAX_NESTING + 5, ["limit"]), (20 * lenient.MAX_DEPTH, ["truncated", "limit"])],
)
def test_the_limit_of_depth_is_told(root: Path, depth: int, told: list[str]) -> None:
    top = json.loads((rank_folder(root, OTHER) / "dump.json").read_text())
    text = json.dumps(top, indent=1)
    more = f'"Tensor.deep.0.forward": {{"input_args": [{"[" * depth}1{"]" * depth}], "output": []}}, '
    spoil(root, text.replace('"data": {', '"data": {' + more, 1).encode())
    answer = ask("analyze", root)
    assert answer.code == 1
    assert answer.causes[0] == ROOT
    assert [p["kind"] for p in answer.problems("dump.json")] == told


def test_the_limit_of_folders_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_layout, "_MAX_FOLDERS", 10)
    for number in range(20):
        (tmp_path / f"a{number:02}").mkdir()
    write(tmp_path / "a00")
    answer = ask("analyze", tmp_path)
    assert answer.causes == [ROOT]
    assert "limit" in [p["kind"] for p in answer.report["input"]["problems"]]
    assert not answer.report["complete"]


def test_the_limit_of_chains_is_told(tmp_path: Path) -> None:
    names = [f"Module.m{i}.M.forward.0" for i in range(MAX_CHAIN + 500)]
    (tmp_path / "construct.json").write_text(json.dumps(dict(zip(names, [*names[1:], None], strict=True))))
    (tmp_path / "stack.json").write_text("{}")
    sites, _ = call_site.read(RankFolder(0, 0, tmp_path, "rank0"), names[:1])
    assert len(sites[names[0]].chain) == MAX_CHAIN + 1
    assert "longer than" in sites[names[0]].problems[0].detail


# --- work ---------------------------------------------------------------------------------------------------------

FOUR_TIMES = 4.6
"""So much more work may four times the input make; a square would make sixteen times as much."""


def grows_like_its_input(make: Callable[[int], Callable[[], object]], n: int) -> None:
    small, large = lines(make(n)), lines(make(4 * n))
    assert large <= FOUR_TIMES * small + 1000, (small, large)


def test_work_for_long_names() -> None:
    """Lines do not depend on the length at all; the methods of str that they call are linear."""
    text = "Module." + "layers.0." * 1000
    for tail in ("", ".Linear.forward.0", ".forward", "_0_0", "." * 1000, "_1" * 1000, "0" * 5000):
        assert lines(lambda t=tail: parse_name(text * 50 + t)) <= lines(lambda t=tail: parse_name(text + t))


@pytest.mark.parametrize("kind", ["equal keys", "cut", "commas", "escapes", "strings"])
def test_work_for_damaged_json(kind: str) -> None:
    def make(n: int) -> Callable[[], object]:
        text = {
            "equal keys": b"{" + b'"a": 1, ' * n + b'"b": 2}',
            "cut": b'{"a": [' + b'{"x": [1, 2]}, ' * n,
            "commas": b'{"a": [1' + b"," * n,
            "escapes": b'["' + b"\\ud800" * n + b'", ',
            "strings": b"[" + b'"\\"" ' * n,
        }[kind]
        return lambda: lenient.loads(text)

    grows_like_its_input(make, 500)


def rank(tmp_path: Path, name: str, content: dict[str, Any]) -> RankFolder:
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    for file in ("construct.json", "stack.json"):
        (folder / file).write_text(json.dumps(content.get(file, {})))
    return RankFolder(0, 0, folder, name)


def test_work_for_long_chains(tmp_path: Path) -> None:
    def make(n: int) -> Callable[[], object]:
        names = [f"Module.m{i}.M.forward.0" for i in range(n)]
        folder = rank(tmp_path, f"c{n}", {"construct.json": dict(zip(names, [*names[1:], None], strict=True))})
        return lambda: call_site.read(folder, names[:1])

    grows_like_its_input(make, 200)


def test_work_for_long_stacks(tmp_path: Path) -> None:
    """One stack of n frames that stands for n records."""

    def make(n: int) -> Callable[[], object]:
        names = [f"Torch.a.{i}.forward" for i in range(n)]
        frames = [f"File /site-packages/torch/nn/{i}.py, line {i}, in f, \n x" for i in range(n)]
        folder = rank(tmp_path, f"s{n}", {"stack.json": {"0": [names, frames]}})
        return lambda: call_site.read(folder, names[:2])

    grows_like_its_input(make, 200)


def test_work_for_many_steps_and_ranks(tmp_path: Path) -> None:
    def make(n: int) -> Callable[[], object]:
        root = tmp_path / f"l{n}"
        for step in range(n):
            for number in range(4):
                (root / f"step{step}" / f"rank{number}").mkdir(parents=True)
                (root / f"step{step}" / f"rank{number}" / "dump.json").write_text("{}")
        return lambda: dump_layout.find(root)

    grows_like_its_input(make, 30)


def test_work_for_ranks_that_are_absent_in_places(tmp_path: Path) -> None:
    """Every step has a rank of its own: each is absent in all others, and told there."""
    for step in range(12):
        (tmp_path / f"step{step}" / f"rank{step}").mkdir(parents=True)
        (tmp_path / f"step{step}" / f"rank{step}" / "dump.json").write_text("{}")
    assert len(dump_layout.find(tmp_path).problems) == 12 * 11


SIZES = {
    "births": 500,
    "carriers": 500,
    "entries": 700,
    "masks": 500,
    "readers": 250,
    "gradients": 250,
    "backward": 500,
    "calls": 60,
    "groups": 40,
    "sends": 600,
    "batches": 60,
    "many_ranks": 10,
}
"""How many there are at first; numbers beyond which the analysis looks at a part only are passed on the way, but for
sends (their ranks are asked once more from there on) and entries (see the test behind this one)."""


@pytest.mark.parametrize("name", SIZES)
def test_work_for_many_of_a_kind(tmp_path: Path, name: str) -> None:
    """A whole analysis of a dump that grows in one direction."""

    def make(n: int) -> Callable[[], object]:
        root = made_sizes.write(tmp_path / str(n), getattr(made_sizes, name)(n))
        return lambda: firstnan.analyze(root, firstnan.Options(jobs=1))

    grows_like_its_input(make, SIZES[name])


@pytest.mark.parametrize("name", ["births", "entries", "masks", "readers", "gradients", "backward"])
def test_the_step_from_a_whole_look_to_windows_is_none(tmp_path: Path, name: str) -> None:
    """Windows are opened one after the other; what was followed in the first ones is not followed again."""

    def work(n: int) -> int:
        root = made_sizes.write(tmp_path / str(n), getattr(made_sizes, name)(n))
        return lines(lambda: firstnan.analyze(root, firstnan.Options(jobs=1)))

    work(SMALL // 4)  # what is looked up once for all
    assert work(SMALL + 88) <= 2.4 * work(SMALL // 2 + 44)


def test_work_for_deep_modules(tmp_path: Path) -> None:
    """A value is not looked at again for each module around it."""

    def make(n: int) -> Callable[[], object]:
        root = made_sizes.write(tmp_path / str(n), made_sizes.deep(n), made_sizes.one_in_the_other)
        return lambda: firstnan.analyze(root, firstnan.Options(jobs=1))

    grows_like_its_input(make, 60)


@pytest.mark.parametrize("name", ["births", "entries", "calls", "sends", "gradients"])
def test_reports_do_not_grow_with_the_damage(tmp_path: Path, name: str) -> None:
    """However much is bad, the report names the first of it: in bounded lists."""
    root = made_sizes.write(tmp_path / "dump", getattr(made_sizes, name)(700))
    report = firstnan.analyze(root, firstnan.Options(jobs=1))
    assert len(report.root_causes) <= 64
    assert len(report.contained) <= 100
    assert len(report.collectives) <= 500
    assert len(json.dumps(report.to_dict())) < 2 * MB


@pytest.mark.parametrize("count", [250, 1000])
def test_every_call_that_a_value_enters_is_followed(tmp_path: Path, count: int) -> None:
    """However many come before the one whose receiver matters."""
    root = made_sizes.write(tmp_path / "dump", made_sizes.sends(count))
    report = firstnan.analyze(root, firstnan.Options(jobs=1))
    assert [(cause.rank, cause.op_name) for cause in report.root_causes] == [
        (0, f"Distributed.send.{count - 1}.forward")
    ]
    assert report.complete
