"""``txnsim logs``: its actions."""

from __future__ import annotations

import pytest

from txnsim.cli.logs import command as logs
from txnsim.cli.main import main


@pytest.mark.parametrize("action", logs.ACTIONS)
def test_each_action_says_what_it_takes(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", action, "--help"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"usage: txnsim logs {action} ")
    assert "--json" in told


def test_an_action_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs"]) == 2
    assert "ACTION" in capsys.readouterr().err
