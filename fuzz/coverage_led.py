"""One target in one libFuzzer process; started by ``run.py`` where atheris is installed."""

from __future__ import annotations

import random
import sys

import atheris

with atheris.instrument_imports(include=["firstnan"]):
    from fuzz_readers import TARGETS
from mutate import mutate
from seeds import seeds


def main() -> None:
    """``coverage_led.py TARGET CORPUS [libFuzzer options]``"""
    name = sys.argv[1]
    target, begin = TARGETS[name], seeds(name)

    def custom(data: bytes, longest: int, seed: int) -> bytes:
        """libFuzzer's own mutations half of the time, else those that know JSON."""
        if seed % 2:
            return bytes(atheris.Mutate(data, longest))
        return mutate(bytes(data), begin, random.Random(seed))[:longest]

    atheris.Setup([sys.argv[0], *sys.argv[2:]], target, custom_mutator=custom)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
