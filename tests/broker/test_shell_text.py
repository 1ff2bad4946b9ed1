"""Printed commands, given to real shells with a program that records its arguments."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.hostile_names import HOSTILE_NAMES, names_from_outside
from txnsim.shell_text import ShellText, arguments, command_line, continued, option
from txnsim.text import printable

PROGRAM: Final = "record-words"
SHELLS: Final = tuple(shell for shell in ("sh", "dash", "bash") if shutil.which(shell))


def words_received(shell_name: str, commands: Sequence[ShellText], home: Path) -> list[list[str]]:
    """The words that a program got from each command of a script, by a program of that name."""
    home.mkdir(exist_ok=True)
    program_file = home / PROGRAM
    program_file.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\nprintf '\\0'\n")
    program_file.chmod(0o755)
    script_file = home / "script"
    script_file.write_bytes("\n".join(commands).encode() + b"\n")
    finished_process = subprocess.run(
        [shell_name, str(script_file)],
        cwd=home,
        env={"PATH": f"{home}:/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    assert not finished_process.stderr
    assert {path.name for path in home.iterdir()} == {PROGRAM, "script"}, "a name ran a command"
    commands_received = finished_process.stdout.split(b"\0\0")[:-1]
    return [received.decode().split("\0") for received in commands_received]


@pytest.mark.parametrize("shell_name", SHELLS)
def test_each_word_arrives_as_it_was_meant(shell_name: str, tmp_path: Path) -> None:
    shell_commands = [
        command_line(PROGRAM, "why", *option("--transactional-id", name), *arguments(name))
        for name in HOSTILE_NAMES
    ]
    assert words_received(shell_name, shell_commands, tmp_path / "home") == [
        ["why", *option("--transactional-id", name), *arguments(name)] for name in HOSTILE_NAMES
    ]


@pytest.mark.slow
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(names_from_outside(), min_size=1, max_size=20))
def test_drawn_names_arrive_as_they_were_meant(tmp_path: Path, names: list[str]) -> None:
    shell_commands = [
        command_line(PROGRAM, *option("--group", name), *arguments(name)) for name in names
    ]
    assert all(printable(command) == command for command in shell_commands)
    assert words_received("sh", shell_commands, tmp_path / "home") == [
        [*option("--group", name), *arguments(name)] for name in names
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("a\0b", "NUL"), ("ends\n", "line break"), ("\ud800", "UTF-8")],
)
def test_where_no_shell_can_pass_a_name_on_the_line_does_nothing(
    name: str, reason: str, tmp_path: Path
) -> None:
    command = command_line(PROGRAM, "--topic", name)
    assert command.startswith("# ")
    assert reason in command
    assert printable(command) == command
    assert words_received("sh", [command], tmp_path / "home") == []


def test_plain_names_stay_as_they_are() -> None:
    assert (
        command_line("txnsim", "txns", "repair", *option("--topic", "orders"), "--yes")
        == "txnsim txns repair --topic orders --yes"
    )
    assert command_line("txnsim", *option("--topic", "-h")) == "txnsim --topic=-h"


def test_a_command_goes_on_unless_one_of_its_names_has_no_form() -> None:
    command, shell_text = command_line("txnsim", "txns"), command_line("txnsim", "a\0")
    assert continued(command, "why") == "txnsim txns why"
    assert continued(command) == command
    assert continued(shell_text, "why") == shell_text
    assert continued(command, "b\0").endswith("\\x00")


SOURCE_FOLDER: Final = Path(__file__).parents[2] / "sim"
COMMAND_TEXT: Final = re.compile(
    r"\bkafka-[a-z-]+\.sh |"
    r"\btxnsim (txns|groups|logs|scenario|faults|conformance|exam run|diff|explain) "
)
OWN_VALUES: Final = frozenset({("txnsim_lab/cli/_traces/_explained_error.py", "_quote")})
"""Commands that carry titles of our own pages, which have no hostile words."""


def test_no_text_puts_a_value_into_a_command_by_itself() -> None:
    offenders = []
    for path in sorted(SOURCE_FOLDER.rglob("*.py")):
        relative_path = str(path.relative_to(SOURCE_FOLDER))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                offenders += [
                    f"{relative_path}:{node.lineno}: {ast.unparse(value)}"
                    for text_before, value in _values_with_text_before(node)
                    if COMMAND_TEXT.search(text_before)
                    and (relative_path, _function_name(value)) not in OWN_VALUES
                ]
    assert not offenders, "make commands with txnsim.shell_text.command_line"


def _values_with_text_before(text: ast.JoinedStr) -> Iterator[tuple[str, ast.expr]]:
    """Each value of an f-string, with the constant text of its sentence before it."""
    text_before = ""
    for part in text.values:
        if isinstance(part, ast.FormattedValue):
            yield re.split(r"[:;.`] ", text_before)[-1], part.value
        elif isinstance(part, ast.Constant):
            text_before += str(part.value)


def _function_name(value: ast.expr) -> str:
    is_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
    return value.func.id if is_call else ""
