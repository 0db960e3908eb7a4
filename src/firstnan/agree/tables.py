"""The parameters of one rank, opened; ranks that hold the same ones share names and shapes."""

from __future__ import annotations

from collections.abc import Mapping

from firstnan.read.fingerprints import NUMBERS, STATISTICS, ParameterPrints

Value = bytes
"""What is compared of one parameter: its packed numbers, and its checksum where that counts."""


class Names:
    """Texts that many ranks have in common, split once."""

    def __init__(self) -> None:
        self._split: dict[str, tuple[str, ...]] = {}
        self._places: dict[str, Mapping[str, int]] = {}

    def split(self, joined: str) -> tuple[str, ...]:
        """The lines of a text."""
        found = self._split.get(joined)
        if found is None:
            found = self._split[joined] = tuple(joined.split("\n")) if joined else ()
        return found

    def places(self, joined: str) -> Mapping[str, int]:
        """Line -> position."""
        found = self._places.get(joined)
        if found is None:
            found = self._places[joined] = {name: at for at, name in enumerate(self.split(joined))}
        return found


class Table:
    """One rank's parameters."""

    __slots__ = ("checksums", "forms", "names", "on_device", "places", "prints")

    def __init__(self, prints: ParameterPrints, known: Names, *, on_device: bool = False) -> None:
        self.prints = prints
        self.names = known.split(prints.names)
        self.forms = known.split(prints.forms)
        self.places = known.places(prints.names)
        """Name -> position."""
        self.on_device = on_device
        """Checksums count: MSProbe takes those of host tensors late, without a copy, and they prove nothing."""
        self.checksums = tuple(prints.checksums.split("\n")) if prints.checksums else ()

    def __len__(self) -> int:
        return len(self.names)

    def same_as(self, other: Table) -> bool:
        """All parameters are the same, in the same order, with equal values."""
        one, two = self.prints, other.prints
        if (one.numbers, one.names, one.forms) != (two.numbers, two.names, two.forms):
            return False
        return not (self.on_device or other.on_device) or one.checksums == two.checksums

    def statistics(self, at: int) -> tuple[float, float, float, float]:
        """Max, Min, Mean, Norm of one parameter; NaN where they are absent."""
        high, low, mean, norm = NUMBERS.unpack_from(self.prints.numbers, at * STATISTICS)
        return high, low, mean, norm

    def value(self, at: int) -> Value | None:
        """What is compared; None: nothing that proves anything is recorded."""
        high, *_ = self.statistics(at)
        numbers = self.prints.numbers[at * STATISTICS : (at + 1) * STATISTICS] if high == high else b""
        checksum = self.checksums[at].encode() if self.checksums and self.on_device else b""
        return numbers + checksum or None

    def is_informative(self, at: int) -> bool:
        """Its elements differ, as far as is known: being equal is no accident."""
        high, low, *_ = self.statistics(at)
        return high != low

    def index(self, at: int) -> int:
        """The record in which it is first used."""
        return int.from_bytes(self.prints.indices[4 * at : 4 * at + 4], "little")

    def result(self, at: int) -> int:
        """Digest of the first result of the module that owns it."""
        return int.from_bytes(self.prints.outputs[4 * at : 4 * at + 4], "little")

    def is_affine(self, at: int) -> bool:
        """See :attr:`firstnan.read.fingerprints.ParameterPrints.affine`."""
        return bool(self.prints.affine[at])
