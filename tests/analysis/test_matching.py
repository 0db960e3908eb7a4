"""One call, many ranks: the rules of ``step/matching.py``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from made_runs import Json, Run, p2p_op, scalar, t

from firstnan.answer.model import MatchState
from firstnan.step.matching import Matching, match, world_of


def matched(run: Run, path: Path, known: Sequence[int] = ()) -> Matching:
    summaries = run.summaries(path)
    return match(summaries, world_of(summaries.values(), known or summaries))


def together(matching: Matching) -> list[dict[int, str]]:
    """Record names by rank of every matched call, without the parts that all names share."""
    short = ("Distributed.", ".forward")
    return [
        {rank: fact.call.name.removeprefix(short[0]).removesuffix(short[1]) for rank, fact in call.members.items()}
        for call in matching.calls
    ]


def states(matching: Matching) -> list[MatchState]:
    return [call.state for call in matching.calls]


def test_nth_call_of_group_and_api(tmp_path: Path) -> None:
    """Rank 0 calls all_reduce in two groups: its number 1 is number 0 on rank 1, its number 0 is number 0 on rank 2."""
    run = Run()
    run.rank(0).all_reduce(t(1.0), t(1.0), (0, 2))
    run.rank(0).all_reduce(t(1.0), t(1.0), (0, 1))
    run.rank(0).all_reduce(t(1.0), t(1.0), (0, 2))
    run.rank(1).all_reduce(t(1.0), t(1.0), (0, 1))
    run.rank(2).all_reduce(t(1.0), t(1.0), (0, 2))
    run.rank(2).all_reduce(t(1.0), t(1.0), (0, 2))
    found = matched(run, tmp_path)
    assert together(found) == [
        {0: "all_reduce.0", 2: "all_reduce.0"},
        {0: "all_reduce.1", 1: "all_reduce.0"},
        {0: "all_reduce.2", 2: "all_reduce.1"},
    ]
    assert [(c.group, c.nth) for c in found.calls] == [((0, 2), 0), ((0, 1), 0), ((0, 2), 1)]
    assert set(states(found)) == {MatchState.MATCHED}


def test_nth_call_of_group_and_api_counts_apis_apart(tmp_path: Path) -> None:
    run = Run()
    for rank in (0, 1):
        run.rank(rank).all_gather_into_tensor(t(1.0), t(1.0, shape=(8, 8)))
        run.rank(rank).all_reduce(t(1.0), t(1.0))
    assert together(matched(run, tmp_path)) == [
        {0: "all_gather_into_tensor.0", 1: "all_gather_into_tensor.0"},
        {0: "all_reduce.0", 1: "all_reduce.0"},
    ]


def test_nth_call_of_group_and_api_across_old_and_new_names(tmp_path: Path) -> None:
    """``_all_gather_base`` and ``all_gather_into_tensor`` are one operation."""
    run = Run()
    run.rank(0).comm("_all_gather_base", [None, t(1.0)], {}, {0: t(1.0)})
    run.rank(1).all_gather_into_tensor(t(1.0), t(1.0))
    assert together(matched(run, tmp_path)) == [{0: "_all_gather_base.0", 1: "all_gather_into_tensor.0"}]


def test_world_group_is_no_group(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).all_reduce(t(1.0), t(1.0), (0, 1))
    run.rank(1).all_reduce(t(1.0), t(1.0))
    found = matched(run, tmp_path)
    assert together(found) == [{0: "all_reduce.0", 1: "all_reduce.0"}]
    assert found.calls[0].group == (0, 1)


def test_group_order_does_not_matter(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).all_reduce(t(1.0), t(1.0), (1, 0))
    run.rank(1).all_reduce(t(1.0), t(1.0), (0, 1))
    run.rank(2).op("Torch.add", [t(1.0), t(1.0)], [t(2.0)])
    assert together(matched(run, tmp_path)) == [{0: "all_reduce.0", 1: "all_reduce.0"}]


def test_p2p_by_peers_and_tag(tmp_path: Path) -> None:
    """Rank 0 sends to 1 (tag 7), to 2, and to 1 again; isend pairs with recv, and numbers mean nothing."""
    run = Run()
    run.rank(0).comm("isend", [t(1.0)], {"dst": 1, "tag": 7}, {})
    run.rank(0).send(t(2.0), 2)
    run.rank(0).send(t(3.0), 1)
    run.rank(1).recv(t(3.0), 0)
    run.rank(1).recv(t(1.0), 0, tag=7)
    run.rank(2).comm("irecv", [None, 0], {}, {0: t(2.0)})
    found = matched(run, tmp_path)
    assert sorted(together(found), key=str) == [
        {0: "isend.0", 1: "recv.1"},
        {0: "send.0", 2: "irecv.0"},
        {0: "send.1", 1: "recv.0"},
    ]
    assert {(c.sender, c.receiver) for c in found.calls} == {(0, 1), (0, 2)}
    assert set(states(found)) == {MatchState.MATCHED}
    assert all(call.is_p2p for call in found.calls)


def test_p2p_by_peers_and_tag_and_order(tmp_path: Path) -> None:
    run = Run()
    for value in (1.0, 2.0):
        run.rank(0).send(t(value), 1)
        run.rank(1).recv(t(value), 0)
    assert [call.nth for call in matched(run, tmp_path).calls] == [0, 1]


def test_p2p_without_a_source_is_not_matched(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).send(t(1.0), 1)
    run.rank(1).comm("recv", [None], {}, {0: t(1.0)})
    found = matched(run, tmp_path)
    assert found.unmatched == 1
    assert states(found) == [MatchState.PARTIAL]


def test_batch_element_by_element(tmp_path: Path) -> None:
    """One record, two messages: to the left and from the right."""
    run = Run()
    for rank in range(3):
        left, right = (rank - 1) % 3, (rank + 1) % 3
        run.rank(rank).batch_isend_irecv(p2p_op("isend", t(1.0), left), p2p_op("irecv", t(0.0), right))
    found = matched(run, tmp_path)
    assert sorted((c.sender, c.receiver) for c in found.calls) == [(0, 2), (1, 0), (2, 1)]
    assert set(states(found)) == {MatchState.MATCHED}
    assert all(len(found.at(rank, 0)) == 2 for rank in range(3))


def test_batch_element_by_element_pairs_with_plain_messages(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).batch_isend_irecv(p2p_op("isend", t(1.0), 1))
    run.rank(1).recv(t(1.0), 0)
    assert together(matched(run, tmp_path)) == [{0: "batch_isend_irecv.0", 1: "recv.0"}]


def test_unknown_groups_by_name(tmp_path: Path) -> None:
    """Very old dumps name no framework and record no groups: one name, one call."""
    run = Run()
    for rank in (0, 1):
        run.rank(rank).header["framework"] = None
        run.rank(rank).comm("all_reduce", [t(1.0), None, None], {}, {})
        run.rank(rank).comm("all_reduce", [t(2.0), None, None], {}, {})
    found = matched(run, tmp_path)
    assert together(found) == [dict.fromkeys((0, 1), f"all_reduce.{n}") for n in (0, 1)]
    assert states(found) == [MatchState.BY_NAME] * 2
    assert found.groups_unknown
    assert [call.nth for call in found.calls] == [0, 1]


def test_named_groups_by_label(tmp_path: Path) -> None:
    """MindSpore writes a group's name and not its ranks: its members are those that use the name."""
    run = Run()
    for rank in range(4):
        named: Json = scalar(f"tp-{rank // 2}")
        run.rank(rank).comm("all_reduce", [t(1.0)], {"group": named}, {})
    found = matched(run, tmp_path)
    assert [sorted(call.members) for call in found.calls] == [[0, 1], [2, 3]]
    assert [call.key for call in found.calls] == ["group tp-0", "group tp-1"]
    assert [call.group for call in found.calls] == [None, None]


def test_named_groups_by_label_of_the_world(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).comm("all_reduce", [t(1.0)], {"group": "hccl_world_group"}, {})
    run.rank(1).comm("all_reduce", [t(1.0)], {}, {})
    assert together(matched(run, tmp_path)) == [{0: "all_reduce.0", 1: "all_reduce.0"}]


def test_different_counts_are_partial(tmp_path: Path) -> None:
    run = Run()
    for _ in range(3):
        run.rank(0).all_reduce(t(1.0), t(1.0), (0, 1))
    run.rank(1).all_reduce(t(1.0), t(1.0), (0, 1))
    found = matched(run, tmp_path)
    assert states(found) == [MatchState.MATCHED, MatchState.PARTIAL, MatchState.PARTIAL]
    assert [call.absent for call in found.calls] == [(), (1,), (1,)]


def test_different_counts_are_partial_for_an_absent_rank(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).all_reduce(t(1.0), t(1.0), (0, 1, 2))
    run.rank(1).all_reduce(t(1.0), t(1.0), (0, 1, 2))
    found = matched(run, tmp_path)
    assert (states(found), found.calls[0].absent, found.world) == ([MatchState.PARTIAL], (2,), (0, 1, 2))


def test_different_sizes_are_doubtful(tmp_path: Path) -> None:
    """From the first call on whose sizes differ; other groups and APIs are not touched."""
    run = Run()
    for rank in (0, 1):
        mine = run.rank(rank)
        mine.all_reduce(t(1.0), t(1.0), (0, 1))
        odd = t(1.0, shape=(4,) if rank else (8,))
        mine.all_reduce(odd, odd, (0, 1))
        mine.all_reduce(t(1.0), t(1.0), (0, 1))
        mine.broadcast(t(1.0), t(1.0), 0, (0, 1))
    found = matched(run, tmp_path)
    doubtful, fine = MatchState.DOUBTFUL, MatchState.MATCHED
    assert {(c.api, c.nth): c.state for c in found.calls} == {
        ("all_reduce", 0): fine, ("all_reduce", 1): doubtful, ("all_reduce", 2): doubtful, ("broadcast", 0): fine,
    }  # fmt: skip


def test_different_sizes_are_doubtful_as_are_types(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).all_reduce(t(1.0), t(1.0), (0, 1))
    run.rank(1).all_reduce(t(1.0, dtype="bfloat16"), t(1.0, dtype="bfloat16"), (0, 1))
    assert states(matched(run, tmp_path)) == [MatchState.DOUBTFUL]


def test_different_sizes_are_doubtful_in_messages(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).send(t(1.0, shape=(4,)), 1)
    run.rank(1).recv(t(1.0, shape=(8,)), 0)
    assert states(matched(run, tmp_path)) == [MatchState.DOUBTFUL]


def test_ranks_that_are_mentioned_or_left_out_belong_to_the_world(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).all_reduce(t(1.0), t(1.0), (0, 1))
    run.rank(1).send(t(1.0), 3)
    summaries = run.summaries(tmp_path)
    assert world_of(summaries.values(), summaries) == (0, 1, 2, 3)
    assert world_of([], [0, 1, 3]) == (0, 1, 2, 3)
    assert world_of([], [168, 169, 170, 171]) == (168, 169, 170, 171)
    assert world_of([], [168, 170, 171]) == (168, 169, 170, 171)
    assert world_of([], [0, 8, 16, 24]) == (0, 8, 16, 24)
