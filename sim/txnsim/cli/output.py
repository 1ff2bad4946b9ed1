"""What commands print: tables in the manner of Kafka's tools, JSON, lines for people, and
complaints.

Results go to standard output, everything else to standard error, so that a result can be piped.
Kafka's counterpart is ``ToolsUtils.prettyPrintTable``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from txnsim.files import advice
from txnsim.text import printable, printable_lines

T = TypeVar("T")


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What a command found: as a table or lines for people, as values for JSON."""

    headers: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    lines: tuple[str, ...] = ()
    """Behind the table."""
    values: Any = None
    status: int = 0
    """Exit status of the command."""

    def print(self, *, as_json: bool) -> None:
        """Print it; a command without a table prints nothing, as Kafka's."""
        if as_json:
            print_json(self.values)
            return
        if self.headers:
            print_table(self.headers, self.rows)
        for line in self.lines:
            print_line(line)


_RENAMING: list[Callable[[str], str]] = []


@contextmanager
def renamed(rename: Callable[[str], str]) -> Iterator[None]:
    """Have all that is printed go through a function: it puts names that people gave in the place
    of those that the program works with.
    """
    _RENAMING.append(rename)
    try:
        yield
    finally:
        _RENAMING.remove(rename)


def _shown(text: str) -> str:
    for rename in _RENAMING:
        text = rename(text)
    return text


def format_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as Kafka's tools print it: every column padded to its widest cell and followed by one
    TAB, the last one too.
    """
    lines = [headers, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(_java_length(line[column]) for line in lines) for column in range(len(headers))]
    return "".join(
        "".join(
            cell + " " * (width - _java_length(cell)) + "\t"
            for cell, width in zip(line, widths, strict=True)
        )
        + "\n"
        for line in lines
    )


Columns = Mapping[str, Callable[[T], object]]
"""The columns of a table: header -> the cell of a row's value."""


def rows_of(columns: Columns[T], values: Iterable[T]) -> tuple[tuple[str, ...], ...]:
    """The cells of a table below its headers: a row for each value."""
    return tuple(tuple(str(cell(one)) for cell in columns.values()) for one in values)


class Table(str):
    """A text whose line ends and tabs are ours."""

    __slots__ = ()


def table_of(columns: Columns[T], values: Iterable[T]) -> Table:
    """A table with a row for each value, without the last line's end."""
    return Table(format_table(tuple(columns), rows_of(columns, values)).rstrip("\n"))


def _java_length(text: str) -> int:
    """Java counts UTF-16 units: a character outside the Basic Multilingual Plane is two."""
    return len(text) + sum(1 for character in text if character > "\uffff")


def format_json(value: object) -> str:
    """Any of our values as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def tell(
    args: argparse.Namespace,
    value: T,
    shown: Callable[[T], Iterable[str] | str] | Columns[Any],
) -> None:
    """Print what a command has found: as JSON where ``--json`` asks for it, else for people.

    Args:
        args: Of the command.
        value: What was found.
        shown: Its lines; or the columns of a table with a row for each thing in it.
    """
    if args.json:
        print_json(value)
        return
    if isinstance(shown, Mapping):
        assert isinstance(value, Iterable)
        print_text(table_of(shown, value))
        return
    lines = shown(value)
    text = lines if isinstance(lines, str) else "\n".join(map(_line, lines))
    if text or isinstance(lines, str):
        print_text(text)  # in one piece: no line of a log stands in the middle of a table


def _line(text: str) -> str:
    if isinstance(text, Table):
        return text
    return printable_lines(text).replace("\n", r"\n")  # a row may have tabs


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to standard output."""
    shown = [[_shown(cell) for cell in row] for row in rows]
    sys.stdout.write(format_table(headers, shown))


def print_json(value: object) -> None:
    """Print a value as JSON to standard output."""
    sys.stdout.write(_shown(format_json(value)))


def print_line(text: str = "") -> None:
    """Print a line to standard output, at once: a reader at the other end of a pipe sees it."""
    print_data(printable(text))


def print_text(text: str) -> None:
    """Print lines that we have put together."""
    print_data(printable_lines(text))


def print_data(text: str) -> None:
    """Print what programs read, exactly as it is, and the end of a line."""
    print(f"{_shown(text)}\n", end="", flush=True)


def complain(text: str) -> None:
    """Print an error to standard error, in the one form that all of them have."""
    warn(f"txnsim: {text}")


def file_trouble(error: OSError) -> str:
    """What is wrong with a file, for people."""
    where = error.filename or "a temporary file"
    return f"{where}: {error.strerror}{advice(error)}"


def misused(error: Exception) -> None:
    """Tell what was wrong with the command's arguments, or what is missing on this machine."""
    complain(file_trouble(error) if isinstance(error, OSError) else str(error))


def may_move_cursor() -> bool:
    """Whether standard error understands the sequences that erase a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def may_colour() -> bool:
    """Whether standard error is to be coloured: on a terminal, unless ``NO_COLOR`` is set
    (https://no-color.org) or the terminal can't.
    """
    return may_move_cursor() and not os.environ.get("NO_COLOR")


def warn(text: str) -> None:
    """Print a remark to standard error, in place of progress that is shown there."""
    start = "\r\033[K" if may_move_cursor() else ""
    print(f"{start}{_shown(printable_lines(text))}", file=sys.stderr, flush=True)


def progress(text: str) -> None:
    """Show how far a long work is, on a terminal only; each call replaces what was shown."""
    if may_move_cursor():
        print(f"\r{_shown(printable(text))}\033[K", end="", file=sys.stderr, flush=True)
