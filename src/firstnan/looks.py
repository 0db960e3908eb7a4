"""The work on ranks, given to an engine: first looks at all of them, second looks at some."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TypeVar

from firstnan import engines, ranks
from firstnan.analysis.again import Question
from firstnan.analysis.summary import RankSummary
from firstnan.dump import CallSite, Problem, RankFolder, Record
from firstnan.options import Options, Progress, ProgressEvent
from firstnan.rulebook import Rulebook

T = TypeVar("T")


def at_each(
    folders: tuple[RankFolder, ...],
    work: Callable[[RankFolder], T],
    lost: Callable[[RankFolder, str], T],
    options: Options,
    progress: Progress | None,
) -> list[T]:
    """What the work gives for every rank, large files first; ``lost`` makes it up for ranks on which it failed."""
    total = sum(f.dump_bytes for f in folders)
    order = sorted(folders, key=lambda f: -f.dump_bytes)
    engine = engines.chosen(options, len(order), total)
    done = 0
    found: list[T] = []
    for position, result in engine.map(work, order):
        folder = order[position]
        found.append(lost(folder, result.reason) if isinstance(result, engines.Failed) else result)
        done += folder.dump_bytes
        if progress is not None:
            progress(ProgressEvent(len(found), len(order), done, total))
    return found


def again(
    folders: tuple[RankFolder, ...], book: Rulebook, options: Options, questions: Collection[Question]
) -> list[tuple[Question, RankSummary]]:
    """Second looks at some ranks: each question with its answer."""
    where = {(folder.step, folder.rank): folder for folder in folders}
    asked = [(where[q.summary.step, q.summary.rank], q) for q in questions]
    asked.sort(key=lambda one: -one[0].dump_bytes)
    engine = engines.chosen(options, len(asked), sum(folder.dump_bytes for folder, _ in asked))
    work = partial(ranks.again_at, book=book, excluded=options.exclude_ops)
    found = []
    for position, result in engine.map(work, asked):
        question = asked[position][1]
        if isinstance(result, engines.Failed):
            result = ranks.not_again(question.summary, result.reason)
        found.append((question, result))
    return found


def answers(
    folders: tuple[RankFolder, ...], book: Rulebook, options: Options, questions: Collection[Question]
) -> list[RankSummary]:
    """The answers alone."""
    return [answer for _, answer in again(folders, book, options, questions)]


def call_sites(
    folders: tuple[RankFolder, ...], step: int, rank: int, names: Collection[str]
) -> tuple[Mapping[str, CallSite], tuple[Problem, ...]]:
    """Where records of one rank were called from."""
    from firstnan.readers import callsite

    folder = _folder(folders, step, rank)
    return callsite.read(folder, names) if folder else ({}, ())


def record(folders: tuple[RankFolder, ...], step: int, rank: int, name: str) -> Record | None:
    """One record of one rank."""
    folder = _folder(folders, step, rank)
    return ranks.find(folder, name) if folder else None


def _folder(folders: tuple[RankFolder, ...], step: int, rank: int) -> RankFolder | None:
    return next((f for f in folders if (f.step, f.rank) == (step, rank)), None)
