"""Keeps the program output shown in ``docs/`` true.

``python tools/docs_output.py`` runs every ``console`` block and puts what came out in its place; ``--check`` changes
nothing and ends with 1 where a block is not what comes out; names of pages limit both. ``--torch`` does it for the
sessions of ``firstnan replay`` in ``text`` blocks, which need torch. A block is a shell's session::

    ```console
    $ firstnan analyze examples/dp2-tp2 | sed '/^$/q'
    +Inf began on rank 2, step 0, in Torch.exp.0.forward (forward): exp overflow
    (certain)
    ```

A line that begins with ``> `` goes on with the command before it. The blocks of one page are one session, in an empty
folder that looks like a checkout (``examples``, ``tests``), with ``firstnan`` and an English locale; files that they
write are gone afterwards. ``--help`` does not belong in a block: its layout differs between versions of Python.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^(?P<indent> *)```(?P<fence>console)\n(?P<session>.*?)^ *```$", re.M | re.S)
TORCH_BLOCK = re.compile(r"^(?P<indent> *)```(?P<fence>text)\n(?P<session>\$ firstnan replay.*?)^ *```$", re.M | re.S)
"""Sessions of ``firstnan replay``, which needs torch: renewed and checked where there is torch (``--torch``)."""
LINKED = ("examples", "tests")
CHECKOUT = "/home/you/firstnan"
"""How the checkout's own path is shown."""
PROMPT, MORE = "$ ", "> "


def pages() -> list[Path]:
    """Every page that is written by hand."""
    return sorted(DOCS.rglob("*.md"))


def commands(page: str, blocks: re.Pattern[str] = BLOCK) -> list[str]:
    """The commands of a page's sessions, in order."""
    return [line for block in blocks.finditer(page) for line in _commands(block)]


def _commands(block: re.Match[str]) -> Iterator[str]:
    """Commands as the shell gets them; those of several lines with their line ends."""
    command: list[str] = []
    open_ = False
    for line in (line[len(block["indent"]) :] for line in block["session"].splitlines()):
        if line.startswith(PROMPT):
            if command:
                yield "\n".join(command)
            command, open_ = [line[len(PROMPT) :]], True
        elif open_ and (line.startswith(MORE) or line == MORE.rstrip()):
            command.append(line[len(MORE) :])
        else:
            open_ = False
    if command:
        yield "\n".join(command)


def renewed(page: str, blocks: re.Pattern[str] = BLOCK) -> str:
    """The page with what its commands print today."""
    printed = iter(outputs(commands(page, blocks)))

    def block(match: re.Match[str]) -> str:
        indent = match["indent"]
        lines = []
        for command in _commands(match):
            first, *rest = command.split("\n")
            lines += [PROMPT + first, *(MORE + line for line in rest), *next(printed).rstrip().splitlines()]
        body = "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)
        return f"{indent}```{match['fence']}\n{body}{indent}```"

    return blocks.sub(block, page)


def outputs(session: list[str]) -> list[str]:
    """What each command prints, stdout and stderr together, 80 columns wide."""
    if not session:
        return []
    mark = f"end-{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="firstnan-docs-") as place:
        folder, programs = Path(place) / "checkout", Path(place) / "bin"
        folder.mkdir()
        programs.mkdir()
        for name in LINKED:
            (folder / name).symlink_to(ROOT / name, target_is_directory=True)
        program = programs / "firstnan"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m firstnan "$@"\n', "utf-8")
        program.chmod(0o755)
        python = programs / "python3"
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', "utf-8")
        python.chmod(0o755)
        clean = {
            **os.environ,
            "LC_ALL": "C.UTF-8",
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONIOENCODING": "utf-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        # The exit code is kept over the mark, so that `echo $?` tells that of the command before it.
        keep = f'{{ code=$?; echo "{mark}"; (exit $code); }}'
        script = "".join(f"{command}\n{keep}\n" for command in session)
        ended = subprocess.run(
            ["bash", "-c", f"exec 2>&1\n{script}"],
            cwd=folder,
            env=clean,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            check=False,
        )
    if "Traceback (most recent call last)" in ended.stdout:
        raise SystemExit(f"the program is broken:\n{ended.stdout}")
    parts = ended.stdout.split(f"{mark}\n")
    if len(parts) != len(session) + 1:
        raise SystemExit(f"a command took the shell with it:\n{ended.stdout}")
    return [part.replace(str(ROOT), CHECKOUT) for part in parts[:-1]]


def main(arguments: list[str]) -> int:
    """Renew or check; gives the exit code."""
    check = "--check" in arguments
    blocks = TORCH_BLOCK if "--torch" in arguments else BLOCK
    named = [Path(argument).resolve() for argument in arguments if not argument.startswith("--")]
    stale = False
    for page in named or pages():
        shown = page.read_text("utf-8")
        today = renewed(shown, blocks)
        if today == shown:
            continue
        stale = True
        print(f"{'not what comes out' if check else 'renewed'}: {page.relative_to(ROOT)}")
        if not check:
            page.write_text(today, "utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
