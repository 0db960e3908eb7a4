"""What became of every non-finite value that was recorded: each stands in exactly one account.

The unit is one tensor in one place of one record (an argument, a result, a parameter, a gradient) whose Max or Min is
not finite: what a reader of the JSON text alone would count.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Account(Enum):
    """What became of a value."""

    HARMLESS = "harmless"
    """A named rule says that it means nothing: a mask, an ignored operator, a look at a value."""
    DROPPED = "dropped"
    """It went in and provably did not come out: a recorded, finite result, or memory that was written over."""
    EXPLAINED = "explained"
    """It follows from a cause that is named, or is the cause's own."""
    CONTAINED = "contained"
    """Nothing took it in that matters: garbage in memory, a value without a reader in a step that went on finite."""
    OPEN = "open"
    """Nothing shows what became of it."""


class Fate(Enum):
    """Why a value stands in its account."""

    RULE = "rule"
    """Harmless: the rule that is named."""
    LOOKED_AT = "looked_at"
    """Harmless: an operator looked at it and decided (isnan, a comparison)."""
    REJECTED = "rejected"
    """Harmless: the user rejected this record (``--exclude-op``)."""
    SELECTED = "selected"
    """Dropped: an operator that chooses elements has a finite result."""
    SATURATED = "saturated"
    """Dropped: an operator that is finite at infinity has a finite result."""
    IN_MODULE = "in_module"
    """Dropped: the module around it has a finite result."""
    CAUSE = "cause"
    """Explained: it reached the loss, a gradient, an update, an output or another rank from a named cause."""
    BEHIND = "behind"
    """Explained: recorded behind a named cause on a rank that it reached; no link shows that it follows: single values
    were not followed there, or it comes from another record whose inputs are clean."""
    LATER_STEP = "later_step"
    """Explained: in a step behind the one whose cause is named."""
    SKIPPED = "skipped"
    """Explained: a gradient overflow that the loss scaler skipped."""
    MEMORY = "memory"
    """Contained: memory before it was written: fresh, of a receive, of an ``out=`` argument."""
    ISLAND = "island"
    """Contained: computed with garbage and thrown away."""
    UNREAD = "unread"
    """Contained: no record reads it, and the backward pass that follows does not show it."""
    CALL = "call"
    """Contained: it went through a communication call and every member dropped it."""
    NO_RESULT = "no_result"
    """Open: its reader has no recorded result."""
    NO_READER = "no_reader"
    """Open: no record reads it, and no backward pass follows that would show it."""
    NO_CAUSE = "no_cause"
    """Open: it matters, and no cause is named for it."""
    LIMIT = "limit"
    """Open: it stands where nothing was followed any more."""
    UNUSABLE = "unusable"
    """Open: what was recorded may be an artefact of the dumping tool (an infinite float64 that was narrowed)."""

    __hash__ = object.__hash__  # one object per member; that of Enum is Python, and asked for again and again

    @property
    def account(self) -> Account:
        """Where such a value stands."""
        return _ACCOUNTS[self]


_ACCOUNTS = {
    **dict.fromkeys((Fate.RULE, Fate.LOOKED_AT, Fate.REJECTED), Account.HARMLESS),
    **dict.fromkeys((Fate.SELECTED, Fate.SATURATED, Fate.IN_MODULE), Account.DROPPED),
    **dict.fromkeys((Fate.CAUSE, Fate.BEHIND, Fate.LATER_STEP, Fate.SKIPPED), Account.EXPLAINED),
    **dict.fromkeys((Fate.MEMORY, Fate.ISLAND, Fate.UNREAD, Fate.CALL), Account.CONTAINED),
    **dict.fromkeys((Fate.NO_RESULT, Fate.NO_READER, Fate.NO_CAUSE, Fate.LIMIT, Fate.UNUSABLE), Account.OPEN),
}


class Entry(Struct, frozen=True):
    """Values with the same fate."""

    account: Account
    fate: Fate
    count: int
    rule: str = ""
    """Name of the rule; of harmless values only."""
    example: str = ""
    """The first of them: ``step0/rank3: Tensor.masked_fill.0.forward``."""


class Balance(Struct, frozen=True):
    """How many values stand in each account."""

    harmless: int = 0
    """See :class:`Account`."""
    dropped: int = 0
    """Likewise."""
    explained: int = 0
    """Likewise."""
    contained: int = 0
    """Likewise."""
    open: int = 0
    """Likewise."""

    @property
    def total(self) -> int:
        """All of them."""
        return sum(map(self.of, Account))

    def of(self, account: Account) -> int:
        """How many stand in one account."""
        return {
            Account.HARMLESS: self.harmless,
            Account.DROPPED: self.dropped,
            Account.EXPLAINED: self.explained,
            Account.CONTAINED: self.contained,
            Account.OPEN: self.open,
        }[account]


class RankBalance(Struct, frozen=True):
    """Ranks of one step that hold the same numbers of values."""

    step: int
    ranks: tuple[tuple[int, int], ...]
    """First and last of each range of ranks."""
    each: bool
    """True: ``balance`` is that of every single one of these ranks; False: their sum (many ranks that all differ)."""
    balance: Balance


class Accounts(Struct, frozen=True):
    """All non-finite values that were recorded, each in one account."""

    values: int = 0
    """How many there are."""
    balance: Balance = Balance()
    """Over all steps and ranks."""
    entries: tuple[Entry, ...] = ()
    """The same by the reason, in the order of the accounts."""
    ranks: tuple[RankBalance, ...] = ()
    """The same by step and rank; ranks without a non-finite value are left out."""
