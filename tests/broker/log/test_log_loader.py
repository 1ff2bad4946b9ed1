"""A log made from stored pieces, as a starting broker makes it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.support.logs import NOW, PARTITION, LogDriver, driven_log
from txnsim.log.config import LogConfig
from txnsim.log.log_loader import LogLoader, StoredBatches
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state_manager import Snapshot
from txnsim.log.segment import Segment
from txnsim.releases.rules import LATEST
from txnsim.wire.batch import read_batch_header

DAY_MS = 86_400_000


def stored(segment: Segment, count: int | None = None) -> StoredBatches:
    return [(one, read_batch_header(one)) for one in list(segment.batches())[:count]]


@pytest.fixture
def driver() -> LogDriver:
    """One that was led anew, with a producer that begins."""
    made = driven_log()
    made.log.become_leader(3)
    made.data(0, pid=8)
    return made


def begun(
    log: PartitionLog, *, snapshots: Iterable[Snapshot] | None = None, start: int = 0
) -> LogLoader:
    return LogLoader(
        topic_partition=PARTITION,
        config=log.config,
        start_offset=0,
        log_start_offset=start,
        leader_epochs=log.snapshot().leader_epochs,
        snapshots=log.producers.snapshots_with(log.log_end_offset)
        if snapshots is None
        else snapshots,
    )


def loaded(log: PartitionLog, *, recover_from: int | None = None) -> PartitionLog:
    """The log again; segments from that one on are recovered."""
    loader = begun(log)
    segments = tuple(log.local.segments)
    ends = [*(one.base_offset for one in segments[1:]), log.log_end_offset + 1]
    for number, (segment, end) in enumerate(zip(segments, ends, strict=True)):
        if recover_from is not None and number >= recover_from:
            loader.recover_segment(
                segment.base_offset, stored(segment), modified_ms=NOW, now_ms=NOW
            )
            continue
        aborted = [
            one for one in log.snapshot().aborted if segment.base_offset <= one.last_offset < end
        ]
        loader.load_segment(segment.base_offset, stored(segment), aborted=aborted, modified_ms=NOW)
    assert loader.finish(
        recovery_point=log.log_end_offset,
        cleaned_until=None,
        was_clean=recover_from is None,
        now_ms=NOW,
    )
    assert loader.end_offset == log.log_end_offset
    loader.log.check_invariants()
    return loader.log


def reopened(log: PartitionLog) -> PartitionLog:
    """What a restart leaves of the living one."""
    log.reopen(log.high_watermark, log_start_offset=log.log_start_offset, now_ms=NOW)
    return log


@pytest.mark.parametrize("recover_from", [None, 0, 1, 2])
def test_it_has_the_state_of_the_one_that_lived(
    driver: LogDriver, recover_from: int | None
) -> None:
    assert len(driver.log.local.segments) > 2
    made = loaded(driver.log, recover_from=recover_from)
    assert list(made.batches()) == list(driver.log.batches())
    assert len(made.local.segments) == len(driver.log.local.segments)
    made.reopen(driver.log.high_watermark, log_start_offset=made.log_start_offset, now_ms=NOW)
    assert made.snapshot() == reopened(driver.log).snapshot()
    assert made.local.recovery_point == made.log_end_offset
    assert made.producers.newest_snapshot_offset == made.log_end_offset


def test_a_recovered_segment_tells_the_leader_epochs_that_the_file_lacks(
    driver: LogDriver,
) -> None:
    loader = LogLoader(
        topic_partition=PARTITION,
        config=LogConfig(rules=LATEST),
        start_offset=0,
        log_start_offset=0,
        leader_epochs=(),
        snapshots=(),
    )
    for segment in driver.log.local.segments:
        loader.recover_segment(segment.base_offset, stored(segment), modified_ms=NOW, now_ms=NOW)
    loader.finish(recovery_point=0, cleaned_until=2, was_clean=False, now_ms=NOW)
    assert loader.log.snapshot().leader_epochs == driver.log.snapshot().leader_epochs
    assert (loader.log.local.recovery_point, loader.log.local.cleaned_until) == (0, 2)


def test_recovery_forgets_snapshots_behind_its_segment(driver: LogDriver) -> None:
    lying = (driver.log.log_end_offset, ())  # as if nobody had ever written
    loader = begun(driver.log, snapshots=[lying])
    for segment in driver.log.local.segments:
        loader.recover_segment(segment.base_offset, stored(segment), modified_ms=NOW, now_ms=NOW)
    loader.finish(recovery_point=0, cleaned_until=None, was_clean=False, now_ms=NOW)
    assert loader.log.producers.open_transaction_of(7) == 4


def test_epochs_that_wrote_nothing_are_forgotten(driver: LogDriver) -> None:
    before = driver.log.snapshot().leader_epochs
    driver.log.become_leader(9)
    assert loaded(driver.log).snapshot().leader_epochs == before


def test_a_higher_start_than_the_oldest_segment_is_believed(driver: LogDriver) -> None:
    loader = begun(driver.log, start=3)
    for segment in driver.log.local.segments:
        loader.load_segment(segment.base_offset, stored(segment), aborted=(), modified_ms=NOW)
    loader.finish(recovery_point=0, cleaned_until=None, was_clean=True, now_ms=NOW)
    assert (loader.log.log_start_offset, loader.log.high_watermark) == (3, 3)
    assert loader.log.snapshot().leader_epochs[0] == (0, 3)


def test_a_log_that_ends_below_its_start_is_emptied(driver: LogDriver) -> None:
    loader = begun(driver.log, start=500)
    for segment in driver.log.local.segments:
        loader.load_segment(segment.base_offset, stored(segment), aborted=(), modified_ms=NOW)
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
    for was_clean, first in ((True, -1), (False, 4)):
        loader = begun(driver.log, snapshots=())
        for segment in driver.log.local.segments:
            loader.load_segment(segment.base_offset, stored(segment), aborted=(), modified_ms=NOW)
        loader.finish(recovery_point=0, cleaned_until=None, was_clean=was_clean, now_ms=NOW)
        assert loader.log.producers.open_transaction_of(7) == first


def test_producers_that_have_expired_are_not_loaded_open_ones_are(driver: LogDriver) -> None:
    loader = begun(driver.log)
    for segment in driver.log.local.segments:
        loader.load_segment(segment.base_offset, stored(segment), aborted=(), modified_ms=NOW)
    loader.finish(recovery_point=0, cleaned_until=None, was_clean=True, now_ms=NOW + 2 * DAY_MS)
    assert [one.producer_id for one in loader.log.producers.all()] == [7]
