"""Judges of what hangs, starves, is cleaned away, or goes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.told import FAILED, T0, T1, UNKNOWN, Told, ghost, hangs, kinds
from txnsim_lab.check._cleaning import uncleanable_logs
from txnsim_lab.check._hanging import hanging
from txnsim_lab.check._positions import positions_before_decision
from txnsim_lab.check._starvation import starving_readers, stuck_last_stable_offsets
from txnsim_lab.check.observations import Isolation, Wrote


def test_open_then_not_listed_then_still_open_is_hanging() -> None:
    told = Told()
    ghost(told)
    first = told.producers((7, 1), (9, None))
    denied = told.described("CompleteAbort")
    again = told.producers((7, 1))
    read = told.read(1, {}, 1, high_watermark=3)
    (one,) = hanging(told.history)
    assert (one.topic_partition, one.producer_id, one.start_offset) == (T0, 7, 1)
    assert (one.last_stable_offset, one.high_watermark) == (1, 3)
    assert one.evidence == (first, denied, again, read)


def test_readers_that_are_held_at_its_start_show_that_it_is_open() -> None:
    told = Told()
    ghost(told)
    told.producers((7, 1))
    told.described("CompleteAbort")
    assert hanging(told.history) == ()
    told.read(1, {}, 1, high_watermark=3)
    assert len(hanging(told.history)) == 1


@pytest.mark.parametrize(
    "word",
    [
        pytest.param(lambda told: told.described("Empty"), id="Empty"),
        pytest.param(lambda told: told.described("Ongoing", T1), id="another partition"),
        pytest.param(lambda told: told.described("CompleteCommit", T0), id="complete"),
        pytest.param(lambda told: told.listed(), id="nobody lists it"),
        pytest.param(lambda told: told.listed(("app", 7, "Empty")), id="listed as Empty"),
        pytest.param(
            lambda told: told.described("", error="TRANSACTIONAL_ID_NOT_FOUND"),
            id="its transactional id is unknown",
        ),
        pytest.param(
            lambda told: told.described("Ongoing", T0, producer_id=8),
            id="its transactional id has another producer id",
        ),
    ],
)
def test_ways_to_say_that_nobody_owns_it(word: Callable[[Told], int]) -> None:
    told = Told()
    ghost(told)
    told.producers((7, 1))
    word(told)
    told.producers((7, 1))
    told.read(1, {}, 1, high_watermark=3)
    assert len(hanging(told.history)) == 1


@pytest.mark.parametrize(
    "word",
    [
        pytest.param(lambda told: told.described("Ongoing", T0), id="alive"),
        pytest.param(lambda told: told.described("PrepareCommit", T1, T0), id="decided"),
        pytest.param(lambda told: told.described("PrepareAbort", T0), id="decided to abort"),
        pytest.param(lambda told: told.listed(("app", 7, "Ongoing")), id="where, it does not say"),
        pytest.param(lambda told: told.described("", error="NOT_COORDINATOR"), id="nobody knows"),
        pytest.param(lambda told: told.described("Empty", producer_id=9), id="about another"),
        pytest.param(
            lambda told: told.described("Empty", transactional_id="other", producer_id=9),
            id="about another id",
        ),
    ],
)
def test_words_that_do_not_disown_it(word: Callable[[Told], int]) -> None:
    told = Told()
    ghost(told)
    told.initialised(transactional_id="shares the id", producer_id=7)
    told.producers((7, 1))
    word(told)
    told.producers((7, 1))
    told.read(1, {}, 1, high_watermark=3)
    assert hanging(told.history) == ()


def test_the_last_word_counts() -> None:
    told = Told()
    hangs(told)
    told.described("Ongoing", T0)  # the next transaction has added the partition
    told.producers((7, 1))
    told.read(1, {}, 1, high_watermark=3)
    assert hanging(told.history) == ()


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda told: told.producers((7, None)), id="closed"),
        pytest.param(lambda told: told.producers((7, 5)), id="another one"),
        pytest.param(lambda told: told.read(1, {}, 3), id="readers go on"),
        pytest.param(
            lambda told: told.read(1, {}, 1, last_stable_offset=0, high_watermark=3),
            id="an older transaction holds them",
        ),
    ],
)
def test_the_last_look_counts(look: Callable[[Told], int]) -> None:
    told = Told()
    hangs(told)
    assert len(hanging(told.history)) == 1
    look(told)
    assert hanging(told.history) == ()


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda told: told.producers(error="NOT_LEADER_OR_FOLLOWER"), id="leader"),
        pytest.param(lambda told: told.read(1, {}, 1, error="UNKNOWN"), id="reader"),
        pytest.param(lambda told: told.read(1, {}, 1, last_stable_offset=-1), id="not told"),
        pytest.param(lambda told: told.producers((8, 0), partition=1), id="another partition"),
        pytest.param(lambda told: told.read(0, {}, 0, partition=1), id="a reader elsewhere"),
    ],
)
def test_a_look_that_shows_nothing_changes_nothing(look: Callable[[Told], int]) -> None:
    told = Told()
    hangs(told)
    look(told)
    assert len(hanging(told.history)) == 1


def test_without_a_reader_nobody_is_held_back() -> None:
    told = Told()
    ghost(told)
    told.producers((7, 1))
    told.described("CompleteAbort")
    told.producers((7, 1))
    assert hanging(told.history) == ()


def test_a_beginning_below_the_log_start_needs_the_leader_to_say_it_twice() -> None:
    told = Told()
    ghost(told)
    told.producers((7, 1))
    told.described("CompleteAbort")
    told.read(2, {}, 2, log_start_offset=2, high_watermark=3)
    assert hanging(told.history) == ()
    told.producers((7, 1))
    assert len(hanging(told.history)) == 1


def test_it_holds_the_records_of_its_producer_behind_its_start() -> None:
    told = Told()
    hangs(told)
    (one,) = hanging(told.history)
    told.wrote("T1", "r1", 1, producer_id=7)
    told.wrote("T1", "r0", 0, producer_id=7)
    told.wrote("T2", "r2", 2, producer_id=8)
    told.wrote("T1", "r3", 3, producer_id=7, partition=1)
    held = [one.holds(wrote) for wrote in list(told.history)[-4:] if isinstance(wrote, Wrote)]
    assert held == [True, False, False, False]


def test_a_leader_that_answers_an_error_does_not_call_it_open() -> None:
    told = Told()
    ghost(told)
    told.producers((7, 1), error="NOT_LEADER_OR_FOLLOWER")
    told.described("CompleteAbort")
    told.producers((7, 1))
    told.read(1, {}, 1, high_watermark=3)
    assert hanging(told.history) == ()


def held(told: Told, **more: Any) -> int:
    given: dict[str, Any] = {"high_watermark": 3}
    return told.read(1, {}, 1, **(given | more))


def test_a_hanging_transaction_is_what_holds_readers() -> None:
    told = Told()
    hangs(told)
    (anomaly,) = stuck_last_stable_offsets(told.history)
    assert anomaly.because.startswith("t-0: the transaction of producer 7 that is open since 1")


def test_held_for_longer_than_any_transaction_may_live_is_starving() -> None:
    told = Told()
    first = held(told)
    held(told)
    told.wait(20.1)
    last = held(told)
    (anomaly,) = starving_readers(told.history)
    assert anomaly.evidence == (first, last)


def test_who_had_all_there_was_starves_since_there_is_more() -> None:
    told = Told()
    told.read(1, {}, 1)
    told.wait(5)
    first = held(told)
    told.wait(19)
    held(told)
    assert starving_readers(told.history) == (), "before that it waited for news"
    told.wait(2)
    last = held(told)
    (anomaly,) = starving_readers(told.history)
    assert anomaly.evidence == (first, last)


def test_a_longer_timeout_that_was_seen_asks_for_more_patience() -> None:
    told = Told()
    told.initialised(timeout_ms=None)
    told.initialised(timeout_ms=60 * 60_000)
    held(told)
    told.wait(64)
    held(told)
    assert starving_readers(told.history) == ()
    told.wait(2)
    held(told)
    assert kinds(starving_readers(told.history)) == ["starving-reader"]


def test_a_known_reason_has_a_name_of_its_own() -> None:
    told = Told()
    hangs(told)
    told.wait(30)
    held(told)
    assert starving_readers(told.history) == ()
    assert kinds(stuck_last_stable_offsets(told.history)) == ["stuck-last-stable-offset"]


def test_so_has_a_stuck_coordinator() -> None:
    told = Told()
    ghost(told)
    held(told)
    told.described("PrepareCommit", T0)
    told.wait(30)
    told.described("PrepareCommit", T0)
    held(told)
    assert starving_readers(told.history) == ()


def test_who_gets_something_in_between_does_not_starve() -> None:
    told = Told()
    held(told)
    told.wait(30)
    told.read(1, {1: "r1"}, 2)
    told.read(1, {}, 1, high_watermark=3)
    assert starving_readers(told.history) == ()


def test_another_reader_that_waits_elsewhere_is_another_wait() -> None:
    told = Told()
    held(told)
    told.wait(30)
    told.read(2, {}, 2, high_watermark=3)
    held(told, who="another")
    held(told, last_stable_offset=-1)
    assert starving_readers(told.history) == ()


def test_at_the_end_of_the_log_there_is_nothing_to_get() -> None:
    told = Told()
    told.read(1, {}, 1)
    told.wait(30)
    told.read(1, {}, 1)
    assert starving_readers(told.history) == ()


def test_a_last_stable_offset_that_moves_holds_nobody_for_long() -> None:
    told = Told()
    told.read(3, {}, 3, last_stable_offset=1, high_watermark=5)
    told.wait(30)
    told.read(3, {}, 3, last_stable_offset=2, high_watermark=5)
    assert starving_readers(told.history) == ()


def test_who_may_read_on_and_is_given_nothing_twice_starves_at_once() -> None:
    told = Told()
    told.read(0, {}, 0, last_stable_offset=1, high_watermark=1)
    assert starving_readers(told.history) == ()
    told.read(0, {}, 0, last_stable_offset=1, high_watermark=1)
    assert kinds(starving_readers(told.history)) == ["starving-reader"]


def test_who_got_something_meanwhile_does_not_starve_though_no_stable_offset_was_told() -> None:
    told = Told()
    told.read(1, {}, 1, last_stable_offset=3)
    told.read(1, {}, 1, last_stable_offset=-1)
    told.read(1, {1: "r1"}, 2, last_stable_offset=-1)
    told.read(1, {}, 1, last_stable_offset=3)
    assert starving_readers(told.history) == ()
    told.read(1, {}, 1, last_stable_offset=-1)
    told.read(1, {}, 1, last_stable_offset=3)
    assert kinds(starving_readers(told.history)) == ["starving-reader"]


KEYS = {2: "x", 3: "x"}


def grown(told: Told) -> None:
    """Two records of one key behind the ghost, at 2 and 3."""
    told.wrote(None, "x is 2", 3, who="bystander", key="x")
    told.read(1, {}, 1, high_watermark=4)


def everything(told: Told, **more: Any) -> int:
    given: dict[str, Any] = {
        "isolation": Isolation.READ_UNCOMMITTED,
        "last_stable_offset": -1,
        "keys": KEYS,
    }
    return told.read(1, {1: "late", 2: "after", 3: "x is 2"}, 4, **(given | more))


def test_what_the_cleaner_leaves_behind_a_hanging_transaction_convicts() -> None:
    told = Told()
    hangs(told)
    grown(told)
    cleaned = told.cleaned()
    read = everything(told)
    (anomaly,) = uncleanable_logs(told.history)
    assert {cleaned, read} <= set(anomaly.evidence)
    assert "key 'x'" in anomaly.because


def test_the_cleaner_must_have_had_its_turn() -> None:
    told = Told()
    hangs(told)
    grown(told)
    everything(told)
    assert uncleanable_logs(told.history) == ()


def test_what_was_written_after_its_turn_it_could_not_clean() -> None:
    told = Told()
    hangs(told)
    told.cleaned()
    grown(told)
    everything(told)
    assert uncleanable_logs(told.history) == ()


@pytest.mark.parametrize("keys", [{0: "x", 3: "x"}, {2: "x", 3: "y"}, {}])
def test_a_record_before_the_transaction_or_of_another_key_tells_nothing(
    keys: dict[int, str],
) -> None:
    told = Told()
    hangs(told)
    grown(told)
    told.cleaned()
    everything(told, keys=keys)
    assert uncleanable_logs(told.history) == ()


def test_behind_a_transaction_that_is_alive_the_cleaner_waits() -> None:
    told = Told()
    ghost(told)
    told.producers((7, 1))
    told.described("Ongoing", T0)
    grown(told)
    told.cleaned()
    everything(told)
    assert uncleanable_logs(told.history) == ()


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
