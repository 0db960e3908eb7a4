"""Adds call chains and code locations to the root causes of a report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec.structs import replace

from firstnan.answer.model import Report, RootCause
from firstnan.dump.call_site import CallSite
from firstnan.dump.problems import Problem

Lookup = Callable[[int, int, Collection[str]], tuple[Mapping[str, CallSite], tuple[Problem, ...]]]
"""Step, rank and record names -> call sites and what was wrong with construct.json and stack.json."""
MAX_CAUSES = 256
"""Causes whose call sites are read; beyond that they repeat each other."""


def add(report: Report, lookup: Lookup) -> Report:
    """The report with chain, module, stack and location of each root cause."""
    causes: list[RootCause] = []
    problems = list(report.input.problems)
    for number, cause in enumerate(report.root_causes):
        if not cause.op_name or number >= MAX_CAUSES:
            causes.append(cause)
            continue
        sites, found = lookup(cause.step, cause.rank, (cause.op_name,))
        problems += [p for p in found if p not in problems]
        site = sites.get(cause.op_name)
        causes.append(_with(cause, site) if site else replace(cause, construct_chain=(cause.op_name,)))
    return replace(report, root_causes=tuple(causes), input=replace(report.input, problems=tuple(problems)))


def _with(cause: RootCause, site: CallSite) -> RootCause:
    chain = site.chain or (cause.op_name,)
    module = site.module or cause.module
    return replace(
        cause,
        construct_chain=chain,
        module=module,
        stack_info=site.raw_stack,
        location=site.location,
        called_at=site.called_at,
    )
