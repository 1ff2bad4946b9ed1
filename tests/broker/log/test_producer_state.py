"""What a log keeps of its producers: state, snapshots, guards."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.logs import NOW, PID, LogDriver, batch, config_of, follow, make_log, plain
from txnsim.interbroker.replication import ReplicatedBatch
from txnsim.log import producer_state_manager
from txnsim.log.config import LogConfig
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state import (
    SEQUENCE_MAX,
    BatchMetadata,
    PartitionProducers,
    ProducerEntry,
    sequence_after,
)
from txnsim.log.producer_state_manager import STEP_BATCHES, ProducerSnapshots
from txnsim.log.replicated import describe_batch
from txnsim.releases.rules import LATEST_RULES
from txnsim.wire.batch import BatchHeader, Record, assign, build_batch, control_batch

DAY = 86_400_000


def test_where_a_segment_ends_producers_are_remembered() -> None:
    log_driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=200))
    for sequence in range(5):
        log_driver.data(sequence)
    assert [offset for offset, _ in log_driver.log.producers.snapshots.all_snapshots()] == [2, 4]
    (_, (entry,)), _ = log_driver.log.producers.snapshots.all_snapshots()
    assert (entry.last_sequence, entry.last_offset) == (1, 1)
    assert log_driver.log.local.recovery_point == 4, "what is behind a roll is on disk"


def test_what_the_cleaner_must_leave_of_each_producer() -> None:
    log_driver = LogDriver()
    log_driver.data(0, producer_id=1, count=3)
    log_driver.end(committed=True, producer_id=2, epoch=5)
    facts_by_producer = {
        record.producer_id: (
            record.batches[-1].last_offset if record.batches else None,
            record.producer_epoch,
        )
        for record in log_driver.log.producers.all_producers()
    }
    assert facts_by_producer == {1: (2, 0), 2: (None, 5)}


def test_the_newest_snapshot_can_be_lost() -> None:
    log_driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=200))
    assert log_driver.log.producers.newest_snapshot_offset is None
    for sequence in range(5):
        log_driver.data(sequence)
    assert log_driver.log.producers.newest_snapshot_offset == 4
    log_driver.log.producers.snapshots.remove(4)
    assert log_driver.log.producers.newest_snapshot_offset == 2


def test_replication_takes_guards_as_the_leader_does() -> None:
    log = LogDriver()
    guard = log.guard()
    follow(log.log, assign(batch(0, is_transactional=True), base_offset=0, leader_epoch=0))
    assert log.append(batch(0, producer_id=9), guard=guard) == 0
    assert log.log.producers.verification.find(PID) is None
    other_guard = log.guard(producer_id=8)
    follow(
        log.log,
        control_batch(
            producer_id=8,
            producer_epoch=0,
            is_commit=True,
            coordinator_epoch=0,
            base_offset=2,
            leader_epoch=0,
            timestamp_ms=NOW,
        ),
    )
    assert log.append(batch(0, producer_id=8, is_transactional=True), guard=other_guard) == 48


def control_of_type(kind: int, *, base_offset: int) -> bytes:
    """A control batch that is no marker (the metadata log has such)."""
    batch_data = bytearray(
        build_batch(
            [Record(key=bytes((0, 0, 0, kind)), value=b"\0\0\0\0\0\0")],
            timestamp_ms=NOW,
            producer_id=PID,
            producer_epoch=9,
            is_transactional=True,
            base_offset=base_offset,
            leader_epoch=0,
        )
    )
    batch_data[22] |= 0x20  # control
    return bytes(batch_data)


def test_control_batches_that_end_nothing_are_stored_without_effect() -> None:
    log = make_log()
    follow(log, assign(batch(0, is_transactional=True), base_offset=0, leader_epoch=0))
    producers_before = log.snapshot().producers
    follow(log, control_of_type(2, base_offset=1))
    emptied_batch = bytearray(control_of_type(1, base_offset=2)[:61])
    emptied_batch[8:12] = (49).to_bytes(4, "big")
    emptied_batch[57:61] = bytes(4)
    follow(log, bytes(emptied_batch))
    assert log.snapshot().producers == producers_before
    assert log.log_end_offset == 3


def test_truncation_after_deletion_forgets_who_has_no_record_left() -> None:
    """Memory had kept them (KIP-360); a reload knows what can be read (ProducerStateManager)."""
    driver = LogDriver()
    driver.txn(0, producer_id=1)
    driver.data(0, producer_id=2, count=3)
    driver.data(3, producer_id=2)
    driver.append(plain())
    driver.log.delete_records_before(4)
    assert [producer_entry.producer_id for producer_entry in driver.log.snapshot().producers] == [
        1,
        2,
    ]
    driver.log.truncate_to(5, now_ms=NOW)
    driver.log.check_invariants()
    state = driver.log.snapshot()
    assert state.ongoing == ()
    assert [producer_entry.producer_id for producer_entry in state.producers] == [2]
    assert driver.data(4, producer_id=2) == 0


def test_truncation_replays_only_what_lies_behind_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = LogDriver(config_of(roll_bytes=200))
    for sequence in range(9):
        driver.data(sequence)
    read: list[int] = []

    def describe_and_note(batch_data: bytes, header: BatchHeader) -> ReplicatedBatch:
        read.append(header.base_offset)
        return describe_batch(batch_data, header)

    monkeypatch.setattr(producer_state_manager, "describe_batch", describe_and_note)
    driver.log.truncate_to(7, now_ms=NOW)
    assert read == [6]
    (entry,) = driver.log.snapshot().producers
    assert [known_batch.last_offset for known_batch in entry.batches] == [5, 6], (
        "one known, one replayed"
    )
    driver.log.truncate_to(4, now_ms=NOW)
    assert read == [6], "there is a snapshot of just this offset"


def test_a_reload_leaves_snapshots_where_the_next_one_may_begin() -> None:
    driver = LogDriver(config_of(roll_bytes=200))
    for sequence in range(9):
        driver.data(sequence)
    driver.log.delete_records_before(5)
    driver.log.truncate_to(5, now_ms=NOW)
    driver.log.advance_high_watermark(5)
    for sequence in range(5, 9):
        driver.data(sequence)
    log = driver.log
    assert [offset for offset, _ in log.producers.snapshots.all_snapshots()] == [6, 8]
    log.truncate_to(7, now_ms=NOW)
    assert [offset for offset, _ in log.producers.snapshots.all_snapshots()] == [6, 7]


def test_idle_producers_expire_unless_their_transaction_is_open(driver: LogDriver) -> None:
    driver.data(0, producer_id=1)
    driver.txn(0, producer_id=2)
    assert driver.log.expire_producers(NOW + DAY - 1) == ()
    assert driver.log.expire_producers(NOW + DAY) == (1,)
    driver.log.check_invariants()
    assert driver.data(4711, producer_id=1) == 0
    assert [producer.producer_id for producer in driver.log.producers.all_producers()] == [2, 1]


def test_verification_entries_expire_as_well(driver: LogDriver) -> None:
    guard = driver.guard()
    driver.log.expire_producers(NOW + DAY)
    assert driver.append(batch(0, is_transactional=True), guard=guard) == 48


def test_a_restart_keeps_of_each_producer_its_last_batch_and_its_transaction() -> None:
    driver = LogDriver()
    for sequence in range(3):
        driver.data(sequence)
    driver.txn(0, producer_id=8)
    driver.txn(0, producer_id=9)
    driver.log.advance_high_watermark(4)
    driver.end(committed=False, producer_id=9)
    log = driver.log
    log.reopen(4, log_start_offset=log.log_start_offset, now_ms=NOW)
    log.check_invariants()
    state = log.snapshot()
    assert {
        producer_entry.producer_id: len(producer_entry.batches)
        for producer_entry in state.producers
    } == {
        7: 1,
        8: 1,
        9: 1,
    }
    assert (state.ongoing, state.unreplicated) == (((3, 8),), ())
    assert [aborted_txn.last_offset for aborted_txn in state.aborted] == [5]
    assert driver.append(batch(2)) == 0, "the last batch is known for a duplicate"
    assert driver.append(batch(1)) == 45, "the one before it is not"
    assert driver.data(3) == 0


def test_a_restart_forgets_producers_that_have_expired_meanwhile() -> None:
    driver = LogDriver()
    driver.data(0, producer_id=1)
    driver.txn(0, producer_id=2)
    driver.log.reopen(
        2,
        log_start_offset=driver.log.log_start_offset,
        now_ms=NOW + driver.log.config.producer_id_expiration_ms,
    )
    assert [producer_entry.producer_id for producer_entry in driver.log.snapshot().producers] == [2]


def test_producers_are_listed_with_or_without_a_transaction() -> None:
    driver = LogDriver()
    driver.txn(5, count=2, epoch=1)
    driver.end(committed=True, producer_id=8, epoch=2, coordinator_epoch=4)
    producer_facts = [
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.txn_first_offset,
        )
        for producer in driver.log.producers.all_producers()
    ]
    assert producer_facts == [(PID, 1, 6, NOW, -1, 0), (8, 2, -1, NOW, 4, -1)]


def test_the_open_transaction_of_one_producer() -> None:
    driver = LogDriver()
    driver.append(plain(3))
    assert driver.log.producers.open_transaction_of(PID) == -1
    driver.txn(0)
    driver.txn(1)
    assert driver.log.producers.open_transaction_of(PID) == 3
    driver.end(committed=True)
    assert driver.log.producers.open_transaction_of(PID) == -1


def snapshots_at(*offsets: int) -> ProducerSnapshots:
    snapshots = ProducerSnapshots()
    for offset in offsets:
        snapshots.add(offset, ())
    return snapshots


def snapshot_offsets(snapshots: ProducerSnapshots) -> list[int]:
    return [offset for offset, _ in snapshots.all_snapshots()]


def test_one_snapshot_per_offset_and_none_of_the_past() -> None:
    snapshots = snapshots_at(3, 7, 7, 5)
    assert snapshot_offsets(snapshots) == [3, 7]
    assert snapshots.newest_offset == 7
    assert ProducerSnapshots().newest_offset is None


def test_a_snapshot_goes_with_its_segment() -> None:
    snapshots = snapshots_at(3, 7)
    snapshots.remove(4)
    snapshots.remove(9)
    assert snapshot_offsets(snapshots) == [3, 7]
    snapshots.remove(3)
    assert snapshot_offsets(snapshots) == [7]


def test_a_reload_forgets_snapshots_outside_of_the_log() -> None:
    """At the log start is outside: such a snapshot says nothing of what can be read."""
    snapshots = snapshots_at(3, 5, 7, 9)
    snapshots.keep_between(log_start_offset=3, end_offset=7)
    assert snapshot_offsets(snapshots) == [5, 7]


def test_stray_snapshots_go_but_for_the_newest_behind_all_beginnings() -> None:
    snapshots = snapshots_at(0, 2, 5, 7, 8, 9)
    snapshots.drop_stray([0, 5])
    assert snapshot_offsets(snapshots) == [0, 5, 9]
    snapshots = snapshots_at(2, 5)
    snapshots.drop_stray([0, 5])
    assert snapshot_offsets(snapshots) == [5]


# In steps


def long_log() -> LogDriver:
    """A log of 300 producers with a transaction each; two of three transactions have ended."""
    log_driver = LogDriver(follows=False)
    for producer_id in range(300):
        assert log_driver.txn(0, producer_id=producer_id) == 0
        if producer_id % 3:
            log_driver.end(committed=producer_id % 3 == 1, producer_id=producer_id)
    return log_driver


def at_once_and_begun() -> tuple[PartitionLog, PartitionLog]:
    """The same log cut off at 400: with the state rebuilt, and with steps that are to be taken."""
    cut_log, stepwise_log = long_log().log, long_log().log
    cut_log.truncate_to(400, now_ms=NOW)
    producers_before = stepwise_log.producers.state
    steps = stepwise_log.begin_truncation(400, now_ms=NOW)
    assert next(iter(steps)) == STEP_BATCHES
    assert stepwise_log.log_end_offset == 400
    assert stepwise_log.producers.state is producers_before
    return cut_log, stepwise_log


@pytest.mark.costly
@pytest.mark.parametrize(
    "ask",
    [
        lambda log: log.producers.finish_reload(),
        lambda log: log.producers.all_producers(),
        lambda log: log.producers.open_producers(),
        lambda log: log.producers.open_transaction_of(3),
        lambda log: tuple(log.producers.snapshots_with(400).all_snapshots()),
        lambda log: log.snapshot(),
        lambda log: log.roll(NOW),
    ],
)
def test_whoever_asks_for_the_state_gets_what_a_reload_at_once_leaves(
    ask: Callable[[PartitionLog], object],
) -> None:
    cut_log, stepwise_log = at_once_and_begun()
    assert ask(stepwise_log) == ask(cut_log)
    assert stepwise_log.snapshot() == cut_log.snapshot()
    assert tuple(stepwise_log.producers.snapshots.all_snapshots()) == tuple(
        cut_log.producers.snapshots.all_snapshots()
    )
    stepwise_log.check_invariants()


@pytest.mark.costly
@pytest.mark.parametrize(
    "lead", [lambda log: log.become_leader(5), lambda log: log.become_follower(5)]
)
def test_a_new_leader_epoch_finds_the_state_rebuilt(lead: Callable[[PartitionLog], None]) -> None:
    cut_log, stepwise_log = at_once_and_begun()
    lead(stepwise_log)
    assert stepwise_log.producers.state.images() == cut_log.producers.state.images()


@pytest.mark.costly
def test_steps_that_were_begun_end_where_the_log_is_cut_again_or_emptied() -> None:
    for second_cut in (200, 0):
        cut_log, stepwise_log = long_log().log, long_log().log
        steps = iter(stepwise_log.begin_truncation(400, now_ms=NOW))
        next(steps)
        for log in (cut_log, stepwise_log):
            log.truncate_to(second_cut, now_ms=NOW)
        assert next(steps, None) is None
        assert stepwise_log.snapshot() == cut_log.snapshot()
    stepwise_log = long_log().log
    steps = iter(stepwise_log.begin_truncation(400, now_ms=NOW))
    next(steps)
    stepwise_log.restart_at(7, now_ms=NOW)
    assert next(steps, None) is None
    assert stepwise_log.producers.all_producers() == ()


@pytest.mark.costly
def test_what_is_replicated_meanwhile_holds_nothing_back_at_the_end() -> None:
    cut_log, stepwise_log = at_once_and_begun()
    assert stepwise_log.follow_high_watermark(390)
    stepwise_log.producers.finish_reload()
    assert cut_log.follow_high_watermark(390)
    assert stepwise_log.producers.state.ended == cut_log.producers.state.ended


def cut_in_small_steps(monkeypatch: pytest.MonkeyPatch) -> tuple[PartitionLog, Iterator[int]]:
    """A log of nine producers that is cut off at 12, after the first of the steps."""
    monkeypatch.setattr("txnsim.log.producer_state_manager.STEP_BATCHES", 2)
    log = small_log().log
    steps = iter(log.begin_truncation(12, now_ms=NOW))
    assert next(steps) == 2
    return log, steps


def small_log() -> LogDriver:
    log_driver = LogDriver(follows=False)
    for producer_id in range(9):
        assert log_driver.txn(0, producer_id=producer_id) == 0
        if producer_id % 3:
            log_driver.end(committed=producer_id % 3 == 1, producer_id=producer_id)
    return log_driver


@pytest.mark.parametrize(
    "ask",
    [
        lambda log: log.producers.all_producers(),
        lambda log: log.producers.open_producers(),
        lambda log: log.producers.open_transaction_of(3),
        lambda log: tuple(log.producers.snapshots_with(12).all_snapshots()),
        lambda log: log.snapshot(),
    ],
)
def test_small_steps_leave_what_a_reload_at_once_leaves(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[PartitionLog], object]
) -> None:
    cut_log = small_log().log
    cut_log.truncate_to(12, now_ms=NOW)
    stepwise_log, _ = cut_in_small_steps(monkeypatch)
    assert ask(stepwise_log) == ask(cut_log)
    assert len(cut_log.producers.open_producers()) > 1
    assert tuple(stepwise_log.producers.snapshots.all_snapshots()) == tuple(
        cut_log.producers.snapshots.all_snapshots()
    )


def test_small_steps_end_where_the_log_is_cut_again_or_emptied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stepwise_log, steps = cut_in_small_steps(monkeypatch)
    stepwise_log.truncate_to(5, now_ms=NOW)
    assert next(steps, None) is None
    cut_log = small_log().log
    cut_log.truncate_to(5, now_ms=NOW)
    assert stepwise_log.snapshot() == cut_log.snapshot()
    stepwise_log, steps = cut_in_small_steps(monkeypatch)
    stepwise_log.restart_at(7, now_ms=NOW)
    assert next(steps, None) is None
    assert stepwise_log.producers.all_producers() == ()


# What a partition remembers of its producers, and how batches and markers change it.


def data(
    partition_producers: PartitionProducers,
    offset: int,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    last_sequence: int = 0,
    count: int = 1,
    timestamp: int = 100,
    is_transactional: bool = True,
) -> None:
    partition_producers.apply(
        ReplicatedBatch(
            batch_bytes=b"",
            base_offset=offset,
            last_offset=offset + count - 1,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_sequence=last_sequence,
            timestamp_ms=timestamp,
            is_transactional=is_transactional,
            is_control=False,
        )
    )


def marker(
    partition_producers: PartitionProducers,
    offset: int,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    committed: bool = False,
    timestamp: int = 200,
) -> tuple[int, int, int] | None:
    aborted = partition_producers.apply_marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        is_commit=committed,
        marker_offset=offset,
        timestamp=timestamp,
    )
    if aborted is None:
        return None
    assert aborted.producer_id == producer_id
    assert not committed
    return aborted.first_offset, aborted.last_offset, aborted.last_stable_offset


@pytest.mark.parametrize(
    ("sequence", "delta", "expected_sequence"),
    [(0, 5, 5), (SEQUENCE_MAX, 1, 0), (SEQUENCE_MAX - 1, 3, 1), (-1, 1, 0)],
)
def test_sequences_wrap(sequence: int, delta: int, expected_sequence: int) -> None:
    assert sequence_after(sequence, delta) == expected_sequence


@pytest.mark.parametrize(
    ("last_sequence", "delta", "first_sequence"),
    [(5, 5, 0), (0, 1, SEQUENCE_MAX), (1, 3, SEQUENCE_MAX - 1), (-1, 0, -1), (-1, 3, -1)],
)
def test_first_sequence_is_derived_from_the_last(
    last_sequence: int, delta: int, first_sequence: int
) -> None:
    batch = BatchMetadata(
        last_sequence=last_sequence, last_offset=20, offset_delta=delta, timestamp=0
    )
    assert batch.first_sequence == first_sequence
    assert batch.first_offset == 20 - delta


def test_only_the_last_five_batches_are_kept() -> None:
    partition_producers = PartitionProducers()
    for offset in range(7):
        data(partition_producers, offset, last_sequence=offset)
    entry = partition_producers.find(7)
    assert entry is not None
    assert [batch.last_sequence for batch in entry.batches] == [2, 3, 4, 5, 6]
    assert entry.last_sequence == 6
    assert entry.find_batch(1, 1) is None
    assert entry.find_batch(2, 2) is not None
    assert entry.find_batch(1, 2) is None
    assert entry.find_batch(2, 3) is None


def test_a_new_epoch_clears_the_batches_and_keeps_the_open_transaction() -> None:
    partition_producers = PartitionProducers()
    data(partition_producers, 0)
    data(partition_producers, 1, epoch=1)
    entry = partition_producers.find(7)
    assert entry is not None
    assert len(entry.batches) == 1
    assert (entry.producer_epoch, entry.txn_first_offset) == (1, 0)
    assert partition_producers.ongoing() == ((0, 7),)


def test_plain_batches_open_nothing() -> None:
    partition_producers = PartitionProducers()
    data(partition_producers, 0, is_transactional=False)
    assert partition_producers.first_unstable_offset() is None
    assert partition_producers.first_undecided_offset() is None
    assert partition_producers.oldest_transaction_timestamp() == -1


def test_a_marker_ends_the_transaction_and_names_the_next_open_one() -> None:
    partition_producers = PartitionProducers()
    data(partition_producers, 0, producer_id=1)
    data(partition_producers, 1, producer_id=2)
    assert marker(partition_producers, 2, producer_id=1) == (0, 2, 1)
    assert marker(partition_producers, 3, producer_id=2) == (1, 3, 4)
    assert partition_producers.ongoing() == ()
    assert partition_producers.unreplicated_txns() == ((0, 2), (1, 3))


def test_of_a_committed_transaction_the_index_hears_nothing() -> None:
    partition_producers = PartitionProducers()
    data(partition_producers, 0)
    assert marker(partition_producers, 1, committed=True) is None
    assert partition_producers.ongoing() == ()
    assert partition_producers.unreplicated_txns() == ((0, 1),)


def test_a_marker_without_a_transaction_leaves_its_epochs() -> None:
    partition_producers = PartitionProducers()
    assert marker(partition_producers, 0, epoch=2, coordinator_epoch=5) is None
    entry = partition_producers.find(7)
    assert entry is not None
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp) == (2, 5, 200)
    assert entry.last_sequence == -1


def test_a_marker_is_in_the_next_snapshot() -> None:
    partition_producers = PartitionProducers()
    data(partition_producers, 0)
    (snapshot_before,) = partition_producers.to_snapshot()
    marker(partition_producers, 1, epoch=2, coordinator_epoch=5)
    (snapshot_entry,) = partition_producers.to_snapshot()
    assert snapshot_before.producer_epoch == 0
    assert (snapshot_entry.producer_epoch, snapshot_entry.coordinator_epoch) == (2, 5)
    assert (snapshot_entry.timestamp, snapshot_entry.txn_first_offset) == (200, -1)


@pytest.mark.parametrize(("epoch", "batch_count"), [(0, 1), (1, 0)])
def test_a_marker_clears_the_batches_only_if_it_bumps_the_epoch(
    epoch: int, batch_count: int
) -> None:
    partition_producers = PartitionProducers()
    data(partition_producers, 0)
    marker(partition_producers, 1, epoch=epoch)
    entry = partition_producers.find(7)
    assert entry is not None
    assert len(entry.batches) == batch_count


def test_ended_transactions_hold_back_until_their_marker_is_released() -> None:
    partition_producers = PartitionProducers()
    data(partition_producers, 0, producer_id=1)
    data(partition_producers, 1, producer_id=2)
    data(partition_producers, 2, producer_id=3)
    marker(partition_producers, 3, producer_id=2)
    marker(partition_producers, 4, producer_id=1)
    assert partition_producers.first_unstable_offset() == 0
    assert partition_producers.first_undecided_offset() == 2
    partition_producers.release_below(4)  # the marker at 3 is replicated, the one at 4 is not
    assert partition_producers.unreplicated_txns() == ((0, 4),)
    assert partition_producers.first_unstable_offset() == 0
    partition_producers.release_below(5)
    assert partition_producers.first_unstable_offset() == 2
    marker(partition_producers, 5, producer_id=3)
    assert partition_producers.first_unstable_offset() == 2
    partition_producers.release_below(6)
    assert partition_producers.first_unstable_offset() is None


def test_the_oldest_transaction_is_aged_by_its_producers_last_batch() -> None:
    partition_producers = PartitionProducers()
    data(partition_producers, 0, producer_id=1, timestamp=100)
    data(partition_producers, 1, producer_id=2, timestamp=50)
    assert partition_producers.oldest_transaction_timestamp() == 100
    data(partition_producers, 2, producer_id=1, timestamp=300, last_sequence=1)
    assert partition_producers.oldest_transaction_timestamp() == 300
    marker(partition_producers, 3, producer_id=1)
    assert partition_producers.oldest_transaction_timestamp() == 50


def test_expiry_spares_open_transactions_and_younger_producers() -> None:
    partition_producers = PartitionProducers()
    data(partition_producers, 0, producer_id=1, timestamp=100, is_transactional=False)
    data(partition_producers, 1, producer_id=2, timestamp=101, is_transactional=False)
    data(partition_producers, 2, producer_id=3, timestamp=1)
    assert partition_producers.expire(now_ms=110, expiration_ms=10) == (1,)
    assert [entry.producer_id for entry in partition_producers.entries()] == [2, 3]


def test_before_kip_360_a_producer_goes_with_its_last_record() -> None:
    partition_producers = PartitionProducers()
    data(partition_producers, 0, producer_id=1)
    data(partition_producers, 1, producer_id=2)
    data(partition_producers, 2, producer_id=2)
    partition_producers.evict_below(2)
    assert [entry.producer_id for entry in partition_producers.entries()] == [2]
    assert partition_producers.ongoing() == ((1, 2),)
    marker(partition_producers, 3, producer_id=2, epoch=9)
    partition_producers.evict_below(0)
    assert not list(partition_producers.entries()), "a marker alone is no record"


def test_a_snapshot_keeps_the_last_batch_of_each_producer() -> None:
    partition_producers = PartitionProducers()
    for offset in range(3):
        data(partition_producers, offset, producer_id=1, is_transactional=False)
    data(partition_producers, 3, producer_id=3)
    data(partition_producers, 4, producer_id=2)
    marker(partition_producers, 5, producer_id=2, epoch=9)
    partition_producers.release_below(6)
    loaded_producers = PartitionProducers.of_snapshot(
        partition_producers.take_snapshot(), now_ms=0, expiration_ms=1
    )
    entry_by_producer = {
        image_entry.producer_id: image_entry for image_entry in loaded_producers.images()
    }
    lived = {image_entry.producer_id: image_entry for image_entry in partition_producers.images()}
    assert entry_by_producer[1].batches == lived[1].batches[-1:]
    assert entry_by_producer[2] == lived[2]
    assert entry_by_producer[2].batches == ()
    assert entry_by_producer[3] == lived[3]
    assert loaded_producers.ongoing() == ((3, 3),)
    assert loaded_producers.unreplicated_txns() == (), "what is loaded is taken as replicated"


def test_open_transactions_are_loaded_in_the_order_of_their_offsets() -> None:
    partition_producers = PartitionProducers()
    data(partition_producers, 0, producer_id=1, is_transactional=False)
    data(partition_producers, 1, producer_id=2)
    data(partition_producers, 2, producer_id=1)
    assert partition_producers.to_snapshot()[0].producer_id == 1
    loaded_producers = PartitionProducers.of_snapshot(
        partition_producers.take_snapshot(), now_ms=0, expiration_ms=1
    )
    assert loaded_producers.ongoing() == ((1, 2), (2, 1))


def test_a_load_leaves_out_who_has_expired() -> None:
    partition_producers = PartitionProducers()
    data(partition_producers, 0, producer_id=1, is_transactional=False)
    data(partition_producers, 1, producer_id=2)
    (entry, _) = partition_producers.to_snapshot()
    due_ms = entry.timestamp + 10
    assert len(_load_state(partition_producers, due_ms - 1).images()) == 2
    assert [
        producer.producer_id for producer in _load_state(partition_producers, due_ms).images()
    ] == [2]


def _load_state(partition_producers: PartitionProducers, now_ms: int) -> PartitionProducers:
    return PartitionProducers.of_snapshot(
        partition_producers.take_snapshot(), now_ms=now_ms, expiration_ms=10
    )


def test_an_emptied_marker_leaves_a_producer_without_an_epoch() -> None:
    """Compaction took its record. A replica that applies it knows the producer, and no epoch."""
    partition_producers = PartitionProducers()
    data(partition_producers, 0, producer_id=8, epoch=3, is_transactional=False)
    for offset, producer_id in ((1, 7), (2, 8)):
        emptied_batch = ReplicatedBatch(
            batch_bytes=b"",
            base_offset=offset,
            last_offset=offset,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=5,
            last_sequence=-1,
            timestamp_ms=100,
            is_transactional=True,
            is_control=True,
        )
        assert partition_producers.apply(emptied_batch) is None
    assert partition_producers.find(7) == ProducerEntry(7)
    entry = partition_producers.find(8)
    assert entry is not None
    assert (entry.producer_epoch, len(entry.batches)) == (3, 1)
