"""`isotherm completion`: a script by which a shell completes commands, options and their values."""

import argparse
import dataclasses
import re
from collections.abc import Callable, Iterator

from isotherm.cli.arguments import Subparsers, add_command
from isotherm.cli.messages import say

_UNSAFE = re.compile(r"[^\w \-.,;:/=()]")  # in descriptions, which stand between quotes


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a command: its names, what it does, and the values that it takes, if these are few."""

    names: tuple[str, ...]
    help: str
    values: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Command:
    """A command: its words, such as `data convert`, what it does, its options, and the words that may follow."""

    words: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    commands: tuple[str, ...]
    values: tuple[str, ...]  # of its argument, if these are few


def add_completion(commands: Subparsers, parser: argparse.ArgumentParser) -> None:
    """Add `isotherm completion SHELL`, which prints a script for a shell. `parser` is that of all commands."""
    added = add_command(
        commands,
        "completion",
        help="print a script by which your shell completes commands and options",
        description="Print a script for a shell. Once it is loaded, the tab key completes commands, options and file "
        "names after `isotherm`.",
        example=_EXAMPLE,
    )
    added.add_argument(
        "shell", choices=tuple(_SCRIPTS), metavar="SHELL", help=f"one of {', '.join(_SCRIPTS)}"
    )
    added.set_defaults(run=lambda options: completion(options, parser))


def completion(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Print the script and return the exit code."""
    say(_SCRIPTS[options.shell](list(_commands(parser, (), ""))))
    return 0


def _commands(parser: argparse.ArgumentParser, words: tuple[str, ...], about: str) -> Iterator[Command]:
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    helps = {choice.dest: choice.help or "" for action in below for choice in action._choices_actions}
    options = [
        Option(tuple(x.option_strings), _plain(x.help or ""), tuple(map(str, x.choices or ())))
        for x in parser._actions
        if x.option_strings and x.help != argparse.SUPPRESS
    ]
    arguments = [x for x in parser._actions if not x.option_strings and x not in below]
    values = tuple(str(value) for x in arguments for value in x.choices or ())
    yield Command(
        words, _plain(about), tuple(options), tuple(name for x in below for name in x.choices), values
    )
    for action in below:
        for name, inner in action.choices.items():
            yield from _commands(inner, (*words, name), helps.get(name, ""))


def _plain(text: str) -> str:
    """Return one line without characters that mean something to a shell."""
    return _UNSAFE.sub("", " ".join(text.replace("%%", "%").split()))


def _bash(commands: list[Command]) -> str:
    cases = []
    for command in sorted(commands, key=lambda c: -len(c.words)):
        names = [name for option in command.options for name in option.names]
        values = [
            f"                {'|'.join(option.names)}) words='{' '.join(option.values)}' ;;"
            for option in command.options
            if option.values
        ]
        inner = ['            case "$before" in', *values, "            esac"] if values else []
        words = " ".join([*command.commands, *command.values, *names])
        cases += [
            f"        '{' '.join(('', *command.words))}'*)",
            f"            words='{words}'",
            *inner,
            "            ;;",
        ]
    return "\n".join(
        [
            "_isotherm() {",
            '    local words="" line="" before="${COMP_WORDS[COMP_CWORD-1]}" word',
            '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do line="$line $word"; done',
            '    case "$line" in',
            *cases,
            "    esac",
            '    COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
            "}",
            "complete -o default -F _isotherm isotherm",
        ]
    )


def _zsh(commands: list[Command]) -> str:
    """Return the script for bash, which zsh can read."""
    return f"autoload -U +X bashcompinit && bashcompinit\n{_bash(commands)}"


def _fish(commands: list[Command]) -> str:
    lines, helps = [], {command.words: command.help for command in commands}
    for command in commands:
        seen = [f"__fish_seen_subcommand_from {word}" for word in command.words]
        first = ["__fish_use_subcommand"] if not seen else []
        none = (
            f"not __fish_seen_subcommand_from {' '.join(command.commands)}"
            if command.commands and seen
            else ""
        )
        here = "; and ".join([*seen, *first, *([none] if none else [])])
        words = ((name, helps[(*command.words, name)]) for name in command.commands)
        lines += [f"complete -c isotherm -n '{here}' -a {name} -d '{about}'" for name, about in words]
        if command.values:
            lines.append(f"complete -c isotherm -n '{here}' -a '{' '.join(command.values)}'")
        for option in command.options:
            flags = " ".join(f"-l {x[2:]}" if x.startswith("--") else f"-s {x[1:]}" for x in option.names)
            values = f" -x -a '{' '.join(option.values)}'" if option.values else ""
            lines.append(
                f"complete -c isotherm -n '{'; and '.join(seen or first)}' {flags} -d '{option.help}'{values}"
            )
    return "\n".join(lines)


_SCRIPTS: dict[str, Callable[[list[Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}

_EXAMPLE = """\
example:
  isotherm completion bash > ~/.local/share/bash-completion/completions/isotherm
  eval "$(isotherm completion zsh)"      # in ~/.zshrc, after compinit
  isotherm completion fish > ~/.config/fish/completions/isotherm.fish

Exit status: 0.
"""
