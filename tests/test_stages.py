"""Scan on each host, merge anywhere: the same report as one run over all ranks."""

from __future__ import annotations

import base64
import json
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from made_runs import INF, NAN, Run, group, named, t, the_cause
from msgspec.structs import replace

import firstnan
from firstnan.answer.model import MechanismKind, Report, Verdict, Where
from firstnan.dump.errors import InputError, UsageError
from firstnan.dump.options import Options
from firstnan.dump.problems import ProblemKind
from firstnan.run import parts, two_stage
from firstnan.run.parts import Stamp
from stages_made import gone, scan, split, without_path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = [ROOT / "examples" / "dp2-tp2", *sorted((ROOT / "examples" / "small").glob("*/"))]
OWN = sorted((ROOT / "tests" / "data" / "own").glob("*.tar.gz"))
PEERS = "device_fault_suspected"
"""The example whose answer compares the same operator on other ranks: that is asked of the files."""
LONG = 600
"""More records than are looked at whole."""
MANY = two_stage.MAX_CALLS + 6
"""More calls than a part keeps."""


def is_dump(path: Path) -> bool:
    return any(path.rglob("dump.json"))


DUMPS = [path for path in EXAMPLES if is_dump(path)]


@pytest.mark.parametrize("dump", [path for path in DUMPS if path.name != PEERS], ids=lambda path: path.name)
def test_merged_elsewhere_the_report_is_the_same(dump: Path, tmp_path: Path) -> None:
    whole = firstnan.analyze(dump, Options(jobs=1))
    hosts = split(dump, tmp_path)
    files = scan(hosts, tmp_path)
    gone(hosts)
    assert without_path(two_stage.merge(files)) == without_path(whole)


@pytest.mark.parametrize("archive", OWN, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_merged_elsewhere_the_report_of_a_real_run_is_the_same(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
        packed.extractall(tmp_path / "dump")
    (dump,) = {path.parent for path in (tmp_path / "dump").rglob("truth.json")}
    whole = firstnan.analyze(dump, Options(jobs=1))
    hosts = split(dump, tmp_path)
    files = scan(hosts, tmp_path)
    gone(hosts)
    assert without_path(two_stage.merge(files)) == without_path(whole)


def test_several_steps_come_together(tmp_path: Path) -> None:
    """The step that is bad is bad on one host alone."""
    run = Run()
    for step in (0, 1, 2):
        for number in (0, 1):
            rank = run.rank(number, step)
            rank.op("Torch.relu", [t(1.0)], [t(1.0)])
            value = NAN if step == 1 and number == 1 else 1.0
            rank.op("Torch.log", [t(1.0, -1.0 if value != value else 1.0)], [t(value)])
            rank.all_reduce(t(value), t(value if number else (NAN if step == 1 else 1.0)), group=(0, 1))
    dump = run.write(tmp_path / "dump")
    whole = firstnan.analyze(dump)
    assert whole.step == 1
    hosts = split(dump, tmp_path)
    files = scan(hosts, tmp_path)
    gone(hosts)
    assert without_path(two_stage.merge(files)) == without_path(whole)


# -- what merging asks beyond the parts ----------------------------------------------------------------


def device_fault() -> Run:
    run = Run()
    for number in range(3):
        value = t(NAN) if number == 1 else t(2.0)
        run.rank(number).op("Torch.matmul", [t(1.0), t(0.5, shape=(8, 8))], [value])
        run.rank(number).op("Torch.sum", [value], [t(NAN if number == 1 else 9.0, shape=())])
    return run


def overflow_of_a_sum() -> Run:
    """Rank 1 is clean, and its part of one of very many sums proves the overflow."""
    run = Run()
    half = t(40000.0, dtype="float16")
    for number in (0, 1):
        rank = run.rank(number)
        rank.skip(LONG)
        for _ in range(MANY):
            rank.all_reduce(t(1.0), t(1.0), group=(0, 1))
        rank.reduce_scatter([half, half], t(100.0 if number else INF, dtype="float16"), group=(0, 1))
    run.rank(0).op("Torch.sum", [t(INF, dtype="float16")], [t(INF, shape=(), dtype="float16")])
    run.rank(1).skip(LONG)
    return run


def dropped() -> Run:
    """What is suspected first is dropped by everybody; what matters comes long after."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.skip(LONG)
        rank.op("Torch.div", [t(1.0)], [t(NAN)])
        rank.comm("all_to_all_single", [None, t(NAN)], {"group": group(0, 1)}, {0: t(NAN)})
        rank.op("Torch.where", [t(NAN), t(1.0)], [t(1.0)])
        rank.skip(LONG)
    run.rank(1).op("Torch.exp", [t(1000.0)], [t(INF)])
    run.rank(1).op("Torch.sum", [t(INF)], [t(INF, shape=())])
    return run


ASKING = {"peers": device_fault, "members": overflow_of_a_sum, "rest": dropped}


@pytest.fixture(params=sorted(ASKING))
def asking(request: pytest.FixtureRequest) -> Callable[[], Run]:
    return ASKING[request.param]


def not_reached(report: Report) -> set[int | None]:
    return {p.rank for p in report.input.problems if p.kind is ProblemKind.NOT_REACHED}


def test_what_the_parts_do_not_hold_is_read_where_it_can_be(asking: Callable[[], Run], tmp_path: Path) -> None:
    dump = asking().write(tmp_path / "dump")
    files = scan(split(dump, tmp_path), tmp_path)
    assert without_path(two_stage.merge(files)) == without_path(firstnan.analyze(dump))


def test_what_cannot_be_asked_is_told(asking: Callable[[], Run], tmp_path: Path) -> None:
    dump = asking().write(tmp_path / "dump")
    hosts = split(dump, tmp_path)
    files = scan(hosts, tmp_path)
    gone(hosts)
    report = two_stage.merge(files)
    assert not_reached(report)
    assert without_path(report) != without_path(firstnan.analyze(dump))


def test_a_rest_that_was_not_looked_at_is_never_clean(tmp_path: Path) -> None:
    dump = dropped().write(tmp_path / "dump")
    hosts = split(dump, tmp_path)
    files = scan(hosts, tmp_path)
    gone(hosts)
    report = two_stage.merge(files)
    assert (report.complete, report.exit_code) in ((False, 4), (False, 1))
    assert any(p.kind is ProblemKind.NOT_REACHED and not p.judged for p in report.input.problems)


def test_a_scan_with_the_others_answers_beforehand(asking: Callable[[], Run], tmp_path: Path) -> None:
    dump = asking().write(tmp_path / "dump")
    hosts = split(dump, tmp_path)
    first = [parts.read(file) for file in scan(hosts, tmp_path)]
    files = scan(hosts, tmp_path, first)
    gone(hosts)
    report = two_stage.merge(files)
    assert not_reached(report) == set()
    assert without_path(report) == without_path(firstnan.analyze(dump))


def test_few_calls_are_kept_all(tmp_path: Path) -> None:
    run = Run()
    half = t(40000.0, dtype="float16")
    for number in (0, 1):
        run.rank(number).reduce_scatter([half, half], t(100.0 if number else INF, dtype="float16"), group=(0, 1))
    run.rank(0).op("Torch.sum", [t(INF, dtype="float16")], [t(INF, shape=(), dtype="float16")])
    run.rank(1).op("Torch.sum", [t(100.0, dtype="float16")], [t(100.0, shape=(), dtype="float16")])
    hosts = split(run.write(tmp_path / "dump"), tmp_path)
    files = scan(hosts, tmp_path)
    gone(hosts)
    assert the_cause(two_stage.merge(files)).mechanism.kind is MechanismKind.REDUCTION_OVERFLOW


def test_a_file_that_changed_is_not_the_one_that_was_scanned(tmp_path: Path) -> None:
    dump = device_fault().write(tmp_path / "dump")
    hosts = split(dump, tmp_path)
    files = scan(hosts, tmp_path)
    for host in hosts:
        for file in host.rglob("dump.json"):
            os.utime(file, ns=(0, 0))
    assert not_reached(two_stage.merge(files))


# -- parts that do not fit together --------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    """The parts of two hosts, each with its own fault."""
    run = Run()
    for number in (0, 1):
        run.rank(number).op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
        run.rank(number).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    hosts = split(run.write(tmp_path / "dump"), tmp_path)
    files = scan(hosts, tmp_path)
    gone(hosts)
    return files


def packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


def with_rank(text: str, content: bytes) -> str:
    """The part with one rank, of this content."""
    document = json.loads(text)
    return json.dumps({**document, "ranks": [{**document["ranks"][0], "data": packed(content)}]})


def with_head(text: str, **changes: object) -> str:
    return json.dumps({**json.loads(text), **changes})


def other_rank(text: str) -> str:
    content = zlib.decompress(base64.b64decode(json.loads(text)["ranks"][0]["data"]))
    raw = msgspec.msgpack.decode(content)
    raw["summary"]["rank"] += 7
    return with_rank(text, msgspec.msgpack.encode(raw))


def with_calls(text: str, content: bytes) -> str:
    raw = msgspec.msgpack.decode(zlib.decompress(base64.b64decode(json.loads(text)["ranks"][0]["data"])))
    return with_rank(text, msgspec.msgpack.encode({**raw, "calls": content}))


def with_mentioned(text: str, *ranges: tuple[int, int]) -> str:
    raw = msgspec.msgpack.decode(zlib.decompress(base64.b64decode(json.loads(text)["ranks"][0]["data"])))
    return with_rank(text, msgspec.msgpack.encode({**raw, "mentioned": ranges}))


ARRAY, MAP, ENDLESS = b"\x91", b"\x81", b"\xff\xff\xff\xff"
DAMAGE: dict[str, Callable[[str], str]] = {
    "cut": lambda text: text[: len(text) // 2],
    "empty": lambda _: "",
    "no object": lambda _: "[]",
    "another schema": lambda text: text.replace("firstnan.part/2", "firstnan.part/99"),
    "the schema before": lambda text: text.replace("firstnan.part/2", "firstnan.part/1"),
    "a schema that is no text": lambda text: with_head(text, schema=[{}]),
    "a report": lambda text: text.replace("firstnan.part/2", "firstnan.report/1"),
    "deep": lambda _: "[" * 100_000,
    "deep where nothing is expected": lambda text: '{"x": ' + "[" * 100_000 + "]" * 100_000 + "," + text[1:],
    "ranks of another type": lambda text: with_head(text, ranks=3),
    "a rank that is no object": lambda text: with_head(text, ranks=[3]),
    "asked for what is no rank": lambda text: with_head(text, asked=["0"]),
    "rules that are no text": lambda text: with_head(text, rules=packed(msgspec.msgpack.encode(3))),
    "a layout of another form": lambda text: with_head(text, layout=packed(msgspec.msgpack.encode({"root": 3}))),
    "data that is no base64": lambda text: with_head(text, ranks=[{**json.loads(text)["ranks"][0], "data": "%%%"}]),
    "data that is not packed": lambda text: with_head(
        text, ranks=[{**json.loads(text)["ranks"][0], "data": "aGFsbG8="}]
    ),
    "data that is cut": lambda text: with_head(
        text, ranks=[{**json.loads(text)["ranks"][0], "data": json.loads(text)["ranks"][0]["data"][:400]}]
    ),
    "data of another form": lambda text: with_rank(text, msgspec.msgpack.encode({"folder": 1})),
    "data with something behind": lambda text: with_rank(
        text, zlib.decompress(base64.b64decode(json.loads(text)["ranks"][0]["data"])) + b"\x00"
    ),
    "data that grows beyond measure": lambda text: with_rank(text, b"\xc0" * (parts.MAX_PACKED + 1)),
    "deep data": lambda text: with_rank(text, ARRAY * 100_000),
    "deep data where nothing is expected": lambda text: with_rank(text, MAP + b"\xa1x" + ARRAY * 100_000 + b"\x01"),
    "deep keys": lambda text: with_rank(text, MAP * 100_000),
    "a list of more than there is": lambda text: with_rank(text, MAP + b"\xa8answered" + b"\xdd" + ENDLESS),
    "a map of more than there is": lambda text: with_rank(text, MAP + b"\xa5sites" + b"\xdf" + ENDLESS),
    "a text of more than there is": lambda text: with_rank(text, MAP + b"\xa6folder" + b"\xdb" + ENDLESS),
    "a text that is no UTF-8": lambda text: with_rank(text, b"\xa2\xff\xff"),
    "an extension": lambda text: with_rank(text, b"\xd4\x01\x00"),
    "calls that are not packed": lambda text: with_calls(text, b"calls"),
    "calls of another form": lambda text: with_calls(text, zlib.compress(msgspec.msgpack.encode({"log": 1}))),
    "deep calls": lambda text: with_calls(text, zlib.compress(ARRAY * 100_000)),
    "calls that grow beyond measure": lambda text: with_calls(text, zlib.compress(b"\xc0" * (parts.MAX_PACKED + 1))),
    "more ranks than there can be": lambda text: with_mentioned(text, (0, 10**15)),
    "no host": lambda text: json.dumps({key: value for key, value in json.loads(text).items() if key != "host"}),
    "ranks of another folder": other_rank,
}


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_a_part_that_cannot_be_used_does_not_stop_the_others(damage: str, two: list[Path]) -> None:
    two[1].write_text(DAMAGE[damage](two[1].read_text()))
    with pytest.raises(InputError) as caught:
        parts.read(two[1])
    assert str(two[1]) in str(caught.value)
    assert caught.value.hint
    report = two_stage.merge(two)
    assert named(report) == [(0, "Torch.log.0.forward")]
    (problem,) = [p for p in report.input.problems if p.kind is ProblemKind.UNREADABLE]
    assert (problem.file, problem.judged) == (str(two[1]), False)


def test_without_any_usable_part_there_is_no_report(two: list[Path], tmp_path: Path) -> None:
    for file in two:
        file.write_text("{}")
    with pytest.raises(InputError, match="no part file"):
        two_stage.merge(two)
    with pytest.raises(InputError, match="nowhere"):
        two_stage.merge([tmp_path / "nowhere.json"])
    with pytest.raises(UsageError, match="no part"):
        two_stage.merge([])


def test_parts_of_different_rules_are_not_put_together(two: list[Path]) -> None:
    part = parts.read(two[1])
    two[1].write_text(parts.to_text(replace(part, excluded=("Torch.log.0.forward",))))
    with pytest.raises(UsageError, match="different rules"):
        two_stage.merge(two)


def test_rejected_answers_travel_with_the_parts(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    run.rank(0).op("Torch.sqrt", [t(1.0, -1.0)], [t(NAN)])
    run.rank(0).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    dump = run.write(tmp_path / "dump")
    files = scan([dump], tmp_path, exclude_ops=("Torch.log.0.forward",))
    assert named(two_stage.merge(files)) == [(0, "Torch.sqrt.0.forward")]


def test_a_rank_in_two_parts_is_told(two: list[Path], tmp_path: Path) -> None:
    part = parts.read(two[0])
    stranger = tmp_path / "stranger.json"
    one = part.ranks[0]
    elsewhere = replace(one, stamp=Stamp(1, 1))
    stranger.write_text(parts.to_text(replace(part, host="elsewhere", ranks=(elsewhere,))))
    found = two_stage.merge([*two, stranger]).input.problems
    (problem,) = [p for p in found if p.kind is ProblemKind.DUPLICATE_RANK]
    assert (problem.rank, problem.judged) == (0, False)
    assert "elsewhere" in problem.detail


def test_the_same_file_in_two_parts_is_quiet(two: list[Path]) -> None:
    once = without_path(two_stage.merge(two))
    assert without_path(two_stage.merge([*two, two[0]])) == once


def test_the_order_of_the_parts_does_not_matter(two: list[Path]) -> None:
    assert without_path(two_stage.merge(two[::-1])) == without_path(two_stage.merge(two))


def test_a_rank_that_no_part_holds_is_absent(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).all_reduce(t(1.0), t(NAN), group=(0, 1))
    run.rank(0).op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    run.rank(1).all_reduce(t(NAN), t(NAN), group=(0, 1))
    files = scan(split(run.write(tmp_path / "dump"), tmp_path), tmp_path)
    cause = the_cause(two_stage.merge(files[:1]))
    assert (cause.rank, cause.where) == (1, Where.MISSING_RANK)


def test_ranks_that_were_not_asked_for_are_told(tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1, 2):
        run.rank(number).op("Torch.relu", [t(1.0)], [t(1.0)])
    dump = run.write(tmp_path / "dump")
    files = scan([dump], tmp_path, ranks=(0, 1))
    report = two_stage.merge(files)
    assert report.verdict is Verdict.CLEAN
    assert report.caveats
    assert without_path(report) == without_path(firstnan.analyze(dump, Options(ranks=(0, 1))))


def test_a_rank_that_cannot_be_read_is_in_the_part(tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        run.rank(number).op("Torch.relu", [t(1.0)], [t(1.0)])
    dump = run.write(tmp_path / "dump")
    (dump / "step0" / "rank1" / "dump.json").write_text("no dump")
    hosts = split(dump, tmp_path)
    whole = firstnan.analyze(dump)
    files = scan(hosts, tmp_path)
    gone(hosts)
    assert without_path(two_stage.merge(files)) == without_path(whole)
    with pytest.raises(InputError, match="no rank"):
        two_stage.merge(files[1:])


def test_a_step_that_is_empty_on_one_host_is_not_empty(tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        run.rank(number).op("Torch.relu", [t(1.0)], [t(1.0)])
    run.rank(0, 1).op("Torch.relu", [t(1.0)], [t(1.0)])
    dump = run.write(tmp_path / "dump")
    hosts = split(dump, tmp_path)
    assert (hosts[1] / "step1").is_dir()
    report = two_stage.merge(scan(hosts, tmp_path))
    assert [(p.kind, p.rank) for p in report.input.problems if p.step == 1] == [(ProblemKind.MISSING_FILE, 1)]
    assert without_path(report) == without_path(firstnan.analyze(dump))


# -- the file ------------------------------------------------------------------------------------------


def test_the_head_says_where_a_part_came_from(two: list[Path]) -> None:
    head = json.loads(two[1].read_text())
    assert head["schema"] == "firstnan.part/2"
    assert head["host"]
    assert Path(head["path"]).name == "host1"
    (rank,) = head["ranks"]
    assert (rank["step"], rank["rank"], rank["suspected"]) == (0, 1, True)
    assert rank["folder"].endswith("host1/step0/rank1")


def test_a_part_comes_back(two: list[Path]) -> None:
    text = two[0].read_text()
    assert parts.to_text(parts.read(two[0])) == text


def test_a_healthy_rank_takes_little(tmp_path: Path) -> None:
    run = Run()
    for _ in range(20):
        run.rank(0).skip(LONG)
        for _ in range(10):
            run.rank(0).all_reduce(t(1.0), t(1.0), group=(0, 1, 2, 3))
    (file,) = scan([run.write(tmp_path / "dump")], tmp_path)
    assert max(len(line) for line in file.read_text().splitlines() if '"data"' in line) < 3000


def healthy(*places: tuple[int, int]) -> Run:
    """Ranks of steps that hold nothing bad."""
    run = Run()
    for step, number in places:
        run.rank(number, step).op("Torch.relu", [t(1.0)], [t(1.0)])
    return run


def test_two_dumps_of_one_rank_are_never_clean(tmp_path: Path) -> None:
    """Hosts that number their ranks by themselves: the other dump was not looked at."""
    files = _of_two_runs(tmp_path, newest="clean")
    report = two_stage.merge(files)
    assert (report.verdict, report.complete, report.exit_code) == (Verdict.CLEAN, False, 4)


@pytest.mark.parametrize(("newest", "verdict"), [("clean", Verdict.CLEAN), ("bad", Verdict.ANOMALY)])
def test_of_two_dumps_of_one_rank_the_newest_counts_in_any_order(newest: str, verdict: Verdict, tmp_path: Path) -> None:
    files = _of_two_runs(tmp_path, newest)
    one, other = two_stage.merge(files), two_stage.merge(files[::-1])
    assert repr(one) == repr(other)
    assert (one.verdict, one.complete) == (verdict, False)


def _of_two_runs(path: Path, newest: str) -> list[Path]:
    """The part files of two runs of rank 0, of which one was written later."""
    bad = Run()
    bad.rank(0).op("Torch.log", [t(1.0, -1.0)], [t(NAN)])
    hosts = [healthy((0, 0)).write(path / "clean"), bad.write(path / "bad")]
    for host in hosts:
        moment = 2_000_000_000 if host.name == newest else 1_000_000_000
        os.utime(host / "step0" / "rank0" / "dump.json", (moment, moment))
    return scan(hosts, path)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ([(0, 0), (1, 0)], [(0, 1)]),
        ([(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)], [(1, 2), (1, 3)]),
        ([(0, 0)], [(1, 0)]),
    ],
    ids=["a rank is absent in one step", "every host lacks what the other has", "one step each"],
)
def test_what_is_absent_is_told_of_all_parts_together(
    here: list[tuple[int, int]], there: list[tuple[int, int]], tmp_path: Path
) -> None:
    hosts = [healthy(*here).write(tmp_path / "a"), healthy(*there).write(tmp_path / "b")]
    report = two_stage.merge(scan(hosts, tmp_path))
    assert without_path(report) == without_path(firstnan.analyze(healthy(*here, *there).write(tmp_path / "whole")))


def test_folders_of_ranks_that_lie_elsewhere_are_not_empty_ranks(tmp_path: Path) -> None:
    hosts = [healthy((0, 0)).write(tmp_path / "a"), healthy((0, 1)).write(tmp_path / "b")]
    (hosts[0] / "step0" / "rank1").mkdir()
    (hosts[1] / "step0" / "rank0").mkdir()
    report = two_stage.merge(scan(hosts, tmp_path))
    assert (report.complete, report.input.problems) == (True, ())


@pytest.mark.parametrize("content", [None, "{", "[]"], ids=["absent", "cut", "no object"])
def test_a_construct_file_that_nobody_asked_for_is_no_problem(content: str | None, tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.module("layer", lambda rank=rank: rank.op("Torch.relu", [t(1.0)], [t(1.0)]), [t(1.0)], [t(1.0)])
        rank.all_reduce(t(1.0), t(1.0), group=(0, 1))
    dump = run.write(tmp_path / "dump")
    for file in dump.rglob("construct.json"):
        file.unlink() if content is None else file.write_text(content)
    (part,) = scan([dump], tmp_path)
    assert without_path(two_stage.merge([part])) == without_path(firstnan.analyze(dump))


def test_what_a_later_scan_of_the_same_file_holds_counts_as_well(tmp_path: Path) -> None:
    dump = device_fault().write(tmp_path / "dump")
    hosts = split(dump, tmp_path)
    old = scan(hosts, tmp_path)
    later = tmp_path / "later"
    later.mkdir()
    new = scan(hosts, later, [parts.read(file) for file in old])
    gone(hosts)
    for files in ([*old, *new], [*new, *old]):
        assert without_path(two_stage.merge(files)) == without_path(firstnan.analyze(dump))


def test_a_part_that_could_not_read_a_rank_gives_way_to_one_that_could(tmp_path: Path) -> None:
    dump = healthy((0, 0)).write(tmp_path / "dump")
    (file,) = scan([dump], tmp_path)
    part = parts.read(file)
    lost = replace(part, ranks=(two_stage._lost(part.ranks[0].folder, "killed"),))
    failed = tmp_path / "failed.json"
    failed.write_text(parts.to_text(lost))
    assert two_stage.merge([failed]).verdict is Verdict.UNKNOWN
    assert two_stage.merge([failed, file]).complete


def test_ranks_that_a_host_does_not_have_are_no_error(tmp_path: Path) -> None:
    dump = healthy((0, 0), (0, 1)).write(tmp_path / "dump")
    hosts = split(dump, tmp_path)
    files = scan(hosts, tmp_path, ranks=(0,))
    assert without_path(two_stage.merge(files)) == without_path(firstnan.analyze(dump, Options(ranks=(0,))))


def test_the_order_of_rejected_answers_does_not_matter(tmp_path: Path) -> None:
    hosts = [healthy((0, 0)).write(tmp_path / "a"), healthy((0, 1)).write(tmp_path / "b")]
    files = [*scan(hosts[:1], tmp_path, exclude_ops=("x", "y")), *scan(hosts[1:], tmp_path, exclude_ops=("y", "x"))]
    assert two_stage.merge(files).input.ranks == (0, 1)


@pytest.mark.parametrize("name", ["Torch.relu.0.forward", "1:Torch.relu.0.forward", "Torch.nothing.0.forward", "7:x"])
def test_a_rejected_answer_that_is_nowhere_is_told_as_by_one_run(name: str, tmp_path: Path) -> None:
    dump = healthy((0, 0), (0, 1)).write(tmp_path / "dump")
    hosts = split(dump, tmp_path)
    files = scan(hosts, tmp_path, exclude_ops=(name,))
    gone(hosts)
    assert without_path(two_stage.merge(files)) == without_path(firstnan.analyze(dump, Options(exclude_ops=(name,))))
