"""What goes at the edge of the budget, and what never does."""

from __future__ import annotations

import uuid

import pytest

from tests.support.logs import NOW, LogDriver, batch, config_of, follow, plain
from txnsim.log.config import LogConfig
from txnsim.log.partition_log import PartitionLog
from txnsim.releases.rules import LATEST
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.replica.log_budget import (
    BATCH_BYTES,
    LOGS_PER_STEP,
    PLACE_BYTES,
    Look,
    enforce,
)
from txnsim.settings import DEFAULTS

KB = 1_000
VALUE = b"v" * (KB - 80)
"""Makes a batch of about a kilobyte."""
SMALL = config_of(roll_bytes=10 * KB)
"""Ten batches are a segment."""


COMPACTED = config_of(roll_bytes=10 * KB, is_compacted=True)
OFF = 1 << 40
"""A budget that is far away."""


class Disks:
    """Two brokers' disks."""

    def __init__(self) -> None:
        self.disks = [BrokerLogs(DEFAULTS, LATEST), BrokerLogs(DEFAULTS, LATEST)]
        self.count = 0

    def log(self, config: LogConfig = SMALL, *, disk: int = 0) -> LogDriver:
        """A log of a topic of its own."""
        self.count += 1
        driver = LogDriver(config)
        self.disks[disk].adopt(uuid.UUID(int=self.count), driver.log, high_watermark=0)
        return driver

    def follower(self, leader: LogDriver) -> PartitionLog:
        """A replica with the same batches on the second disk."""
        log = PartitionLog(topic_partition=leader.log.topic_partition, config=SMALL, leader_epoch=0)
        for data in leader.log.batches():
            follow(log, data)
        log.follow_high_watermark(leader.log.high_watermark)
        self.disks[1].adopt(uuid.UUID(int=self.count), log, high_watermark=0)
        return log

    def look(self, budget: int) -> tuple[Look, list[tuple[int, PartitionLog]]]:
        found = Look()
        moved = [one for one in enforce(self.disks, budget, NOW, found) if one is not None]
        return found, moved


@pytest.fixture
def disks() -> Disks:
    return Disks()


def fill(driver: LogDriver, batches: int, *, at_ms: int = 0) -> None:
    driver.now = NOW + at_ms
    for _ in range(batches):
        assert driver.append(plain(value=VALUE)) == 0


def test_below_half_of_the_budget_nothing_changes(disks: Disks) -> None:
    driver = disks.log()
    fill(driver, 40)
    look, moved = disks.look(OFF)
    assert (look.freed, moved, len(driver.log.local.segments)) == (0, [], 4)
    assert look.held == driver.log.local.segments.size_bytes + 40 * (BATCH_BYTES + PLACE_BYTES)


def test_at_the_edge_the_oldest_closed_segments_go_first(disks: Disks) -> None:
    young, old = disks.log(), disks.log()
    fill(young, 60, at_ms=10)
    fill(old, 60)
    held = disks.look(OFF)[0].held
    look, moved = disks.look(held)
    assert moved == [(0, old.log)]
    # Two of sixteen parts are free then, in whole segments: 20 of 120 batches.
    assert (old.log.log_start_offset, young.log.log_start_offset) == (20, 0)
    assert disks.look(OFF)[0].held == held - look.freed <= held * 14 // 16


def test_nothing_from_the_first_open_transaction_on_goes(disks: Disks) -> None:
    driver = disks.log()
    fill(driver, 20)
    assert driver.txn(0) == 0
    fill(driver, 60)
    fill(disks.log(), 5)
    disks.look(10 * KB)
    assert driver.log.log_start_offset == 10, "the segment that holds the open transaction stays"
    assert driver.log.producers.open()


def test_what_is_not_replicated_stays(disks: Disks) -> None:
    driver = disks.log()
    fill(driver, 20)
    driver.follow = False
    fill(driver, 60)
    disks.look(10 * KB)
    assert driver.log.log_start_offset == 20


def test_compacted_logs_stay_and_their_segments_are_not_ended(disks: Disks) -> None:
    driver = disks.log(COMPACTED)
    for _ in range(60):
        assert driver.append(batch(-1, pid=-1, value=VALUE)) == 0
    count = len(driver.log.local.segments)
    look, moved = disks.look(10 * KB)
    assert (look.freed, moved) == (0, [])
    assert len(driver.log.local.segments) == count


def test_replicas_share_their_batches_and_go_together(disks: Disks) -> None:
    leader = disks.log()
    fill(leader, 60)
    alone = disks.look(OFF)[0].held
    follower = disks.follower(leader)
    held = disks.look(OFF)[0].held
    assert held == alone + 60 * PLACE_BYTES
    _, moved = disks.look(held)
    assert moved == [(0, leader.log), (1, follower)]
    assert leader.log.log_start_offset == follower.log_start_offset > 0


def test_a_replica_that_lags_keeps_what_it_has(disks: Disks) -> None:
    leader = disks.log()
    fill(leader, 20)
    follower = disks.follower(leader)
    fill(leader, 60)
    disks.look(40 * KB)
    assert leader.log.log_start_offset > 20
    assert follower.log_start_offset == 0


def test_an_active_segment_of_a_part_is_ended_from_half_of_the_budget_on(disks: Disks) -> None:
    large, small = disks.log(config_of()), disks.log(config_of())
    fill(large, 60)
    fill(small, 2)
    held = disks.look(OFF)[0].held
    look, moved = disks.look(held * 3 // 2)
    assert (look.freed, moved) == (0, [])
    assert (len(large.log.local.segments), len(small.log.local.segments)) == (2, 1)


def test_where_closed_segments_are_too_few_the_largest_active_ones_are_ended(disks: Disks) -> None:
    drivers = [disks.log(config_of()) for _ in range(40)]
    for number, driver in enumerate(drivers):
        fill(driver, 1 + number % 2)
    held = disks.look(OFF)[0].held
    look, _ = disks.look(held)
    assert look.freed == 0
    ended = [len(driver.log.local.segments) - 1 for driver in drivers]
    assert ended == [0, 1] * 5 + [0] * 30, "five of two batches: an eighth of all"
    assert disks.look(held)[0].freed > 0


def test_a_look_at_many_logs_takes_breaks(disks: Disks) -> None:
    for _ in range(2 * LOGS_PER_STEP):
        disks.log()
    assert list(enforce(disks.disks, OFF, NOW, Look())) == [None, None]


def test_a_log_that_was_cut_off_during_the_look_keeps_its_start(disks: Disks) -> None:
    driver = disks.log()
    fill(driver, 60)
    for _ in range(LOGS_PER_STEP):
        disks.log()
    steps = enforce(disks.disks, 40 * KB, NOW, Look())
    assert next(steps) is None
    driver.log.truncate_to(5, now_ms=NOW)
    assert [one for one in steps if one is not None] == []
    assert driver.log.log_start_offset == 0
