"""A guard around the steps of a training: nothing but a check, until a step is not finite.

What happens then, on all ranks together and before ``optimizer.step()``:

1. The ranks agree that each can go back to where the step began.
2. Random numbers, buffers and gradients go back; the same step runs again and is recorded.
3. Each rank writes its records and guard.json. Everything goes back to where it stood after the *first* run, so that
   the training goes on with the numbers that it would have without a guard.
4. Rank 0 analyses the dump in a process of its own. Where the extra ``replay`` is installed, the step runs once more
   with the elements of the one record that the answer names, and that record runs again on the CPU.
5. Rank 0 tells the answer.

The flag of a step is on its way while the training goes on. It is read before the next ``optimizer.step()`` of any
optimizer of PyTorch, or when the next step begins, whichever comes first.
"""

from __future__ import annotations

import itertools
import logging
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_pre_hook

from firstnan.dump.errors import OutputError
from firstnan.dump.guard_file import GUARD_FILE, GuardFile, RandomState, Trigger
from firstnan.dump.language import Language
from firstnan.recording import closed_loop
from firstnan.recording.checks import Check, Flag, NoAnswerError, Values, agree, values_of
from firstnan.recording.eager import compiled_regions, run_eagerly
from firstnan.recording.outcome import Answer, Finding, Off
from firstnan.recording.recorder import Models, StepRecorder, StepRecords
from firstnan.recording.state import Stateful, StepState, Watched
from firstnan.recording.values import is_distributed, own_rank
from firstnan.recording.writer import write
from firstnan.words import default_language, text

T = TypeVar("T")
_log = logging.getLogger("firstnan")

SKIPPED_STEPS = 20
"""A loss scale of 2**16 is below 1 after that many steps: overflow is no longer its fault."""


@dataclass(slots=True)
class _Pending:
    """A step that has run and whose flag is not read yet."""

    number: int
    function: Callable[[], object]
    before: StepState
    values: Values
    flag: Flag


class Guard:
    """Checks every step; see :func:`guard`."""

    def __init__(
        self,
        model: Models,
        out: str | Path,
        *,
        check: Check | str = Check.LOSS,
        immediate: bool = False,
        scaler: torch.amp.GradScaler | None = None,
        skipped_steps: int = SKIPPED_STEPS,
        times: int = 1,
        generators: Iterable[torch.Generator] = (),
        state: Iterable[Stateful] = (),
        group: Any = None,
        analyze: bool = True,
        language: Language | None = None,
    ) -> None:
        models = [model] if isinstance(model, torch.nn.Module) else list(model)
        self.findings: list[Finding] = []
        """What was found, in order; the same on all ranks but for ``answer``, which only rank 0 has."""
        self.off: Off | None = None
        """Why the guard has switched itself off; None: it is on."""
        self._model = model
        self._watched = Watched(models, generators, state)
        self._out = Path(out)
        self._check = Check(check)
        self._immediate, self._scaled, self._skipped_steps = immediate, scaler is not None, skipped_steps
        self._times, self._group, self._analyze = times, group, analyze
        self._language = default_language() if language is None else language
        self._steps = self._skipped = 0
        self._pending: _Pending | None = None
        self._index: int | None = None
        self._busy = False
        self._device = next((p.device for p in self._watched.parameters()), torch.device("cpu"))
        self._hook = register_optimizer_step_pre_hook(_Before(self))

    def step(self, forward_backward: Callable[[], T]) -> T:
        """Run one step and give back what it returns. Exceptions of the step pass through."""
        if self.off is not None or self._busy or torch.compiler.is_compiling():
            return forward_backward()
        if _is_capturing(self._device):
            self._switch_off(Off.GRAPH_CAPTURE)
            return forward_backward()
        self.settle()
        number, self._steps = self._steps, self._steps + 1
        before = self._guarded(lambda: StepState(self._watched), Off.STATE_NOT_SAVED)
        with self._running():
            result = forward_backward()
        if before is not None and self.off is None:
            self._pending = self._guarded(lambda: self._checked(number, forward_backward, before, result), Off.FAILED)
            if self._immediate:
                self.settle()
        return result

    def _checked(self, number: int, function: Callable[[], object], before: StepState, result: object) -> _Pending:
        values = values_of(result, self._check, self._watched.parameters(), self._device)
        return _Pending(number, function, before, values, Flag(values, self._device, self._group))

    def settle(self) -> None:
        """Read the flag of the last step, and act on it. Comes by itself before the next step or optimizer step."""
        pending, self._pending = self._pending, None
        if pending is None or self._busy or self.off is not None:
            return
        with self._running():
            self._guarded(lambda: self._judge(pending), Off.FAILED)

    def _judge(self, pending: _Pending) -> None:
        trigger = self._trigger(pending.flag.read())
        if trigger is not None and len(self.findings) < self._times:
            self._run_again(pending, trigger)

    def close(self) -> None:
        """Read the flag of the last step and let go of the model."""
        self.settle()
        self._hook.remove()

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self.settle()
        self._pending = None
        self._hook.remove()

    # The check -------------------------------------------------------------------------------------------------------

    def _trigger(self, bad: frozenset[Trigger]) -> Trigger | None:
        """What the guard fires on. A loss scaler skips a step with bad gradients and lowers its scale: that is its
        work, unless it goes on."""
        if Trigger.LOSS in bad:
            return Trigger.LOSS
        self._skipped = self._skipped + 1 if bad else 0
        if bad and (not self._scaled or self._skipped >= self._skipped_steps):
            return Trigger.GRADIENT_NORM
        return None

    # The second run --------------------------------------------------------------------------------------------------

    def _run_again(self, pending: _Pending, trigger: Trigger) -> None:
        moved = pending.before.parameters_changed()
        wanted = _free_index(self._out) if self._index is None else self._index
        changed, self._index = agree([int(moved), wanted], self._device, self._group)
        if changed:
            self._switch_off(Off.PARAMETERS_CHANGED)
            return
        after = StepState(self._watched)
        try:
            pending.before.restore()
            recorder, again, error = self._record(pending.function)
            bad = Flag(again, self._device, self._group).read() if error is None else None
        finally:
            after.restore()
        out = self._out_folder()
        file = self._guard_file(pending, trigger, again if error is None else None, bad, error)
        folder = out / f"step{file.step}" / f"rank{file.rank}"
        written = self._write(recorder.step, folder, {GUARD_FILE: _text(file)})
        agree([0], self._device, self._group)  # every rank has written
        finding = Finding(pending.number, trigger, file.first, file.again, file.reproduced, out if written else None)
        self.findings.append(finding)
        if finding.dump is not None and self._analyze and own_rank() == 0:
            finding.answer = closed_loop.analyze(finding.dump, finding.step)
        self._run_suspect(pending, finding)
        if own_rank() == 0:
            _log.warning(closed_loop.message(finding, self._language))

    def _run_suspect(self, pending: _Pending, finding: Finding) -> None:
        """A third run, with the elements of the one record that the answer names, and that record again on the CPU."""
        answer = finding.answer
        wanted = answer if answer is not None and answer.op_name and closed_loop.can_replay() else None
        rank, *letters = agree(_spelled(wanted), self._device, self._group)
        if not rank:
            return
        name = "".join(map(chr, letters)).rstrip("\0")
        after = StepState(self._watched)
        try:
            pending.before.restore()
            recorder, _, _ = self._record(pending.function, closed_loop.needed_for(name))
        finally:
            after.restore()
        tensors = _tensors(self._out_folder())
        if own_rank() == rank - 1:
            self._write(recorder.step, tensors / f"step{pending.number}" / f"rank{own_rank()}")
        agree([0], self._device, self._group)  # it is written
        if answer is not None and own_rank() == 0 and tensors.is_dir():
            finding.replay = closed_loop.replay(tensors, finding.step, rank - 1, name)

    def _out_folder(self) -> Path:
        return _numbered(self._out, self._index or 0)

    def _record(
        self, function: Callable[[], object], keep: Collection[str] = ()
    ) -> tuple[StepRecorder, Values, str | None]:
        recorder = StepRecorder(self._model, keep)
        nothing = Values(None, None)
        try:
            with torch.enable_grad(), run_eagerly(self._watched.models), recorder:
                result = function()
        except Exception as error:  # noqa: BLE001  # whatever the program raises: the training has not raised it
            return recorder, nothing, f"{type(error).__name__}: {error}"
        return recorder, values_of(result, self._check, self._watched.parameters(), self._device), None

    def _guard_file(
        self,
        pending: _Pending,
        trigger: Trigger,
        again: Values | None,
        bad: frozenset[Trigger] | None,
        error: str | None,
    ) -> GuardFile:
        return GuardFile(
            step=pending.number,
            rank=own_rank(),
            world=dist.get_world_size() if is_distributed() else 1,
            trigger=trigger,
            first=pending.values.on_host(),
            again=None if again is None else again.on_host(),
            reproduced=None if bad is None else bool(bad),
            eager_regions=compiled_regions(self._watched.models),
            random_state=RandomState.RESTORED,
            error=error or "",
            torch=str(torch.__version__),
            device=self._device.type,
        )

    def _write(self, step: StepRecords, folder: Path, more: Mapping[str, str] | None = None) -> bool:
        try:
            write(step, folder, more)
        except OutputError as error:  # the disk is full: the training goes on
            _log.warning(text("guard.not_written", self._language, reason=str(error)))
            return False
        return True

    # Life ------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _running(self) -> Iterator[None]:
        """While the step runs, no flag is read: an optimizer may step inside it."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def _guarded(self, work: Callable[[], T], reason: Off) -> T | None:
        """The guard's own work: whatever goes wrong in it ends the guard, not the training."""
        try:
            return work()
        except NoAnswerError as error:
            self._switch_off(Off.NO_ANSWER, str(error))
        except Exception as error:  # noqa: BLE001  # the training has not raised it and must not see it
            self._switch_off(reason, f"{type(error).__name__}: {error}")
        return None

    def _switch_off(self, reason: Off, detail: str = "") -> None:
        self.off, self._pending = reason, None
        self._hook.remove()
        _log.warning(text(f"guard.off.{reason.value}", self._language, detail=detail))


class _Before:
    """Called before every ``optimizer.step()``. It does not keep a guard alive."""

    def __init__(self, guard: Guard) -> None:
        self._guard = weakref.ref(guard)

    def __call__(self, *_: object) -> None:
        guard = self._guard()
        if guard is not None:
            guard.settle()


_LONGEST = 200
"""Letters of a record name; longer ones are not run again."""


def _spelled(answer: Answer | None) -> list[int]:
    """Rank (from 1 on) and record name as numbers, so that all ranks can agree on them without pickles."""
    if answer is None or answer.rank is None or len(answer.op_name) > _LONGEST:
        return [0] * (_LONGEST + 1)
    return [answer.rank + 1, *map(ord, answer.op_name.ljust(_LONGEST, "\0"))]


def _is_capturing(device: torch.device) -> bool:
    """Whether calls are being captured into a graph, where nothing may wait or branch."""
    capturing = getattr(getattr(torch, device.type, None), "is_current_stream_capturing", None)
    return bool(capturing is not None and capturing())


def _free_index(out: Path) -> int:
    """The first number under which nothing stands yet: dumps of two runs must not mix."""
    return next(
        index
        for index in itertools.count()
        if not _is_taken(_numbered(out, index)) and not _is_taken(_tensors(_numbered(out, index)))
    )


def _is_taken(folder: Path) -> bool:
    return any(folder.iterdir()) if folder.is_dir() else folder.exists()


def _text(file: GuardFile) -> str:
    return msgspec.json.format(msgspec.json.encode(file), indent=1).decode() + "\n"


def _tensors(out: Path) -> Path:
    """Where the elements of a record go, beside the dump."""
    return out.with_name(f"{out.name}-tensors")


def _numbered(out: Path, index: int) -> Path:
    return out if index == 0 else out.with_name(f"{out.name}-{index + 1}")


def guard(model: Models, out: str | Path = "nan-dump", **options: Any) -> Guard:
    """A guard for a training loop: ``loss = guard.step(lambda: forward_backward(batch))``."""
    return Guard(model, out, **options)
