"""A flow that goes on where more records are looked at is the one of all of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from known_cases import Case, own_cases
from random_programs import Program, play, programs

from firstnan.dump.view import RankDump
from firstnan.operators import table
from firstnan.rank.in_memory import WholeDump
from firstnan.rank.summarize import Following
from firstnan.rank.suspects import Lookout
from firstnan.rank.taint import endings
from firstnan.rank.taint.def_use import Flow
from firstnan.read.callers import call_site
from firstnan.read.layout import dump_layout
from firstnan.read.records import full_reader


class Parts:
    """The flow of one rank, some records at a time."""

    def __init__(self, dump: RankDump) -> None:
        self.watch = Lookout(table.load(), dump.folder.rank)
        self.view = WholeDump(dump, self.watch)
        parents, _ = call_site.parents(dump.folder)
        self.following = Following(self.view, self.watch, lambda _: parents)

    def flow(self, *stops: int) -> Flow:
        """What it is after the records up to each of these indices."""
        end = self.view.overview.end
        for start, stop in pairwise([0, *sorted({min(stop, end) for stop in stops if stop > 0}), end]):
            flow = self.following.go_on(self.view.records(start, stop), None if stop == end else stop)
        return self.following.go_on((), None) if self.following.corrected(None) else flow


def told(flow: Flow) -> object:
    """All that is said of it."""
    found = endings.outcomes(flow, truncated=False)
    readers = {writer: sorted(set(reading)) for writer, reading in flow.readers.items()}
    return (
        endings.finish(flow, found), found, readers, flow.guesses, flow.closed, flow.absorbed, flow.unproven,
        flow.legality.suppressed, flow.structure.losses, flow.structure.tops,
    )  # fmt: skip


def dumps(path: Path) -> Iterator[RankDump]:
    return (full_reader.read(folder) for folder in dump_layout.find(path).folders)


@given(programs(), st.lists(st.integers(1, 60), min_size=1, max_size=4))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_where_it_went_on_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, program: Program, stops: list[int]
) -> None:
    for dump in play(program).run.dumps(tmp_path_factory.mktemp("run")).values():
        assert told(Parts(dump).flow(*stops)) == told(Parts(dump).flow())


@pytest.mark.parametrize("case", list(own_cases()), ids=lambda case: case.name)
@pytest.mark.parametrize("every", [7, 50, 333])
def test_where_it_went_on_changes_nothing_in_real_runs(case: Case, every: int) -> None:
    for dump in dumps(case.folder):
        end = len(dump.records)
        assert told(Parts(dump).flow(*range(every, end, every))) == told(Parts(dump).flow())
