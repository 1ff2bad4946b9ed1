"""What is read is printed in one of two forms."""

from __future__ import annotations

import argparse

import pytest

from txnsim.cli.logs.answering import answering
from txnsim.cli.output import print_line


@pytest.mark.parametrize(("json", "printed"), [(False, "seven\n"), (True, "7\n")])
def test_for_people_and_as_json(
    json: bool, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = answering(lambda _: 7, lambda _: print_line("seven"), lambda found: found - 6)
    assert run(argparse.Namespace(json=json)) == 1
    assert capsys.readouterr().out == printed


def test_the_exit_status_is_0_unless_it_is_asked_for() -> None:
    assert answering(lambda _: 7, str)(argparse.Namespace(json=False)) == 0
