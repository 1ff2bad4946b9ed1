"""What commands print: tables as Kafka's tools print them, JSON, lines for people, and complaints.

Results go to standard output, everything else to standard error, so that a result can be piped.
Kafka's counterpart is ``ToolsUtils.prettyPrintTable``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec

from txnsim.files import advice
from txnsim.text import printable, printable_lines

T = TypeVar("T")


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command: a table or lines for people, values for JSON."""

    headers: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    lines: tuple[str, ...] = ()
    """Lines after the table."""
    values: Any = None
    status: int = 0
    """Exit status of the command."""

    def print(self, *, as_json: bool, as_line: bool = False) -> None:
        """Print the result; like Kafka's tool nothing for an empty table.

        Args:
            as_json: Whether to print JSON.
            as_line: Whether JSON is printed on one line, because more results follow.
        """
        if as_json and as_line:
            TERMINAL.json_line(self.values)
            return
        if as_json:
            TERMINAL.json(self.values)
            return
        if self.headers:
            TERMINAL.table(self.headers, self.rows)
        for line in self.lines:
            TERMINAL.line(line)


Columns = Mapping[str, Callable[[T], object]]
"""The columns of a table: header -> the cell of a row's value."""


def rows_of(columns: Columns[T], values: Iterable[T]) -> tuple[tuple[str, ...], ...]:
    """The cells of a table below its headers: a row for each value."""
    return tuple(tuple(str(cell_of(value)) for cell_of in columns.values()) for value in values)


class FormattedTable(str):
    """A text that we formatted, so that its line ends and tabs need no escaping."""

    __slots__ = ()

    @classmethod
    def of(cls, columns: Columns[T], values: Iterable[T]) -> FormattedTable:
        """A table with a row for each value; no newline at the end."""
        return cls(cls.format_table(tuple(columns), rows_of(columns, values)).rstrip("\n"))

    @staticmethod
    def format_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """A table as Kafka's tools print it: every column padded to its widest cell and followed by
        one TAB, the last one too.
        """
        table_rows = [headers, *([printable(cell) for cell in row] for row in rows)]
        widths = [
            max(_java_length(table_row[column]) for table_row in table_rows)
            for column in range(len(headers))
        ]
        return "".join(
            "".join(
                cell + " " * (width - _java_length(cell)) + "\t"
                for cell, width in zip(table_row, widths, strict=True)
            )
            + "\n"
            for table_row in table_rows
        )


def _java_length(text: str) -> int:
    """Length in UTF-16 units, as Java counts: a character outside the Basic Multilingual Plane is
    two.
    """
    return len(text) + sum(1 for character in text if character > "\uffff")


def format_json(value: object) -> str:
    """A value as indented JSON with a final newline."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


class Terminal:
    """Standard output, for results, and standard error, for everything else."""

    def __init__(self) -> None:
        self._renamers: list[Callable[[str], str]] = []
        self.has_result = False
        """Whether something was printed to standard output since ``begin``."""
        self.failure: str | None = None
        """The last complaint since ``begin``."""
        self.count: object = None
        """The command's count of work since ``begin``; ``str`` gives its text. None without one."""

    def begin(self) -> None:
        """Reset what an earlier command in this process has printed and counted."""
        self.has_result, self.failure, self.count = False, None, None

    @contextmanager
    def renaming(self, rename_text: Callable[[str], str]) -> Iterator[None]:
        """Pass all output through a function, which replaces internal names by the names that the
        user gave.
        """
        self._renamers.append(rename_text)
        try:
            yield
        finally:
            self._renamers.remove(rename_text)

    def _rename_text(self, text: str) -> str:
        for rename_text in self._renamers:
            text = rename_text(text)
        return text

    # Results

    def tell(
        self,
        args: argparse.Namespace,
        value: T,
        text_form: Callable[[T], Iterable[str] | str] | Columns[Any],
    ) -> None:
        """Print a command's result: as JSON with ``--json``, else for people.

        Args:
            args: The command's arguments.
            value: The result.
            text_form: Makes its lines; or the columns of a table with a row for each element.
        """
        if args.json:
            self.json(value)
            return
        if isinstance(text_form, Mapping):
            assert isinstance(value, Iterable)
            self.text(FormattedTable.of(text_form, value))
            return
        text_or_lines = text_form(value)
        text = (
            text_or_lines
            if isinstance(text_or_lines, str)
            else "\n".join(map(_line, text_or_lines))
        )
        if text or isinstance(text_or_lines, str):
            self.text(text)  # in one piece: no line of a log stands in the middle of a table

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table."""
        self.has_result = True
        shown_rows = [[self._rename_text(cell) for cell in row] for row in rows]
        sys.stdout.write(FormattedTable.format_table(headers, shown_rows))

    def json(self, value: object) -> None:
        """Print a value as JSON."""
        self.has_result = True
        sys.stdout.write(self._rename_text(format_json(value)))

    def json_line(self, value: object) -> None:
        """Print a value as one line of JSON at once."""
        self.data(msgspec.json.encode(value).decode())

    def line(self, text: str = "") -> None:
        """Print a line at once: a reader at the other end of a pipe sees it."""
        self.data(printable(text))

    def text(self, text: str) -> None:
        """Print lines that contain only our own text."""
        self.data(printable_lines(text))

    def data(self, text: str) -> None:
        """Print data for programs exactly as it is, and a newline."""
        self.has_result = True
        print(f"{self._rename_text(text)}\n", end="", flush=True)

    # Everything else

    def complain(self, error: Exception | str) -> None:
        """Print an error in the common form: wrong arguments, a missing extra, or a bad file."""
        text = self.error_text(error)
        self.fail(text, shown_text=f"txnsim: {text}")

    def fail(self, text: str, *, shown_text: str | None = None) -> None:
        """Print why a command failed, and keep it for ``{"error": …}``.

        Args:
            text: The reason.
            shown_text: The text to print, if it differs from ``text``.
        """
        self.failure = text
        self.warn(text if shown_text is None else shown_text)

    @staticmethod
    def error_text(error: Exception | str) -> str:
        """The message of an error, for people."""
        if not isinstance(error, OSError):
            return str(error)
        file_name = error.filename or FILE_WITHOUT_NAME
        return f"{file_name}: {error.strerror}{advice(error)}"

    def warn(self, text: str) -> None:
        """Print a remark, replacing a line of progress."""
        line_start = "\r\033[K" if self.may_move_cursor() else ""
        print(
            f"{line_start}{self._rename_text(printable_lines(text))}",
            file=sys.stderr,
            flush=True,
        )

    def progress(self, text: str) -> None:
        """Show the progress of a long command, on a terminal only; each call replaces the last."""
        if self.may_move_cursor():
            line = self._rename_text(printable(text))
            print(f"\r{line}\033[K", end="", file=sys.stderr, flush=True)

    @staticmethod
    def may_move_cursor() -> bool:
        """Whether standard error understands the sequences that erase a line."""
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def may_colour(self) -> bool:
        """Whether to print colours on standard error: on a terminal, unless ``NO_COLOR`` is set
        (https://no-color.org) or the terminal can't.
        """
        return self.may_move_cursor() and not os.environ.get("NO_COLOR")


FILE_WITHOUT_NAME: Final = "standard output, or a temporary file"
"""What an error of the system that names no file is about."""
TERMINAL: Final = Terminal()


def _line(text: str) -> str:
    if isinstance(text, FormattedTable):
        return text
    return printable_lines(text).replace("\n", r"\n")  # a row may have tabs
