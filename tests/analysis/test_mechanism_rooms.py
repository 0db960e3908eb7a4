"""Every mechanism has a room: its page, its place in the order, its words, its example."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import mechanism_pages
import pytest

from firstnan.answer.model import MechanismKind
from firstnan.causes.mechanisms import registry
from firstnan.causes.mechanisms.case import Case
from firstnan.causes.mechanisms.traits import Trait
from firstnan.dump.language import Language
from firstnan.rank.taint.events import EventKind
from firstnan.words import catalog

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", MechanismKind, ids=lambda kind: kind.value)
def test_a_room_has_a_page_words_and_an_example(kind: MechanismKind) -> None:
    assert all((mechanism_pages.Room.of(kind).what, registry.room(kind).strip()))
    for language in Language:
        keys = [f"mechanism.{kind.value}.{part}" for part in ("name", "why", "advice")]
        assert [key for key in keys if key not in catalog(language)] == []
    assert (ROOT / "examples" / "small" / kind.value).is_dir()


@pytest.mark.parametrize("kind", MechanismKind, ids=lambda kind: kind.value)
def test_advice_that_a_room_declares_has_words(kind: MechanismKind) -> None:
    variants = list(getattr(import_module(f"firstnan.causes.mechanisms.{kind.value}"), "ADVICE", {}).values())
    variants += ["backward"] * registry.has(kind, Trait.OWN_ADVICE_IN_BACKWARD)
    variants += ["float16"] * registry.has(kind, Trait.MORE_ADVICE_IN_FLOAT16)
    keys = {f"mechanism.{kind.value}.advice.{variant}" for variant in variants}
    assert [(key, language) for language in Language for key in keys if key not in catalog(language)] == []


def test_no_room_is_without_a_kind() -> None:
    folder = Path(registry.__file__).parent
    shared = {"__init__", "registry", "case", "beyond_range", "traits"}
    assert {path.stem for path in folder.glob("*.py")} - shared == {kind.value for kind in MechanismKind}


def test_the_order_is_the_one_that_the_rooms_declare() -> None:
    names = [one.test.__name__ for one in registry.in_order()]
    assert len(set(names)) == len(names)
    for one in registry.in_order():
        if one.after:
            assert names.index(one.after) < names.index(one.test.__name__)
    assert names[-1] == "unknown"


def test_a_test_behind_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = registry.Tried(registry.in_order()[0].test, (), "no_such_test")
    monkeypatch.setattr(registry, "_TRIED", [*registry._TRIED, lost])
    registry.in_order.cache_clear()
    with pytest.raises(LookupError, match="no_such_test"):
        registry.in_order()
    monkeypatch.undo()
    registry.in_order.cache_clear()


def test_two_tests_behind_the_same_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def second(_: Case) -> None:
        return None

    fork = registry.Tried(second, (EventKind.BIRTH,), "exp_overflow")
    monkeypatch.setattr(registry, "_TRIED", [*registry._TRIED, fork])
    registry.in_order.cache_clear()
    with pytest.raises(LookupError, match="both log_zero and second are tried after 'exp_overflow'"):
        registry.in_order()
    monkeypatch.undo()
    registry.in_order.cache_clear()


def test_the_pages_are_those_of_the_rooms() -> None:
    printed = re.compile(r"(```console\n\$ .*\n)(?:.*\n)*?(?=```)")
    for path, made in mechanism_pages.pages().items():
        assert printed.sub(r"\1", path.read_text("utf-8")) == printed.sub(r"\1", made), (
            "python tools/mechanism_pages.py"
        )
