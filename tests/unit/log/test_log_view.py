"""Reads and other questions to a log."""

from __future__ import annotations

import pytest

from tests.support.logs import (
    ALL,
    COMMITTED,
    NOW,
    PID,
    UNCOMMITTED,
    LogDriver,
    consume,
    make_log,
    plain,
)
from txnsim.errors import Rejection
from txnsim.log.answers import EpochEndOffset, LogRead, ProducerSnapshot
from txnsim.types import IsolationLevel
from txnsim.wire.batch import read_batch_header

TIMEOUT_MAX = 900_000


def read(
    driver: LogDriver,
    offset: int,
    *,
    max_bytes: int = ALL,
    isolation: IsolationLevel = UNCOMMITTED,
    min_one_batch: bool = True,
    up_to_log_end: bool = False,
) -> LogRead:
    answer = driver.log.read(
        offset,
        max_bytes=max_bytes,
        isolation=isolation,
        min_one_batch=min_one_batch,
        up_to_log_end=up_to_log_end,
    )
    assert isinstance(answer, LogRead)
    assert answer.size == sum(map(len, answer.records))
    return answer


def bases(answer: LogRead) -> list[int]:
    return [read_batch_header(data).base_offset for data in answer.records]


@pytest.fixture
def three() -> LogDriver:
    """Batches at 0, 2 and 4 of two records each; the last is not replicated."""
    driver = LogDriver(follow=False)
    for _ in range(3):
        driver.append(plain(2))
    driver.log.advance_high_watermark(4)
    return driver


SIZE = len(plain(2))


@pytest.mark.parametrize(
    ("offset", "found"), [(0, [0, 2]), (1, [0, 2]), (2, [2]), (3, [2]), (4, []), (6, [])]
)
def test_a_read_gives_whole_batches_below_the_high_watermark(
    three: LogDriver, offset: int, found: list[int]
) -> None:
    answer = read(three, offset)
    assert bases(answer) == found
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (4, 4, 0)
    assert answer.aborted is None


def test_a_follower_reads_up_to_the_log_end(three: LogDriver) -> None:
    answer = read(three, 2, up_to_log_end=True, isolation=COMMITTED)
    assert bases(answer) == [2, 4]
    assert answer.aborted is None


@pytest.mark.parametrize("offset", [-1, 7])
def test_a_read_outside_of_the_log_is_refused(three: LogDriver, offset: int) -> None:
    answer = three.log.read(offset, max_bytes=ALL)
    assert isinstance(answer, Rejection)
    assert answer.error == 1


@pytest.mark.parametrize(
    ("max_bytes", "min_one_batch", "found"),
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
    three: LogDriver, max_bytes: int, min_one_batch: bool, found: list[int]
) -> None:
    assert bases(read(three, 0, max_bytes=max_bytes, min_one_batch=min_one_batch)) == found


def test_a_read_copies_nothing(three: LogDriver) -> None:
    first, *_ = three.log.batches()
    assert read(three, 0).records[0] is first


def test_a_read_below_the_log_start_is_refused_and_above_begins_inside_a_batch(
    three: LogDriver,
) -> None:
    three.log.delete_records_before(3)
    assert isinstance(three.log.read(2, max_bytes=ALL), Rejection)
    assert bases(read(three, 3)) == [2]
    assert three.log.earliest() == 3


def test_an_open_transaction_starves_read_committed() -> None:
    driver = LogDriver()
    driver.append(plain(10))
    driver.txn(0, count=10)
    answer = read(driver, 10, isolation=COMMITTED)
    assert (answer.records, answer.aborted) == ((), ())
    assert (answer.high_watermark, answer.last_stable_offset) == (20, 10)
    assert bases(read(driver, 0, isolation=COMMITTED)) == [0]
    assert driver.log.oldest_transaction_timestamp == NOW


def listed(driver: LogDriver, offset: int, *, max_bytes: int = ALL) -> list[tuple[int, int]]:
    answer = read(driver, offset, isolation=COMMITTED, max_bytes=max_bytes)
    assert answer.aborted is not None
    return [(entry.producer_id, entry.first_offset) for entry in answer.aborted]


def test_an_aborted_transaction_is_listed_with_what_is_read() -> None:
    driver = LogDriver()
    driver.txn(0, pid=1, count=2, value=b"a")
    driver.txn(0, pid=2, count=3, value=b"b")
    driver.end(committed=False, pid=2)
    assert listed(driver, 0) == []  # nothing can be read yet
    driver.end(committed=True, pid=1)
    assert listed(driver, 0) == [(2, 2)]
    assert consume(driver.log, 0) == [b"a", b"a"]
    assert listed(driver, driver.log.log_end_offset) == []


def test_aborted_transactions_are_listed_as_far_as_a_sparse_index_can_tell() -> None:
    driver = LogDriver()
    driver.append(plain())
    driver.txn(0, pid=1)
    driver.end(committed=False, pid=1)
    # No batch is indexed yet: up to the log end, however little is read (LocalLog).
    assert listed(driver, 0, max_bytes=1) == listed(driver, 0) == [(1, 1)]
    driver.append(plain(value=b"x" * 5_000))
    driver.append(plain())  # indexed, for more than 4 KiB lie before it
    driver.txn(0, pid=2)
    driver.end(committed=False, pid=2)
    assert listed(driver, 0, max_bytes=1) == [(1, 1)]
    assert listed(driver, 0) == [(1, 1), (2, 5)]


def test_a_read_of_nothing_lists_what_may_lie_behind_it() -> None:
    driver = LogDriver()
    driver.append(plain())
    driver.txn(0, pid=1)
    driver.end(committed=False, pid=1)
    answer = driver.log.read(0, max_bytes=0, isolation=COMMITTED, min_one_batch=False)
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
    answer = read(driver, 2, isolation=COMMITTED)
    assert answer.aborted is not None
    assert [entry.first_offset for entry in answer.aborted] == [0]


@pytest.mark.parametrize(
    ("offset", "uncommitted", "log_end"),
    [(0, 2, 3), (1, 2, 3), (2, 1, 2), (4, 0, 1), (6, 0, 0), (7, 0, 0), (-1, 0, 0)],
)
def test_readable_bytes(three: LogDriver, offset: int, uncommitted: int, log_end: int) -> None:
    log = three.log
    assert log.readable_bytes(offset, UNCOMMITTED) == uncommitted * SIZE
    assert log.readable_bytes(offset, UNCOMMITTED, up_to_log_end=True) == log_end * SIZE


def test_readable_bytes_of_read_committed_move_with_the_stable_offset() -> None:
    driver = LogDriver()
    driver.txn(0)
    assert driver.log.readable_bytes(0, COMMITTED) == 0
    driver.end(committed=True)
    assert driver.log.readable_bytes(0, COMMITTED) == driver.log.size_bytes


def test_a_bound_inside_a_batch_hides_the_batch(three: LogDriver) -> None:
    three.log.advance_high_watermark(5)
    assert bases(read(three, 4)) == []
    assert three.log.readable_bytes(4, UNCOMMITTED) == 0


def test_latest(three: LogDriver) -> None:
    three.txn(0)
    three.log.advance_high_watermark(7)
    log = three.log
    assert log.latest(UNCOMMITTED) == 7
    assert log.latest(COMMITTED) == 6
    assert log.latest(COMMITTED, up_to_log_end=True) == 7


def test_timestamp_searches_stop_at_the_readers_bound() -> None:
    driver = LogDriver()
    driver.append(plain(timestamp=10))
    driver.log.become_leader(2)
    driver.txn(0, timestamp=20)
    log = driver.log
    found = log.offset_for_timestamp(11, UNCOMMITTED)
    assert found is not None
    assert (found.timestamp_ms, found.offset, found.leader_epoch) == (20, 1, 2)
    assert log.offset_for_timestamp(11, COMMITTED) is None
    assert log.offset_for_timestamp(21, UNCOMMITTED) is None
    found = log.offset_of_max_timestamp(UNCOMMITTED)
    assert found is not None
    assert (found.timestamp_ms, found.offset) == (20, 1)
    assert log.offset_of_max_timestamp(COMMITTED) is None
    assert log.offset_of_max_timestamp(COMMITTED, up_to_log_end=True) == found
    assert make_log().offset_of_max_timestamp(UNCOMMITTED) is None


def test_the_greatest_time_is_found_below_the_start_with_the_epoch_of_its_batch() -> None:
    driver = LogDriver()
    driver.append(plain(timestamp=30))
    driver.log.become_leader(2)
    driver.append(plain(timestamp=20))
    log = driver.log
    log.advance_high_watermark(2)
    assert log.delete_records_before(1) == 1
    found = log.offset_of_max_timestamp(UNCOMMITTED)
    assert found is not None
    assert (found.timestamp_ms, found.offset, found.leader_epoch) == (30, 0, 0)
    assert log.leader_epoch_of(0) == -1


def test_the_end_of_an_epoch() -> None:
    driver = LogDriver()
    driver.append(plain(2))
    driver.log.become_leader(3)
    driver.append(plain())
    log = driver.log
    assert log.end_offset_for_epoch(0) == EpochEndOffset(leader_epoch=0, end_offset=2)
    assert log.end_offset_for_epoch(3) == EpochEndOffset(leader_epoch=3, end_offset=3)
    assert log.end_offset_for_epoch(4) == EpochEndOffset(leader_epoch=-1, end_offset=-1)
    assert (log.leader_epoch_of(1), log.leader_epoch_of(2)) == (0, 3)


def test_producers_are_listed_with_or_without_a_transaction() -> None:
    driver = LogDriver()
    driver.txn(5, count=2, epoch=1)
    driver.end(committed=True, pid=8, epoch=2, coordinator_epoch=4)
    assert driver.log.producers() == (
        ProducerSnapshot(
            producer_id=PID,
            producer_epoch=1,
            last_sequence=6,
            last_timestamp=NOW,
            coordinator_epoch=-1,
            current_txn_start_offset=0,
        ),
        ProducerSnapshot(
            producer_id=8,
            producer_epoch=2,
            last_sequence=-1,
            last_timestamp=NOW,
            coordinator_epoch=4,
            current_txn_start_offset=-1,
        ),
    )


def test_the_open_transaction_of_one_producer() -> None:
    driver = LogDriver()
    driver.append(plain(3))
    assert driver.log.open_transaction_of(PID) == -1
    driver.txn(0)
    driver.txn(1)
    assert driver.log.open_transaction_of(PID) == 3
    driver.end(committed=True)
    assert driver.log.open_transaction_of(PID) == -1


@pytest.mark.parametrize(("age", "late"), [(1_200_000, False), (1_200_001, True)])
def test_a_transaction_is_late_five_minutes_after_the_longest_timeout(age: int, late: bool) -> None:
    driver = LogDriver()
    assert not driver.log.has_late_transaction(NOW, TIMEOUT_MAX)
    driver.txn(0)
    assert driver.log.has_late_transaction(NOW + age, TIMEOUT_MAX) is late


def test_a_transaction_stamped_with_nothing_is_never_late() -> None:
    """UnifiedLog.hasLateTransaction asks for a timestamp above 0: a client's stamps decide."""
    driver = LogDriver()
    driver.txn(0, timestamp=-1)
    assert not driver.log.has_late_transaction(NOW, TIMEOUT_MAX)


def test_batches_can_be_walked_from_an_offset(three: LogDriver) -> None:
    starts = [read_batch_header(data).base_offset for data in three.log.batches(3)]
    assert starts == [2, 4]
    assert list(three.log.batches(6)) == []


def test_who_trusts_an_older_look_reads_what_is_open_by_now() -> None:
    """Before KAFKA-9807 a Fetch compared with one high watermark and answered with the next."""
    driver = LogDriver(follow=False)
    driver.txn(0)
    assert driver.log.is_all_stable  # nothing of it is replicated
    driver.log.advance_high_watermark(driver.log.log_end_offset)
    assert not driver.log.is_all_stable
    trusting = driver.log.read(0, max_bytes=ALL, isolation=COMMITTED, is_all_stable=True)
    assert isinstance(trusting, LogRead)
    assert (trusting.last_stable_offset, bases(trusting), trusting.aborted) == (1, [0], ())
    again = read(driver, 0, isolation=COMMITTED)
    assert (again.last_stable_offset, bases(again)) == (0, [])
