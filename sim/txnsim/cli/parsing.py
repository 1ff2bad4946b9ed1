"""The argument parser of all commands: argparse with our own error messages and help.

Every misuse ends with the same status and two lines: what is wrong and what was probably meant,
then the command that prints the help. Options are never abbreviated: ``--partition`` must not come
to mean ``--partitions`` of a later release.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from pathlib import Path

MISUSE_STATUS: Final = 2
"""Exit status for wrong arguments, invalid files and missing extras."""

COLUMNS_DEFAULT: Final = 80

_WRONG_TYPE_RE: Final = re.compile(r"(.+): invalid (\w+) value: (.+)")
_TYPE_WORDS: Final = {"int": "a whole number", "number": "a whole number", "float": "a number"}
"""argparse's name of a type -> its name in messages."""
_NEGATIVE_RE: Final = re.compile(r"-\.?\d\S*")
"""A negative value, which is no option: with or without a unit, ``-5s``."""
_END_OF_OPTIONS: Final = "--"
_REQUIRED: Final = "the following arguments are required: "


def columns() -> int:
    """Width of the terminal, as ``shutil.get_terminal_size`` finds it. argparse asks for each
    option of a command, and importing that module takes longer than adding all options.
    """
    variable = os.environ.get("COLUMNS", "")
    if variable.isdecimal() and int(variable):
        return int(variable)
    try:
        width = 0 if sys.__stdout__ is None else os.get_terminal_size(sys.__stdout__.fileno())[0]
    except (ValueError, OSError):  # it is closed, or no terminal
        width = 0
    return width or COLUMNS_DEFAULT


class HelpFormatter(argparse.HelpFormatter):
    """Wraps each line of a text separately, and keeps indented lines as they are."""

    def __init__(self, prog: str, **options: Any) -> None:
        options.setdefault("width", columns() - 2)
        super().__init__(prog, **options)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        import textwrap  # for help alone

        return "\n".join(
            line
            if line.startswith("  ")
            else textwrap.fill(line, width, initial_indent=indent, subsequent_indent=indent)
            for line in text.splitlines()
        )


def new_file(path_text: str) -> Path:
    """A file that a command writes at its end; checked before the command begins.

    Raises:
        argparse.ArgumentTypeError: The folder is missing or not writable, or the path is a folder.
    """
    from pathlib import Path  # not for every command

    path = Path(path_text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"{path_text}: there is no directory {path.parent}; make it first"
        )
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{path_text} is a folder; name a file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path_text} may not be written; name another place")
    return path


def _is_same_file(path: Path, value: object) -> bool:
    """Whether the value of an argument names this file, which exists."""
    if not isinstance(value, (str, os.PathLike)) or not os.path.isfile(value):
        return False
    return os.path.samefile(path, value)


def new_folder(path_text: str) -> Path:
    """A folder that a command writes into at its end, created if missing; checked before the
    command begins.

    Raises:
        argparse.ArgumentTypeError: The path or a parent of it is a file, or the folder is not
            writable.
    """
    from pathlib import Path  # not for every command

    path = Path(path_text)
    nearest_existing = next(
        folder for folder in (path, *path.absolute().parents) if folder.exists()
    )
    if not nearest_existing.is_dir():
        raise argparse.ArgumentTypeError(
            f"{path_text}: {nearest_existing} is a file; name a folder"
        )
    if not os.access(nearest_existing, os.W_OK):
        raise argparse.ArgumentTypeError(
            f"{path_text}: {nearest_existing} may not be written; name another place"
        )
    return path


def new_folder_or_address(target_text: str) -> str:
    """Like ``new_folder``; the address of another store, such as ``s3a://…``, is not checked.

    Raises:
        argparse.ArgumentTypeError: As for ``new_folder``.
    """
    scheme, colon, _ = target_text.partition(":")
    if not (colon and "/" not in scheme):
        new_folder(target_text)
    return target_text


class CommandParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` whose errors suggest what was probably meant."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", HelpFormatter)
        super().__init__(*args, **options)
        self._given_arguments: tuple[str, ...] = ()
        self._negative_number_matcher = _NEGATIVE_RE

    def parse_known_args(  # type: ignore[override]  # typeshed: a namespace of any kind
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse the arguments of this level; reject unknown ones, and a file that is both read and
        written.
        """
        self._given_arguments = tuple(sys.argv[1:] if args is None else args)
        namespace_read, unread_words = super().parse_known_args(self._given_arguments, namespace)
        if unread_words:
            self.error(f"{unread_words[0]!r} is one argument too many")
        self._refuse_to_write_over(namespace_read)
        return namespace_read, unread_words

    def _refuse_to_write_over(self, namespace: Any) -> None:
        """Reject a file to write that another argument names, too: it would be lost."""
        for action in self._actions:
            written_path = getattr(namespace, action.dest, None)
            if action.type is not new_file or not written_path or not os.path.isfile(written_path):
                continue
            for other_action in self._actions:
                values = getattr(namespace, other_action.dest, None)
                if other_action.dest != action.dest and any(
                    _is_same_file(written_path, value)
                    for value in (values if isinstance(values, (list, tuple)) else (values,))
                ):
                    option = "/".join(action.option_strings) or action.dest
                    other_name = "/".join(other_action.option_strings) or other_action.metavar
                    self.error(
                        f"{option} {written_path} would write over the file that"
                        f" {other_name or other_action.dest} names; name another file"
                    )

    def error(self, message: str) -> NoReturn:
        """Exit with the mistake, a suggestion, and the command that prints the help."""
        problem = (
            self._unknown_command() or self._unknown_option() or self._problem_in_words(message)
        )
        self.exit(
            MISUSE_STATUS,
            f"{self.prog.partition(' ')[0]}: {problem}\n`{self.prog} --help` shows what it takes\n",
        )

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """The value of an option or argument. ``--id=--`` names an id of two hyphens: argparse
        takes them out before Python 3.13, and leaves an empty list.
        """
        if action.option_strings and action.nargs is None and arg_strings == [_END_OF_OPTIONS]:
            value = self._get_value(action, _END_OF_OPTIONS)
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from txnsim.text import unknown_word_message  # only in case of an error

            choices = [str(choice) for choice in action.choices]
            if isinstance(action, argparse._SubParsersAction):
                other_place = self._command_elsewhere(str(value))
                raise argparse.ArgumentError(
                    None, other_place or unknown_word_message("command", value, choices)
                )
            raise argparse.ArgumentError(action, unknown_word_message("value", str(value), choices))

    def _command_elsewhere(self, _name: str) -> str | None:
        """A hint for a name that is a command of another level; None without a hint."""
        return None

    def _unknown_command(self) -> str | None:
        """The error about ``descibe`` in ``txns descibe --transactional-id x``; None if the command
        exists. The option belongs to ``describe`` and must not be reported as unknown.
        """
        branch_names = [name for name, _ in self._branches()]
        given_words = iter(self._given_arguments)
        for given_word in given_words:
            if given_word == "--" or not branch_names:
                return None
            if not given_word.startswith("-"):
                if given_word in branch_names:
                    return None
                from txnsim.text import unknown_word_message  # only in case of an error

                return self._command_elsewhere(given_word) or unknown_word_message(
                    "command", given_word, branch_names
                )
            name, equals, _ = given_word.partition("=")
            action = self._option_string_actions.get(name)
            if action is None:
                return None
            if action.nargs is None and not equals:
                next(given_words, None)
        return None

    def _unknown_option(self) -> str | None:
        """The first unknown option. It is reported first, because it causes other errors in
        argparse.
        """
        from difflib import get_close_matches

        known_options = self._option_string_actions
        unknown_option = next(
            (option for option in self._own_options() if option not in known_options), None
        )
        if unknown_option is None:
            return None
        for name, branch_parser in self._chosen_branches():
            if unknown_option in branch_parser._option_string_actions:
                return (
                    f"{unknown_option} belongs behind {name!r}: `{self.prog} {name}"
                    f" {unknown_option} …`"
                )
        # Without the hyphens, which all have alike.
        names = {
            option.removeprefix("--"): option for option in known_options if option.startswith("--")
        }
        option_text = unknown_option.removeprefix("--")
        shortened_option = option_text.rpartition("-")[0]  # --http-port is --http
        close_matches = (
            [shortened_option]
            if shortened_option in names
            else get_close_matches(option_text, names, n=1)
        )
        return f"no option {unknown_option!r}" + (
            f"; did you mean {names[close_matches[0]]}?" if close_matches else ""
        )

    def _own_options(self) -> Iterator[str]:
        """Options of this level: those before a command, or before ``--``."""
        commands = [command_name for command_name, _ in self._branches()]
        for argument in self._given_arguments:
            if argument == "--" or argument in commands:
                return
            if argument.startswith("--"):
                yield argument.partition("=")[0]

    def _branches(self) -> Iterator[tuple[str, argparse.ArgumentParser]]:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from action.choices.items()

    def _chosen_branches(self) -> list[tuple[str, argparse.ArgumentParser]]:
        return [
            (name, branch_parser)
            for name, branch_parser in self._branches()
            if name in self._given_arguments
        ]

    def _problem_in_words(self, message: str) -> str:
        """argparse's message in our words."""
        problem = message.removeprefix("argument ").replace("with argument ", "with ")
        if problem.startswith(_REQUIRED):
            missing_arguments = problem.removeprefix(_REQUIRED)
            commands = [name for name, _ in self._branches()]
            if commands:
                return f"{missing_arguments} is missing; there are: {', '.join(commands)}"
            return f"{missing_arguments} {'are' if ', ' in missing_arguments else 'is'} missing"
        type_mismatch = _WRONG_TYPE_RE.fullmatch(problem)
        if type_mismatch is not None and type_mismatch[2] in _TYPE_WORDS:
            expected_words = _TYPE_WORDS[type_mismatch[2]]
            return f"{type_mismatch[1]}: expected {expected_words}, found {type_mismatch[3]}"
        return problem
