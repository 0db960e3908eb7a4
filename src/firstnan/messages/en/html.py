"""English: what only the HTML page and the trace say (``html.*``, ``chrome.*``)."""

from __future__ import annotations

HTML: dict[str, str] = {
    # Frame of the page.
    "html.title": "firstnan report",
    "html.noscript": (
        "This page draws itself with a script, and scripts are switched off here. The same report as text: run "
        "firstnan analyze with --format markdown."
    ),
    "html.made_by": "Made by firstnan {version}. This file holds everything it shows and loads nothing.",
    "html.skip": "Skip to the answer",
    "html.contents": "Contents",
    "html.language": "English",
    "html.languages": "Language",
    "html.theme": "Colours",
    "html.theme.auto": "auto",
    "html.theme.light": "light",
    "html.theme.dark": "dark",
    "html.print": "Print",
    "html.copy": "copy",
    "html.copied": "copied",
    "html.not_copied": "not allowed here",
    "html.more": "and {count} more",
    "html.nav.answer": "Answer",
    "html.nav.map": "Heat map",
    "html.nav.spread": "Spread",
    "html.nav.curve": "Run-up",
    "html.nav.modules": "Modules",
    "html.nav.calls": "Calls",
    "html.nav.aside": "Set aside",
    "html.nav.input": "Input",
    "html.nav.json": "JSON",
    # Search.
    "html.search": "Search operators, ranks, calls, files  ( / )",
    "html.search.nothing": "nothing found",
    "html.kind.cause": "cause",
    "html.kind.module": "module",
    "html.kind.file": "code",
    "html.kind.record": "record",
    "html.kind.call": "call",
    "html.kind.rank": "rank",
    "html.kind.contained": "contained",
    "html.kind.benign": "harmless",
    "html.kind.problem": "problem",
    # First screen.
    "html.verdict.anomaly": "Anomaly",
    "html.verdict.clean": "Clean",
    "html.verdict.unknown": "Undecided",
    "html.complete": "every rank and step was judged",
    "html.incomplete": "parts of the input could not be judged",
    "html.looked_at": "rank {ranks}, step {steps}, {records} records",
    "html.redacted": "source lines and paths were left out on request",
    "html.record_at": "record {index} of rank {rank}, counted from 0",
    "html.in_function": "in",
    "html.chain": "call chain ({count})",
    "html.stack": "stack ({count} frames)",
    "html.all_tensors": "all tensors ({count})",
    "html.confidence.certain": "The recorded numbers prove it.",
    "html.confidence.likely": "The numbers fit, and nothing else that is known fits as well.",
    "html.confidence.possible": "One of several explanations that fit.",
    "html.no_doubts": "Nothing known: no rank, step or statistic was absent.",
    # Heat map.
    "html.map.label": "Heat map of {ranks} ranks and {columns} places of communication calls",
    "html.map.size": "{ranks} ranks and {columns} columns: {calls} communication calls of step {step}.",
    "html.map.causal": (
        "Places are in causal order: a call stands after every earlier call of its members, so a value can only spread "
        "to the right."
    ),
    "html.map.affected_calls": "Only the affected calls are shown, the causally first one first.",
    "html.map.not_complete": "Calls far from anything suspicious are not drawn.",
    "html.map.merged": "For size, {count} neighbouring places share a column, which shows the worst of them.",
    "html.map.keys": (
        "Hover or arrow keys: look at a cell. Click or Enter: tell about it below. Drag: move. Ctrl and wheel, "
        "+ and -: zoom. 0: all. Home: first affected call."
    ),
    "html.map.affected_only": "only what is not normal",
    "html.map.zoom_in": "zoom in",
    "html.map.zoom_out": "zoom out",
    "html.map.fit": "All",
    "html.map.first": "First affected call",
    "html.map.axis_ranks": "rank",
    "html.map.axis_places": "place in causal order",
    "html.map.where": "rank {rank}, place {place}",
    "html.map.cell": "rank {rank}, place {place}: {state}",
    "html.map.no_part": "The rank takes part in no call there.",
    "html.map.not_listed": "This call is not among those that the report lists in full.",
    "html.state.missing": "missing",
    "html.state.contained": "contained",
    "html.state.none": "no call",
    "html.cell.s": "own input not finite",
    "html.cell.p": "input clean, result not finite",
    "html.cell.n": "both clean",
    "html.cell.u": "no statistics, read too early, or not looked at",
    "html.cell.m": "no record of the call",
    "html.cell.c": "not finite, but goes no further",
    "html.call.records": "records",
    "html.call.match": "match",
    # Spread.
    "html.spread.what": (
        "Each box is a set of ranks with the record that brought its first bad value; each arrow is the communication "
        "it came through. A click shows the call in the heat map."
    ),
    "html.spread.merged": "Ranks that were reached in the same way share a box.",
    "html.spread.count": "{count} ranks",
    "html.via.parameters": "parameters",
    "html.via.unrecorded": "unrecorded",
    # Run-up.
    "html.curve.what": "Sizes of the values on rank {rank}, before the root cause and after it.",
    "html.curve.label": "Curve of the largest absolute values in {count} records; arrow keys go from one to the next",
    "html.curve.order": "Record order",
    "html.curve.order.what": "Neighbours of the root cause in record order. The vertical line is the root cause.",
    "html.curve.chain": "Causal chain",
    "html.curve.chain.what": "The records that passed the largest value on to the root cause, earliest first.",
    "html.curve.in": "largest absolute input",
    "html.curve.out": "largest absolute output",
    "html.curve.max": "absolute Max of the outputs",
    "html.curve.min": "absolute Min of the outputs",
    "html.curve.limit": "largest finite value of the dtype",
    "html.curve.beyond": "(further up than drawn)",
    "html.curve.non_finite": "Inf, NaN",
    "html.curve.none": "The report holds no values from before the root cause.",
    # Modules.
    "html.modules.chain": "Call chain from the outermost module to the operator",
    "html.modules.bad": "{count} with a bad output",
    "html.modules.outside": "outside of modules ({count})",
    "html.modules.none": "The dump does not tell which module the operator is in.",
    # Calls, what was set aside, input, JSON.
    "html.column.place": "place",
    "html.column.step": "step",
    "html.column.ranks": "ranks",
    "html.column.reason": "reason",
    "html.column.rule": "rule",
    "html.column.count": "count",
    "html.column.example": "example",
    "html.calls.what": "Calls that hold a bad value which matters, the causally first one first.",
    "html.calls.all": "Show all {count}",
    "html.benign.what": "Values that rules know to be legal; the rules can be edited (firstnan rules).",
    "html.input.problems": "Problems",
    "html.input.no_problems": "No problems with the input.",
    "html.input.places": "{count} places",
    "html.json.what": "The report for programs, as firstnan analyze --format json writes it.",
    "html.json.shortened": (
        "Shortened for the size of this page ({kept} of {total} calls); the command writes all of it."
    ),
    "html.json.too_large": "It is too large for this page; the command writes it.",
    "html.json.show": "Show",
    # Chrome trace.
    "chrome.records": "records",
    "chrome.non_finite": "non-finite outputs",
    "chrome.time": (
        "Time is not time: every record takes one microsecond, in record order; the records of one communication call "
        "begin together, after everything that must come before them. Gaps and lengths mean nothing."
    ),
    "chrome.shortened": "Shortened: {kept} of {total} affected calls are drawn.",
}
