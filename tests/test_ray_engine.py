"""The Ray engine on a real cluster of two nodes, each with one worker and a working folder of its own.

A path through ``/proc/self/cwd`` leads every node into that folder: it stands for what lies on a node's own disk.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import replicas_made

import engine_work
import firstnan
from engine_work import alone, as_it_is, dies_once, mortal, picky, squared, takes_its_node_along, where
from firstnan.answer.model import Report, Verdict
from firstnan.dump.errors import InputError, UsageError
from firstnan.dump.options import EngineKind, Options, ProgressEvent
from firstnan.dump.problems import ProblemKind
from firstnan.run.engines.engine import Failed, Place

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'firstnan[ray]'")
if not Path("/proc/self/cwd").exists():
    pytest.skip("the nodes' own folders are found through /proc", allow_module_level=True)

from ray.cluster_utils import Cluster  # noqa: E402

from firstnan.run.engines import ray as ray_engine  # noqa: E402

pytestmark = [
    # Ray leaves log files of its own open, some releases more of them than others.
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    # Ray starts the processes of a node with a function to run before exec, which Python 3.12 and newer warn of.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "dp2-tp2"
SMALL = sorted(path for path in (ROOT / "examples" / "small").iterdir() if path.name != "programs")
FIXTURES = sorted({path.parents[2] for path in (ROOT / "tests" / "data" / "readers").rglob("step*/rank*/dump.json")})
OWN = Path("/proc/self/cwd/dump")
"""Another folder on every node, and none at all for the tests themselves."""
RAY = Options(engine=EngineKind.RAY)
NODE_LOCAL = Options(engine=EngineKind.RAY, node_local=True)
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}


@dataclass(frozen=True)
class Nodes:
    """Two nodes, in the order in which they are asked."""

    made: Any
    ids: tuple[str, str]
    folders: tuple[Path, Path]


@contextmanager
def standing_in(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A cluster, and this process connected to it."""
    homes = [tmp_path_factory.mktemp("node") for _ in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # at 15, as they come, they would wait for everything else here
        patch.setenv(
            "PYTHONPATH", str(Path(engine_work.__file__).parent)
        )  # workers load what they are given from there
        with standing_in(homes[0]):
            made = Cluster(initialize_head=True, head_node_args=NODE | {"plasma_directory": str(homes[0])})
        with standing_in(homes[1]):
            made.add_node(**NODE, plasma_directory=str(homes[1]))
    try:
        ray.init(address=made.address, log_to_driver=False, logging_level=logging.ERROR)
        with ray_engine.connected(None, None, node_local=True) as cluster, standing_in(homes[2]):
            ids = [node.id for node in cluster.nodes]
            looked = cluster.engine([Place(nodes=(one,)) for one in ids]).map(where, [None] * 2)
            folders = dict(looked)
            yield Nodes(made, (ids[0], ids[1]), (Path(str(folders[0])), Path(str(folders[1]))))
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.fixture
def disks(nodes: Nodes) -> Iterator[tuple[Path, Path]]:
    """Where the two nodes find ``OWN``."""
    disks = (nodes.folders[0] / OWN.name, nodes.folders[1] / OWN.name)
    yield disks
    for disk in disks:
        shutil.rmtree(disk, ignore_errors=True)


def on(items: int, nodes: tuple[str, ...] = (), jobs: int | None = None) -> Any:
    with ray_engine.connected(None, jobs, node_local=False) as cluster:
        return cluster.engine([Place(nodes=nodes)] * items)


# --- items ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nodes")
def test_every_item_has_its_result() -> None:
    assert dict(on(40).map(squared, range(40))) == {number: number * number for number in range(40)}


@pytest.mark.usefixtures("nodes")
def test_nothing_to_do_is_no_work() -> None:
    assert list(on(0).map(squared, [])) == []


@pytest.mark.usefixtures("nodes")
def test_an_error_is_the_result_of_its_item() -> None:
    found = dict(on(6).map(picky, range(6)))
    assert found == {0: 0, 1: 1, 2: 2, 3: Failed("MemoryError"), 4: Failed("ValueError: four"), 5: 5}


@pytest.mark.usefixtures("nodes")
def test_a_worker_that_dies_is_tried_once_more(tmp_path: Path) -> None:
    markers = [tmp_path / name for name in "abc"]
    markers[1].touch()
    assert dict(on(3).map(dies_once, markers)) == {0: "a", 1: "b", 2: "c"}


@pytest.mark.usefixtures("nodes")
def test_an_item_on_which_every_worker_dies_has_failed_and_the_others_go_on() -> None:
    found = dict(on(8).map(mortal, range(8)))
    assert {n: found[n] for n in (0, 1, 3, 4, 6, 7)} == {n: n for n in (0, 1, 3, 4, 6, 7)}
    for lost in (found[2], found[5]):
        assert isinstance(lost, Failed)
        assert lost.reason.startswith("tried twice, no worker came to its end (WorkerCrashedError: ")


@pytest.mark.usefixtures("nodes")
def test_no_more_at_a_time_than_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "taken"
    assert [result for _, result in on(12, jobs=1).map(alone, [folder] * 12)] == [None] * 12


def test_work_is_done_on_the_node_that_has_the_files(nodes: Nodes) -> None:
    for node, folder in zip(nodes.ids, nodes.folders, strict=True):
        assert {result for _, result in on(4, (node,)).map(where, [None] * 4)} == {str(folder)}


def test_a_node_that_dies_loses_its_items_alone(nodes: Nodes) -> None:
    before = {node["NodeID"] for node in ray.nodes()}
    nodes.made.add_node(**NODE)
    (third,) = {node["NodeID"] for node in ray.nodes()} - before
    with ray_engine.connected(None, None, node_local=False) as cluster:
        places = [Place(nodes=(nodes.ids[0],)), Place(nodes=(third,)), Place(nodes=(nodes.ids[1],))]
        found = dict(cluster.engine(places).map(takes_its_node_along, range(3)))
    assert (found[0], found[2]) == (0, 2)
    assert isinstance(found[1], Failed)


def test_another_node_that_has_the_files_does_it_when_one_dies(nodes: Nodes) -> None:
    gone = "ab" * (len(nodes.ids[0]) // 2)
    assert dict(on(1, (gone, nodes.ids[1])).map(where, [None])) == {0: str(nodes.folders[1])}


# --- the connection -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nodes")
def test_a_cluster_of_somebody_else_is_left_as_it_was() -> None:
    firstnan.analyze(EXAMPLE, RAY)
    assert ray.is_initialized()
    with pytest.raises(UsageError, match="connected to a Ray cluster already"):
        firstnan.analyze(EXAMPLE, Options(engine=EngineKind.RAY, ray_address="local"))
    assert ray.is_initialized()


def test_without_a_cluster_the_user_is_told_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_found(**_: object) -> None:
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_engine.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_engine.ray, "shutdown", lambda: None)
    monkeypatch.setattr(ray_engine.ray, "init", nothing_found)
    with pytest.raises(UsageError, match="no running Ray cluster was found") as caught:
        firstnan.analyze(EXAMPLE, RAY)
    assert "--ray-address local" in caught.value.hint


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "cannot be used"),
        ("ray://127.0.0.1:1", "cannot be used"),
        ("127.0.0.1", "is no address"),
        ("127.0.0.1:99999", "cannot be used"),
    ],
)
def test_an_address_without_a_cluster_is_refused_at_once(
    address: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_engine.ray, "shutdown", lambda: None)
    with pytest.raises(UsageError, match=said):
        firstnan.analyze(EXAMPLE, Options(engine=EngineKind.RAY, ray_address=address))


@pytest.mark.usefixtures("nodes")
def test_another_version_of_firstnan_on_a_node_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "__version__", "99.0")
    with pytest.raises(UsageError, match=r"firstnan \S+ is installed on node .*, here it is 99\.0") as caught:
        firstnan.analyze(EXAMPLE, RAY)
    assert "firstnan==99.0" in caught.value.hint


@pytest.mark.usefixtures("nodes")
def test_a_node_without_firstnan_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    answer = ray_engine._portable()("99.0", "", b"", b"")  # as a worker without it would
    monkeypatch.undo()
    with pytest.raises(UsageError, match="firstnan is not installed on node"):
        ray_engine._result(ray.remote(as_it_is).remote(answer))


# --- the answer is that of the local engine -------------------------------------------------------------


def without_path(report: Report) -> dict[str, Any]:
    answer = report.to_dict()
    answer["input"]["path"] = ""
    return answer


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize("root", [EXAMPLE, *SMALL, *FIXTURES[::4]], ids=lambda path: path.name)
def test_ray_equals_local(root: Path) -> None:
    assert firstnan.analyze(root, RAY).to_dict() == firstnan.analyze(root, Options(jobs=1)).to_dict()


@pytest.mark.usefixtures("nodes")
def test_a_traced_rank_is_the_same() -> None:
    assert firstnan.trace(EXAMPLE, 2, RAY).to_dict() == firstnan.trace(EXAMPLE, 2).to_dict()


@pytest.mark.usefixtures("nodes")
def test_a_relative_path_is_one_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLE.parent)
    expected = firstnan.analyze(EXAMPLE.name, Options(jobs=1)).to_dict()
    assert firstnan.analyze(EXAMPLE.name, RAY).to_dict() == expected
    assert firstnan.analyze(EXAMPLE.name, NODE_LOCAL).to_dict() == expected


@pytest.mark.usefixtures("nodes")
def test_progress_is_told_after_each_rank() -> None:
    told: list[ProgressEvent] = []
    firstnan.analyze(EXAMPLE, RAY, told.append)
    assert [event.ranks_done for event in told] == [1, 2, 3, 4]
    assert told[-1].bytes_done == told[-1].bytes_total > 0


@pytest.mark.usefixtures("nodes")
def test_a_rank_that_the_workers_do_not_see_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLE, tmp_path / OWN.name)
    monkeypatch.chdir(tmp_path)
    report = firstnan.analyze(OWN, RAY)
    assert report.verdict is Verdict.UNKNOWN
    lost = [problem for problem in report.input.problems if problem.kind is ProblemKind.WORKER_FAILED]
    assert [problem.rank for problem in lost] == [0, 1, 2, 3]
    assert "does not see /proc/self/cwd/dump/step0/rank0" in lost[0].detail
    assert "--node-local" in lost[0].detail


# --- ranks on the nodes' own disks ----------------------------------------------------------------------


def put(root: Path, disk: Path, ranks: Collection[int]) -> None:
    for folder in root.glob("step*/rank*"):
        if int(folder.name.removeprefix("rank")) in ranks:
            shutil.copytree(folder, disk / folder.relative_to(root), dirs_exist_ok=True)


SEVERAL_RANKS = [EXAMPLE, *(path for path in SMALL if len(list(path.glob("step*/rank*"))) > 1)]


@pytest.mark.parametrize("root", SEVERAL_RANKS, ids=lambda path: path.name)
def test_every_node_reads_its_own_ranks(root: Path, disks: tuple[Path, Path]) -> None:
    put(root, disks[0], range(0, 64, 2))
    put(root, disks[1], range(1, 64, 2))
    report = firstnan.analyze(OWN, NODE_LOCAL)
    assert report.input.path == str(OWN)
    assert without_path(report) == without_path(firstnan.analyze(root, Options(jobs=1)))


@pytest.mark.parametrize(
    ("record", "path", "step"),
    [
        ("Distributed.all_reduce.3.forward", ("output", 0), 1),
        ("Functional.layer_norm.1.forward", ("output", 0), 1),
        ("Module.head.Linear.forward.0", ("parameters", "weight"), 0),
    ],
    ids=["call", "operator", "seed"],
)
def test_ranks_of_two_nodes_are_held_against_each_other(
    record: str, path: tuple[str | int, ...], step: int, disks: tuple[Path, Path], tmp_path: Path
) -> None:
    """Whatever the comparison reads again (calls, operators, gradients), it asks of the node that has the rank."""

    def edit(at: int, rank: int, records: replicas_made.Json) -> None:
        if (at, rank) == (step, 1):
            held = records[record]
            for part in path:
                held = held[part]
            replicas_made.nudge(held, "Mean")

    make = replicas_made.tensor_parallel if "layer_norm" in record else replicas_made.data_parallel
    root = replicas_made.write(tmp_path / "run", make, world=3, edit=edit)
    put(root, disks[0], {0, 2})
    put(root, disks[1], {1})
    report = firstnan.analyze(OWN, NODE_LOCAL)
    expected = firstnan.analyze(root, Options(jobs=1))
    assert [found.name for found in expected.disagreements] == [
        record.replace(".forward.0", ".weight") if "Module" in record else record
    ]
    assert without_path(report) == without_path(expected)


def test_a_rank_is_traced_on_its_node(disks: tuple[Path, Path]) -> None:
    put(EXAMPLE, disks[0], {0, 1})
    put(EXAMPLE, disks[1], {2, 3})
    assert without_path(firstnan.trace(OWN, 2, NODE_LOCAL)) == without_path(firstnan.trace(EXAMPLE, 2))


@pytest.mark.usefixtures("nodes")
def test_a_folder_that_all_nodes_share_is_read_once() -> None:
    assert firstnan.analyze(EXAMPLE, NODE_LOCAL).to_dict() == firstnan.analyze(EXAMPLE, Options(jobs=1)).to_dict()


def test_of_two_dumps_of_one_rank_the_first_nodes_is_used(disks: tuple[Path, Path]) -> None:
    put(EXAMPLE, disks[0], {0, 1, 2, 3})
    put(EXAMPLE, disks[1], {2})
    other = disks[1] / "step0" / "rank2" / "dump.json"
    other.write_bytes(other.read_bytes() + b"\n")
    report = firstnan.analyze(OWN, NODE_LOCAL)
    assert report.root_causes == firstnan.analyze(EXAMPLE, Options(jobs=1)).root_causes
    told = [(p.kind, p.step, p.rank, p.file, p.judged) for p in report.input.problems]
    assert told == [(ProblemKind.DUPLICATE_RANK, 0, 2, "step0/rank2", False)]


def test_a_node_without_the_folder_is_fine(disks: tuple[Path, Path]) -> None:
    put(EXAMPLE, disks[1], range(4))
    report = firstnan.analyze(OWN, NODE_LOCAL)
    assert without_path(report) == without_path(firstnan.analyze(EXAMPLE, Options(jobs=1)))


@pytest.mark.usefixtures("disks")
def test_no_node_with_the_folder_is_an_error() -> None:
    with pytest.raises(InputError, match="no node has /proc/self/cwd/dump"):
        firstnan.analyze(OWN, NODE_LOCAL)


# --- the command line -----------------------------------------------------------------------------------


def test_the_report_alone_is_on_stdout(nodes: Nodes) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "firstnan", "analyze", str(EXAMPLE), "--engine", "ray", "--format", "json"],
        env={**os.environ, "RAY_ADDRESS": nodes.made.address},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (1, "")
    expected = subprocess.run(
        [sys.executable, "-m", "firstnan", "analyze", str(EXAMPLE), "--format", "json", "--jobs", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout == expected.stdout


FATAL = """
import os, signal

def survey(folder, **options):
    if folder.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("no")
"""
SLOW = """
import time
from pathlib import Path

def survey(folder, **options):
    Path({begun!r}).touch()
    time.sleep(60)
"""
STARTED = """
import signal, sys
from firstnan.cli import main as cli
from firstnan.run import rank_passes
import changed

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
rank_passes.survey = changed.survey
sys.exit(cli.main(sys.argv[1:]))
"""


def started(folder: Path, survey: str, nodes: Nodes) -> subprocess.Popen[str]:
    """The command, with another way to look at a rank."""
    (folder / "changed.py").write_text(survey)
    (folder / "start.py").write_text(STARTED)
    asked = ["analyze", str(EXAMPLE), "--engine", "ray", "--ray-address", nodes.made.address, "--format", "json"]
    return subprocess.Popen(
        [sys.executable, str(folder / "start.py"), *asked],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_dead_workers_are_told_in_the_report_alone(nodes: Nodes, tmp_path: Path) -> None:
    with started(tmp_path, FATAL, nodes) as process:
        said, words = process.communicate(timeout=120)
    assert (process.returncode, words) == (4, "")
    told = {p["rank"]: p["detail"] for p in json.loads(said)["input"]["problems"]}
    assert {rank: told[rank] for rank in (0, 2, 3)} == dict.fromkeys((0, 2, 3), "ValueError: no")
    assert "WorkerCrashedError" in told[1]


def test_an_interrupt_ends_everything_at_once_without_a_trace(nodes: Nodes, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with started(tmp_path, SLOW.format(begun=str(begun)), nodes) as process:
        deadline = time.monotonic() + 60
        while not begun.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        try:
            _, words = process.communicate(timeout=30)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, words) == (130, "firstnan: interrupted\n")
