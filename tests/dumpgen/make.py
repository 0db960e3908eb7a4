"""Makes real MSProbe dumps of tiny real models with faults at known places. See README.md beside this file."""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing as mp
import os
import re
import shutil
import socket
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from cases import CASES  # noqa: E402
from dumps import TruthError, truth  # noqa: E402
from spec import Case  # noqa: E402


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def child(case: Case, rank: int, port: int, out: Path, faulty: bool) -> None:
    from train import rank_main

    log = os.open(out.with_name(f"{out.name}.log{rank}"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    rank_main(case, rank, case.world, port, out, faulty)


def run(case: Case, out: Path, faulty: bool, limit: float = 150.0) -> None:
    """Run all ranks of a case in forked processes; the parent never computes anything with torch."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    port = free_port()
    ctx = mp.get_context("fork")
    procs = [ctx.Process(target=child, args=(case, r, port, out, faulty)) for r in range(case.world)]
    for p in procs:
        p.start()
    end = time.monotonic() + limit
    for p in procs:
        p.join(max(0.1, end - time.monotonic()))
    stuck = [p for p in procs if p.is_alive()]
    for p in stuck:
        p.kill()
    codes = [p.exitcode for p in procs]
    if stuck or any(codes):
        logs = [out.with_name(f"{out.name}.log{r}").read_text()[-1500:] for r in range(case.world)]
        raise RuntimeError(f"{case.name}: exit codes {codes}\n" + "\n---\n".join(logs))


def hide_paths(root: Path) -> None:
    """Replace this machine's paths in stack.json."""
    site = re.compile(r"/[^ \",]*/site-packages(?=/)")
    here = str(HERE)
    stdlib = re.compile(r"/[^ \",]*/lib/python3\.\d+(?=/(?!site-packages))")
    for f in root.glob("step*/*/stack.json"):
        text = f.read_text().replace(here, "/workspace/train")
        text = site.sub("/opt/venv/lib/python3.11/site-packages", text)
        text = stdlib.sub("/opt/python/lib/python3.11", text)
        f.write_text(text)


def make(case: Case, target: Path, work: Path) -> None:
    """The faulty run, the same run without the fault (harmless values), truth.json; then into place at once."""
    out, twin = work / case.name, work / f"{case.name}.twin"
    run(case, out, True)
    if case.roots:
        run(case, twin, False)
    for r in case.drop_ranks:
        for folder in out.glob(f"step*/rank{r}"):
            shutil.rmtree(folder)
    result = truth(case, out, twin if case.roots else None)
    hide_paths(out)
    (out / "truth.json").write_text(json.dumps(result, indent=1))
    final = target / case.name
    shutil.rmtree(final, ignore_errors=True)
    shutil.move(str(out), str(final))
    shutil.rmtree(twin, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for the cases")
    parser.add_argument("--work", type=Path, help="folder for unfinished runs (default: OUT.work, beside it)")
    parser.add_argument("--only", action="append", default=[], help="case name or a part of it (repeatable)")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--suffix", default="", help="added to the names of the cases (for another MSProbe version)")
    parser.add_argument("--new", action="store_true", help="skip cases that OUT already holds")
    args = parser.parse_args()
    chosen = [c for c in CASES if not args.only or any(o in c.name for o in args.only)]
    if args.list or args.out is None:
        for c in chosen:
            print(f"{c.name:32} {c.net:8} {c.par:8} {c.world} {'anomaly' if c.roots else 'clean'}")
        return 0
    if args.suffix:
        chosen = [c for c in chosen if not c.current_only]
    chosen = [dataclasses.replace(c, name=c.name + args.suffix) for c in chosen]
    if args.new:
        chosen = [c for c in chosen if not (args.out / c.name / "truth.json").is_file()]
    import numpy as np

    if not hasattr(np, "unicode_"):  # MSProbe 8.x still asks for the name that NumPy 2 dropped
        np.unicode_ = np.str_
    import msprobe.pytorch  # noqa: F401  (once, here: the forked ranks then start at once)
    import train  # noqa: F401
    import transformers  # noqa: F401

    work = args.work or args.out.with_name(f"{args.out.name}.work")
    failed = []
    for case in chosen:
        begin = time.monotonic()
        try:
            make(case, args.out, work)
        except (RuntimeError, TruthError) as e:
            failed.append(case.name)
            print(f"FAILED {case.name}: {e}", flush=True)
            continue
        print(f"ok {case.name} {time.monotonic() - begin:.0f} s", flush=True)
    if failed:
        print("failed:", *failed)
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
