"""What is lost of a dump can hide a finding, and never makes or changes one.

Faults of every kind meet ranks that are cut, absent, dumped at another level or in another mode, written in another
layout, or numbered in another way.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replicas_made import Json, analysed, data_parallel, nudge, tensor_parallel, write

WORLD = 4
ODD = 2


@dataclass(frozen=True)
class Fault:
    """What is wrong on rank ODD."""

    record: str
    path: tuple[str | int, ...]
    name: str
    lasting: bool = False
    program: Callable[[int, int, int], Json] = data_parallel

    def __call__(self, step: int, rank: int, records: Json) -> None:
        if rank == ODD and (step >= 1 if self.lasting else step == 1):
            held = records[self.record]
            for part in self.path:
                held = held[part]
            nudge(held)


FAULTS = {
    "none": Fault("Module.head.Linear.forward.0", ("output", 0), "nothing"),  # the output of a module is not compared
    "parameter": Fault(
        "Module.layers.1.fc1.Linear.forward.0",
        ("parameters", "weight"),
        "Module.layers.1.fc1.Linear.weight",
        lasting=True,
    ),
    "call": Fault("Distributed.all_reduce.3.forward", ("output", 0), "Distributed.all_reduce.3.forward"),
    "operator": Fault(
        "Functional.layer_norm.1.forward", ("output", 0), "Functional.layer_norm.1.forward", program=tensor_parallel
    ),
}

Damage = Callable[[Path], None]
"""Done to one rank folder."""


def edited(change: Callable[[Json], None]) -> Damage:
    def damage(folder: Path) -> None:
        file = folder / "dump.json"
        document = json.loads(file.read_text("utf-8"))
        change(document)
        file.write_text(json.dumps(document, indent=1), "utf-8")

    return damage


def without(*, modules: bool) -> Callable[[Json], None]:
    """Another level: L0 has no operators, L1 no modules."""

    def change(document: Json) -> None:
        records = document["data"].items()
        document["data"] = {name: one for name, one in records if name.startswith("Module.") != modules}

    return change


def md5(document: Json) -> None:
    """Another mode: checksums in place of statistics."""

    def blank(value: object) -> None:
        if isinstance(value, dict):
            if "Max" in value:
                value |= dict.fromkeys(("Max", "Min", "Mean", "Norm"))
                value["md5"] = "00c0ffee"
            for item in value.values():
                blank(item)
        elif isinstance(value, list):
            for item in value:
                blank(item)

    blank(document["data"])


def cut(share: float) -> Damage:
    def damage(folder: Path) -> None:
        text = (folder / "dump.json").read_text("utf-8")
        (folder / "dump.json").write_text(text[: int(len(text) * share)], "utf-8")

    return damage


def compact(folder: Path) -> None:
    document = json.loads((folder / "dump.json").read_text("utf-8"))
    (folder / "dump.json").write_text(json.dumps(document), "utf-8")


DAMAGES: dict[str, Damage] = {
    "L0": edited(without(modules=False)),
    "L1": edited(without(modules=True)),
    "md5": edited(md5),
    "absent": shutil.rmtree,
    "compact": compact,
    **{f"cut at {share}": cut(share) for share in (0.1, 0.35, 0.6, 0.85, 0.99)},
}
damages = st.lists(
    st.tuples(st.sampled_from(sorted(DAMAGES)), st.integers(0, WORLD - 1), st.integers(0, 2)), max_size=3
)


def renumbered(root: Path, order: Sequence[int]) -> Path:
    """The ranks under other numbers, their folders made in another order; the groups hold all ranks in any case."""
    made = root.with_name("renumbered")
    for step in sorted(root.iterdir(), reverse=True):
        for rank, number in sorted(enumerate(order), key=lambda one: -one[1]):
            if (step / f"rank{rank}").is_dir():
                shutil.copytree(step / f"rank{rank}", made / step.name / f"rank{number}")
    return made


@pytest.mark.parametrize("kind", FAULTS)
@settings(max_examples=30, deadline=None)
@given(done=damages, order=st.permutations(range(WORLD)))
def test_no_damage_makes_or_changes_a_finding(
    tmp_path_factory: pytest.TempPathFactory, kind: str, done: list[tuple[str, int, int]], order: list[int]
) -> None:
    fault = FAULTS[kind]
    root = write(tmp_path_factory.mktemp("run") / "dump", fault.program, world=WORLD, edit=fault)
    for what, rank, step in done:
        folder = root / f"step{step}" / f"rank{rank}"
        if (folder / "dump.json").is_file() and json_of(folder) is not None:
            DAMAGES[what](folder)
    report = analysed(renumbered(root, order))
    for found in report.disagreements:
        assert found.name == fault.name
        assert found.odd_ranks in (None, (order[ODD],))
        assert found.step == 1 or (fault.lasting and found.step == 2)
    if not done:
        assert [found.odd_ranks for found in report.disagreements] == ([] if kind == "none" else [(order[ODD],)])


def json_of(folder: Path) -> Json | None:
    """What is not whole any more is left as it is."""
    try:
        found: Json = json.loads((folder / "dump.json").read_text("utf-8"))
    except ValueError:
        return None
    return found
