"""What is read is printed in one of two forms."""

from __future__ import annotations

import argparse

import pytest

from txnsim.cli.logs.answering import always_ok, answered
from txnsim.cli.output import print_line
from txnsim.cli.parsing import MISUSE_STATUS
from txnsim.errors import BadInputError


@pytest.mark.parametrize(("json", "printed"), [(False, "seven\n"), (True, "7\n")])
def test_for_people_and_as_json(
    json: bool, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    args = argparse.Namespace(json=json)
    status = answered(args, lambda _: 7, lambda _: print_line("seven"), lambda found: found - 6)
    assert status == 1
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("error", [BadInputError("no log"), FileNotFoundError(2, "gone", "x")])
def test_what_can_not_be_read_is_said(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def read(_args: argparse.Namespace) -> int:
        raise error

    assert answered(argparse.Namespace(json=True), read, str, always_ok) == MISUSE_STATUS
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("no log" in captured.err) or ("x: gone" in captured.err)
