from __future__ import annotations

from typing import Any

import pytest

from tests.support.told import FAILED, UNKNOWN, Told
from txnsim_lab.check._ordering import out_of_order, readers_went_back
from txnsim_lab.check.observations import Isolation

REFUSED: dict[str, Any] = {"outcome": FAILED, "error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}


def sent(told: Told, value: str, sequence: int, offset: int = -1, **more: Any) -> int:
    given = {"producer_id": 7, "producer_epoch": 0, "sequence": sequence}
    return told.wrote("T1", value, offset, **(given | more))


def test_records_that_were_turned_around_convict() -> None:
    told = Told()
    low = sent(told, "A", 0, 1)
    high = sent(told, "B", 1, 0)
    (anomaly,) = out_of_order(told.history)
    assert anomaly.evidence == (low, high)
    assert "sent 'A' before 'B'" in anomaly.because


def test_behind_the_largest_sequence_they_begin_anew() -> None:
    told = Told()
    sent(told, "A", 2**31 - 1, 0)
    sent(told, "B", 0, 1)
    assert out_of_order(told.history) == ()
    sent(told, "C", 2**31 - 2, 2)
    (anomaly,) = out_of_order(told.history)
    assert "sent 'C' before 'A'" in anomaly.because or "sent 'C' before 'B'" in anomaly.because


def test_a_record_that_was_overtaken_and_is_refused_for_ever_convicts() -> None:
    told = Told()
    sent(told, "A", 0, outcome=FAILED, error="NOT_ENOUGH_REPLICAS")
    high = sent(told, "B", 1, 0)
    low = sent(told, "A", 0, **REFUSED)
    told.read(0, {0: "B"}, 1)
    (anomaly,) = out_of_order(told.history)
    assert anomaly.evidence == (high, low)


def test_refused_before_the_other_was_taken_it_may_still_be_sent() -> None:
    told = Told()
    sent(told, "A", 0, **REFUSED)
    sent(told, "B", 1, 0)
    assert out_of_order(told.history) == ()


@pytest.mark.parametrize("error", ["NOT_ENOUGH_REPLICAS", ""])
def test_another_error_tells_nothing_about_the_order(error: str) -> None:
    told = Told()
    sent(told, "B", 1, 0)
    sent(told, "A", 0, outcome=FAILED, error=error)
    assert out_of_order(told.history) == ()


def test_a_repetition_of_what_may_be_in_the_log_is_refused_rightly() -> None:
    told = Told()
    sent(told, "A", 0, outcome=UNKNOWN)
    sent(told, "B", 1, 1)
    sent(told, "A", 0, **REFUSED)
    assert out_of_order(told.history) == ()


def test_a_repetition_of_what_is_in_the_log_is_refused_rightly() -> None:
    told = Told()
    sent(told, "B", 1, 1)
    sent(told, "A", 0, **REFUSED)
    told.read(0, {0: "A", 1: "B"}, 2)
    assert out_of_order(told.history) == ()


@pytest.mark.parametrize(
    "other",
    [
        {"producer_id": 8},
        {"producer_epoch": 1},
        {"partition": 1},
        {"sequence": None},
        {"offset": 2},
        {"offset": -1},
    ],
)
def test_only_records_of_one_session_have_an_order(other: dict[str, Any]) -> None:
    told = Told()
    sent(told, "A", 0, 1)
    given: dict[str, Any] = {"value": "B", "sequence": 1, "offset": 0}
    sent(told, **(given | other))
    assert out_of_order(told.history) == ()


# Readers


def test_a_last_stable_offset_that_regresses_convicts_once() -> None:
    told = Told()
    told.read(0, {}, 3)
    before = told.read(0, {}, 5)
    after = told.read(5, {}, 5, last_stable_offset=4)
    told.read(5, {}, 5, last_stable_offset=3)
    (anomaly,) = readers_went_back(told.history)
    assert anomaly.evidence == (before, after)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"leader_epoch": 1}, id="another leader"),
        pytest.param({"who": "another"}, id="another reader"),
        pytest.param({"partition": 1}, id="another partition"),
        pytest.param({"isolation": Isolation.READ_UNCOMMITTED}, id="not isolated"),
        pytest.param({"last_stable_offset": -1}, id="not told"),
    ],
)
def test_only_answers_to_one_reader_by_one_leader_are_compared(more: dict[str, Any]) -> None:
    told = Told()
    told.read(0, {}, 5)
    told.read(5, {}, 5, **({"last_stable_offset": 4} | more))
    assert readers_went_back(told.history) == ()
