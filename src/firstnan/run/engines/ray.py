"""Work on a Ray cluster: the only module that knows Ray, loaded only when it is asked for.

What it takes of Ray has been the same since 2.9: ``init``, ``shutdown``, ``is_initialized``, ``remote``, ``get``,
``wait``, ``cancel``, ``nodes``, scheduling strategies, and the base classes of its errors.

Rules, each tested under its name:

``a_worker_that_dies_is_tried_once_more``
    By another worker, of another node where there is one that has the files. Then the item has failed, and only it.
``a_cluster_of_somebody_else_is_left_as_it_was``
    Where the calling process is connected already, that connection is used and stays.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

import ray
from msgspec import Struct
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from firstnan.dump.errors import UsageError
from firstnan.run.engines.engine import Engine, Failed, Node, Place, available_cores
from firstnan.version import __version__

T = TypeVar("T")
R = TypeVar("R")

LOCAL = "local"
"""The address that asks for a cluster on this machine, for the time of the analysis."""

_FOUND = "auto"
_TRIES = 2
_OBJECT_STORE = 128 << 20
"""Bytes for the results of a cluster that is started here: they are small."""
_PATIENCE = 10.0
"""Seconds in which a cluster has to answer. Ray itself tries for several minutes, and tells of every attempt."""


@contextmanager
def connected(address: str | None, jobs: int | None, *, node_local: bool) -> Iterator[Cluster]:
    """The cluster at an address; without one that of ``RAY_ADDRESS``, or one that runs on this machine.

    Raises:
        UsageError: there is no such cluster, it cannot be used from here, or it has no CPU.
    """
    ours = not ray.is_initialized()
    if not ours and address is not None:
        raise UsageError(
            "this process is connected to a Ray cluster already", hint="leave out the address: that cluster is used"
        )
    on_end = signal.getsignal(signal.SIGTERM)
    try:
        if ours:
            _connect(address, jobs)
        yield _cluster(jobs, node_local=node_local)
    finally:
        if ours:
            ray.shutdown()
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, on_end)  # Ray has put its own there


def _connect(address: str | None, jobs: int | None) -> None:
    where = address or os.environ.get("RAY_ADDRESS") or _FOUND
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if where == LOCAL:
        settings |= {
            "num_cpus": jobs or available_cores(),
            "include_dashboard": False,
            "object_store_memory": _OBJECT_STORE,
        }
    elif where != _FOUND:
        _check_answers(where)
    try:
        ray.init(address=where, **settings)
    except ConnectionError as error:
        if where == _FOUND:
            raise UsageError(
                "no running Ray cluster was found",
                hint="give its address with --ray-address, or start one on this machine with --ray-address local",
            ) from error
        raise _unusable(where, error) from error
    except (RuntimeError, ValueError, OSError) as error:  # another version of Ray or Python; an odd address
        raise _unusable(where, error) from error


def _check_answers(address: str) -> None:
    """Raises UsageError when nothing listens at ``[ray://]host:port``."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        raise UsageError(f"'{address}' is no address of a Ray cluster", hint="HOST:PORT, or local")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise _unusable(address, error) from error


def _unusable(address: str, error: Exception) -> UsageError:
    said = " ".join(str(error).split()) or type(error).__name__
    return UsageError(
        f"the Ray cluster at {address} cannot be used: {said}",
        hint="it has to run there, with the Ray and Python of here; if it asks for a token, set RAY_AUTH_MODE=token",
    )


def _cluster(jobs: int | None, *, node_local: bool) -> Cluster:
    cpus: dict[str, int] = {}
    names: list[tuple[str, str, str]] = []
    for node in cast("list[dict[str, Any]]", ray.nodes()):
        count = int(node["Resources"].get("CPU", 0)) if node["Alive"] else 0
        if count:
            cpus[node["NodeID"]] = count
            names.append((node["NodeManagerHostname"], node["NodeManagerAddress"], node["NodeID"]))
    if not cpus:
        raise UsageError("the Ray cluster has no CPU to work with", hint="add a node that has some")
    nodes = tuple(_named(name, names) for name in sorted(names)) if node_local else ()
    return Cluster(nodes, cpus, min(jobs or sum(cpus.values()), sum(cpus.values())))


def _named(one: tuple[str, str, str], all_of_them: Sequence[tuple[str, str, str]]) -> Node:
    """A node by as much of its host name, address and id as it takes to tell it from the others."""
    host, address, node = one
    if [other[0] for other in all_of_them].count(host) == 1:
        return Node(node, host)
    if [other[1] for other in all_of_them].count(address) == 1:
        return Node(node, f"{host} {address}")
    return Node(node, f"{host} {address} {node[:8]}")


class Cluster(Struct, frozen=True):
    """The cluster that this process is connected to."""

    nodes: tuple[Node, ...]
    """The nodes that are asked for their own folders; empty: all nodes see the same."""
    cpus: dict[str, int]
    """CPUs by the id of every node that has some."""
    at_a_time: int
    """Tasks that are given to it at once."""

    def engine(self, places: Sequence[Place]) -> Engine:
        return Tasks(self, places)


class _Task(Struct):
    """One item on its way."""

    position: int
    tries: int = 0
    node: str = ""
    """The node that it was given to; empty: the cluster decides."""


class Tasks:
    """One task for each item, a bounded number of them at a time."""

    def __init__(self, cluster: Cluster, places: Sequence[Place]) -> None:
        self._cluster = cluster
        self._places = places

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R | Failed]]:
        """Position and result of every item, in any order.

        Raises:
            UsageError: a node does not have this version of firstnan.
        """
        packed = pickle.dumps(function)
        work = ray.remote(_portable())
        waiting = [_Task(position) for position in range(len(items))]
        busy: dict[Any, _Task] = {}
        try:
            while waiting or busy:
                for task in self._startable(waiting, busy):
                    waiting.remove(task)
                    busy[self._start(work, task, packed, items[task.position])] = task
                for done in ray.wait(list(busy), num_returns=1)[0]:
                    task = busy.pop(done)
                    result = _result(done)
                    if not isinstance(result, _Died):
                        yield task.position, cast("R | Failed", result)
                    elif task.tries < _TRIES:
                        waiting.insert(0, task)
                    else:
                        yield task.position, Failed(f"tried twice, no worker came to its end ({result.reason})")
        finally:
            for one in busy:
                with suppress(exceptions.RayError):
                    ray.cancel(one)

    def _startable(self, waiting: Sequence[_Task], busy: dict[Any, _Task]) -> list[_Task]:
        """The tasks that come next, those of a node that has its hands full left out."""
        free = self._cluster.at_a_time - len(busy)
        given = [task.node for task in busy.values() if task.node]
        found: list[_Task] = []
        for task in waiting:
            if len(found) == free:
                break
            task.node = self._node(task)
            if not task.node or given.count(task.node) < self._cluster.cpus.get(task.node, 1):
                found.append(task)
                given.append(task.node)
        return found

    def _node(self, task: _Task) -> str:
        nodes = self._places[task.position].nodes
        return nodes[task.tries % len(nodes)] if nodes else ""

    def _start(self, work: Any, task: _Task, packed: bytes, item: object) -> Any:
        task.tries += 1
        strategy = NodeAffinitySchedulingStrategy(task.node, soft=False) if task.node else "SPREAD"
        # Ray's own retries stay on one node as long as they like: a file that is too large would kill one worker after
        # the other.
        chosen = work.options(num_cpus=1, max_retries=0, scheduling_strategy=strategy)
        file = self._places[task.position].file
        return chosen.remote(__version__, None if file is None else os.fspath(file), packed, pickle.dumps(item))


class _Died(Struct, frozen=True):
    """What stands in place of the result of a task whose worker died, or whose node is gone."""

    reason: str


def _result(done: Any) -> object:
    """What a task gave."""
    try:
        version, host, result = ray.get(done)
    except exceptions.RayTaskError as error:
        return Failed(_last_line(error))
    except exceptions.RayError as error:
        said = str(error).split("\n", 1)[0].rstrip(". ")
        return _Died(f"{type(error).__name__}: {said}")
    if version != __version__:
        there = f"firstnan {version} is" if version else "firstnan is not"
        raise UsageError(
            f"{there} installed on node {host}, here it is {__version__}",
            hint=f"pip install firstnan=={__version__} on every node of the cluster",
        )
    return result


def _last_line(error: Exception) -> str:
    """An error on a worker comes with the worker's stack; its last line is the error."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


def perform(packed: bytes, item: bytes) -> Any:
    """The function of an item on a worker."""
    return pickle.loads(packed)(pickle.loads(item))


def _portable() -> Callable[..., object]:
    """What a worker does. A function inside another goes to it whole, and so runs where firstnan is not installed."""

    def work(wanted: str, file: str, packed: bytes, item: bytes) -> object:
        import socket
        from importlib.util import find_spec
        from pathlib import Path

        host = socket.gethostname()
        if find_spec("firstnan") is None:
            return "", host, None
        import firstnan

        if firstnan.__version__ != wanted:
            return firstnan.__version__, host, None
        from firstnan.run.engines.engine import Failed, attempt
        from firstnan.run.engines.ray import perform

        if file is not None and not Path(file).exists():
            return (
                wanted,
                host,
                Failed(f"node {host} does not see {file}: ranks on the nodes' own disks need --node-local"),
            )
        return wanted, host, attempt(lambda packed: perform(packed, item), packed)

    return work
