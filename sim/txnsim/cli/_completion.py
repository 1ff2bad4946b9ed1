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


class CompletionLevel(NamedTuple):
    """The words that may follow a command."""

    commands: Mapping[str, str]
    """Its subcommands, each with its line of help."""
    options: Mapping[str, str]
    choices: Mapping[str, tuple[str, ...]]
    """Option -> its choices, for options that have choices."""
    takes_value: tuple[str, ...]
    argument_choices: tuple[str, ...]
    """Choices of its first argument."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "For bash the first example goes into ~/.bashrc, for zsh the second into ~/.zshrc after"
        " compinit."
    )
    parser.add_argument("shell", choices=SHELLS)


def run(args: argparse.Namespace) -> int:
    """Print the script; returns the exit status."""
    level_by_path = _with_argument_words(levels())
    match args.shell:
        case "bash":
            TERMINAL.data(_bash_script(level_by_path))
        case "zsh":
            TERMINAL.data(
                f"autoload -U +X bashcompinit && bashcompinit\n{_bash_script(level_by_path)}"
            )
        case _:
            TERMINAL.data(_fish_script(level_by_path))
    return 0


def levels() -> dict[str, CompletionLevel]:
    """Every command by its words: ``""`` for txnsim itself, ``"faults arm"`` for a subcommand."""
    top_parser = CommandParser(prog="txnsim")
    top_parser.add_argument("--version", action="store_true", help="print the version")
    commands = top_parser.add_subparsers()
    for name, (module, help_line) in known_commands().items():
        importlib.import_module(module).add_arguments(commands.add_parser(name, help=help_line))
    level_by_path: dict[str, CompletionLevel] = {}
    _collect_levels(top_parser, "", level_by_path)
    return level_by_path


def _with_argument_words(
    level_by_path: Mapping[str, CompletionLevel],
) -> dict[str, CompletionLevel]:
    """Add the words that parsers don't list, to save imports: scenarios, lessons, actions and
    APIs.
    """
    from txnsim.faults.meanings import CLUSTER_ACTIONS, CROSSING_ACTIONS, name_of
    from txnsim.wire.apis import APIS

    actions = tuple(name_of(action) for action in (*CROSSING_ACTIONS, *CLUSTER_ACTIONS))
    arm_level = level_by_path["faults arm"]
    arm_choices = {
        **arm_level.choices,
        "--do": actions,
        "--api": tuple(api_name for api_name, _ in APIS.values()),
    }
    return {
        **level_by_path,
        "faults arm": arm_level._replace(choices=arm_choices),
        **{
            path: level_by_path[path]._replace(argument_choices=argument_choices)
            for table in tables()
            for path, argument_choices in table.words().items()
        },
    }


def _collect_levels(
    parser: argparse.ArgumentParser, command_path: str, level_by_path: dict[str, CompletionLevel]
) -> None:
    help_by_name: dict[str, str] = {}
    options: dict[str, str] = {}
    choices: dict[str, tuple[str, ...]] = {}
    options_with_value: list[str] = []
    first_choices: tuple[str, ...] = ()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            help_by_command = {
                subaction.dest: subaction.help or "" for subaction in action._choices_actions
            }
            for command_name, child_parser in action.choices.items():
                help_by_name[command_name] = _help_summary(help_by_command.get(command_name, ""))
                _collect_levels(
                    child_parser, f"{command_path} {command_name}".strip(), level_by_path
                )
            continue
        choice_words = tuple(map(str, action.choices or ()))
        if not action.option_strings:
            first_choices = first_choices or choice_words
            continue
        for option in action.option_strings:
            if not option.startswith("--"):
                continue
            options[option] = (
                "" if action.help == argparse.SUPPRESS else _help_summary(action.help or "")
            )
            if action.nargs != 0:
                options_with_value.append(option)
            if choice_words:
                choices[option] = choice_words
    level_by_path[command_path] = CompletionLevel(
        help_by_name, options, choices, tuple(options_with_value), first_choices
    )


def _help_summary(help_text: str) -> str:
    return help_text.replace("%%", "%").replace("'", "’").partition(";")[0]


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


def _bash_script(level_by_path: Mapping[str, CompletionLevel]) -> str:
    paths = [path for path in level_by_path if path]
    script_lines = [_BASH_HEAD]
    script_lines += [f"      ' {path}') path=' {path}' ;;" for path in paths]
    script_lines += ["    esac", "  done", '  case "$path $before" in']
    for path, level in level_by_path.items():
        path_prefix = f" {path}" if path else ""
        for option, option_choices in level.choices.items():
            completion_code = (
                f"COMPREPLY=($(compgen -W '{' '.join(option_choices)}' -- \"$word\")); return ;;"
            )
            script_lines.append(f"    '{path_prefix} {option}') {completion_code}")
        free_value_options = [option for option in level.takes_value if option not in level.choices]
        if free_value_options:
            path_patterns = "|".join(f"'{path_prefix} {option}'" for option in free_value_options)
            script_lines.append(f"    {path_patterns}) return ;;")  # files, by -o default
    script_lines += ["  esac", '  case "$path" in']
    for path, level in level_by_path.items():
        path_prefix = f" {path}" if path else ""
        completion_words = " ".join((*level.commands, *level.argument_choices, *level.options))
        script_lines.append(
            f"    '{path_prefix}') COMPREPLY=($(compgen -W '{completion_words}' -- \"$word\")) ;;"
        )
    return "\n".join([*script_lines, _BASH_TAIL])


# fish


def _fish_script(level_by_path: Mapping[str, CompletionLevel]) -> str:
    paths_text = " ".join(f"'{path}'" for path in level_by_path if path)
    script_lines = ["# Completion of txnsim; made by `txnsim completion fish`."]
    script_lines += [f"set -g __txnsim_paths {paths_text}", *_FISH_HEAD]
    for path, level in level_by_path.items():
        path_option = f"-n '__txnsim_at \"{path}\"'"
        for command_name, help_line in level.commands.items():
            script_lines.append(
                f"complete -c txnsim {path_option} -f -a '{command_name}' -d '{help_line}'"
            )
        if level.argument_choices:
            script_lines.append(
                f"complete -c txnsim {path_option} -f -a '{' '.join(level.argument_choices)}'"
            )
        for option, help_line in level.options.items():
            option_choices = level.choices.get(option, ())
            value_part = f" -x -a '{' '.join(option_choices)}'" if option_choices else ""
            required_part = " -r" if option in level.takes_value and not option_choices else ""
            script_lines.append(
                f"complete -c txnsim {path_option} -l"
                f" {option[2:]}{required_part}{value_part} -d '{help_line}'"
            )
    return "\n".join(script_lines)


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
