"""The table of operators held against those of the installed torch."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch", reason="needs torch: make torch")

from torch.overrides import get_overridable_functions  # noqa: E402

from firstnan.dump.records import Direction, RecordKind, RecordName  # noqa: E402
from firstnan.operators.table import load, short_api  # noqa: E402

pytestmark = pytest.mark.torch
LISTED = Path(__file__).with_name("operators_without_rule.txt")
SPACES = {
    torch: "Torch",
    torch.functional: "Torch",
    torch.nn.functional: "Functional",
    torch.Tensor: "Tensor",
    torch.linalg: "Torch",
    torch.special: "Torch",
    torch.fft: "Torch",
}
"""Where MSProbe finds operators, and the prefix under which it records them."""
BESIDE_VALUES = ("is_*", "set_*", "get_*", "sym_*", "q_*", "quantize*", "fbgemm*", "cudnn_*", "miopen_*", "mkldnn_*")
"""Names that compute no values, or are another library's form of an operator."""


def test_what_torch_has_and_the_table_has_not_is_listed() -> None:
    book = load()
    unknown = set()
    for space, functions in get_overridable_functions().items():
        prefix = SPACES.get(space) if isinstance(space, (ModuleType, type)) else None
        for function in functions if prefix else ():
            name = getattr(function, "__name__", "_")
            api = short_api(RecordName("", RecordKind.API, "Torch", name, "", 0, Direction.FORWARD))
            if api.startswith("_") or api in book.operators or any(fnmatchcase(api, p) for p in BESIDE_VALUES):
                continue
            if not any(fnmatchcase(f"{prefix}.{api}", pattern) for rule in book.rules for pattern in rule.ops):
                unknown.add(api)
    listed = set(LISTED.read_text("utf-8").split())
    assert sorted(unknown - listed) == [], "no rule: teach operators.toml, or list them in operators_without_rule.txt"
    known = {api for api in listed if api in book.operators}
    assert sorted(known) == [], "have a rule now: take them out of operators_without_rule.txt"
