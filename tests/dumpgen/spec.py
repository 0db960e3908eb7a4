"""What a case is: a model, a way to run it, a fault, and where the fault must show in the dump."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Root:
    """Where a fault has to show.

    `api` is a prefix such as "Torch.exp" (or "Module" where only modules are dumped), `module` a part of the enclosing
    module's record name, `kind` what the record has to show: `birth` (inputs without NaN or +Inf, bad output), `entry`
    (a bad input), `comm` (finite inputs on all members, bad output), `finite` (a finite record, named for another
    reason), `missing` (no record). `nth` takes a later match; `argument` asks for the bad input slot.
    """

    api: str
    where: str
    mechanism: str
    module: str = ""
    rank: int = 0
    step: int = 0
    direction: str = "forward"
    kind: str = "birth"
    nth: int = 0
    where_also: tuple[str, ...] = ()
    mechanism_also: tuple[str, ...] = ()
    ranks_also: tuple[int, ...] = ()
    also: tuple[Root, ...] = ()  # further records that are equally right: their names are added
    half: tuple[Root, ...] = ()  # further records worth half


@dataclass(frozen=True)
class Case:
    """One run. `ranks` and `step` say where the fault is switched on."""

    name: str
    net: str
    par: str = "single"
    world: int = 1
    roots: tuple[Root, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()  # (path below the model, or "" for a loss term; class name in parts.py)
    edit: Callable[[Any], None] | None = None  # spoils the model, before it is wrapped
    late_edit: Callable[[Any], None] | None = None  # the same, after it was wrapped, on `late_ranks` (or `ranks`) only
    late_ranks: tuple[int, ...] | None = None
    shard_edit: Callable[[Any], None] | None = None  # spoils the shard that `zero` is about to gather
    edit_batch: Callable[[dict[str, Any]], None] | None = None
    ranks: tuple[int, ...] = (0,)
    step: int = 0
    steps: int = 1
    micro: int = 1
    dtype: str = "fp32"  # fp32, fp16, bf16 (parameters), fp16amp, bf16amp (autocast)
    level: str = "mix"
    risk: str = ""  # "" is the recorder's default
    ckpt: str = ""  # "reentrant" or "nonreentrant"
    optim: Callable[[Any], Any] | None = None  # makes the optimizer
    bad_optim: Callable[[Any], Any] | None = None  # makes it in the faulty run
    bad_scale: float = 0.0  # `dpflat16`: static scale of the compressed gradients in the faulty run
    backoff: float = 0.5  # of the loss scaler
    clip: float = 0.0
    group: bool = True  # False: no process group at all
    scale: float = 65536.0  # initial loss scale of fp16amp
    over: dict[str, Any] = field(default_factory=dict)
    benign: tuple[str, ...] = ()  # kinds of harmless non-finite values that must be there, for people
    harmless_at: tuple[Root, ...] = ()  # harmless records that the run without the fault does not show
    drop_ranks: tuple[int, ...] = ()  # ranks whose folder is taken away afterwards
    first_comm: bool = True  # work out source_ranks_first_comm
    current_only: bool = False  # the answer holds for MSProbe 26 only: older versions record more
    notes: str = ""
