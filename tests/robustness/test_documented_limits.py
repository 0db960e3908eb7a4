"""The limits of the program are in docs/limits.md, with their numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firstnan.causes import cause, peers
from firstnan.dump import ranges
from firstnan.operators import table
from firstnan.rank import summarize, suspects, weights
from firstnan.rank.surroundings import blind_spots, neighbours
from firstnan.rank.taint import def_use, endings, islands, legality, links, shelf
from firstnan.read.callers import call_site, construct
from firstnan.read.json import lenient
from firstnan.read.layout import dump_layout
from firstnan.read.records import values
from firstnan.read.scan import record_index
from firstnan.read.sources import files
from firstnan.report import assemble, call_map, calls
from firstnan.run import parts, second_pass, two_stage
from firstnan.show import chrome_trace
from firstnan.show.html import spread

PAGE = Path(__file__).resolve().parents[2] / "docs" / "limits.md"
LIMITS = {
    "a file": files.MAX_BYTES >> 30,
    "one record": record_index.LONGEST >> 20,
    "nesting of a whole text": lenient.MAX_DEPTH,
    "nesting of one argument": values.MAX_NESTING,
    "the name of an argument in the report": values.LONGEST_SLOT,
    "callers of one record": call_site.MAX_CHAIN,
    "names that are searched in a long construct.json and are not there": construct.MAX_SEARCHES,
    "folders between the path and the steps": dump_layout._MAX_DEPTH,
    "folders searched for steps": dump_layout._MAX_FOLDERS,
    "numbers in `--ranks` and `--step`": ranges.MAX_NUMBERS,
    "a file of rules": table.MAX_RULES_BYTES >> 20,
    "a part file (`firstnan merge`)": parts.MAX_BYTES >> 20,
    "one rank in a part file, unpacked": parts.MAX_PACKED >> 20,
    "calls of a rank that its part keeps with their values": two_stage.MAX_CALLS,
    "records behind a bad value in which its reader is searched": links.FAR,
    "bad values on one rank that go on and are followed to their end": endings.MAX_EVENTS,
    "bad values on one rank that go nowhere and are listed": endings.MAX_HARMLESS,
    "communication calls that one value is followed into": endings.MAX_NEXT_CALLS,
    "writers of the very same values that one read is linked to": def_use.LINKS,
    "earlier values among which the writer of one read is searched": shelf.SEARCH,
    "-Inf values that are no masks and are known again after a cast": legality.MAX_ILLEGAL,
    "records behind the first message in which a trial on garbage is recognised": islands.MAX_BEHIND,
    "rounds in which stale results are left out": second_pass.ROUNDS,
    "earlier receives of one rank that are looked at for a bad value that no record wrote": second_pass.MOST_RECEIVES,
    "earlier receives whose result may be stale": endings.PENDING_CALLS,
    "records whose output is unfilled memory": suspects.MAX_GARBAGE,
    "largest elements of legal masks": suspects.MAX_MASKS,
    "records before a cause in which its largest input is followed back": summarize.MAX_RUN_UP,
    "tensors read behind a receive that are held against what was sent": summarize.MAX_READ,
    "records on the way back to one without statistics that a clean input may come from": blind_spots.MAX_STEPS,
    "weights that tell whether a step was skipped": weights.MAX_WEIGHTS,
    "other ranks that the operator of a cause is compared with": peers.MAX_PEERS,
    "causes": assemble.MAX_CAUSES,
    "alternatives of one cause": cause.MAX_ALTERNATIVES,
    "contained values": assemble.MAX_CONTAINED,
    "affected communication calls": calls.MAX_COLLECTIVES,
    "ranks with the records around the place": neighbours.MAX_RANKS,
    "nodes of the drawing of the spread": spread.MAX_DRAWN,
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
