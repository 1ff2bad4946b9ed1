"""A follower's log: what it takes over, up to where it believes, what it cuts off."""

from __future__ import annotations

import pytest

from tests.support.logs import NOW, LogDriver, batch, make_log, plain
from txnsim.errors import InvariantViolation
from txnsim.log.answers import Appended
from txnsim.log.config import LogConfig
from txnsim.log.partition_log import TAIL_BATCHES_MAX, PartitionLog


def leader(batches: int = 4) -> LogDriver:
    driver = LogDriver()
    driver.log.keep_tail()
    for _ in range(batches):
        driver.append(plain(2))
    return driver


def fetched(log: PartitionLog, offset: int, max_bytes: int = 1 << 20) -> list[int]:
    return [one.base_offset for one in log.batches_for_follower(offset, max_bytes=max_bytes)]


def follower_of(driver: LogDriver, *, up_to: int | None = None) -> PartitionLog:
    log = make_log()
    for one in driver.log.batches_for_follower(0, max_bytes=1 << 20):
        if up_to is None or one.base_offset < up_to:
            log.append_replicated(one, now_ms=NOW)
    return log


# What the leader hands on


def test_a_follower_gets_what_lies_behind_its_end_and_within_its_limit() -> None:
    log = leader().log
    size = len(next(iter(log.batches())))
    assert fetched(log, 6) == [6]
    assert fetched(log, 2) == [2, 4, 6]
    assert fetched(log, 8) == []
    assert fetched(log, 2, max_bytes=2 * size) == [2, 4]
    assert fetched(log, 2, max_bytes=1) == [2], "one batch always fits"
    assert fetched(log, 3) == [2, 4, 6], "whole batches"


def test_older_batches_are_read_from_the_store() -> None:
    driver = leader(TAIL_BATCHES_MAX + 2)
    log, size = driver.log, len(plain(2))
    assert fetched(log, 2)[:2] == [2, 4]
    assert len(fetched(log, 0)) == TAIL_BATCHES_MAX + 2
    assert fetched(log, 0, max_bytes=1) == [0]
    assert fetched(log, 0, max_bytes=2 * size) == [0, 2]


def test_a_log_without_followers_keeps_no_tail() -> None:
    driver = LogDriver()
    driver.append(plain())
    assert fetched(driver.log, 0) == [0]
    driver.log.keep_tail()
    driver.append(plain())
    driver.log.keep_tail()
    assert fetched(driver.log, 1) == [1]
    assert fetched(driver.log, 0) == [0, 1]


# High watermark


def test_a_follower_believes_its_leader_as_far_as_its_own_log_reaches() -> None:
    log = follower_of(leader(), up_to=6)
    assert log.follow_high_watermark(8)
    assert log.high_watermark == 6
    assert not log.follow_high_watermark(7)
    assert log.follow_high_watermark(2), "a new leader may know less"
    assert log.high_watermark == 2


def test_a_high_watermark_is_never_below_the_log_start() -> None:
    log = follower_of(leader())
    log.follow_high_watermark(8)
    assert log.raise_log_start(5)
    log.follow_high_watermark(1)
    assert log.high_watermark == 5


def test_the_log_start_rises_with_the_leaders_but_not_past_the_high_watermark() -> None:
    log = follower_of(leader())
    assert not log.raise_log_start(4)
    log.follow_high_watermark(8)
    assert log.raise_log_start(4)
    assert not log.raise_log_start(4)
    assert log.log_start_offset == 4


# Roles and restarts


def with_segments(*counts: int) -> PartitionLog:
    """A log of which each batch has so many records and a segment of its own."""
    log = make_log(LogConfig(roll_bytes=1, retention_ms=-1))
    for count in counts:
        assert isinstance(log.append_client(plain(count), guard=0, now_ms=NOW), Appended)
    log.replicate_all()
    return log


def test_a_follower_keeps_the_epochs_of_its_log_and_takes_the_leaders_for_its_own() -> None:
    log = follower_of(leader())
    log.become_follower(3)
    assert (log.leader_epoch, log.latest_epoch) == (3, 0)
    log.become_leader(3)
    assert log.latest_epoch == 3


def test_a_restart_knows_only_the_checkpoint() -> None:
    log = follower_of(leader())
    log.follow_high_watermark(8)
    log.reopen(4, log_start_offset=log.log_start_offset, now_ms=NOW)
    assert log.high_watermark == 4
    log.reopen(100, log_start_offset=log.log_start_offset, now_ms=NOW)
    assert log.high_watermark == 8


@pytest.mark.parametrize(
    ("noted", "start"),
    [
        pytest.param(0, 2, id="nothing: the first segment begins there"),
        pytest.param(1, 2, id="below the first segment"),
        pytest.param(3, 3, id="before the last deletion"),
        pytest.param(4, 4, id="all of it"),
    ],
)
def test_a_restart_knows_the_start_that_was_noted(noted: int, start: int) -> None:
    """What was deleted since is there again, as far as its segment is."""
    log = with_segments(2, 2, 2)
    log.delete_records_before(2)
    log.delete_old_segments(NOW)
    log.delete_records_before(4)
    log.reopen(6, log_start_offset=noted, now_ms=NOW)
    log.check_invariants()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (start, 6, 6)


def test_a_log_that_ends_below_the_start_that_was_noted_is_empty() -> None:
    log = with_segments(2)
    log.reopen(2, log_start_offset=5, now_ms=NOW)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (5, 5, 5)
    assert not tuple(log.batches())


def test_a_restart_keeps_of_each_producer_its_last_batch_and_its_transaction() -> None:
    driver = LogDriver()
    for sequence in range(3):
        driver.data(sequence)
    driver.txn(0, pid=8)
    driver.txn(0, pid=9)
    driver.log.advance_high_watermark(4)
    driver.end(committed=False, pid=9)
    log = driver.log
    log.reopen(4, log_start_offset=log.log_start_offset, now_ms=NOW)
    log.check_invariants()
    state = log.snapshot()
    assert {entry.producer_id: len(entry.batches) for entry in state.producers} == {
        7: 1,
        8: 1,
        9: 1,
    }
    assert (state.ongoing, state.unreplicated) == (((3, 8),), ())
    assert [entry.last_offset for entry in state.aborted] == [5]
    assert driver.append(batch(2)) == 0, "the last batch is known for a duplicate"
    assert driver.append(batch(1)) == 45, "the one before it is not"
    assert driver.data(3) == 0


def test_a_restart_forgets_producers_that_have_expired_meanwhile() -> None:
    driver = LogDriver()
    driver.data(0, pid=1)
    driver.txn(0, pid=2)
    driver.log.reopen(
        2,
        log_start_offset=driver.log.log_start_offset,
        now_ms=NOW + driver.log.config.producer_id_expiration_ms,
    )
    assert [entry.producer_id for entry in driver.log.snapshot().producers] == [2]


def test_what_was_not_flushed_may_be_lost() -> None:
    driver = leader(2)
    assert driver.log.recovery_point == 0
    driver.log.flush()
    assert driver.log.recovery_point == 4
    driver.append(plain())
    driver.log.truncate_to(driver.log.recovery_point, now_ms=NOW)
    assert driver.log.log_end_offset == 4
    driver.log.truncate_to(2, now_ms=NOW)
    assert driver.log.recovery_point == 2
    driver.log.restart_at(9, now_ms=NOW)
    assert driver.log.recovery_point == 9
    assert fetched(driver.log, 9) == []


def test_a_batch_below_the_end_is_a_bug() -> None:
    driver = leader(1)
    log = follower_of(driver)
    with pytest.raises(InvariantViolation, match="below the log end 2"):
        log.append_replicated(driver.log.batches_for_follower(0, max_bytes=1)[0], now_ms=NOW)


def test_an_epoch_that_wrote_nothing_is_cut_off_with_nothing_else() -> None:
    log = follower_of(leader(1))
    log.become_leader(3)
    end = log.log_end_offset
    assert log.latest_epoch == 3
    log.truncate_to(end, now_ms=NOW)
    assert (log.latest_epoch, log.log_end_offset) == (0, end)
