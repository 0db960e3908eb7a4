"""Every non-finite value in a file stands in exactly one account: held against a reader of forty lines.

Over all known cases, the examples, and what the mutations make of the repository's own cases. A file that is cut is no
JSON text, and is not counted here; ``FIRSTNAN_TEST_CASES=FOLDER`` takes all cases below a folder, mutations included.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import harmless
import mutations as change
import pytest
from brute_force import nonfinite
from known_cases import UNPACKED, Case, all_cases, own_cases

import firstnan
from firstnan.answer.accounts import Account
from firstnan.answer.model import Report, Verdict
from firstnan.dump.ranges import unpacked

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDERS = sorted({path.parents[2] for path in EXAMPLES.rglob("step*/*/dump.json")})


def counted(root: Path) -> dict[tuple[int, int], int] | None:
    """Step and rank -> tensors with a non-finite value; None where a file is no whole JSON text."""
    found = {}
    for path in sorted(root.glob("step*/*/dump.json")):
        bad = nonfinite(path.parent)
        if bad is None:
            return None
        found[change.place_of(path.parent)] = sum(bad.values())
    return {place: count for place, count in found.items() if count}


def add_up(root: Path) -> Report:
    """The report, whose accounts are right."""
    expected = counted(root)
    if expected is None:
        pytest.skip("a file that is cut")
    report = firstnan.analyze(root, firstnan.Options(jobs=1))
    accounts = report.accounts
    by_rank = {
        (group.step, rank): group.balance.total
        for group in accounts.ranks
        if group.each
        for rank in unpacked(group.ranks)
    }
    assert by_rank == expected
    assert accounts.values == accounts.balance.total == sum(entry.count for entry in accounts.entries)
    assert accounts.values == sum(expected.values())
    assert all(entry.count > 0 for entry in accounts.entries)
    if report.verdict is Verdict.CLEAN and report.complete:
        assert not accounts.balance.open
    if report.verdict is Verdict.CLEAN:
        assert not accounts.balance.explained or report.story  # a step that the loss scaler skipped
    return report


@pytest.mark.parametrize("case", list(all_cases()), ids=lambda case: case.name)
def test_the_accounts_of_a_case_add_up(case: Case) -> None:
    add_up(case.folder)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_accounts_of_an_example_add_up(folder: Path) -> None:
    add_up(folder)


def folders(root: Path) -> Iterator[Path]:
    return (path.parent for path in sorted(root.glob("step*/*/dump.json")))


def noise(kind: str) -> Callable[[Path, random.Random], object]:
    made = {**harmless.DROPPED, "metric": harmless.metric}[kind]
    return lambda root, chance: [harmless.put_in(folder, made, chance) for folder in folders(root)]


def without_a_rank(root: Path, chance: random.Random) -> None:
    ranks = change.ranks_of(root)
    if len(ranks) < 2:
        pytest.skip("one rank")
    change.drop(root, chance.choice(ranks))


def other_ranks(root: Path, chance: random.Random) -> None:
    ranks = change.ranks_of(root)
    if not ranks:
        pytest.skip("a process without a rank")
    same = {rank: rank for rank in range(ranks[-1] + 1)}
    change.renumber(root, same | dict(zip(ranks, chance.sample(ranks, len(ranks)), strict=True)))


def blank_records(root: Path, chance: random.Random) -> None:
    """Some records with a bad value lose their statistics."""
    for folder in folders(root):
        bad = sorted(nonfinite(folder) or ())
        for name in chance.sample(bad, min(3, len(bad))):
            change.blank(root, *change.place_of(folder), name)


def valid_cut(root: Path, chance: random.Random) -> None:
    """Every file ends early, and is JSON all the same."""
    for folder in folders(root):
        document = json.loads((folder / "dump.json").read_bytes())
        names = list(document["data"])
        kept = names[: chance.randrange(1, len(names) + 1)]
        document["data"] = {name: document["data"][name] for name in kept}
        (folder / "dump.json").write_text(json.dumps(document, indent=1))


MUTATIONS: dict[str, Callable[[Path, random.Random], object]] = {
    **{kind: noise(kind) for kind in (*harmless.DROPPED, "metric")},
    "without a rank": without_a_rank,
    "other ranks": other_ranks,
    "blank records": blank_records,
    "valid cut": valid_cut,
    "no construct.json": lambda root, _: change.remove_files(root, "construct.json"),
    "other names": lambda root, _: change.rename_modules(root),
    "one line": lambda root, _: change.compact(root),
    "other layout": lambda root, _: change.written_anew(root, 3),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("case", list(all_cases() if UNPACKED else own_cases()), ids=lambda case: case.name)
def test_the_accounts_of_a_mutation_add_up(case: Case, mutation: str, tmp_path: Path) -> None:
    if counted(case.folder) is None:
        pytest.skip("a file that is cut")
    root = Path(shutil.copytree(case.folder, tmp_path / "dump"))
    MUTATIONS[mutation](root, random.Random(f"{case.name} {mutation}"))
    add_up(root)


def test_ranks_that_hold_the_same_share_a_line(tmp_path: Path) -> None:
    """What a report of ten thousand ranks holds of the accounts does not grow with them."""
    source = next(folder for folder in FOLDERS if folder.name == "masks") / "step0" / "rank0"
    for rank in range(12):
        shutil.copytree(source, tmp_path / "step0" / f"rank{rank}")
    (group,) = add_up(tmp_path).accounts.ranks
    assert group.ranks == ((0, 11),)


def test_ranks_that_all_differ_are_added_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("firstnan.report.accounts.MAX_BALANCES", 1)
    source = next(folder for folder in FOLDERS if folder.name == "masks") / "step0" / "rank0"
    document = json.loads((source / "dump.json").read_bytes())
    masked = next(name for name in nonfinite(source) or () if "triu" in name)
    for rank in range(4):
        folder = Path(shutil.copytree(source, tmp_path / "step0" / f"rank{rank}"))
        records = {f"Torch.triu.{10 + more}.forward": document["data"][masked] for more in range(rank)}
        made = {**document, "data": {**document["data"], **records}}
        (folder / "dump.json").write_text(json.dumps(made, indent=1))
    accounts = firstnan.analyze(tmp_path, firstnan.Options(jobs=1)).accounts
    assert [group.each for group in accounts.ranks] == [True, False]
    assert (
        sum(group.balance.total for group in accounts.ranks) == accounts.values == accounts.balance.of(Account.HARMLESS)
    )
