"""What a leader concludes from where its followers stand."""

from __future__ import annotations

import pytest

from tests.support.images import B2, B3
from txnsim.replica.replication import (
    Follower,
    has_caught_up,
    out_of_sync,
    truncation_offset,
)
from txnsim.types import BrokerId

LAG_MS = 100


def follower(broker_id: BrokerId = B2, *, offset: int = 0, caught_up_ms: int = 0) -> Follower:
    made = Follower(broker_id)
    made.log_end_offset = offset
    made.caught_up_ms = caught_up_ms
    return made


def fetched(one: Follower, offset: int, *, leader_end: int, now_ms: int) -> None:
    one.fetched(
        offset=offset, log_start_offset=0, leader_end=leader_end, broker_epoch=1, now_ms=now_ms
    )


# Being up to date


def test_who_asks_for_the_end_is_up_to_date_now() -> None:
    one = follower()
    fetched(one, 10, leader_end=10, now_ms=50)
    assert one.caught_up_ms == 50
    assert (one.log_end_offset, one.broker_epoch, one.last_fetch_ms) == (10, 1, 50)


def test_who_has_what_there_was_at_its_last_fetch_was_up_to_date_then() -> None:
    one = follower()
    fetched(one, 0, leader_end=10, now_ms=50)
    assert one.caught_up_ms == 0
    fetched(one, 10, leader_end=20, now_ms=90)
    assert one.caught_up_ms == 50
    fetched(one, 12, leader_end=30, now_ms=130)
    assert one.caught_up_ms == 50, "it falls behind"


@pytest.mark.parametrize(
    ("offset", "caught_up_ms", "is_caught_up"),
    [(10, 0, True), (9, 0, False), (9, 900, True), (9, 899, False)],
)
def test_up_to_date_is_who_has_all_or_had_so_not_long_ago(
    offset: int, caught_up_ms: int, is_caught_up: bool
) -> None:
    one = follower(offset=offset, caught_up_ms=caught_up_ms)
    assert one.is_caught_up(leader_end=10, lag_max_ms=LAG_MS, now_ms=1_000) == is_caught_up


@pytest.mark.parametrize(("is_in_isr", "is_caught_up"), [(True, True), (False, False)])
def test_a_new_leader_trusts_the_isr_for_a_while(is_in_isr: bool, is_caught_up: bool) -> None:
    one = follower(offset=7)
    one.reset(is_in_isr=is_in_isr, leader_end=9, now_ms=5)
    assert one.log_end_offset == one.log_start_offset == -1
    assert one.is_caught_up(leader_end=9, lag_max_ms=LAG_MS, now_ms=5) == is_caught_up


# The ISR


def test_out_of_sync_are_members_of_the_isr_that_have_not_kept_up() -> None:
    followers = [follower(B2, offset=3), follower(B3, offset=3, caught_up_ms=950)]
    late = out_of_sync(followers, {B2, B3}, leader_end=10, lag_max_ms=LAG_MS, now_ms=1_000)
    assert late == (B2,)
    assert out_of_sync(followers, {B3}, leader_end=10, lag_max_ms=LAG_MS, now_ms=1_000) == ()


@pytest.mark.parametrize(("offset", "has"), [(4, False), (5, False), (6, True), (9, True)])
def test_who_joins_has_all_that_is_committed_and_all_from_before_this_leader(
    offset: int, has: bool
) -> None:
    one = follower(offset=offset)
    assert has_caught_up(one, high_watermark=5, epoch_start_offset=6) == has


# Truncation


@pytest.mark.parametrize(
    ("leader", "own", "offset"),
    [
        ((3, 7), (3, 9), 7),  # the same epoch ended earlier there
        ((3, 9), (3, 7), 7),  # or here
        ((3, 7), (2, 4), 4),  # we don't know that epoch: back to the one before, and ask again
        ((3, 7), (-1, -1), 7),  # we know of no epoch at all
        ((-1, 8), (-1, -1), 8),
        ((3, 90), (3, 80), 10),
    ],
)
def test_a_diverging_follower_goes_back_to_where_both_agree(
    leader: tuple[int, int], own: tuple[int, int], offset: int
) -> None:
    assert truncation_offset(log_end_offset=10, leader_answer=leader, own_answer=own) == offset
