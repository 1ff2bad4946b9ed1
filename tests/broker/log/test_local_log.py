"""What a log has on its disk: segments, retention, what is durable."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support.logs import NOW, UNCOMMITTED, LogDriver, make_log, plain, replayed_log
from txnsim.log._segment import Segment
from txnsim.log.answers import LogRead
from txnsim.log.config import LogConfig
from txnsim.log.local_log import ENOUGH_BYTES, WriteAllowance
from txnsim.log.txn_index import AbortedTxn
from txnsim.releases.rules import LATEST_RULES
from txnsim.wire.batch import assign, read_batch_header

SIZE = len(plain())


BY_TWO = 2 * SIZE


"""Two batches of one record fill a segment."""


FOREVER = -1


def driver(*batches: int, config: LogConfig | None = None, follows: bool = True) -> LogDriver:
    """A log with batches of one record at these times."""
    log_driver = LogDriver(
        config or LogConfig(rules=LATEST_RULES, roll_bytes=BY_TWO, retention_ms=FOREVER),
        follows=follows,
    )
    for timestamp_ms in batches:
        log_driver.append(plain(timestamp=timestamp_ms))
    return log_driver


def bases(log_driver: LogDriver) -> list[int]:
    """Base offsets of the segments that hold what can be read."""
    log = log_driver.log
    inactive = log.local.inactive_segments(0, log.log_end_offset)
    return [segment.base_offset for segment in inactive] + [log.local.active_base_offset]


# Rolling


def test_roll_ends_a_segment_unless_it_is_empty() -> None:
    log_driver = driver(NOW)
    log_driver.log.roll(NOW)
    log_driver.log.roll(NOW)
    assert bases(log_driver) == [0, 1]
    log_driver.append(plain(timestamp=NOW))
    assert bases(log_driver) == [0, 1]


def test_a_full_segment_is_followed_by_another() -> None:
    log_driver = driver(*[NOW] * 5)
    assert bases(log_driver) == [0, 2, 4]
    assert len(log_driver.log.local.segments) == 3
    assert log_driver.log.local.segments.size_bytes == 5 * SIZE


def test_a_segment_that_had_its_time_is_followed_by_another() -> None:
    log_driver = driver(
        NOW,
        NOW + 9,
        NOW + 11,
        NOW + 12,
        config=LogConfig(rules=LATEST_RULES, segment_ms=10, retention_ms=-1),
    )
    assert bases(log_driver) == [0, 2]


def test_jitter_follows_from_the_place_and_stays_within_its_bound() -> None:
    config = LogConfig(
        rules=LATEST_RULES, segment_ms=1_000, segment_jitter_ms=5_000, retention_ms=FOREVER
    )
    stamps = [NOW + 100 * step for step in range(60)]
    log_driver = driver(*stamps, config=config)
    ends = bases(log_driver)
    assert ends == bases(driver(*stamps, config=config))
    spans = {later_end - earlier_end for earlier_end, later_end in pairwise(ends)}
    assert max(spans) <= 11
    assert len(spans) > 1


def test_a_replayed_log_is_cut_as_the_living_one_was() -> None:
    log_driver = driver(*[NOW] * 5)
    copy_of_log = replayed_log(
        log_driver.log.batches(),
        topic_partition=log_driver.log.topic_partition,
        config=log_driver.log.config,
        leader_epoch=0,
        now_ms=NOW,
    )
    assert copy_of_log.local.active_base_offset == 4
    assert len(copy_of_log.local.segments) == 3


def test_who_reads_an_older_segment_has_enough_to_read() -> None:
    """An older segment counts as enough, even with few bytes left (DelayedFetch.tryComplete)."""
    log_driver = driver(*[NOW] * 5)
    assert log_driver.log.readable_bytes(3, UNCOMMITTED) == ENOUGH_BYTES
    assert log_driver.log.readable_bytes(4, UNCOMMITTED) == SIZE
    read = log_driver.log.read(3, max_bytes=1 << 20)
    assert isinstance(read, LogRead)
    assert read.size == SIZE, "a read ends with its segment"


# Retention


def test_nothing_goes_from_an_empty_log() -> None:
    log_driver = driver(config=LogConfig(rules=LATEST_RULES, retention_ms=0, retention_bytes=0))
    assert log_driver.log.delete_old_segments(NOW + 1) == 0
    assert bases(log_driver) == [0]


def test_segments_below_the_log_start_go_whatever_the_policy() -> None:
    config = LogConfig(
        rules=LATEST_RULES, roll_bytes=BY_TWO, is_compacted=True, is_deleted=False, retention_ms=0
    )
    log_driver = driver(*[NOW] * 5, config=config)
    log_driver.log.delete_records_before(3)
    assert log_driver.log.delete_old_segments(NOW + 99) == 1
    assert bases(log_driver) == [2, 4]
    assert log_driver.log.log_start_offset == 3
    log_driver.log.check_invariants()


def test_segments_go_once_their_youngest_record_is_too_old() -> None:
    config = LogConfig(rules=LATEST_RULES, roll_bytes=BY_TWO, retention_ms=100)
    log_driver = driver(NOW, NOW + 10, NOW + 5, NOW + 6, NOW + 90, config=config)
    assert log_driver.log.delete_old_segments(NOW + 110) == 0
    # The second segment is older than the first one, and has to wait for it.
    assert log_driver.log.delete_old_segments(NOW + 107) == 0
    assert log_driver.log.delete_old_segments(NOW + 111) == 2
    assert (log_driver.log.log_start_offset, bases(log_driver)) == (4, [4])
    log_driver.log.check_invariants()


def test_where_all_is_too_old_an_empty_segment_remains() -> None:
    log_driver = driver(
        NOW, NOW, NOW, config=LogConfig(rules=LATEST_RULES, roll_bytes=BY_TWO, retention_ms=100)
    )
    assert log_driver.log.delete_old_segments(NOW + 101) == 2
    log = log_driver.log
    assert (log.log_start_offset, log.log_end_offset, log.local.segments.size_bytes) == (3, 3, 0)
    assert log.delete_old_segments(NOW + 999) == 0
    assert log_driver.append(plain()) == 0
    assert log.latest_offset(UNCOMMITTED) == 4
    log.check_invariants()


def test_old_segments_go_also_while_the_active_one_is_empty() -> None:
    log_driver = driver(
        NOW, NOW, config=LogConfig(rules=LATEST_RULES, roll_bytes=BY_TWO, retention_ms=100)
    )
    log_driver.log.roll(NOW)
    assert bases(log_driver) == [0, 2]
    assert log_driver.log.delete_old_segments(NOW + 101) == 1
    assert (bases(log_driver), log_driver.log.log_start_offset) == ([2], 2)
    log_driver.log.check_invariants()


def test_records_without_time_are_as_old_as_their_last_write() -> None:
    log_driver = driver(-1, config=LogConfig(rules=LATEST_RULES, retention_ms=100))
    assert log_driver.log.delete_old_segments(NOW + 100) == 0
    assert log_driver.log.delete_old_segments(NOW + 101) == 1


def test_old_segments_go_as_long_as_enough_bytes_remain() -> None:
    config = LogConfig(
        rules=LATEST_RULES, roll_bytes=BY_TWO, retention_ms=FOREVER, retention_bytes=3 * SIZE
    )
    log_driver = driver(*[NOW] * 4, config=config)
    assert log_driver.log.delete_old_segments(NOW) == 0, (
        "without the first segment it would be too small"
    )
    log_driver.append(plain())
    assert log_driver.log.delete_old_segments(NOW) == 1
    assert bases(log_driver) == [2, 4]
    log_driver.log.config = LogConfig(
        rules=LATEST_RULES, retention_ms=FOREVER, retention_bytes=3 * SIZE + 1
    )
    assert log_driver.log.delete_old_segments(NOW) == 0


def test_by_size_all_may_go() -> None:
    config = LogConfig(
        rules=LATEST_RULES, roll_bytes=BY_TWO, retention_ms=FOREVER, retention_bytes=0
    )
    log_driver = driver(*[NOW] * 3, config=config)
    assert log_driver.log.delete_old_segments(NOW) == 2
    assert (log_driver.log.log_start_offset, log_driver.log.local.segments.size_bytes) == (3, 0)


def test_nothing_goes_that_is_not_replicated() -> None:
    log_driver = driver(
        *[NOW] * 4,
        config=LogConfig(rules=LATEST_RULES, roll_bytes=BY_TWO, retention_ms=0),
        follows=False,
    )
    log_driver.log.advance_high_watermark(3)
    assert log_driver.log.delete_old_segments(NOW + 1) == 1
    assert log_driver.log.log_start_offset == 2


def test_what_goes_with_a_segment_and_what_stays() -> None:
    """Aborted transactions and snapshots go, producers and open transactions stay (KIP-360)."""
    log_driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=200, retention_ms=100))
    log_driver.txn(0, producer_id=1)
    log_driver.end(committed=False, producer_id=1)
    log_driver.txn(0, producer_id=2)
    log_driver.data(0, producer_id=3)
    log_driver.data(0, producer_id=4, timestamp=NOW + 50)
    assert bases(log_driver) == [0, 2, 4]
    assert log_driver.log.delete_old_segments(NOW + 101) == 2
    log_driver.log.check_invariants()
    state = log_driver.log.snapshot()
    assert state.aborted == ()
    assert [producer_entry.producer_id for producer_entry in state.producers] == [1, 2, 3, 4]
    assert state.ongoing == ((2, 2),)
    assert [offset for offset, _ in log_driver.log.producers.snapshots.all_snapshots()] == [4]


def test_the_log_start_rises_only_to_what_is_replicated() -> None:
    log_driver = driver(*[NOW] * 3, follows=False)
    log_driver.log.advance_high_watermark(2)
    assert not log_driver.log.raise_log_start(0)
    assert not log_driver.log.raise_log_start(3)
    assert log_driver.log.raise_log_start(2)
    assert log_driver.log.log_start_offset == 2


# For the cleaner


def test_cleaned_segments_take_the_place_of_the_old_ones() -> None:
    log_driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=200))
    log_driver.txn(0, producer_id=1)
    log_driver.end(committed=False, producer_id=1)
    log_driver.txn(0, producer_id=2)
    log_driver.end(committed=False, producer_id=2)
    log_driver.txn(0, producer_id=3)
    log_driver.end(committed=False, producer_id=3)
    log = log_driver.log
    old_segments = log.local.inactive_segments(0, 4)
    assert [segment.base_offset for segment in old_segments] == [0, 2]
    aborted_txns = log.local.index.lookup(2, 4)
    assert [aborted_txn_entry.producer_id for aborted_txn_entry in aborted_txns] == [2]
    cleaned_segment = Segment(0)
    assert log.replace_segments(old_segments, cleaned_segment, aborted_txns)
    assert [aborted_txn.producer_id for aborted_txn in log.snapshot().aborted] == [2, 3]
    assert [offset for offset, _ in log.producers.snapshots.all_snapshots()] == [4]
    assert not log.replace_segments(old_segments, Segment(0), ())
    assert [aborted_txn.producer_id for aborted_txn in log.snapshot().aborted] == [2, 3]
    log.local.cleaned_until = 4
    assert log.local.cleaned_until == 4


@pytest.mark.parametrize(("offset", "cleaned_until"), [(3, 3), (99, 4)])
def test_truncation_takes_the_mark_of_the_cleaner_back(offset: int, cleaned_until: int) -> None:
    log = driver(*[NOW] * 5).log
    log.truncate_to(4, now_ms=NOW)
    assert log.local.cleaned_until is None
    log.local.cleaned_until = 4
    log.truncate_to(offset, now_ms=NOW)
    assert log.local.cleaned_until == cleaned_until


def test_truncation_ends_a_cleaning() -> None:
    log = driver(*[NOW] * 5).log
    log.local.cleaned_until = 4
    log.truncate_to(99, now_ms=NOW)
    assert log.local.generation == 0, "nothing was cut off"
    log.truncate_to(4, now_ms=NOW)
    assert log.local.generation == 1
    log.restart_at(0, now_ms=NOW)
    assert log.local.generation == 2
    assert log.local.cleaned_until is None


def test_the_first_aborted_marker_of_a_segment_counts_to_it() -> None:
    """An index entry belongs to the segment of its marker, not of its first record."""
    log_driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=200))
    log_driver.txn(0, producer_id=1)
    log_driver.append(plain())
    log_driver.end(committed=False, producer_id=1)
    log_driver.append(plain())
    log_driver.append(plain())
    old_segments = log_driver.log.local.inactive_segments(0, 2)
    assert log_driver.log.replace_segments(old_segments, Segment(0), ())
    assert log_driver.log.snapshot().aborted == (
        AbortedTxn(producer_id=1, first_offset=0, last_offset=2, last_stable_offset=3),
    )


def test_gaps_of_a_leader_are_taken_over() -> None:
    """A follower's segment begins where its first batch does, behind what compaction took away."""
    log_driver = driver(*[NOW] * 2)
    log = make_log(log_driver.log.config)
    for base_offset, batch in zip((0, 1, 7), [*log_driver.log.batches(), plain()], strict=True):
        stored_batch = assign(batch, base_offset=base_offset, leader_epoch=0)
        log = replayed_log(
            [*log.batches(), stored_batch],
            topic_partition=log.topic_partition,
            config=log.config,
            leader_epoch=0,
        )
    assert log.local.active_base_offset == 7
    assert [read_batch_header(batch).base_offset for batch in log.batches()] == [0, 1, 7]


# What did not reach the disk


def test_the_note_of_an_abort_can_be_lost() -> None:
    log_driver = LogDriver()
    log_driver.txn(0)
    log_driver.end(committed=False)
    marker = log_driver.log.log_end_offset - 1
    assert marker in log_driver.log.local.index
    log_driver.log.local.index.remove(marker)
    assert marker not in log_driver.log.local.index


def test_what_was_flushed_can_be_lost() -> None:
    log_driver = driver(NOW, NOW, NOW)
    log_driver.log.local.flush_up_to(9)
    assert log_driver.log.local.recovery_point == 3
    log_driver.log.local.flush_up_to(2)
    assert log_driver.log.local.recovery_point == 3
    log_driver.log.local.lose_flush(1)
    assert log_driver.log.local.recovery_point == 1


def test_the_append_that_takes_more_than_the_allowance_says_so() -> None:
    log_driver, calls = LogDriver(), list[int]()
    size_bytes = len(plain())
    allowance = log_driver.log.allowance = WriteAllowance(2 * size_bytes, lambda: calls.append(1))
    for expected_calls in (0, 0, 1, 2):
        log_driver.append(plain())
        assert len(calls) == expected_calls
    allowance.bytes_left = size_bytes
    log_driver.append(plain())
    assert (len(calls), allowance.bytes_left) == (2, 0)
