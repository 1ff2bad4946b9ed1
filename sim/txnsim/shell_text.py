"""Commands that a person may paste into a shell, made in one place.

Transactional ids, groups and clients can have any name. Printed into a command as it is, a name
such as ``x;touch FILE #`` runs commands of its own, ``-h`` is taken for an option, and one with
control characters prints so that the command names another id. So every command that carries a name
from outside is made by ``command_line``: each word arrives at the program as it was meant, in any
POSIX shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final, NewType

from txnsim.text import printable

ShellText = NewType("ShellText", str)
"""One line of a shell: a command, or a comment that says why there is none."""

OPTION_MARK: Final = "-"
END_OF_OPTIONS: Final = "--"
_COMMENT_MARK: Final = "# "
_NO_COMMAND: Final = "# no command line can carry this name: {reason}: {name}"
_PLAIN_MARKS: Final = frozenset(" ./:=@_")
_NAME_LENGTH_MAX: Final = 80
"""Longest part of a name that such a comment repeats."""


def command_line(*words: str) -> ShellText:
    """A command of these words, the program first, each quoted where it needs to be.

    A word with characters that a terminal does not show is written by ``printf`` with its octal
    bytes. Where no shell can pass a name on (it has a NUL character or ends with a line break), the
    line is a comment that says so: pasted, it does nothing.
    """
    for word in words:
        reason = _obstacle(word)
        if reason is not None:
            shown_name = printable(word)[:_NAME_LENGTH_MAX]
            return ShellText(_NO_COMMAND.format(reason=reason, name=shown_name))
    return ShellText(" ".join(map(_quoted, words)))


def continued(command: ShellText, *words: str) -> ShellText:
    """A command with more words at its end."""
    if not words or command.startswith(_COMMENT_MARK):
        return command
    more_words = command_line(*words)
    if more_words.startswith(_COMMENT_MARK):
        return more_words
    return ShellText(f"{command} {more_words}")


def option(name: str, value: object) -> tuple[str, ...]:
    """The words of an option with its value: two, or one where the value looks like an option."""
    value_text = str(value)
    if value_text.startswith(OPTION_MARK):
        return (f"{name}={value_text}",)
    return name, value_text


def arguments(*values: str, options: Sequence[str] = ()) -> tuple[str, ...]:
    """The words of arguments and of the options that go with them: the arguments come first, or
    last behind ``--`` where one looks like an option.
    """
    if any(value.startswith(OPTION_MARK) for value in values):
        return *options, END_OF_OPTIONS, *values
    return *values, *options


def _obstacle(word: str) -> str | None:
    """Why a shell can't pass a word on; None if it can."""
    if "\0" in word:
        return "it has a NUL character"
    if word.endswith("\n"):
        return "it ends with a line break"
    if any("\ud800" <= character <= "\udfff" for character in word):
        return "it is no valid UTF-8"
    return None


def _quoted(word: str) -> str:
    if printable(word) == word:
        return shlex.quote(word)
    octal_bytes = "".join(
        chr(byte) if byte < 0x80 and _is_plain(byte) else f"\\{byte:03o}" for byte in word.encode()
    )
    return f"\"$(printf '{octal_bytes}')\""


def _is_plain(byte: int) -> bool:
    """Whether a byte means itself to ``printf`` and to an interactive shell, wherever it stands."""
    return chr(byte).isalnum() or chr(byte) in _PLAIN_MARKS
