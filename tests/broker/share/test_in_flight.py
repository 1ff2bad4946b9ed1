"""Where the start offset goes, what a moved log start archives, what is read next."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.share_partitions import (
    LOCK_MS,
    SETTINGS,
    STRICT,
    PartitionMember,
    batches_of,
    in_flight_text,
    load_partition,
    offsets,
    persist,
)
from txnsim.errors import ErrorCode, Rejection
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.share._in_flight import InFlightBatches, OffsetGap
from txnsim.share.commands import SharePartitionSettings


def test_nothing_is_in_flight() -> None:
    records = InFlightBatches()
    records.needs_next_offset = True
    assert records.next_fetch_offset() == 0
    assert not records.needs_next_offset
    assert records.offset_count == 0
    assert records.batches_from_floor(0, 9) == []
    assert not records.move_start()


@pytest.mark.parametrize(
    ("gap", "offset", "gap_after"),
    [
        (OffsetGap(3, 9), 5, OffsetGap(5, 9)),
        (OffsetGap(3, 9), 9, OffsetGap(9, 9)),
        (OffsetGap(3, 9), 10, None),
        (OffsetGap(3, 8), 5, None),  # records came behind it
        (None, 5, None),
    ],
)
def test_a_gap_is_shortened_as_far_as_it_reaches(
    gap: OffsetGap | None, offset: int, gap_after: OffsetGap | None
) -> None:
    records = InFlightBatches()
    records.end_offset, records.gap = 9, gap
    records.move_gap(offset)
    assert records.gap == gap_after


@pytest.mark.parametrize(
    ("offset", "must_move_gap", "start_after"),
    [(5, True, 5), (5, False, 3), (2, True, 3), (3, True, 3)],
)
def test_a_log_start_moves_a_gap_that_begins_below_it(
    offset: int, must_move_gap: bool, start_after: int
) -> None:
    records = InFlightBatches()
    records.start_offset, records.end_offset, records.gap = 3, 9, OffsetGap(3, 9)
    records.move_log_start(offset, moves_gap=must_move_gap)
    assert records.gap is not None
    assert records.gap.start_offset == start_after


# The start offset


@pytest.mark.parametrize(
    ("acknowledgement", "start", "end", "complete", "in_flight"),
    [
        ("0-9:1", 10, 29, 0, "10-19 acquired a 1, 20-29 acquired a 1"),
        ("0-3:1", 4, 29, 0, "0-3 acknowledged 1, 4-9 acquired a 1"),
        ("0-12:1", 13, 29, 0, "10-12 acknowledged 1, 13-19 acquired a 1, 20-29 acquired a 1"),
        ("1-9:1", 0, 29, 9, "0-0 acquired a 1, 1-9 acknowledged 1"),
        ("10-19:1", 0, 29, 10, "0-9 acquired a 1, 10-19 acknowledged 1"),
        ("0-29:1", 30, 30, 0, ""),
        ("0-9:3 20-29:1", 10, 29, 10, "10-19 acquired a 1, 20-29 acknowledged 1"),
    ],
)
def test_the_start_offset_moves_behind_what_is_complete(
    acknowledgement: str, start: int, end: int, complete: int, in_flight: str
) -> None:
    partition = load_partition()
    member = PartitionMember(partition)
    member.takes("0-9 10-19 20-29", batch_size=10)
    concluded_write = member.acknowledge(acknowledgement)
    assert concluded_write.wakes_fetches == (start > 0)
    assert offsets(partition) == (start, end, end + (start < end), complete)
    assert in_flight_text(partition).startswith(in_flight)


def test_the_start_offset_waits_for_every_write() -> None:
    partition = load_partition()
    member = PartitionMember(partition)
    member.takes("0-9 10-19", batch_size=10)
    first_write, second_write = member.says("0-9:1"), member.says("10-15:1")
    assert partition.delivery_complete_count == 16
    assert not persist(partition, second_write).wakes_fetches
    assert partition.start_offset == 0
    assert persist(partition, first_write).wakes_fetches
    assert offsets(partition) == (16, 19, 20, 0)


def test_the_start_offset_skips_a_hole_of_the_log() -> None:
    partition = load_partition()
    member = PartitionMember(partition)
    member.fetch("0-9")
    member.fetch("20-29", fetch_offset=10)
    member.acknowledge("0-9:1")
    assert offsets(partition) == (20, 29, 30, 0)


def test_the_start_offset_stops_at_a_gap_that_is_still_to_be_delivered() -> None:
    partition = load_partition("5-9 2 1", "20-24 0 1")
    member = PartitionMember(partition)
    assert partition.start_offset == 0
    assert member.takes("0-4") == "0-4:1"
    member.acknowledge("0-4:1")
    assert offsets(partition) == (5, 24, 10, 5)  # the gap counts from what was acquired of it
    member.takes("10-19")
    member.acknowledge("10-19:1")
    assert offsets(partition) == (20, 24, 20, 0)


def test_a_gap_behind_a_batch_that_ends_in_it() -> None:
    partition = load_partition("0-4 2 1", "8-9 2 1", "12-14 0 1")
    assert offsets(partition) == (5, 14, 5, 2)
    assert in_flight_text(partition) == "8-9 acknowledged 1, 12-14 available 1"


# The log start


def test_a_log_start_that_is_not_new() -> None:
    partition = load_partition(start=5)
    partition.move_log_start(5)
    assert offsets(partition) == (5, 5, 5, 0)
    partition.move_log_start(9)
    assert offsets(partition) == (9, 9, 9, 0)


@pytest.mark.parametrize(
    ("rules", "offset"),
    [
        (LATEST_RULES, 0),
        (msgspec.structs.replace(LATEST_RULES, share_gaps_begin_with_the_log=True), 10),
    ],
)
def test_only_with_a_switch_a_gap_begins_with_the_log(rules: Rules, offset: int) -> None:
    partition = load_partition("5-9 2 1", rules=rules)
    assert partition.next_fetch_offset() == 0
    partition.move_log_start(7)
    assert partition.next_fetch_offset() == offset
    assert offsets(partition)[:2] == (7, 9)


def test_a_log_start_amid_available_and_acquired_and_complete_records() -> None:
    partition = load_partition("0-4 0 1", "5-9 2 1", "10-14 0 1", "15-19 2 1")
    member = PartitionMember(partition)
    assert member.takes("10-14", fetch_offset=10) == "10-14:2"
    assert offsets(partition) == (0, 19, 0, 10)
    partition.move_log_start(12)
    assert offsets(partition) == (12, 19, 20, 5)
    assert in_flight_text(partition) == (
        "0-4 archived 1, 5-9 acknowledged 1, 10-14 acquired a 2, 15-19 acknowledged 1"
    )
    member.acknowledge("10-14:1")
    assert offsets(partition) == (12, 19, 20, 8)
    assert in_flight_text(partition).startswith("10-11 acquired a 2, 12-14 acknowledged 2")
    persist(partition, partition.expire_locks(LOCK_MS, SETTINGS))
    assert offsets(partition) == (20, 20, 20, 0)


def test_a_log_start_cuts_a_batch() -> None:
    partition = load_partition("0-9 0 1", "10-19 0 1")
    partition.move_log_start(3)
    assert offsets(partition) == (3, 19, 3, 0)
    assert in_flight_text(partition) == "0-2 archived 1, 3-9 available 1, 10-19 available 1"
    partition.move_log_start(5)
    assert offsets(partition) == (5, 19, 5, 0)


def test_complete_records_that_a_log_start_cuts_off_are_counted_no_more() -> None:
    partition = load_partition("0-0 0 1", "1-9 2 1")
    partition.move_log_start(5)
    assert offsets(partition) == (5, 9, 10, 5)


def test_a_log_start_behind_all_that_is_in_flight() -> None:
    partition = load_partition()
    member = PartitionMember(partition)
    member.takes("0-9")
    member.acknowledge("5-9:2")
    partition.move_log_start(20)
    assert offsets(partition) == (20, 20, 20, 0)
    assert member.takes("20-29") == "20-29:1"
    assert partition.expire_locks(LOCK_MS - 1, SETTINGS) is None
    # What is still acquired below holds back what is dropped, no offset.
    member.acknowledge("20-29:1")
    assert in_flight_text(partition) == "0-4 acquired a 1, 5-9 archived 1, 20-29 acknowledged 1"
    persist(partition, partition.expire_locks(LOCK_MS, SETTINGS))
    assert offsets(partition) == (30, 30, 30, 0)


def test_the_start_offset_stays_where_the_batch_below_goes_by_offset() -> None:
    """Kafka's broker throws a NullPointerException in this case."""
    partition = load_partition()
    member = PartitionMember(partition)
    member.takes("0-9", most=5, mode=STRICT)
    partition.move_log_start(20)
    write = partition.expire_locks(LOCK_MS, SETTINGS)
    persist(partition, write)
    assert in_flight_text(partition) == "0-4 archived 1, 5-9 archived 0"


def test_dead_letters_are_lost_there() -> None:
    partition = load_partition("0-0 0 4", "1-9 0 1")
    member = PartitionMember(partition, settings=SharePartitionSettings(has_dead_letter_topic=True))
    member.takes("0-0")
    member.takes("1-9", most=5, mode=STRICT)
    member.takes("10-19")
    partition.move_log_start(15)
    write = member.says("10-19:3")
    partition.move_log_start(25)
    assert persist(partition, write).dead_letters == ()


def test_the_start_offset_goes_back_as_in_kafka() -> None:
    """All that is in flight lies below the log start, and is complete. The next read is out of
    range then, and moves the start offset again.
    """
    partition = load_partition()
    PartitionMember(partition).takes("0-9")
    partition.move_log_start(20)
    persist(partition, partition.expire_locks(LOCK_MS, SETTINGS))
    assert offsets(partition) == (10, 10, 10, 0)
    partition.move_log_start(20)
    assert offsets(partition) == (20, 20, 20, 0)


@pytest.mark.parametrize("error", [0, 15])
def test_a_release_that_the_log_start_overtakes_as_in_kafka(error: int) -> None:
    """Each fetch acquires the batch's next record without delivering it, until the lock expires."""
    partition = load_partition()
    member = PartitionMember(partition)
    member.takes("0-9")
    write = member.says("0-9:2")
    partition.move_log_start(5)
    assert in_flight_text(partition) == "0-4 archived 1, 5-9 available 1"
    persist(partition, write, error=error)
    assert partition.expire_locks(LOCK_MS, SETTINGS) is None
    for now_ms in (LOCK_MS, LOCK_MS + 1):
        assert member.fetch("0-9", now_ms=now_ms) == Rejection(
            error=ErrorCode.unknown_server_error,
            reason="Existing acquisition lock timeout exists, cannot override.",
        )
    assert (
        in_flight_text(partition)
        == "0-4 archived 1, 5-5 acquired a 2, 6-6 acquired a 2, 7-9 available 1"
    )
    assert batches_of(partition.expire_locks(2 * LOCK_MS, SETTINGS)) == "5-5 0 2"
    assert member.takes("0-9", most=1, mode=STRICT, now_ms=2 * LOCK_MS) == "5-5:3"


def test_a_lock_that_was_kept_runs_out_once() -> None:
    partition = load_partition()
    member = PartitionMember(partition)
    member.takes("0-9")
    write = member.says("0-9:2")
    partition.move_log_start(9)
    member.fetch("0-9")
    second_write = member.says("9-9:2")
    persist(partition, write)
    assert in_flight_text(partition) == "0-8 archived 1, 9-9 available 2 ..."
    persist(partition, second_write, error=15)
    assert batches_of(partition.expire_locks(LOCK_MS, SETTINGS)) == "9-9 0 2"


def test_an_acknowledgement_that_the_log_start_overtakes_is_taken_back() -> None:
    partition = load_partition()
    member = PartitionMember(partition)
    member.takes("0-9")
    write = member.says("0-9:1")
    assert partition.delivery_complete_count == 10
    partition.move_log_start(5)
    assert partition.delivery_complete_count == 5
    persist(partition, write, error=15)
    assert offsets(partition) == (5, 9, 10, 0)
