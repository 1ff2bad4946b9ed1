"""The command ``txnsim``: its words, its output, and how it ends."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
import pytest
import structlog

from tests.support.bash_completion import completions_of, write_completion
from txnsim.cli import main as main_module
from txnsim.cli._completion import levels
from txnsim.cli.commands import commands, examples, groups
from txnsim.cli.event_log import set_up_logs
from txnsim.cli.main import INTERRUPTED_STATUS, main, parser_of
from txnsim.cli.output import TERMINAL, Columns, FormattedTable, Output, format_json
from txnsim.cli.parsing import MISUSE_STATUS, CommandParser, columns
from txnsim.errors import BadInputError, ConfigError, MissingExtraError, TxnsimError
from txnsim.faults.points import FaultPoint
from txnsim.types import TopicPartition


def command(outcome: Any) -> ModuleType:
    module = ModuleType("command")

    def run(args: Any) -> int:
        if isinstance(outcome, BaseException):
            raise outcome
        status: int = outcome
        return status

    module.add_arguments = lambda parser: parser.add_argument("--x")  # type: ignore[attr-defined]
    module.run = run  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize(
    ("outcome", "status", "complaint"),
    [
        (0, 0, ""),
        (3, 3, ""),
        (ConfigError("field x is wrong"), 2, "txnsim: field x is wrong\n"),
        (MissingExtraError("txnsim[http] is missing"), 2, "txnsim: txnsim[http] is missing\n"),
        (TxnsimError("no answer"), 1, "txnsim: no answer\n"),
        (KeyboardInterrupt(), INTERRUPTED_STATUS, "txnsim: stopped\n"),
    ],
)
def test_a_command_gives_the_status_and_its_failures_are_one_line(
    outcome: object,
    status: int,
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(main_module, "_load_command", lambda name: command(outcome))
    assert main(["serve", "--x", "1"]) == status
    assert capsys.readouterr().err == complaint


@pytest.mark.parametrize(
    ("argv", "status", "stream", "text"),
    [
        (["--help"], 0, "out", "COMMAND"),
        (["--version"], 0, "out", "txnsim "),
        ([], 2, "out", "usage: txnsim"),
        (["bogus"], 2, "err", "txnsim: no command 'bogus'"),
        (["why", "orders-0"], 2, "err", "no command 'why'; did you mean `txnsim txns why`?"),
        (["describe"], 2, "err", "`txnsim txns describe`"),
        (["--bogus"], 2, "err", "txnsim: no option '--bogus'"),
        (["--http", "serve"], 2, "err", "--http belongs behind 'serve': `txnsim serve --http …`"),
        (["serve", "--brokrs", "3"], 2, "err", "'--brokrs'; did you mean --brokers?"),
        (["serve", "--http-port", "0"], 2, "err", "'--http-port'; did you mean --http?"),
        (["txns", "--help"], 0, "out", "find-hanging"),
        (["txns"], 2, "err", "COMMAND is missing; there are: list, describe"),
        (["txns", "list"], 2, "err", "--bootstrap-server is missing"),
        (["txns", "find-hangin"], 2, "err", "did you mean find-hanging?"),
    ],
)
def test_help_version_and_misuse(
    argv: list[str], status: int, stream: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == status
    assert text in getattr(capsys.readouterr(), stream)


def test_only_a_process_of_our_own_leaves_out_what_no_command_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["txnsim", "--version"])
    monkeypatch.setattr(main_module, "CONVENIENCES", ("never_imported", "pytest"))
    main(["--version"])
    assert "never_imported" not in sys.modules
    try:
        main()
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("never_imported")
        assert importlib.import_module("pytest") is pytest
    finally:
        del sys.modules["never_imported"]


def test_a_command_does_not_import_hypothesis() -> None:
    """It is installed here. kio imports it where it is, and that takes as long as all the rest."""
    command = (sys.executable, "-X", "importtime", "-m", "txnsim", "txns", "list", "--help")
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    imported_modules = {
        printed_line.rpartition("|")[2].strip() for printed_line in process.stderr.splitlines()
    }
    assert "kio.static.primitive" in imported_modules
    assert not {"hypothesis", "rich"} & imported_modules


def test_help_shows_every_command_once_in_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    output = capsys.readouterr().out
    assert sorted(name for names in groups().values() for name in names) == sorted(commands())
    assert all(f"\n    {command_name} " in output for command_name in commands())
    assert all(f"\n{title}:\n" in output for title in groups())
    assert "\nexamples:\n  txnsim serve" in output


@pytest.mark.slow
@pytest.mark.parametrize("argv", [["serve"], ["txns", "list"], ["scenario", "run", "nope"]])
def test_every_error_has_one_form(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TXNSIM_PORT", "-1")
    assert main(argv) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("txnsim: ")
    assert "usage:" not in complaint
    assert len(complaint.splitlines()) <= 2


def test_a_variable_that_there_is_not_is_refused_by_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TXNSIM_BROKRS", "3")
    for command_name in commands():
        assert main([command_name]) == 2
        assert "'TXNSIM_BROKRS'; did you mean TXNSIM_BROKERS?" in capsys.readouterr().err


def test_a_wrong_value_of_a_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TXNSIM_KIP_TEXT", "maybe")
    assert main(["serve"]) == 2
    assert capsys.readouterr().err == "txnsim: TXNSIM_KIP_TEXT=maybe: expected true or false\n"


def in_process(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_optimized_python_is_refused_with_a_reason() -> None:
    process = in_process("-O", "-m", "txnsim.cli.main", "--help")
    assert process.returncode == 1
    assert "refusing to run under python -O" in process.stderr
    assert process.stdout == ""


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from txnsim.cli.main import main; main(['--help']);"
        "names = ('asyncio', 'kio', 'txnsim.client', 'txnsim.server');"
        "print([name for name in names if name in sys.modules])"
    )
    assert in_process("-c", code).stdout.endswith("[]\n")


def test_a_reader_that_goes_away_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(main_module, "_load_command", lambda name: command(BrokenPipeError()))
        assert main(["serve"]) == 1


def test_the_package_is_the_command_too() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "txnsim", "--version"], capture_output=True, text=True, check=True
    )
    assert process.stdout.startswith("txnsim ")


INTERRUPTED: Final = """
import sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == place:
            raise KeyboardInterrupt

place = sys.argv.pop(1)
sys.meta_path.insert(0, CtrlC())
from txnsim.__main__ import main
sys.exit(main())
"""
"""A command during whose start Ctrl-C comes, when a module is imported."""


@pytest.mark.parametrize(
    "interrupted_in",
    ["argparse", "msgspec", "txnsim.cli.serve", "txnsim.errors", "txnsim.server.cluster"],
)
def test_ctrl_c_during_a_start_says_nothing(interrupted_in: str) -> None:
    """An interrupt can strike during the imports, which are most of a start."""
    finished_process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, interrupted_in, "serve", "--port", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished_process.returncode, finished_process.stdout, finished_process.stderr) == (
        INTERRUPTED_STATUS,
        "",
        "",
    )


def test_a_full_disk_is_said_in_one_line() -> None:
    with open("/dev/full", "w") as full_disk:
        process = subprocess.run(
            [sys.executable, "-m", "txnsim", "completion", "bash"],
            stdout=full_disk, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert process.returncode == 1
    assert process.stderr == (
        "txnsim: standard output, or a temporary file: what was written is not whole: No space left"
        " on device; make room, or name another place, and run the command again\n"
    )


def test_every_column_is_padded_and_followed_by_a_tab_the_last_one_too() -> None:
    table = FormattedTable.format_table(
        ("A", "LongHeader"), (("value", "x"), ("", "longer than it"))
    )
    assert table == "A    \tLongHeader    \t\nvalue\tx             \t\n     \tlonger than it\t\n"


def test_a_table_without_rows_is_its_header() -> None:
    assert FormattedTable.format_table(("A", "BC"), ()) == "A\tBC\t\n"


def test_widths_are_counted_as_java_counts_them() -> None:
    assert FormattedTable.format_table(("H",), (("🙂",), ("äöü",))) == "H  \t\n🙂 \t\näöü\t\n"


def test_json_is_indented_and_ends_with_a_newline() -> None:
    text = format_json({"partition": TopicPartition("t", 1)})
    assert text.endswith("}\n")
    assert json.loads(text) == {"partition": {"topic": "t", "partition": 1}}


def test_results_and_complaints_go_to_different_streams(capsys: pytest.CaptureFixture[str]) -> None:
    TERMINAL.table(("A",), ())
    TERMINAL.json([])
    TERMINAL.line("line")
    TERMINAL.warn("careful")
    assert capsys.readouterr() == ("A\t\n[]\nline\n", "careful\n")


def test_logs_are_no_results(capsys: pytest.CaptureFixture[str]) -> None:
    config_before = structlog.get_config()
    set_up_logs(level="error")
    try:
        structlog.get_logger("txnsim.test").info("controller.session_ended", broker=1)
        structlog.get_logger("txnsim.test").error("txn.markers.broken_answer", broker=1)
    finally:
        structlog.configure(**config_before)
    output, error_output = capsys.readouterr()
    assert output == ""
    assert "txn.markers.broken_answer" in error_output
    assert "controller.session_ended" not in error_output, "a story tells that by itself"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "has_colours", "can_move_cursor"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_a_terminal_gets_what_it_understands(
    environment: dict[str, str],
    has_colours: bool,
    can_move_cursor: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, variable_value in environment.items():
        monkeypatch.setenv(name, variable_value)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert TERMINAL.may_colour() is has_colours
    TERMINAL.progress("half")
    TERMINAL.warn("a remark")
    set_up_logs()
    structlog.get_logger("x").warning("an.event")
    output = terminal.getvalue()
    assert ("\x1b[K" in output) is can_move_cursor
    assert ("\x1b[3" in output) is has_colours
    if not can_move_cursor:
        assert output.startswith("a remark\n")
    structlog.reset_defaults()


def test_a_pipe_gets_neither(capsys: pytest.CaptureFixture[str]) -> None:
    assert not TERMINAL.may_colour()
    TERMINAL.complain("no such thing")
    assert capsys.readouterr().err == "txnsim: no such thing\n"


@pytest.mark.parametrize(
    ("form", "expected_output"),
    [
        (lambda numbers: f"{len(numbers)} things", "2 things\n"),
        (lambda numbers: [str(number) for number in numbers], "1\n2\n"),
        ({"Thing": lambda number: number}, "Thing\t\n1    \t\n2    \t\n"),
    ],
)
def test_what_was_found_is_told_in_lines_in_a_table_or_as_json(
    form: Any, expected_output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    TERMINAL.tell(argparse.Namespace(json=False), [1, 2], form)
    assert capsys.readouterr().out == expected_output
    TERMINAL.tell(argparse.Namespace(json=True), [1, 2], form)
    assert json.loads(capsys.readouterr().out) == [1, 2]


def test_what_was_found_is_printed_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log line on standard error can't stand in the middle of the output."""
    written_texts: list[str] = []
    monkeypatch.setattr(sys.stdout, "write", lambda text: written_texts.append(text))
    TERMINAL.tell(argparse.Namespace(json=False), [1, 2], lambda numbers: map(str, numbers))
    assert [text for text in written_texts if text] == ["1\n2\n"]


ORDERS = "\x1b]0;owned\x07a\nforged\u202e"


def test_names_of_others_give_a_terminal_no_orders(capsys: pytest.CaptureFixture[str]) -> None:
    """Not in a table, a line, a list of lines, nor a complaint; JSON is exact."""
    columns: Columns[str] = {"id": str, "more": lambda _: "x"}
    args = argparse.Namespace(json=False)
    TERMINAL.tell(args, [ORDERS], columns)
    TERMINAL.tell(args, [ORDERS], lambda names: [f"id {name}" for name in names])
    Output(headers=("id",), rows=((ORDERS,),), lines=(ORDERS,)).print(as_json=False)
    TERMINAL.line(ORDERS)
    TERMINAL.complain(ORDERS)
    output = capsys.readouterr()
    for text in (output.out, output.err.replace("\033[K", "").replace("\r", "")):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "\nforged" not in output.out
    assert r"\x1b]0;owned\x07a\nforged\u202e" in output.out
    TERMINAL.tell(argparse.Namespace(json=True), ORDERS, columns)
    assert msgspec.json.decode(capsys.readouterr().out) == ORDERS


def test_a_misuse_is_told_with_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    TERMINAL.complain(FileNotFoundError(2, "No such file or directory", "x.log"))
    TERMINAL.complain(BadInputError("y is no directory"))
    TERMINAL.complain(OSError(errno.ENOSPC, "No space left on device"))
    assert capsys.readouterr().err.splitlines() == [
        "txnsim: x.log: No such file or directory",
        "txnsim: y is no directory",
        "txnsim: standard output, or a temporary file: No space left on device; make room, or name"
        " another place, and run the command again",
    ]


Captured = pytest.CaptureFixture[str]


def complaint_lines(parser: CommandParser, arguments: list[str], capsys: Captured) -> list[str]:
    with pytest.raises(SystemExit) as end:
        parser.parse_args(arguments)
    assert end.value.code == MISUSE_STATUS
    return capsys.readouterr().err.splitlines()


def test_a_misuse_is_two_lines(capsys: Captured) -> None:
    assert complaint_lines(CommandParser(prog="p q"), ["--nothing"], capsys) == [
        "p: no option '--nothing'",
        "`p q --help` shows what it takes",
    ]


def test_options_are_not_abbreviated() -> None:
    parser = CommandParser()
    parser.add_argument("--partition")
    with pytest.raises(SystemExit):
        parser.parse_args(["--part", "1"])


@pytest.mark.parametrize(
    ("arguments", "first_line", "second_line"),
    [
        (["--brokrs=3"], "p: no option '--brokrs'; did you mean --brokers?", "p"),
        (["--brokrs", "x", "sub"], "p: no option '--brokrs'; did you mean --brokers?", "p"),
        (["--brokers", "x"], "p: --brokers: expected a whole number, found 'x'", "p"),
        (["--topic", "sub"], "p: --topic belongs behind 'sub': `p sub --topic …`", "p"),
        (["sub", "--topc=a"], "p: no option '--topc'; did you mean --topic?", "p sub"),
        (["sub", "--topic"], "p: --topic: expected one argument", "p sub"),
        (["sub", "more"], "p: 'more' is one argument too many", "p sub"),
        (["sbu"], "p: no command 'sbu'; did you mean sub? there are: sub, other", "p"),
        (["sub", "--level", "deep"], "p: --level: no value 'deep'; did you mean deeper? "
         "there are: deeper, flat", "p sub"),
        ([], "p: WHAT is missing; there are: sub, other", "p"),
        (["other"], "p: FILE, --to are missing", "p other"),
        (["other", "--to", "a", "--a", "--b", "f"], "p: --b: not allowed with --a", "p other"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_what_was_meant(
    arguments: list[str], first_line: str, second_line: str, capsys: Captured
) -> None:
    parser = CommandParser(prog="p")
    parser.add_argument("--brokers", type=int)
    branches = parser.add_subparsers(dest="command", required=True, metavar="WHAT")
    branch_parser = branches.add_parser("sub")
    branch_parser.add_argument("--topic")
    branch_parser.add_argument("--level", choices=["deeper", "flat"])
    other_command = branches.add_parser("other")
    other_command.add_argument("file", metavar="FILE")
    other_command.add_argument("--to", required=True)
    either = other_command.add_mutually_exclusive_group()
    either.add_argument("--a", action="store_true")
    either.add_argument("--b", action="store_true")
    assert complaint_lines(parser, arguments, capsys) == [
        first_line,
        f"`{second_line} --help` shows what it takes",
    ]


def test_help_wraps_sentences_and_leaves_examples() -> None:
    parser = CommandParser(prog="p", epilog=f"{'word ' * 40}\n\nexamples:\n  {'x' * 200}")
    help_text = parser.format_help()
    assert f"\nexamples:\n  {'x' * 200}\n" in help_text
    assert max(len(line) for line in help_text.splitlines() if "word" in line) <= 80


@pytest.mark.parametrize("column_text", ["100", "0", "", "wide", "-5"])
def test_help_is_as_wide_as_python_s_own(column_text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", column_text)
    assert columns() == shutil.get_terminal_size().columns


def test_help_has_a_width_without_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "__stdout__", None)
    assert columns() == shutil.get_terminal_size().columns


def test_options_are_added_without_what_only_help_needs() -> None:
    program = """
import sys
from txnsim.cli.main import CONVENIENCES, parser_of
sys.modules.update(dict.fromkeys(CONVENIENCES))
parser_of("serve")
print("shutil" in sys.modules)
"""
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert process.stdout == "False\n"


# Completion as people have it: each shell is asked for real where the machine has it.


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    return write_completion(tmp_path, capsys)


def test_bash_completes_commands_options_and_choices(script: Path) -> None:
    assert set(commands()) <= set(completions_of(script, ""))
    assert completions_of(script, "compl") == ["completion"]
    assert completions_of(script, "faults", "ar") == ["arm"]
    assert completions_of(script, "faults", "arm", "late", "--poi") == ["--point"]
    assert completions_of(script, "faults", "arm", "late", "--point", "peer") == [
        "peer.request", "peer.response",
    ]  # fmt: skip
    assert completions_of(script, "serve", "--trace", "b") == ["brief"]
    assert completions_of(script, "completion", "")[:3] == ["bash", "zsh", "fish"]
    assert completions_of(script, "txns", "find-h") == ["find-hanging"]


def test_a_value_that_anything_can_be_is_left_to_files(script: Path) -> None:
    assert completions_of(script, "serve", "--config", "") == []


def test_every_command_is_a_level() -> None:
    tree = levels()
    assert set(commands()) <= set(tree)
    assert tree["faults arm"].choices["--point"] == tuple(map(str, FaultPoint))
    assert "--json" not in tree["faults list"].takes_value
    assert "--http" in tree["faults list"].takes_value


@pytest.mark.parametrize("shell_name", ["zsh", "fish"])
def test_other_shells_take_their_script(
    shell_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell_name]) == 0
    file = tmp_path / shell_name
    file.write_text(capsys.readouterr().out)
    assert "find-hanging" in file.read_text()
    program = shutil.which(shell_name)
    if program is None:
        pytest.skip(f"no {shell_name} on this machine: its script is made and not run")
    process = subprocess.run(
        [program, "-n", str(file)], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")


def test_bash_completes_actions_and_apis(script: Path) -> None:
    assert "hold" in completions_of(script, "faults", "arm", "late", "--do", "h")
    assert completions_of(script, "faults", "arm", "late", "--api", "EndT") == ["EndTxn"]


# Every command has its examples, and each of them is one that the command takes.


COMMAND_LINES = [(path, line) for path, lines in examples().items() for line in lines]


def test_every_command_has_two_and_no_other_has_any() -> None:
    assert {path for path in levels() if path} == set(examples())
    assert {path: len(lines) for path, lines in examples().items() if len(lines) < 2} == {}


def commands_of(line: str) -> list[list[str]]:
    """The calls of txnsim in a line of a shell."""
    line = line.partition("<(")[2].rstrip(")") or line
    calls: list[list[str]] = []
    for part in line.split("&&"):
        tokens = shlex.split(part)
        end = next(
            (index for index, token in enumerate(tokens) if token in ("<", ">", "|")), len(tokens)
        )
        assert tokens[0] == "txnsim"
        calls.append(tokens[1:end])
    return calls


@pytest.mark.parametrize(("path", "line"), COMMAND_LINES, ids=[line for _, line in COMMAND_LINES])
def test_an_example_is_taken(path: str, line: str) -> None:
    for arguments in commands_of(line):
        module = importlib.import_module(commands()[arguments[0]][0])
        parser_of(arguments[0]).parse_args(getattr(module, "rewrite", list)(arguments))
    plain_arguments = [
        argument for argument in commands_of(line)[0] if not argument.startswith("-")
    ]
    command_words = path.split()
    assert all(command_word in plain_arguments for command_word in command_words), (
        "it is about another command"
    )


@pytest.mark.parametrize("example_name", commands())
def test_help_shows_them(example_name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([example_name, "--help"]) == 0
    help_text = capsys.readouterr().out
    assert all(f"\n  {line}\n" in help_text for line in examples()[example_name])


@pytest.mark.parametrize("name", commands())
def test_options_stand_in_groups(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A reader does not find an option among more than a dozen without groups."""
    main([name, "--help"])
    heap = capsys.readouterr().out.partition("\noptions:\n")[2].partition("\n\n")[0]
    assert sum(line.startswith("  -") for line in heap.splitlines()) <= 12
