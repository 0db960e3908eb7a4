"""Record one step by hand, without a guard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firstnan.dump.errors import UsageError
from firstnan.recording.recorder import Models, StepRecorder
from firstnan.recording.values import own_rank
from firstnan.recording.writer import write


@contextmanager
def record(model: Models, out: str | Path = "nan-dump", *, step: int = 0) -> Iterator[None]:
    """Record what happens in the block, for ``firstnan analyze OUT``::

        with firstnan.record(model, "nan-dump"):
            loss = model(batch).loss
            loss.backward()

    Each rank writes ``out/step<step>/rank<rank>``, also when the block raises: what was under way then has no result
    in the dump. Compiled code has no calls to see; run the block uncompiled.

    Raises:
        UsageError: there is a dump of this step and rank already; before the block runs.
        OutputError: the dump could not be written; after the block.
    """
    folder = Path(out) / f"step{step}" / f"rank{own_rank()}"
    if folder.exists():
        raise UsageError(f"'{folder}' is there already", hint="choose another folder or step")
    recorder = StepRecorder(model)
    try:
        with recorder:
            yield
    finally:
        write(recorder.step, folder)
