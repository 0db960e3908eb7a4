"""Builds the source archive and the wheel, installs the wheel into a fresh environment and runs it from there.

``python tools/check_package.py`` ends with 0 when the installed program answers on its own example dump. The wheel is
built from the source archive, so that both are known to be complete. Needs a package registry.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ANSWER = "Torch.exp.0.forward"
"""The operator that the example dump is about."""


def main() -> None:
    """Build, install, run; raises SystemExit with the reason when something is wrong."""
    with tempfile.TemporaryDirectory(prefix="firstnan-package-") as folder:
        place = Path(folder)
        run([sys.executable, "-m", "build", "--outdir", str(place / "dist"), str(ROOT)], place)
        (wheel,) = (place / "dist").glob("*.whl")
        if not wheel.name.endswith("-py3-none-any.whl"):
            raise SystemExit(f"{wheel.name} is not for every platform")
        venv.create(place / "venv", with_pip=True)
        scripts = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
        run([str(scripts / "python"), "-m", "pip", "install", "--quiet", str(wheel)], place)
        run([str(scripts / "python"), "-m", "pip", "check"], place)
        told = run([str(scripts / "firstnan"), "demo", "--lang", "en"], place)
        if ANSWER not in told.splitlines()[0] or "exp overflow" not in told:
            raise SystemExit(f"the installed program does not find {ANSWER} in its example:\n{told}")
        print(f"{wheel.name}: built, installed, answers: {told.splitlines()[0]}")


def run(command: Sequence[str], folder: Path) -> str:
    """What the command wrote to stdout; it sees neither the checkout nor this environment's modules."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


if __name__ == "__main__":
    main()
