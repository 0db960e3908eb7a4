"""What ``import firstnan`` gives."""

from __future__ import annotations

import importlib.util

import pytest

import firstnan
from firstnan.dump import errors

HAS_TORCH = importlib.util.find_spec("torch") is not None
WITH_TORCH = ["Guard", "guard", "record"]


def test_the_public_names_are_sorted_and_there() -> None:
    assert list(firstnan.__all__) == sorted(firstnan.__all__)
    present = firstnan.__all__ if HAS_TORCH else [name for name in firstnan.__all__ if name not in WITH_TORCH]
    assert all(hasattr(firstnan, name) for name in present)


@pytest.mark.skipif(HAS_TORCH, reason="PyTorch is installed")
@pytest.mark.parametrize("name", WITH_TORCH)
def test_what_needs_pytorch_says_how_to_install_it(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=r'pip install "firstnan\[record\]"'):
        getattr(firstnan, name)


def test_every_error_is_public() -> None:
    tree = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert tree <= set(firstnan.__all__)
