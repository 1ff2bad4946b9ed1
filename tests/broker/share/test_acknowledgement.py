"""What a member may say of which records, in which words it is refused, and what is persisted."""

from __future__ import annotations

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
from txnsim.share._acknowledgement import STATE_AFTER
from txnsim.share.commands import (
    NULL_POINTER_REJECTION,
    AcknowledgeType,
    DeadLetterReason,
    RecordState,
    SharePartitionSettings,
    StateWrite,
)
from txnsim.share.partition import SharePartition

NOT_ACQUIRED = "The batch cannot be acknowledged. The batch is not in the acquired state."
NOT_ACQUIRED_OFFSET = "The offset cannot be acknowledged. The offset is not acquired."
NO_BATCH = "Batch record not found. The request batch offsets are not found in the cache."
PAST_FIRST = "Batch record not found. The first offset in request is past acquired records."
PAST_LAST = "Batch record not found. The last offset in request is past acquired records."
STATE = ErrorCode.invalid_record_state
REQUEST = ErrorCode.invalid_request


def two() -> tuple[SharePartition, PartitionMember, PartitionMember]:
    """A share partition in which a has acquired ``0-9`` and b ``20-29``."""
    partition = load_partition()
    a, b = PartitionMember(partition), PartitionMember(partition, "b")
    a.fetch("0-9")
    b.fetch("20-29")
    return partition, a, b


@pytest.mark.parametrize("acknowledge_type", [0, 1, 2, 3])
@pytest.mark.parametrize("offset_range", ["0-9", "3-5"])
def test_each_type_moves_records(offset_range: str, acknowledge_type: int) -> None:
    partition, a, _ = two()
    state_after = STATE_AFTER[acknowledge_type]
    write = a.says(f"{offset_range}:{acknowledge_type}")
    assert batches_of(write) == f"{offset_range} {state_after:d} 1"
    assert f"{offset_range} {state_after.name.lower()} 1 ..." in in_flight_text(partition)
    persist(partition, write)
    if offset_range == "0-9" and state_after is not RecordState.AVAILABLE:
        assert offsets(partition) == (20, 29, 30, 0)
    else:
        assert f"{offset_range} {state_after.name.lower()} 1" in in_flight_text(partition)
        assert "..." not in in_flight_text(partition)
        assert partition.start_offset == 0


def test_a_type_for_each_offset() -> None:
    partition, a, _ = two()
    write = a.says("0-9:1,1,0,0,2,2,3,1,1,1")
    assert batches_of(write) == "0-1 2 1, 2-3 4 1, 4-5 0 1, 6-6 4 1, 7-9 2 1"
    assert isinstance(write, StateWrite)
    assert (write.state.start_offset, write.state.delivery_complete_count) == (0, 8)
    assert (write.state.state_epoch, write.state.leader_epoch) == (7, 3)
    persist(partition, write)
    assert offsets(partition) == (4, 29, 4, 4)


def test_acknowledged_in_one_go_over_a_hole() -> None:
    partition = load_partition()
    a = PartitionMember(partition)
    a.fetch("0-9")
    a.fetch("20-29")
    assert batches_of(a.says("0-29:1")) == "0-9 2 1, 20-29 2 1"


@pytest.mark.parametrize(
    ("acknowledgement", "by", "error", "reason"),
    [
        ("0-9:5", "a", REQUEST, "Invalid acknowledge type: [5]"),
        ("0-9:1,-1,1", "a", REQUEST, "Invalid acknowledge type: [1, -1, 1]"),
        ("0-9:1,1", "a", REQUEST, "Invalid acknowledge type: [1, 1]"),
        ("0-9:", "a", REQUEST, "Invalid acknowledge type: []"),
        ("12-15:1", "a", REQUEST, PAST_FIRST),
        ("0-15:1", "a", REQUEST, PAST_LAST),
        ("0-30:1", "a", REQUEST, PAST_LAST),
        ("20-29:1", "a", STATE, "Member is not the owner of batch record"),
        ("20-22:1", "a", STATE, "Member is not the owner of batch record"),
        ("0-29:1", "a", STATE, "Member is not the owner of batch record"),
        ("0-5:1 0-9:1", "a", STATE, NOT_ACQUIRED_OFFSET),
        ("0-9:1 0-9:1", "a", STATE, NOT_ACQUIRED),
        ("0-9:1 3-3:1", "a", STATE, NOT_ACQUIRED),
    ],
)
def test_refusals(acknowledgement: str, by: str, error: ErrorCode, reason: str) -> None:
    partition, a, b = two()
    shown_before = in_flight_text(partition)
    member = a if by == "a" else b
    assert member.says(acknowledgement) == Rejection(error=error, reason=reason)
    assert in_flight_text(partition).replace("0-5 acquired a 1, 6-9", "0-9") == shown_before
    assert partition.delivery_complete_count == 0


def test_a_record_of_somebody_else_in_a_batch_that_goes_by_offset() -> None:
    partition = load_partition()
    a, b = PartitionMember(partition), PartitionMember(partition, "b")
    a.fetch("0-9", most=5, mode=STRICT)
    b.fetch("0-9")
    assert a.says("0-9:1") == Rejection(error=STATE, reason="Member is not the owner of offset")
    assert in_flight_text(partition) == "0-4 acquired a 1, 5-9 acquired b 1"


def test_nothing_is_in_flight_there() -> None:
    partition = load_partition(start=10)
    a = PartitionMember(partition)
    a.fetch("20-29")
    assert partition.start_offset == 20
    a.acknowledge("20-20:2")
    partition = load_partition("25-29 0 1", start=10)
    assert PartitionMember(partition).says("12-15:1") == Rejection(error=STATE, reason=NO_BATCH)

    assert PartitionMember(partition).says("5-15:1") is NULL_POINTER_REJECTION


def test_below_the_start_offset_nothing_is_left_to_say() -> None:
    partition, a, _ = two()
    partition.move_log_start(5)
    assert a.says("0-4:1") is None
    assert batches_of(a.says("0-9:1")) == "5-9 2 1"
    assert partition.delivery_complete_count == 5
    partition.move_log_start(15)
    assert a.says("0-9:1") is None


def test_a_range_that_begins_below_the_first_batch() -> None:
    partition = load_partition(start=5)
    a = PartitionMember(partition)
    a.fetch("0-9")
    assert batches_of(a.says("0-9:1")) == "5-9 2 1"


def test_what_lies_in_front_of_the_start_offset_is_skipped() -> None:
    partition = load_partition()
    a = PartitionMember(partition)
    a.fetch("0-9 10-19", batch_size=10)
    partition.move_log_start(10)
    assert batches_of(a.says("0-19:1")) == "10-19 2 1"


def test_a_batch_that_lies_wholly_below_the_start_offset_is_skipped() -> None:
    partition = load_partition()
    a = PartitionMember(partition)
    a.fetch("0-9")
    a.fetch("20-29")
    partition.move_log_start(15)
    assert batches_of(a.says("0-29:1")) == "20-29 2 1"


# Renewal


@pytest.mark.parametrize("acknowledgement", ["0-9:4", "0-4:4", "0-9:4,4,4,4,4,4,4,4,4,4"])
def test_a_lock_is_renewed(acknowledgement: str) -> None:
    partition, a, _ = two()
    assert a.says(acknowledgement, now_ms=100) is None
    expired_write = partition.expire_locks(LOCK_MS, SETTINGS)
    renewed = acknowledgement.partition(":")[0]
    assert expired_write is not None
    assert renewed not in batches_of(expired_write)
    assert renewed in batches_of(partition.expire_locks(LOCK_MS + 100, SETTINGS))


@pytest.mark.parametrize("acknowledgement", ["0-9:4", "0-4:4"])
def test_renewal_can_be_switched_off(acknowledgement: str) -> None:
    partition, a, _ = two()
    a.settings = SharePartitionSettings(is_renew_enabled=False)
    reason = "Renewing acquisition locks is not enabled for the group."
    assert a.says(acknowledgement) == Rejection(error=STATE, reason=reason)
    assert a.says("20-29:1 0-9:1") is not None
    assert "0-" in in_flight_text(partition)


def test_a_renewal_before_a_refusal_stays() -> None:
    partition, a, _ = two()
    assert isinstance(a.says("0-4:4 20-29:1", now_ms=100), Rejection)
    assert batches_of(partition.expire_locks(LOCK_MS, SETTINGS)) == "5-9 0 1, 20-29 0 1"


def test_renewals_do_not_pile_up() -> None:
    partition = load_partition()
    a = PartitionMember(partition)
    a.fetch("0-9")
    for now_ms in range(1, 200):
        assert a.says("0-9:4", now_ms=now_ms) is None
    deadline_ms = partition.next_lock_deadline_ms()
    assert deadline_ms is not None
    assert deadline_ms > LOCK_MS + 60
    assert batches_of(partition.expire_locks(LOCK_MS + 199, SETTINGS)) == "0-9 0 1"


# Dead letters (4.4)


@pytest.mark.parametrize(
    ("acknowledge_type", "delivery_count", "state", "reason"),
    [
        (AcknowledgeType.REJECT, 1, RecordState.ARCHIVING, DeadLetterReason.REJECTED),
        (AcknowledgeType.RELEASE, 1, RecordState.AVAILABLE, None),
        (AcknowledgeType.RELEASE, 5, RecordState.ARCHIVING, DeadLetterReason.TOO_MANY_DELIVERIES),
        (AcknowledgeType.REJECT, 5, RecordState.ARCHIVING, DeadLetterReason.REJECTED),
        (AcknowledgeType.GAP, 1, RecordState.ARCHIVED, None),
        (AcknowledgeType.ACCEPT, 5, RecordState.ACKNOWLEDGED, None),
    ],
)
def test_what_goes_to_the_dead_letters(
    acknowledge_type: int, delivery_count: int, state: RecordState, reason: DeadLetterReason | None
) -> None:
    partition = load_partition(f"0-0 0 {delivery_count - 1}", "5-9 0 1")
    a = PartitionMember(partition, settings=SharePartitionSettings(has_dead_letter_topic=True))
    assert a.takes("0-0") == f"0-0:{delivery_count}"
    concluded_write = a.acknowledge(f"0-0:{acknowledge_type}")
    assert [dead_letter.reason for dead_letter in concluded_write.dead_letters] == (
        [reason] if reason else []
    )
    if state is RecordState.ARCHIVING:
        assert in_flight_text(partition).startswith(f"0-0 archiving {delivery_count}")
