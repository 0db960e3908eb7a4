"""What all ranks share is kept once."""

from __future__ import annotations

from pathlib import Path

from firstnan.operators import table
from firstnan.rank.sharing import Sharing
from firstnan.rank.summary import RankSummary
from firstnan.read.layout import path_layouts
from firstnan.run import rank_passes

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "dp2-tp2"


def groups(summary: RankSummary) -> list[tuple[int, ...]]:
    """All places of a summary where a group stands."""
    keys = [*(summary.made or {}), *(key for one in summary.windows for key in one.before)]
    keys += [series.key for series in summary.prints.calls]
    found = [fact.call.group for fact in summary.calls] + [key.group for key in keys]
    found += [group.ranks for event in summary.events for group in event.record.groups]
    return [group for group in found if group is not None]


def test_equal_groups_of_all_ranks_are_one_and_nothing_changes() -> None:
    folders = path_layouts.survey((EXAMPLE,), None, None).folders
    alone = [
        rank_passes.survey(folder, table.load(None), (), shown={(one.step, one.rank) for one in folders})
        for folder in folders
    ]
    sharing = Sharing()
    shared = [sharing.summary(summary) for summary in alone]
    assert shared == alone
    everywhere = [group for summary in shared for group in groups(summary)]
    assert len(everywhere) > len(set(everywhere)) > 1
    assert len({id(group) for group in everywhere}) == len(set(everywhere))
    assert len({id(one.mentioned) for one in shared}) == len({one.mentioned for one in shared})
