"""How the cost grows: ranks, steps, records and harmless values, each doubled again and again.

    python benchmarks/scale.py [--ranks 10000] [--steps 100] [--records 1000000] [--harmless 10000] [--svg FILE]

Every option is the largest size of its curve, which begins at an eighth of it; 0 leaves the curve out. The dumps are
made in a temporary folder, some GB in all: one rank turns a value to NaN, the next collective carries it to its row of
ranks and the one behind it to all others, so that every rank is infected. Printed is a table in Markdown: processor
time (user and system, one job) and largest resident memory, and for each doubling how many times the time of the size
before it takes, the start of Python taken off. The exit code is 1 where doubling costs more than 2.4 times (something
grows faster than the work), or where the ranks take more than 600 MB.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from multiprocessing import Process
from pathlib import Path

from speed import Cost, run

MOST = 2.4
"""Times that twice the work may cost."""
MOST_MEMORY = 600
"""MB that the largest number of ranks may take."""
LEAST = 0.2
"""Seconds beside the start of Python below which a ratio is noise and is not judged."""


@dataclass(frozen=True)
class Size:
    """One dump."""

    ranks: int = 8
    steps: int = 1
    records: int = 64
    """Of each rank and step."""
    harmless: int = 0
    """NaN of each rank and step that is dropped, three records each; besides the others."""


@dataclass(frozen=True)
class Point:
    """What one dump cost."""

    size: int
    cost: Cost
    ratio: float | None
    """Processor time against that of half the size; None: not judged."""


ROW = 64
"""Ranks whose group comes first: consecutive ones; the second one is of those with the same place in their rows."""
EVERY = 16
"""Records from one call of a group to the next."""
CALLS = {8: "row", 12: "column"}
"""Place of a call within these -> its group."""


def tensor(high: str, low: str) -> str:
    return (
        '    {\n     "type": "torch.Tensor",\n     "dtype": "torch.float32",\n'
        '     "shape": [\n      8,\n      8\n     ],\n'
        f'     "Max": {high},\n     "Min": {low},\n     "Mean": {"0.25" if high != "NaN" else high},\n'
        f'     "Norm": {high},\n     "requires_grad": false\n    }}'
    )


FINE, BAD, MASK = tensor("1.0", "-1.0"), tensor("NaN", "NaN"), tensor("1.0", "-Infinity")


def record(name: str, taken: str, given: str, kwargs: str = "{}") -> str:
    return (
        f'  "{name}": {{\n   "input_args": [\n{taken}\n   ],\n   "input_kwargs": {kwargs},\n'
        f'   "output": [\n{given}\n   ]\n  }}'
    )


def group(ranks: Sequence[int], indent: str) -> str:
    members = ",\n".join(f"{indent}  {rank}" for rank in ranks)
    return (
        f'{{\n{indent} "type": "torch.ProcessGroup",\n{indent} "group_ranks": [\n{members}\n{indent} ],\n'
        f'{indent} "group_id": "{ranks[0]}-{ranks[-1]}"\n{indent}}}'
    )


@dataclass(frozen=True)
class Spread:
    """From which record on which ranks hold the NaN of the guilty one."""

    size: Size
    is_last: bool

    @property
    def guilty(self) -> int:
        """The last one of the first row, which is a full one."""
        return min(ROW, self.size.ranks) - 1

    @property
    def birth(self) -> int:
        return self.size.records // 2

    def after(self, place: int) -> int:
        """The first call of a kind behind the birth, and behind the row's for the column."""
        begin = self.birth if place == 8 else self.after(8)
        return next(number for number in range(begin + 1, begin + 1 + EVERY) if number % EVERY == place)

    def holds(self, rank: int, number: int) -> bool:
        """Whether a rank has it before this record."""
        if not self.is_last:
            return False
        if rank == self.guilty:
            return number > self.birth
        return number > self.after(8 if rank < ROW else 12)


def records(size: Size, rank: int, step: int) -> Iterable[str]:
    """The records of one rank; first those with NaN that are dropped."""
    for number in range(size.harmless):
        yield record(f"Tensor.masked_fill.{number}.forward", FINE, MASK)
        yield record(f"Functional.softmax.{number}.forward", MASK, BAD)
        yield record(f"Torch.nan_to_num.{number}.forward", BAD, FINE)
    spread = Spread(size, step == size.steps - 1)
    row = range(rank // ROW * ROW, min((rank // ROW + 1) * ROW, size.ranks))
    members = {8: row, 12: range(rank % ROW, size.ranks, ROW)}
    inside = {place: group(ranks, "    ") for place, ranks in members.items()}
    behind = {place: f"    {text}" for place, text in inside.items()}
    for number in range(size.records):
        place = number % EVERY
        taken = BAD if spread.holds(rank, number) else FINE
        if place in CALLS and size.ranks > 1:
            given = BAD if any(spread.holds(member, number) for member in members[place]) else FINE
            kwargs = f'{{\n    "group": {inside[place]}\n   }}'
            yield record(f"Distributed.all_reduce.{number}.forward", taken, f"{given},\n{behind[place]}", kwargs)
        else:
            is_birth = spread.is_last and number == spread.birth and rank == spread.guilty
            yield record(f"Torch.mul.{number}.forward", taken, BAD if is_birth else taken)


_HEAD = '{\n "task": "statistics",\n "level": "L1",\n "framework": "pytorch",\n "dump_data_dir": null,\n "data": {\n'


def make(folder: Path, size: Size) -> None:
    """Writes the dump."""
    for step in range(size.steps):
        for rank in range(size.ranks):
            place = folder / f"step{step}" / f"rank{rank}"
            place.mkdir(parents=True)
            with (place / "dump.json").open("w") as file:
                separator = _HEAD
                for one in records(size, rank, step):
                    file.write(separator + one)
                    separator = ",\n"
                file.write("\n }\n}")


def curve(most: int, of: Callable[[int], Size], start: float) -> list[Point]:
    """The cost of an eighth, a quarter, a half and the whole."""
    points: list[Point] = []
    for part in (8, 4, 2, 1):
        number = max(most // part, 1)
        with tempfile.TemporaryDirectory() as made:
            # in a process of its own, whose memory would count as that of the next one
            making = Process(target=make, args=(Path(made), of(number)))
            making.start()
            making.join()
            cost = run([sys.executable, "-m", "firstnan", "analyze", made, "--jobs", "1"])
        if cost.exit_code not in (0, 1):
            raise SystemExit(f"exit code {cost.exit_code} at {number}")
        before = points[-1].cost.seconds - start if points else 0.0
        ratio = (cost.seconds - start) / before if before >= LEAST else None
        points.append(Point(number, cost, ratio))
    return points


def svg(curves: dict[str, list[Point]]) -> str:
    """Every curve in a field of its own: size over processor time, and the straight line through the largest."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 840 190" font-family="sans-serif" font-size="11" '
        'fill="#888" stroke-linejoin="round">'
    ]
    for at, (name, points) in enumerate(curves.items()):
        far, high = points[-1].size, max(point.cost.seconds for point in points)
        left = 30 + 205 * at
        dots = [(left + 165 * p.size / far, 150 - 120 * p.cost.seconds / high) for p in points]
        parts.append(f'<path d="M{left} 25V150H{left + 175}" fill="none" stroke="#888"/>')
        parts.append(f'<path d="M{left} 150L{left + 165} 30" fill="none" stroke="#888" stroke-dasharray="3 4"/>')
        line = " ".join(f"{x:.0f},{y:.0f}" for x, y in dots)
        parts.append(f'<polyline points="{line}" fill="none" stroke="#1a7f5a" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3" fill="#1a7f5a"/>' for x, y in dots]
        parts.append(f'<text x="{left}" y="16">{high:.1f} s</text>')
        parts.append(f'<text x="{left + 165}" y="168" text-anchor="end">{far:,} {name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, most in (("ranks", 10_000), ("steps", 100), ("records", 1_000_000), ("harmless", 10_000)):
        parser.add_argument(f"--{name}", type=int, default=most, help=f"largest number of {name} ({most:,}); 0: none")
    parser.add_argument("--svg", type=Path, help="draw the curves there")
    chosen = parser.parse_args()
    start = min(run([sys.executable, "-m", "firstnan", "--version"]).seconds for _ in range(3))
    base = Size()
    ways: dict[str, Callable[[int], Size]] = {
        "ranks": lambda number: replace(base, ranks=number),
        "steps": lambda number: replace(base, steps=number),
        "records": lambda number: replace(base, ranks=1, records=number),
        "harmless": lambda number: replace(base, ranks=1, records=3 * number, harmless=number),
    }
    curves = {name: curve(getattr(chosen, name), of, start) for name, of in ways.items() if getattr(chosen, name)}
    print("| | size | CPU s | peak MB | x half |\n|---|--:|--:|--:|--:|")
    for name, points in curves.items():
        for point in points:
            ratio = "" if point.ratio is None else f"{point.ratio:.2f}"
            print(f"| {name} | {point.size:,} | {point.cost.seconds:.2f} | {point.cost.peak:.0f} | {ratio} |")
    if chosen.svg is not None:
        chosen.svg.write_text(svg(curves))
    slow = [f"{name} {p.size}" for name, points in curves.items() for p in points if (p.ratio or 0.0) > MOST]
    if slow:
        print(f"more than {MOST} x: {', '.join(slow)}", file=sys.stderr)
    large = [p.size for p in curves.get("ranks", ()) if p.cost.peak > MOST_MEMORY]
    if large:
        print(f"more than {MOST_MEMORY} MB: {large[0]} ranks", file=sys.stderr)
    return 1 if slow or large else 0


if __name__ == "__main__":
    sys.exit(main())
