"""The recipes for Slurm and Kubernetes, run as they stand: several processes in place of hosts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import firstnan

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "dp2-tp2"
PAGE = (ROOT / "docs" / "clusters.md").read_text("utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.S)
HOSTS = {"0": ("rank0", "rank1"), "1": ("rank2", "rank3")}

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")

SRUN = """#!/bin/bash
# Every node at once, each with a disk of its own.
for node in 0 1; do
  ( export SLURM_PROCID=$node DUMP="$HOSTS/$node"; "$@" ) &
done
wait
"""
KUBECTL = """#!/bin/bash
if [ "$1" = get ]; then echo pod/train-0; echo pod/train-1; exit; fi
pod=$2; shift 3
exec "${@/#\\/dumps/$HOSTS/${pod##*-}}"
"""


@pytest.fixture
def cluster(tmp_path: Path) -> dict[str, str]:
    """Two hosts with two ranks each, and the programs that reach them; gives the environment."""
    for host, ranks in HOSTS.items():
        for rank in ranks:
            shutil.copytree(EXAMPLE / "step0" / rank, tmp_path / "hosts" / host / "step0" / rank)
    programs = tmp_path / "bin"
    programs.mkdir()
    own = f'#!/bin/bash\nexec "{sys.executable}" -m firstnan "$@"\n'
    for name, text in (("srun", SRUN), ("kubectl", KUBECTL), ("firstnan", own)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(tmp_path),
        "HOSTS": str(tmp_path / "hosts"),
        "SLURM_JOB_ID": "7",
    }


def run(script: str, cluster: dict[str, str], folder: Path) -> dict[str, Any]:
    """Runs a recipe with a JSON report in place of the page."""
    script = script.replace("report.html", "report.json")
    done = subprocess.run(["bash", "-c", script], env=cluster, cwd=folder, text=True, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads((folder / "report.json").read_text("utf-8"))
    return found


def test_there_are_three_recipes_of_ten_lines() -> None:
    assert len(BLOCKS) == 3
    assert all(block.count("\n") <= 10 for block in BLOCKS)


@pytest.mark.parametrize("recipe", ["slurm", "slurm again", "kubernetes"])
def test_the_recipe_gives_the_answer_of_one_machine(recipe: str, cluster: dict[str, str], tmp_path: Path) -> None:
    script = {"slurm": BLOCKS[0], "slurm again": BLOCKS[0] + BLOCKS[1], "kubernetes": BLOCKS[2]}[recipe]
    expected = firstnan.analyze(EXAMPLE, firstnan.Options(jobs=1)).to_dict()
    found = run(script, cluster, tmp_path)
    for part in ("verdict", "complete", "root_causes", "collectives", "propagation"):
        assert found[part] == expected[part], part


def test_a_host_that_is_gone_is_told(cluster: dict[str, str], tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "hosts" / "1")
    found = run(BLOCKS[2], cluster, tmp_path)
    assert found["complete"] is False
    assert found["input"]["missing_ranks"] == [2, 3]
