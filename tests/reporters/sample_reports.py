"""Hand-made reports that the tests of reporters share: one with every part, one per verdict."""

from __future__ import annotations

import math

from firstnan.answer.model import (
    Alternative,
    BenignRule,
    CollectiveReport,
    Confidence,
    Contained,
    Hop,
    InputSummary,
    MatchState,
    Mechanism,
    MechanismKind,
    Note,
    Report,
    RootCause,
    RunUp,
    Symptom,
    SymptomKind,
    Verdict,
    Where,
)
from firstnan.dump.call_site import Frame
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.records import Direction, TensorStat
from firstnan.dump.values import ValueState, judge


def tensor(slot: str, maximum: float | None, minimum: float | None, dtype: str = "float32") -> TensorStat:
    """A tensor of shape [2, 16, 32] with the given statistics."""
    return TensorStat(slot, dtype, (2, 16, 32), maximum, minimum, None, None, judge(maximum, minimum))


EXP = RootCause(
    step=0,
    rank=2,
    op_name="Torch.exp.0.forward",
    exec_order=118,
    direction=Direction.FORWARD,
    where=Where.OPERATOR,
    mechanism=Mechanism(
        MechanismKind.EXP_OVERFLOW,
        Confidence.CERTAIN,
        Note("why.exp_overflow", {"value": 95.25, "dtype": "float32", "edge": 88.72283905206835}),
    ),
    inputs=(tensor("input_args.0", 95.25, -3.5),),
    outputs=(tensor("output.0", math.inf, 0.030197383422318501),),
    construct_chain=(
        "Torch.exp.0.forward",
        "Module.layers.0.branches.gate.SoftGate.forward.0",
        "Module.layers.0.Block.forward.0",
    ),
    module="layers.0.branches.gate",
    stack_info=(
        "File /workspace/train/model.py, line 88, in forward, \n g = torch.exp(self.gate(x))",
        "File /opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py, line 1884, in _call_impl, \n return",
    ),
    location=Frame("/workspace/train/model.py", 88, "forward", "g = torch.exp(self.gate(x))"),
    evidence=(
        Note("evidence.inputs_finite", {"largest": 95.25}),
        Note("evidence.output_bad", {"slot": "output.0", "max": math.inf, "min": 0.0302, "dtype": "float32"}),
    ),
    alternatives=(Alternative(0, 3, "Functional.linear.4.forward", 140, Direction.FORWARD, Note("reason.later")),),
    run_up=(
        RunUp("Functional.linear.2.forward", 110, 4.5, 95.25),
        RunUp("Torch.exp.0.forward", 118, 95.25, math.inf),
    ),
)

ANOMALY = Report(
    verdict=Verdict.ANOMALY,
    complete=False,
    input=InputSummary(
        path="/data/run/dump",
        steps=(0,),
        ranks=(0, 1, 2, 3),
        missing_ranks=(4,),
        records=1234,
        bytes=913_246,
        problems=(
            Problem(
                ProblemKind.TRUNCATED, 0, 1, "step0/rank1/dump.json", "cut at byte 8187 after 3 records", judged=False
            ),
            Problem(ProblemKind.IGNORED_FOLDER, 0, None, "step0/proc77"),
        ),
    ),
    step=0,
    root_causes=(EXP,),
    collectives=(
        CollectiveReport(
            op="all_reduce",
            step=0,
            group=(2, 3),
            call=1,
            ops={2: "Distributed.all_reduce.1.forward", 3: "Distributed.all_reduce.1.forward"},
            source_ranks=(2,),
            propagated_ranks=(3,),
            normal_ranks=(),
            undecided_ranks=(),
            match=MatchState.MATCHED,
        ),
        CollectiveReport(
            op="all_reduce",
            step=0,
            group=None,
            call=0,
            ops={rank: f"Distributed.all_reduce.{rank + 4}.forward" for rank in range(4)},
            source_ranks=(2, 3),
            propagated_ranks=(0,),
            normal_ranks=(),
            undecided_ranks=(1,),
            match=MatchState.BY_NAME,
            notes=(Note("caveat.missing_ranks", {"ranks": "4"}),),
        ),
    ),
    propagation=(
        Hop(
            0,
            2,
            "Distributed.all_reduce.1.forward",
            (3,),
            {3: "Distributed.all_reduce.1.forward"},
            "all_reduce",
        ),
        Hop(0, 3, "Distributed.all_reduce.7.forward", (0, 1), {0: "a", 1: "b"}, "all_reduce"),
        Hop(1, 0, "Distributed.all_reduce.4.forward", (0, 1, 2, 3), {}, "parameters"),
    ),
    contained=(
        Contained(0, 0, "Torch.log.0.forward", 12, Note("reason.later")),
        Contained(0, 1, "Torch.log.0.forward", 12, Note("reason.later")),
    ),
    benign=(BenignRule("legal_neg_inf.masked_fill", 48, "step0/rank0: Tensor.masked_fill.0.forward"),),
    symptoms=(Symptom(SymptomKind.LOSS, 0, 2, "Functional.cross_entropy.0.forward", 301),),
    story=(Note("evidence.inputs_finite", {"largest": 1}),),
    caveats=(Note("caveat.missing_ranks", {"ranks": "4"}),),
)

CLEAN = Report(
    verdict=Verdict.CLEAN,
    complete=True,
    input=InputSummary(path="/data/run/dump", steps=(0, 1, 2), ranks=tuple(range(512)), records=120_000, bytes=10**9),
    benign=ANOMALY.benign,
)

CLEAN_INCOMPLETE = Report(
    verdict=Verdict.CLEAN,
    complete=False,
    input=ANOMALY.input,
)

UNKNOWN = Report(
    verdict=Verdict.UNKNOWN,
    complete=False,
    input=InputSummary(
        path="/data/run/dump",
        steps=(0,),
        ranks=(0, 1),
        records=20,
        bytes=4096,
        problems=tuple(
            Problem(ProblemKind.NO_STATISTICS, 0, rank, f"step0/rank{rank}/dump.json", "summary_mode md5", judged=False)
            for rank in (0, 1)
        ),
    ),
)

MISSING_RANK = Report(
    verdict=Verdict.ANOMALY,
    complete=False,
    input=InputSummary(path="dump", steps=(0,), ranks=(0, 1, 3), missing_ranks=(2,), records=300, bytes=70_000),
    step=0,
    root_causes=(
        RootCause(
            step=0,
            rank=2,
            op_name="",
            exec_order=None,
            direction=Direction.FORWARD,
            where=Where.MISSING_RANK,
            mechanism=Mechanism(MechanismKind.UNKNOWN, Confidence.LIKELY, Note("mechanism.unknown.why")),
        ),
    ),
    collectives=(ANOMALY.collectives[0],),
)

ALL = {
    "anomaly": ANOMALY,
    "clean": CLEAN,
    "clean_incomplete": CLEAN_INCOMPLETE,
    "unknown": UNKNOWN,
    "missing_rank": MISSING_RANK,
}

assert EXP.outputs[0].state is ValueState.POS_INF
