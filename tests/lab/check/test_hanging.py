"""Judges of what hangs, starves, is cleaned away, or goes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.hand_made_histories import (
    FAILED,
    T0,
    T1,
    UNKNOWN,
    HistoryBuilder,
    ghost,
    hangs,
    kinds,
)
from txnsim_lab.check._cleaning import uncleanable_logs
from txnsim_lab.check._hanging import hanging
from txnsim_lab.check._positions import positions_before_decision
from txnsim_lab.check._starvation import starving_readers, stuck_last_stable_offsets
from txnsim_lab.check.observations import Isolation, Wrote


def test_open_then_not_listed_then_still_open_is_hanging() -> None:
    history_builder = HistoryBuilder()
    ghost(history_builder)
    first_look_index = history_builder.list_producers((7, 1), (9, None))
    denied_number = history_builder.describe("CompleteAbort")
    second_look = history_builder.list_producers((7, 1))
    read = history_builder.read(1, {}, 1, high_watermark=3)
    (hanging_transaction,) = hanging(history_builder.history)
    assert (
        hanging_transaction.topic_partition,
        hanging_transaction.producer_id,
        hanging_transaction.start_offset,
    ) == (T0, 7, 1)
    assert (hanging_transaction.last_stable_offset, hanging_transaction.high_watermark) == (1, 3)
    assert hanging_transaction.evidence == (first_look_index, denied_number, second_look, read)


def test_readers_that_are_held_at_its_start_show_that_it_is_open() -> None:
    history_builder = HistoryBuilder()
    ghost(history_builder)
    history_builder.list_producers((7, 1))
    history_builder.describe("CompleteAbort")
    assert hanging(history_builder.history) == ()
    history_builder.read(1, {}, 1, high_watermark=3)
    assert len(hanging(history_builder.history)) == 1


@pytest.mark.parametrize(
    "say",
    [
        pytest.param(lambda history_builder: history_builder.describe("Empty"), id="Empty"),
        pytest.param(
            lambda history_builder: history_builder.describe("Ongoing", T1), id="another partition"
        ),
        pytest.param(
            lambda history_builder: history_builder.describe("CompleteCommit", T0), id="complete"
        ),
        pytest.param(
            lambda history_builder: history_builder.list_transactions(), id="nobody lists it"
        ),
        pytest.param(
            lambda history_builder: history_builder.list_transactions(("app", 7, "Empty")),
            id="listed as Empty",
        ),
        pytest.param(
            lambda history_builder: history_builder.describe(
                "", error="TRANSACTIONAL_ID_NOT_FOUND"
            ),
            id="its transactional id is unknown",
        ),
        pytest.param(
            lambda history_builder: history_builder.describe("Ongoing", T0, producer_id=8),
            id="its transactional id has another producer id",
        ),
    ],
)
def test_ways_to_say_that_nobody_owns_it(say: Callable[[HistoryBuilder], int]) -> None:
    history_builder = HistoryBuilder()
    ghost(history_builder)
    history_builder.list_producers((7, 1))
    say(history_builder)
    history_builder.list_producers((7, 1))
    history_builder.read(1, {}, 1, high_watermark=3)
    assert len(hanging(history_builder.history)) == 1


@pytest.mark.parametrize(
    "say",
    [
        pytest.param(lambda history_builder: history_builder.describe("Ongoing", T0), id="alive"),
        pytest.param(
            lambda history_builder: history_builder.describe("PrepareCommit", T1, T0), id="decided"
        ),
        pytest.param(
            lambda history_builder: history_builder.describe("PrepareAbort", T0),
            id="decided to abort",
        ),
        pytest.param(
            lambda history_builder: history_builder.list_transactions(("app", 7, "Ongoing")),
            id="where, it does not say",
        ),
        pytest.param(
            lambda history_builder: history_builder.describe("", error="NOT_COORDINATOR"),
            id="nobody knows",
        ),
        pytest.param(
            lambda history_builder: history_builder.describe("Empty", producer_id=9),
            id="about another",
        ),
        pytest.param(
            lambda history_builder: history_builder.describe(
                "Empty", transactional_id="other", producer_id=9
            ),
            id="about another id",
        ),
    ],
)
def test_words_that_do_not_disown_it(say: Callable[[HistoryBuilder], int]) -> None:
    history_builder = HistoryBuilder()
    ghost(history_builder)
    history_builder.initialise(transactional_id="shares the id", producer_id=7)
    history_builder.list_producers((7, 1))
    say(history_builder)
    history_builder.list_producers((7, 1))
    history_builder.read(1, {}, 1, high_watermark=3)
    assert hanging(history_builder.history) == ()


def test_the_last_word_counts() -> None:
    history_builder = HistoryBuilder()
    hangs(history_builder)
    history_builder.describe("Ongoing", T0)  # the next transaction has added the partition
    history_builder.list_producers((7, 1))
    history_builder.read(1, {}, 1, high_watermark=3)
    assert hanging(history_builder.history) == ()


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(
            lambda history_builder: history_builder.list_producers((7, None)), id="closed"
        ),
        pytest.param(
            lambda history_builder: history_builder.list_producers((7, 5)), id="another one"
        ),
        pytest.param(lambda history_builder: history_builder.read(1, {}, 3), id="readers go on"),
        pytest.param(
            lambda history_builder: history_builder.read(
                1, {}, 1, last_stable_offset=0, high_watermark=3
            ),
            id="an older transaction holds them",
        ),
    ],
)
def test_the_last_look_counts(look: Callable[[HistoryBuilder], int]) -> None:
    history_builder = HistoryBuilder()
    hangs(history_builder)
    assert len(hanging(history_builder.history)) == 1
    look(history_builder)
    assert hanging(history_builder.history) == ()


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(
            lambda history_builder: history_builder.list_producers(error="NOT_LEADER_OR_FOLLOWER"),
            id="leader",
        ),
        pytest.param(
            lambda history_builder: history_builder.read(1, {}, 1, error="UNKNOWN"), id="reader"
        ),
        pytest.param(
            lambda history_builder: history_builder.read(1, {}, 1, last_stable_offset=-1),
            id="not told",
        ),
        pytest.param(
            lambda history_builder: history_builder.list_producers((8, 0), partition=1),
            id="another partition",
        ),
        pytest.param(
            lambda history_builder: history_builder.read(0, {}, 0, partition=1),
            id="a reader elsewhere",
        ),
    ],
)
def test_a_look_that_shows_nothing_changes_nothing(look: Callable[[HistoryBuilder], int]) -> None:
    history_builder = HistoryBuilder()
    hangs(history_builder)
    look(history_builder)
    assert len(hanging(history_builder.history)) == 1


def test_without_a_reader_nobody_is_held_back() -> None:
    history_builder = HistoryBuilder()
    ghost(history_builder)
    history_builder.list_producers((7, 1))
    history_builder.describe("CompleteAbort")
    history_builder.list_producers((7, 1))
    assert hanging(history_builder.history) == ()


def test_a_beginning_below_the_log_start_needs_the_leader_to_say_it_twice() -> None:
    history_builder = HistoryBuilder()
    ghost(history_builder)
    history_builder.list_producers((7, 1))
    history_builder.describe("CompleteAbort")
    history_builder.read(2, {}, 2, log_start_offset=2, high_watermark=3)
    assert hanging(history_builder.history) == ()
    history_builder.list_producers((7, 1))
    assert len(hanging(history_builder.history)) == 1


def test_it_holds_the_records_of_its_producer_behind_its_start() -> None:
    history_builder = HistoryBuilder()
    hangs(history_builder)
    (hanging_transaction,) = hanging(history_builder.history)
    history_builder.write("T1", "r1", 1, producer_id=7)
    history_builder.write("T1", "r0", 0, producer_id=7)
    history_builder.write("T2", "r2", 2, producer_id=8)
    history_builder.write("T1", "r3", 3, producer_id=7, partition=1)
    are_held = [
        hanging_transaction.holds(write)
        for write in list(history_builder.history)[-4:]
        if isinstance(write, Wrote)
    ]
    assert are_held == [True, False, False, False]


def test_a_leader_that_answers_an_error_does_not_call_it_open() -> None:
    history_builder = HistoryBuilder()
    ghost(history_builder)
    history_builder.list_producers((7, 1), error="NOT_LEADER_OR_FOLLOWER")
    history_builder.describe("CompleteAbort")
    history_builder.list_producers((7, 1))
    history_builder.read(1, {}, 1, high_watermark=3)
    assert hanging(history_builder.history) == ()


def read_while_held(history_builder: HistoryBuilder, **observation_fields: Any) -> int:
    usual: dict[str, Any] = {"high_watermark": 3}
    return history_builder.read(1, {}, 1, **(usual | observation_fields))


def test_a_hanging_transaction_is_what_holds_readers() -> None:
    history_builder = HistoryBuilder()
    hangs(history_builder)
    (anomaly,) = stuck_last_stable_offsets(history_builder.history)
    assert anomaly.because.startswith("t-0: the transaction of producer 7 that is open since 1")


def test_held_for_longer_than_any_transaction_may_live_is_starving() -> None:
    history_builder = HistoryBuilder()
    first_read_index = read_while_held(history_builder)
    read_while_held(history_builder)
    history_builder.wait(20.1)
    last_read_index = read_while_held(history_builder)
    (anomaly,) = starving_readers(history_builder.history)
    assert anomaly.evidence == (first_read_index, last_read_index)


def test_who_had_all_there_was_starves_since_there_is_more() -> None:
    history_builder = HistoryBuilder()
    history_builder.read(1, {}, 1)
    history_builder.wait(5)
    first_read_index = read_while_held(history_builder)
    history_builder.wait(19)
    read_while_held(history_builder)
    assert starving_readers(history_builder.history) == (), "before that it waited for news"
    history_builder.wait(2)
    last_read_index = read_while_held(history_builder)
    (anomaly,) = starving_readers(history_builder.history)
    assert anomaly.evidence == (first_read_index, last_read_index)


def test_a_longer_timeout_that_was_seen_asks_for_more_patience() -> None:
    history_builder = HistoryBuilder()
    history_builder.initialise(timeout_ms=None)
    history_builder.initialise(timeout_ms=60 * 60_000)
    read_while_held(history_builder)
    history_builder.wait(64)
    read_while_held(history_builder)
    assert starving_readers(history_builder.history) == ()
    history_builder.wait(2)
    read_while_held(history_builder)
    assert kinds(starving_readers(history_builder.history)) == ["starving-reader"]


def test_a_known_reason_has_a_name_of_its_own() -> None:
    history_builder = HistoryBuilder()
    hangs(history_builder)
    history_builder.wait(30)
    read_while_held(history_builder)
    assert starving_readers(history_builder.history) == ()
    assert kinds(stuck_last_stable_offsets(history_builder.history)) == ["stuck-last-stable-offset"]


def test_so_has_a_stuck_coordinator() -> None:
    history_builder = HistoryBuilder()
    ghost(history_builder)
    read_while_held(history_builder)
    history_builder.describe("PrepareCommit", T0)
    history_builder.wait(30)
    history_builder.describe("PrepareCommit", T0)
    read_while_held(history_builder)
    assert starving_readers(history_builder.history) == ()


def test_who_gets_something_in_between_does_not_starve() -> None:
    history_builder = HistoryBuilder()
    read_while_held(history_builder)
    history_builder.wait(30)
    history_builder.read(1, {1: "r1"}, 2)
    history_builder.read(1, {}, 1, high_watermark=3)
    assert starving_readers(history_builder.history) == ()


def test_another_reader_that_waits_elsewhere_is_another_wait() -> None:
    history_builder = HistoryBuilder()
    read_while_held(history_builder)
    history_builder.wait(30)
    history_builder.read(2, {}, 2, high_watermark=3)
    read_while_held(history_builder, client_name="another")
    read_while_held(history_builder, last_stable_offset=-1)
    assert starving_readers(history_builder.history) == ()


def test_at_the_end_of_the_log_there_is_nothing_to_get() -> None:
    history_builder = HistoryBuilder()
    history_builder.read(1, {}, 1)
    history_builder.wait(30)
    history_builder.read(1, {}, 1)
    assert starving_readers(history_builder.history) == ()


def test_a_last_stable_offset_that_moves_holds_nobody_for_long() -> None:
    history_builder = HistoryBuilder()
    history_builder.read(3, {}, 3, last_stable_offset=1, high_watermark=5)
    history_builder.wait(30)
    history_builder.read(3, {}, 3, last_stable_offset=2, high_watermark=5)
    assert starving_readers(history_builder.history) == ()


def test_who_may_read_on_and_is_given_nothing_twice_starves_at_once() -> None:
    history_builder = HistoryBuilder()
    history_builder.read(0, {}, 0, last_stable_offset=1, high_watermark=1)
    assert starving_readers(history_builder.history) == ()
    history_builder.read(0, {}, 0, last_stable_offset=1, high_watermark=1)
    assert kinds(starving_readers(history_builder.history)) == ["starving-reader"]


def test_who_got_something_meanwhile_does_not_starve_though_no_stable_offset_was_told() -> None:
    history_builder = HistoryBuilder()
    history_builder.read(1, {}, 1, last_stable_offset=3)
    history_builder.read(1, {}, 1, last_stable_offset=-1)
    history_builder.read(1, {1: "r1"}, 2, last_stable_offset=-1)
    history_builder.read(1, {}, 1, last_stable_offset=3)
    assert starving_readers(history_builder.history) == ()
    history_builder.read(1, {}, 1, last_stable_offset=-1)
    history_builder.read(1, {}, 1, last_stable_offset=3)
    assert kinds(starving_readers(history_builder.history)) == ["starving-reader"]


KEYS = {2: "x", 3: "x"}


def write_behind_ghost(history_builder: HistoryBuilder) -> None:
    """Two records of one key behind the ghost, at 2 and 3."""
    history_builder.write(None, "x is 2", 3, client_name="bystander", key="x")
    history_builder.read(1, {}, 1, high_watermark=4)


def everything(history_builder: HistoryBuilder, **observation_fields: Any) -> int:
    usual: dict[str, Any] = {
        "isolation": Isolation.READ_UNCOMMITTED,
        "last_stable_offset": -1,
        "keys": KEYS,
    }
    return history_builder.read(
        1, {1: "late", 2: "after", 3: "x is 2"}, 4, **(usual | observation_fields)
    )


def test_what_the_cleaner_leaves_behind_a_hanging_transaction_convicts() -> None:
    history_builder = HistoryBuilder()
    hangs(history_builder)
    write_behind_ghost(history_builder)
    clean_number = history_builder.clean()
    read = everything(history_builder)
    (anomaly,) = uncleanable_logs(history_builder.history)
    assert {clean_number, read} <= set(anomaly.evidence)
    assert "key 'x'" in anomaly.because


def test_the_cleaner_must_have_had_its_turn() -> None:
    history_builder = HistoryBuilder()
    hangs(history_builder)
    write_behind_ghost(history_builder)
    everything(history_builder)
    assert uncleanable_logs(history_builder.history) == ()


def test_what_was_written_after_its_turn_it_could_not_clean() -> None:
    history_builder = HistoryBuilder()
    hangs(history_builder)
    history_builder.clean()
    write_behind_ghost(history_builder)
    everything(history_builder)
    assert uncleanable_logs(history_builder.history) == ()


@pytest.mark.parametrize("keys", [{0: "x", 3: "x"}, {2: "x", 3: "y"}, {}])
def test_a_record_before_the_transaction_or_of_another_key_tells_nothing(
    keys: dict[int, str],
) -> None:
    history_builder = HistoryBuilder()
    hangs(history_builder)
    write_behind_ghost(history_builder)
    history_builder.clean()
    everything(history_builder, keys=keys)
    assert uncleanable_logs(history_builder.history) == ()


def test_behind_a_transaction_that_is_alive_the_cleaner_waits() -> None:
    history_builder = HistoryBuilder()
    ghost(history_builder)
    history_builder.list_producers((7, 1))
    history_builder.describe("Ongoing", T0)
    write_behind_ghost(history_builder)
    history_builder.clean()
    everything(history_builder)
    assert uncleanable_logs(history_builder.history) == ()


def test_positions_of_an_aborted_transaction_are_never_to_be_seen() -> None:
    history_builder = HistoryBuilder()
    send_number = history_builder.send_offsets("T1", 20)
    history_builder.abort()
    read = history_builder.positions(20)
    (anomaly,) = positions_before_decision(history_builder.history)
    assert anomaly.evidence == (send_number, read)


def test_nor_those_whose_commit_nobody_has_asked_for_yet() -> None:
    history_builder = HistoryBuilder()
    history_builder.send_offsets("T1", 20)
    history_builder.positions(20)
    history_builder.commit(asked_ms=2500, outcome=UNKNOWN)
    assert len(positions_before_decision(history_builder.history)) == 1


@pytest.mark.parametrize(
    "end",
    [
        pytest.param({"asked_ms": 2000}, id="asked at the same time"),
        pytest.param({"asked_ms": 1500}, id="asked before"),
        pytest.param({}, id="nobody knows when it was asked"),
    ],
)
def test_a_commit_that_may_have_been_asked_for_convicts_nobody(end: dict[str, Any]) -> None:
    history_builder = HistoryBuilder()
    history_builder.send_offsets("T1", 20)
    history_builder.positions(20)
    history_builder.commit(**end)
    assert positions_before_decision(history_builder.history) == ()


def test_an_open_transaction_may_still_ask() -> None:
    history_builder = HistoryBuilder()
    history_builder.send_offsets("T1", 20)
    history_builder.positions(20)
    assert positions_before_decision(history_builder.history) == ()


@pytest.mark.parametrize("other_label", [None, "T2"])
def test_a_position_that_somebody_else_has_committed_is_right(other_label: str | None) -> None:
    history_builder = HistoryBuilder()
    history_builder.send_offsets("T1", 20)
    history_builder.abort("T1")
    history_builder.send_offsets(other_label, 20)
    history_builder.commit("T2")
    history_builder.positions(20)
    assert positions_before_decision(history_builder.history) == ()


def test_a_position_of_nobody_we_know_tells_nothing() -> None:
    history_builder = HistoryBuilder()
    history_builder.send_offsets("T1", 20, outcome=FAILED)
    history_builder.abort("T1")
    history_builder.positions(10)
    assert positions_before_decision(history_builder.history) == ()


def test_an_error_tells_no_position() -> None:
    history_builder = HistoryBuilder()
    history_builder.send_offsets("T1", 20)
    history_builder.positions(20, error="UNSTABLE_OFFSET_COMMIT")
    history_builder.abort()
    assert positions_before_decision(history_builder.history) == ()
