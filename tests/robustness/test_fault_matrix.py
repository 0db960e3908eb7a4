"""Every file of a rank with every kind of damage: the fault on another rank is still found, and the damage is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from asking import Answer, ask, check
from damage import (
    BIG,
    BYTES,
    HUGE,
    NESTED,
    NO_FILE,
    NUMBERS,
    ODD,
    REWRITTEN,
    Damage,
    Effect,
    Step,
    cut_damages,
    replaced,
    said_twice,
    typed_places,
    with_numbers,
)
from three_ranks import FILES, OTHER, ROOT, SOURCE, contents, rank_folder, write

WHOLE = {name: json.dumps(content, indent=1).encode() for name, content in contents(OTHER).items()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "dump")


def damaged(root: Path, file: str, damage: Damage, rank: int = OTHER) -> Answer:
    damage.apply(rank_folder(root, rank) / file)
    return ask("analyze", root)


def matrix(*kinds: Damage) -> pytest.MarkDecorator:
    cases = [pytest.param(file, kind, id=f"{file}-{kind.name}") for file in FILES for kind in kinds]
    return pytest.mark.parametrize(("file", "damage"), cases)


@matrix(*NO_FILE)
def test_something_else_in_its_place(root: Path, file: str, damage: Damage) -> None:
    check(damaged(root, file, damage), file, damage.effect)


@matrix(*BYTES)
def test_other_bytes(root: Path, file: str, damage: Damage) -> None:
    check(damaged(root, file, damage), file, damage.effect)


@matrix(*REWRITTEN)
def test_cut_while_being_rewritten(root: Path, file: str, damage: Damage) -> None:
    check(damaged(root, file, damage), file, damage.effect)


def test_construct_that_lists_some_records(root: Path) -> None:
    """The run was killed between the writing of the two files: construct.json is of an earlier time."""
    path = rank_folder(root, OTHER) / "construct.json"
    path.write_text(json.dumps(dict(list(contents(OTHER)["construct.json"].items())[:1])))
    answer = ask("analyze", root)
    check(answer, "construct.json", Effect.TOLD)
    (told,) = answer.problems("construct.json")
    assert told["detail"] == "does not list 3 records (first: Module.net.up.Linear.forward.0)"


@matrix(*HUGE)
def test_huge(root: Path, file: str, damage: Damage) -> None:
    check(damaged(root, file, damage), file, damage.effect)


@matrix(*NESTED)
def test_nested_deep(root: Path, file: str, damage: Damage) -> None:
    check(damaged(root, file, damage), file, damage.effect)


CUTS = [pytest.param(f, d, id=f"{f}-{d.name}") for f in FILES for d in cut_damages(WHOLE[f])]


@pytest.mark.parametrize(("file", "damage"), CUTS)
def test_cut_at_every_kind_of_place(root: Path, file: str, damage: Damage) -> None:
    check(damaged(root, file, damage), file, damage.effect)


EXPLAINING = ("construct.json", "stack.json")
"""Files that are opened where a cause is explained."""
OF_THE_CAUSE = [
    pytest.param(file, damage, id=f"{file}-{damage.name}")
    for file in EXPLAINING
    for damage in (*NO_FILE, *BYTES, *REWRITTEN, *NESTED, *cut_damages(WHOLE[file]))
]


@pytest.mark.parametrize(("file", "damage"), OF_THE_CAUSE)
def test_call_chain_and_code_of_the_cause(root: Path, file: str, damage: Damage) -> None:
    """The verdict does not hang on these files; what is wrong with them is told, and what they would have told is not
    made up."""
    answer = damaged(root, file, damage, SOURCE)
    assert (answer.code, answer.causes, answer.report["complete"]) == (1, [ROOT], True)
    told = answer.problems(file, SOURCE)
    assert bool(told) is (damage.effect is not Effect.NONE), told
    assert all(problem["kind"] and problem["effect"] and problem["step"] == 0 for problem in told), told
    cause = answer.report["root_causes"][0]
    assert cause["location"] in (None, {"file": "/train/model.py", "line": 43, "function": "forward",
                                        "source": "h = torch.exp(h)"})  # fmt: skip
    chain = [ROOT[1], "Module.net.Net.forward.0"]
    assert cause["construct_chain"] == chain[: len(cause["construct_chain"])]


# --- content ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "key", "first", "effect"),
    [
        ("dump.json", "data", "{}", Effect.UNJUDGED),
        ("dump.json", "data", "null", Effect.UNJUDGED),
        ("dump.json", "task", '"md5"', Effect.UNJUDGED),
        ("dump.json", "Functional.linear.0.forward", "[]", Effect.UNJUDGED),
        ("dump.json", "Max", "Infinity", Effect.UNJUDGED),
        ("construct.json", "Functional.linear.0.forward", '"Module.no.No.forward.0"', Effect.TOLD),
        ("stack.json", "0", "[[], []]", Effect.TOLD),
    ],
)
def test_equal_keys(root: Path, file: str, key: str, first: str, effect: Effect) -> None:
    """The last one counts, as in every JSON reader; that a part was dropped is told."""
    check(damaged(root, file, Damage(key, said_twice(key, first))), file, effect)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:8])
def test_numbers_that_say_nothing(root: Path, number: str) -> None:
    """Mean and Norm overflow by themselves: whatever stands there is not the reason for anything."""
    check(damaged(root, "dump.json", Damage("", with_numbers(("Mean", "Norm"), number))), "dump.json", Effect.NONE)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:8])
@pytest.mark.parametrize("key", ["shape", "group_ranks", "value"])
def test_numbers_where_sizes_and_ranks_stand(root: Path, key: str, number: str) -> None:
    answer = damaged(root, "dump.json", Damage("", with_numbers((key,), number)))
    assert (answer.code, answer.causes[0]) == (1, ROOT)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda text: text[:8])
@pytest.mark.parametrize(("file", "before"), [("construct.json", ": null"), ("stack.json", "[\n  [\n")])
def test_numbers_among_callers_and_stacks(root: Path, file: str, before: str, number: str) -> None:
    """In place of a caller, and in the list of records that have a stack; on the rank whose files are opened."""
    path = rank_folder(root, SOURCE) / file
    text = path.read_text()
    after = f": {number}" if file == "construct.json" else f"{before}{number},"
    assert before in text
    path.write_text(text.replace(before, after, 1))
    answer = ask("analyze", root)
    assert (answer.code, answer.causes, answer.report["complete"]) == (1, [ROOT], True)


@pytest.mark.parametrize(
    "number", ["1e999", BIG, '"1e999"', f'"{BIG}"', "Infinity", '" inf\\t"'], ids=lambda text: text[:8]
)
def test_what_no_double_holds_is_infinite(root: Path, number: str) -> None:
    """In Max it is a value like any other: here it says that the overflow was in ``linear`` on another rank."""
    folder = rank_folder(root, SOURCE)
    text = (folder / "dump.json").read_text().replace('"Max": 12.0', f'"Max": {number}')
    (folder / "dump.json").write_text(text)
    answer = ask("analyze", root)
    assert (answer.code, answer.causes) == (1, [(SOURCE, "Functional.linear.0.forward")])
    assert answer.report["complete"]


TYPES = [
    pytest.param(
        file,
        place,
        id=f"{file}-{'/'.join(map(str, place)) or 'top'}",
    )
    for file in FILES
    for place in typed_places(contents(OTHER)[file])
]


SAYS_NOTHING = frozenset(
    {"task", "level", "framework", "dump_data_dir", "dtype", "Mean", "Norm", "requires_grad", "type", "group_id"}
)
"""Keys whose value decides nothing here, or has no form of its own."""
EMPTY = frozenset({"null", "no text", "a list", "a list of lists", "an object", "an object of objects"})
"""Values that are sound containers, or stand for nothing."""


def is_told(file: str, place: tuple[Step, ...], name: str) -> bool:
    """Whether a value of this type in this place is damage that the reader has to tell."""
    last = place[-1] if place else "top"
    if file == "stack.json":
        return False  # not opened
    if file == "construct.json":
        return name not in ({"an object"} if not place else {"a text", "no text", "null"})
    if not place or last == "data" or len(place) == 2:
        return not (place and last != "data" and "parameters_grad" in str(last) and name in EMPTY)
    if last in ("Max", "Min"):
        return name not in ("a number", "a fraction", "true") and "output" not in place
    if last == "shape":
        return name not in ("null", "a list")
    if "shape" in place:
        return name != "a number"
    if "parameters" in place or (len(place) > 1 and "parameters_grad" in str(place[1])):
        return name not in EMPTY and len(place) < 5
    if last == "group_ranks":
        return name not in ("null", "a list")
    if "group_ranks" in place:
        return name != "a number"
    if last in ("input", "input_args", "output"):
        return name not in EMPTY - {"no text"}
    if last == "input_kwargs":
        return name not in EMPTY - {"a list of lists"}
    return last not in SAYS_NOTHING and not isinstance(last, int) and last != "group"


@pytest.mark.parametrize(("file", "place"), TYPES)
def test_wrong_types_at_every_level(root: Path, file: str, place: tuple[Step, ...]) -> None:
    """Whatever type stands there: the same cause; what cannot be read is told, with what it does to the answer."""
    path = rank_folder(root, OTHER) / file
    sound = path.read_bytes()
    for name, value in ODD.items():
        path.write_bytes(sound)
        replaced(place, value)(path)
        answer = ask("analyze", root)
        assert answer.code == 1, name
        assert answer.causes[0] == ROOT, name
        if "group_ranks" not in place:  # its calls then belong to no known group, and prove nothing about rank 1
            assert answer.causes == [ROOT], name
        told = answer.problems(file)
        assert bool(told) or not is_told(file, place, name), name
        assert all(problem["effect"] for problem in told), name
