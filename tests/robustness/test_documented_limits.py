"""The limits of the program are in docs/limits.md, with their numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firstnan import parts, ranges, rulebook, stages
from firstnan.analysis import affected, assemble, call_map, endings, focus, nearby, peers, root_cause, summarize, watch
from firstnan.readers import callers, callsite, files, layout, lenient_json, record_index, values
from firstnan.reporters import chrome_trace, html_spread

PAGE = Path(__file__).resolve().parents[2] / "docs" / "limits.md"
LIMITS = {
    "a file": files.MAX_BYTES >> 30,
    "one record": record_index.LONGEST >> 20,
    "nesting of a whole text": lenient_json.MAX_DEPTH,
    "nesting of one argument": values.MAX_NESTING,
    "the name of an argument in the report": values.LONGEST_SLOT,
    "callers of one record": callsite.MAX_CHAIN,
    "names that are searched in a long construct.json and are not there": callers.MAX_SEARCHES,
    "folders between the path and the steps": layout._MAX_DEPTH,
    "folders searched for steps": layout._MAX_FOLDERS,
    "numbers in `--ranks` and `--step`": ranges.MAX_NUMBERS,
    "a file of rules": rulebook.MAX_RULES_BYTES >> 20,
    "a part file (`firstnan merge`)": parts.MAX_BYTES >> 20,
    "one rank in a part file, unpacked": parts.MAX_PACKED >> 20,
    "calls of a rank that are all kept in its part": stages.MAX_CALLS,
    "records behind a bad value in which its reader is searched": focus.FAR,
    "windows of records on one rank": focus.MAX_WINDOWS,
    "bad values on one rank that are followed to their end": endings.MAX_EVENTS,
    "communication calls that one value is followed into": endings.MAX_NEXT_CALLS,
    "earlier receives whose result may be stale": endings.PENDING_CALLS,
    "records whose output is unfilled memory": watch.MAX_GARBAGE,
    "largest elements of legal masks": watch.MAX_MASKS,
    "records before a cause in which its largest input is followed back": summarize.MAX_RUN_UP,
    "other ranks that the operator of a cause is compared with": peers.MAX_PEERS,
    "causes": assemble.MAX_CAUSES,
    "alternatives of one cause": root_cause.MAX_ALTERNATIVES,
    "contained values": assemble.MAX_CONTAINED,
    "affected communication calls": affected.MAX_COLLECTIVES,
    "ranks with the records around the place": nearby.MAX_RANKS,
    "nodes of the drawing of the spread": html_spread.MAX_DRAWN,
    "columns of the map of calls": call_map.MAX_COLUMNS,
    "records in a Chrome trace": chrome_trace.MAX_SLICES,
}


@pytest.mark.parametrize("what", LIMITS)
def test_the_page_gives_the_number(what: str) -> None:
    """It is the first one of the second column."""
    (row,) = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {what} |")]
    number = re.match(r"[\d ]*\d", row.split("|")[2].strip())
    assert number is not None
    assert int(number[0].replace(" ", "")) == LIMITS[what]
