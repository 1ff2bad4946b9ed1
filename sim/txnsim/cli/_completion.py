"""``txnsim completion``: a script for a shell that completes commands, options and their choices.

The script does not call txnsim while somebody types: it is generated once from the parsers of all
commands, and contains their words.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from txnsim.cli.commands import commands as known_commands
from txnsim.cli.commands import tables
from txnsim.cli.output import TERMINAL
from txnsim.cli.parsing import CommandParser

SHELLS: Final = ("bash", "zsh", "fish")


class Level(NamedTuple):
    """The words that may follow a command."""

    commands: Mapping[str, str]
    """Its subcommands, each with its line of help."""
    options: Mapping[str, str]
    choices: Mapping[str, tuple[str, ...]]
    """Option -> its choices, for options that have choices."""
    takes_value: tuple[str, ...]
    words: tuple[str, ...]
    """Choices of its first argument."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``completion``."""
    parser.epilog = (
        "For bash the first example goes into ~/.bashrc, for zsh the second into ~/.zshrc after"
        " compinit."
    )
    parser.add_argument("shell", choices=SHELLS)


def run(args: argparse.Namespace) -> int:
    """Print the script; returns the exit status."""
    tree = _with_words(levels())
    match args.shell:
        case "bash":
            TERMINAL.data(_bash(tree))
        case "zsh":
            TERMINAL.data(f"autoload -U +X bashcompinit && bashcompinit\n{_bash(tree)}")
        case _:
            TERMINAL.data(_fish(tree))
    return 0


def levels() -> dict[str, Level]:
    """Every command by its words: ``""`` for txnsim itself, ``"faults arm"`` for a subcommand."""
    top = CommandParser(prog="txnsim")
    top.add_argument("--version", action="store_true", help="print the version")
    commands = top.add_subparsers()
    for name, (module, line) in known_commands().items():
        importlib.import_module(module).add_arguments(commands.add_parser(name, help=line))
    by_path: dict[str, Level] = {}
    _walk(top, "", by_path)
    return by_path


def _with_words(tree: Mapping[str, Level]) -> dict[str, Level]:
    """Add the words that parsers don't list, to save imports: scenarios, lessons, actions and
    APIs.
    """
    from txnsim.faults.meanings import CLUSTER_ACTIONS, CROSSING_ACTIONS, name_of
    from txnsim.wire.apis import APIS

    actions = tuple(name_of(action) for action in (*CROSSING_ACTIONS, *CLUSTER_ACTIONS))
    arm = tree["faults arm"]
    choices = {**arm.choices, "--do": actions, "--api": tuple(name for name, _ in APIS.values())}
    return {
        **tree,
        "faults arm": arm._replace(choices=choices),
        **{
            path: tree[path]._replace(words=words)
            for table in tables()
            for path, words in table.words().items()
        },
    }


def _walk(parser: argparse.ArgumentParser, path: str, by_path: dict[str, Level]) -> None:
    commands: dict[str, str] = {}
    options: dict[str, str] = {}
    choices: dict[str, tuple[str, ...]] = {}
    values: list[str] = []
    words: tuple[str, ...] = ()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            lines = {subaction.dest: subaction.help or "" for subaction in action._choices_actions}
            for name, child in action.choices.items():
                commands[name] = _line(lines.get(name, ""))
                _walk(child, f"{path} {name}".strip(), by_path)
            continue
        choice_words = tuple(map(str, action.choices or ()))
        if not action.option_strings:
            words = words or choice_words
            continue
        for option in action.option_strings:
            if not option.startswith("--"):
                continue
            options[option] = "" if action.help == argparse.SUPPRESS else _line(action.help or "")
            if action.nargs != 0:
                values.append(option)
            if choice_words:
                choices[option] = choice_words
    by_path[path] = Level(commands, options, choices, tuple(values), words)


def _line(text: str) -> str:
    return text.replace("%%", "%").replace("'", "’").partition(";")[0]


# bash, and zsh by bashcompinit

_BASH_HEAD: Final = """\
# Completion of txnsim; made by `txnsim completion`.
_txnsim() {
  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" path="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path ${COMP_WORDS[i]}" in"""
_BASH_TAIL: Final = """\
  esac
}
complete -o default -F _txnsim txnsim"""


def _bash(tree: Mapping[str, Level]) -> str:
    paths = [path for path in tree if path]
    lines = [_BASH_HEAD]
    lines += [f"      ' {path}') path=' {path}' ;;" for path in paths]
    lines += ["    esac", "  done", '  case "$path $before" in']
    for path, level in tree.items():
        start = f" {path}" if path else ""
        for option, option_choices in level.choices.items():
            reply = (
                f"COMPREPLY=($(compgen -W '{' '.join(option_choices)}' -- \"$word\")); return ;;"
            )
            lines.append(f"    '{start} {option}') {reply}")
        free = [option for option in level.takes_value if option not in level.choices]
        if free:
            cases = "|".join(f"'{start} {option}'" for option in free)
            lines.append(f"    {cases}) return ;;")  # files, by -o default
    lines += ["  esac", '  case "$path" in']
    for path, level in tree.items():
        start = f" {path}" if path else ""
        words = " ".join((*level.commands, *level.words, *level.options))
        lines.append(f"    '{start}') COMPREPLY=($(compgen -W '{words}' -- \"$word\")) ;;")
    return "\n".join([*lines, _BASH_TAIL])


# fish


def _fish(tree: Mapping[str, Level]) -> str:
    paths = " ".join(f"'{path}'" for path in tree if path)
    lines = ["# Completion of txnsim; made by `txnsim completion fish`."]
    lines += [f"set -g __txnsim_paths {paths}", *_FISH_HEAD]
    for path, level in tree.items():
        when = f"-n '__txnsim_at \"{path}\"'"
        for name, line in level.commands.items():
            lines.append(f"complete -c txnsim {when} -f -a '{name}' -d '{line}'")
        if level.words:
            lines.append(f"complete -c txnsim {when} -f -a '{' '.join(level.words)}'")
        for option, line in level.options.items():
            option_choices = level.choices.get(option, ())
            value = f" -x -a '{' '.join(option_choices)}'" if option_choices else ""
            needs = " -r" if option in level.takes_value and not option_choices else ""
            lines.append(f"complete -c txnsim {when} -l {option[2:]}{needs}{value} -d '{line}'")
    return "\n".join(lines)


_FISH_HEAD: Final = (
    "function __txnsim_at",
    "  set -l path ''",
    "  for word in (commandline -opc)[2..]",
    '    set -l longer (string trim -- "$path $word")',
    "    contains -- $longer $__txnsim_paths; and set path $longer",
    "  end",
    '  test "$path" = "$argv[1]"',
    "end",
)
