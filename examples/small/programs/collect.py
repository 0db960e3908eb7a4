"""Runs the small programs beside it under MSProbe; the dumps go to the folders above.

    python collect.py                     all of them
    python collect.py exp_overflow ...    some of them

Needs torch and mindstudio-probe (CPU builds are enough). The dumps here are of torch 2.13.0 and mindstudio-probe 26.2.0,
that of uninitialised_memory of mindstudio-probe 8.3.3: newer versions leave ``torch.empty`` out.
A program gives ``model()`` and ``step(model, rank)``; its constants change how it is run and dumped:

    RANKS = 1          processes, joined by gloo
    STEPS = 1
    LEVEL = "mix"      level of the dump
    RISK = "FOCUS"     risk_level (FOCUS is what MSProbe takes when nothing is said)
    SUMMARY = "statistics"
    TASK = "statistics"  "tensor" saves the elements besides, for firstnan replay
    DUMP_RANKS = None  ranks whose dump is kept; None: all of them
    GUARD = False      run by firstnan's guard, which records the second run of a bad step, instead of MSProbe

``before_msprobe(rank)``, where there is one, imitates a fault that no program can order: a device or a network that
answers wrongly. It changes the framework before MSProbe takes hold of it, so that the dump shows what a dump of the real
fault shows.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import re
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
DUMPS = HERE.parent


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("program", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_rank(name: str, rank: int, ranks: int, port: int, target: Path) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.manual_seed(rank)
    program = load(name)
    if getattr(program, "GUARD", False):
        run_guarded(program, rank, ranks, port, target)
        return
    if hasattr(program, "before_msprobe"):
        program.before_msprobe(rank)
    import numpy

    if not hasattr(numpy, "unicode_"):  # MSProbe 8.3 still asks for the name that NumPy 2 dropped
        numpy.unicode_ = numpy.str_
    from msprobe.pytorch import PrecisionDebugger

    task = getattr(program, "TASK", "statistics")
    config = {
        "task": task,
        "dump_path": str(target),
        "rank": [],
        "step": [],
        "level": getattr(program, "LEVEL", "mix"),
        "risk_level": getattr(program, "RISK", "FOCUS"),
        task: {
            "scope": [],
            "list": [],
            "data_mode": ["all"],
            "summary_mode": getattr(program, "SUMMARY", "statistics"),
        },
    }
    file = target / f"config{rank}.json"
    file.write_text(json.dumps(config), "utf-8")
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    debugger = PrecisionDebugger(config_path=str(file))
    model = program.model()
    for _ in range(getattr(program, "STEPS", 1)):
        debugger.start(model=model)
        program.step(model, rank)
        debugger.stop()
        debugger.step()
    dist.destroy_process_group()


def run_guarded(program: ModuleType, rank: int, ranks: int, port: int, target: Path) -> None:
    import firstnan
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    model = program.model()
    with firstnan.guard(model, target, check="gradients", analyze=False) as guard:
        guard.step(lambda: program.step(model, rank))
    dist.destroy_process_group()


def collect(name: str) -> None:
    program = load(name)
    ranks = getattr(program, "RANKS", 1)
    kept = getattr(program, "DUMP_RANKS", None)
    with socket.socket() as found, tempfile.TemporaryDirectory() as folder:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        found.close()
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=run_rank, args=(name, r, ranks, port, Path(folder))) for r in range(ranks)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(120)
            if process.exitcode != 0:
                raise SystemExit(f"{name}: a rank ended with {process.exitcode}")
        for step in sorted(Path(folder).glob("step*")):
            shutil.rmtree(DUMPS / name / step.name, ignore_errors=True)
            for rank in sorted(step.iterdir()):
                if kept is None or int(rank.name.removeprefix("rank")) in kept:
                    shutil.copytree(rank, DUMPS / name / step.name / rank.name)
                    for file in ("stack.json", "dump.json"):
                        hide_paths(DUMPS / name / step.name / rank.name / file)


def hide_paths(file: Path) -> None:
    """Replace this machine's paths."""
    text = file.read_text("utf-8").replace(str(HERE), "/workspace/examples/small/programs")
    text = re.sub(r"/[^ \",]*/site-packages(?=/)", "/opt/venv/lib/python3.11/site-packages", text)
    text = re.sub(r"/[^ \",]*/lib/python3\.\d+(?=/(?!site-packages))", "/opt/python/lib/python3.11", text)
    text = re.sub(r'"dump_data_dir": "[^"]*"', '"dump_data_dir": "/workspace/dump"', text)
    file.write_text(text, "utf-8")


def main(names: list[str]) -> None:
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for name in names or sorted(p.stem for p in HERE.glob("*.py") if p.name != "collect.py"):
        collect(name)
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
