from __future__ import annotations

import argparse
import errno
import io
import json
import sys
from typing import Any

import msgspec
import pytest
import structlog

from txnsim.cli.event_log import log_to_stderr, set_up_logs
from txnsim.cli.output import (
    Columns,
    Output,
    complain,
    format_json,
    format_table,
    may_colour,
    misused,
    print_json,
    print_line,
    print_table,
    progress,
    tell,
    warn,
)
from txnsim.errors import BadInputError
from txnsim.types import TopicPartition


def test_every_column_is_padded_and_followed_by_a_tab_the_last_one_too() -> None:
    table = format_table(("A", "LongHeader"), (("value", "x"), ("", "longer than it")))
    assert table == "A    \tLongHeader    \t\nvalue\tx             \t\n     \tlonger than it\t\n"


def test_a_table_without_rows_is_its_header() -> None:
    assert format_table(("A", "BC"), ()) == "A\tBC\t\n"


def test_widths_are_counted_as_java_counts_them() -> None:
    assert format_table(("H",), (("🙂",), ("äöü",))) == "H  \t\n🙂 \t\näöü\t\n"


def test_json_is_indented_and_ends_with_a_newline() -> None:
    text = format_json({"partition": TopicPartition("t", 1)})
    assert text.endswith("}\n")
    assert json.loads(text) == {"partition": {"topic": "t", "partition": 1}}


def test_results_and_complaints_go_to_different_streams(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A",), ())
    print_json([])
    print_line("line")
    warn("careful")
    assert capsys.readouterr() == ("A\t\n[]\nline\n", "careful\n")


def test_logs_are_no_results(capsys: pytest.CaptureFixture[str]) -> None:
    before = structlog.get_config()
    log_to_stderr()
    try:
        structlog.get_logger("txnsim.test").info("controller.session_ended", broker=1)
        structlog.get_logger("txnsim.test").error("txn.markers.broken_answer", broker=1)
    finally:
        structlog.configure(**before)
    out, err = capsys.readouterr()
    assert out == ""
    assert "txn.markers.broken_answer" in err
    assert "controller.session_ended" not in err, "a story tells that by itself"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "colours", "moves"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_a_terminal_gets_what_it_understands(
    environment: dict[str, str], colours: bool, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert may_colour() is colours
    progress("half")
    warn("a remark")
    set_up_logs()
    structlog.get_logger("x").warning("an.event")
    told = terminal.getvalue()
    assert ("\x1b[K" in told) is moves
    assert ("\x1b[3" in told) is colours
    if not moves:
        assert told.startswith("a remark\n")
    structlog.reset_defaults()


def test_a_pipe_gets_neither(capsys: pytest.CaptureFixture[str]) -> None:
    assert not may_colour()
    complain("no such thing")
    assert capsys.readouterr().err == "txnsim: no such thing\n"


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (lambda found: f"{len(found)} things", "2 things\n"),
        (lambda found: [str(one) for one in found], "1\n2\n"),
        ({"Thing": lambda one: one}, "Thing\t\n1    \t\n2    \t\n"),
    ],
)
def test_what_was_found_is_told_in_lines_in_a_table_or_as_json(
    shown: Any, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(argparse.Namespace(json=False), [1, 2], shown)
    assert capsys.readouterr().out == printed
    tell(argparse.Namespace(json=True), [1, 2], shown)
    assert json.loads(capsys.readouterr().out) == [1, 2]


def test_what_was_found_is_printed_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of a log, which goes to standard error, can stand in its middle."""
    written: list[str] = []
    monkeypatch.setattr(sys.stdout, "write", lambda text: written.append(text))
    tell(argparse.Namespace(json=False), [1, 2], lambda found: map(str, found))
    assert [text for text in written if text] == ["1\n2\n"]


ORDERS = "\x1b]0;owned\x07a\nforged\u202e"


def test_names_of_others_give_a_terminal_no_orders(capsys: pytest.CaptureFixture[str]) -> None:
    """Not in a table, a line, a list of lines, nor a complaint; JSON is exact."""
    columns: Columns[str] = {"id": str, "more": lambda _: "x"}
    args = argparse.Namespace(json=False)
    tell(args, [ORDERS], columns)
    tell(args, [ORDERS], lambda found: [f"id {one}" for one in found])
    Output(headers=("id",), rows=((ORDERS,),), lines=(ORDERS,)).print(as_json=False)
    print_line(ORDERS)
    complain(ORDERS)
    printed = capsys.readouterr()
    for text in (printed.out, printed.err.replace("\033[K", "").replace("\r", "")):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "\nforged" not in printed.out
    assert r"\x1b]0;owned\x07a\nforged\u202e" in printed.out
    tell(argparse.Namespace(json=True), ORDERS, columns)
    assert msgspec.json.decode(capsys.readouterr().out) == ORDERS


def test_a_misuse_is_told_with_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    misused(FileNotFoundError(2, "No such file or directory", "x.log"))
    misused(BadInputError("y is no directory"))
    misused(OSError(errno.ENOSPC, "No space left on device"))
    assert capsys.readouterr().err.splitlines() == [
        "txnsim: x.log: No such file or directory",
        "txnsim: y is no directory",
        "txnsim: a temporary file: No space left on device; make room, or name another place, and"
        " run the command again",
    ]
