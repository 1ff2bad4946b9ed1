"""Which records a member acquires, step by step as SharePartition of Apache Kafka 4.4 does it."""

from __future__ import annotations

import pytest

from tests.support.share_partitions import (
    LOCK_MS,
    SETTINGS,
    STRICT,
    PartitionMember,
    in_flight_text,
    load_partition,
    offsets,
    persist,
)
from txnsim.errors import ErrorCode, Rejection
from txnsim.share._acquisition import acquire
from txnsim.share._in_flight import InFlightBatches
from txnsim.share.commands import (
    AbortedRange,
    AcquireCommand,
    AcquireMode,
    AcquireResult,
    ReadBatch,
    SharePartitionSettings,
)
from txnsim.share.partition import SharePartition

BATCHES = AcquireMode.BATCH_OPTIMIZED


def release_records(
    batches: str, count: int, *, limit: int = 5
) -> tuple[SharePartition, PartitionMember]:
    """A share partition whose records were delivered and released ``count`` times."""
    member = PartitionMember(
        load_partition(), settings=SharePartitionSettings(delivery_count_limit=limit)
    )
    for _ in range(count):
        for offset_range in batches.split():
            member.fetch(offset_range)
        for offset_range in batches.split():
            member.acknowledge(f"{offset_range}:2")
    return member.partition, member


# New records


@pytest.mark.parametrize(
    ("batches", "most_records", "batch_size", "mode", "expected_ranges", "in_flight"),
    [
        ("0-9", 500, 500, BATCHES, "0-9:1", "0-9 acquired a 1"),
        # A batch of the log is given whole, beyond the limit.
        ("0-9 10-19", 5, 500, BATCHES, "0-9:1", "0-9 acquired a 1"),
        ("0-9 10-19", 10, 500, BATCHES, "0-9:1", "0-9 acquired a 1"),
        ("0-9 10-19", 11, 500, BATCHES, "0-19:1", "0-19 acquired a 1"),
        # Ranges of new records are cut between batches of the log.
        (
            *("0-9 10-19 20-24", 500, 10, BATCHES, "0-9:1 10-19:1 20-24:1"),
            "0-9 acquired a 1, 10-19 acquired a 1, 20-24 acquired a 1",
        ),
        (
            *("0-9 10-19 20-24", 500, 11, BATCHES, "0-19:1 20-24:1"),
            "0-19 acquired a 1, 20-24 acquired a 1",
        ),
        (
            *("0-9 10-19 20-24", 15, 10, BATCHES, "0-9:1 10-19:1"),
            "0-9 acquired a 1, 10-19 acquired a 1",
        ),
        # One record too many is enough, and as many as the batch size are not.
        ("0-1 2-2", 500, 2, BATCHES, "0-1:1 2-2:1", "0-1 acquired a 1, 2-2 acquired a 1"),
        ("0-0 1-1", 500, 2, BATCHES, "0-1:1", "0-1 acquired a 1"),
        # Below a batch size of 1, the answer begins with a range of nothing.
        (
            "0-9 10-19",
            500,
            0,
            BATCHES,
            "0--1:1 0-9:1 10-19:1",
            "0-9 acquired a 1, 10-19 acquired a 1",
        ),
        # With the limit kept, the rest of the batch is in flight, and available.
        ("0-9 10-19", 5, 2, STRICT, "0-4:1", "0-4 acquired a 1, 5-9 available 0"),
        ("0-9 10-19", 10, 2, STRICT, "0-9:1", "0-9 acquired a 1"),
        ("0-9 10-19", 20, 2, STRICT, "0-19:1", "0-19 acquired a 1"),
        # The log has nothing between: the limit falls into no batch.
        ("0-4 8-9", 7, 500, BATCHES, "0-6:1", "0-6 acquired a 1"),
        ("5-9", 500, 500, BATCHES, "5-9:1", "5-9 acquired a 1"),
        ("", 500, 500, BATCHES, "", ""),
        ("0-9", 0, 500, BATCHES, "", ""),
    ],
)
def test_new_records(
    batches: str,
    most_records: int,
    batch_size: int,
    mode: AcquireMode,
    expected_ranges: str,
    in_flight: str,
) -> None:
    partition = load_partition()
    member = PartitionMember(partition)
    assert (
        member.takes(batches, most=most_records, batch_size=batch_size, mode=mode)
        == expected_ranges
    )
    assert in_flight_text(partition) == in_flight


def test_the_rest_of_a_batch_is_next() -> None:
    partition = load_partition()
    assert PartitionMember(partition).takes("0-9", most=5, mode=STRICT) == "0-4:1"
    assert offsets(partition) == (0, 9, 5, 0)
    assert PartitionMember(partition, "b").takes("0-9", most=3, mode=STRICT) == "5-7:1"
    assert (
        PartitionMember(partition, "b").takes("0-9 10-19", most=3, mode=STRICT) == "8-9:1 10-10:1"
    )
    assert offsets(partition) == (0, 19, 11, 0)


def test_the_first_batch_that_was_read_begins_below_the_start_offset() -> None:
    partition = load_partition(start=5)
    assert PartitionMember(partition).takes("0-9") == "5-9:1"


def test_a_start_offset_in_a_hole_of_the_log_moves_to_the_first_record() -> None:
    partition = load_partition(start=5)
    assert PartitionMember(partition).takes("8-9") == "8-9:1"
    assert offsets(partition) == (8, 9, 10, 0)


def test_records_below_the_start_offset_where_older_ones_are_held_as_in_kafka() -> None:
    """Kafka looks at the start offset only where nothing in flight lies below what was read.

    What is left of the batch is next, below the log start: reads are out of range from then on.
    """
    partition = load_partition()
    PartitionMember(partition).takes("0-4")
    partition.move_log_start(7)
    assert PartitionMember(partition, "b").takes("5-9", most=1, mode=STRICT) == "5-5:1"
    assert in_flight_text(partition) == "0-4 acquired a 1, 5-5 acquired b 1, 6-9 available 0"
    partition.move_log_start(7)
    assert offsets(partition) == (7, 9, 6, 0)


def test_what_was_read_lies_below_the_start_offset() -> None:
    assert PartitionMember(load_partition(start=10)).takes("0-9") == ""


def test_nothing_is_acquired_before_it_is_loaded() -> None:
    partition = load_partition()
    partition.fence()
    assert PartitionMember(partition).takes("0-9") == ""


@pytest.mark.parametrize(("base_offset", "first_offset"), [(0, 3), (4, 4)])
def test_new_records_begin_at_the_end_offset_while_nothing_is_in_flight(
    base_offset: int, first_offset: int
) -> None:
    records = InFlightBatches()
    records.end_offset = 3
    command = AcquireCommand(
        member_id="a",
        batch_size=9,
        max_records=9,
        fetch_offset=base_offset,
        batches=(ReadBatch(base_offset=base_offset, last_offset=5),),
    )
    acquisition = acquire(records, command, SETTINGS, 0)
    assert isinstance(acquisition, AcquireResult)
    assert [
        (acquired_range.first_offset, acquired_range.last_offset)
        for acquired_range in acquisition.ranges
    ] == [(first_offset, 5)]
    assert records.start_offset == first_offset


# Records in flight


@pytest.mark.parametrize(
    ("batches", "most_records", "mode", "expected_ranges"),
    [
        ("0-9", 500, BATCHES, "0-9:2"),
        ("0-9", 3, BATCHES, "0-9:2"),
        ("0-9 10-19", 500, BATCHES, "0-9:2 10-19:1"),
        ("0-9 10-19", 10, BATCHES, "0-9:2"),
        ("0-9", 3, STRICT, "0-2:2"),
        ("0-9 10-19", 13, STRICT, "0-9:2 10-12:1"),
        ("5-9", 500, BATCHES, "5-9:2"),  # compaction took the first half
    ],
)
def test_records_that_are_available_again(
    batches: str, most_records: int, mode: AcquireMode, expected_ranges: str
) -> None:
    _, member = release_records("0-9", 1)
    assert member.takes(batches, most=most_records, mode=mode) == expected_ranges


def test_a_batch_beyond_the_limit_is_left_to_others() -> None:
    partition = load_partition("0-9 0 1", "10-19 0 1")
    assert PartitionMember(partition).takes("0-9 10-19", most=5) == "0-9:2"
    assert PartitionMember(partition, "b").takes("0-9 10-19", most=5, fetch_offset=0) == "10-19:2"


def test_records_of_others_are_left_out() -> None:
    partition = load_partition()
    assert PartitionMember(partition, "b").takes("0-4") == "0-4:1"
    other_member = PartitionMember(partition)
    assert other_member.takes("0-4 5-9", fetch_offset=0) == "5-9:1"
    assert other_member.takes("0-4 5-9", fetch_offset=0) == ""
    assert other_member.takes("1-2", fetch_offset=1) == ""


def test_neighbours_with_one_delivery_count_are_one_range() -> None:
    partition, member = release_records("0-9", 1)
    member.takes("0-9", most=2, mode=STRICT)
    assert member.takes("0-9", most=2, mode=STRICT, fetch_offset=0) == "2-3:2"
    member.acknowledge("0-0:2 1-1:2 2-2:2 3-3:1")
    assert member.takes("0-9") == "0-2:3 4-9:2"
    assert in_flight_text(partition).startswith(
        "0-0 acquired a 3, 1-1 acquired a 3, 2-2 acquired a 3, "
    )


def test_available_records_that_the_log_has_lost_are_archived() -> None:
    partition, member = release_records("0-9 10-19", 1)
    assert member.takes("15-19", fetch_offset=5) == "15-19:2"
    assert in_flight_text(partition) == (
        "0-4 available 1, 5-9 archived 1, 10-14 archived 1, 15-19 acquired a 2"
    )
    assert partition.delivery_complete_count == 10


def test_a_hole_below_the_first_batch_that_is_not_in_flight() -> None:
    partition = load_partition("0-4 0 1", "10-14 0 1")
    assert PartitionMember(partition).takes("12-14", fetch_offset=7) == "12-14:2"
    assert partition.delivery_complete_count == 2


def test_acquired_records_that_the_log_has_lost_stay_acquired() -> None:
    partition = load_partition()
    assert PartitionMember(partition, "b").takes("0-9") == "0-9:1"
    assert PartitionMember(partition).takes("20-29", fetch_offset=5) == "20-29:1"
    assert in_flight_text(partition) == "0-9 acquired b 1, 20-29 acquired a 1"


# The limit of locks


def test_without_a_lock_only_records_in_flight_are_given() -> None:
    settings = SharePartitionSettings(max_record_locks=10)
    partition = load_partition()
    member = PartitionMember(partition, settings=settings)
    assert member.takes("0-9 10-19") == "0-9:1"
    assert not partition.can_acquire(settings)
    assert member.takes("10-19") == ""
    member.acknowledge("5-9:2")
    assert partition.can_acquire(settings)
    assert member.takes("0-9 10-19") == "5-9:2"


def test_a_range_that_ends_before_it_begins_is_an_error_as_in_kafka() -> None:
    settings = SharePartitionSettings(max_record_locks=10)
    member = PartitionMember(load_partition(), settings=settings)
    assert member.takes("0-9") == "0-9:1"
    member.acknowledge("5-9:2")
    assert member.fetch("20-29") == Rejection(
        error=ErrorCode.unknown_server_error, reason="inconsistent range"
    )


# Near the delivery count limit


@pytest.mark.parametrize(
    ("limit", "delivery_count", "expected_ranges"),
    [
        (5, 2, "0-99:3 100-109:3"),  # from 3 on: max(2, ceil(5 / 2))
        (5, 3, "0-49:4"),
        (5, 4, "0-0:5"),  # alone
        (10, 4, "0-99:5 100-109:5"),
        (10, 5, "0-49:6"),
        (10, 6, "0-24:7"),
        (10, 8, "0-5:9"),
        (10, 9, "0-0:10"),
        (2, 1, "0-99:2 100-109:2"),  # so low a limit isolates nothing
        (3, 1, "0-99:2 100-109:2"),
        (3, 2, "0-0:3"),
    ],
)
def test_fewer_records_are_delivered_near_the_limit(
    limit: int, delivery_count: int, expected_ranges: str
) -> None:
    _, member = release_records("0-99 100-109", 0, limit=limit)
    member.partition = load_partition(f"0-99 0 {delivery_count}", f"100-109 0 {delivery_count}")
    assert member.takes("0-99 100-109") == expected_ranges


def test_a_batch_near_the_limit_waits_for_a_fetch_of_its_own() -> None:
    partition = load_partition("0-9 0 1", "10-19 0 4", "20-29 0 1")
    member = PartitionMember(partition)
    assert member.takes("0-9 10-19 20-29") == "0-9:2"
    assert member.takes("0-9 10-19 20-29") == "10-10:5"
    assert member.takes("0-9 10-19 20-29") == "11-11:5"


def test_a_record_in_its_last_delivery_ends_what_is_taken_before_it() -> None:
    partition = load_partition("0-9 0 1")
    member = PartitionMember(partition)
    assert member.takes("0-9", most=1, mode=STRICT) == "0-0:2"
    settings = SharePartitionSettings(delivery_count_limit=3)
    late_member = PartitionMember(partition, settings=settings)
    member.acknowledge("0-0:2")
    assert in_flight_text(partition) == "0-0 available 2, 1-9 available 1"
    assert late_member.takes("0-9") == "0-0:3"
    assert late_member.takes("0-9") == "1-9:2"
    late_member.acknowledge("1-1:1 2-2:2 3-9:1")
    assert late_member.takes("1-9") == "2-2:3"
    partition = load_partition("0-4 0 1", "5-9 0 1")
    assert PartitionMember(partition, settings=settings).takes("0-4 5-9") == "0-4:2 5-9:2"


def test_a_record_in_its_last_delivery_waits_for_a_fetch_of_its_own() -> None:
    partition = load_partition("0-9 0 1")
    member = PartitionMember(partition, settings=SharePartitionSettings(delivery_count_limit=3))
    assert member.takes("5-9", fetch_offset=5, most=1, mode=STRICT) == "5-5:2"
    member.acknowledge("5-5:2")
    assert member.takes("0-9") == "0-4:2"
    assert member.takes("0-9") == "5-5:3"
    assert member.takes("0-9") == "6-9:2"


def test_a_throttle_that_comes_too_late_holds_nothing_back() -> None:
    """Kafka ends at exactly the throttled number, and by then more were taken."""
    partition = load_partition("0-9 0 1")
    member = PartitionMember(partition, settings=SharePartitionSettings(delivery_count_limit=10))
    assert member.takes("0-9", most=9, mode=STRICT) == "0-8:2"
    member.acknowledge("0-7:2 8-8:2")
    for _ in range(5):
        assert member.takes("8-8", fetch_offset=8)
        member.acknowledge("8-8:2")
    assert in_flight_text(partition) == "0-7 available 2, 8-8 available 7, 9-9 available 1"
    assert member.takes("0-9", fetch_offset=0) == "0-7:3 8-8:8 9-9:2"


# Gaps of the persisted state


def test_offsets_that_the_persisted_state_leaves_out_are_delivered() -> None:
    partition = load_partition("5-9 2 1", "15-19 0 1")
    member = PartitionMember(partition)
    assert offsets(partition) == (0, 19, 0, 5)
    assert member.takes("0-9 10-19 20-29") == "0-4:1 10-14:1 15-19:2 20-29:1"
    assert offsets(partition) == (0, 29, 30, 5)


@pytest.mark.parametrize(
    ("most_records", "expected_ranges", "next_offset"),
    [
        (3, "0-4:1", 10),
        (5, "0-4:1", 10),
        (6, "0-4:1 10-14:1", 15),
        (10, "0-4:1 10-14:1", 15),
        (11, "0-4:1 10-14:1 15-19:2", 20),
    ],
)
def test_a_limit_falls_into_a_gap(
    most_records: int, expected_ranges: str, next_offset: int
) -> None:
    partition = load_partition("5-9 2 1", "15-19 0 1")
    assert PartitionMember(partition).takes("0-9 10-19 20-29", most=most_records) == expected_ranges
    assert partition.next_fetch_offset() == next_offset


def test_the_limit_is_kept_in_a_gap() -> None:
    partition = load_partition("5-9 2 1", "15-19 0 1")
    member = PartitionMember(partition)
    assert member.takes("0-9", most=2, mode=STRICT) == "0-1:1"
    assert in_flight_text(partition) == (
        "0-1 acquired a 1, 2-4 available 0, 5-9 acknowledged 1, 15-19 available 1"
    )
    assert member.takes("0-9", most=9, mode=STRICT) == "2-4:1"
    assert partition.next_fetch_offset() == 10


def test_a_gap_is_read_in_parts() -> None:
    partition = load_partition("20-29 0 1")
    member = PartitionMember(partition)
    assert member.takes("0-9") == "0-9:1"
    assert partition.next_fetch_offset() == 10
    assert member.takes("10-19") == "10-19:1"
    assert partition.next_fetch_offset() == 20


def test_new_records_end_the_gap() -> None:
    """The end offset is no longer the one that was read: what was left out is not looked for."""
    partition = load_partition("5-9 0 1")
    assert PartitionMember(partition).takes("20-29", fetch_offset=10) == "20-29:1"
    assert partition.next_fetch_offset() == 5
    assert PartitionMember(partition).takes("5-9") == "5-9:2"
    assert partition.next_fetch_offset() == 30


# Aborted transactions

A_AND_B = (
    ReadBatch(base_offset=0, last_offset=4, producer_id=1, is_transactional=True),
    ReadBatch(base_offset=5, last_offset=9, producer_id=2, is_transactional=True),
    ReadBatch(base_offset=10, last_offset=10, producer_id=1, is_abort_marker=True),
    ReadBatch(base_offset=11, last_offset=14, producer_id=1, is_transactional=True),
    ReadBatch(base_offset=15, last_offset=19),
    ReadBatch(base_offset=20, last_offset=20, producer_id=2, is_transactional=True),
)


@pytest.mark.parametrize(
    ("aborted", "expected_ranges"),
    [
        ((), "0-20"),
        ((AbortedRange(1, 0),), "5-20"),
        ((AbortedRange(2, 5),), "0-4 10-19"),
        ((AbortedRange(2, 5), AbortedRange(1, 0)), "10-19"),
        ((AbortedRange(1, 11),), "0-10 15-20"),
        ((AbortedRange(3, 0),), "0-20"),
    ],
)
def test_records_of_aborted_transactions_are_not_acquired(
    aborted: tuple[AbortedRange, ...], expected_ranges: str
) -> None:
    partition = load_partition()
    acquired = PartitionMember(partition).fetch(A_AND_B, aborted=aborted)
    assert isinstance(acquired, AcquireResult)
    ranges = [
        f"{acquired_range.first_offset}-{acquired_range.last_offset}"
        for acquired_range in acquired.ranges
    ]
    number = 21 - partition.delivery_complete_count
    assert (" ".join(ranges), acquired.count) == (expected_ranges, number)


def test_below_a_batch_size_of_1_the_range_of_nothing_stays_beside_aborted_records() -> None:
    member = PartitionMember(load_partition())
    acquired = member.fetch(A_AND_B[:2], batch_size=0, aborted=(AbortedRange(1, 0),))
    assert isinstance(acquired, AcquireResult)
    ranges = [
        (acquired_range.first_offset, acquired_range.last_offset)
        for acquired_range in acquired.ranges
    ]
    assert (ranges, acquired.count) == ([(0, -1), (5, 9)], 5)


def test_aborted_records_are_archived_and_hold_locks_until_something_is_acknowledged() -> None:
    """If the limit is below the size of an aborted transaction, the group makes no progress."""
    settings = SharePartitionSettings(max_record_locks=5)
    partition = load_partition()
    member = PartitionMember(partition, settings=settings)
    assert member.fetch(A_AND_B[:1], aborted=(AbortedRange(1, 0),)) == AcquireResult()
    assert in_flight_text(partition) == "0-4 archived 1"
    assert not partition.can_acquire(settings)
    assert partition.next_lock_deadline_ms() == LOCK_MS
    assert partition.expire_locks(LOCK_MS, settings) is None


def test_an_aborted_batch_reaches_over_two_ranges() -> None:
    partition = load_partition()
    batch = ReadBatch(base_offset=0, last_offset=9, producer_id=1, is_transactional=True)
    member = PartitionMember(partition)
    member.fetch("0-9 10-12")
    member.acknowledge("0-3:2 4-5:1 6-12:2")
    acquired = member.fetch((batch, *A_AND_B[2:3]), aborted=(AbortedRange(1, 0),))
    assert isinstance(acquired, AcquireResult)
    assert acquired.count == 1
    assert in_flight_text(partition) == (
        "0-3 archived 2, 4-5 acknowledged 1, 6-9 archived 2, 10-10 acquired a 2, 11-12 available 1"
    )


def test_a_start_offset_inside_of_an_aborted_batch_fails_the_fetch_as_in_kafka() -> None:
    partition = load_partition(start=2)
    assert PartitionMember(partition).fetch(
        A_AND_B[:2], aborted=(AbortedRange(1, 0),)
    ) == Rejection(
        error=ErrorCode.unknown_server_error,
        reason="Batch record not found. The request batch offsets are not found in the cache.",
    )
    assert in_flight_text(partition) == "2-9 acquired a 1"


def test_what_is_being_persisted_is_not_acquired() -> None:
    partition = load_partition()
    member = PartitionMember(partition)
    member.fetch("0-9")
    write = member.says("0-9:2")
    assert member.takes("0-9", fetch_offset=0) == ""
    persist(partition, write)
    assert member.takes("0-9") == "0-9:2"
