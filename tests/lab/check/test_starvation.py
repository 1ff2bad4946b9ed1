from __future__ import annotations

from typing import Any

from tests.support.told import T0, Told, ghost, hangs, kinds
from txnsim_lab.check._starvation import starving_readers, stuck_last_stable_offsets


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
