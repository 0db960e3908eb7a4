"""Tensor files of a dump, opened as what they are: data of strangers.

A file is found by its base name in the rank's own ``dump_tensor_data``, opened only when it is a regular file that lies
there without a link leading out, and read as data alone (``weights_only``, no pickled numpy). What it holds has to have
the shape and dtype that the record tells.
"""

from __future__ import annotations

import math
import pickle
import struct
import warnings
import zipfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy
import torch

from firstnan.answer.replay import NotRun
from firstnan.dump.values import normalise_dtype, parse_number
from firstnan.read.sources.files import Fault, Opened, open_regular
from firstnan.read.sources.places import on_disk, open_file
from firstnan.replaying.refusal import RefusedError

FOLDER = "dump_tensor_data"

DTYPES: dict[str, torch.dtype] = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
"""Every dtype by its name and short name."""

_UNREADABLE = (
    OSError, RuntimeError, ValueError, TypeError, EOFError, LookupError, AttributeError, ArithmeticError,
    AssertionError, struct.error, pickle.UnpicklingError, zipfile.BadZipFile,
)  # fmt: skip
"""What torch and numpy raise of files that are damaged, or were made to be: found by changing bytes at random."""

_MAPPED = 32 << 20
"""Bytes of a file beyond which it is mapped: what is not looked at takes no memory."""

_SLACK = 1e-5
"""Relative difference between a file and the record's Max and Min that rounding in the writer explains."""


class TensorFolder:
    """The saved tensors of one rank."""

    def __init__(self, rank: Path) -> None:
        self._rank = rank
        self._folder = rank / FOLDER
        self._is_in_archive = on_disk(rank) != rank

    def load(self, raw: Mapping[str, object]) -> torch.Tensor:
        """The tensor that an entry of dump.json tells of.

        Raises:
            RefusedError: it was not saved, or its file is not what it should be.
        """
        shape, dtype = shape_of(raw), dtype_of(raw)
        name = raw.get("data_name")
        if not isinstance(name, str):
            if dtype is not None and shape is not None and 0 in shape:
                return torch.zeros(shape, dtype=dtype)
            raise RefusedError(NotRun.NO_TENSORS)
        tensor = self._read(name)
        if shape is not None and tuple(tensor.shape) != shape:
            raise RefusedError(NotRun.BAD_FILE, f"{_base(name)} has the shape {list(tensor.shape)}, not {list(shape)}")
        if dtype is not None and tensor.dtype != dtype:
            if not name.endswith(".npy"):  # numpy has no bfloat16: the writer saves it as float32
                raise RefusedError(NotRun.BAD_FILE, f"{_base(name)} holds {tensor.dtype}, not {dtype}")
            tensor = tensor.to(dtype)
        return tensor

    def _read(self, name: str) -> torch.Tensor:
        base = _base(name)
        place, opened = self._opened(base)
        if isinstance(opened, Fault):
            raise RefusedError(NotRun.NO_TENSORS if opened.missing else NotRun.BAD_FILE, f"{base}: {opened.detail}")
        with opened.file as file, warnings.catch_warnings():
            try:
                if base.endswith(".npy"):
                    return torch.from_numpy(numpy.load(file, allow_pickle=False))
                mapped = opened.size > _MAPPED and place is not None
                source = place if mapped else file
                warnings.simplefilter("ignore")  # torch warns of files that it then refuses
                found = torch.load(source, map_location="cpu", weights_only=True, mmap=mapped)
            except _UNREADABLE as error:
                raise RefusedError(NotRun.BAD_FILE, f"{base}: {type(error).__name__}") from error
        if not isinstance(found, torch.Tensor) or found.layout != torch.strided or found.is_quantized:
            raise RefusedError(NotRun.BAD_FILE, f"{base} holds no plain tensor")
        return found.detach()

    def _opened(self, base: str) -> tuple[Path | None, Opened | Fault]:
        """A file and the place where it lies on disk; None: inside an archive, from which no link leads out."""
        if self._is_in_archive:
            return None, open_file(self._folder / base)
        try:
            place = self._home / base
            if place.is_symlink():
                place = place.resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise RefusedError(NotRun.BAD_FILE, f"{base}: {type(error).__name__}") from error
        if place.parent != self._home:
            raise RefusedError(NotRun.BAD_FILE, f"{base} lies outside of {FOLDER}")
        return place, open_regular(place)

    @cached_property
    def _home(self) -> Path:
        """The folder without links; one that is itself a link leads out of the rank."""
        home = self._rank.resolve() / FOLDER
        if home.is_symlink():
            raise RefusedError(NotRun.BAD_FILE, f"{FOLDER} is a link")
        return home


def _base(name: str) -> str:
    base = PurePosixPath(name.replace("\\", "/")).name
    if base in ("", ".", "..") or "\0" in base:
        raise RefusedError(NotRun.BAD_FILE, "a file name that leads nowhere")
    return base


def shape_of(raw: Mapping[str, object]) -> tuple[int, ...] | None:
    """The recorded shape; None when there is none."""
    sizes = raw.get("shape")
    if isinstance(sizes, list) and all(isinstance(size, int) and size >= 0 for size in sizes):
        return tuple(sizes)
    return None


def dtype_of(raw: Mapping[str, object]) -> torch.dtype | None:
    """The recorded dtype; None for one that torch does not have."""
    return DTYPES.get(normalise_dtype(str(raw.get("dtype", ""))))


def size_of(raw: Mapping[str, object]) -> int:
    """Bytes of the recorded tensor."""
    shape, dtype = shape_of(raw), dtype_of(raw)
    return 0 if shape is None else math.prod(shape) * (8 if dtype is None else dtype.itemsize)


def is_stale(tensor: torch.Tensor, raw: Mapping[str, object]) -> bool:
    """Whether the elements are other ones than those of which the record tells Max and Min."""
    largest, least = parse_number(raw.get("Max")), parse_number(raw.get("Min"))
    if largest is None or least is None or not tensor.numel() or tensor.is_complex():
        return False
    values = tensor.float() if tensor.is_floating_point() and tensor.element_size() < 2 else tensor
    if tensor.dtype == torch.bool:
        return (bool(values.any()), bool(values.all())) != (bool(largest), bool(least))
    return not (_near(float(values.max()), float(largest)) and _near(float(values.min()), float(least)))


def _near(one: float, other: float) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    if math.isinf(one) or math.isinf(other):
        return one == other or (abs(one) > 3e38 and abs(other) > 3e38)  # float64 that went through float32
    return math.isclose(one, other, rel_tol=_SLACK, abs_tol=1e-37)
