"""Print the script that makes a shell complete commands and options.

bash: eval "$(firstnan completion bash)"   zsh: eval "$(firstnan completion zsh)"
fish: firstnan completion fish | source
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from msgspec import Struct

from firstnan.cli.arguments import add_language
from firstnan.cli.terminal import put


class Option(Struct, frozen=True):
    """One option of a command."""

    names: tuple[str, ...]
    help: str
    values: tuple[str, ...] = ()
    """The words it takes; empty: a file, a number, or nothing."""
    takes: bool = True
    """False: a switch."""


class Command(Struct, frozen=True):
    """One command, as a shell completes it."""

    name: str
    help: str
    options: tuple[Option, ...]
    words: tuple[str, ...] = ()
    """Words that may stand alone; empty: files."""


EXIT_CODES = """\
exit codes:
  0  the script is printed
  2  usage error, or stdout could not be written
"""
SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    add_language(parser)


def run(chosen: argparse.Namespace) -> int:
    """Prints the script for the shell that was asked for."""
    commands = tuple(described(chosen.program))
    put({"bash": bash, "zsh": zsh, "fish": fish}[chosen.shell](commands), is_text=False)
    return 0


def described(parser: argparse.ArgumentParser) -> Iterator[Command]:
    """Every command of the program, from its parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            told = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, inner in action.choices.items():
                yield _command(name, told.get(name, ""), inner)


def _command(name: str, words: str, parser: argparse.ArgumentParser) -> Command:
    options: list[Option] = []
    alone: tuple[str, ...] = ()
    for action in parser._actions:
        values = tuple(map(str, action.choices or ()))
        if action.option_strings:
            takes = action.nargs != 0
            options.append(Option(tuple(action.option_strings), _plain(action.help), values, takes))
        else:
            alone = alone or values
    return Command(name, _plain(words), tuple(options), alone)


def _plain(words: str | None) -> str:
    """Help on one line, without what a shell would take for its own."""
    return " ".join((words or "").replace("%%", "%").split()).translate(str.maketrans("'\"`$\\[]:", "       ;"))


def _names(options: Sequence[Option]) -> str:
    return " ".join(name for option in options for name in option.names)


def bash(commands: Sequence[Command]) -> str:
    """For ``eval "$(firstnan completion bash)"``."""
    lines = [
        "_firstnan() {",
        '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
        "    COMPREPLY=()",
        "    if [ $COMP_CWORD -eq 1 ]; then",
        f"        COMPREPLY=($(compgen -W '{' '.join(one.name for one in commands)} --help --version' -- \"$word\"))",
        "        return",
        "    fi",
        '    case "${COMP_WORDS[1]},$before" in',
    ]
    for one in commands:
        for option in one.options:
            if option.values:
                marks = "|".join(f"{one.name},{name}" for name in option.names)
                lines.append(
                    f"        {marks}) COMPREPLY=($(compgen -W '{' '.join(option.values)}' -- \"$word\")); return ;;"
                )
    lines += ["    esac", '    case "${COMP_WORDS[1]},$word" in']
    for one in commands:
        lines.append(f"        {one.name},-*) COMPREPLY=($(compgen -W '{_names(one.options)}' -- \"$word\")) ;;")
        if one.words:
            lines.append(f"        {one.name},*) COMPREPLY=($(compgen -W '{' '.join(one.words)}' -- \"$word\")) ;;")
    lines += ["    esac", "}", "complete -o default -F _firstnan firstnan"]
    return "\n".join(lines) + "\n"


_ZSH_END = 'if [ "$funcstack[1]" = _firstnan ]; then _firstnan; else compdef _firstnan firstnan; fi'
"""Works both as a file in ``$fpath`` and when it is evaluated."""


def zsh(commands: Sequence[Command]) -> str:
    """For ``eval "$(firstnan completion zsh)"``, or as the file ``_firstnan`` in ``$fpath``."""
    lines = ["#compdef firstnan", "_firstnan() {", "    if (( CURRENT == 2 )); then", "        local -a commands=("]
    lines += [f"            '{one.name}:{one.help}'" for one in commands]
    lines += [
        "        )",
        "        _describe command commands; _files",
        "        return",
        "    fi",
        '    case "$words[2]" in',
    ]
    for one in commands:
        lines.append(f"        {one.name}) shift words; (( CURRENT-- )); _arguments \\")
        lines += [f"            {_zsh_option(option, name)} \\" for option in one.options for name in option.names]
        lines.append(f"            '*:{_zsh_alone(one)}' ;;")
    lines += ["    esac", "}", _ZSH_END]
    return "\n".join(lines) + "\n"


def _zsh_option(option: Option, name: str) -> str:
    if not option.takes:
        return f"'*{name}[{option.help}]'"
    return f"'*{name}[{option.help}]:value:{'(' + ' '.join(option.values) + ')' if option.values else '_files'}'"


def _zsh_alone(command: Command) -> str:
    return f"word:({' '.join(command.words)})" if command.words else "path:_files"


def fish(commands: Sequence[Command]) -> str:
    """For ``firstnan completion fish | source``."""
    lines = []
    for one in commands:
        lines.append(f"complete -c firstnan -n __fish_use_subcommand -a {one.name} -d '{one.help}'")
        seen = f"'__fish_seen_subcommand_from {one.name}'"
        if one.words:
            lines.append(f"complete -c firstnan -n {seen} -f -a '{' '.join(one.words)}'")
        for option in one.options:
            flags = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            takes = f" -x -a '{' '.join(option.values)}'" if option.values else " -r" if option.takes else ""
            lines.append(f"complete -c firstnan -n {seen} {flags}{takes} -d '{option.help}'")
    return "\n".join(lines) + "\n"
