"""Dumps in a remote store: an S3 server on this machine, and fsspec's store in memory."""

from __future__ import annotations

import gzip
import importlib.util
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import firstnan
from firstnan.answer.model import Report
from firstnan.dump.errors import InputError
from firstnan.read.sources import places, remote
from firstnan.read.sources.files import Fault

fsspec: Any = pytest.importorskip("fsspec", reason="fsspec is not here")
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "dp2-tp2"
OPTIONS = firstnan.Options(jobs=1)
HAS_S3 = all(importlib.util.find_spec(name) is not None for name in ("moto", "s3fs", "flask"))


def answer(report: Report) -> dict[str, Any]:
    found: dict[str, Any] = report.to_dict()
    found["input"]["path"] = ""
    return found


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return answer(firstnan.analyze(EXAMPLE, OPTIONS))


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """What one test has listed is not there in the next."""
    places.forget()
    yield
    places.forget()
    remote._store.cache_clear()


@pytest.fixture
def memory() -> Iterator[Any]:
    store = fsspec.filesystem("memory")
    yield store
    store.rm("/", recursive=True) if store.ls("/") else None
    store.store.clear()
    store.pseudo_dirs[:] = [""]


def fill(store: Any, target: str, source: Path = EXAMPLE) -> None:
    for file in sorted(source.rglob("*")):
        if file.is_file():
            store.pipe_file(f"{target}/{file.relative_to(source).as_posix()}", file.read_bytes())


def test_a_store_gives_the_answer_of_the_folder(memory: Any, expected: dict[str, Any]) -> None:
    fill(memory, "/run")
    report = firstnan.analyze("memory://run", OPTIONS)
    assert report.input.path == "memory://run"
    assert answer(report) == expected


def test_a_step_a_rank_and_an_archive(memory: Any, tmp_path: Path, expected: dict[str, Any]) -> None:
    fill(memory, "/run")
    assert firstnan.trace("memory://run/step0/rank2", 2, OPTIONS).root_causes[0].op_name == "Torch.exp.0.forward"
    assert firstnan.analyze("memory://run/step0", OPTIONS).root_causes[0].rank == 2
    import tarfile

    with tarfile.open(tmp_path / "dump.tar", "w") as made:
        made.add(EXAMPLE, ".")
    memory.pipe_file("/packed/dump.tar.gz", gzip.compress((tmp_path / "dump.tar").read_bytes()))
    places.forget()
    assert answer(firstnan.analyze("memory://packed/dump.tar.gz", OPTIONS)) == expected


def test_nothing_there(memory: Any) -> None:
    memory.pipe_file("/other/readme.txt", b"x")
    with pytest.raises(InputError, match="memory://absent"):
        firstnan.analyze("memory://absent", OPTIONS)
    with pytest.raises(InputError, match=r"no dump in memory://other: only readme\.txt"):
        firstnan.analyze("memory://other", OPTIONS)


def test_a_store_that_fails_is_told(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(memory, "/run")
    real = type(memory).ls

    def ls(self: Any, path: str, **more: Any) -> Any:
        if path.rstrip("/").endswith("rank1"):
            raise RuntimeError("the store is busy")
        return real(self, path, **more)

    monkeypatch.setattr(type(memory), "ls", ls)
    report = firstnan.analyze("memory://run", OPTIONS)
    assert not report.complete
    assert any("the store is busy" in problem.detail for problem in report.input.problems)


def test_limits(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(memory, "/run")
    monkeypatch.setattr(remote, "MAX_ENTRIES", 2)
    with pytest.raises(InputError, match="more than 2 entries"):
        firstnan.analyze("memory://run/step0", OPTIONS)
    places.forget()
    monkeypatch.setattr(remote, "MAX_ENTRIES", 100)
    monkeypatch.setattr(remote, "MAX_BYTES", 100)
    fault = places.open_file(Path("memory://run/step0/rank0/dump.json"))
    assert isinstance(fault, Fault)
    assert "limit" in fault.detail


def test_without_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "find_spec", lambda _: None)
    for address, package in (
        ("s3://bucket/run", "s3fs"),
        ("obs://bucket/run", "s3fs"),
        ("hdfs://host:8020/run", "pyarrow"),
        ("https://host/run", "aiohttp"),
        ("nosuchstore://bucket/run", "and the package of its protocol"),
    ):
        with pytest.raises(InputError, match=rf"pip install 'firstnan\[remote\]' {package}"):
            firstnan.analyze(address, OPTIONS)


def test_a_protocol_that_is_not_there() -> None:
    with pytest.raises(InputError, match="nosuchstore"):
        firstnan.analyze("nosuchstore://bucket/run", OPTIONS)


def test_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ossfs", None)
    with pytest.raises(InputError, match=r"pip install 'firstnan\[remote\]' ossfs"):
        firstnan.analyze("oss://bucket/run", OPTIONS)


# -- an S3 server --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    if not HAS_S3:
        pytest.skip("moto and s3fs are not here")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        store = fsspec.filesystem("s3", skip_instance_cache=True)
        store.mkdir("dumps")
        fill(store, "dumps/run")
        yield store
    server.stop()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.usefixtures("s3")
def test_s3(expected: dict[str, Any], jobs: int) -> None:
    assert answer(firstnan.analyze("s3://dumps/run", firstnan.Options(jobs=jobs))) == expected


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("s3")
def test_an_obs_bucket_is_reached_by_the_protocol_it_shares_with_s3(expected: dict[str, Any]) -> None:
    report = firstnan.analyze("obs://dumps/run", OPTIONS)
    assert report.input.path == "obs://dumps/run"
    assert answer(report) == expected


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("s3")
def test_s3_without_such_a_bucket() -> None:
    with pytest.raises(InputError, match="s3://absent/run"):
        firstnan.analyze("s3://absent/run", OPTIONS)


# -- a web server --------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(importlib.util.find_spec("aiohttp") is None, reason="aiohttp is not here")
def test_http(expected: dict[str, Any]) -> None:
    """The folder listings that web servers make are enough."""
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(EXAMPLE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            report = firstnan.analyze(f"http://127.0.0.1:{server.server_port}", OPTIONS)
        finally:
            server.shutdown()
    assert answer(report) == expected
