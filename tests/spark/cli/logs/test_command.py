"""``txnsim logs``: its actions."""

from __future__ import annotations

import argparse

import pytest

from txnsim.cli.main import main
from txnsim.errors import BadInputError
from txnsim_spark.cli.logs import _command as logs
from txnsim_spark.cli.logs import _who as who


@pytest.mark.parametrize("action", logs.ACTIONS)
def test_each_action_says_what_it_takes(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", action, "--help"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"usage: txnsim logs {action} ")
    assert "--json" in told


def test_an_action_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs"]) == 2
    assert "ACTION" in capsys.readouterr().err


@pytest.mark.parametrize("error", [BadInputError("no log"), FileNotFoundError(2, "gone", "x")])
def test_what_can_not_be_read_is_said(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_args: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr(who, "run", run)
    assert main(["logs", "who", "4001", "d"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("no log" in captured.err) or ("x: gone" in captured.err)


def test_a_reader_that_goes_away_is_no_misuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_args: argparse.Namespace) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(who, "run", run)
    with pytest.raises(BrokenPipeError):
        logs.run(argparse.Namespace(action="who"))
