"""A share partition as its owner sees it: phases, loading, locks, writes and their answers."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.share_partitions import (
    KEY,
    LOCK_MS,
    SETTINGS,
    STRICT,
    PartitionMember,
    batches_of,
    in_flight_text,
    load_partition,
    new_partition,
    offsets,
    persist,
)
from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.share_state import ReadShareState, ShareState, StateBatch
from txnsim.releases.rules import LATEST_RULES
from txnsim.share.commands import (
    ConcludedWrite,
    DeadLetter,
    DeadLetterReason,
    SharePartitionSettings,
)
from txnsim.share.partition import FENCING_ERRORS, Phase, member_error

STATE_KEY = "group-topic-id:orders-0"
UNKNOWN = ErrorCode.unknown_server_error
DEAD = SharePartitionSettings(has_dead_letter_topic=True)


def test_it_has_a_key_for_its_share_coordinator() -> None:
    assert KEY.coordinator_key == "group:topic-id:0"


# Phases


@pytest.mark.parametrize(
    ("phase", "error", "reason"),
    [
        (Phase.INITIALIZING, "leader_not_available", "is already initializing"),
        (Phase.FENCED, "leader_not_available", "is fenced"),
        (Phase.FAILED, "unknown_server_error", "failed to load"),
    ],
)
def test_who_asks_for_what_is_not_to_be_had(phase: Phase, error: str, reason: str) -> None:
    partition = new_partition()
    partition.phase = phase
    rejection = Rejection(error=ErrorCode[error], reason=f"Share partition {reason} {STATE_KEY}")
    assert partition.start_loading() == rejection
    assert not partition.take_fetch_lock("fetch")


def test_it_is_loaded_once() -> None:
    partition = new_partition()
    assert partition.start_loading() == ReadShareState(key=KEY, leader_epoch=3)
    assert partition.phase is Phase.INITIALIZING
    assert partition.load(ShareState(key=KEY, state_epoch=2), 40, SETTINGS) == ()
    assert partition.start_loading() is None
    assert offsets(partition) == (40, 40, 40, 0)
    assert (partition.state_epoch, partition.in_flight_count, partition.in_flight_batch_count) == (
        *(2, 0, 0),
    )
    assert partition.next_lock_deadline_ms() is None


def test_it_is_loaded_with_records() -> None:
    partition = load_partition("5-9 2 1", "10-14 0 3", "20-24 4 5", start=5)
    assert offsets(partition) == (10, 24, 10, 5)
    assert (partition.in_flight_count, partition.in_flight_batch_count) == (15, 2)


def test_all_that_it_is_loaded_with_is_complete() -> None:
    assert offsets(load_partition("5-9 2 1", "10-14 4 3", start=5)) == (15, 15, 15, 0)


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (StateBatch(4, 9, 0, 1), f"Failed to initialize the share partition {STATE_KEY}"),
        (StateBatch(9, 8, 0, 1), f"Failed to initialize the share partition {STATE_KEY}"),
        (StateBatch(5, 9, 7, 1), "Unknown record state id: 7"),
    ],
)
def test_it_fails_on_a_state_that_can_not_be(batch: StateBatch, reason: str) -> None:
    partition = new_partition()
    partition.start_loading()
    answer = partition.load(ShareState(key=KEY, start_offset=5, batches=(batch,)), -1, SETTINGS)
    assert answer == Rejection(error=UNKNOWN, reason=reason)
    assert partition.phase is Phase.FAILED


@pytest.mark.parametrize(
    ("error", "error_heard", "reason"),
    [
        ("not_coordinator", "coordinator_not_available", "text"),
        ("coordinator_not_available", "coordinator_not_available", "text"),
        ("coordinator_load_in_progress", "coordinator_not_available", "text"),
        ("group_id_not_found", "group_id_not_found", "text"),
        ("unknown_topic_or_partition", "unknown_topic_or_partition", "text"),
        ("fenced_leader_epoch", "not_leader_or_follower", "text"),
        ("fenced_state_epoch", "not_leader_or_follower", "text"),
        ("unsupported_version", "unknown_server_error", "Unable to complete operation due to "),
        ("sasl_authentication_failed", "unknown_server_error", "Unable to complete operation "),
        ("invalid_request", "unknown_server_error", "text"),
    ],
)
def test_what_a_member_hears_of_errors_of_the_share_coordinator(
    error: str, error_heard: str, reason: str
) -> None:
    partition = new_partition()
    partition.start_loading()
    code = ErrorCode[error].value
    answer = partition.load(ShareState(key=KEY, error=code, message="text"), -1, SETTINGS)
    assert isinstance(answer, Rejection)
    assert answer.error is ErrorCode[error_heard]
    assert answer.reason.startswith(reason)
    assert partition.phase is Phase.FAILED
    ends_session = error_heard in {
        "group_id_not_found",
        "unknown_topic_or_partition",
        "not_leader_or_follower",
    }
    assert (answer.error in FENCING_ERRORS) == ends_session
    assert member_error(code, None).error is answer.error


def test_one_fetch_at_a_time() -> None:
    partition = load_partition()
    assert partition.take_fetch_lock("one")
    assert not partition.take_fetch_lock("two")
    partition.release_fetch_lock("one")
    assert partition.take_fetch_lock("two")
    with pytest.raises(AssertionError):
        partition.release_fetch_lock("one")


def test_what_is_read_beyond_the_locks_that_there_may_be_is_not_needed() -> None:
    partition = load_partition()
    locks = SETTINGS.max_record_locks
    assert partition.acquisition_end(5, SETTINGS) == 5 + locks
    PartitionMember(partition, "a").takes("0-9")
    assert partition.acquisition_end(5, SETTINGS) == 10 + locks


def test_who_holds_what_is_told_of_as_many_ranges_as_are_asked_for() -> None:
    partition = load_partition()
    PartitionMember(partition, "a").takes("0-9")
    PartitionMember(partition, "a").takes("10-19")
    PartitionMember(partition, "b").takes("20-29")
    assert list(partition.holders()) == [(0, 19, "a"), (20, 29, "b")]
    assert list(partition.holders(2)) == [(0, 19, "a")]
    assert list(partition.holders(0)) == []


# Answers of writes


@pytest.mark.parametrize(
    ("now_ms", "in_flight"), [(1, "0-9 acquired a 1"), (LOCK_MS, "0-9 available 1")]
)
def test_a_write_fails(now_ms: int, in_flight: str) -> None:
    partition = load_partition()
    member = PartitionMember(partition)
    member.takes("0-9")
    write = member.says("0-9:1")
    assert in_flight_text(partition) == "0-9 acknowledged 1 ..."
    assert partition.expire_locks(now_ms, SETTINGS) is None
    concluded_write = persist(partition, write, now_ms, error=ErrorCode.fenced_state_epoch.value)
    assert concluded_write == ConcludedWrite(
        rejection=Rejection(error=ErrorCode.not_leader_or_follower, reason="")
    )
    assert in_flight_text(partition) == in_flight
    assert offsets(partition)[2:] == (0 if now_ms == LOCK_MS else 10, 0)


def test_a_spent_record_whose_lock_ran_out_meanwhile_stays_complete() -> None:
    partition = load_partition("0-0 0 4", "1-9 0 1")
    member = PartitionMember(partition)
    assert member.takes("0-0") == "0-0:5"
    write = member.says("0-0:1")
    persist(partition, write, LOCK_MS, error=15)
    assert in_flight_text(partition) == "0-0 archived 5, 1-9 available 1"
    assert partition.delivery_complete_count == 1


def test_writes_are_answered_in_any_order() -> None:
    partition = load_partition()
    member = PartitionMember(partition)
    member.takes("0-9")
    first_write, second_write = member.says("0-4:1"), member.says("5-9:2")
    persist(partition, second_write)
    persist(partition, first_write, error=15)
    assert in_flight_text(partition) == "0-4 acquired a 1, 5-9 available 1"


def test_a_refused_request_leaves_no_write_and_no_trace() -> None:
    partition = load_partition()
    member = PartitionMember(partition)
    member.takes("0-9 10-19", batch_size=10)
    assert isinstance(member.says("0-9:2 10-19:1 20-20:1"), Rejection)
    assert in_flight_text(partition) == "0-9 acquired a 1, 10-19 acquired a 1"
    assert offsets(partition) == (0, 19, 20, 0)
    assert isinstance(member.says("0-9:1 20-20:1", now_ms=LOCK_MS), Rejection)
    assert in_flight_text(partition).startswith("0-9 available 1")
    assert partition.next_fetch_offset() == 0


# Release of a member


def test_a_member_leaves() -> None:
    partition = load_partition()
    a, b = PartitionMember(partition), PartitionMember(partition, "b")
    assert a.leaves() is None
    a.takes("0-9")
    b.takes("10-19")
    a.takes("20-29")
    a.says("20-22:1")
    write = a.leaves()
    assert batches_of(write) == "0-9 0 1, 23-29 0 1"
    assert a.leaves() is None
    assert partition.next_fetch_offset() == 30
    persist(partition, write)
    assert partition.next_fetch_offset() == 0
    assert in_flight_text(partition).startswith("0-9 available 1, 10-19 acquired b 1, 20-22")


def test_a_member_leaves_with_records_below_the_start_offset_and_spent_ones() -> None:
    partition = load_partition("0-9 0 1", "10-19 0 1", "20-20 0 4")
    a = PartitionMember(partition)
    a.takes("0-9 10-19")
    assert a.takes("20-20") == "20-20:5"
    partition.move_log_start(13)
    write = a.leaves()
    assert batches_of(write) == "0-9 4 2, 10-12 4 2, 13-19 0 2, 20-20 4 5"
    assert partition.delivery_complete_count == 1
    persist(partition, write, error=15)
    assert partition.delivery_complete_count == 0


# Locks that run out


def test_locks_run_out() -> None:
    partition = load_partition()
    a = PartitionMember(partition)
    a.takes("0-9")
    a.takes("10-19 20-29", most=15, mode=STRICT, now_ms=5)
    assert partition.next_lock_deadline_ms() == LOCK_MS
    assert partition.expire_locks(LOCK_MS - 1, SETTINGS) is None
    write = partition.expire_locks(LOCK_MS, SETTINGS)
    assert batches_of(write) == "0-9 0 1"
    assert partition.next_fetch_offset() == 0  # at once
    assert batches_of(partition.expire_locks(LOCK_MS + 5, SETTINGS)) == "10-24 0 1"
    assert partition.next_lock_deadline_ms() is None
    assert persist(partition, write, error=15) == ConcludedWrite()


def test_locks_of_spent_records_run_out() -> None:
    partition = load_partition("0-0 0 4", "1-9 0 1")
    a = PartitionMember(partition)
    a.takes("0-0")
    write = partition.expire_locks(LOCK_MS, SETTINGS)
    assert batches_of(write) == "0-0 4 5"
    assert partition.delivery_complete_count == 1
    assert not persist(partition, write).wakes_fetches
    assert offsets(partition) == (1, 9, 1, 0)


def test_locks_below_the_start_offset_run_out() -> None:
    partition = load_partition()
    a = PartitionMember(partition)
    a.takes("0-9 10-19", batch_size=10)
    partition.move_log_start(13)
    write = partition.expire_locks(LOCK_MS, SETTINGS)
    assert batches_of(write) == "0-9 4 1, 10-12 4 1, 13-19 0 1"
    assert offsets(partition) == (13, 19, 13, 0)


def test_a_lock_of_records_that_are_complete_runs_out_for_nothing() -> None:
    partition = load_partition()
    a = PartitionMember(partition)
    a.takes("0-9")
    a.acknowledge("0-9:1")
    assert partition.next_lock_deadline_ms() == LOCK_MS
    assert partition.expire_locks(LOCK_MS, SETTINGS) is None
    a.takes("10-19", now_ms=LOCK_MS)
    a.acknowledge("10-14:2", LOCK_MS)
    assert batches_of(partition.expire_locks(2 * LOCK_MS, SETTINGS)) == "15-19 0 1"


def test_records_that_were_acquired_again_have_a_lock_of_their_own() -> None:
    partition = load_partition()
    a, b = PartitionMember(partition), PartitionMember(partition, "b")
    a.takes("0-9")
    a.acknowledge("0-9:2")
    assert b.takes("0-9", now_ms=9) == "0-9:2"
    assert partition.expire_locks(LOCK_MS, SETTINGS) is None
    assert in_flight_text(partition) == "0-9 acquired b 2"


# Dead letters


def test_dead_letters_are_archived_once_they_are_copied() -> None:
    partition = load_partition("5-9 0 1")
    a = PartitionMember(partition, settings=DEAD)
    assert a.takes("0-4") == "0-4:1"
    write = a.says("0-1:3 2-4:1")
    assert batches_of(write) == "0-1 3 1, 2-4 2 1"
    concluded_write = persist(partition, write)
    letter = concluded_write.dead_letters[0]
    assert concluded_write.dead_letters == (
        DeadLetter(
            token=letter.token,
            first_offset=0,
            last_offset=1,
            delivery_count=1,
            reason=DeadLetterReason.REJECTED,
        ),
    )
    assert offsets(partition) == (0, 9, 5, 3)
    archived_write = partition.archive_dead_letter(letter.token)
    assert batches_of(archived_write) == "0-1 4 1"
    assert archived_write.state.delivery_complete_count == 5
    assert persist(partition, archived_write, error=15) == ConcludedWrite(wakes_fetches=True)
    assert offsets(partition) == (5, 9, 5, 0)


def test_a_lock_runs_out_too_often() -> None:
    partition = load_partition("0-0 0 4", "1-9 0 1")
    a = PartitionMember(partition, settings=DEAD)
    a.takes("0-0")
    write = partition.expire_locks(LOCK_MS, DEAD)
    assert batches_of(write) == "0-0 3 5"
    assert partition.next_fetch_offset() == 1
    concluded_write = persist(partition, write, error=15)
    assert [dead_letter.reason for dead_letter in concluded_write.dead_letters] == [
        DeadLetterReason.TOO_MANY_DELIVERIES
    ]


def test_dead_letters_whose_write_fails_are_none() -> None:
    partition = load_partition()
    a = PartitionMember(partition, settings=DEAD)
    a.takes("0-9")
    assert persist(partition, a.says("0-9:3"), error=15).dead_letters == ()
    assert in_flight_text(partition) == "0-9 acquired a 1"


def test_dead_letters_go_on_after_a_load() -> None:
    partition = new_partition()
    partition.start_loading()
    batches = (StateBatch(0, 4, 3, 1), StateBatch(5, 5, 3, 5), StateBatch(6, 9, 0, 1))
    letters = partition.load(ShareState(key=KEY, start_offset=0, batches=batches), -1, DEAD)
    assert not isinstance(letters, Rejection)
    assert [(letter.first_offset, letter.last_offset, letter.reason) for letter in letters] == [
        (0, 4, DeadLetterReason.REJECTED),
        (5, 5, DeadLetterReason.TOO_MANY_DELIVERIES),
    ]
    partition.move_log_start(3)
    archived_write = partition.archive_dead_letter(letters[0].token)
    assert archived_write.state.delivery_complete_count == 2
    assert in_flight_text(partition).startswith("0-4 archived 1, 5-5 archiving 5")


@pytest.mark.parametrize(
    ("are_states_swept", "last_ranges"), [(True, ["0-2"]), (False, ["0-0", "1-1", "2-2"])]
)
def test_up_to_4_3_records_of_a_batch_by_offset_are_written_one_by_one(
    last_ranges: list[str], *, are_states_swept: bool
) -> None:
    partition = load_partition(
        rules=msgspec.structs.replace(LATEST_RULES, share_states_are_swept=are_states_swept)
    )
    member = PartitionMember(partition)
    assert member.takes("0-3") == "0-3:1"
    assert member.takes("4-9") == "4-9:1"
    member.acknowledge("3:1")  # from now on the first batch goes by offset
    write = member.leaves()
    assert write is not None
    written_ranges = [f"{batch.first_offset}-{batch.last_offset}" for batch in write.state.batches]
    assert written_ranges == [*last_ranges, "4-9"]
    persist(partition, write)
    assert PartitionMember(partition, "b").takes("0-3 4-9") == "0-2:2 4-9:2"
