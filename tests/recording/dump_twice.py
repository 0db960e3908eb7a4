"""``python dump_twice.py CASE OUT``: one case of ``tests/dumpgen``, dumped by MSProbe and by our recorder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


class OurDebugger:
    """Stands where MSProbe's debugger stands in the programs."""

    def __init__(self, out: Path) -> None:
        self._out, self._step = out, 0
        self._recorder: Any = None

    def start(self, model: Any) -> None:
        from firstnan.recording.recorder import StepRecorder

        self._recorder = StepRecorder(model)
        self._recorder.__enter__()

    def stop(self) -> None:
        self._recorder.__exit__(None, None, None)

    def step(self) -> None:
        from firstnan.recording.values import own_rank
        from firstnan.recording.writer import write

        write(self._recorder.step, self._out / f"step{self._step}" / f"rank{own_rank()}")
        self._step += 1


def main(name: str, out: Path) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "dumpgen"))
    import make
    import msprobe.pytorch  # noqa: F401  (once, before the ranks are forked)
    import train
    import transformers  # noqa: F401

    case = next(case for case in make.CASES if case.name == name)
    make.run(case, out / "theirs", True)
    train.make_debugger = lambda _case, folder, _rank: OurDebugger(folder)
    make.run(case, out / "ours", True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
