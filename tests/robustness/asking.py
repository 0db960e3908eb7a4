"""Running the program on a damaged dump, and what every answer has to hold."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from damage import Effect
from three_ranks import OTHER, RANKS, ROOT

from firstnan.cli import main as cli


@dataclass(frozen=True)
class Answer:
    """What the command line gave."""

    code: int
    report: dict[str, Any]
    """The JSON report; empty where there is none."""
    said: str
    """stderr."""

    @property
    def causes(self) -> list[tuple[int, str]]:
        return [(cause["rank"], cause["op_name"]) for cause in self.report["root_causes"]]

    def problems(self, file: str, rank: int = OTHER) -> list[dict[str, Any]]:
        """What was said about one file (or the folder it should be in)."""
        path = f"step0/rank{rank}"
        return [
            p for p in self.report["input"]["problems"] if p["rank"] == rank and p["file"] in (path, f"{path}/{file}")
        ]


def ask(*arguments: str | Path) -> Answer:
    """One command in this process. Nothing but an exit code may come out of it."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([*map(str, arguments), "--lang", "en", "--format", "json", "--jobs", "1"])
    out.flush()
    raw = out.buffer.getvalue()  # type: ignore[attr-defined]
    assert "Traceback" not in err.getvalue()
    answer = Answer(code, json.loads(raw, parse_constant=_not_strict) if raw else {}, err.getvalue())
    problems = answer.report.get("input", {}).get("problems", ())
    assert not [p for p in problems if p["kind"] == "worker_failed"], "an error of the tool"
    return answer


def _not_strict(text: str) -> None:
    raise AssertionError(f"{text} in a JSON report")


def check(answer: Answer, file: str, effect: Effect) -> None:
    """The fault on another rank is found, and the damage is told with rank, file and effect.

    Call chains and code locations do not touch the verdict: what is wrong with their files never makes an answer
    incomplete.
    """
    assert (answer.code, answer.causes) == (1, [ROOT])
    assert answer.report["root_causes"][0]["location"]["file"] == "/train/model.py"
    assert answer.report["input"]["ranks"] == list(RANKS)
    told = answer.problems(file)
    assert all(problem["kind"] and problem["effect"] and problem["step"] == 0 for problem in told), told
    if file == "stack.json":  # of a rank without a cause: not needed for the answer, and not opened
        assert answer.report["complete"]
        return
    assert bool(told) is (effect is not Effect.NONE), told
    if file == "dump.json":
        assert answer.report["complete"] is (effect is not Effect.UNJUDGED), told
        assert bool(answer.report["caveats"]) or answer.report["complete"] or told
    else:
        assert answer.report["complete"]
