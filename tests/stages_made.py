"""Two hosts for the tests of the two stages: a dump split into theirs, scanned where it lies, merged elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from firstnan.answer.model import Report
from firstnan.dump.options import Options
from firstnan.read.layout import dump_layout
from firstnan.run import parts, two_stage
from firstnan.run.parts import Part


def split(dump: Path, root: Path) -> list[Path]:
    """A copy of the dump with the even ranks, and one with the odd ones; the dump alone where it holds one rank."""
    folders = dump_layout.find(dump).folders
    hosts = []
    for number in (0, 1):
        others = [folder for folder in folders if folder.rank % 2 != number]
        if len(others) < len(folders):
            host = root / f"host{number}"
            shutil.copytree(dump, host)
            for folder in others:
                shutil.rmtree(host / folder.path.relative_to(dump))
            hosts.append(host)
    return hosts


def scan(hosts: Iterable[Path], root: Path, others: Iterable[Part] = (), **options: Any) -> list[Path]:
    """The part files of these hosts."""
    files = []
    for host in hosts:
        beside = [part for part in others if Path(part.path) != host]
        file = root / f"{host.name}.json"
        part = two_stage.scan(host, Options(jobs=1, **options), others=beside)
        file.write_text(parts.to_text(part), encoding="utf-8")
        files.append(file)
    return files


def gone(hosts: Iterable[Path]) -> None:
    """As on another machine."""
    for host in hosts:
        shutil.rmtree(host)


def without_path(report: Report) -> dict[str, Any]:
    """The report without the one thing that must differ."""
    document: dict[str, Any] = json.loads(json.dumps(report.to_dict()))
    del document["input"]["path"]
    return document
