"""All communication calls of one rank as a part file holds them: a byte or two a call, and far less when deflated.

What comes back is untrusted: :func:`roster_of` checks that places, forms and names belong together.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate

from msgspec import Struct, ValidationError

from firstnan.dump.ranges import MAX_NUMBERS, packed
from firstnan.rank.roster import CallForm, NameList, Roster, Sides

MAX_TEXT = 1 << 30
"""Characters that all names of a rank have together, written out."""
_MOST = 1 << 63


class PackedRoster(Struct, frozen=True, array_like=True):
    """A :class:`Roster` in numbers that repeat: gaps instead of places, steps instead of call numbers."""

    forms: tuple[tuple[CallForm, ...], ...]
    form_of: tuple[int, ...]
    gaps: tuple[int, ...]
    """Records between this call and the one before."""
    patterns: tuple[tuple[str, str | None], ...]
    pattern_of: tuple[int, ...]
    numbers: tuple[int, ...]
    """By how much the number in the name is off the next one of its pattern."""
    unusual: Mapping[int, tuple[Sides, ...]]
    mentioned: tuple[tuple[int, int], ...]


def pack(roster: Roster) -> PackedRoster:
    """A roster as a part file holds it."""
    names = roster.names if isinstance(roster.names, NameList) else NameList(roster.names)
    following = [0] * len(names.patterns)
    numbers = []
    for pattern, number in zip(names.pattern_of, names.numbers, strict=True):
        numbers.append(number - following[pattern])
        following[pattern] = number + 1
    return PackedRoster(
        forms=tuple(roster.forms),
        form_of=tuple(roster.form_of),
        gaps=tuple(here - before for before, here in zip((-1, *roster.places), roster.places, strict=False)),
        patterns=tuple(names.patterns),
        pattern_of=tuple(names.pattern_of),
        numbers=tuple(numbers),
        unusual=roster.unusual,
        mentioned=packed(roster.mentioned),
    )


def roster_of(told: PackedRoster, step: int, rank: int) -> Roster:
    """The roster again.

    Raises:
        ValidationError: what it says does not fit together.
    """
    count = len(told.form_of)
    if not len(told.gaps) == len(told.pattern_of) == len(told.numbers) == count:
        raise ValidationError("a list of calls with parts of several lengths")
    _check_within(told.form_of, len(told.forms))
    _check_within(told.pattern_of, len(told.patterns))
    _check_within(told.unusual, count)
    if any(len(sides) != len(told.forms[told.form_of[at]]) for at, sides in told.unusual.items()):
        raise ValidationError("a call with more or fewer sides than its form")
    if sum(max(last - first, 0) + 1 for first, last in told.mentioned) > MAX_NUMBERS:
        raise ValidationError(f"calls that name more than {MAX_NUMBERS} ranks")
    places = [place - 1 for place in accumulate(told.gaps)]
    _check_within(places, _MOST)
    return Roster(
        step,
        rank,
        told.forms,
        array("Q", places),
        array("L", told.form_of),
        _names(told),
        dict(told.unusual),
        frozenset(number for first, last in told.mentioned for number in range(first, last + 1)),
    )


def _names(told: PackedRoster) -> NameList:
    names = NameList()
    following = [0] * len(told.patterns)
    left = MAX_TEXT
    for at, off in zip(told.pattern_of, told.numbers, strict=True):
        before, behind = told.patterns[at]
        number = following[at] + off
        following[at] = number + 1
        left -= len(before) + len(behind or "")
        if not 0 <= number < _MOST or left < 0:
            raise ValidationError("a name of a call with an impossible number or length")
        names.add((before, behind), number)
    return names


def _check_within(positions: Sequence[int] | Mapping[int, object], end: int) -> None:
    if positions and not (min(positions) >= 0 and max(positions) < end):
        raise ValidationError("a list of calls that points outside itself")
