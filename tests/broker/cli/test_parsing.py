from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from txnsim.cli.parsing import MISUSE_STATUS, CommandParser, columns

Captured = pytest.CaptureFixture[str]


def refused(parser: CommandParser, given: list[str], capsys: Captured) -> list[str]:
    with pytest.raises(SystemExit) as end:
        parser.parse_args(given)
    assert end.value.code == MISUSE_STATUS
    return capsys.readouterr().err.splitlines()


def test_a_misuse_is_two_lines(capsys: Captured) -> None:
    assert refused(CommandParser(prog="p q"), ["--nothing"], capsys) == [
        "p: no option '--nothing'",
        "`p q --help` shows what it takes",
    ]


def test_options_are_not_abbreviated() -> None:
    parser = CommandParser()
    parser.add_argument("--partition")
    with pytest.raises(SystemExit):
        parser.parse_args(["--part", "1"])


@pytest.mark.parametrize(
    ("given", "first", "second"),
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
    given: list[str], first: str, second: str, capsys: Captured
) -> None:
    parser = CommandParser(prog="p")
    parser.add_argument("--brokers", type=int)
    branches = parser.add_subparsers(dest="command", required=True, metavar="WHAT")
    branch = branches.add_parser("sub")
    branch.add_argument("--topic")
    branch.add_argument("--level", choices=["deeper", "flat"])
    other = branches.add_parser("other")
    other.add_argument("file", metavar="FILE")
    other.add_argument("--to", required=True)
    either = other.add_mutually_exclusive_group()
    either.add_argument("--a", action="store_true")
    either.add_argument("--b", action="store_true")
    assert refused(parser, given, capsys) == [first, f"`{second} --help` shows what it takes"]


def test_help_wraps_sentences_and_leaves_examples() -> None:
    parser = CommandParser(prog="p", epilog=f"{'word ' * 40}\n\nexamples:\n  {'x' * 200}")
    told = parser.format_help()
    assert f"\nexamples:\n  {'x' * 200}\n" in told
    assert max(len(line) for line in told.splitlines() if "word" in line) <= 80


@pytest.mark.parametrize("given", ["100", "0", "", "wide", "-5"])
def test_help_is_as_wide_as_python_s_own(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", given)
    assert columns() == shutil.get_terminal_size().columns


def test_help_has_a_width_without_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "__stdout__", None)
    assert columns() == shutil.get_terminal_size().columns


def test_options_are_added_without_what_only_help_needs() -> None:
    asked = """
import sys
from txnsim.cli.main import CONVENIENCES, parser_of
sys.modules.update(dict.fromkeys(CONVENIENCES))
parser_of("serve")
print("shutil" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
