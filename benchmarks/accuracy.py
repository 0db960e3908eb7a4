"""How often the answer is right: scores firstnan against cases with known truth.

    python benchmarks/accuracy.py DIR... [-v]

DIR holds folders or archives (``.tar.gz``) with ``truth.json``. Per kind (family of the case) and in total:

verdict        the right word
rank           every true cause is named by a rank that may name it, in the right step, and no other rank is named
operator       1 for the exact record, 0.5 for the enclosing module or a half record, divided by (true + wrong ones)
exact          verdict, rank and operator all fully right
where, why     every true cause has a named one on a right rank with a right label
first          the first affected collective is the true one, with exactly its source and propagated ranks
false alarms   clean cases called an anomaly
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import firstnan
from firstnan.answer.model import CollectiveReport, Report, RootCause


@dataclass(frozen=True)
class Score:
    """One case's marks; None where a mark does not apply."""

    case: str
    verdict: bool
    rank: bool | None
    operator: float | None
    exact: bool
    where: bool | None
    why: bool | None
    first: bool | None
    false_alarm: bool
    details: tuple[str, ...]


def cases(paths: Sequence[Path], stack: ExitStack) -> Iterator[Path]:
    """Folders with a truth.json below the paths; archives are unpacked to a temporary folder."""
    for path in paths:
        if path.is_dir():
            for archive in sorted(path.glob("*.tar.gz")):
                yield from cases([archive], stack)
            yield from sorted(truth.parent for truth in path.rglob("truth.json"))
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            with tarfile.open(path) as archive_file:
                archive_file.extractall(folder, filter="data")
            yield from sorted(truth.parent for truth in folder.rglob("truth.json"))


def score(case: Path) -> Score:
    """Analyses one case and marks the answer."""
    truth = json.loads((case / "truth.json").read_text(encoding="utf-8"))
    report = firstnan.analyze(case, firstnan.Options(jobs=1))
    verdicts = truth.get("acceptable_verdicts") or [truth["verdict"]]
    verdict = report.verdict.value in verdicts
    true_causes = truth.get("root_causes", [])
    details: list[str] = []
    rank = operator = where = why = None
    if true_causes:
        rank = _ranks_right(true_causes, report.root_causes)
        operator = _operator(true_causes, report.root_causes)
        where = all(_labelled(t, report.root_causes, "where") for t in true_causes)
        why = all(_labelled(t, report.root_causes, "mechanism") for t in true_causes)
    right = verdict and rank is not False and operator in (None, 1.0)
    first = _first(truth, report)
    false_alarm = truth["verdict"] == "clean" and "anomaly" not in verdicts and report.verdict.value == "anomaly"
    if not right or where is False or why is False:
        details += [f"true:  {_true(t)}" for t in true_causes] or [f"true:  {truth['verdict']}"]
        details += [f"named: {_named(c)}" for c in report.root_causes] or [f"named: {report.verdict.value}"]
    if first is False:
        details.append(f"first: {_shown(report.collectives)} instead of {_truth_first(truth)}")
    return Score(case.name, verdict, rank, operator, right, where, why, first, false_alarm, tuple(details))


def _ranks(true: dict[str, Any]) -> set[int]:
    return {true["rank"], *(true.get("ranks_also") or [])}


def _of(true: dict[str, Any], named: Sequence[RootCause]) -> list[RootCause]:
    return [c for c in named if c.step == true["step"] and c.rank in _ranks(true)]


def _ranks_right(true_causes: list[dict[str, Any]], named: Sequence[RootCause]) -> bool:
    allowed = {(t["step"], rank) for t in true_causes for rank in _ranks(t)}
    return all(_of(t, named) for t in true_causes) and all((c.step, c.rank) in allowed for c in named)


def _operator(true_causes: list[dict[str, Any]], named: Sequence[RootCause]) -> float:
    total, matched = 0.0, set()
    for true in true_causes:
        best = 0.0
        for number, cause in enumerate(named):
            value = _mark(true, cause)
            if value > 0 or (not true["op_names"] and cause.rank in _ranks(true)):
                matched.add(number)
            best = max(best, value)
        total += best
    return total / (len(true_causes) + len(named) - len(matched))


def _mark(true: dict[str, Any], cause: RootCause) -> float:
    if cause.step != true["step"] or cause.rank not in _ranks(true):
        return 0.0
    if not true["op_names"]:
        return 1.0 if cause.where.value == "missing_rank" else 0.0
    names = list(true["op_names"])
    here = (true.get("op_names_by_rank") or {}).get(str(cause.rank), [])
    names += [here] if isinstance(here, str) else here
    if cause.op_name in names:
        modules_only = all(n.startswith(("Module.", "Cell.")) for n in names)
        return 1.0 if modules_only or not cause.op_name.startswith(("Module.", "Cell.")) else 0.5
    return 0.5 if cause.op_name in (true.get("op_names_half") or []) else 0.0


def _labelled(true: dict[str, Any], named: Sequence[RootCause], what: str) -> bool:
    plural = {"where": "acceptable_where", "mechanism": "acceptable_mechanisms"}[what]
    labels = {true[what], *(true.get(f"{what}_also") or []), *(true.get(plural) or [])}
    return any((c.where.value if what == "where" else c.mechanism.kind.value) in labels for c in _of(true, named))


def _truth_first(truth: dict[str, Any]) -> dict[str, Any] | None:
    if "source_ranks_first_comm" in truth:
        first = truth["source_ranks_first_comm"]
        if first is None:
            return None
        sources, propagated = first["ranks_input_nonfinite"], first["ranks_only_receiving"]
        return {"ops": first["op"], "source": sources, "propagated": propagated}
    first = truth.get("first_collective")
    if first is None:
        return None
    return {"ops": first["ops"], "source": first["source_ranks"], "propagated": first["propagated_ranks"]}


def _first(truth: dict[str, Any], report: Report) -> bool | None:
    true = _truth_first(truth)
    if true is None:
        return None
    if not report.collectives:
        return False
    named = report.collectives[0]
    same = all(true["ops"].get(str(rank)) == name for rank, name in named.ops.items() if str(rank) in true["ops"])
    overlap = any(str(rank) in true["ops"] for rank in named.ops)
    return (
        same
        and overlap
        and sorted(named.source_ranks) == sorted(true["source"])
        and sorted(named.propagated_ranks) == sorted(true["propagated"])
    )


def _true(t: dict[str, Any]) -> str:
    also = f"+{t['ranks_also']}" if t.get("ranks_also") else ""
    return f"step{t['step']} rank{t['rank']}{also} {t['op_names'][:2]} {t['where']} {t['mechanism']}"


def _named(c: RootCause) -> str:
    why = f"{c.mechanism.kind.value} ({c.mechanism.confidence.value})"
    return f"step{c.step} rank{c.rank} {c.op_name} {c.where.value} {why}"


def _shown(collectives: Sequence[CollectiveReport]) -> str:
    if not collectives:
        return "nothing"
    c = collectives[0]
    return f"{dict(c.ops)} source {list(c.source_ranks)} propagated {list(c.propagated_ranks)}"


COLUMNS = ("verdict", "rank", "operator", "exact", "where", "why", "first")


def table(scores: Sequence[Score]) -> str:
    """Marks per family and in total, in per cent of the cases to which they apply."""
    families: dict[str, list[Score]] = {}
    for s in scores:
        family = s.case.rsplit("-", 1)[0] if s.case.rsplit("-", 1)[-1].isdigit() else "other"
        families.setdefault(family, []).append(s)
    lines = [f"{'kind':12}{'cases':>6}" + "".join(f"{c:>10}" for c in COLUMNS) + f"{'false alarms':>14}"]
    for name, group in [*sorted(families.items()), ("total", list(scores))]:
        marks = ""
        for column in COLUMNS:
            values = [float(v) for s in group if (v := getattr(s, column)) is not None]
            marks += f"{100 * sum(values) / len(values):>9.1f}%" if values else f"{'-':>10}"
        lines.append(f"{name:12}{len(group):>6}{marks}{sum(s.false_alarm for s in group):>14}")
    return "\n".join(lines)


def main() -> int:
    """Prints the table and the failing cases; exit code 0 whatever the marks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        scores = [score(case) for case in cases(arguments.paths, stack)]
    if not scores:
        print("no case with a truth.json found", file=sys.stderr)
        return 2
    for s in scores:
        if s.details:
            print(s.case)
            for line in s.details:
                print("   ", line)
    print(table(scores))
    return 0


if __name__ == "__main__":
    sys.exit(main())
