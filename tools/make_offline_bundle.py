"""Makes archives with which firstnan is installed where there is no network: one for x86-64, one for aarch64.

``python tools/make_offline_bundle.py [--check]`` writes ``dist/firstnan-<version>-offline-linux-<machine>.tar.gz``: the
wheels of firstnan and of all it needs, for every supported Python, checksums, and ``install.sh``. With ``--check`` the
archive for this machine is unpacked and installed into a fresh environment without an index, and has to answer on the
example dump. Needs a package registry, and ``build`` and ``packaging`` of the development environment.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
INSTALLER = ROOT / "tools" / "offline_install.sh"
MACHINES = ("x86_64", "aarch64")
GLIBC = "manylinux2014"
"""glibc 2.17 and newer: every Linux on which the supported Pythons run."""
ANSWER = "Torch.exp.0.forward"
"""The operator that the example dump is about."""


def main() -> None:
    """Raises SystemExit with the reason when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="install the one for this machine and run it")
    parser.add_argument("--target", type=Path, default=ROOT / "dist", help="where the archives go (default: dist)")
    parser.add_argument("machines", nargs="*", default=list(MACHINES), help="default: x86_64 aarch64")
    chosen = parser.parse_args()
    chosen.target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="firstnan-bundle-") as folder:
        place = Path(folder)
        run([sys.executable, "-m", "build", "--wheel", "--outdir", str(place / "own"), str(ROOT)])
        (wheel,) = (place / "own").glob("*.whl")
        for machine in chosen.machines:
            archive = bundle(wheel, machine, place / machine, chosen.target)
            print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB", flush=True)
            if chosen.check and machine == platform.machine():
                print(check(archive, place / "check"), flush=True)


def project() -> tuple[list[Requirement], list[str]]:
    """What firstnan needs, and the Pythons it supports, from pyproject.toml."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with (ROOT / "pyproject.toml").open("rb") as file:
        table = tomllib.load(file)["project"]
    pythons = re.findall(r"Python :: (3\.\d+)", "\n".join(table["classifiers"]))
    return [Requirement(text) for text in table["dependencies"]], pythons


def needed(requirements: Sequence[Requirement], python: str) -> list[str]:
    """The requirements of one Python, without their conditions.

    >>> needed([Requirement("rich>=13"), Requirement("tomli>=2; python_version < '3.11'")], "3.12")
    ['rich>=13']
    """
    there = {"python_version": python, "python_full_version": f"{python}.0"}
    applying = [r for r in requirements if r.marker is None or r.marker.evaluate(there)]
    return [f"{r.name}{r.specifier}" for r in applying]


def bundle(wheel: Path, machine: str, place: Path, target: Path) -> Path:
    """One archive, in ``target``."""
    name = f"{'-'.join(wheel.name.split('-')[:2])}-offline-linux-{machine}"
    wheels = place / name / "wheels"
    wheels.mkdir(parents=True)
    (wheels / wheel.name).write_bytes(wheel.read_bytes())
    requirements, pythons = project()
    for python in pythons:
        options = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", python]
        options += ["--platform", f"{GLIBC}_{machine}", "--dest", str(wheels), "--quiet"]
        run([sys.executable, "-m", "pip", "download", *options, *needed(requirements, python)])
    files = sorted(wheels.iterdir())
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  wheels/{path.name}\n" for path in files)
    (place / name / "SHA256SUMS").write_text(sums, encoding="utf-8")
    script = INSTALLER.read_text(encoding="utf-8").replace("@MACHINE@", machine).replace("@PYTHONS@", " ".join(pythons))
    (place / name / "install.sh").write_text(script, encoding="utf-8")
    (place / name / "install.sh").chmod(0o755)
    archive = target / f"{name}.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(place / name, arcname=name)
    return archive


def check(archive: Path, place: Path) -> str:
    """Installs from the archive alone and asks for the example's answer."""
    with tarfile.open(archive) as file:
        file.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
        file.extractall(place)
    (folder,) = place.iterdir()
    alone = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PYTHON": sys.executable}
    run(["sh", str(folder / "install.sh"), str(place / "env")], alone)
    told = run([str(place / "env" / "bin" / "firstnan"), "demo", "--lang", "en"]).splitlines()[0]
    if ANSWER not in told:
        raise SystemExit(f"the installed program does not find {ANSWER} in its example: {told}")
    return f"installed from {archive.name} alone, answers: {told}"


def run(command: Sequence[str], more: dict[str, str] | None = None) -> str:
    """What the command wrote to stdout."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | (more or {})
    ended = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


if __name__ == "__main__":
    main()
