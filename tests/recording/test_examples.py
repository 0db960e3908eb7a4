"""The examples of ``examples/guard`` run, and find the step that they spoil."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

import firstnan  # noqa: E402

pytestmark = pytest.mark.torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "guard"
NEEDS = {
    "plain_loop": ("torch",),
    "accelerate_loop": ("accelerate",),
    "hf_trainer": ("transformers", "accelerate"),  # a trainer asks for it when it is made
    "lightning_callback": ("lightning",),
}


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(NEEDS)


@pytest.mark.filterwarnings("ignore")  # of other people's trainers
@pytest.mark.parametrize("name", NEEDS)
def test_the_bad_step_is_found(tmp_path: Path, name: str) -> None:
    absent = [one for one in NEEDS[name] if importlib.util.find_spec(one) is None]
    if absent:
        pytest.skip(f"{' and '.join(absent)} is not installed")
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    guard = example.main(str(tmp_path / "d"))
    assert (guard.off, [(f.step, f.reproduced) for f in guard.findings]) == (None, [(example.BAD_STEP, True)])
    cause = firstnan.analyze(tmp_path / "d").root_causes[0]
    assert cause.mechanism.kind.value in ("fp32_overflow", "large_value_propagation")
    assert cause.location is not None
    assert cause.location.file == str(EXAMPLES / f"{name}.py")
