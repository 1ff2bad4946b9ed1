"""A broker's disk: what outlives the broker, and how much it may hold."""

from __future__ import annotations

import uuid

import pytest

from tests.support.images import B1, cluster, partition, topic
from tests.support.logs import NOW, LogDriver, batch, config_of, follow, plain
from txnsim.errors import ErrorCode
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_client
from txnsim.log.partition_log import PartitionLog
from txnsim.metadata.image import ClusterImage
from txnsim.releases.rules import LATEST_RULES
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.replica.fetch_values import FetchOutcome
from txnsim.replica.log_budget import (
    BATCH_BYTES,
    LIST_ENTRY_BYTES,
    LOGS_PER_STEP,
    BudgetCheck,
    enforce_budget,
)
from txnsim.settings import DEFAULTS
from txnsim.wire.codec import run_to_end

# A broker's disk: what outlives the broker, and what of it is known afterwards.


def image_of(name: str = "orders", topic_id: int = 1) -> ClusterImage:
    return cluster().with_topic(
        topic(name, partition(1), partition(1), topic_id=uuid.UUID(int=topic_id))
    )


def log_of(broker_logs: BrokerLogs, image: ClusterImage) -> PartitionLog:
    orders_topic = image.topics["orders"]
    return broker_logs.log(orders_topic, 0, broker_logs.config_of(image, orders_topic, B1))


def log_with_records(broker_logs: BrokerLogs, count: int = 2) -> PartitionLog:
    log = log_of(broker_logs, image_of())
    if log.leader_epoch < 0:
        log.become_leader(0)
    append_client(log, plain(count), guard=0, now_ms=NOW)
    log.advance_high_watermark(log.log_end_offset)
    return log


def test_a_log_is_made_once_and_belongs_to_its_topics_id() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    image = image_of()
    log = log_of(broker_logs, image)
    assert log_of(broker_logs, image) is log
    assert list(broker_logs) == [log]
    assert list(broker_logs.replicas()) == [(uuid.UUID(int=1), log)]
    image_again = image_of(topic_id=2)
    assert log_of(broker_logs, image_again) is not log


def test_a_fresh_replica_knows_no_leader_epoch() -> None:
    log = log_of(BrokerLogs(DEFAULTS, LATEST_RULES), image_of())
    assert (log.epochs.latest, log.snapshot().leader_epochs) == (-1, ())


def test_a_deleted_topic_leaves_nothing() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    image = image_of()
    log = log_with_records(broker_logs)
    run_to_end(broker_logs.checkpoint_high_watermarks())
    assert [*broker_logs.delete_topic(image.topics["orders"])] == [1], "a step for each replica"
    assert list(broker_logs) == []
    assert log_of(broker_logs, image) is not log


def test_a_topic_that_is_deleted_while_high_watermarks_are_noted_leaves_nothing() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    image = image_of()
    for partition_index in (0, 1):
        broker_logs.log(image.topics["orders"], partition_index, config_of())
    noting = broker_logs.checkpoint_high_watermarks()
    next(noting)
    assert [*broker_logs.delete_topic(image.topics["orders"])] == [1, 1]
    assert [*noting] == [1], "the second one is passed by"
    assert broker_logs._high_watermarks == {}


def test_a_broker_that_has_stopped_notes_no_more_high_watermarks() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    log_with_records(broker_logs)
    assert [*broker_logs.checkpoint_high_watermarks(lambda: True)] == []
    assert broker_logs._high_watermarks == {}


def test_configs_reach_the_logs_that_are_there() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    log = log_with_records(broker_logs)
    changed_image = image_of().with_topic_configs("orders", {"max.message.bytes": "99"})
    orders_topic = changed_image.topics["orders"]
    assert [
        *broker_logs.configure_topic(
            orders_topic, broker_logs.config_of(changed_image, orders_topic, B1)
        )
    ] == [1]
    assert log.config.max_message_bytes == 99


def test_a_crash_leaves_the_records_and_the_high_watermark_that_was_noted() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    log = log_with_records(broker_logs)
    run_to_end(broker_logs.checkpoint_high_watermarks())
    log_with_records(broker_logs)
    broker_logs.reopen(image_of(), B1, now_ms=NOW)
    assert (log.log_end_offset, log.high_watermark) == (4, 2)


def test_a_broken_machine_loses_what_was_not_flushed() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    log = log_with_records(broker_logs)
    broker_logs.close()
    log_with_records(broker_logs)
    assert broker_logs.lose_unflushed(now_ms=NOW) == [log]
    assert broker_logs.lose_unflushed(now_ms=NOW) == []
    broker_logs.reopen(image_of(), B1, now_ms=NOW)
    assert (log.log_end_offset, log.high_watermark) == (2, 2)


def test_topics_that_were_deleted_meanwhile_are_gone_after_the_start() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    log_with_records(broker_logs)
    broker_logs.reopen(cluster(), B1, now_ms=NOW)
    assert list(broker_logs) == []


def test_replicas_that_were_moved_away_meanwhile_are_gone_after_the_start() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    log = log_with_records(broker_logs)
    moved_image = cluster().with_topic(
        topic("orders", partition(2, replicas=(2,)), partition(1), topic_id=uuid.UUID(int=1))
    )
    other_log = broker_logs.log(moved_image.topics["orders"], 1, LogConfig(rules=LATEST_RULES))
    broker_logs.reopen(moved_image, B1, now_ms=NOW)
    assert list(broker_logs) == [other_log]
    smaller_image = cluster().with_topic(topic("orders", partition(1), topic_id=uuid.UUID(int=1)))
    broker_logs.reopen(smaller_image, B1, now_ms=NOW)
    assert list(broker_logs) == []
    assert log_of(broker_logs, image_of()) is not log


def test_a_log_of_before_is_gone_on_with() -> None:
    image = image_of()
    log = log_with_records(BrokerLogs(DEFAULTS, LATEST_RULES))
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    broker_logs.adopt_log(image.topics["orders"].topic_id, log, high_watermark=1)
    broker_logs.reopen(image, B1, now_ms=NOW)
    assert log_of(broker_logs, image) is log
    assert (log.high_watermark, log.log_end_offset) == (1, 2)


# Where logs start


def delete_records(broker_logs: BrokerLogs, before_offset: int) -> None:
    log_of(broker_logs, image_of()).delete_records_before(before_offset)


def test_a_crash_brings_back_what_was_deleted_since_the_last_note() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    log = log_with_records(broker_logs, 6)
    delete_records(broker_logs, 3)
    broker_logs.checkpoint_log_starts()
    delete_records(broker_logs, 5)
    broker_logs.reopen(image_of(), B1, now_ms=NOW)
    assert (log.log_start_offset, log.log_end_offset) == (3, 6)


def test_a_broker_that_stops_in_order_notes_it() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    log = log_with_records(broker_logs, 6)
    delete_records(broker_logs, 5)
    broker_logs.close()
    broker_logs.reopen(image_of(), B1, now_ms=NOW)
    assert log.log_start_offset == 5


def test_deleting_a_replica_notes_the_starts_of_the_others() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    image = image_of()
    log = log_with_records(broker_logs, 6)
    broker_logs.log(
        image.topics["orders"], 1, broker_logs.config_of(image, image.topics["orders"], B1)
    )
    delete_records(broker_logs, 4)
    broker_logs.delete_replicas(image.topics["orders"], (1,))
    delete_records(broker_logs, 5)
    broker_logs.delete_replicas(image.topics["orders"], (1,))  # it was not here any more
    broker_logs.reopen(image_of(), B1, now_ms=NOW)
    assert log.log_start_offset == 4


def test_a_topic_that_is_deleted_costs_one_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint has a line for every log of the disk."""
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    image = image_of()
    orders_topic = image.topics["orders"]
    config = broker_logs.config_of(image, orders_topic, B1)
    for partition_index in range(len(orders_topic.partitions)):
        broker_logs.log(orders_topic, partition_index, config)
    notes: list[int] = []
    monkeypatch.setattr(
        BrokerLogs, "checkpoint_log_starts", lambda self: notes.append(len(self._logs))
    )
    assert [*broker_logs.delete_topic(orders_topic)] == [1] * len(orders_topic.partitions)
    assert len(orders_topic.partitions) > 1
    assert notes == [0]


def test_a_directory_that_has_failed_takes_no_notes() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    image = image_of()
    log = log_with_records(broker_logs, 6)
    broker_logs.log(
        image.topics["orders"], 1, broker_logs.config_of(image, image.topics["orders"], B1)
    )
    delete_records(broker_logs, 4)
    broker_logs.has_failed = True
    broker_logs.delete_replicas(image.topics["orders"], (1,))
    broker_logs.close()
    broker_logs.reopen(image_of(), B1, now_ms=NOW)
    assert log.log_start_offset == 0


def test_a_log_that_starts_with_its_first_segment_needs_no_note() -> None:
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    log = log_with_records(broker_logs, 6)
    log.restart_at(9, now_ms=NOW)
    broker_logs.checkpoint_log_starts()
    log.restart_at(7, now_ms=NOW)
    broker_logs.reopen(image_of(), B1, now_ms=NOW)
    assert log.log_start_offset == 7


def test_a_log_of_before_starts_where_that_was_noted() -> None:
    image = image_of()
    log = log_with_records(BrokerLogs(DEFAULTS, LATEST_RULES), 6)
    log.delete_records_before(4)
    broker_logs = BrokerLogs(DEFAULTS, LATEST_RULES)
    broker_logs.adopt_log(image.topics["orders"].topic_id, log, high_watermark=6)
    broker_logs.reopen(image, B1, now_ms=NOW)
    assert log.log_start_offset == 4


# What goes at the edge of the budget, and what never does.


KB = 1_000
RECORD_VALUE = b"v" * (KB - 80)
"""Makes a batch of about a kilobyte."""
SMALL = config_of(roll_bytes=10 * KB)
"""Ten batches are a segment."""


COMPACTED = config_of(roll_bytes=10 * KB, is_compacted=True)
OFF = 1 << 40
"""A budget that is far away."""


class Disks:
    """The logs on the disks of two brokers."""

    def __init__(self) -> None:
        self.disks = [BrokerLogs(DEFAULTS, LATEST_RULES), BrokerLogs(DEFAULTS, LATEST_RULES)]
        self.count = 0

    def log(self, config: LogConfig = SMALL, *, disk: int = 0) -> LogDriver:
        self.count += 1
        driver = LogDriver(config)
        self.disks[disk].adopt_log(uuid.UUID(int=self.count), driver.log, high_watermark=0)
        return driver

    def follower(self, leader: LogDriver) -> PartitionLog:
        """A replica with the same batches on the second disk."""
        log = PartitionLog(topic_partition=leader.log.topic_partition, config=SMALL, leader_epoch=0)
        for batch_data in leader.log.batches():
            follow(log, batch_data)
        log.follow_high_watermark(leader.log.high_watermark)
        self.disks[1].adopt_log(uuid.UUID(int=self.count), log, high_watermark=0)
        return log

    def look(self, budget: int) -> tuple[BudgetCheck, list[tuple[int, PartitionLog]]]:
        budget_check = BudgetCheck()
        moved_logs = [
            replica
            for replica in enforce_budget(self.disks, budget, NOW, budget_check)
            if replica is not None
        ]
        return budget_check, moved_logs


@pytest.fixture
def disks() -> Disks:
    return Disks()


def fill(driver: LogDriver, batch_count: int, *, at_ms: int = 0) -> None:
    driver.now = NOW + at_ms
    for _ in range(batch_count):
        assert driver.append(plain(record_value=RECORD_VALUE)) == 0


def test_below_half_of_the_budget_nothing_changes(disks: Disks) -> None:
    driver = disks.log()
    fill(driver, 40)
    budget_check, moved_logs = disks.look(OFF)
    assert (budget_check.freed_bytes, moved_logs, len(driver.log.local.segments)) == (0, [], 4)
    assert budget_check.held_bytes == driver.log.local.segments.size_bytes + 40 * (
        BATCH_BYTES + LIST_ENTRY_BYTES
    )


def test_at_the_edge_the_oldest_closed_segments_go_first(disks: Disks) -> None:
    young_log, old_log = disks.log(), disks.log()
    fill(young_log, 60, at_ms=10)
    fill(old_log, 60)
    held_bytes = disks.look(OFF)[0].held_bytes
    budget_check, moved_logs = disks.look(held_bytes)
    assert moved_logs == [(0, old_log.log)]
    # Two of sixteen parts are free then, in whole segments: 20 of 120 batches.
    assert (old_log.log.log_start_offset, young_log.log.log_start_offset) == (20, 0)
    assert (
        disks.look(OFF)[0].held_bytes
        == held_bytes - budget_check.freed_bytes
        <= held_bytes * 14 // 16
    )


def test_nothing_from_the_first_open_transaction_on_goes(disks: Disks) -> None:
    driver = disks.log()
    fill(driver, 20)
    assert driver.txn(0) == 0
    fill(driver, 60)
    fill(disks.log(), 5)
    disks.look(10 * KB)
    assert driver.log.log_start_offset == 10, "the segment that holds the open transaction stays"
    assert driver.log.producers.open_producers()


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
        assert driver.append(batch(-1, producer_id=-1, record_value=RECORD_VALUE)) == 0
    count = len(driver.log.local.segments)
    budget_check, moved_logs = disks.look(10 * KB)
    assert (budget_check.freed_bytes, moved_logs) == (0, [])
    assert len(driver.log.local.segments) == count


def test_replicas_share_their_batches_and_go_together(disks: Disks) -> None:
    leader = disks.log()
    fill(leader, 60)
    single_held_bytes = disks.look(OFF)[0].held_bytes
    follower_log = disks.follower(leader)
    held_bytes = disks.look(OFF)[0].held_bytes
    assert held_bytes == single_held_bytes + 60 * LIST_ENTRY_BYTES
    _, moved_logs = disks.look(held_bytes)
    assert moved_logs == [(0, leader.log), (1, follower_log)]
    assert leader.log.log_start_offset == follower_log.log_start_offset > 0


def test_a_replica_that_lags_keeps_what_it_has(disks: Disks) -> None:
    leader = disks.log()
    fill(leader, 20)
    follower_log = disks.follower(leader)
    fill(leader, 60)
    disks.look(40 * KB)
    assert leader.log.log_start_offset > 20
    assert follower_log.log_start_offset == 0


def test_an_active_segment_of_a_part_is_ended_from_half_of_the_budget_on(disks: Disks) -> None:
    large_log, small_log = disks.log(config_of()), disks.log(config_of())
    fill(large_log, 60)
    fill(small_log, 2)
    held_bytes = disks.look(OFF)[0].held_bytes
    budget_check, moved_logs = disks.look(held_bytes * 3 // 2)
    assert (budget_check.freed_bytes, moved_logs) == (0, [])
    assert (len(large_log.log.local.segments), len(small_log.log.local.segments)) == (2, 1)


def test_where_closed_segments_are_too_few_the_largest_active_ones_are_ended(disks: Disks) -> None:
    drivers = [disks.log(config_of()) for _ in range(40)]
    for driver_number, driver in enumerate(drivers):
        fill(driver, 1 + driver_number % 2)
    held_bytes = disks.look(OFF)[0].held_bytes
    budget_check, _ = disks.look(held_bytes)
    assert budget_check.freed_bytes == 0
    closed_segment_counts = [len(driver.log.local.segments) - 1 for driver in drivers]
    assert closed_segment_counts == [0, 1] * 5 + [0] * 30, "five of two batches: an eighth of all"
    assert disks.look(held_bytes)[0].freed_bytes > 0


def test_fifteen_of_sixteen_parts_may_be_full(disks: Disks) -> None:
    driver = disks.log()
    fill(driver, 60)
    held_bytes = disks.look(OFF)[0].held_bytes
    budget = next(
        size for size in range(held_bytes, 2 * held_bytes) if size - size // 16 == held_bytes
    )
    assert disks.look(budget)[0].freed_bytes == 0
    assert disks.look(budget - 2)[0].freed_bytes > 0


def test_a_look_at_many_logs_takes_breaks(disks: Disks) -> None:
    for _ in range(2 * LOGS_PER_STEP):
        disks.log()
    assert list(enforce_budget(disks.disks, OFF, NOW, BudgetCheck())) == [None, None]


def test_a_log_that_was_cut_off_during_the_look_keeps_its_start(disks: Disks) -> None:
    driver = disks.log()
    fill(driver, 60)
    for _ in range(LOGS_PER_STEP):
        disks.log()
    steps = enforce_budget(disks.disks, 40 * KB, NOW, BudgetCheck())
    assert next(steps) is None
    driver.log.truncate_to(5, now_ms=NOW)
    assert [step for step in steps if step is not None] == []
    assert driver.log.log_start_offset == 0


# The words of a Fetch: which errors say that there is no such partition.


MISSING = (ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition)


@pytest.mark.parametrize("error", list(ErrorCode))
def test_a_partition_is_missing_where_the_metadata_does_not_know_it(error: ErrorCode) -> None:
    assert FetchOutcome(error=error).is_missing is (error in MISSING)
