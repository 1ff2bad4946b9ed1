from __future__ import annotations

from typing import Any

import pytest

from tests.support.told import FAILED, UNKNOWN, Told
from txnsim_lab.check._positions import positions_before_decision


def test_positions_of_an_aborted_transaction_are_never_to_be_seen() -> None:
    told = Told()
    sent = told.sent("T1", 20)
    told.aborted()
    read = told.positions(20)
    (anomaly,) = positions_before_decision(told.history)
    assert anomaly.evidence == (sent, read)


def test_nor_those_whose_commit_nobody_has_asked_for_yet() -> None:
    told = Told()
    told.sent("T1", 20)
    told.positions(20)
    told.committed(asked_ms=2500, outcome=UNKNOWN)
    assert len(positions_before_decision(told.history)) == 1


@pytest.mark.parametrize(
    "end",
    [
        pytest.param({"asked_ms": 2000}, id="asked at the same time"),
        pytest.param({"asked_ms": 1500}, id="asked before"),
        pytest.param({}, id="nobody knows when it was asked"),
    ],
)
def test_a_commit_that_may_have_been_asked_for_convicts_nobody(end: dict[str, Any]) -> None:
    told = Told()
    told.sent("T1", 20)
    told.positions(20)
    told.committed(**end)
    assert positions_before_decision(told.history) == ()


def test_an_open_transaction_may_still_ask() -> None:
    told = Told()
    told.sent("T1", 20)
    told.positions(20)
    assert positions_before_decision(told.history) == ()


@pytest.mark.parametrize("other", [None, "T2"])
def test_a_position_that_somebody_else_has_committed_is_right(other: str | None) -> None:
    told = Told()
    told.sent("T1", 20)
    told.aborted("T1")
    told.sent(other, 20)
    told.committed("T2")
    told.positions(20)
    assert positions_before_decision(told.history) == ()


def test_a_position_of_nobody_we_know_tells_nothing() -> None:
    told = Told()
    told.sent("T1", 20, outcome=FAILED)
    told.aborted("T1")
    told.positions(10)
    assert positions_before_decision(told.history) == ()


def test_an_error_tells_no_position() -> None:
    told = Told()
    told.sent("T1", 20)
    told.positions(20, error="UNSTABLE_OFFSET_COMMIT")
    told.aborted()
    assert positions_before_decision(told.history) == ()
