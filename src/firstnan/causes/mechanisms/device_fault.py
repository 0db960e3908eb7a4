"""# device fault

From the recorded inputs the CPU does not get the recorded result: a kernel, the device or its memory computed something
else.

## What proves it
`firstnan replay` runs the record again from its dumped tensors. NaN or Inf that the CPU does not get, or finite values
that no rounding explains: *likely*. An argument that is not recorded, or a tensor that was saved after it had changed,
can look the same, so that no replay on the CPU alone makes it certain.

## Example
A matrix product that gives NaN in one head and two rows (imitated); the CPU gets finite numbers from the same inputs.

## How to fix it
Write the repro (`--repro DIR`) and run it on the suspect device and on another one. What stays with the device is the
device's, what every device of the kind shows is the kernel's.
"""

from __future__ import annotations

from firstnan.answer.model import Confidence, Mechanism, MechanismKind
from firstnan.answer.replay import Replay, ReplayVerdict
from firstnan.causes.mechanisms.case import found


def device_fault(replay: Replay) -> Mechanism | None:
    """The recorded inputs do not explain the recorded result."""
    if not replay.verdict.blames_device:
        return None
    bad = replay.elements
    key = "why.not_reproduced" if replay.verdict is ReplayVerdict.NOT_REPRODUCED else "why.values_differ"
    return found(
        MechanismKind.DEVICE_FAULT,
        Confidence.LIKELY,
        key,
        count=0 if bad is None else bad.bad,
        of=0 if bad is None else bad.of,
    )
