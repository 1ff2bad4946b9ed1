from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.told import T0, T1, Told, ghost, hangs
from txnsim_lab.check._hanging import hanging
from txnsim_lab.check.observations import Wrote


def test_open_then_not_listed_then_still_open_is_hanging() -> None:
    told = Told()
    ghost(told)
    first = told.producers((7, 1), (9, None))
    denied = told.described("CompleteAbort")
    again = told.producers((7, 1))
    read = told.read(1, {}, 1, high_watermark=3)
    (one,) = hanging(told.history)
    assert (one.place, one.producer_id, one.start_offset) == (T0, 7, 1)
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
