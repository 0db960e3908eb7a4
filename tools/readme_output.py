"""Keeps the program output shown in the README files true.

``python tools/readme_output.py`` runs every command that stands in a marker and puts what it printed into the block
below; ``--check`` changes nothing and ends with 1 where a block is not what the program prints::

    <!-- output of: firstnan analyze examples/dp2-tp2 -->
    ```text
    ...
    ```
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
READMES = ("README.md", "README.zh.md")
BLOCK = re.compile(
    r"(<!-- output of: firstnan (?P<arguments>.+?) -->\n```text\n)(?P<output>.*?)(?P<end>^```$)", re.M | re.S
)


def renewed(text: str) -> str:
    """The text with every block renewed."""
    return BLOCK.sub(lambda match: match[1] + output(match["arguments"]) + match["end"], text)


def output(arguments: str) -> str:
    """What the command prints to a pipe, 80 columns wide."""
    command = [sys.executable, "-m", "firstnan", *arguments.split()]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # there is a firstnan to be called
    clean = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "utf-8", "PATH": path}
    ended = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, encoding="utf-8", check=False)
    if not ended.stdout:
        raise SystemExit(f"firstnan {arguments} printed nothing:\n{ended.stderr}")
    return ended.stdout


def main(arguments: list[str]) -> int:
    """Renew or check; gives the exit code."""
    stale = []
    for path in (ROOT / name for name in READMES):
        before = path.read_text("utf-8")
        after = renewed(before)
        if after == before:
            continue
        stale.append(path.name)
        if "--check" not in arguments:
            path.write_text(after, "utf-8")
    if "--check" in arguments and stale:
        print(f"not what the program prints: {', '.join(stale)}; 'make readme' renews them")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
