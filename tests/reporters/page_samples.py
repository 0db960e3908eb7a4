"""Reports for the tests of the HTML page and the trace: every part filled, hostile text, 1,024 ranks."""

from __future__ import annotations

import math

from msgspec.structs import replace
from sample_reports import ANOMALY, CLEAN, EXP

from firstnan.answer.model import (
    AgreementVerdict,
    BenignRule,
    CollectiveReport,
    Confidence,
    Contained,
    Disagreement,
    DisagreementKind,
    DisagreementMechanism,
    Held,
    Hop,
    InputSummary,
    MatchState,
    Note,
    Report,
    Symptom,
    SymptomKind,
)
from firstnan.answer.views import CallMap, MapRow, NearRecord, Surroundings, pack_cells
from firstnan.dump.call_site import Frame
from firstnan.dump.problems import Problem, ProblemKind
from firstnan.dump.records import TensorStat
from firstnan.dump.values import ValueState


def near(index: int, name: str, module: str | None, into: float | None, high: float, low: float) -> NearRecord:
    """A record whose output has the given Max and Min."""
    state = ValueState.NAN if math.isnan(high) else ValueState.POS_INF if math.isinf(high) else ValueState.FINITE
    return NearRecord(index, name, module, "float32", into, high, low, ValueState.FINITE, state)


NEAR = Surroundings(
    step=0,
    rank=2,
    records=(
        near(110, "Functional.linear.2.forward", "layers.0.branches.gate", 4.5, 95.25, -3.5),
        near(111, "Functional.dropout.0.forward", "layers.0.branches.gate.drop", 95.25, 95.25, 0.0),
        near(118, "Torch.exp.0.forward", "layers.0.branches.gate", 95.25, math.inf, 0.03),
        near(119, "Torch.sum.0.forward", "layers.0.branches.gate", None, math.inf, 1.0),
        near(120, "Tensor.__truediv__.0.forward", "layers.0.branches.gate", None, math.nan, math.nan),
        near(121, "Distributed.all_reduce.1.forward", "layers.0", None, math.nan, math.nan),
    ),
)

FULL = replace(
    ANOMALY,
    call_map=CallMap(
        step=0,
        columns=("broadcast", "all_reduce", "all_reduce"),
        rows=(MapRow((0,), "n.p"), MapRow((1,), "n.u"), MapRow((2,), "cs2"), MapRow((3,), "nps"), MapRow((4,), "m3")),
        listed=(1, 2),
        calls=3,
    ),
    surroundings=(NEAR,),
)
"""ANOMALY with the parts that exist to be looked at."""

TWO_CAUSES = replace(
    FULL,
    root_causes=(EXP, replace(EXP, rank=0, op_name="Torch.log.0.forward", exec_order=12, module="head", run_up=())),
)


def weight(mean: float) -> TensorStat:
    return TensorStat("parameters.weight", "float32", (8, 8), 0.5, -0.5, mean, 2.0, ValueState.FINITE)


DIFFERING = replace(
    CLEAN,
    input=replace(CLEAN.input, ranks=(0, 1, 2, 3)),
    verdict_agreement=AgreementVerdict.DIFFER,
    disagreements=(
        Disagreement(
            kind=DisagreementKind.PARAMETER,
            step=1,
            since_step=1,
            ranks=(0, 1, 2, 3),
            odd_ranks=(2,),
            op_name=None,
            parameter="Module.layers.0.mlp.fc1.Linear.weight",
            exec_order=4,
            per_rank={rank: weight(0.25 if rank == 2 else 0.125) for rank in range(4)},
            count=30,
            of=40,
            mechanism=DisagreementMechanism.MEMORY_CORRUPTION,
            confidence=Confidence.CERTAIN,
            explanation=Note("differ.why.memory_corruption"),
            also=("Module.layers.0.mlp.fc2.Linear.weight",),
            held=(
                Held("Module.layers.0.mlp.fc1.Linear.weight", ((0, 1, 3), (2,))),
                Held("Module.layers.0.mlp.fc2.Linear.weight", ((0,), (1,), (2,), (3,))),
            ),
            advice=(Note("advice.agree.reload"),),
        ),
    ),
    agreement_map=CallMap(
        step=1,
        columns=("all_reduce", "all_reduce", "broadcast"),
        rows=(MapRow((0, 1, 3), "e3"), MapRow((2,), "edu")),
        calls=3,
    ),
)
"""No NaN, and ranks that differ: a parameter, and the result of a call."""

BOTH_LAYERS = replace(
    FULL,
    verdict_agreement=DIFFERING.verdict_agreement,
    disagreements=DIFFERING.disagreements,
    agreement_map=DIFFERING.agreement_map,
)


def large(ranks: int = 1024, places: int = 2000, listed: int = 500) -> Report:
    """A run of tensor parallel 8, the rest data parallel: every third place is a call of the groups of eight, the
    others are calls of all ranks; rank 5 is the source at place 600, its group is hit, from place 900 on everyone."""
    rows = []
    for group in range(ranks // 8):
        members = tuple(range(group * 8, group * 8 + 8))
        cells = ["n"] * places
        for place in range(600 if group == 0 else 900, places):
            cells[place] = "p" if group else "s"
        if group:
            rows.append(MapRow(members, pack_cells(cells)))
            continue
        for rank in members:
            own = ["n"] * 600 + (["s"] if rank == 5 else ["p"]) + cells[601:]
            rows.append(MapRow((rank,), pack_cells(own)))
    everyone = tuple(range(ranks))
    calls = tuple(
        CollectiveReport(
            op="all_reduce",
            step=0,
            group=everyone[:8] if place < 300 else everyone,
            call=place,
            ops=dict.fromkeys(everyone[: 8 if place < 300 else None], f"Distributed.all_reduce.{place}.forward"),
            source_ranks=everyone[:8] if place else (5,),
            propagated_ranks=everyone[8:] if place >= 300 else () if place else (0, 1, 2, 3, 4, 6, 7),
            normal_ranks=(),
            undecided_ranks=(),
            match=MatchState.MATCHED,
        )
        for place in range(listed)
    )
    hops = (
        Hop(
            0,
            5,
            "Distributed.all_reduce.600.forward",
            (0, 1, 2, 3, 4, 6, 7),
            dict.fromkeys(everyone[:8], "a"),
            "all_reduce",
        ),
        *(
            Hop(0, rank % 8, "Distributed.all_reduce.900.forward", (rank,), {rank: "b"}, "all_reduce")
            for rank in range(8, ranks)
        ),
    )
    cause = replace(EXP, rank=5)
    return replace(
        FULL,
        input=InputSummary("/data/run/dump", (0,), everyone, (), 120_000_000, 10**12),
        root_causes=(cause,),
        call_map=CallMap(
            0,
            tuple("all_reduce" if place % 3 else "all_gather_into_tensor" for place in range(places)),
            tuple(rows),
            tuple(600 + place for place in range(listed)),
            places * ranks // 8,
        ),
        collectives=calls,
        propagation=hops,
        surroundings=(replace(NEAR, rank=5),),
        complete=True,
        caveats=(),
    )


MARKERS = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "\x1b[31mred\x1b[0m",
    "\u202egnp.exe",
    "& < > \" '",
)
"""Pieces of text that would do harm as markup, in a terminal, or to the eye."""
LONG = "x" * 100_000


def hostile() -> Report:
    """Every text of a dump is an attack."""
    evil = "".join(MARKERS) + LONG
    cause = replace(
        EXP,
        op_name=evil,
        module=evil,
        construct_chain=(evil, evil),
        stack_info=(evil, f"File /a/{evil}, line 3, in {evil}, \n {evil}"),
        location=Frame(evil, 3, evil, evil),
        inputs=tuple(replace(tensor, slot=evil, dtype=evil) for tensor in EXP.inputs),
        evidence=(Note("evidence.output_bad", {"slot": evil, "max": math.inf, "min": 0.0, "dtype": evil}),),
        alternatives=tuple(replace(other, op_name=evil) for other in EXP.alternatives),
        run_up=tuple(replace(step, op_name=evil) for step in EXP.run_up),
    )
    return replace(
        FULL,
        input=replace(
            FULL.input, path=evil, problems=(Problem(ProblemKind.UNREADABLE, 0, 1, evil, evil, judged=False),)
        ),
        root_causes=(cause,),
        collectives=tuple(replace(call, op=evil, ops=dict.fromkeys(call.ops, evil)) for call in FULL.collectives),
        propagation=(Hop(0, 2, evil, (3,), {3: evil}, evil),),
        contained=(Contained(0, 0, evil, 12, Note("reason.contained", {"closer": evil})),),
        benign=(BenignRule(evil, 1, evil),),
        symptoms=(Symptom(SymptomKind.LOSS, 0, 2, evil, 301),),
        call_map=replace(FULL.call_map, columns=(evil, evil, evil)) if FULL.call_map else None,
        surroundings=(
            replace(NEAR, records=tuple(replace(r, op_name=evil, module=evil, dtype=evil) for r in NEAR.records)),
        ),
    )
