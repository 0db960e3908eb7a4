"""Prints, for people, what each made dump shows around its root: a check of truth.json by eye."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dumps import load, rank_folders, tensors


def brief(value: Any) -> str:
    return " ".join(f"{t['Max']}/{t['Min']}:{str(t.get('dtype'))[6:]}{t['shape']}" for t in list(tensors(value))[:4])


def review(case: Path) -> None:
    t = json.loads((case / "truth.json").read_text())
    print(f"\n=== {t['case']} {t['verdict']} {t['setup']['topology']} comm={t['source_ranks_first_comm']}")
    for r in t["root_causes"]:
        print("   root", r["step"], r["rank"], r["op_names"], r["where"], r["mechanism"], r.get("ranks_also", ""))
    for step in sorted(case.glob("step*")):
        for rank, folder in rank_folders(step).items():
            harmless = set(t["benign_nonfinite"].get(f"{step.name}/rank{rank}", []))
            recs = load(folder)
            odd = [r for r in recs if (r.made != "finite" or r.given != "finite") and r.name not in harmless]
            print(f"  {step.name} rank{rank}: {len(recs)} records, {len(odd)} odd, {len(harmless)} harmless:", end=" ")
            print(*sorted(harmless)[:3])
            for r in odd[:4]:
                ins = brief([r.raw.get("input_args", r.raw.get("input")), r.raw.get("input_kwargs")])
                print(f"     {r.index} {r.name} {r.given}->{r.made} | {ins} -> {brief(r.raw.get('output'))}"[:260])


if __name__ == "__main__":
    for arg in sys.argv[1:]:
        review(Path(arg))
