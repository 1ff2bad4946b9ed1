"""Segments of a log: batches by offset and size, epochs, aborted transactions, loading."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import pytest

from tests.support.logs import NOW, PARTITION, LogDriver, driven_log, plain
from txnsim.log._segment import Segment, max_timestamp_of
from txnsim.log._segments import Segments
from txnsim.log.config import LogConfig
from txnsim.log.log_loader import LogLoader, StoredBatches
from txnsim.log.partition_log import EpochCache, PartitionLog
from txnsim.log.producer_state_manager import OffsetSnapshot
from txnsim.log.txn_index import AbortedTxn, TxnIndex
from txnsim.releases.rules import LATEST_RULES
from txnsim.wire.batch import assign, read_batch_header

# One segment: finding batches by offset and by size, and when it ends.


INTERVAL = 4096


def add(segment: Segment, batch_data: bytes, base_offset: int, *, now_ms: int = NOW) -> None:
    stored_batch = assign(batch_data, base_offset=base_offset, leader_epoch=0)
    header = read_batch_header(stored_batch)
    segment.append(
        stored_batch,
        base_offset,
        header.last_offset,
        max_timestamp=header.max_timestamp_ms,
        now_ms=now_ms,
    )


def segment_of(*spans: tuple[int, int]) -> Segment:
    """A segment with batches of (base offset, number of records), all of different sizes."""
    segment = Segment(0)
    for base_offset, count in spans:
        add(segment, plain(count), base_offset)
    return segment


SPANS = ((0, 3), (3, 1), (4, 2), (10, 2))  # compaction took 6 to 9 away


@pytest.mark.parametrize(
    ("offset", "index"), [(0, 0), (2, 0), (3, 1), (4, 2), (5, 2), (6, 3), (9, 3), (11, 3), (12, 4)]
)
def test_index_of_an_offset(offset: int, index: int) -> None:
    assert segment_of(*SPANS).index_of(offset) == index


def test_offsets_before_the_first_batch_are_found_there() -> None:
    assert segment_of((5, 1)).index_of(2) == 0


@pytest.mark.parametrize(
    ("upper", "count"),
    [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 2), (6, 3), (9, 3), (11, 3), (12, 4), (99, 4)],
)
def test_batches_below_a_bound(upper: int, count: int) -> None:
    assert segment_of(*SPANS).end_index_of(upper) == count


def test_batches_within_a_size() -> None:
    segment = segment_of(*SPANS)
    sizes = [len(segment.batch(index)) for index in range(4)]
    assert segment.size_bytes == sum(sizes)
    assert Segment(0).size_bytes == 0
    assert segment.end_index_within(1, sizes[1] - 1) == 1
    assert segment.end_index_within(1, sizes[1]) == 2
    assert segment.end_index_within(1, sizes[1] + sizes[2]) == 3
    assert segment.end_index_within(0, 1 << 30) == 4


def test_slices_hold_the_very_bytes() -> None:
    segment = segment_of(*SPANS)
    first_slice, second_batch = segment.slice(1, 3)
    assert first_slice is segment.batch(1)
    assert second_batch is segment.batch(2)
    assert list(segment.batches())[1] is first_slice
    assert segment.batch_base(3) == 10


def test_truncation_drops_the_batch_that_holds_the_offset() -> None:
    segment = segment_of(*SPANS)
    segment.truncate_to(5, now_ms=NOW)
    assert len(segment) == 2
    assert segment.last_offset(1) == 3
    add(segment, plain(), 4)
    assert segment.index_of(4) == 2


def test_every_4_kib_a_batch_is_indexed() -> None:
    segment = Segment(0)
    large_batch = plain(record_value=b"x" * INTERVAL)
    for base_offset in range(4):
        add(segment, large_batch, base_offset)
    # The first one never is: nothing lies before it (LogSegment.append).
    assert segment.offset_behind(0) == 1
    assert segment.offset_behind(segment.position(1)) == 1
    assert segment.offset_behind(segment.position(1) + 1) == 2
    assert segment.offset_behind(segment.position(3) + 1) is None


def test_small_batches_are_not_indexed() -> None:
    assert segment_of(*SPANS).offset_behind(0) is None


def test_the_interval_of_the_index_is_a_config() -> None:
    segment = Segment(0, index_interval_bytes=0)
    for base_offset in range(2):
        add(segment, plain(), base_offset)
    assert segment.offset_behind(0) == 1


def test_index_entries_go_with_their_batches() -> None:
    segment = Segment(0)
    large_batch = plain(record_value=b"x" * INTERVAL)
    for base_offset in range(5):
        add(segment, large_batch, base_offset)
    segment.truncate_to(3, now_ms=NOW)
    assert segment.offset_behind(0) == 1
    assert segment.offset_behind(segment.position(1) + 1) == 2
    add(segment, large_batch, 3)
    assert segment.offset_behind(segment.position(3)) is None  # counting began anew
    add(segment, large_batch, 4)
    assert segment.offset_behind(segment.position(3)) == 4


def test_timestamps_are_remembered_and_recounted_after_truncation() -> None:
    segment = Segment(0)
    for base_offset, timestamp_ms in enumerate((NOW + 5, NOW + 9, NOW + 7)):
        add(segment, plain(timestamp=timestamp_ms), base_offset)
    assert (segment.first_timestamp, segment.max_timestamp) == (NOW + 5, NOW + 9)
    segment.truncate_to(1, now_ms=NOW)
    assert (segment.first_timestamp, segment.max_timestamp) == (NOW + 5, NOW + 5)
    segment.truncate_to(0, now_ms=NOW + 50)
    assert (segment.first_timestamp, segment.max_timestamp, segment.created_ms) == (
        -1,
        -1,
        NOW + 50,
    )
    add(segment, plain(timestamp=NOW + 60), 0)
    assert segment.first_timestamp == NOW + 60
    assert max_timestamp_of(segment.batch(0)) == NOW + 60


def test_without_timestamps_the_last_write_is_the_age() -> None:
    segment = Segment(0, created_ms=NOW)
    assert segment.largest_timestamp == NOW
    add(segment, plain(timestamp=-1), 0, now_ms=NOW + 3)
    assert segment.largest_timestamp == NOW + 3
    add(segment, plain(timestamp=NOW - 9), 1)
    assert segment.largest_timestamp == NOW - 9


def due(
    segment: Segment,
    *,
    size: int = 70,
    timestamp_ms: int = NOW,
    last_offset: int = 9,
    roll_bytes: int = 1 << 30,
    segment_ms: int = 1 << 40,
    segment_index_bytes: int = 1 << 20,
) -> bool:
    config = LogConfig(
        rules=LATEST_RULES,
        roll_bytes=roll_bytes,
        segment_ms=segment_ms,
        segment_index_bytes=segment_index_bytes,
    )
    return not copy.deepcopy(segment).append(
        bytes(size), 0, last_offset, max_timestamp=timestamp_ms, now_ms=NOW + 1_000, config=config
    )


def test_a_segment_ends_when_the_next_batch_would_exceed_its_size() -> None:
    segment = segment_of((0, 1))
    assert not due(segment, size=70, roll_bytes=segment.size_bytes + 70)
    assert due(segment, size=71, roll_bytes=segment.size_bytes + 70)
    assert not due(Segment(0), size=70, roll_bytes=70)
    assert due(Segment(0), size=71, roll_bytes=70)


def test_a_segment_ends_when_timestamps_have_gone_on() -> None:
    segment = segment_of((0, 1))
    assert not due(segment, timestamp_ms=NOW + 500, segment_ms=500)
    assert due(segment, timestamp_ms=NOW + 501, segment_ms=500)
    assert not due(Segment(0, created_ms=0), segment_ms=500), "an empty one never is too old"


def test_jitter_ends_a_segment_earlier() -> None:
    segment = Segment(0, roll_jitter_ms=100)
    add(segment, plain(), 0)
    assert not due(segment, timestamp_ms=NOW + 400, segment_ms=500)
    assert due(segment, timestamp_ms=NOW + 401, segment_ms=500)


def test_without_timestamps_the_clock_counts() -> None:
    segment = Segment(0, created_ms=NOW)
    add(segment, plain(timestamp=-1), 0)
    assert not due(segment, timestamp_ms=-1, segment_ms=1_000)
    assert due(segment, timestamp_ms=-1, segment_ms=999)


def test_a_segment_ends_when_an_index_is_full() -> None:
    segment = Segment(0)
    large_batch = plain(record_value=b"x" * INTERVAL)
    for base_offset in range(3):
        add(segment, large_batch, base_offset)
    # Two entries in the index of offsets, one in that of times: all have one timestamp.
    assert not due(segment, segment_index_bytes=36)
    assert due(segment, segment_index_bytes=24), "of the last time entry no use is made"
    assert due(segment, segment_index_bytes=16)
    segment = Segment(0)
    for base_offset in range(4):
        add(segment, plain(record_value=b"x" * INTERVAL, timestamp=NOW + base_offset), base_offset)
    assert due(segment, segment_index_bytes=48)
    assert not due(segment, segment_index_bytes=60)


def test_a_segment_ends_where_offsets_need_more_than_32_bits() -> None:
    assert not due(Segment(5), last_offset=5 + 2**31 - 1)
    assert due(Segment(5), last_offset=5 + 2**31)


# A log made from stored pieces, as a starting broker makes it.


DAY_MS = 86_400_000


def stored_batches_of(segment: Segment, count: int | None = None) -> StoredBatches:
    return [(batch, read_batch_header(batch)) for batch in list(segment.batches())[:count]]


@pytest.fixture
def driver() -> LogDriver:
    """A log with a second leader epoch, in which another producer begins."""
    log_driver = driven_log()
    log_driver.log.become_leader(3)
    log_driver.data(0, producer_id=8)
    return log_driver


def test_the_batch_at_an_offset_is_the_first_one_from_there_on() -> None:
    segments = driven_log().log.local.segments
    assert len(list(segments)) > 1
    for offset in range(40):
        assert segments.batch_at(offset) == next(segments.batches(offset), None)


def begin_loading(
    log: PartitionLog, *, snapshots: Iterable[OffsetSnapshot] | None = None, start: int = 0
) -> LogLoader:
    return LogLoader(
        topic_partition=PARTITION,
        config=log.config,
        start_offset=0,
        log_start_offset=start,
        leader_epochs=log.snapshot().leader_epochs,
        snapshots=log.producers.snapshots_with(log.log_end_offset).all_snapshots()
        if snapshots is None
        else snapshots,
    )


def load_log(log: PartitionLog, *, recover_from: int | None = None) -> PartitionLog:
    """Load the log again; the segments from this one on are recovered."""
    loader = begin_loading(log)
    segments = tuple(log.local.segments)
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset + 1]
    for number, (segment, end) in enumerate(zip(segments, ends, strict=True)):
        if recover_from is not None and number >= recover_from:
            loader.recover_segment(
                segment.base_offset, stored_batches_of(segment), modified_ms=NOW, now_ms=NOW
            )
            continue
        aborted = [
            aborted_txn
            for aborted_txn in log.snapshot().aborted
            if segment.base_offset <= aborted_txn.last_offset < end
        ]
        loader.load_segment(
            segment.base_offset, stored_batches_of(segment), aborted_txns=aborted, modified_ms=NOW
        )
    assert loader.finish(
        recovery_point=log.log_end_offset,
        cleaned_until=None,
        was_clean=recover_from is None,
        now_ms=NOW,
    )
    assert loader.end_offset == log.log_end_offset
    loader.log.check_invariants()
    return loader.log


def reopen_log(log: PartitionLog) -> PartitionLog:
    """Reopen the log, as a broker does that restarts after a controlled shutdown."""
    log.reopen(log.high_watermark, log_start_offset=log.log_start_offset, now_ms=NOW)
    return log


@pytest.mark.parametrize("recover_from", [None, 0, 1, 2])
def test_it_has_the_state_of_the_one_that_lived(
    driver: LogDriver, recover_from: int | None
) -> None:
    assert len(driver.log.local.segments) > 2
    loaded_log = load_log(driver.log, recover_from=recover_from)
    assert list(loaded_log.batches()) == list(driver.log.batches())
    assert len(loaded_log.local.segments) == len(driver.log.local.segments)
    loaded_log.reopen(
        driver.log.high_watermark, log_start_offset=loaded_log.log_start_offset, now_ms=NOW
    )
    assert loaded_log.snapshot() == reopen_log(driver.log).snapshot()
    assert loaded_log.local.recovery_point == loaded_log.log_end_offset
    assert loaded_log.producers.newest_snapshot_offset == loaded_log.log_end_offset


def test_a_recovered_segment_tells_the_leader_epochs_that_the_file_lacks(
    driver: LogDriver,
) -> None:
    loader = LogLoader(
        topic_partition=PARTITION,
        config=LogConfig(rules=LATEST_RULES),
        start_offset=0,
        log_start_offset=0,
        leader_epochs=(),
        snapshots=(),
    )
    for segment in driver.log.local.segments:
        loader.recover_segment(
            segment.base_offset, stored_batches_of(segment), modified_ms=NOW, now_ms=NOW
        )
    loader.finish(recovery_point=0, cleaned_until=2, was_clean=False, now_ms=NOW)
    assert loader.log.snapshot().leader_epochs == driver.log.snapshot().leader_epochs
    assert (loader.log.local.recovery_point, loader.log.local.cleaned_until) == (0, 2)


def test_recovery_forgets_snapshots_behind_its_segment(driver: LogDriver) -> None:
    lying = (driver.log.log_end_offset, ())  # as if nobody had ever written
    loader = begin_loading(driver.log, snapshots=[lying])
    for segment in driver.log.local.segments:
        loader.recover_segment(
            segment.base_offset, stored_batches_of(segment), modified_ms=NOW, now_ms=NOW
        )
    loader.finish(recovery_point=0, cleaned_until=None, was_clean=False, now_ms=NOW)
    assert loader.log.producers.open_transaction_of(7) == 4


def test_epochs_that_wrote_nothing_are_forgotten(driver: LogDriver) -> None:
    epochs_before = driver.log.snapshot().leader_epochs
    driver.log.become_leader(9)
    assert load_log(driver.log).snapshot().leader_epochs == epochs_before


def test_a_higher_start_than_the_oldest_segment_is_believed(driver: LogDriver) -> None:
    loader = begin_loading(driver.log, start=3)
    for segment in driver.log.local.segments:
        loader.load_segment(
            segment.base_offset, stored_batches_of(segment), aborted_txns=(), modified_ms=NOW
        )
    loader.finish(recovery_point=0, cleaned_until=None, was_clean=True, now_ms=NOW)
    assert (loader.log.log_start_offset, loader.log.high_watermark) == (3, 3)
    assert loader.log.snapshot().leader_epochs[0] == (0, 3)


def test_a_log_that_ends_below_its_start_is_emptied(driver: LogDriver) -> None:
    loader = begin_loading(driver.log, start=500)
    for segment in driver.log.local.segments:
        loader.load_segment(
            segment.base_offset, stored_batches_of(segment), aborted_txns=(), modified_ms=NOW
        )
    is_kept = loader.finish(recovery_point=900, cleaned_until=None, was_clean=True, now_ms=NOW)
    assert not is_kept
    assert (
        loader.log.log_start_offset,
        loader.log.log_end_offset,
        loader.log.local.recovery_point,
    ) == (
        500,
        500,
        500,
    )
    assert loader.log.snapshot().producers == ()


def test_without_any_snapshot_a_clean_stop_means_that_there_are_no_producers(
    driver: LogDriver,
) -> None:
    for was_clean, open_since_ms in ((True, -1), (False, 4)):
        loader = begin_loading(driver.log, snapshots=())
        for segment in driver.log.local.segments:
            loader.load_segment(
                segment.base_offset, stored_batches_of(segment), aborted_txns=(), modified_ms=NOW
            )
        loader.finish(recovery_point=0, cleaned_until=None, was_clean=was_clean, now_ms=NOW)
        assert loader.log.producers.open_transaction_of(7) == open_since_ms


def test_producers_that_have_expired_are_not_loaded_open_ones_are(driver: LogDriver) -> None:
    loader = begin_loading(driver.log)
    for segment in driver.log.local.segments:
        loader.load_segment(
            segment.base_offset, stored_batches_of(segment), aborted_txns=(), modified_ms=NOW
        )
    loader.finish(recovery_point=0, cleaned_until=None, was_clean=True, now_ms=NOW + 2 * DAY_MS)
    assert [producer.producer_id for producer in loader.log.producers.all_producers()] == [7]


# Segments side by side: which one holds an offset, reads that end where a segment does.


ALL = 1 << 30


def add_of_segments(segment: Segment, base_offset: int, *, count: int = 1) -> None:
    stored_batch = assign(plain(count), base_offset=base_offset, leader_epoch=0)
    segment.append(
        stored_batch, base_offset, base_offset + count - 1, max_timestamp=NOW, now_ms=NOW
    )


def segments_of(*segments: tuple[int, ...]) -> Segments:
    """Segments of (base offset, offsets of batches of one record …)."""
    built_segments: Segments | None = None
    for base_offset, *offsets in segments:
        segment = Segment(base_offset)
        if built_segments is None:
            built_segments = Segments(segment)
        else:
            built_segments.add(segment)
        for offset in offsets:
            add_of_segments(segment, offset)
    assert built_segments is not None
    return built_segments


def offsets(batches: list[bytes]) -> list[int]:
    return [read_batch_header(batch).base_offset for batch in batches]


THREE_BATCHES = ((0, 0, 1), (2, 2, 3), (4, 4))


def test_the_segment_of_an_offset() -> None:
    segments = segments_of((5, 5), (7, 7))
    assert [segments.floor_index(offset) for offset in (0, 5, 6, 7, 99)] == [0, 0, 0, 1, 1]
    assert len(segments) == 2
    assert segments.first_base_offset == 5
    assert segments.size_bytes == 2 * len(plain())
    assert segments.inactive_segments == [*segments][:1]


def test_segments_between_two_offsets() -> None:
    segments = segments_of(*THREE_BATCHES)
    first_segment, second_segment, third_segment = segments
    assert segments.segments_between(0, 0) == []
    assert segments.segments_between(0, 2) == [first_segment]
    assert segments.segments_between(1, 3) == [first_segment, second_segment]
    assert segments.segments_between(2, 99) == [second_segment, third_segment]
    assert segments.higher_base_offset(second_segment, -1) == 4
    assert segments.higher_base_offset(third_segment, -1) == -1


def test_a_read_ends_with_its_segment() -> None:
    segments = segments_of(*THREE_BATCHES)
    span = segments.read(0, 5, max_bytes=ALL, reads_one_batch_at_least=True)
    assert span is not None
    assert offsets(span.batches) == [0, 1]
    assert span.size == span.reach_position == 2 * len(plain())
    span = segments.read(4, 5, max_bytes=ALL, reads_one_batch_at_least=True)
    assert span is not None
    assert offsets(span.batches) == [4]


def test_a_read_stops_below_its_bound_and_within_its_size() -> None:
    segments = segments_of(*THREE_BATCHES)
    max_bytes = len(plain())
    span = segments.read(2, 3, max_bytes=ALL, reads_one_batch_at_least=True)
    assert span is not None
    assert (offsets(span.batches), span.reach_position) == ([2], max_bytes)
    span = segments.read(2, 5, max_bytes=max_bytes, reads_one_batch_at_least=True)
    assert span is not None
    assert (offsets(span.batches), span.reach_position) == ([2], max_bytes)
    span = segments.read(3, 5, max_bytes=3, reads_one_batch_at_least=True)
    assert span is not None
    assert (offsets(span.batches), span.reach_position) == ([3], 2 * max_bytes)
    span = segments.read(2, 5, max_bytes=3, reads_one_batch_at_least=False)
    assert span is not None
    assert (span.batches, span.size, span.reach_position, span.cut_batch) == ([], 0, 3, b"")


def test_a_batch_behind_a_whole_one_is_cut_where_the_size_ends() -> None:
    segments = segments_of(*THREE_BATCHES)
    whole_read = segments.read(2, 5, max_bytes=ALL, reads_one_batch_at_least=True)
    assert whole_read is not None
    assert (offsets(whole_read.batches), whole_read.cut_batch) == ([2, 3], b"")
    span = segments.read(2, 5, max_bytes=len(plain()) + 7, reads_one_batch_at_least=True)
    assert span is not None
    assert (offsets(span.batches), span.size, span.cut_batch) == (
        [2],
        len(plain()),
        whole_read.batches[1][:7],
    )
    bounded = segments.read(2, 3, max_bytes=len(plain()) + 7, reads_one_batch_at_least=True)
    assert bounded is not None
    assert bounded.cut_batch == b"", "what lies behind the bound is not readable"


def test_a_read_goes_on_to_the_next_segment_where_compaction_left_nothing() -> None:
    segments = segments_of((0, 0), (5, 7), (9,))
    span = segments.read(1, 9, max_bytes=ALL, reads_one_batch_at_least=True)
    assert span is not None
    assert offsets(span.batches) == [7]
    assert segments.read(8, 9, max_bytes=ALL, reads_one_batch_at_least=True) is None
    assert segments.read(9, 9, max_bytes=ALL, reads_one_batch_at_least=True) is None
    assert segments.segment_holding(8) is None


def test_bytes_and_age_of_what_waits_to_be_read() -> None:
    segments = segments_of(*THREE_BATCHES)
    size_bytes = len(plain())
    assert segments.is_older(1, 5)
    assert not segments.is_older(1, 2 - 1)
    assert not segments.is_older(4, 5)
    assert segments.bytes_between(4, 5) == size_bytes
    assert segments.bytes_between(5, 5) == 0
    assert segments.bytes_between(0, 1) == size_bytes


def test_truncation_keeps_a_segment_that_begins_there() -> None:
    segments = segments_of(*THREE_BATCHES)
    segments.truncate_to(4, now_ms=NOW)
    assert (len(segments), len(segments.active), segments.active.base_offset) == (3, 0, 4)
    segments.truncate_to(3, now_ms=NOW)
    assert (len(segments), len(segments.active), segments.active.base_offset) == (2, 1, 2)
    segments.truncate_to(0, now_ms=NOW)
    assert (len(segments), segments.size_bytes) == (1, 0)


def test_an_empty_segment_gives_way_to_one_of_the_same_base() -> None:
    segments = segments_of((0, 0), (1,))
    new_segment = Segment(1)
    segments.add(new_segment)
    assert [*segments][1] is segments.active is new_segment
    lone_segments = Segments(Segment(0))
    lone_segments.add(Segment(0))
    assert len(lone_segments) == 1


def test_old_segments_are_dropped() -> None:
    segments = segments_of(*THREE_BATCHES)
    segments.drop_first(2)
    assert (len(segments), segments.first_base_offset) == (1, 4)


def test_cleaned_segments_are_put_in_place_of_the_very_old_ones() -> None:
    segments = segments_of(*THREE_BATCHES)
    first_segment, second_segment, third_segment = segments
    cleaned_segment = Segment(0)
    add_of_segments(cleaned_segment, 3)
    assert segments.replace_segments([first_segment, second_segment], cleaned_segment)
    assert [*segments] == [cleaned_segment, third_segment]
    assert segments.active is third_segment
    assert not segments.replace_segments([first_segment, second_segment], Segment(0)), (
        "they are gone"
    )
    assert [*segments] == [cleaned_segment, third_segment]


def test_batches_are_those_of_the_moment() -> None:
    segments = segments_of(*THREE_BATCHES)
    batches = segments.batches(1)
    batches_seen = [next(batches)]
    segments.truncate_to(1, now_ms=NOW)
    batches_seen += batches
    assert offsets(batches_seen) == [1, 2, 3, 4]


# LeaderEpochFileCache: where each leader epoch begins and ends.


def cache(*entries: tuple[int, int]) -> EpochCache:
    epoch_cache = EpochCache()
    for epoch, start in entries:
        epoch_cache.assign(epoch, start)
    assert epoch_cache.entries() == entries
    return epoch_cache


@pytest.mark.parametrize(
    ("epoch", "start", "entries"),
    [
        (4, 30, ((1, 0), (2, 10), (4, 30))),
        (2, 15, ((1, 0), (2, 10))),  # known already
        (2, 10, ((1, 0), (2, 10))),
        (2, 5, ((1, 0), (2, 5))),  # began earlier than we thought
        (3, 10, ((1, 0), (3, 10))),  # the older epoch wrote nothing
        (3, 0, ((3, 0),)),
        (1, 20, ((1, 20),)),  # contradicts both
    ],
)
def test_assign(epoch: int, start: int, entries: tuple[tuple[int, int], ...]) -> None:
    epoch_cache = cache((1, 0), (2, 10))
    epoch_cache.assign(epoch, start)
    assert epoch_cache.entries() == entries


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (7, (7, 50)),  # the latest ends at the log end
        (8, (-1, -1)),
        (1, (1, 5)),  # before the first known: where that one starts
        (2, (2, 10)),
        (3, (2, 10)),  # between: the largest known below
        (4, (4, 30)),
        (6, (4, 30)),
    ],
)
def test_end_offset_of_an_epoch(epoch: int, answer: tuple[int, int]) -> None:
    assert cache((2, 5), (4, 10), (7, 30)).end_offset_for(epoch, log_end_offset=50) == answer


def test_an_empty_cache_knows_nothing() -> None:
    empty_cache = cache()
    assert empty_cache.latest == -1
    assert empty_cache.end_offset_for(0, log_end_offset=5) == (-1, -1)
    assert empty_cache.epoch_of(0) == -1
    empty_cache.drop_before(5)
    assert empty_cache.entries() == ()


@pytest.mark.parametrize(("offset", "epoch"), [(4, -1), (5, 2), (9, 2), (10, 4), (99, 7)])
def test_epoch_of_an_offset(offset: int, epoch: int) -> None:
    assert cache((2, 5), (4, 10), (7, 30)).epoch_of(offset) == epoch


@pytest.mark.parametrize(
    ("offset", "entries"),
    [(31, ((2, 5), (4, 10), (7, 30))), (30, ((2, 5), (4, 10))), (10, ((2, 5),)), (0, ())],
)
def test_truncation_drops_what_begins_at_or_above(
    offset: int, entries: tuple[tuple[int, int], ...]
) -> None:
    epoch_cache = cache((2, 5), (4, 10), (7, 30))
    epoch_cache.truncate_to(offset)
    assert epoch_cache.entries() == entries
    assert epoch_cache.latest == (entries[-1][0] if entries else -1)


@pytest.mark.parametrize(
    ("offset", "entries"),
    [
        (3, ((2, 5), (4, 10))),
        (5, ((2, 5), (4, 10))),
        (7, ((2, 7), (4, 10))),
        (10, ((4, 10),)),
        (12, ((4, 12),)),
    ],
)
def test_a_raised_log_start_cuts_the_epoch_that_spans_it(
    offset: int, entries: tuple[tuple[int, int], ...]
) -> None:
    epoch_cache = cache((2, 5), (4, 10))
    epoch_cache.drop_before(offset)
    assert epoch_cache.entries() == entries


# TransactionIndex: which aborted transactions a read has to know.


def aborted_txn_of(
    producer_id: int, first_offset: int, last_offset: int, stable_offset: int | None = None
) -> AbortedTxn:
    return AbortedTxn(
        producer_id=producer_id,
        first_offset=first_offset,
        last_offset=last_offset,
        last_stable_offset=last_offset + 1 if stable_offset is None else stable_offset,
    )


A = aborted_txn_of(1, 0, 10)
B = aborted_txn_of(2, 12, 15)
C = aborted_txn_of(3, 11, 20)
D = aborted_txn_of(2, 30, 35)


def index() -> TxnIndex:
    txn_index = TxnIndex()
    for aborted_txn in (A, B, C, D):
        txn_index.append(aborted_txn)
    return txn_index


@pytest.mark.parametrize(
    ("start", "upper", "expected_txns"),
    [
        (0, 100, (A, B, C, D)),
        (0, 5, (A,)),  # its stable offset lies behind the read: the search stops
        (10, 11, (A,)),
        (11, 12, (C,)),  # B begins behind the read, but its stable offset does not allow to stop
        (11, 13, (B, C)),
        (16, 30, (C,)),
        (21, 30, ()),
        (36, 99, ()),
    ],
)
def test_lookup(start: int, upper: int, expected_txns: tuple[AbortedTxn, ...]) -> None:
    txn_index = TxnIndex()
    for aborted_txn in (A, aborted_txn_of(2, 12, 15, stable_offset=11), C, D):
        txn_index.append(aborted_txn)
    assert [aborted_txn.producer_id for aborted_txn in txn_index.lookup(start, upper)] == [
        expected_txn_entry.producer_id for expected_txn_entry in expected_txns
    ]


def test_a_lookup_stops_where_the_stable_offset_lies_behind_the_read() -> None:
    txn_index = TxnIndex()
    txn_index.append(aborted_txn_of(1, 0, 10, stable_offset=12))
    txn_index.append(C)
    assert [aborted_txn.producer_id for aborted_txn in txn_index.lookup(0, 12)] == [1]
    assert [aborted_txn.producer_id for aborted_txn in txn_index.lookup(0, 13)] == [1, 3]


@pytest.mark.parametrize(
    ("offset", "expected_txns"), [(36, (A, B, C, D)), (35, (A, B, C)), (15, (A,)), (0, ())]
)
def test_truncation_drops_markers_at_or_above(
    offset: int, expected_txns: tuple[AbortedTxn, ...]
) -> None:
    txn_index = index()
    txn_index.truncate_to(offset)
    assert txn_index.entries() == expected_txns
    assert txn_index.lookup(0, 100) == expected_txns
    later_txn = aborted_txn_of(4, offset, offset)
    txn_index.append(later_txn)
    assert txn_index.entries() == (*expected_txns, later_txn)
    assert txn_index.lookup(offset, offset + 1)[-1:] == (later_txn,)


@pytest.mark.parametrize(
    ("offset", "expected_txns"), [(10, (A, B, C, D)), (11, (B, C, D)), (36, ())]
)
def test_a_raised_start_drops_markers_below(
    offset: int, expected_txns: tuple[AbortedTxn, ...]
) -> None:
    txn_index = index()
    txn_index.drop_before(offset)
    assert txn_index.entries() == expected_txns
    assert txn_index.lookup(offset, 100) == expected_txns


def test_one_entry_can_be_lost() -> None:
    txn_index = index()
    txn_index.remove(15)
    txn_index.remove(16)
    assert txn_index.entries() == (A, C, D)
    assert [offset for offset in (10, 15, 20, 36) if offset in txn_index] == [10, 20]
    assert txn_index.lookup(0, 100) == (A, C, D)
