"""What ``import firstnan`` gives."""

from __future__ import annotations

import firstnan
from firstnan.dump import errors


def test_the_public_names_are_sorted_and_there() -> None:
    assert list(firstnan.__all__) == sorted(firstnan.__all__)
    assert all(hasattr(firstnan, name) for name in firstnan.__all__)


def test_every_error_is_public() -> None:
    tree = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert tree <= set(firstnan.__all__)
