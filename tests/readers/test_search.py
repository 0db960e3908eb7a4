"""Searching with and without StringZilla."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstnan.read.scan import search

WITH = [pytest.param(True, id="stringzilla"), pytest.param(False, id="python")]


@pytest.fixture(params=WITH)
def _engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        pytest.importorskip("stringzilla")
    else:
        monkeypatch.setattr(search, "HAS_STRINGZILLA", False)
        monkeypatch.setattr(search, "_HAS_TARGET", False)


@pytest.mark.usefixtures("_engine")
def test_a_view_sees_what_the_buffer_holds_now() -> None:
    buffer = bytearray(b"one two one two")
    text = search.view(buffer)
    assert (text.find(b"two", 0, 15), text.rfind(b"one", 0, 15), text.count(b"o", 0, 15)) == (4, 8, 4)
    assert (text.find(b"two", 5, 15), text.find(b"two", 5, 14), text.rfind(b"two", 0, 10)) == (12, -1, 4)
    buffer[:3] = b"two"
    assert text.find(b"two", 0, 15) == 0


@pytest.mark.usefixtures("_engine")
def test_translation_leaves_the_source_and_the_rest_alone() -> None:
    table = bytes(range(256)).replace(b"a", b"Z")
    source, target = bytearray(b"banana" * 40), bytearray(b"-" * 240)
    search.translate(source, 100, table, target)
    assert target == (b"banana" * 40)[:100].replace(b"a", b"Z") + b"-" * 140
    assert source == b"banana" * 40


def test_versions_without_a_target_copy_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("stringzilla")
    monkeypatch.setattr(search, "_HAS_TARGET", False)
    target = bytearray(6)
    search.translate(bytearray(b"banana"), 6, bytes(range(256)).replace(b"a", b"Z"), target)
    assert target == b"bZnZnZ"


@settings(deadline=None)
@given(st.binary(max_size=300), st.binary(min_size=1, max_size=4), st.integers(0, 300), st.integers(0, 300))
def test_both_give_the_same(data: bytes, needle: bytes, start: int, end: int) -> None:
    start, end = min(start, len(data)), min(end, len(data))
    buffer = bytearray(data)
    text = search.view(buffer)
    assert text.find(needle, start, end) == buffer.find(needle, start, end)
    assert text.rfind(needle, start, end) == buffer.rfind(needle, start, end)
    assert text.count(needle, start, end) == buffer.count(needle, start, end)
