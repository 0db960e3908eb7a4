"""The table of reporters."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from sample_reports import ANOMALY

import firstnan.show as reporters
from firstnan.dump.errors import UsageError
from firstnan.dump.language import Language
from firstnan.show import MODULES, Format, Settings, load, render


def test_every_form_has_a_place_in_the_table() -> None:
    assert set(MODULES) == set(Format)


def test_a_reporter_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    table: Mapping[Format, str] = {Format.HTML: "firstnan.show.not_there"}
    monkeypatch.setattr(reporters, "MODULES", table)
    with pytest.raises(UsageError, match="'html' is not available"):
        load(Format.HTML)


def test_a_fault_inside_a_reporter_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    table: Mapping[Format, str] = {Format.HTML: "no_such_package.html"}
    monkeypatch.setattr(reporters, "MODULES", table)
    with pytest.raises(ModuleNotFoundError):
        load(Format.HTML)


@pytest.mark.parametrize("form", [Format.TEXT, Format.MARKDOWN, Format.JSON])
def test_redaction_happens_before_every_form(form: Format) -> None:
    text = render(ANOMALY, form, Settings(redact=True, verbose=True))
    for secret in ("/workspace", "/data", "/opt", "torch.exp(self"):
        assert secret not in text


def test_json_takes_the_language() -> None:
    made = json.loads(render(ANOMALY, Format.JSON, Settings(language=Language.ZH)))
    assert made["language"] == "zh"
    assert made["root_causes"][0]["evidence"][0].startswith("所有已记录的输入")
