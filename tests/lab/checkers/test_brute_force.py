"""Every judge beside its definition, on random small histories: ``python -m
tests.lab.checkers.brute_force --histories 100000`` in ``make nightly``, fewer here.
"""

from __future__ import annotations

import pytest

from tests.lab.checkers.brute_force import comparing
from tests.lab.checkers.brute_force.__main__ import main
from tests.lab.checkers.brute_force.comparing import DEFINITIONS, compare
from txnsim_lab.check.anomaly import Kind

HISTORIES = 1_000


def test_every_kind_of_anomaly_has_a_definition() -> None:
    assert set(DEFINITIONS) == set(Kind)


def test_judges_convict_what_their_definitions_do_and_nothing_else() -> None:
    found = compare(range(HISTORIES))
    assert not found.differences, "\n".join(found.shown)
    assert not found.idle


def test_a_difference_is_found_and_shrunk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lenient = {**DEFINITIONS, Kind.READER_WENT_BACK: lambda lines: False}
    monkeypatch.setattr(comparing, "DEFINITIONS", lenient)
    assert main(["--histories", "200"]) == 1
    told = capsys.readouterr().out
    _, found = told.split("reader-went-back: only the judge convicts\n", 1)
    first = found.partition("\n\n")[0].splitlines()
    assert ['"seen":"read"' in line for line in first] == [True, True]
    assert "FAILED reader-went-back" in told


def test_a_run_that_convicts_nobody_proves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--histories", "1"]) == 1
    assert "FAILED skipped-input: never convicted" in capsys.readouterr().out
