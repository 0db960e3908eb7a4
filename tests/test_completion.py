"""The scripts that make a shell complete: every command and option, tried in the shells that are here."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from argparse import _SubParsersAction
from pathlib import Path

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


def completed(shell: str, made: str, line: str, folder: Path) -> set[str]:
    """What the shell offers at the end of a line, in a folder."""
    if shell == "zsh":
        return _in_zsh(made, line, folder)
    if shell == "bash":
        words = line.split(" ")
        program = (
            f"{made}\nCOMP_WORDS=({' '.join(repr(word) for word in words)})\nCOMP_CWORD={len(words) - 1}\n_firstnan\n"
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
    else:
        program = f"{made}\ncomplete -C {line!r}"
    done = subprocess.run([shell, "-c", program], text=True, capture_output=True, check=True, cwd=folder)
    return {row.split("\t")[0] for row in done.stdout.splitlines()}


_ZSH = r"""
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "PS1= PS2= TERM=dumb; unset zle_bracketed_paste; stty -echo; autoload -Uz compinit; compinit -u -D"
zpty -w shell "source $1/script; cd $2"
zpty -w shell "compadd() { if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd \"\$@\"; return; fi
  typeset -a hits; builtin compadd -A hits \"\$@\"; print -rl -- \$hits >> $1/offered; builtin compadd \"\$@\" }"
zpty -w shell "done_() { print >> $1/end }; zle -N done_; bindkey '^X' done_; print ready >> $1/ready"
repeat 100; do [[ -e $1/ready ]] && break; sleep 0.1; done
zpty -n -w shell "$3"$'\t\x18'
repeat 100; do [[ -e $1/end ]] && break; sleep 0.1; done
zpty -d shell
"""


def _in_zsh(made: str, line: str, folder: Path) -> set[str]:
    """An interactive zsh on a terminal of its own, where Tab is pressed; what it adds is written down."""
    with tempfile.TemporaryDirectory() as place:
        Path(place, "script").write_text(made)
        program = ["zsh", "-f", "-c", _ZSH, "zsh", place, str(folder), line]
        done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
        offered = Path(place, "offered")
        assert Path(place, "end").exists(), done.stdout + done.stderr
        return set(offered.read_text().split("\n")) - {""} if offered.exists() else set()


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_offered(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    made = script(shell, capsys)
    (tmp_path / "my-dump").mkdir()
    assert COMMANDS.keys() <= completed(shell, made, "firstnan ", tmp_path)
    assert completed(shell, made, "firstnan an", tmp_path) == {"analyze"}
    assert "--exclude-op" in completed(shell, made, "firstnan analyze --ex", tmp_path)
    assert completed(shell, made, "firstnan analyze --lang z", tmp_path) == {"zh"}
    assert completed(shell, made, "firstnan completion z", tmp_path) == {"zsh"}
    if shell != "bash":  # there, ``-o default`` offers files where the function gives nothing
        for line in ("firstnan my", "firstnan analyze my", "firstnan analyze -o my"):
            assert {name.rstrip("/") for name in completed(shell, made, line, tmp_path)} == {"my-dump"}, line


def test_another_shell_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "csh"]) == 2
    assert "csh" in capsys.readouterr().err
