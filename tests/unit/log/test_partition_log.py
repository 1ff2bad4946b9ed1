"""One partition's log as UnifiedLog has it: duplicates, guards, markers, bounds."""

from __future__ import annotations

import pytest

from tests.support.logs import (
    COMMITTED,
    NOW,
    PARTITION,
    PID,
    LogDriver,
    batch,
    make_log,
    plain,
)
from txnsim.errors import InvariantViolation, Rejection
from txnsim.log import log_upkeep, validation
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.config import LogConfig, TimestampType
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state import SEQUENCE_MAX
from txnsim.log.replicated import described
from txnsim.log.verification import SENTINEL
from txnsim.types import ReplicatedBatch
from txnsim.wire.batch import (
    Record,
    assign,
    build_batch,
    control_batch,
    read_batch_header,
)
from txnsim.wire.compression import GZIP

DAY = 86_400_000


@pytest.fixture
def driver() -> LogDriver:
    return LogDriver()


def again(log: PartitionLog, data: bytes, *, guard: int = 0) -> Appended:
    answer = log.append_client(data, guard=guard, now_ms=NOW)
    assert isinstance(answer, Appended)
    assert answer.duplicate
    return answer


# Sequences and duplicates


def test_an_unknown_producer_may_start_anywhere(driver: LogDriver) -> None:
    assert driver.data(5, count=2) == 0
    assert driver.log.log_end_offset == 2


def test_a_batch_sent_again_is_answered_from_the_cache(driver: LogDriver) -> None:
    driver.data(5, count=2, timestamp=NOW - 9)
    before = driver.log.snapshot()
    answer = again(driver.log, batch(5, count=2, timestamp=NOW - 9))
    assert (answer.base_offset, answer.last_offset) == (0, 1)
    assert answer.log_append_time_ms == NOW - 9  # the cached timestamp, on CreateTime topics too
    assert driver.log.snapshot() == before


def test_a_batch_with_other_sequences_is_no_duplicate(driver: LogDriver) -> None:
    driver.data(5, count=2)
    assert driver.data(5, count=1) == 45
    assert driver.data(6, count=1) == 45


def test_a_duplicate_of_another_epoch_is_fenced_or_out_of_order(driver: LogDriver) -> None:
    driver.data(0, epoch=3)
    driver.data(1, epoch=3)
    assert driver.data(0, epoch=2) == 47
    assert driver.data(1, epoch=4) == 45


def test_a_gap_is_out_of_order(driver: LogDriver) -> None:
    driver.data(5, count=2)
    assert driver.data(9) == 45


def test_a_batch_that_left_the_cache_is_out_of_order(driver: LogDriver) -> None:
    for sequence in range(5, 11):
        driver.data(sequence)
    assert driver.data(5) == 45
    assert again(driver.log, batch(6)).base_offset == 1


def test_sequences_wrap_inside_a_batch_and_between_batches(driver: LogDriver) -> None:
    driver.data(SEQUENCE_MAX - 1)
    assert driver.data(SEQUENCE_MAX, count=2) == 0
    assert driver.log.producers()[0].last_sequence == 0
    assert driver.data(1) == 0
    assert again(driver.log, batch(SEQUENCE_MAX, count=2)).base_offset == 1
    driver.log.check_invariants()


def test_a_lower_epoch_is_fenced(driver: LogDriver) -> None:
    driver.data(0, epoch=3)
    assert driver.data(1, epoch=2) == 47


def test_a_higher_epoch_starts_at_zero_with_an_empty_cache(driver: LogDriver) -> None:
    driver.data(0, epoch=3)
    assert driver.data(1, epoch=4) == 45
    assert driver.data(0, epoch=4) == 0
    assert len(driver.log.snapshot().producers[0].batches) == 1


def test_batches_without_producer_are_never_duplicates(driver: LogDriver) -> None:
    assert driver.append(plain()) == 0
    assert driver.append(plain()) == 0
    assert driver.log.producers() == ()


def test_append_time_topics_keep_their_time_for_duplicates() -> None:
    driver = LogDriver(LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME))
    driver.now = NOW + 7
    driver.data(0)
    assert again(driver.log, batch(0)).log_append_time_ms == NOW + 7


# The verification guard (KIP-890)


def test_an_unverified_transaction_does_not_open(driver: LogDriver) -> None:
    data = batch(0, transactional=True)
    assert driver.append(data) == 48
    guard = driver.guard()
    assert driver.append(data, guard=guard + 1) == 48
    assert driver.append(data, guard=SENTINEL) == 48
    assert driver.append(data, guard=guard) == 0


def test_without_verification_a_missing_guard_is_accepted() -> None:
    driver = LogDriver(LogConfig(verification_enabled=False))
    assert driver.append(batch(0, transactional=True)) == 0
    # An unseen epoch joins the open ghost.
    assert driver.append(batch(0, epoch=1, transactional=True)) == 0
    assert driver.log.snapshot().ongoing == ((0, PID),)


def test_an_open_transaction_needs_no_second_question(driver: LogDriver) -> None:
    driver.txn(0)
    assert driver.guard(1) == SENTINEL
    assert driver.append(batch(1, transactional=True), guard=SENTINEL) == 0


def test_a_fenced_epoch_is_told_so_before_the_coordinator_is_asked(driver: LogDriver) -> None:
    driver.end(committed=False, epoch=3)
    answer = driver.log.start_verification(
        producer_id=PID, producer_epoch=2, base_sequence=0, supports_epoch_bump=True, now_ms=NOW
    )
    assert isinstance(answer, Rejection)
    assert answer.error == 47
    assert not isinstance(answer, AppendRejection)  # a verification answer shows no log start


def test_a_marker_that_overtakes_the_verified_append_takes_its_guard(driver: LogDriver) -> None:
    guard = driver.guard()
    assert driver.end(committed=False) == 0
    assert driver.append(batch(0, transactional=True), guard=guard) == 48
    assert driver.guard() != guard


@pytest.mark.parametrize("as_client", [True, False])
def test_under_v2_the_late_append_is_fenced_by_the_bumped_marker(as_client: bool) -> None:
    driver = LogDriver()
    guard = driver.guard(tv2=True)
    driver.end(committed=False, epoch=1, tv=2)
    data = batch(0 if as_client else -1, transactional=True)
    if as_client:
        assert driver.append(data, guard=guard) == 47
    else:
        answer = driver.log.append_coordinator(data, now_ms=NOW, guard=guard)
        assert isinstance(answer, AppendRejection)
        assert answer.error == 47


def test_under_v2_an_unknown_producer_starts_at_zero(driver: LogDriver) -> None:
    assert driver.txn(3, tv2=True) == 45
    assert driver.txn(0, tv2=True) == 0


def test_a_sequence_waits_for_the_lower_one_that_failed_verification(driver: LogDriver) -> None:
    driver.guard(0)  # asked, and the answer was an error: the entry stays
    guard = driver.guard(1)
    assert driver.append(batch(1, transactional=True), guard=guard) == 45
    assert driver.append(batch(0, transactional=True), guard=guard) == 0
    assert driver.txn(1) == 0


def test_a_retried_marker_of_v2_keeps_the_guard_of_the_next_transaction(driver: LogDriver) -> None:
    driver.txn(0, epoch=5, tv2=True)
    driver.end(committed=True, epoch=6, tv=2)
    guard = driver.guard(0, epoch=6, tv2=True)
    assert driver.end(committed=True, epoch=6, tv=2) == 0
    assert driver.append(batch(0, epoch=6, transactional=True), guard=guard) == 0

    guard = driver.guard(0, epoch=7, tv2=True)
    driver.end(committed=True, epoch=8, tv=2)
    assert driver.append(batch(0, epoch=7, transactional=True), guard=guard) == 47


def test_an_append_that_fails_its_sequence_keeps_the_guard(driver: LogDriver) -> None:
    driver.txn(0)
    driver.end(committed=True)
    guard = driver.guard(1)
    assert driver.append(batch(2, transactional=True), guard=guard) == 45
    assert driver.append(batch(1, transactional=True), guard=guard) == 0


def test_a_plain_batch_inside_an_open_transaction_is_refused(driver: LogDriver) -> None:
    driver.txn(0)
    assert driver.data(1) == 48
    assert driver.txn(1) == 0


def test_refusals_of_producer_state_show_the_log_start(driver: LogDriver) -> None:
    driver.data(0, count=2, epoch=1)
    driver.log.delete_records_before(1)
    for data, error in (
        (batch(9, epoch=1), 45),
        (batch(2, epoch=0), 47),
        (batch(2, epoch=1, transactional=True), 48),
    ):
        answer = driver.log.append_client(data, guard=0, now_ms=NOW)
        assert isinstance(answer, AppendRejection)
        assert (answer.error, answer.log_start_offset) == (error, 1)
        assert str(PARTITION) in answer.reason


# Markers


@pytest.mark.parametrize(("epoch", "error"), [(4, 47), (5, 47), (6, 0)])
def test_a_marker_of_v2_must_bump_the_epoch_of_an_open_transaction(epoch: int, error: int) -> None:
    driver = LogDriver()
    driver.txn(0, epoch=5, tv2=True)
    assert driver.end(committed=True, epoch=epoch, tv=2) == error
    producer = driver.log.producers()[0]
    if error == 0:
        assert (producer.producer_epoch, producer.last_sequence) == (6, -1)
        assert producer.current_txn_start_offset == -1
    else:
        assert producer.current_txn_start_offset == 0


def test_a_retried_marker_is_written_again_without_effect(driver: LogDriver) -> None:
    driver.txn(0, epoch=5, tv2=True)
    driver.end(committed=False, epoch=6, tv=2)
    assert driver.end(committed=False, epoch=6, tv=2) == 0
    state = driver.log.snapshot()
    assert state.log_end_offset == state.last_stable_offset == 3
    assert len(state.aborted) == 1


def test_an_exhausted_epoch_can_be_ended(driver: LogDriver) -> None:
    driver.txn(0, epoch=32767)
    assert driver.end(committed=False, epoch=32767, tv=2) == 0


def test_a_zombie_coordinator_is_fenced(driver: LogDriver) -> None:
    driver.end(committed=True, coordinator_epoch=4)
    assert driver.end(committed=True, coordinator_epoch=3) == 52
    assert driver.log.producers()[0].coordinator_epoch == 4


def test_an_operators_marker_ends_the_named_transaction_and_leaves_the_coordinator_epoch(
    driver: LogDriver,
) -> None:
    driver.end(committed=True, coordinator_epoch=4)
    driver.txn(0)
    assert driver.end(committed=False, coordinator_epoch=-1, start_offset=0) == 48
    assert driver.end(committed=False, coordinator_epoch=-1, start_offset=1, epoch=1) == 47
    assert driver.end(committed=False, coordinator_epoch=-1, start_offset=1) == 0
    (producer,) = driver.log.producers()
    assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (-1, 4)
    # What a follower or a restart makes of the bytes is the same.
    again = PartitionLog.replay(
        driver.log.batches(),
        topic_partition=driver.log.topic_partition,
        config=driver.log.config,
        leader_epoch=0,
    )
    assert again.producers() == driver.log.producers()


def test_a_marker_for_an_unknown_producer_leaves_its_epoch(driver: LogDriver) -> None:
    assert driver.end(committed=False, epoch=2) == 0
    assert driver.log.log_end_offset == 1
    assert driver.log.snapshot().aborted == ()
    assert driver.txn(1, epoch=2) == 45
    assert driver.txn(0, epoch=2) == 0


def test_sequences_go_on_after_a_marker_of_the_same_epoch(driver: LogDriver) -> None:
    driver.txn(0)
    driver.end(committed=True)
    assert driver.txn(1) == 0


@pytest.mark.parametrize(("pid", "epoch"), [(-1, 0), (7, -1)])
def test_a_marker_without_producer_is_our_callers_bug(pid: int, epoch: int) -> None:
    driver = LogDriver()
    assert driver.end(committed=True, pid=pid, epoch=epoch) == -1


def test_a_markers_timestamp_is_the_leaders(driver: LogDriver) -> None:
    driver.now = NOW + 5
    driver.end(committed=True)
    (data,) = driver.log.batches()
    assert len(data) == 78
    assert read_batch_header(data).max_timestamp_ms == NOW + 5
    assert driver.log.producers()[0].last_timestamp == NOW + 5


@pytest.mark.parametrize("kind", TimestampType)
def test_a_marker_says_whose_time_it_carries(kind: TimestampType) -> None:
    driver = LogDriver(LogConfig(timestamp_type=kind))
    driver.end(committed=True)
    (data,) = driver.log.batches()
    assert read_batch_header(data).is_log_append_time == (kind is TimestampType.LOG_APPEND_TIME)


@pytest.mark.parametrize(("limit", "error"), [(77, 10), (78, 0)])
def test_a_marker_is_a_message_that_may_be_too_large(limit: int, error: int) -> None:
    driver = LogDriver(LogConfig(max_message_bytes=limit))
    assert driver.end(committed=True) == error
    assert driver.end(committed=True, pid=-1) == -1


@pytest.mark.parametrize(("bound", "error", "start"), [(100, 10, -1), (1_000, 0, 0)])
def test_a_batch_that_unpacks_to_too_much_is_too_large(
    bound: int, error: int, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "UNPACKED_BYTES_MAX", bound)
    log = LogDriver().log
    answer = log.append_client(
        batch(pid=-1, value=b"v" * 200, compression=GZIP), guard=SENTINEL, now_ms=NOW
    )
    assert (answer.error if isinstance(answer, AppendRejection) else 0) == error
    assert answer.log_start_offset == start


# Coordinator appends


def test_a_coordinators_records_have_no_sequence_rules(driver: LogDriver) -> None:
    for _ in range(3):
        guard = driver.guard(-1)
        answer = driver.log.append_coordinator(
            batch(-1, transactional=True), now_ms=NOW, guard=guard
        )
        assert isinstance(answer, Appended)
        driver.settle()
    assert driver.log.log_end_offset == 3  # three times the same is no duplicate
    assert driver.log.snapshot().ongoing == ((0, PID),)


def test_a_coordinators_transactional_records_need_a_guard(driver: LogDriver) -> None:
    answer = driver.log.append_coordinator(batch(-1, transactional=True), now_ms=NOW)
    assert isinstance(answer, AppendRejection)
    assert answer.error == 48


@pytest.mark.parametrize(
    ("config", "error"),
    [(LogConfig(max_message_bytes=60), 10), (LogConfig(segment_bytes=60), 18)],
)
def test_a_coordinators_batch_has_the_same_limits(config: LogConfig, error: int) -> None:
    answer = make_log(config).append_coordinator(plain(), now_ms=NOW)
    assert isinstance(answer, AppendRejection)
    assert (answer.error, answer.log_start_offset) == (error, -1)


def test_a_coordinators_plain_batch_is_stamped_like_others() -> None:
    log = make_log(LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME))
    answer = log.append_coordinator(plain(timestamp=5), now_ms=NOW)
    assert isinstance(answer, Appended)
    assert answer.log_append_time_ms == NOW


# Bounds


def test_the_stable_offset_waits_for_the_marker_to_be_replicated() -> None:
    driver = LogDriver(follow=False)
    log = driver.log
    driver.append(plain(10))
    driver.txn(0, count=10)
    assert log.advance_high_watermark(20)
    assert (log.last_stable_offset, log.first_undecided_offset) == (10, 10)
    driver.end(committed=True)
    assert (log.last_stable_offset, log.first_undecided_offset) == (10, None)
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
    driver.txn(0, pid=1, count=2)
    driver.txn(0, pid=2, count=3)
    driver.end(committed=False, pid=2)
    assert driver.log.last_stable_offset == 10
    (entry,) = driver.log.snapshot().aborted
    assert (entry.producer_id, entry.first_offset) == (2, 12)
    assert (entry.last_offset, entry.last_stable_offset) == (15, 10)
    driver.end(committed=True, pid=1)
    assert driver.log.last_stable_offset == 17


def test_a_committed_transaction_is_not_indexed(driver: LogDriver) -> None:
    driver.txn(0)
    driver.end(committed=True)
    assert driver.log.snapshot().aborted == ()


# Leadership


def test_a_new_leader_knows_no_guards_and_keeps_open_transactions(driver: LogDriver) -> None:
    driver.txn(0, pid=1)
    guard = driver.guard(pid=2)
    driver.log.become_leader(3)
    assert driver.append(batch(0, pid=2, transactional=True), guard=guard) == 48
    assert driver.guard(1, pid=1) == SENTINEL
    assert driver.txn(1, pid=1) == 0
    assert driver.log.leader_epoch == 3
    assert driver.log.leader_epoch_start_offset == 1
    assert [read_batch_header(data).leader_epoch for data in driver.log.batches()] == [0, 3]
    assert driver.log.snapshot().epochs == ((0, 0), (3, 1))


def test_the_same_epoch_again_moves_nothing_and_a_lower_one_is_a_bug(driver: LogDriver) -> None:
    driver.log.become_leader(2)
    driver.append(plain())
    driver.log.become_leader(2)
    assert driver.log.leader_epoch_start_offset == 0
    with pytest.raises(InvariantViolation, match="leader epoch 1 after 2"):
        driver.log.become_leader(1)


# Replication and truncation


def follow(log: PartitionLog, data: bytes) -> None:
    log.append_replicated(described(data), now_ms=NOW)


def replicate(driver: LogDriver, *, high_watermark: int | None = None) -> PartitionLog:
    follower = make_log()
    for data in driver.log.batches():
        follow(follower, data)
        follower.check_invariants()
    follower.advance_high_watermark(
        driver.log.high_watermark if high_watermark is None else high_watermark
    )
    return follower


def busy() -> LogDriver:
    """Committed, aborted and open transactions under two leaders."""
    driver = LogDriver()
    driver.txn(0, pid=1, count=2)
    driver.txn(0, pid=2)
    driver.end(committed=True, pid=1)
    driver.log.become_leader(4)
    driver.txn(2, pid=1)
    driver.end(committed=False, pid=2, epoch=1, tv=2)
    driver.data(0, pid=3, count=3)
    driver.txn(0, pid=2, epoch=1, tv2=True)
    return driver


def test_a_follower_has_its_leaders_state() -> None:
    driver = busy()
    follower = replicate(driver)
    assert follower.snapshot() == driver.log.snapshot()
    behind = replicate(driver, high_watermark=0)
    assert behind.last_stable_offset == 0
    assert behind.snapshot().ongoing == driver.log.snapshot().ongoing
    assert behind.snapshot().aborted == driver.log.snapshot().aborted


def test_a_replayed_log_is_the_one_that_lived() -> None:
    driver = busy()
    replayed = PartitionLog.replay(
        driver.log.batches(),
        topic_partition=PARTITION,
        config=driver.log.config,
        leader_epoch=driver.log.leader_epoch,
    )
    replayed.check_invariants()
    assert replayed.snapshot() == driver.log.snapshot()
    assert tuple(replayed.batches()) == tuple(driver.log.batches())


def test_nothing_replayed_is_an_empty_log() -> None:
    log = PartitionLog.replay(
        [], topic_partition=PARTITION, config=LogConfig(), leader_epoch=2, high_watermark=0
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
            committed=True,
            coordinator_epoch=-1,
            base_offset=2,
            leader_epoch=0,
            timestamp_ms=NOW,
        ),
    )
    assert log.producers()[0].producer_epoch == 1


def test_a_replicated_batch_below_the_end_is_a_bug() -> None:
    log = make_log()
    follow(log, assign(plain(2), base_offset=0, leader_epoch=0))
    with pytest.raises(InvariantViolation, match="below the log end 2"):
        follow(log, assign(plain(), base_offset=1, leader_epoch=0))


def test_replication_takes_guards_as_the_leader_does() -> None:
    log = LogDriver()
    guard = log.guard()
    follow(log.log, assign(batch(0, transactional=True), base_offset=0, leader_epoch=0))
    assert log.append(batch(0, pid=9), guard=guard) == 0
    assert log.log._verification.find(PID) is None
    other = log.guard(pid=8)
    follow(
        log.log,
        control_batch(
            producer_id=8,
            producer_epoch=0,
            committed=True,
            coordinator_epoch=0,
            base_offset=2,
            leader_epoch=0,
            timestamp_ms=NOW,
        ),
    )
    assert log.append(batch(0, pid=8, transactional=True), guard=other) == 48


def control_of_type(kind: int, *, base_offset: int) -> bytes:
    """A control batch that is no marker (the metadata log has such)."""
    data = bytearray(
        build_batch(
            [Record(key=bytes((0, 0, 0, kind)), value=b"\0\0\0\0\0\0")],
            timestamp_ms=NOW,
            producer_id=PID,
            producer_epoch=9,
            transactional=True,
            base_offset=base_offset,
            leader_epoch=0,
        )
    )
    data[22] |= 0x20  # control
    return bytes(data)


def test_control_batches_that_end_nothing_are_stored_without_effect() -> None:
    log = make_log()
    follow(log, assign(batch(0, transactional=True), base_offset=0, leader_epoch=0))
    before = log.snapshot().producers
    follow(log, control_of_type(2, base_offset=1))
    emptied = bytearray(control_of_type(1, base_offset=2)[:61])
    emptied[8:12] = (49).to_bytes(4, "big")
    emptied[57:61] = bytes(4)
    follow(log, bytes(emptied))
    assert log.snapshot().producers == before
    assert log.log_end_offset == 3


@pytest.mark.parametrize("offset", range(12))
def test_truncation_gives_the_log_that_never_went_further(offset: int) -> None:
    driver = busy()
    log = driver.log
    kept = [data for data in log.batches() if read_batch_header(data).last_offset < offset]
    log.truncate_to(offset, now_ms=NOW)
    log.check_invariants()
    state = log.snapshot()
    assert state.log_end_offset == min(offset, 10)
    expected = make_log()
    for data in kept:
        follow(expected, data)
    expected.advance_high_watermark(state.high_watermark)
    model = expected.snapshot()
    assert (state.producers, state.ongoing) == (model.producers, model.ongoing)
    assert state.aborted == model.aborted
    assert tuple(log.batches()) == tuple(kept)


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


def test_truncation_after_deletion_forgets_who_has_no_record_left() -> None:
    """Memory had kept them (KIP-360); a reload knows what can be read (ProducerStateManager)."""
    driver = LogDriver()
    driver.txn(0, pid=1)
    driver.data(0, pid=2, count=3)
    driver.data(3, pid=2)
    driver.append(plain())
    driver.log.delete_records_before(4)
    assert [entry.producer_id for entry in driver.log.snapshot().producers] == [1, 2]
    driver.log.truncate_to(5, now_ms=NOW)
    driver.log.check_invariants()
    state = driver.log.snapshot()
    assert state.ongoing == ()
    assert [entry.producer_id for entry in state.producers] == [2]
    assert driver.data(4, pid=2) == 0


def test_truncation_replays_only_what_lies_behind_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = LogDriver(LogConfig(roll_bytes=200))
    for sequence in range(9):
        driver.data(sequence)
    read: list[int] = []

    def seen(data: bytes) -> ReplicatedBatch:
        read.append(read_batch_header(data).base_offset)
        return described(data)

    monkeypatch.setattr(log_upkeep, "described", seen)
    driver.log.truncate_to(7, now_ms=NOW)
    assert read == [6]
    (entry,) = driver.log.snapshot().producers
    assert [known.last_offset for known in entry.batches] == [5, 6], "one known, one replayed"
    driver.log.truncate_to(4, now_ms=NOW)
    assert read == [6], "there is a snapshot of just this offset"


def test_a_reload_leaves_snapshots_where_the_next_one_may_begin() -> None:
    driver = LogDriver(LogConfig(roll_bytes=200))
    for sequence in range(9):
        driver.data(sequence)
    driver.log.delete_records_before(5)
    driver.log.truncate_to(5, now_ms=NOW)
    driver.log.advance_high_watermark(5)
    for sequence in range(5, 9):
        driver.data(sequence)
    log = driver.log
    assert [offset for offset, _ in log.producer_snapshots()] == [6, 8]
    log.truncate_to(7, now_ms=NOW)
    assert [offset for offset, _ in log.producer_snapshots()] == [6, 7]


def test_truncation_below_all_that_is_stored_starts_over() -> None:
    driver = LogDriver()
    driver.log.config = LogConfig(roll_bytes=1)
    driver.data(0, count=2)
    driver.data(2, count=2)
    driver.log.delete_records_before(2)
    driver.log.delete_old_segments(NOW)
    driver.log.truncate_to(1, now_ms=NOW)
    state = driver.log.snapshot()
    assert (state.log_start_offset, state.high_watermark, state.log_end_offset) == (1, 1, 1)
    assert state.producers == ()


def test_starting_over_keeps_only_guards(driver: LogDriver) -> None:
    driver.txn(0, pid=1)
    guard = driver.guard(pid=2)
    driver.log.restart_at(50, now_ms=NOW)
    driver.log.check_invariants()
    assert driver.append(batch(0, pid=2, transactional=True), guard=guard) == 0
    state = driver.log.snapshot()
    assert (state.log_start_offset, state.log_end_offset) == (50, 51)
    assert state.epochs == ((0, 50),)


# Deletion and expiry


def test_deletion_keeps_producers_and_open_transactions(driver: LogDriver) -> None:
    driver.txn(0, count=2)
    driver.append(plain(3))
    assert driver.log.delete_records_before(4) == 4
    driver.log.check_invariants()
    assert driver.log.snapshot().ongoing == ((0, PID),)
    # DeleteRecords landed inside a batch above an open transaction: that batch's base offset.
    assert (driver.log.log_start_offset, driver.log.last_stable_offset) == (4, 2)
    assert driver.log.latest(COMMITTED) == 2
    driver.log.delete_records_before(-1)
    assert (driver.log.log_start_offset, driver.log.last_stable_offset) == (5, 5)
    driver.log.check_invariants()
    assert driver.end(committed=False) == 0
    assert driver.log.last_stable_offset == 6


@pytest.mark.parametrize(("offset", "answer"), [(0, 0), (2, 2), (3, 3), (-1, 3)])
def test_deletion_answers_the_log_start(offset: int, answer: int) -> None:
    driver = LogDriver(follow=False)
    driver.append(plain(5))
    driver.log.advance_high_watermark(3)
    assert driver.log.delete_records_before(offset) == answer
    assert driver.log.delete_records_before(1) == max(answer, 1)


@pytest.mark.parametrize("offset", [-2, 4])
def test_deletion_above_the_high_watermark_is_out_of_range(offset: int) -> None:
    driver = LogDriver(follow=False)
    driver.append(plain(5))
    driver.log.advance_high_watermark(3)
    answer = driver.log.delete_records_before(offset)
    assert isinstance(answer, Rejection)
    assert answer.error == 1


def test_what_lies_below_the_log_start_is_stored_until_its_segment_goes(driver: LogDriver) -> None:
    driver.append(plain(4))
    size = driver.log.size_bytes
    driver.log.delete_records_before(3)
    assert driver.log.delete_old_segments(NOW) == 0
    assert driver.log.size_bytes == size


def test_idle_producers_expire_unless_their_transaction_is_open(driver: LogDriver) -> None:
    driver.data(0, pid=1)
    driver.txn(0, pid=2)
    assert driver.log.expire_producers(NOW + DAY - 1) == ()
    assert driver.log.expire_producers(NOW + DAY) == (1,)
    driver.log.check_invariants()
    assert driver.data(4711, pid=1) == 0
    assert [producer.producer_id for producer in driver.log.producers()] == [2, 1]


def test_verification_entries_expire_as_well(driver: LogDriver) -> None:
    guard = driver.guard()
    driver.log.expire_producers(NOW + DAY)
    assert driver.append(batch(0, transactional=True), guard=guard) == 48


def test_the_header_may_be_handed_in(driver: LogDriver) -> None:
    data = plain(2)
    answer = driver.log.append_client(data, guard=0, now_ms=NOW, header=read_batch_header(data))
    assert answer == Appended(
        base_offset=0, last_offset=1, log_append_time_ms=-1, log_start_offset=0
    )


def test_where_replicas_share_a_log_everything_is_replicated_at_once() -> None:
    driver = LogDriver()
    driver.log.append_marker(
        producer_id=7,
        producer_epoch=0,
        committed=True,
        coordinator_epoch=0,
        transaction_version=0,
        now_ms=1,
    )
    driver.log.replicate_all()
    assert driver.log.high_watermark == driver.log.log_end_offset == 1
    driver.log.replicate_all()
    assert driver.log.high_watermark == 1
