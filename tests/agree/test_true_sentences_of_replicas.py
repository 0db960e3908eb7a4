"""Sentences about ranks that should be equal, each told where it is true and not where it would be false."""

from __future__ import annotations

from pathlib import Path

import pytest
from replicas_made import Json, analysed, nudge, tensor, tensor_parallel, write

from firstnan.answer.model import Disagreement, DisagreementKind, DisagreementMechanism

HEAD = "Module.head.Linear.forward.0"


def told(found: Disagreement) -> dict[str, dict[str, object]]:
    return {note.key: dict(note.params) for note in found.evidence}


# --- "... of ... comparable parameters are equal", "it was equal / constant on all of them in step ..." ---------------


@pytest.mark.parametrize("parameter", ["weight", "bias"])
@pytest.mark.parametrize("since", [0, 1])
def test_what_the_step_before_showed_is_said_as_it_was(tmp_path: Path, parameter: str, since: int) -> None:
    """In step 0 every bias is zero, and nothing stands before it."""

    def edit(step: int, rank: int, records: Json) -> None:
        if rank == 1 and step >= since:
            nudge(records[HEAD]["parameters"][parameter]) if step or parameter == "weight" else None

    (found,) = analysed(write(tmp_path, edit=edit)).disagreements
    notes = told(found)
    first = since if parameter == "weight" else 1
    assert found.step == first
    assert notes["evidence.replicas_equal"] == {"equal": 15 if first else 7, "of": 16 if first else 8}
    assert ("evidence.equal_at_step" in notes) is (parameter == "weight" and first == 1)
    assert ("evidence.constant_at_step" in notes) is (parameter == "bias")


# --- "its gradient was reduced over these ranks" ---------------------------------------------------------------------


@pytest.mark.parametrize("reduced", [True, False])
def test_that_a_gradient_was_reduced_is_said_where_its_reduction_is_recorded(tmp_path: Path, reduced: bool) -> None:
    def edit(step: int, rank: int, records: Json) -> None:
        if step:
            records[HEAD]["parameters"]["weight"] = tensor("own", step, rank)
        if not reduced:
            del records["Distributed.all_reduce.5.forward"]

    (found,) = analysed(write(tmp_path, edit=edit)).disagreements
    assert ("evidence.gradient_was_reduced" in told(found)) is reduced
    assert (found.mechanism is DisagreementMechanism.REDUCTION_MISSING) is not reduced


# --- "on rank ... the record is ..." ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shifted", [True, False])
def test_another_name_of_a_call_is_said_where_a_rank_has_one(tmp_path: Path, shifted: bool) -> None:
    """Rank 2 made calls with itself alone before: its numbers of the others are higher."""

    def edit(_step: int, rank: int, records: Json) -> None:
        if rank == 1:
            nudge(records["Distributed.all_reduce.7.forward"]["output"][0])
        if rank == 2 and shifted:
            records["Distributed.all_reduce.8.forward"] = records.pop("Distributed.all_reduce.7.forward")

    (found,) = analysed(write(tmp_path, steps=1, edit=edit)).disagreements
    notes = {note.key: dict(note.params) for note in found.evidence}
    named = {"rank": 2, "op_name": "Distributed.all_reduce.8.forward"}
    assert notes == ({"evidence.call_name": named} if shifted else {})


# --- "all recorded inputs and settings are equal" --------------------------------------------------------------------


@pytest.mark.parametrize("other", [None, "input", "setting"])
def test_that_inputs_are_equal_is_said_where_all_are(tmp_path: Path, other: str | None) -> None:
    def edit(step: int, rank: int, records: Json) -> None:
        record = records["Functional.layer_norm.1.forward"]
        if (step, rank) == (1, 1):
            nudge(record["output"][0])
            if other == "input":
                nudge(record["input_args"][0])
        if other == "setting":
            record["input_kwargs"] = {"eps": {"type": "float", "value": 1e-5 * (1 + rank)}}

    found = analysed(write(tmp_path, tensor_parallel, edit=edit)).disagreements
    of_operators = [one for one in found if one.kind is DisagreementKind.OPERATOR]
    assert [list(told(one)) for one in of_operators] == ([["evidence.equal_inputs"]] if other is None else [])
