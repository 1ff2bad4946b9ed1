from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from txnsim.cli import main as main_module
from txnsim.cli.main import COMMANDS, INTERRUPTED_STATUS, main
from txnsim.errors import ConfigError


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
        (ConfigError("field x is wrong"), 1, "txnsim: field x is wrong\n"),
        (KeyboardInterrupt(), INTERRUPTED_STATUS, ""),
    ],
)
def test_a_command_gives_the_status_and_its_failures_are_one_line(
    outcome: object,
    status: int,
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(main_module, "_load", lambda name: command(outcome))
    assert main(["serve", "--x", "1"]) == status
    assert capsys.readouterr().err == complaint


@pytest.mark.parametrize(
    ("argv", "status", "stream", "text"),
    [
        (["--help"], 0, "out", "COMMAND"),
        (["--version"], 0, "out", "txnsim "),
        ([], 2, "out", "usage: txnsim"),
        (["bogus"], 2, "err", "invalid choice: 'bogus'"),
        (["--bogus"], 2, "err", "unrecognized arguments: --bogus"),
        (["txns", "--help"], 0, "out", "find-hanging"),
        (["txns"], 1, "err", "required: COMMAND"),
        (["txns", "list"], 1, "err", "--bootstrap-server is required"),
    ],
)
def test_help_version_and_misuse(
    argv: list[str], status: int, stream: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == status
    assert text in getattr(capsys.readouterr(), stream)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


def in_process(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_optimized_python_is_refused_with_a_reason() -> None:
    done = in_process("-O", "-m", "txnsim.cli.main", "--help")
    assert done.returncode == 1
    assert "refusing to run under python -O" in done.stderr
    assert done.stdout == ""


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
        monkeypatch.setattr(main_module, "_load", lambda name: command(BrokenPipeError()))
        assert main(["serve"]) == 1


def test_the_package_is_the_command_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "txnsim", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("txnsim ")
