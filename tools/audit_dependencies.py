"""Asks whether the packages that firstnan needs have known vulnerabilities (``pip-audit``).

``python tools/audit_dependencies.py`` ends with 1 when there are some. Where nobody can be asked (no network, a
registry without such data) that is said, and it ends with 0: an answer is wanted, not a build that depends on it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """The exit code; says on stdout what was asked and what is known."""
    with tempfile.TemporaryDirectory(prefix="firstnan-audit-") as folder:
        place = Path(folder)
        needed, why = resolved(place)
        if not needed:
            print(f"not audited: {why}")
            return 0
        answer, why = asked(place, needed)
    if answer is None:
        print(f"not audited: {why}")
        return 0
    packages = answer["dependencies"]
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    bad = [(p["name"], p["version"], v["id"], v["fix_versions"]) for p in packages for v in p.get("vulns", ())]
    for name, version, number, fixed in bad:
        print(f"{name} {version}: {number}, fixed in {', '.join(fixed) or 'no release'}")
    if skipped:
        print(f"not audited: {', '.join(skipped)} (the registry has no such data)")
    print(f"{len(packages) - len(skipped)} of {len(packages)} packages audited, {len(bad)} known vulnerabilities")
    return 1 if bad else 0


def resolved(place: Path) -> tuple[list[str], str]:
    """What an installation of firstnan brings along, with versions; or why that is not known."""
    python = environment(place / "project")
    ended = run([python, "-m", "pip", "install", "--quiet", str(ROOT)])
    if ended.returncode:
        return [], last_line(ended.stderr)
    there = run([python, "-m", "pip", "list", "--format", "json"]).stdout
    own = {"pip", "setuptools", "wheel", "firstnan"}
    return [f"{p['name']}=={p['version']}" for p in json.loads(there) if p["name"].lower() not in own], ""


def asked(place: Path, needed: Sequence[str]) -> tuple[dict[str, list[dict[str, Any]]] | None, str]:
    """What pip-audit knows about these packages; or why it could not be asked."""
    python = environment(place / "audit")
    ended = run([python, "-m", "pip", "install", "--quiet", "pip-audit"])
    if ended.returncode:
        return None, last_line(ended.stderr)
    listed = place / "requirements.txt"
    listed.write_text("\n".join(needed), encoding="utf-8")
    options = ["--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off", "--timeout", "30"]
    ended = run([python, "-m", "pip_audit", *options, "--requirement", str(listed)])
    try:
        found: dict[str, list[dict[str, Any]]] = json.loads(ended.stdout)
    except ValueError:
        return None, last_line(ended.stderr)
    return found, ""


def environment(place: Path) -> str:
    """A fresh environment; its interpreter."""
    venv.create(place, with_pip=True)
    return str(place / ("Scripts" if os.name == "nt" else "bin") / "python")


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, env=clean, capture_output=True, text=True, check=False)


def last_line(text: str) -> str:
    """The last line that tells an error, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() and not line.startswith("note")]
    return (errors or lines or ["no reason given"])[-1]


if __name__ == "__main__":
    sys.exit(main())
