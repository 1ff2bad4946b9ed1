"""One partition's log: reads, bounds, leadership, replication, truncation, deletion."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.support.logs import (
    ALL,
    COMMITTED,
    NOW,
    PARTITION,
    PID,
    UNCOMMITTED,
    LogDriver,
    batch,
    config_of,
    consume,
    follow,
    make_log,
    plain,
    replayed_log,
)
from tests.support.markers import append_marker
from txnsim.errors import InvariantViolation, Rejection
from txnsim.log.answers import Appended, EpochEndOffset, LogRead
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_client
from txnsim.log.local_log import TAIL_BATCHES_MAX
from txnsim.log.partition_log import PartitionLog
from txnsim.log.unpacking import run_steps
from txnsim.log.verification import SENTINEL
from txnsim.releases.rules import LATEST_RULES
from txnsim.types import IsolationLevel
from txnsim.wire.batch import assign, control_batch, read_batch_header

TIMEOUT_MAX = 900_000


def read_log(
    driver: LogDriver,
    offset: int,
    *,
    max_bytes: int = ALL,
    isolation: IsolationLevel = UNCOMMITTED,
    min_one_batch: bool = True,
    reads_to_log_end: bool = False,
) -> LogRead:
    answer = driver.log.read(
        offset,
        max_bytes=max_bytes,
        isolation=isolation,
        reads_one_batch_at_least=min_one_batch,
        reads_to_log_end=reads_to_log_end,
    )
    assert isinstance(answer, LogRead)
    assert answer.size == sum(map(len, answer.records))
    return answer


def bases(log_read: LogRead) -> list[int]:
    return [read_batch_header(record_data).base_offset for record_data in log_read.records]


@pytest.fixture
def three() -> LogDriver:
    """A log with batches of two records at 0, 2 and 4; the last batch is not replicated."""
    driver = LogDriver(follows=False)
    for _ in range(3):
        driver.append(plain(2))
    driver.log.advance_high_watermark(4)
    return driver


SIZE = len(plain(2))


@pytest.mark.parametrize(
    ("offset", "expected_bases"), [(0, [0, 2]), (1, [0, 2]), (2, [2]), (3, [2]), (4, []), (6, [])]
)
def test_a_read_gives_whole_batches_below_the_high_watermark(
    three: LogDriver, offset: int, expected_bases: list[int]
) -> None:
    log_read = read_log(three, offset)
    assert bases(log_read) == expected_bases
    assert (log_read.high_watermark, log_read.last_stable_offset, log_read.log_start_offset) == (
        4,
        4,
        0,
    )
    assert log_read.aborted is None


def test_a_follower_reads_up_to_the_log_end(three: LogDriver) -> None:
    log_read = read_log(three, 2, reads_to_log_end=True, isolation=COMMITTED)
    assert bases(log_read) == [2, 4]
    assert log_read.aborted is None


@pytest.mark.parametrize("offset", [-1, 7])
def test_a_read_outside_of_the_log_is_refused(three: LogDriver, offset: int) -> None:
    answer = three.log.read(offset, max_bytes=ALL)
    assert isinstance(answer, Rejection)
    assert answer.error == 1


@pytest.mark.parametrize(
    ("max_bytes", "min_one_batch", "expected_bases"),
    [
        (SIZE, False, [0]),
        (SIZE - 1, False, []),
        (SIZE - 1, True, [0]),
        (0, True, [0]),
        (-5, True, [0]),
        (-5, False, []),
        (2 * SIZE - 1, True, [0]),
        (2 * SIZE, True, [0, 2]),
    ],
)
def test_a_read_takes_what_fits_and_the_first_batch_if_it_must(
    three: LogDriver, max_bytes: int, min_one_batch: bool, expected_bases: list[int]
) -> None:
    assert (
        bases(read_log(three, 0, max_bytes=max_bytes, min_one_batch=min_one_batch))
        == expected_bases
    )


def test_a_read_copies_nothing(three: LogDriver) -> None:
    first_batch, *_ = three.log.batches()
    assert read_log(three, 0).records[0] is first_batch


def test_a_read_below_the_log_start_is_refused_and_above_begins_inside_a_batch(
    three: LogDriver,
) -> None:
    three.log.delete_records_before(3)
    assert isinstance(three.log.read(2, max_bytes=ALL), Rejection)
    assert bases(read_log(three, 3)) == [2]
    assert three.log.log_start_offset == 3


def test_an_open_transaction_starves_read_committed() -> None:
    driver = LogDriver()
    driver.append(plain(10))
    driver.txn(0, count=10)
    log_read = read_log(driver, 10, isolation=COMMITTED)
    assert (log_read.records, log_read.aborted) == ((), ())
    assert (log_read.high_watermark, log_read.last_stable_offset) == (20, 10)
    assert bases(read_log(driver, 0, isolation=COMMITTED)) == [0]
    assert driver.log.producers.state.oldest_transaction_timestamp() == NOW


def aborted_entries(
    driver: LogDriver, offset: int, *, max_bytes: int = ALL
) -> list[tuple[int, int]]:
    log_read = read_log(driver, offset, isolation=COMMITTED, max_bytes=max_bytes)
    assert log_read.aborted is not None
    return [(aborted_txn.producer_id, aborted_txn.first_offset) for aborted_txn in log_read.aborted]


def test_an_aborted_transaction_is_listed_with_what_is_read() -> None:
    driver = LogDriver()
    driver.txn(0, producer_id=1, count=2, record_value=b"a")
    driver.txn(0, producer_id=2, count=3, record_value=b"b")
    driver.end(committed=False, producer_id=2)
    assert aborted_entries(driver, 0) == []  # nothing can be read yet
    driver.end(committed=True, producer_id=1)
    assert aborted_entries(driver, 0) == [(2, 2)]
    assert consume(driver.log, 0) == [b"a", b"a"]
    assert aborted_entries(driver, driver.log.log_end_offset) == []


def test_aborted_transactions_are_listed_as_far_as_a_sparse_index_can_tell() -> None:
    driver = LogDriver()
    driver.append(plain())
    driver.txn(0, producer_id=1)
    driver.end(committed=False, producer_id=1)
    # No batch is indexed yet: up to the log end, however little is read (LocalLog).
    assert aborted_entries(driver, 0, max_bytes=1) == aborted_entries(driver, 0) == [(1, 1)]
    driver.append(plain(record_value=b"x" * 5_000))
    driver.append(plain())  # indexed, for more than 4 KiB lie before it
    driver.txn(0, producer_id=2)
    driver.end(committed=False, producer_id=2)
    assert aborted_entries(driver, 0, max_bytes=1) == [(1, 1)]
    assert aborted_entries(driver, 0) == [(1, 1), (2, 5)]


def test_a_read_of_nothing_lists_what_may_lie_behind_it() -> None:
    driver = LogDriver()
    driver.append(plain())
    driver.txn(0, producer_id=1)
    driver.end(committed=False, producer_id=1)
    answer = driver.log.read(0, max_bytes=0, isolation=COMMITTED, reads_one_batch_at_least=False)
    assert not isinstance(answer, Rejection)
    assert answer.records == ()
    assert answer.aborted is not None
    assert len(answer.aborted) == 1


def test_a_transaction_that_began_below_the_log_start_is_still_listed() -> None:
    driver = LogDriver()
    driver.txn(0)
    driver.append(plain())
    driver.txn(1)
    driver.end(committed=False)
    driver.log.delete_records_before(2)
    log_read = read_log(driver, 2, isolation=COMMITTED)
    assert log_read.aborted is not None
    assert [aborted_txn.first_offset for aborted_txn in log_read.aborted] == [0]


@pytest.mark.parametrize(
    ("offset", "uncommitted", "log_end_offset"),
    [(0, 2, 3), (1, 2, 3), (2, 1, 2), (4, 0, 1), (6, 0, 0), (7, 0, 0), (-1, 0, 0)],
)
def test_readable_bytes(
    three: LogDriver, offset: int, uncommitted: int, log_end_offset: int
) -> None:
    log = three.log
    assert log.readable_bytes(offset, UNCOMMITTED) == uncommitted * SIZE
    assert log.readable_bytes(offset, UNCOMMITTED, reads_to_log_end=True) == log_end_offset * SIZE


def test_readable_bytes_of_read_committed_move_with_the_stable_offset() -> None:
    driver = LogDriver()
    driver.txn(0)
    assert driver.log.readable_bytes(0, COMMITTED) == 0
    driver.end(committed=True)
    assert driver.log.readable_bytes(0, COMMITTED) == driver.log.local.segments.size_bytes


def test_a_bound_inside_a_batch_hides_the_batch(three: LogDriver) -> None:
    three.log.advance_high_watermark(5)
    assert bases(read_log(three, 4)) == []
    assert three.log.readable_bytes(4, UNCOMMITTED) == 0


def test_latest(three: LogDriver) -> None:
    three.txn(0)
    three.log.advance_high_watermark(7)
    log = three.log
    assert log.latest_offset(UNCOMMITTED) == 7
    assert log.latest_offset(COMMITTED) == 6
    assert log.latest_offset(COMMITTED, reads_to_log_end=True) == 7


def test_timestamp_searches_stop_at_the_readers_bound() -> None:
    driver = LogDriver()
    driver.append(plain(timestamp=10))
    driver.log.become_leader(2)
    driver.txn(0, timestamp=20)
    log = driver.log
    offset_by_time = run_steps(log.offset_for_timestamp(11, UNCOMMITTED))
    assert offset_by_time is not None
    assert (offset_by_time.timestamp_ms, offset_by_time.offset, offset_by_time.leader_epoch) == (
        20,
        1,
        2,
    )
    assert run_steps(log.offset_for_timestamp(11, COMMITTED)) is None
    assert run_steps(log.offset_for_timestamp(21, UNCOMMITTED)) is None
    newest_offset = run_steps(log.offset_of_max_timestamp(UNCOMMITTED))
    assert newest_offset is not None
    assert (newest_offset.timestamp_ms, newest_offset.offset) == (20, 1)
    assert run_steps(log.offset_of_max_timestamp(COMMITTED)) is None
    assert run_steps(log.offset_of_max_timestamp(COMMITTED, reads_to_log_end=True)) == newest_offset
    assert run_steps(make_log().offset_of_max_timestamp(UNCOMMITTED)) is None


def test_the_greatest_time_is_found_below_the_start_with_the_epoch_of_its_batch() -> None:
    driver = LogDriver()
    driver.append(plain(timestamp=30))
    driver.log.become_leader(2)
    driver.append(plain(timestamp=20))
    log = driver.log
    log.advance_high_watermark(2)
    assert log.delete_records_before(1) == 1
    newest_offset = run_steps(log.offset_of_max_timestamp(UNCOMMITTED))
    assert newest_offset is not None
    assert (newest_offset.timestamp_ms, newest_offset.offset, newest_offset.leader_epoch) == (
        30,
        0,
        0,
    )
    assert log.epochs.epoch_of(0) == -1


def test_the_end_of_an_epoch() -> None:
    driver = LogDriver()
    driver.append(plain(2))
    driver.log.become_leader(3)
    driver.append(plain())
    log = driver.log
    assert log.end_offset_for_epoch(0) == EpochEndOffset(leader_epoch=0, end_offset=2)
    assert log.end_offset_for_epoch(3) == EpochEndOffset(leader_epoch=3, end_offset=3)
    assert log.end_offset_for_epoch(4) == EpochEndOffset(leader_epoch=-1, end_offset=-1)
    assert (log.epochs.epoch_of(1), log.epochs.epoch_of(2)) == (0, 3)


@pytest.mark.parametrize(("age", "is_late"), [(1_200_000, False), (1_200_001, True)])
def test_a_transaction_is_late_five_minutes_after_the_longest_timeout(
    age: int, is_late: bool
) -> None:
    driver = LogDriver()
    assert not driver.log.has_late_transaction(NOW, TIMEOUT_MAX)
    driver.txn(0)
    assert driver.log.has_late_transaction(NOW + age, TIMEOUT_MAX) is is_late


def test_a_transaction_stamped_with_nothing_is_never_late() -> None:
    """UnifiedLog.hasLateTransaction asks for a timestamp above 0: a client's stamps decide."""
    driver = LogDriver()
    driver.txn(0, timestamp=-1)
    assert not driver.log.has_late_transaction(NOW, TIMEOUT_MAX)


def test_batches_can_be_walked_from_an_offset(three: LogDriver) -> None:
    starts = [read_batch_header(batch_data).base_offset for batch_data in three.log.batches(3)]
    assert starts == [2, 4]
    assert list(three.log.batches(6)) == []


def test_the_time_of_an_offset_is_that_of_its_batch() -> None:
    driver = LogDriver()
    for timestamp in (NOW - 9, NOW - 5, NOW - 1):
        driver.append(plain(2, timestamp=timestamp))
    driver.log.delete_records_before(2)
    times = [driver.log.batch_timestamp_at(offset) for offset in range(7)]
    assert times == [None, None, NOW - 5, NOW - 5, NOW - 1, NOW - 1, None]


def test_the_time_of_an_offset_copies_no_list_of_batches() -> None:
    """It copied all behind the offset: with 100,000 open transactions a verdict took 10 s."""
    log = LogDriver(follows=False).log
    for _ in range(2_000):
        append_client(log, plain(1, timestamp=NOW), guard=0, now_ms=NOW)
    tracemalloc.start()
    try:
        assert log.batch_timestamp_at(0) == NOW
        assert tracemalloc.get_traced_memory()[1] < 2_000
    finally:
        tracemalloc.stop()


def test_who_trusts_an_older_look_reads_what_is_open_by_now() -> None:
    """Before KAFKA-9807 a Fetch compared with one high watermark and answered with the next."""
    driver = LogDriver(follows=False)
    driver.txn(0)
    assert driver.log.is_all_stable  # nothing of it is replicated
    driver.log.advance_high_watermark(driver.log.log_end_offset)
    assert not driver.log.is_all_stable
    trusting = driver.log.read(0, max_bytes=ALL, isolation=COMMITTED, is_all_stable=True)
    assert isinstance(trusting, LogRead)
    assert (trusting.last_stable_offset, bases(trusting), trusting.aborted) == (1, [0], ())
    second_read = read_log(driver, 0, isolation=COMMITTED)
    assert (second_read.last_stable_offset, bases(second_read)) == (0, [])


# Bounds


def test_the_stable_offset_waits_for_the_marker_to_be_replicated() -> None:
    driver = LogDriver(follows=False)
    log = driver.log
    driver.append(plain(10))
    driver.txn(0, count=10)
    assert log.advance_high_watermark(20)
    assert (log.last_stable_offset, log.producers.state.first_undecided_offset()) == (10, 10)
    driver.end(committed=True)
    assert (log.last_stable_offset, log.producers.state.first_undecided_offset()) == (10, None)
    assert log.advance_high_watermark(21)
    assert log.last_stable_offset == 21
    log.check_invariants()


def test_the_high_watermark_neither_falls_nor_passes_the_end(driver: LogDriver) -> None:
    driver.append(plain(3))
    assert not driver.log.advance_high_watermark(2)
    assert not driver.log.advance_high_watermark(99)
    assert driver.log.high_watermark == 3


def test_an_aborted_transaction_is_indexed_with_what_still_holds_it_back(driver: LogDriver) -> None:
    driver.append(plain(10))
    driver.txn(0, producer_id=1, count=2)
    driver.txn(0, producer_id=2, count=3)
    driver.end(committed=False, producer_id=2)
    assert driver.log.last_stable_offset == 10
    (aborted_txn,) = driver.log.snapshot().aborted
    assert (aborted_txn.producer_id, aborted_txn.first_offset) == (2, 12)
    assert (aborted_txn.last_offset, aborted_txn.last_stable_offset) == (15, 10)
    driver.end(committed=True, producer_id=1)
    assert driver.log.last_stable_offset == 17


def test_a_committed_transaction_is_not_indexed(driver: LogDriver) -> None:
    driver.txn(0)
    driver.end(committed=True)
    assert driver.log.snapshot().aborted == ()


# Leadership


def test_a_replica_that_leads_again_keeps_its_guards_and_open_transactions(
    driver: LogDriver,
) -> None:
    """A real 4.4.0 takes the batch, too (seed 16310 of ``txnsim simulate``)."""
    driver.txn(0, producer_id=1)
    guard = driver.guard(producer_id=2)
    driver.log.become_follower(2)
    driver.log.become_leader(3)
    assert driver.append(batch(0, producer_id=2, is_transactional=True), guard=guard) == 0
    assert driver.guard(1, producer_id=1) == SENTINEL
    assert driver.txn(1, producer_id=1) == 0
    assert driver.log.leader_epoch == 3
    assert driver.log.leader_epoch_start_offset == 1
    assert [read_batch_header(batch_data).leader_epoch for batch_data in driver.log.batches()] == [
        0,
        3,
        3,
    ]
    assert driver.log.snapshot().leader_epochs == ((0, 0), (3, 1))


def test_the_same_epoch_again_moves_nothing_and_a_lower_one_is_a_bug(driver: LogDriver) -> None:
    driver.log.become_leader(2)
    driver.append(plain())
    driver.log.become_leader(2)
    assert driver.log.leader_epoch_start_offset == 0
    with pytest.raises(InvariantViolation, match="leader epoch 1 after 2"):
        driver.log.become_leader(1)


# Replication and truncation


def replicate(driver: LogDriver, *, high_watermark: int | None = None) -> PartitionLog:
    follower_log = make_log()
    for batch_data in driver.log.batches():
        follow(follower_log, batch_data)
        follower_log.check_invariants()
    follower_log.advance_high_watermark(
        driver.log.high_watermark if high_watermark is None else high_watermark
    )
    return follower_log


def busy() -> LogDriver:
    """A log with committed, aborted and open transactions of two leader epochs."""
    driver = LogDriver()
    driver.txn(0, producer_id=1, count=2)
    driver.txn(0, producer_id=2)
    driver.end(committed=True, producer_id=1)
    driver.log.become_leader(4)
    driver.txn(2, producer_id=1)
    driver.end(committed=False, producer_id=2, epoch=1, transaction_version=2)
    driver.data(0, producer_id=3, count=3)
    driver.txn(0, producer_id=2, epoch=1, is_tv2=True)
    return driver


def test_a_follower_has_its_leaders_state() -> None:
    driver = busy()
    follower = replicate(driver)
    assert follower.snapshot() == driver.log.snapshot()
    follower_log = replicate(driver, high_watermark=0)
    assert follower_log.last_stable_offset == 0
    assert follower_log.snapshot().ongoing == driver.log.snapshot().ongoing
    assert follower_log.snapshot().aborted == driver.log.snapshot().aborted


def test_a_replayed_log_is_the_one_that_lived() -> None:
    driver = busy()
    reread_log = replayed_log(
        driver.log.batches(),
        topic_partition=PARTITION,
        config=driver.log.config,
        leader_epoch=driver.log.leader_epoch,
    )
    reread_log.check_invariants()
    assert reread_log.snapshot() == driver.log.snapshot()
    assert tuple(reread_log.batches()) == tuple(driver.log.batches())


def test_nothing_replayed_is_an_empty_log() -> None:
    log = replayed_log(
        [], topic_partition=PARTITION, config=config_of(), leader_epoch=2, high_watermark=0
    )
    assert log.snapshot() == make_log(leader_epoch=2).snapshot()


def test_what_a_leader_wrote_is_believed_whatever_the_rules_say() -> None:
    log = make_log()
    follow(log, assign(batch(7, epoch=5), base_offset=0, leader_epoch=0))
    follow(log, assign(batch(3, epoch=4), base_offset=1, leader_epoch=0))
    follow(
        log,
        control_batch(
            producer_id=PID,
            producer_epoch=1,
            is_commit=True,
            coordinator_epoch=-1,
            base_offset=2,
            leader_epoch=0,
            timestamp_ms=NOW,
        ),
    )
    assert log.producers.all_producers()[0].producer_epoch == 1


def test_a_replicated_batch_below_the_end_is_a_bug() -> None:
    log = make_log()
    follow(log, assign(plain(2), base_offset=0, leader_epoch=0))
    with pytest.raises(InvariantViolation, match="below the log end 2"):
        follow(log, assign(plain(), base_offset=1, leader_epoch=0))


@pytest.mark.parametrize("offset", range(12))
def test_truncation_gives_the_log_that_never_went_further(offset: int) -> None:
    driver = busy()
    log = driver.log
    remaining_batches = [
        batch_data
        for batch_data in log.batches()
        if read_batch_header(batch_data).last_offset < offset
    ]
    log.truncate_to(offset, now_ms=NOW)
    log.check_invariants()
    state = log.snapshot()
    assert state.log_end_offset == min(offset, 10)
    expected_log = make_log()
    for data in remaining_batches:
        follow(expected_log, data)
    expected_log.advance_high_watermark(state.high_watermark)
    model_state = expected_log.snapshot()
    assert (state.producers, state.ongoing) == (model_state.producers, model_state.ongoing)
    assert state.aborted == model_state.aborted
    assert tuple(log.batches()) == tuple(remaining_batches)


def test_truncation_keeps_the_watermark_of_what_is_left_and_appends_go_on(
    driver: LogDriver,
) -> None:
    driver.txn(0)
    driver.end(committed=True)
    driver.log.truncate_to(1, now_ms=NOW)
    assert driver.log.high_watermark == 1
    assert driver.log.last_stable_offset == 0
    assert driver.txn(1) == 0
    assert driver.end(committed=False) == 0


def test_truncation_below_all_that_is_stored_starts_over() -> None:
    driver = LogDriver(config_of(roll_bytes=1))
    driver.data(0, count=2)
    driver.data(2, count=2)
    driver.log.delete_records_before(2)
    driver.log.delete_old_segments(NOW)
    driver.log.truncate_to(1, now_ms=NOW)
    state = driver.log.snapshot()
    assert (state.log_start_offset, state.high_watermark, state.log_end_offset) == (1, 1, 1)
    assert state.producers == ()


def test_starting_over_keeps_only_guards(driver: LogDriver) -> None:
    driver.txn(0, producer_id=1)
    guard = driver.guard(producer_id=2)
    driver.log.restart_at(50, now_ms=NOW)
    driver.log.check_invariants()
    assert driver.append(batch(0, producer_id=2, is_transactional=True), guard=guard) == 0
    state = driver.log.snapshot()
    assert (state.log_start_offset, state.log_end_offset) == (50, 51)
    assert state.leader_epochs == ((0, 50),)


# Deletion and expiry


def test_deletion_keeps_producers_and_open_transactions(driver: LogDriver) -> None:
    driver.txn(0, count=2)
    driver.append(plain(3))
    assert driver.log.delete_records_before(4) == 4
    driver.log.check_invariants()
    assert driver.log.snapshot().ongoing == ((0, PID),)
    # DeleteRecords landed inside a batch above an open transaction: that batch's base offset.
    assert (driver.log.log_start_offset, driver.log.last_stable_offset) == (4, 2)
    assert driver.log.latest_offset(COMMITTED) == 2
    driver.log.delete_records_before(-1)
    assert (driver.log.log_start_offset, driver.log.last_stable_offset) == (5, 5)
    driver.log.check_invariants()
    assert driver.end(committed=False) == 0
    assert driver.log.last_stable_offset == 6


@pytest.mark.parametrize(("offset", "answer"), [(0, 0), (2, 2), (3, 3), (-1, 3)])
def test_deletion_answers_the_log_start(offset: int, answer: int) -> None:
    driver = LogDriver(follows=False)
    driver.append(plain(5))
    driver.log.advance_high_watermark(3)
    assert driver.log.delete_records_before(offset) == answer
    assert driver.log.delete_records_before(1) == max(answer, 1)


@pytest.mark.parametrize("offset", [-2, 4])
def test_deletion_above_the_high_watermark_is_out_of_range(offset: int) -> None:
    driver = LogDriver(follows=False)
    driver.append(plain(5))
    driver.log.advance_high_watermark(3)
    answer = driver.log.delete_records_before(offset)
    assert isinstance(answer, Rejection)
    assert answer.error == 1


def test_what_lies_below_the_log_start_is_stored_until_its_segment_goes(driver: LogDriver) -> None:
    driver.append(plain(4))
    size_bytes = driver.log.local.segments.size_bytes
    driver.log.delete_records_before(3)
    assert driver.log.delete_old_segments(NOW) == 0
    assert driver.log.local.segments.size_bytes == size_bytes


def test_where_replicas_share_a_log_everything_is_replicated_at_once() -> None:
    driver = LogDriver()
    append_marker(
        driver.log,
        producer_id=7,
        producer_epoch=0,
        committed=True,
        coordinator_epoch=0,
        transaction_version=0,
        now_ms=1,
    )
    driver.log.advance_high_watermark(driver.log.log_end_offset)
    assert driver.log.high_watermark == driver.log.log_end_offset == 1
    driver.log.advance_high_watermark(driver.log.log_end_offset)
    assert driver.log.high_watermark == 1


def leader(batch_count: int = 4) -> LogDriver:
    driver = LogDriver()
    driver.log.local.keep_tail()
    for _ in range(batch_count):
        driver.append(plain(2))
    return driver


def test_who_becomes_a_follower_keeps_nothing_for_followers_of_its_own() -> None:
    driver = leader()
    assert driver.log.local.tail
    driver.log.become_follower(5)
    assert driver.log.local.tail is None


def bases_for_follower(log: PartitionLog, offset: int, max_bytes: int = 1 << 20) -> list[int]:
    return [
        replicated_batch.base_offset
        for replicated_batch in log.local.batches_for_follower(
            offset, max_bytes=max_bytes, max_batches=100
        )
    ]


def follower_of(driver: LogDriver, *, up_to: int | None = None) -> PartitionLog:
    log = make_log()
    for replicated_batch in driver.log.local.batches_for_follower(
        0, max_bytes=1 << 20, max_batches=100
    ):
        if up_to is None or replicated_batch.base_offset < up_to:
            log.append(replicated_batch, now_ms=NOW)
    return log


# What the leader hands on


def test_a_follower_gets_what_lies_behind_its_end_and_within_its_limit() -> None:
    log = leader().log
    size_bytes = len(next(iter(log.batches())))
    assert bases_for_follower(log, 6) == [6]
    assert bases_for_follower(log, 2) == [2, 4, 6]
    assert bases_for_follower(log, 8) == []
    assert bases_for_follower(log, 2, max_bytes=2 * size_bytes) == [2, 4]
    assert bases_for_follower(log, 2, max_bytes=1) == [2], "one batch always fits"
    assert bases_for_follower(log, 3) == [2, 4, 6], "whole batches"


def test_older_batches_are_read_from_the_store() -> None:
    driver = leader(TAIL_BATCHES_MAX + 2)
    log, size_bytes = driver.log, len(plain(2))
    assert bases_for_follower(log, 2)[:2] == [2, 4]
    assert len(bases_for_follower(log, 0)) == TAIL_BATCHES_MAX + 2
    assert bases_for_follower(log, 0, max_bytes=1) == [0]
    assert bases_for_follower(log, 0, max_bytes=2 * size_bytes) == [0, 2]


def test_a_log_without_followers_keeps_no_tail() -> None:
    driver = LogDriver()
    driver.append(plain())
    assert bases_for_follower(driver.log, 0) == [0]
    driver.log.local.keep_tail()
    driver.append(plain())
    driver.log.local.keep_tail()
    assert bases_for_follower(driver.log, 1) == [1]
    assert bases_for_follower(driver.log, 0) == [0, 1]


# High watermark


def test_a_follower_believes_its_leader_as_far_as_its_own_log_reaches() -> None:
    log = follower_of(leader(), up_to=6)
    assert log.follow_high_watermark(8)
    assert log.high_watermark == 6
    assert not log.follow_high_watermark(7)
    assert log.follow_high_watermark(2), "a new leader may know less"
    assert log.high_watermark == 2


def test_a_follower_lets_ended_transactions_go_when_its_watermark_passes_their_markers() -> None:
    driver = LogDriver()
    driver.log.local.keep_tail()
    driver.txn(0)
    driver.end(committed=False)
    log = follower_of(driver)
    ended_transactions = log.producers.state.ended
    assert ended_transactions
    log.follow_high_watermark(1)
    assert ended_transactions, "the marker at 1 is not below it"
    log.follow_high_watermark(2)
    assert not ended_transactions


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
    """A log whose batches have these numbers of records, each in a segment of its own."""
    log = make_log(LogConfig(rules=LATEST_RULES, roll_bytes=1, retention_ms=-1))
    for count in counts:
        assert isinstance(append_client(log, plain(count), guard=0, now_ms=NOW), Appended)
    log.advance_high_watermark(log.log_end_offset)
    return log


def test_a_follower_keeps_the_epochs_of_its_log_and_takes_the_leaders_for_its_own() -> None:
    log = follower_of(leader())
    log.become_follower(3)
    assert (log.leader_epoch, log.epochs.latest) == (3, 0)
    log.become_leader(3)
    assert log.epochs.latest == 3


def test_a_restart_knows_only_the_checkpoint() -> None:
    log = follower_of(leader())
    log.follow_high_watermark(8)
    log.reopen(4, log_start_offset=log.log_start_offset, now_ms=NOW)
    assert log.high_watermark == 4
    log.reopen(100, log_start_offset=log.log_start_offset, now_ms=NOW)
    assert log.high_watermark == 8


@pytest.mark.parametrize(
    ("noted_start", "start"),
    [
        pytest.param(0, 2, id="nothing: the first segment begins there"),
        pytest.param(1, 2, id="below the first segment"),
        pytest.param(3, 3, id="before the last deletion"),
        pytest.param(4, 4, id="all of it"),
    ],
)
def test_a_restart_knows_the_start_that_was_noted(noted_start: int, start: int) -> None:
    """Records that were deleted since are there again, if their segment is still there."""
    log = with_segments(2, 2, 2)
    log.delete_records_before(2)
    log.delete_old_segments(NOW)
    log.delete_records_before(4)
    log.reopen(6, log_start_offset=noted_start, now_ms=NOW)
    log.check_invariants()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (start, 6, 6)


def test_a_log_that_ends_below_the_start_that_was_noted_is_empty() -> None:
    log = with_segments(2)
    log.reopen(2, log_start_offset=5, now_ms=NOW)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (5, 5, 5)
    assert not tuple(log.batches())


def test_what_was_not_flushed_may_be_lost() -> None:
    driver = leader(2)
    assert driver.log.local.recovery_point == 0
    driver.log.local.flush()
    assert driver.log.local.recovery_point == 4
    driver.append(plain())
    driver.log.truncate_to(driver.log.local.recovery_point, now_ms=NOW)
    assert driver.log.log_end_offset == 4
    driver.log.truncate_to(2, now_ms=NOW)
    assert driver.log.local.recovery_point == 2
    driver.log.restart_at(9, now_ms=NOW)
    assert driver.log.local.recovery_point == 9
    assert bases_for_follower(driver.log, 9) == []


def test_an_epoch_that_wrote_nothing_is_cut_off_with_nothing_else() -> None:
    log = follower_of(leader(1))
    log.become_leader(3)
    end = log.log_end_offset
    assert log.epochs.latest == 3
    log.truncate_to(end, now_ms=NOW)
    assert (log.epochs.latest, log.log_end_offset) == (0, end)
