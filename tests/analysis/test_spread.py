"""Where bad values began and how they spread over ranks: the rules of ``step/spread.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import INF, NAN, Rank, Run, blank, named, p2p_op, t, the_cause

from firstnan.answer.model import RankState, Report, Verdict, Where
from firstnan.step.arrivals import Arrival, RankOutcome
from firstnan.step.order import causal_order, members_of


def arrivals(run: Run, path: Path) -> dict[int, tuple[Arrival, tuple[int, ...]]]:
    """rank -> how its first live bad value came, and from which ranks."""
    outcomes: tuple[RankOutcome, ...] = run.judge(path).spread.outcomes
    return {o.rank: (o.arrival, o.sources) for o in outcomes}


def states(report: Report) -> list[dict[RankState, tuple[int, ...]]]:
    return [
        {
            RankState.SOURCE: call.source_ranks,
            RankState.PROPAGATED: call.propagated_ranks,
            RankState.NORMAL: call.normal_ranks,
            RankState.UNDECIDED: call.undecided_ranks,
        }
        for call in report.collectives
    ]


def log(rank: Rank) -> str:
    """A birth: the logarithm of a negative number."""
    return rank.op("Torch.log", [t(1.0, -1.0)], [t(NAN)])


def end(rank: Rank, value: float = NAN) -> str:
    return rank.op("Torch.sum", [t(value)], [t(value, shape=())])


def test_received_values_are_no_roots(tmp_path: Path) -> None:
    run = Run()
    for rank in range(3):
        mine = run.rank(rank)
        if rank == 2:
            log(mine)
        mine.all_reduce(t(NAN) if rank == 2 else t(1.0), t(NAN))
        end(mine)
    report = run.analyze(tmp_path)
    assert named(report) == [(2, "Torch.log.0.forward")]
    assert states(report)[0][RankState.SOURCE] == (2,)
    assert states(report)[0][RankState.PROPAGATED] == (0, 1)
    assert [(h.from_rank, h.to_ranks, h.via) for h in report.propagation] == [(2, (0, 1), "all_reduce")]


def test_contained_garbage_is_no_source(tmp_path: Path) -> None:
    """NaN in the unwritten slots of a buffer travels through all_to_all and is indexed away on both ranks."""
    run = Run()
    for rank in (0, 1):
        mine = run.rank(rank)
        with mine.module("moe", "Moe", [t(1.0)], [t(1.0)]):
            mine.op("Torch.empty", [8, 8], [t(NAN, shape=(8, 8))])
            mine.comm("all_to_all_single", [None, t(NAN, shape=(8, 8))], {}, {0: t(NAN, shape=(8, 8))})
            mine.op("Torch.index_select", [t(NAN, shape=(8, 8)), 0, t(3, 0, dtype="int64")], [t(1.0)])
            end(mine, 1.0)
    report = run.analyze(tmp_path)
    assert (report.verdict, report.collectives) == (Verdict.CLEAN, ())
    assert arrivals(run, tmp_path) == {}


def test_contained_garbage_is_no_source_of_a_fault_elsewhere(tmp_path: Path) -> None:
    run = Run()
    for rank in (0, 1):
        mine = run.rank(rank)
        with mine.module("moe", "Moe", [t(1.0)], [t(1.0)]):
            mine.comm("all_to_all_single", [None, t(NAN, shape=(8, 8))], {}, {0: t(NAN, shape=(8, 8))})
            mine.op("Torch.index_select", [t(NAN, shape=(8, 8)), 0, t(3, 0, dtype="int64")], [t(1.0)])
        if rank == 1:
            log(mine)
            end(mine)
    assert named(run.analyze(tmp_path)) == [(1, "Torch.log.0.forward")]


def test_receiver_follows_sender(tmp_path: Path) -> None:
    """The receiver's record of batch_isend_irecv shows the buffer before the message; the sender's is believed."""
    run = Run()
    log(run.rank(0))
    run.rank(0).batch_isend_irecv(p2p_op("isend", t(NAN), 1))
    run.rank(1).batch_isend_irecv(p2p_op("irecv", t(0.0), 0))
    end(run.rank(1))
    assert arrivals(run, tmp_path) == {0: (Arrival.OWN, ()), 1: (Arrival.RECEIVED, (0,))}
    report = run.analyze(tmp_path)
    assert named(report) == [(0, "Torch.log.0.forward")]
    assert (states(report)[0][RankState.SOURCE], states(report)[0][RankState.PROPAGATED]) == ((0,), (1,))


def test_receiver_follows_sender_whose_tensor_is_clean(tmp_path: Path) -> None:
    """Garbage in the buffer before the message is nobody's fault, and the receiver's own NaN is its own."""
    run = Run()
    run.rank(0).batch_isend_irecv(p2p_op("isend", t(1.0), 1))
    run.rank(1).batch_isend_irecv(p2p_op("irecv", t(NAN), 0))
    run.rank(1).op("Torch.add", [t(1.0), t(1.0)], [t(2.0)])
    assert run.analyze(tmp_path).verdict is Verdict.CLEAN
    again = Run()
    again.rank(0).batch_isend_irecv(p2p_op("isend", t(1.0), 1))
    again.rank(1).batch_isend_irecv(p2p_op("irecv", t(0.0), 0))
    end(again.rank(1))
    cause = the_cause(again.analyze(tmp_path / "again"))
    assert (cause.rank, cause.where) == (1, Where.UNDUMPED_OPERATOR)


def test_receiver_follows_sender_through_a_stale_collective(tmp_path: Path) -> None:
    """An asynchronous all_reduce that was never refreshed: the reader's NaN came from the member that sent it."""
    run = Run()
    log(run.rank(1))
    for rank in (0, 1):
        sent = t(NAN) if rank else t(1.0)
        run.rank(rank).all_reduce(sent, sent, async_op=True)
        end(run.rank(rank))
    assert arrivals(run, tmp_path) == {0: (Arrival.RECEIVED, (1,)), 1: (Arrival.OWN, ())}
    report = run.analyze(tmp_path)
    assert named(report) == [(1, "Torch.log.0.forward")]
    assert (states(report)[0][RankState.SOURCE], states(report)[0][RankState.PROPAGATED]) == ((1,), (0,))


def test_receiver_follows_sender_only_for_values_of_that_size(tmp_path: Path) -> None:
    run = Run()
    log(run.rank(1))
    for rank in (0, 1):
        sent = t(NAN) if rank else t(1.0)
        run.rank(rank).all_reduce(sent, sent, async_op=True)
    small = run.rank(0).op("Torch.mul", [t(NAN, shape=(3,)), t(1.0)], [t(NAN, shape=(3,))])
    assert sorted(named(run.analyze(tmp_path))) == [(0, small), (1, "Torch.log.0.forward")]


def test_receiver_follows_sender_rather_than_an_absent_one(tmp_path: Path) -> None:
    """Two messages came before the NaN: rank 0 is known to have sent one, of rank 2 nothing is known."""
    run = Run()
    born = log(run.rank(0))
    run.rank(0).batch_isend_irecv(p2p_op("isend", t(NAN), 1))
    run.rank(1).batch_isend_irecv(p2p_op("irecv", t(0.0), 0))
    run.rank(1).batch_isend_irecv(p2p_op("irecv", t(0.0), 2))
    end(run.rank(1))
    assert named(run.analyze(tmp_path)) == [(0, born)]


def test_absent_member_is_the_source(tmp_path: Path) -> None:
    run = Run()
    for rank in (0, 1):
        run.rank(rank).all_reduce(t(1.0), t(NAN), (0, 1, 2))
        end(run.rank(rank))
    report = run.analyze(tmp_path)
    cause = the_cause(report)
    assert (cause.rank, cause.where, cause.op_name, cause.exec_order) == (2, Where.MISSING_RANK, "", None)
    assert report.input.missing_ranks == (2,)
    told = next(note.params for note in cause.evidence if note.key == "evidence.missing_rank")
    assert told == {"rank": 2, "op_name": "Distributed.all_reduce.0.forward", "receivers": "0,1"}


def test_absent_member_is_the_source_by_several_calls(tmp_path: Path) -> None:
    """Each receiver is told with the call that brought the value to it."""
    run = Run()
    run.rank(1).all_reduce(t(1.0), t(2.0), (1, 3))
    run.rank(3).all_reduce(t(1.0), t(2.0), (1, 3))
    for rank in (0, 1):
        run.rank(rank).all_reduce(t(1.0), t(NAN), (rank, 2))
        end(run.rank(rank))
    report = run.analyze(tmp_path)
    told = [note.params for note in the_cause(report).evidence if note.key == "evidence.missing_rank"]
    assert told == [
        {"rank": 2, "op_name": "Distributed.all_reduce.0.forward", "receivers": "0"},
        {"rank": 2, "op_name": "Distributed.all_reduce.1.forward", "receivers": "1"},
    ]
    assert the_cause(report).mechanism.explanation.params["receivers"] == "0,1"
    assert not report.complete


def test_a_group_without_ranks_may_have_an_absent_member(tmp_path: Path) -> None:
    """Hand-made and old dumps do not list a group's ranks: the absent rank is not cleared by that."""
    run = Run()
    for rank in (0, 2):
        run.rank(rank).header["framework"] = None
        run.rank(rank).all_reduce(t(1.0), t(NAN))
        end(run.rank(rank))
    report = run.analyze(tmp_path)
    assert (the_cause(report).rank, the_cause(report).where) == (1, Where.MISSING_RANK)


def test_a_rank_that_was_not_asked_for_is_not_said_to_be_absent(tmp_path: Path) -> None:
    run = Run()
    log(run.rank(2))
    for rank in range(3):
        run.rank(rank).all_reduce(t(NAN) if rank == 2 else t(1.0), t(NAN), (0, 1, 2))
        end(run.rank(rank))
    cause = the_cause(run.analyze(tmp_path, ranks=(0, 1)))
    assert (cause.rank, cause.where) == (2, Where.MISSING_RANK)
    assert cause.evidence[0].key == "evidence.rank_left_out"
    assert cause.mechanism.explanation.key == "why.missing_rank_left_out"
    assert [note.key for note in cause.advice] == ["where.missing_rank.advice.left_out"]


def test_absent_member_is_the_source_of_a_message(tmp_path: Path) -> None:
    run = Run()
    run.rank(0).op("Torch.add", [t(1.0), t(1.0)], [t(2.0)])
    run.rank(1).recv(t(NAN), 2)
    end(run.rank(1))
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.where) == (2, Where.MISSING_RANK)


def test_absent_member_is_the_source_told_by_its_place_in_a_list(tmp_path: Path) -> None:
    """Two members are absent; all_gather's result tells which of them sent the NaN."""
    run = Run()
    for rank in (0, 1):
        run.rank(rank).all_gather(t(1.0), [t(1.0), t(1.0), t(1.0), t(NAN)], (0, 1, 2, 3))
        end(run.rank(rank))
    report = run.analyze(tmp_path)
    assert (the_cause(report).rank, report.input.missing_ranks) == (3, (2, 3))


def test_absent_member_is_the_source_and_all_absent_members_are_told(tmp_path: Path) -> None:
    run = Run()
    for rank in (0, 1):
        run.rank(rank).all_reduce(t(1.0), t(NAN), (0, 1, 2, 3))
        end(run.rank(rank))
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.where) == (2, Where.MISSING_RANK)
    assert [note.params.get("ranks") for note in cause.evidence if "ranks" in note.params] == ["3"]


def test_absent_member_is_the_source_though_its_modules_are_there(tmp_path: Path) -> None:
    """A rank dumped at level L0 has no record of the call, but its own module shows where the NaN was born."""
    run = Run()
    run.rank(0).all_reduce(t(1.0), t(NAN), (0, 1))
    end(run.rank(0))
    run.rank(1).header["level"] = "L0"
    with run.rank(1).module("fc", "Log", [t(1.0, -1.0)], [t(NAN)]) as born:
        pass
    assert arrivals(run, tmp_path) == {0: (Arrival.RECEIVED, (1,)), 1: (Arrival.OWN, ())}
    assert named(run.analyze(tmp_path)) == [(1, born)]


def test_a_member_with_a_clean_result_acquits_the_absent_one(tmp_path: Path) -> None:
    """Rank 0's result is finite: nobody can have put a NaN in; rank 1's is a fault of the communication."""
    run = Run()
    run.rank(0).all_reduce(t(1.0), t(3.0), (0, 1, 2))
    run.rank(1).all_reduce(t(1.0), t(NAN), (0, 1, 2))
    end(run.rank(0), 3.0)
    end(run.rank(1))
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.where) == (1, Where.COMMUNICATION)


def test_zero_dim_input_shows_the_result(tmp_path: Path) -> None:
    """Every member's 0-dim input is NaN as it is after the call; the member that made one before is the source."""
    run = Run()
    for rank in (0, 1):
        mine = run.rank(rank)
        mine.op("Torch.mean", [t(1.0)], [t(NAN if rank else 1.0, shape=())])
        mine.all_reduce(t(NAN, shape=()), t(NAN, shape=()))
        mine.op("Torch.div", [t(NAN, shape=()), 2], [t(NAN, shape=())])
    report = run.analyze(tmp_path)
    assert named(report) == [(1, "Torch.mean.0.forward")]
    assert (states(report)[0][RankState.SOURCE], states(report)[0][RankState.PROPAGATED]) == ((1,), (0,))


def test_unrecorded_communication(tmp_path: Path) -> None:
    """DDP leaves no record: rank 0's gradients are bad from nowhere, on rank 1 the same record is, after its birth."""
    run = Run()
    for rank in (0, 1):
        mine = run.rank(rank)
        log_of = mine.op("Torch.sqrt", [t(1.0, 0.0)], [t(1.0, 0.0)])
        loss = mine.op("Torch.sum", [t(1.0)], [t(1.0, shape=())])
        mine.backward(loss, [t(1.0, shape=())], [t(1.0)])
        mine.backward(log_of, [t(1.0)], [t(NAN if rank else 1.0)])
        mine.op("Torch.mul", [t(NAN), t(0.1)], [t(NAN)])
    assert arrivals(run, tmp_path) == {0: (Arrival.UNRECORDED, (1,)), 1: (Arrival.OWN, ())}
    report = run.analyze(tmp_path)
    assert named(report) == [(1, "Torch.sqrt.0.backward")]
    assert [(h.from_rank, h.to_ranks, h.via) for h in report.propagation] == [(1, (0,), "unrecorded")]


def test_unrecorded_communication_does_not_go_in_circles(tmp_path: Path) -> None:
    """Rank 1 got its NaN from rank 0, so that its records of the same name cannot explain rank 0's."""
    run = Run()
    run.rank(0).op("Torch.sin", [t(1.0)], [t(1.0)])
    entry = run.rank(0).op("Torch.mul", [t(NAN), t(1.5)], [t(NAN)])
    run.rank(0).send(t(NAN), 1)
    run.rank(1).recv(t(NAN), 0)
    run.rank(1).op("Torch.mul", [t(NAN), t(1.5)], [t(NAN)])
    assert named(run.analyze(tmp_path)) == [(0, entry)]


def test_independent_roots_are_all_named(tmp_path: Path) -> None:
    run = Run()
    for rank in range(4):
        mine = run.rank(rank)
        if rank in (1, 2):
            log(mine)
        mine.all_reduce(t(NAN) if rank in (1, 2) else t(1.0), t(NAN), (0, 1) if rank < 2 else (2, 3))
        end(mine)
    assert named(run.analyze(tmp_path)) == [(1, "Torch.log.0.forward"), (2, "Torch.log.0.forward")]


def test_independent_roots_are_all_named_absent_ones_too(tmp_path: Path) -> None:
    """Two groups that never meet: rank 1 got its NaN from rank 0, which is absent; rank 3 made its own."""
    run = Run()
    for rank in (1, 2, 3):
        mine = run.rank(rank)
        if rank == 3:
            log(mine)
        mine.all_reduce(t(NAN) if rank == 3 else t(1.0), t(NAN), (0, 1) if rank < 2 else (2, 3))
        end(mine)
    report = run.analyze(tmp_path)
    assert {(c.rank, c.where) for c in report.root_causes} == {(0, Where.MISSING_RANK), (3, Where.OPERATOR)}


def test_a_birth_behind_contamination_is_a_root_of_its_own(tmp_path: Path) -> None:
    """Rank 0 divides by zero after it has received a NaN: its inputs are finite, so that nothing explains it."""
    run = Run()
    log(run.rank(1))
    run.rank(1).send(t(NAN), 0)
    run.rank(0).recv(t(NAN), 1)
    run.rank(0).op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(INF)])
    end(run.rank(0))
    assert set(named(run.analyze(tmp_path))) == {(0, "Torch.div.0.forward"), (1, "Torch.log.0.forward")}


def test_what_comes_before_contamination_is_a_root_of_its_own(tmp_path: Path) -> None:
    run = Run()
    log(run.rank(1))
    run.rank(1).send(t(NAN), 0)
    run.rank(0).op("Torch.div", [t(1.0), t(1.0, 0.0)], [t(INF)])
    run.rank(0).recv(t(NAN), 1)
    end(run.rank(0))
    assert named(run.analyze(tmp_path)) == [(0, "Torch.div.0.forward"), (1, "Torch.log.0.forward")]


def test_a_member_without_statistics_is_undecided(tmp_path: Path) -> None:
    run = Run()
    for rank, sent in enumerate([t(NAN), t(1.0), blank()]):
        mine = run.rank(rank)
        if rank == 0:
            log(mine)
        mine.all_reduce(sent, blank() if rank == 2 else t(NAN))
        end(mine) if rank < 2 else mine.op("Torch.sum", [blank()], [blank(shape=())])
    report = run.analyze(tmp_path)
    assert named(report) == [(0, "Torch.log.0.forward")]
    assert states(report)[0][RankState.UNDECIDED] == (2,)
    assert not report.complete


def test_causal_order_respects_the_records_of_every_rank(tmp_path: Path) -> None:
    """0 -> 1, then 1 -> 2, then all: whatever the order in which ranks are listed."""
    run = Run()
    run.rank(2).recv(t(1.0), 1)
    run.rank(1).recv(t(1.0), 0)
    run.rank(1).send(t(1.0), 2)
    run.rank(0).send(t(1.0), 1)
    for rank in range(3):
        run.rank(rank).all_reduce(t(1.0), t(3.0))
    matching = run.judge(tmp_path).matching
    order = causal_order(members_of(matching))
    members = sorted(range(len(matching.calls)), key=lambda at: order[at])
    assert [sorted(matching.calls[at].members) for at in members] == [[0, 1], [1, 2], [0, 1, 2]]


def test_causal_order_survives_calls_that_cannot_be(tmp_path: Path) -> None:
    """Each rank receives before it sends: no such run exists, and an order is given all the same."""
    run = Run()
    for rank in (0, 1):
        run.rank(rank).recv(t(1.0), 1 - rank)
        run.rank(rank).send(t(1.0), 1 - rank)
    matching = run.judge(tmp_path).matching
    assert sorted(causal_order(members_of(matching)).values()) == list(range(len(matching.calls)))


def test_garbage_beside_a_fault_is_no_source(tmp_path: Path) -> None:
    """Both ranks send garbage slots; what goes on on rank 1 is the NaN that it made before the call."""
    run = Run()
    garbage = t(NAN, shape=(8, 8))
    born = ""
    for number in (0, 1):
        rank = run.rank(number)
        value = NAN if number else 1.0
        with rank.module("moe", "Moe", [t(1.0)], [t(value, shape=(8, 8))]):
            if number:
                born = rank.op("Torch.log", [t(1.0, -1.0, shape=(8, 8))], [garbage])
            else:
                rank.op("Tensor.index_copy", [garbage, t(1.0)], [garbage])
            rank.comm("all_to_all_single", [None, garbage], {}, {0: garbage})
        rank.op("Torch.sum", [t(value, shape=(8, 8))], [t(value, shape=())])
    assert named(run.analyze(tmp_path)) == [(1, born)]


def test_two_faults_before_one_call_are_both_named(tmp_path: Path) -> None:
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        log(rank)
        rank.all_reduce(t(NAN), t(NAN))
        end(rank)
    assert named(run.analyze(tmp_path)) == [(0, "Torch.log.0.forward"), (1, "Torch.log.0.forward")]


def test_unrecorded_communication_is_none_where_forward_is_recorded(tmp_path: Path) -> None:
    """Two tensor-parallel groups that record their calls: rank 2's NaN did not come from rank 0 without a record."""
    run = Run()
    for number in range(4):
        rank, group = run.rank(number), (0, 1) if number < 2 else (2, 3)
        rank.all_reduce(t(1.0), t(2.0), group)
        if number == 0:
            log(rank)
        value = 1.0 if number % 2 else NAN
        rank.op("Functional.gelu", [t(value)], [t(value)])
        rank.all_reduce(t(value), t(NAN), group)
        end(rank)
    assert named(run.analyze(tmp_path)) == [(0, "Torch.log.0.forward"), (2, "Functional.gelu.0.forward")]


def test_unrecorded_communication_is_none_between_partners(tmp_path: Path) -> None:
    """Ranks 0 and 1 reduce their gradients by recorded calls: rank 1's NaN in forward did not come from rank 0."""
    run = Run()
    for number in (0, 1, 2):
        rank = run.rank(number)
        if number == 0:
            log(rank)
        value = 1.0 if number == 2 else NAN
        rank.op("Functional.gelu", [t(value)], [t(value)])
        total = rank.op("Torch.sum", [t(value)], [t(value, shape=())])
        rank.backward(total, [t(1.0, shape=())], [t(value)])
        rank.all_reduce(t(value), t(NAN))
    assert named(run.analyze(tmp_path)) == [(0, "Torch.log.0.forward"), (1, "Functional.gelu.0.forward")]


def test_gradient_comes_back(tmp_path: Path) -> None:
    """Three stages; the messages of backward have no record. The NaN of the last stage's forward came back."""
    run = Run()
    stages = [run.rank(number) for number in range(3)]
    lines = []
    for number, stage in enumerate(stages):
        if number:
            stage.recv(t(1.0), number - 1)
        lines.append(stage.op("Functional.linear", [t(1.0), t(1.0)], [t(1.0)]))
        if number < 2:
            stage.send(t(1.0), number + 1)
    born = log(stages[2])
    total = end(stages[2])
    stages[2].backward(total, [t(1.0, shape=())], [t(NAN)])
    for number in (1, 0):
        stages[number].op("Torch.add", [t(1.0), t(1.0)], [t(2.0)])
        stages[number].backward(lines[number], [t(NAN)], [t(NAN), t(NAN)])
    assert named(run.analyze(tmp_path)) == [(2, born)]


def test_what_opens_a_pass_is_no_source_of_what_does_not(tmp_path: Path) -> None:
    """Stages of a pipeline have modules of the same names, and level L0 records no messages: the stage whose backward
    begins with a NaN got it; the one on which a module makes it is the cause."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.header["level"] = "L0"
        with rank.module("block.angle", "Angle", [t(1.0)], [t(1.0)]) as angle:
            pass
        with rank.module("block.out", "Linear", [t(1.0)], [t(1.0)]) as out:
            pass
        rank.backward(out, [t(1.0 if number else NAN)], [t(1.0 if number else NAN)])
        rank.backward(angle, [t(1.0 if number else NAN)], [t(NAN)])
    report = run.analyze(tmp_path)
    assert named(report) == [(1, angle.replace(".forward", ".backward"))]


def test_absent_member_is_the_source_of_an_asynchronous_call(tmp_path: Path) -> None:
    """Its record shows the buffer from before; what is read after the wait came from the member without a dump."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.all_reduce(t(1.0), t(1.0) if number else t(NAN), (number, 2), async_op=bool(number))
        rank.op("Torch.add", [t(1.0, shape=(3,)), t(1.0, shape=(3,))], [t(2.0, shape=(3,))])
        rank.op("Tensor.__truediv__", [t(NAN), 2], [t(NAN)])
        end(rank)
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.where) == (2, Where.MISSING_RANK)


def test_an_asynchronous_call_that_spared_another_member_does_not_explain_its_reader(tmp_path: Path) -> None:
    """The third member has no dump, and the second got a good result: the reader's NaN is one of its own."""
    run = Run()
    for number in (0, 1):
        rank = run.rank(number)
        rank.all_reduce(t(1.0), t(1.0 if number else 2.0), (0, 1, 2), async_op=bool(number))
        rank.op("Torch.add", [t(1.0, shape=(3,)), t(1.0, shape=(3,))], [t(2.0, shape=(3,))])
        value = NAN if number else 1.0
        rank.op("Tensor.__truediv__", [t(value), 2], [t(value)])
        end(rank, value)
    cause = the_cause(run.analyze(tmp_path))
    assert (cause.rank, cause.op_name, cause.where) == (1, "Tensor.__truediv__.0.forward", Where.UNDUMPED_OPERATOR)


def _stage(run: Run, number: int, *passes: float, calls: int) -> list[str]:
    """A stage of a pipeline of two: a pass of its module for each value, of which the first ``calls`` with operators
    and messages; the later ones are dumped by modules alone. Gives the names of the modules."""
    mine = run.rank(number)
    names = []
    for nth, value in enumerate(passes):
        taken = value if number else 1.0
        if number and nth < calls:
            mine.comm("recv", [None], {"src": 0}, {0: t(taken)})
        with mine.module("block", "Block", [t(taken)], [t(value)]) as name:
            if nth < calls:
                mine.op("Functional.linear", [t(taken), t(1.0)], [t(value)])
        if not number and nth < calls:
            mine.send(t(value), 1)
        names.append(name)
    return names


def test_a_message_that_the_receiver_did_not_record(tmp_path: Path) -> None:
    run = Run()
    _stage(run, 0, 1.0, NAN, calls=2)
    _stage(run, 1, 1.0, NAN, calls=1)
    assert named(run.analyze(tmp_path)) == [(0, "Functional.linear.1.forward")]


def test_a_stage_behind_its_last_call(tmp_path: Path) -> None:
    run = Run()
    born = _stage(run, 0, 1.0, NAN, calls=1)[-1]
    _stage(run, 1, 1.0, NAN, calls=1)
    assert named(run.analyze(tmp_path)) == [(0, born)]


def test_a_stage_behind_its_last_call_of_a_sound_sender_is_a_cause(tmp_path: Path) -> None:
    run = Run()
    _stage(run, 0, 1.0, 1.0, calls=1)
    last = _stage(run, 1, 1.0, NAN, calls=1)[-1]
    assert named(run.analyze(tmp_path)) == [(1, last)]


def test_gradients_after_backward(tmp_path: Path) -> None:
    """DDP reduces the gradients in C++; the one recorded all_reduce carries metrics. The ranks' numbers differ."""
    run = Run()
    for number in (0, 1):
        mine = run.rank(number)
        mine.all_reduce(t(1.0, shape=(3,)), t(2.0, shape=(3,)))
        product = mine.op("Functional.linear", [t(1.0), t(1.0)], [t(1.0)])
        born = log(mine) if number else mine.op("Torch.linalg.vector_norm", [t(1.0)], [t(1.0, shape=())])
        total = end(mine, NAN if number else 1.0)
        mine.backward(total, [t(1.0, shape=())], [t(NAN if number else 1.0)])
        mine.backward(product, [t(NAN if number else 1.0)], [t(NAN if number else 1.0)])
        mine.op("Torch.linalg.vector_norm", [t(NAN, shape=(8, 8))], [t(NAN, shape=())])
    assert named(run.analyze(tmp_path)) == [(1, born)]


def test_gradients_after_backward_of_a_sound_peer_are_a_cause(tmp_path: Path) -> None:
    """The other rank's norm is finite: the gradient of this one is its own."""
    run = Run()
    for number in (0, 1):
        mine = run.rank(number)
        product = mine.op("Functional.linear", [t(1.0), t(1.0)], [t(1.0)])
        total = end(mine, 1.0)
        mine.backward(total, [t(1.0, shape=())], [t(1.0)])
        mine.backward(product, [t(1.0)], [t(1.0)])
        value = NAN if number else 1.0
        norm = mine.op("Torch.linalg.vector_norm", [t(value, shape=(8, 8))], [t(value, shape=())])
    assert named(run.analyze(tmp_path)) == [(1, norm)]


@pytest.mark.parametrize("returned", [True, False])
def test_a_call_that_did_not_return_drops_nothing(returned: bool, tmp_path: Path) -> None:
    """The run went on behind it (the exception was caught): nobody saw the value dropped."""
    run = Run()
    rank = run.rank(0)
    exp = rank.op("Torch.exp", [t(200.0)], [t(INF, 1.0)])
    call = rank.all_reduce(t(INF, 1.0), t(1.0), (0,))
    if not returned:
        rank.data[call].pop("output")
    with rank.module("fc", "Linear", [t(1.0)], [t(1.0)]):
        rank.op("Functional.linear", [t(1.0), t(0.5)], [t(1.0)])
    report = run.analyze(tmp_path)
    assert named(report) == ([] if returned else [(0, exp)])


@pytest.mark.parametrize("api", ["gather", "all_gather"])
def test_a_list_with_one_tensor_a_member_has_no_rank_beyond(api: str, tmp_path: Path) -> None:
    """Three ranks, the default group, all inputs clean: a result with three tensors leaves no place for a fourth."""
    run = Run()
    for number in (0, 1, 2):
        rank, gets = run.rank(number), api == "all_gather" or number == 0
        whole = [t(1.0), t(1.0), t(NAN)] if gets else None
        args = [None, t(1.0)] if api == "all_gather" else [t(1.0), whole]
        rank.comm(api, args, {"dst": 0} if api == "gather" else {}, {0 if api == "all_gather" else 1: whole})
        if gets:
            rank.op("Torch.sum", [t(NAN)], [t(NAN, shape=())])
    assert {cause.where for cause in run.analyze(tmp_path).root_causes} == {Where.COMMUNICATION}
