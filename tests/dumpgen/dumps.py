"""Looks at a dump, independently of the analyser: finds records, checks what they show, writes truth.json."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec import Case, Root

API = re.compile(r"^(?P<api>.+)\.(?P<n>\d+)\.(?P<dir>forward|backward)$")
MODULE = re.compile(r"^(?P<api>(Module|Cell)\..+)\.(?P<dir>forward|backward)\.(?P<n>\d+)$")


class TruthError(RuntimeError):
    """The dump does not show what the case says it shows."""


def tensors(value: Any) -> Iterator[dict[str, Any]]:
    """All tensor entries below a JSON value."""
    if isinstance(value, list):
        for v in value:
            yield from tensors(v)
    elif isinstance(value, dict):
        if isinstance(value.get("type"), str) and "shape" in value:
            yield value
        else:
            for v in value.values():
                yield from tensors(v)


def state(value: Any) -> str:
    """Worst state of the tensors and float scalars below a value: finite, -inf (alone), bad."""
    worst = "finite"
    numbers: list[Any] = []
    for t in tensors(value):
        numbers += [t.get("Max"), t.get("Min")]
    for n in numbers:
        if isinstance(n, float) and not math.isfinite(n):
            if math.isnan(n) or n > 0:
                return "bad"
            worst = "-inf"
    for t in tensors(value):
        # nothing but -inf is no mask
        if t.get("Max") == -math.inf:
            worst = "-inf"
    return worst


@dataclass(frozen=True)
class Rec:
    """One record with the states of its two sides."""

    name: str
    index: int
    direction: str
    api: str
    given: str
    made: str
    parent: str
    raw: Any


def real_input(name: str, rec: dict[str, Any]) -> Any:
    """The part of a record that it really reads: the send side of a communication, else all of it."""
    args, kwargs = rec.get("input_args", rec.get("input", [])), rec.get("input_kwargs", {})
    if name.startswith("Distributed."):
        api = name.split(".")[1]
        if api in ("recv", "irecv"):
            return []
        if api in (
            "all_gather_into_tensor",
            "reduce_scatter_tensor",
            "all_to_all_single",
            "all_gather",
            "reduce_scatter",
        ):
            return args[1] if len(args) > 1 else []
        return args[:1]
    return [args, kwargs, rec.get("parameters", {})]


def load(folder: Path) -> list[Rec]:
    """Records of one rank folder, in file order."""
    data = json.loads((folder / "dump.json").read_text())["data"]
    construct = json.loads((folder / "construct.json").read_text())
    out = []
    for i, (name, rec) in enumerate(data.items()):
        m = API.match(name) or MODULE.match(name)
        parent = construct.get(name)
        if isinstance(parent, list):
            parent = parent[0]
        if m is None:  # parameters_grad
            out.append(Rec(name, i, "backward", "parameters_grad", "finite", state(rec), "", rec))
            continue
        made = rec.get("output", [])
        if name.startswith("Distributed.") and name.split(".")[1] not in ("all_reduce", "broadcast"):
            made = made[:1]
        given = state(real_input(name, rec))
        out.append(Rec(name, i, m["dir"], m["api"], given, state(made), parent or "", rec))
    return out


def chain(recs: list[Rec], construct: dict[str, Any], name: str) -> list[str]:
    """Enclosing modules, nearest first."""
    out: list[str] = []
    while True:
        parent = construct.get(name)
        parent = parent[0] if isinstance(parent, list) else parent
        if not parent or parent in out:
            return out
        out.append(parent)
        name = parent


def shows(rec: Rec, kind: str) -> bool:
    if kind == "birth":
        return rec.given != "bad" and rec.made == "bad"
    if kind == "birth-inf":  # a -inf that is no mask (log of 0)
        return rec.given == "finite" and rec.made == "-inf"
    if kind == "entry":
        return rec.given == "bad"
    if kind == "finite":
        return rec.given == "finite" and rec.made == "finite"
    return rec.given == "finite" and rec.made == "bad"  # comm


def find(root: Root, folder: Path, level: str) -> list[str]:
    """[record, enclosing module] of the record that shows the fault, or a TruthError."""
    recs = load(folder)
    construct = json.loads((folder / "construct.json").read_text())
    hits = []
    for rec in recs:
        if rec.direction != root.direction:
            continue
        is_module = MODULE.match(rec.name) is not None
        if root.api == "Module":
            if not (is_module and root.module in rec.name):
                continue
            # where the call inside is recorded too (VF.lstm, in older versions), it is the better answer
            calls = [r for r in recs if r.parent == rec.name and not MODULE.match(r.name) and shows(r, root.kind)]
            names = [*(r.name for r in calls[:1]), rec.name]
        else:
            # construct.json gives calls inside some backward modules no parent: look at the forward record then
            around = chain(recs, construct, rec.name)
            if not around and rec.direction == "backward":
                around = [
                    p.replace(".forward.", ".backward.")
                    for p in chain(recs, construct, rec.name.replace(".backward", ".forward"))
                ]
            if is_module or (rec.api != root.api and root.api != "*"):
                continue
            if level == "mix" and root.module and not any(root.module in a for a in around):
                continue
            known = {r.name for r in recs}
            enclosing = [a for a in around if a in known and MODULE.match(a)]
            names = [rec.name, *enclosing[:1]]
        if shows(rec, root.kind):
            hits.append(names)
    if len(hits) <= root.nth:
        near = [
            f"{r.name} {r.given}->{r.made}"
            for r in recs
            if r.api == root.api or (root.module and root.module in r.name)
        ]
        raise TruthError(f"{folder}: no {root.kind} of {root.api} in {root.module!r}; there are: {near[:8]}")
    return hits[root.nth]


def harmless(folder: Path, twin: Path | None) -> list[str]:
    """Records whose non-finite output the run without the fault shows too; and views of FSDP's unwritten buffer."""
    before = {r.name: r.made for r in load(twin)} if twin else {}
    out = []
    for r in load(folder):
        buffer = r.api == "Tensor.narrow" and r.made != "finite"
        if r.made != "finite" and (twin is None or before.get(r.name) == r.made or buffer):
            out.append(r.name)
    return out


def rank_folders(step: Path) -> dict[int, Path]:
    out = {}
    for p in step.iterdir():
        if p.name.startswith("rank"):
            out[int(p.name[4:] or 0)] = p
        elif p.name.startswith("proc"):
            out[0] = p
    return dict(sorted(out.items()))


def group_of(rec: dict[str, Any]) -> str:
    text = json.dumps(rec.get("input_args", [])) + json.dumps(rec.get("input_kwargs", {}))
    m = re.search(r'"group_ranks": \[([^\]]*)\]', text)
    return m.group(1) if m else "world"


def peer(rec: dict[str, Any]) -> int | None:
    kwargs = rec["input_kwargs"]
    for key in ("dst", "src"):
        if key in kwargs:
            return int(kwargs[key]["value"])
    for a in rec["input_args"]:
        if isinstance(a, dict) and a.get("type") == "int":
            return int(a["value"])
    return None


def comm_keys(rank: int, recs: list[Rec]) -> list[tuple[Any, Rec]]:
    """Every communication of a rank with the key that its partners share."""
    count: dict[Any, int] = {}
    out = []
    for r in recs:
        if not r.name.startswith("Distributed."):
            continue
        api = r.name.split(".")[1]
        if api in ("send", "isend", "recv", "irecv"):
            other = peer(r.raw)
            key: Any = ("p2p", rank, other) if "send" in api else ("p2p", other, rank)
        else:
            key = (api, group_of(r.raw))
        n = count.get(key, 0)
        count[key] = n + 1
        out.append(((*key, n), r))
    return out


def first_comm(step: Path, roots: list[dict[str, Any]], missing: tuple[int, ...]) -> dict[str, Any] | None:
    """The first communication that carries the value away from the (first) root."""
    folders = rank_folders(step)
    keys = {r: comm_keys(r, load(f)) for r, f in folders.items()}
    if not any(keys.values()):
        return None
    root = roots[0]
    target = None
    if root["where"] == "communication":
        target = next(k for k, r in keys[root["rank"]] if r.name == root["op_names"][0])
    elif root["rank"] in keys:
        target = next((k for k, r in keys[root["rank"]] if r.given == "bad"), None)
    else:
        near = [k for r in keys for k, rec in keys[r] if rec.made == "bad" and k[0] == "p2p" and root["rank"] in k[1:3]]
        target = near[0] if near else None
        for r in keys:
            target = target or next((k for k, rec in keys[r] if rec.made == "bad" or rec.given == "bad"), None)
    if target is None:
        return None
    ops, bad, receiving = {}, [], []
    for r, pairs in keys.items():
        for k, rec in pairs:
            if k == target:
                ops[str(r)] = rec.name
                if rec.given == "bad":
                    bad.append(r)
                elif rec.made == "bad":
                    receiving.append(r)
    return {
        "op": ops,
        "ranks_input_nonfinite": bad,
        "ranks_only_receiving": receiving,
        "ranks_not_dumped": list(missing),
    }


def truth(case: Case, out: Path, twin: Path | None) -> dict[str, Any]:
    """truth.json of a case: every root is looked up in the dump and has to show what the case says."""
    roots: list[dict[str, Any]] = []
    for root in case.roots:
        step = out / f"step{root.step}"
        folders = rank_folders(step)
        entry: dict[str, Any] = {"step": root.step, "rank": root.rank}
        if root.kind == "missing":
            names: list[str] = []
        else:
            names = find(root, folders[root.rank], case.level)
            for other in root.also:
                names += [n for n in find(other, folders[root.rank], case.level) if n not in names]
        entry |= {"op_names": names, "where": root.where, "where_also": list(root.where_also)}
        entry |= {"direction": root.direction, "mechanism": root.mechanism}
        entry["mechanism_also"] = list(root.mechanism_also)
        if root.half:
            entry["op_names_half"] = [n for h in root.half for n in find(h, folders[root.rank], case.level)]
        if root.ranks_also:
            entry["ranks_also"] = sorted({root.rank, *root.ranks_also})
            by_rank = {str(r): find(root, folders[r], case.level)[0] for r in entry["ranks_also"] if r in folders}
            entry["op_names_by_rank"] = by_rank
        roots.append(entry)
    benign: dict[str, list[str]] = {}
    for step in sorted(out.glob("step*")):
        for r, folder in rank_folders(step).items():
            names = harmless(folder, rank_folders(twin / step.name)[r] if twin else None)
            for extra in case.harmless_at:
                if (extra.rank, f"step{extra.step}") == (r, step.name):
                    names.append(find(extra, folder, case.level)[0])
            if names:
                benign[f"{step.name}/rank{r}"] = names
    step = min((r.step for r in case.roots), default=None)
    comm = None
    if roots and case.first_comm:
        comm = first_comm(out / f"step{step}", roots, case.drop_ranks)
    setup = {"topology": case.par, "model": case.net, "world": case.world, "dtype": case.dtype, "level": case.level}
    setup |= {"risk_level": case.risk or "FOCUS", "steps": case.steps, "micro_batches": case.micro}
    setup |= {"checkpointing": case.ckpt or None, "missing_ranks": list(case.drop_ranks)}
    setup |= {"fault_kinds": [r.mechanism for r in case.roots], "benign_kinds": list(case.benign)}
    head = {"case": case.name, "verdict": "anomaly" if roots else "clean", "step": step, "root_causes": roots}
    return head | {"source_ranks_first_comm": comm, "benign_nonfinite": benign, "setup": setup, "notes": case.notes}
