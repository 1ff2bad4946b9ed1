"""Judges of what readers see, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.hand_made_histories import FAILED, T0, UNKNOWN, HistoryBuilder
from txnsim_lab.check._ordering import out_of_order, readers_went_back
from txnsim_lab.check._visibility import Sight, visibility, writers_by_offset
from txnsim_lab.check.observations import Isolation, Wrote


def misses(history_builder: HistoryBuilder) -> dict[int, int]:
    return dict(visibility(history_builder.history).misses)


def test_who_goes_on_behind_a_record_without_getting_it_has_missed_it() -> None:
    history_builder = HistoryBuilder()
    lost_number = history_builder.write(None, "r1", 3)
    history_builder.read(0, {}, 3)
    passing_number = history_builder.read(3, {}, 4)
    history_builder.read(3, {}, 5)
    assert misses(history_builder) == {lost_number: passing_number}


@pytest.mark.parametrize(
    "fields",
    [{"isolation": Isolation.READ_UNCOMMITTED}, {"error": "NOT_LEADER_OR_FOLLOWER"}],
)
def test_only_answers_to_read_committed_readers_count(fields: dict[str, Any]) -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "r1", 3)
    history_builder.read(0, {}, 9, **fields)
    assert misses(history_builder) == {}


def test_another_record_at_the_place_is_a_miss() -> None:
    history_builder = HistoryBuilder()
    lost_number = history_builder.write(None, "r2", 1)
    read = history_builder.read(0, {1: "r1"}, 2)
    assert misses(history_builder) == {lost_number: read}


def test_a_record_that_is_elsewhere_is_not_lost() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "r1", 1)
    history_builder.read(0, {2: "r1"}, 3)
    assert misses(history_builder) == {}


def test_a_record_that_vanished_is_missed() -> None:
    history_builder = HistoryBuilder()
    lost_number = history_builder.write(None, "r1", 0)
    history_builder.read(0, {0: "r1"}, 1)
    read = history_builder.read(0, {}, 1)
    assert misses(history_builder) == {lost_number: read}


def test_tombstones_and_refused_records_are_demanded_by_nobody() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, None, 0, key="x")
    history_builder.write(None, "r1", 1, outcome=FAILED)
    history_builder.write(None, "r2", outcome=UNKNOWN)
    history_builder.read(0, {2: None}, 3)
    record_visibility = visibility(history_builder.history)
    assert record_visibility.misses == {}
    assert record_visibility.sights == {}
    tombstone = history_builder.history[0]
    assert isinstance(tombstone, Wrote)
    assert record_visibility.sights_of(tombstone) == ()


@pytest.mark.parametrize(
    ("later_fields", "is_missed"),
    [
        pytest.param({"offset": 1, "key": "x"}, False, id="superseded"),
        pytest.param({"offset": -1, "key": "x"}, False, id="superseded somewhere"),
        pytest.param({"outcome": UNKNOWN, "key": "x"}, False, id="perhaps superseded"),
        pytest.param({"outcome": FAILED, "key": "x"}, True, id="refused"),
        pytest.param({"offset": 1, "key": "y"}, True, id="another key"),
        pytest.param({"offset": 1}, True, id="no key"),
    ],
)
def test_the_cleaner_may_take_what_a_later_record_of_its_key_supersedes(
    later_fields: dict[str, Any], *, is_missed: bool
) -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "old", 0, key="x")
    history_builder.write(None, "new", **later_fields)
    history_builder.read(0, {}, 1)
    assert (0 in misses(history_builder)) is is_missed


def test_a_record_that_only_a_reader_knows_supersedes_too() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "old", 0, key="x")
    history_builder.read(0, {1: "new"}, 2, keys={1: "x"})
    history_builder.read(0, {1: "new"}, 2)
    assert misses(history_builder) == {}


def test_a_record_whose_offset_was_not_told_is_demanded_by_nobody() -> None:
    history_builder = HistoryBuilder()
    history_builder.write(None, "r1")
    history_builder.read(0, {}, 9)
    assert misses(history_builder) == {}


# Who wrote what is there


def test_what_is_at_an_offset_is_what_was_read_there() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", outcome=UNKNOWN)
    history_builder.write("T2", "r2", 1)
    history_builder.write("T2", "r3", 2)
    history_builder.write(None, "r4")
    history_builder.read(0, {1: "r1"}, 2)
    log = writers_by_offset(history_builder.history, visibility(history_builder.history))[T0]
    assert {offset: observed_write.value for offset, observed_write in log.items()} == {
        1: "r1",
        2: "r3",
    }


def test_a_value_of_several_transactions_is_nobodys() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", outcome=UNKNOWN)
    history_builder.write("T2", "r1", outcome=UNKNOWN)
    read = history_builder.read(0, {0: "r1", 1: "nobody's"}, 2)
    record_visibility = visibility(history_builder.history)
    assert writers_by_offset(history_builder.history, record_visibility) == {}
    assert record_visibility.sights[T0, "r1"] == (Sight(read, 0),)


def test_of_two_records_at_one_offset_that_which_was_read_counts_or_neither() -> None:
    history_builder = HistoryBuilder()
    history_builder.write("T1", "r1", 0)
    history_builder.write("T2", "r2", 0)
    history_builder.write("T1", "r3", 1)
    history_builder.write("T1", "r3", 1)
    history_builder.write("T1", "r4", 2)
    history_builder.write("T1", "r4", 2, key="x")

    def log() -> dict[int, str | None]:
        log = writers_by_offset(history_builder.history, visibility(history_builder.history))[T0]
        return {offset: observed_write.value for offset, observed_write in log.items()}

    assert log() == {1: "r3"}
    history_builder.read(0, {0: "r2"}, 1)
    assert log() == {0: "r2", 1: "r3"}
    history_builder.read(0, {0: "r1"}, 1)
    assert log() == {1: "r3"}


REFUSED: dict[str, Any] = {"outcome": FAILED, "error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}


def write_record(
    history_builder: HistoryBuilder,
    record_value: str,
    sequence: int,
    offset: int = -1,
    **observation_fields: Any,
) -> int:
    usual = {"producer_id": 7, "producer_epoch": 0, "sequence": sequence}
    return history_builder.write("T1", record_value, offset, **(usual | observation_fields))


def test_records_that_were_turned_around_convict() -> None:
    history_builder = HistoryBuilder()
    low_number = write_record(history_builder, "A", 0, 1)
    high_number = write_record(history_builder, "B", 1, 0)
    (anomaly,) = out_of_order(history_builder.history)
    assert anomaly.evidence == (low_number, high_number)
    assert "sent 'A' before 'B'" in anomaly.because


def test_behind_the_largest_sequence_they_begin_anew() -> None:
    history_builder = HistoryBuilder()
    write_record(history_builder, "A", 2**31 - 1, 0)
    write_record(history_builder, "B", 0, 1)
    assert out_of_order(history_builder.history) == ()
    write_record(history_builder, "C", 2**31 - 2, 2)
    (anomaly,) = out_of_order(history_builder.history)
    assert "sent 'C' before 'A'" in anomaly.because or "sent 'C' before 'B'" in anomaly.because


def test_a_record_that_was_overtaken_and_is_refused_for_ever_convicts() -> None:
    history_builder = HistoryBuilder()
    write_record(history_builder, "A", 0, outcome=FAILED, error="NOT_ENOUGH_REPLICAS")
    high_number = write_record(history_builder, "B", 1, 0)
    low_number = write_record(history_builder, "A", 0, **REFUSED)
    history_builder.read(0, {0: "B"}, 1)
    (anomaly,) = out_of_order(history_builder.history)
    assert anomaly.evidence == (high_number, low_number)


def test_refused_before_the_other_was_taken_it_may_still_be_sent() -> None:
    history_builder = HistoryBuilder()
    write_record(history_builder, "A", 0, **REFUSED)
    write_record(history_builder, "B", 1, 0)
    assert out_of_order(history_builder.history) == ()


@pytest.mark.parametrize("error", ["NOT_ENOUGH_REPLICAS", ""])
def test_another_error_tells_nothing_about_the_order(error: str) -> None:
    history_builder = HistoryBuilder()
    write_record(history_builder, "B", 1, 0)
    write_record(history_builder, "A", 0, outcome=FAILED, error=error)
    assert out_of_order(history_builder.history) == ()


def test_a_repetition_of_what_may_be_in_the_log_is_refused_rightly() -> None:
    history_builder = HistoryBuilder()
    write_record(history_builder, "A", 0, outcome=UNKNOWN)
    write_record(history_builder, "B", 1, 1)
    write_record(history_builder, "A", 0, **REFUSED)
    assert out_of_order(history_builder.history) == ()


def test_a_repetition_of_what_is_in_the_log_is_refused_rightly() -> None:
    history_builder = HistoryBuilder()
    write_record(history_builder, "B", 1, 1)
    write_record(history_builder, "A", 0, **REFUSED)
    history_builder.read(0, {0: "A", 1: "B"}, 2)
    assert out_of_order(history_builder.history) == ()


@pytest.mark.parametrize(
    "other_fields",
    [
        {"producer_id": 8},
        {"producer_epoch": 1},
        {"partition": 1},
        {"sequence": None},
        {"offset": 2},
        {"offset": -1},
    ],
)
def test_only_records_of_one_session_have_an_order(other_fields: dict[str, Any]) -> None:
    history_builder = HistoryBuilder()
    write_record(history_builder, "A", 0, 1)
    fields: dict[str, Any] = {"record_value": "B", "sequence": 1, "offset": 0}
    write_record(history_builder, **(fields | other_fields))
    assert out_of_order(history_builder.history) == ()


# Readers


def test_a_last_stable_offset_that_regresses_convicts_once() -> None:
    history_builder = HistoryBuilder()
    history_builder.read(0, {}, 3)
    read_before = history_builder.read(0, {}, 5)
    read_after = history_builder.read(5, {}, 5, last_stable_offset=4)
    history_builder.read(5, {}, 5, last_stable_offset=3)
    (anomaly,) = readers_went_back(history_builder.history)
    assert anomaly.evidence == (read_before, read_after)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"leader_epoch": 1}, id="another leader"),
        pytest.param({"follower": 2}, id="a follower"),
        pytest.param({"client_name": "another"}, id="another reader"),
        pytest.param({"partition": 1}, id="another partition"),
        pytest.param({"isolation": Isolation.READ_UNCOMMITTED}, id="not isolated"),
        pytest.param({"last_stable_offset": -1}, id="not told"),
    ],
)
def test_only_answers_to_one_reader_by_one_leader_are_compared(fields: dict[str, Any]) -> None:
    history_builder = HistoryBuilder()
    history_builder.read(0, {}, 5)
    history_builder.read(5, {}, 5, **({"last_stable_offset": 4} | fields))
    assert readers_went_back(history_builder.history) == ()
