"""Commands of Spark in the words of the command line. Each one's examples: tests/broker/cli."""

from __future__ import annotations

import pytest

from txnsim.cli.main import main


def test_a_word_of_two_commands_is_answered_with_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe"]) == 2
    assert "`txnsim txns describe` or `txnsim logs describe`?" in capsys.readouterr().err
