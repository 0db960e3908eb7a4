"""The scripts that make a shell complete: every command and option, tried in the shells that are here."""

from __future__ import annotations

import shutil
import subprocess
from argparse import _SubParsersAction

import pytest

from firstnan.cli import main as cli
from firstnan.cli.parser import parser

SHELLS = ("bash", "zsh", "fish")
COMMANDS = next(dict(a.choices) for a in parser()._actions if isinstance(a, _SubParsersAction))


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_there(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = script(shell, capsys)
    for name, command in COMMANDS.items():
        assert name in made
        for action in command._actions:
            for option in action.option_strings:
                plain = option.lstrip("-") if shell == "fish" else option
                assert plain in made, (name, option)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_takes_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    made = script(shell, capsys)
    done = subprocess.run([shell, "-n", "/dev/stdin"], input=made, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def completed(shell: str, made: str, line: str) -> set[str]:
    """What the shell offers at the end of a line."""
    if shell == "bash":
        words = line.split(" ")
        program = (
            f"{made}\nCOMP_WORDS=({' '.join(repr(word) for word in words)})\nCOMP_CWORD={len(words) - 1}\n_firstnan\n"
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
    else:
        program = f"{made}\ncomplete -C {line!r}"
    done = subprocess.run([shell, "-c", program], text=True, capture_output=True, check=True)
    return {row.split("\t")[0] for row in done.stdout.splitlines()}


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_what_is_offered(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    made = script(shell, capsys)
    assert COMMANDS.keys() <= completed(shell, made, "firstnan ")
    assert completed(shell, made, "firstnan an") == {"analyze"}
    assert "--exclude-op" in completed(shell, made, "firstnan analyze --ex")
    assert completed(shell, made, "firstnan analyze --lang z") == {"zh"}
    assert completed(shell, made, "firstnan completion z") == {"zsh"}


def test_another_shell_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "csh"]) == 2
    assert "csh" in capsys.readouterr().err
