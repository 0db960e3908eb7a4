"""How often the answer is right: scores firstnan against cases with known truth.

    python benchmarks/accuracy.py DIR...

DIR holds folders or archives (``.tar.gz``) with ``truth.json``. Per kind (family of the case) and in total:

verdict        the right word
rank           every true cause is named by a rank that may name it, in the right step, and no other rank is named
operator       1 for the exact record, 0.5 for the enclosing module or a half record, divided by (true + wrong ones)
exact          verdict, rank and operator all fully right
where, why     every true cause has a named one on a right rank with a right label
first          the first affected collective is the true one, with exactly its source and propagated ranks
false alarms   clean cases called an anomaly
doubts         clean cases called clean and not complete (exit code 4)

Where a truth says ``unknown``, the finer words for it are right too. A second table calibrates the answers: of the
causes named with one confidence, how many name a true record (place) and a right mechanism.
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
from firstnan.answer.model import CollectiveReport, Confidence, MechanismKind, Report, RootCause, Verdict

_UNKNOWN_TOO = frozenset({"domain_error", "nan_argument", "saved_nonfinite"})
"""Mechanisms that tell what a truth calls unknown more finely."""


@dataclass(frozen=True)
class Judged:
    """One named cause held against the truth."""

    place_confidence: Confidence
    place: bool
    """The named record is one that the truth accepts."""
    mechanism_confidence: Confidence
    mechanism: bool
    """A true cause of this step and rank has this mechanism."""


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
    doubt: bool
    """A clean case whose answer is clean and not complete."""
    causes: tuple[Judged, ...]
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
                archive_file.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
                archive_file.extractall(folder)
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
    is_healthy = truth["verdict"] == "clean" and "anomaly" not in verdicts
    false_alarm = is_healthy and report.verdict is Verdict.ANOMALY
    doubt = is_healthy and report.verdict is Verdict.CLEAN and not report.complete
    judged = tuple(_judged(true_causes, cause) for cause in report.root_causes)
    wrong = any(
        (j.place_confidence is Confidence.CERTAIN and not j.place)
        or (j.mechanism_confidence is Confidence.CERTAIN and not j.mechanism)
        for j in judged
    )
    if wrong or not right or where is False or why is False:
        details += [f"true:  {_true(t)}" for t in true_causes] or [f"true:  {truth['verdict']}"]
        details += [f"named: {_named(c)}" for c in report.root_causes] or [f"named: {report.verdict.value}"]
    if first is False:
        details.append(f"first: {_shown(report.collectives)} instead of {_accepted_firsts(truth)}")
    if doubt:
        details.append("clean, and not complete: " + ", ".join(p.kind.value for p in report.input.problems))
    marks = (verdict, rank, operator, right, where, why, first, false_alarm, doubt)
    return Score(case.name, *marks, judged, tuple(details))


def _judged(true_causes: list[dict[str, Any]], cause: RootCause) -> Judged:
    place = any(_mark(true, cause) == 1.0 for true in true_causes)
    mechanism = any(_labelled(true, [cause], "mechanism") for true in true_causes)
    sure = cause.mechanism.confidence
    return Judged(cause.place_confidence, place, sure, mechanism)


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
    if what == "mechanism" and MechanismKind.UNKNOWN.value in labels:
        labels |= _UNKNOWN_TOO
    return any((c.where.value if what == "where" else c.mechanism.kind.value) in labels for c in _of(true, named))


@dataclass(frozen=True)
class First:
    """A first affected call that the truth accepts."""

    ops: dict[str, str]
    """Rank -> name of its record."""
    source: frozenset[int]
    propagated: frozenset[int] | None
    """None: the truth does not tell."""


def _accepted_firsts(truth: dict[str, Any]) -> list[First]:
    """Empty: no call is affected, or calls are not recorded."""
    if "source_ranks_first_comm" in truth:
        told = [truth["source_ranks_first_comm"], *(truth.get("first_comm_ok") or [])]
        return [
            First(one["op"], _seen_sources(one), _set(one.get("ranks_only_receiving")))
            for one in told
            if one is not None
        ]
    one = truth.get("first_collective")
    if one is None:
        return []
    return [First(one["ops"], frozenset(one["source_ranks"]), _set(one["propagated_ranks"]))]


def _seen_sources(call: dict[str, Any]) -> frozenset[int]:
    """The ranks whose bad input is in the dump: what a rank without a dump put in is a matter of the cause."""
    return frozenset(call["ranks_input_nonfinite"]) - frozenset(call.get("ranks_not_dumped") or ())


def _set(ranks: list[int] | None) -> frozenset[int] | None:
    return None if ranks is None else frozenset(ranks)


def _first(truth: dict[str, Any], report: Report) -> bool | None:
    accepted = _accepted_firsts(truth)
    if not accepted:
        return None
    return bool(report.collectives) and any(_is_first(one, report.collectives[0]) for one in accepted)


def _is_first(true: First, named: CollectiveReport) -> bool:
    common = [(true.ops[str(rank)], name) for rank, name in named.ops.items() if str(rank) in true.ops]
    return (
        bool(common)
        and all(one == other for one, other in common)
        and true.source == frozenset(named.source_ranks)
        and true.propagated in (None, frozenset(named.propagated_ranks))
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
    lines = [f"{'kind':12}{'cases':>6}" + "".join(f"{c:>10}" for c in COLUMNS) + f"{'false alarms':>14}{'doubts':>8}"]
    for name, group in [*sorted(families.items()), ("total", list(scores))]:
        marks = ""
        for column in COLUMNS:
            values = [float(v) for s in group if (v := getattr(s, column)) is not None]
            marks += f"{100 * sum(values) / len(values):>9.1f}%" if values else f"{'-':>10}"
        counts = f"{sum(s.false_alarm for s in group):>14}{sum(s.doubt for s in group):>8}"
        lines.append(f"{name:12}{len(group):>6}{marks}{counts}")
    return "\n".join(lines)


def calibration(scores: Sequence[Score]) -> str:
    """How often the causes that were named with each confidence are right, place and mechanism apart."""
    judged = [j for s in scores for j in s.causes]
    lines = [f"{'confidence':12}{'place':>16}{'mechanism':>18}"]
    for confidence in (Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE):
        places = [j.place for j in judged if j.place_confidence is confidence]
        mechanisms = [j.mechanism for j in judged if j.mechanism_confidence is confidence]
        lines.append(f"{confidence.value:12}{_share(places):>16}{_share(mechanisms):>18}")
    return "\n".join(lines)


def _share(right: Sequence[bool]) -> str:
    return f"{sum(right)} of {len(right)}" if right else "-"


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
    print()
    print(calibration(scores))
    return 0


if __name__ == "__main__":
    sys.exit(main())
