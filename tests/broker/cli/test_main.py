from __future__ import annotations

import importlib
import os
import subprocess
import sys
from types import ModuleType
from typing import Any, Final

import pytest

from txnsim.cli import main as main_module
from txnsim.cli.commands import commands, groups
from txnsim.cli.main import INTERRUPTED_STATUS, main
from txnsim.errors import ConfigError, MissingExtraError, TxnsimError


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
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "kio.static.primitive" in imported
    assert not {"hypothesis", "rich"} & imported


def test_help_shows_every_command_once_in_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    out = capsys.readouterr().out
    assert sorted(name for names in groups().values() for name in names) == sorted(commands())
    assert all(f"\n    {name} " in out for name in commands())
    assert all(f"\n{title}:\n" in out for title in groups())
    assert "\nexamples:\n  txnsim serve" in out


@pytest.mark.slow
@pytest.mark.parametrize("argv", [["serve"], ["txns", "list"], ["scenario", "run", "nope"]])
def test_every_error_has_one_form(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TXNSIM_PORT", "-1")
    assert main(argv) == 2
    told = capsys.readouterr().err
    assert told.startswith("txnsim: ")
    assert "usage:" not in told
    assert len(told.splitlines()) <= 2


def test_a_variable_that_there_is_not_is_refused_by_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TXNSIM_BROKRS", "3")
    for name in commands():
        assert main([name]) == 2
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
    "place", ["argparse", "msgspec", "txnsim.cli.serve", "txnsim.errors", "txnsim.server.cluster"]
)
def test_ctrl_c_during_a_start_says_nothing(place: str) -> None:
    """It was a traceback of up to 70 lines: most of a start is imports."""
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, place, "serve", "--port", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (INTERRUPTED_STATUS, "", "")


def test_a_full_disk_is_said_in_one_line() -> None:
    """It was a traceback, or ``None: No space left on device``."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "txnsim", "completion", "bash"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "txnsim: standard output, or a temporary file: what was written is not whole: No space left"
        " on device; make room, or name another place, and run the command again\n"
    )
