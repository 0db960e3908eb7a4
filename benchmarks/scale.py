"""How the cost grows: ranks, steps, records and harmless values, each doubled again and again.

    python benchmarks/scale.py [--ranks 256] [--steps 8] [--records 16384] [--harmless 1024] [--svg FILE]

Every option is the largest size of its curve, which begins at an eighth of it; 0 leaves the curve out. The dumps are
made in a temporary folder: one rank turns a value to NaN and the next collective carries it to all others, so that
every rank is infected. Printed is a table in Markdown: processor time (user and system, one job) and largest resident
memory, and for each doubling how many times the time of the size before it takes, the start of Python taken off. The
exit code is 1 where doubling costs more than 2.4 times: something grows faster than the work.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from multiprocessing import Process
from pathlib import Path

from speed import Cost, run

MOST = 2.4
"""Times that twice the work may cost."""
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
    """Records of each rank and step with legal -Inf in a mask."""


@dataclass(frozen=True)
class Point:
    """What one dump cost."""

    size: int
    cost: Cost
    ratio: float | None
    """Processor time against that of half the size; None: not judged."""


def tensor(high: float, low: float) -> dict[str, object]:
    kind = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [8, 8]}
    return {**kind, "Max": high, "Min": low, "Mean": (high + low) / 2, "Norm": abs(high), "requires_grad": False}


def records(size: Size, rank: int, step: int) -> Iterable[tuple[str, dict[str, object]]]:
    """Names and contents; the last rank gives NaN at half of its last step, and the group of all ranks hears of it."""
    fine, bad = tensor(1.0, -1.0), tensor(float("nan"), float("nan"))
    group = {"type": "torch.ProcessGroup", "group_ranks": list(range(size.ranks)), "group_id": "all"}
    is_last = step == size.steps - 1
    for number in range(size.harmless):
        yield f"Tensor.masked_fill.{number}.forward", call([fine], [tensor(1.0, float("-inf"))])
    for number in range(size.records - size.harmless):
        after = is_last and number >= size.records // 2
        if number % 16 == 8:
            sent = fine if number < size.records // 2 + 1 or not is_last else bad
            value = bad if after else fine
            yield (
                f"Distributed.all_reduce.{number}.forward",
                {"input_args": [sent], "input_kwargs": {"group": group}, "output": [value, group]},
            )
        else:
            given = bad if after and rank == size.ranks - 1 else fine
            yield f"Torch.mul.{number}.forward", call([fine if number == size.records // 2 else given], [given])


def call(taken: Sequence[object], given: Sequence[object]) -> dict[str, object]:
    return {"input_args": list(taken), "input_kwargs": {}, "output": list(given)}


def make(folder: Path, size: Size) -> None:
    """Writes the dump."""
    for step in range(size.steps):
        for rank in range(size.ranks):
            place = folder / f"step{step}" / f"rank{rank}"
            place.mkdir(parents=True)
            head = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None}
            text = json.dumps({**head, "data": dict(records(size, rank, step))}, indent=1)
            (place / "dump.json").write_text(text)


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
    """Every curve as a line: size over processor time, both as shares of the largest."""
    colours = ("#0b6", "#06c", "#c60", "#90c")
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 440 240" font-family="sans-serif" font-size="11">']
    lines.append('<path d="M40 10V210H420" fill="none" stroke="currentColor"/>')
    for at, (name, points) in enumerate(curves.items()):
        far, high = points[-1].size, max(point.cost.seconds for point in points)
        dots = " ".join(f"{40 + 380 * p.size / far:.0f},{210 - 200 * p.cost.seconds / high:.0f}" for p in points)
        lines.append(f'<polyline points="{dots}" fill="none" stroke="{colours[at]}" stroke-width="2"/>')
        lines.append(f'<text x="{60 + 95 * at}" y="230" fill="{colours[at]}">{name}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, most in (("ranks", 256), ("steps", 8), ("records", 16384), ("harmless", 1024)):
        parser.add_argument(f"--{name}", type=int, default=most, help=f"largest number of {name} ({most}); 0: none")
    parser.add_argument("--svg", type=Path, help="draw the curves there")
    chosen = parser.parse_args()
    start = min(run([sys.executable, "-m", "firstnan", "--version"]).seconds for _ in range(3))
    base = Size()
    ways: dict[str, Callable[[int], Size]] = {
        "ranks": lambda number: replace(base, ranks=number),
        "steps": lambda number: replace(base, steps=number),
        "records": lambda number: replace(base, records=number),
        "harmless": lambda number: replace(base, records=base.records + number, harmless=number),
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
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
