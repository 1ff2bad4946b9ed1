from __future__ import annotations

import pytest

from txnsim.cli.parsing import CommandParser, VersionAction

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("status", [1, 2])
def test_a_misuse_ends_with_the_status_of_the_command(status: int, capsys: Captured) -> None:
    parser = CommandParser(prog="p")
    parser.misuse_status = status
    with pytest.raises(SystemExit) as end:
        parser.parse_args(["--nothing"])
    assert end.value.code == status
    assert capsys.readouterr().err.endswith("p: error: unrecognized arguments: --nothing\n")


def test_options_are_not_abbreviated() -> None:
    parser = CommandParser()
    parser.add_argument("--partition")
    with pytest.raises(SystemExit):
        parser.parse_args(["--part", "1"])


def test_the_version_goes_to_standard_output(capsys: Captured) -> None:
    parser = CommandParser()
    parser.add_argument("--version", action=VersionAction)
    assert "version" not in vars(parser.parse_args([]))
    with pytest.raises(SystemExit) as end:
        parser.parse_args(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("txnsim ")
