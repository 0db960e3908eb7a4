"""Lists of ranks and steps as people write them: ``0-7,9``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MAX_NUMBERS = 1_000_000
"""Limit on how many numbers one list may name; more is a typing error."""


def format_ranges(numbers: Iterable[int]) -> str:
    """Numbers as short ranges, sorted, each once.

    >>> format_ranges([3, 0, 1, 2, 9])
    '0-3,9'
    >>> format_ranges([4, 5])
    '4,5'
    >>> format_ranges([])
    ''
    """
    parts: list[str] = []
    ordered = sorted(set(numbers))
    start = 0
    while start < len(ordered):
        end = start
        while end + 1 < len(ordered) and ordered[end + 1] == ordered[end] + 1:
            end += 1
        if end - start >= 2:
            parts.append(f"{ordered[start]}-{ordered[end]}")
        else:
            parts.extend(str(number) for number in ordered[start : end + 1])
        start = end + 1
    return ",".join(parts)


def packed(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Numbers as ranges, sorted: first and last of each. A run of thousands of ranks is one pair.

    >>> packed([3, 0, 1, 2, 9])
    ((0, 3), (9, 9))
    """
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] + 1 == number:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def joined(several: Iterable[tuple[tuple[int, int], ...]]) -> tuple[tuple[int, int], ...]:
    """The ranges of all numbers that some ranges hold.

    >>> joined([((0, 3), (9, 9)), ((2, 5),), ((6, 6),)])
    ((0, 6), (9, 9))
    """
    found: list[tuple[int, int]] = []
    for first, last in sorted({one for ranges in several for one in ranges}):
        if found and found[-1][1] + 1 >= first:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def unpacked(ranges: Iterable[tuple[int, int]]) -> Iterator[int]:
    """The numbers in ranges.

    >>> list(unpacked(((0, 3), (9, 9))))
    [0, 1, 2, 3, 9]
    """
    for first, last in ranges:
        yield from range(first, last + 1)


def parse_ranges(text: str) -> tuple[int, ...]:
    """The numbers of a list such as ``0-7,9``, sorted, each once.

    >>> parse_ranges("0-2, 9,1")
    (0, 1, 2, 9)

    Raises:
        ValueError: not a list of numbers and ranges, or more than :data:`MAX_NUMBERS`.
    """
    numbers: set[int] = set()
    for raw in text.split(","):
        part = raw.strip()
        first, dash, last = part.partition("-")
        low, high = _number(first, part), _number(last if dash else first, part)
        if high < low:
            raise ValueError(f"'{part}' runs backwards")
        if high - low + len(numbers) >= MAX_NUMBERS:
            raise ValueError(f"'{part}' names too many numbers")
        numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))


def _number(text: str, part: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 12:
        raise ValueError(f"'{part}' is not a number or a range such as 0-7")
    return int(digits)
