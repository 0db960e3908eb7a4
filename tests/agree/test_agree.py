"""Ranks that must hold the same numbers: what is found, and what must stay silent."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replicas_made import MODULES, NORMS, WIDTH, Json, analysed, nudge, tensor, tensor_parallel, write

import firstnan
from firstnan.answer.model import (
    AgreementVerdict,
    Confidence,
    DisagreementKind,
    DisagreementMechanism,
    NotComparable,
    Report,
)
from firstnan.dump.problems import ProblemKind
from firstnan.run import parts, two_stage
from firstnan.run.dispatch import RankFiles
from firstnan.show.json import to_dict

STATISTICS = ("Max", "Min", "Mean", "Norm")


@dataclass(frozen=True)
class Nudged:
    """From a step on, one rank holds another value of one tensor."""

    step: int
    rank: int
    record: str
    path: tuple[str | int, ...]
    key: str = "Mean"
    lasting: bool = True

    def __call__(self, step: int, rank: int, records: Json) -> None:
        if rank == self.rank and (step >= self.step if self.lasting else step == self.step):
            held = records[self.record]
            for part in self.path:
                held = held[part]
            nudge(held, self.key)


def weight(name: str) -> tuple[str, tuple[str | int, ...]]:
    return f"Module.{name}.Linear.forward.0", ("parameters", "weight")


def names(report: Report) -> list[str]:
    return [found.name for found in report.disagreements]


# --- data parallel ----------------------------------------------------------------------------------


def test_replicas_that_agree_are_counted(tmp_path: Path) -> None:
    report = analysed(write(tmp_path))
    assert report.verdict_agreement is AgreementVerdict.AGREE
    assert report.disagreements == ()
    assert report.agreement.calls.compared == 3 * 8
    assert report.agreement.parameters.compared == 3 * 16 - 8
    assert report.agreement.parameters.not_comparable == {NotComparable.CONSTANT: 8}
    assert (report.exit_code, report.exit_code_of_agreement) == (0, 0)


@settings(max_examples=25, deadline=None)
@given(
    rank=st.integers(0, 2),
    step=st.integers(0, 2),
    name=st.sampled_from((*MODULES, *NORMS)),
    key=st.sampled_from(STATISTICS),
)
def test_one_flipped_statistic_of_a_parameter_is_found(
    tmp_path_factory: pytest.TempPathFactory, rank: int, step: int, name: str, key: str
) -> None:
    record, path = weight(name)
    report = analysed(write(tmp_path_factory.mktemp("run"), edit=Nudged(step, rank, record, path, key)))
    (found,) = report.disagreements
    assert (found.kind, found.step, found.odd_ranks) == (DisagreementKind.PARAMETER, step, (rank,))
    assert found.parameter == f"Module.{name}.Linear.weight"
    assert (found.confidence, found.count) == (Confidence.CERTAIN, 1)
    assert report.exit_code == 1


@settings(max_examples=15, deadline=None)
@given(rank=st.integers(0, 2), step=st.integers(0, 2), at=st.integers(0, 7), key=st.sampled_from(STATISTICS))
def test_one_flipped_statistic_of_a_result_is_found(
    tmp_path_factory: pytest.TempPathFactory, rank: int, step: int, at: int, key: str
) -> None:
    call = f"Distributed.all_reduce.{at}.forward"
    edit = Nudged(step, rank, call, ("output", 0), key, lasting=False)
    (found,) = analysed(write(tmp_path_factory.mktemp("run"), edit=edit)).disagreements
    assert (found.kind, found.step, found.odd_ranks) == (DisagreementKind.COMMUNICATION, step, (rank,))
    assert (found.op_name, found.mechanism) == (call, DisagreementMechanism.COMM_CORRUPTION)
    assert len(found.per_rank) == 3


@settings(max_examples=10, deadline=None)
@given(order=st.permutations(range(3)))
def test_other_numbers_of_ranks_change_no_answer(tmp_path_factory: pytest.TempPathFactory, order: list[int]) -> None:
    root = tmp_path_factory.mktemp("run")
    record, path = weight("layers.1.fc1")
    write(root / "as_made", edit=Nudged(1, 2, record, path))
    for step in (root / "as_made").iterdir():
        for rank, number in enumerate(order):
            shutil.copytree(step / f"rank{rank}", root / "renamed" / step.name / f"rank{number}")
    (found,) = analysed(root / "renamed").disagreements
    assert (found.step, found.odd_ranks, found.parameter) == (1, (order[2],), "Module.layers.1.fc1.Linear.weight")


def test_a_rank_in_another_layout_is_compared_like_the_others(tmp_path: Path) -> None:
    record, path = weight("head")
    edit = Nudged(2, 1, record, path)
    one, other = write(tmp_path / "a", edit=edit), write(tmp_path / "b", edit=edit, compact=frozenset({0, 1}))
    first, second = analysed(one), analysed(other)
    assert first.disagreements == second.disagreements
    assert first.agreement == second.agreement


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.97])
def test_a_cut_rank_makes_no_finding(tmp_path: Path, share: float) -> None:
    root = write(tmp_path)
    file = root / "step1" / "rank1" / "dump.json"
    text = file.read_text("utf-8")
    file.write_text(text[: int(len(text) * share)], "utf-8")
    report = analysed(root)
    assert report.disagreements == ()
    assert report.verdict_agreement is AgreementVerdict.AGREE


def test_a_rank_without_modules_is_left_out(tmp_path: Path) -> None:
    def edit(_step: int, rank: int, records: Json) -> None:
        if rank == 1:
            for name in [name for name in records if name.startswith("Module.")]:
                del records[name]

    report = analysed(write(tmp_path, edit=edit))
    assert report.disagreements == ()
    assert report.agreement.parameters.compared == 3 * 16 - 8


def test_a_gradient_that_is_not_reduced_is_told_from_changed_memory(tmp_path: Path) -> None:
    def edit(step: int, rank: int, records: Json) -> None:
        if step:
            records["Module.head.Linear.forward.0"]["parameters"]["weight"] = tensor("own", step, rank)
        del records["Distributed.all_reduce.5.forward"]

    (found,) = analysed(write(tmp_path, edit=edit)).disagreements
    assert (found.step, found.odd_ranks, found.count) == (1, None, 1)
    assert found.mechanism is DisagreementMechanism.REDUCTION_MISSING


@pytest.mark.parametrize(
    ("world", "frozen", "mechanism"),
    [
        (2, False, DisagreementMechanism.MEMORY_CORRUPTION),
        (2, True, DisagreementMechanism.REDUCTION_MISSING),
        (3, False, DisagreementMechanism.REDUCTION_MISSING),
    ],
)
def test_what_came_through_an_update_and_changes_on_one_of_two_ranks_is_memory(
    tmp_path: Path, world: int, frozen: bool, mechanism: DisagreementMechanism
) -> None:
    """Not if it only stood still before (the first of two LoRA weights), nor if all of three ranks differ."""

    def edit(step: int, rank: int, records: Json) -> None:
        held = records["Module.head.Linear.forward.0"]["parameters"]
        if frozen:
            held["weight"] = tensor("weight", "frozen")
        if step == 2:
            for _ in range(rank):
                nudge(held["weight"])
        del records["Distributed.all_reduce.5.forward"]

    (found,) = analysed(write(tmp_path, world=world, edit=edit)).disagreements
    assert (found.parameter, found.step, found.mechanism) == ("Module.head.Linear.weight", 2, mechanism)


def test_another_seed_is_found_where_gradients_are_reduced(tmp_path: Path) -> None:
    def edit(step: int, rank: int, records: Json) -> None:
        for name in (*MODULES, *NORMS):
            records[f"Module.{name}.Linear.forward.0"]["parameters"]["weight"] = tensor("own", name, step, rank)

    (found,) = analysed(write(tmp_path, world=2, edit=edit)).disagreements
    assert (found.step, found.mechanism) == (0, DisagreementMechanism.SEED_MISMATCH)
    assert found.parameter == "Module.embed.Linear.weight"
    assert found.count == 8


def test_experts_that_are_not_reduced_are_no_finding(tmp_path: Path) -> None:
    def edit(step: int, rank: int, records: Json) -> None:
        records["Module.layers.0.fc1.Linear.forward.0"]["parameters"]["weight"] = tensor("expert", step, rank)
        del records["Distributed.all_reduce.1.forward"]

    report = analysed(write(tmp_path, world=2, edit=edit))
    assert report.disagreements == ()
    assert report.agreement.parameters.not_comparable[NotComparable.MAYBE_SHARD] == 3


def drifting(step: int, rank: int, records: Json) -> None:
    """No communication is recorded (DDP), and a weight without a bias is another on two ranks from step 1 on."""
    for name in [name for name in records if name.startswith("Distributed.")]:
        del records[name]
    held = records["Module.layers.0.fc1.Linear.forward.0"]["parameters"]
    held.pop("bias", None)
    if step and rank:
        nudge(held["weight"])


def test_ranks_that_work_alone_are_replicas(tmp_path: Path) -> None:
    (found,) = analysed(write(tmp_path, world=2, edit=drifting)).disagreements
    assert (found.name, found.step, found.odd_ranks) == ("Module.layers.0.fc1.Linear.weight", 1, None)
    assert (found.mechanism, found.confidence) == (DisagreementMechanism.REDUCTION_MISSING, Confidence.POSSIBLE)


def test_replicas_that_are_averaged_every_second_step_are_no_finding(tmp_path: Path) -> None:
    """Local SGD: they leave each other and meet again on purpose."""

    def edit(step: int, rank: int, records: Json) -> None:
        if step % 2 == 0:
            return
        for name in (*MODULES, *NORMS):
            held = records[f"Module.{name}.Linear.forward.0"]["parameters"]
            for key in held:
                held[key] = tensor("own", name, key, step, rank, shape=tuple(held[key]["shape"]))

    assert analysed(write(tmp_path, world=2, steps=5, edit=edit)).disagreements == ()
    assert analysed(write(tmp_path / "three", world=3, steps=5, edit=edit)).disagreements == ()


def test_a_module_that_works_on_what_came_from_others_is_no_replica(tmp_path: Path) -> None:
    """An expert: what it takes in was sent by all_to_all, which left no record."""

    def edit(step: int, rank: int, records: Json) -> None:
        drifting(step, rank, records)
        records["Module.layers.0.fc1.Linear.forward.0"]["input_args"] = [tensor("sent", step, rank, shape=(4, WIDTH))]

    assert analysed(write(tmp_path, world=2, edit=edit)).disagreements == ()


def test_parts_without_recorded_communication_are_no_replicas(tmp_path: Path) -> None:
    def program(step: int, rank: int, world: int) -> Json:
        made = tensor_parallel(step, rank, world, one_seed=True)
        return {name: record for name, record in made.items() if not name.startswith("Distributed.")}

    assert analysed(write(tmp_path, program, world=2)).disagreements == ()


def test_nothing_behind_calls_that_do_not_match(tmp_path: Path) -> None:
    def edit(_step: int, rank: int, records: Json) -> None:
        if rank == 0:
            del records["Distributed.all_reduce.2.forward"]

    report = analysed(write(tmp_path, edit=edit))
    assert report.disagreements == ()
    assert report.agreement.calls.not_comparable[NotComparable.DOUBTFUL_MATCH] == 3 * 8


def several_names(_step: int, _rank: int, records: Json) -> None:
    """Every other call passes no group: the default one, of all ranks."""
    for at in range(0, 8, 2):
        record = records[f"Distributed.all_reduce.{at}.forward"]
        record["input_kwargs"] = {}
        record["output"] = record["output"][:1]


@pytest.mark.parametrize("at", [2, 3])
def test_several_names_of_one_group(tmp_path: Path, at: int) -> None:
    clean = analysed(write(tmp_path / "clean", edit=several_names))
    assert (clean.disagreements, clean.agreement.calls.compared) == ((), 3 * 8)
    record = f"Distributed.all_reduce.{at}.forward"

    def edit(step: int, rank: int, records: Json) -> None:
        several_names(step, rank, records)
        Nudged(1, 2, record, ("output", 0), lasting=False)(step, rank, records)

    (found,) = analysed(write(tmp_path / "run", edit=edit)).disagreements
    assert (found.op_name, found.odd_ranks) == (record, (2,))


def test_a_result_that_may_be_stale_says_nothing(tmp_path: Path) -> None:
    def edit(_step: int, _rank: int, records: Json) -> None:
        for name, record in records.items():
            if name.startswith("Distributed."):
                record["input_kwargs"]["async_op"] = {"type": "bool", "value": True}
                record["output"] = [
                    dict(record["input_args"][0]),
                    record["output"][1],
                    record["input_kwargs"]["async_op"],
                ]

    report = analysed(write(tmp_path, edit=edit))
    assert report.disagreements == ()
    assert report.agreement.calls.compared == 0
    assert report.agreement.calls.not_comparable[NotComparable.STALE] == 3 * 8


def test_checksums_of_host_tensors_prove_nothing_and_those_of_devices_do(tmp_path: Path) -> None:
    def on_host(step: int, rank: int, records: Json) -> None:
        for record in records.values():
            for held in record.get("parameters", {}).values():
                held["md5"] = f"{step}{rank}"

    def on_device(step: int, rank: int, records: Json) -> None:
        on_host(step, 0 if rank != 1 else int(step == 2), records)
        rest = dict(records)
        records.clear()
        records["NPU.npu_format_cast.0.forward"] = {
            "input_args": [tensor("x")],
            "input_kwargs": {},
            "output": [tensor("x")],
        }
        records.update(rest)

    report = analysed(write(tmp_path / "host", edit=on_host))
    assert report.disagreements == ()
    assert report.agreement.parameters.not_comparable[NotComparable.CHECKSUM_OF_HOST_MEMORY] > 0
    (found,) = analysed(write(tmp_path / "device", edit=on_device)).disagreements
    assert (found.step, found.odd_ranks) == (2, (1,))


@pytest.mark.parametrize("what", ["call", "parameter"])
def test_checksums_of_devices_count(tmp_path: Path, what: str) -> None:
    """Two ranks, one bit that no statistic shows: the checksums tell, and are certain."""

    def edit(step: int, rank: int, records: Json) -> None:
        for name, record in records.items():
            for held in record.get("parameters", {}).values():
                held["md5"] = f"{step}aa"
            if name.startswith("Distributed."):
                record["output"][0]["md5"] = f"{step}bb"
        if (step, rank) == (1, 1):
            spoilt = records["Distributed.all_reduce.3.forward"]["output"][0]
            weight_ = records["Module.head.Linear.forward.0"]["parameters"]["weight"]
            (spoilt if what == "call" else weight_)["md5"] = "other"

    def on_device(step: int, rank: int, records: Json) -> None:
        edit(step, rank, records)
        records["NPU.npu_format_cast.0.forward"] = {"input_args": [], "input_kwargs": {}, "output": [tensor("x")]}

    assert analysed(write(tmp_path / "host", world=2, edit=edit)).disagreements == ()
    report = analysed(write(tmp_path / "device", world=2, edit=on_device))
    (found,) = report.disagreements
    name = "Distributed.all_reduce.3.forward" if what == "call" else "Module.head.Linear.weight"
    assert (found.name, found.step, found.odd_ranks, found.confidence) == (name, 1, None, Confidence.CERTAIN)
    assert "checksum" in report.text()
    assert "other" in report.text()


def test_what_a_nan_precedes_is_its_consequence(tmp_path: Path) -> None:
    def edit(step: int, rank: int, records: Json) -> None:
        if step == 0 and rank == 1:
            for name in ("Functional.linear.1.forward", "Module.layers.0.fc1.Linear.forward.0"):
                records[name]["output"][0].update(
                    Max=float("nan"), Min=float("nan"), Mean=float("nan"), Norm=float("nan")
                )
        Nudged(1, 2, *weight("head"))(step, rank, records)

    report = analysed(write(tmp_path, edit=edit))
    assert report.step == 0
    assert report.disagreements == ()


@pytest.mark.parametrize("place", [0, 1], ids=["the lowest rank", "another rank"])
def test_calls_behind_a_nan_are_not_read_where_the_first_look_tells_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    def edit(step: int, rank: int, records: Json) -> None:
        if step == 0:
            first = next(iter(records))
            if rank == place:
                records[first]["output"][0].update(dict.fromkeys(STATISTICS, float("nan")))
            for name in records:
                if name.startswith("Distributed.") and rank == 1:
                    nudge(records[name]["output"][0], "Mean")

    read: list[int] = []
    whole = RankFiles.calls
    monkeypatch.setattr(
        RankFiles, "calls", lambda self, step, rank, *more: read.append(rank) or whole(self, step, rank, *more)
    )
    report = analysed(write(tmp_path, edit=edit, steps=1))
    assert report.step == 0
    assert report.disagreements == ()
    assert bool(read) == (place != 0)  # nothing was suspected on the lowest rank: its calls were not followed


def test_a_parameter_that_differs_when_the_step_begins_is_no_consequence_of_its_nan(tmp_path: Path) -> None:
    def edit(step: int, rank: int, records: Json) -> None:
        if step == 1 and rank == 1:
            for name in ("Functional.linear.1.forward", "Module.layers.0.fc1.Linear.forward.0"):
                records[name]["output"][0].update(dict.fromkeys(STATISTICS, float("nan")))
        Nudged(1, 2, *weight("head"))(step, rank, records)

    report = analysed(write(tmp_path, edit=edit))
    assert (report.step, names(report)) == (1, ["Module.head.Linear.weight"])


# --- ranks that hold parts --------------------------------------------------------------------------


def test_parts_of_a_tensor_parallel_model_are_no_finding(tmp_path: Path) -> None:
    report = analysed(write(tmp_path, tensor_parallel, world=2))
    assert report.disagreements == ()
    assert report.agreement.parameters.not_comparable[NotComparable.MAYBE_SHARD] == 3 * 4


def test_parts_that_began_with_one_seed_are_no_finding(tmp_path: Path) -> None:
    def program(step: int, rank: int, world: int) -> Json:
        return tensor_parallel(step, rank, world, one_seed=True)

    assert analysed(write(tmp_path, program, world=2)).disagreements == ()


def test_a_whole_parameter_among_parts_is_possible(tmp_path: Path) -> None:
    edit = Nudged(1, 1, "Module.embed.Linear.forward.0", ("parameters", "weight"))
    (found,) = analysed(write(tmp_path, tensor_parallel, world=2, edit=edit)).disagreements
    assert (found.parameter, found.confidence) == ("Module.embed.Linear.weight", Confidence.POSSIBLE)
    assert found.odd_ranks is None


def test_a_norm_that_worked_alike_is_possible(tmp_path: Path) -> None:
    edit = Nudged(1, 1, "Module.head_norm.Norm.forward.0", ("parameters", "weight"))
    (found,) = analysed(write(tmp_path, tensor_parallel, world=2, edit=edit)).disagreements
    assert (found.parameter, found.confidence) == ("Module.head_norm.Norm.weight", Confidence.POSSIBLE)


# --- operators --------------------------------------------------------------------------------------


def test_an_operator_with_equal_inputs_and_another_output(tmp_path: Path) -> None:
    edit = Nudged(1, 1, "Functional.layer_norm.1.forward", ("output", 0), lasting=False)
    (found,) = analysed(write(tmp_path, tensor_parallel, world=3, edit=edit)).disagreements
    assert (found.kind, found.op_name, found.odd_ranks) == (
        DisagreementKind.OPERATOR,
        "Functional.layer_norm.1.forward",
        (1,),
    )
    assert found.mechanism is DisagreementMechanism.DEVICE_FAULT_SUSPECTED


@pytest.mark.parametrize("api", ["dropout", "embedding", "index_select", "chunk", "masked_select", "randn_like"])
def test_an_operator_with_hidden_inputs_is_no_finding(tmp_path: Path, api: str) -> None:
    def edit(step: int, rank: int, records: Json) -> None:
        x = tensor("x", step)
        records[f"Functional.{api}.9.forward"] = {
            "input_args": [x],
            "input_kwargs": {},
            "output": [tensor("y", step, rank)],
        }

    assert analysed(write(tmp_path, tensor_parallel, world=2, edit=edit)).disagreements == ()


def test_permuted_elements_are_no_finding(tmp_path: Path) -> None:
    """The same statistics do not mean the same order; only operators that pair elements tell the difference."""

    def edit(step: int, rank: int, records: Json) -> None:
        inputs = [tensor("tokens", step), tensor("positions", step)]
        records["Tensor.__add__.9.forward"] = {
            "input_args": inputs,
            "input_kwargs": {},
            "output": [tensor("sum", rank)],
        }

    assert analysed(write(tmp_path, edit=edit)).disagreements == ()


# --- nothing to compare, and what is made of the answer ---------------------------------------------


def test_one_rank_is_never_said_to_agree(tmp_path: Path) -> None:
    report = analysed(write(tmp_path, world=1))
    assert report.verdict_agreement is AgreementVerdict.UNKNOWN
    assert (report.exit_code, report.exit_code_of_agreement) == (0, 4)


def test_the_report_comes_back_from_json(tmp_path: Path) -> None:
    report = analysed(write(tmp_path, edit=Nudged(1, 1, *weight("head"))))
    assert Report.from_dict(json.loads(json.dumps(to_dict(report)))) == report


def scanned(dump: Path, ranks: Sequence[int], folder: Path, others: Sequence[Path] = ()) -> list[Path]:
    """A part file for each rank, as hosts write them."""
    made = []
    for rank in ranks:
        known = [parts.read(file) for file in others if not file.name.endswith(f"-{rank}.json")]
        part = two_stage.scan(dump, firstnan.Options(jobs=1, ranks=(rank,)), others=known)
        file = folder / f"{dump.name}-{len(others)}-{rank}.json"
        file.write_text(parts.to_text(part), "utf-8")
        made.append(file)
    return made


PART_CASES = {
    "parameter": Nudged(1, 1, *weight("head")),
    "call": Nudged(2, 2, "Distributed.all_reduce.3.forward", ("output", 0), lasting=False),
    "seed": Nudged(0, 1, *weight("head")),
}


@pytest.mark.parametrize("kind", PART_CASES)
def test_parts_of_several_hosts_give_the_same_answer(tmp_path: Path, kind: str) -> None:
    """No file can be reached any more: whatever proves the finding is in the parts."""
    dump = write(tmp_path / kind, world=2 if kind == "seed" else 3, edit=PART_CASES[kind])
    expected = analysed(dump)
    made = scanned(dump, expected.input.ranks, tmp_path)
    shutil.move(dump, tmp_path / "gone")
    merged = firstnan.merge(made, firstnan.Options(jobs=1))
    assert merged.disagreements == expected.disagreements
    assert merged.agreement == expected.agreement
    assert merged.verdict_agreement is AgreementVerdict.DIFFER


def test_an_operator_that_differs_is_told_from_parts_alone(tmp_path: Path) -> None:
    """The records themselves are in no part unless it was scanned with the others: what is missing is told."""
    edit = Nudged(1, 1, "Functional.layer_norm.1.forward", ("output", 0), lasting=False)
    dump = write(tmp_path / "run", tensor_parallel, world=3, edit=edit)
    expected = analysed(dump)
    made = scanned(dump, (0, 1, 2), tmp_path)
    answered = scanned(dump, (0, 1, 2), tmp_path, others=made)
    shutil.move(dump, tmp_path / "gone")
    (alone,) = firstnan.merge(made, firstnan.Options(jobs=1)).disagreements
    (wanted,) = expected.disagreements
    assert (alone.op_name, alone.ranks, alone.odd_ranks) == (wanted.op_name, wanted.ranks, wanted.odd_ranks)
    assert alone.per_rank == {}
    problems = firstnan.merge(made, firstnan.Options(jobs=1)).input.problems
    assert ProblemKind.NOT_REACHED in {one.kind for one in problems}
    assert firstnan.merge(answered, firstnan.Options(jobs=1)).disagreements == expected.disagreements
