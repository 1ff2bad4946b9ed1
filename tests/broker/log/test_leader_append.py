"""How a leader appends: duplicates, guards, markers."""

from __future__ import annotations

import pytest

from tests.support.logs import (
    NOW,
    PARTITION,
    PID,
    LogDriver,
    batch,
    config_of,
    make_log,
    plain,
    replayed_log,
)
from tests.support.markers import append_marker as appended_marker
from tests.support.markers import marker_of
from txnsim.errors import ErrorCode, Rejection
from txnsim.log import validation
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.config import LogConfig, TimestampType
from txnsim.log.leader_append import (
    append_client,
    append_coordinator,
    append_marker,
    start_verification,
)
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state import SEQUENCE_MAX
from txnsim.log.validation import newest_timestamp
from txnsim.log.verification import SENTINEL
from txnsim.wire.batch import read_batch_header
from txnsim.wire.compression import GZIP, LZ4, SNAPPY, ZSTD


def append_duplicate(log: PartitionLog, batch_data: bytes, *, guard: int = 0) -> Appended:
    answer = append_client(log, batch_data, guard=guard, now_ms=NOW)
    assert isinstance(answer, Appended)
    assert answer.duplicate
    return answer


# Sequences and duplicates


def test_an_unknown_producer_may_start_anywhere(driver: LogDriver) -> None:
    assert driver.data(5, count=2) == 0
    assert driver.log.log_end_offset == 2


def test_a_batch_sent_again_is_answered_from_the_cache(driver: LogDriver) -> None:
    driver.data(5, count=2, timestamp=NOW - 9)
    state_before = driver.log.snapshot()
    appended = append_duplicate(driver.log, batch(5, count=2, timestamp=NOW - 9))
    assert (appended.base_offset, appended.last_offset) == (0, 1)
    assert appended.log_append_time_ms == NOW - 9  # the cached timestamp, on CreateTime topics too
    assert driver.log.snapshot() == state_before


def test_the_answer_says_what_was_known_of_the_producer_before(driver: LogDriver) -> None:
    log, guard = driver.log, driver.guard(0)
    opens = batch(0, is_transactional=True)
    marker = marker_of(producer_id=PID, producer_epoch=1, transaction_version=2)
    answers = [
        append_client(log, opens, guard=guard, now_ms=NOW),
        append_client(log, opens, guard=0, now_ms=NOW),
        append_coordinator(log, batch(-1, is_transactional=True), now_ms=NOW),
        append_marker(log, marker, now_ms=NOW),
        append_client(log, batch(0, epoch=1), guard=0, now_ms=NOW),
        append_coordinator(log, plain(), now_ms=NOW),
    ]
    assert [
        (answer.epoch_before, answer.open_txn_before)
        for answer in answers
        if isinstance(answer, Appended)
    ] == [(-1, -1), (0, 0), (0, 0), (0, 0), (1, -1), (-1, -1)]


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
    assert append_duplicate(driver.log, batch(6)).base_offset == 1


def test_sequences_wrap_inside_a_batch_and_between_batches(driver: LogDriver) -> None:
    driver.data(SEQUENCE_MAX - 1)
    assert driver.data(SEQUENCE_MAX, count=2) == 0
    assert driver.log.producers.all_producers()[0].last_sequence == 0
    assert driver.data(1) == 0
    assert append_duplicate(driver.log, batch(SEQUENCE_MAX, count=2)).base_offset == 1
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
    assert driver.log.producers.all_producers() == ()


def test_append_time_topics_keep_their_time_for_duplicates() -> None:
    driver = LogDriver(config_of(timestamp_type=TimestampType.LOG_APPEND_TIME))
    driver.now = NOW + 7
    driver.data(0)
    assert append_duplicate(driver.log, batch(0)).log_append_time_ms == NOW + 7


# The verification guard (KIP-890)


def test_an_unverified_transaction_does_not_open(driver: LogDriver) -> None:
    batch_data = batch(0, is_transactional=True)
    assert driver.append(batch_data) == 48
    guard = driver.guard()
    assert driver.append(batch_data, guard=guard + 1) == 48
    assert driver.append(batch_data, guard=SENTINEL) == 48
    assert driver.append(batch_data, guard=guard) == 0


def test_without_verification_a_missing_guard_is_accepted() -> None:
    driver = LogDriver(config_of(needs_verification=False))
    assert driver.append(batch(0, is_transactional=True)) == 0
    # An unseen epoch joins the open ghost.
    assert driver.append(batch(0, epoch=1, is_transactional=True)) == 0
    assert driver.log.snapshot().ongoing == ((0, PID),)


def test_an_open_transaction_needs_no_second_question(driver: LogDriver) -> None:
    driver.txn(0)
    assert driver.guard(1) == SENTINEL
    assert driver.append(batch(1, is_transactional=True), guard=SENTINEL) == 0


def test_a_fenced_epoch_is_refused_before_the_coordinator_is_asked(driver: LogDriver) -> None:
    driver.end(committed=False, epoch=3)
    answer = start_verification(
        driver.log,
        producer_id=PID,
        producer_epoch=2,
        base_sequence=0,
        supports_epoch_bump=True,
        now_ms=NOW,
    )
    assert isinstance(answer, Rejection)
    assert answer.error == 47
    assert not isinstance(answer, AppendRejection)  # a verification answer shows no log start


def test_a_marker_that_overtakes_the_verified_append_takes_its_guard(driver: LogDriver) -> None:
    guard = driver.guard()
    assert driver.end(committed=False) == 0
    assert driver.append(batch(0, is_transactional=True), guard=guard) == 48
    assert driver.guard() != guard
    driver.txn(0)
    late_batch = batch(0, epoch=1, is_transactional=True)
    assert driver.append(late_batch, guard=guard) == 48, "what is open here has another epoch"


@pytest.mark.parametrize("is_by_client", [True, False])
def test_under_v2_the_late_append_is_fenced_by_the_bumped_marker(is_by_client: bool) -> None:
    driver = LogDriver()
    guard = driver.guard(is_tv2=True)
    driver.end(committed=False, epoch=1, transaction_version=2)
    batch_data = batch(0 if is_by_client else -1, is_transactional=True)
    if is_by_client:
        assert driver.append(batch_data, guard=guard) == 47
    else:
        answer = append_coordinator(driver.log, batch_data, now_ms=NOW, guard=guard)
        assert isinstance(answer, AppendRejection)
        assert answer.error == 47


def test_under_v2_an_unknown_producer_starts_at_zero(driver: LogDriver) -> None:
    assert driver.txn(3, is_tv2=True) == 45
    assert driver.txn(0, is_tv2=True) == 0


def test_a_sequence_waits_for_the_lower_one_that_failed_verification(driver: LogDriver) -> None:
    driver.guard(0)  # asked, and the answer was an error: the entry stays
    guard = driver.guard(1)
    assert driver.append(batch(1, is_transactional=True), guard=guard) == 45
    assert driver.append(batch(0, is_transactional=True), guard=guard) == 0
    assert driver.txn(1) == 0


def test_a_retried_marker_of_v2_keeps_the_guard_of_the_next_transaction(driver: LogDriver) -> None:
    driver.txn(0, epoch=5, is_tv2=True)
    driver.end(committed=True, epoch=6, transaction_version=2)
    guard = driver.guard(0, epoch=6, is_tv2=True)
    assert driver.end(committed=True, epoch=6, transaction_version=2) == 0
    assert driver.append(batch(0, epoch=6, is_transactional=True), guard=guard) == 0

    guard = driver.guard(0, epoch=7, is_tv2=True)
    driver.end(committed=True, epoch=8, transaction_version=2)
    assert driver.append(batch(0, epoch=7, is_transactional=True), guard=guard) == 47
    assert driver.guard(0, epoch=8, is_tv2=True) != guard, "a marker of another epoch takes it"


def test_an_append_that_fails_its_sequence_keeps_the_guard(driver: LogDriver) -> None:
    driver.txn(0)
    driver.end(committed=True)
    guard = driver.guard(1)
    assert driver.append(batch(2, is_transactional=True), guard=guard) == 45
    assert driver.append(batch(1, is_transactional=True), guard=guard) == 0


def test_a_plain_batch_inside_an_open_transaction_is_refused(driver: LogDriver) -> None:
    driver.txn(0)
    assert driver.data(1) == 48
    assert driver.txn(1) == 0


@pytest.mark.parametrize(("epoch", "error"), [(4, 47), (5, 47), (6, 0)])
def test_a_marker_of_v2_must_bump_the_epoch_of_an_open_transaction(epoch: int, error: int) -> None:
    driver = LogDriver()
    driver.txn(0, epoch=5, is_tv2=True)
    assert driver.end(committed=True, epoch=epoch, transaction_version=2) == error
    producer = driver.log.producers.all_producers()[0]
    if error == 0:
        assert (producer.producer_epoch, producer.last_sequence) == (6, -1)
        assert producer.txn_first_offset == -1
    else:
        assert producer.txn_first_offset == 0


def test_a_retried_marker_is_written_again_without_effect(driver: LogDriver) -> None:
    driver.txn(0, epoch=5, is_tv2=True)
    driver.end(committed=False, epoch=6, transaction_version=2)
    assert driver.end(committed=False, epoch=6, transaction_version=2) == 0
    state = driver.log.snapshot()
    assert state.log_end_offset == state.last_stable_offset == 3
    assert len(state.aborted) == 1


def test_an_exhausted_epoch_can_be_ended(driver: LogDriver) -> None:
    driver.txn(0, epoch=32767)
    assert driver.end(committed=False, epoch=32767, transaction_version=2) == 0


def test_a_zombie_coordinator_is_fenced(driver: LogDriver) -> None:
    driver.end(committed=True, coordinator_epoch=4)
    assert driver.end(committed=True, coordinator_epoch=3) == 52
    assert driver.log.producers.all_producers()[0].coordinator_epoch == 4


def test_an_operators_marker_ends_the_named_transaction_and_leaves_the_coordinator_epoch(
    driver: LogDriver,
) -> None:
    driver.end(committed=True, coordinator_epoch=4)
    driver.txn(0)
    assert driver.end(committed=False, coordinator_epoch=-1, start_offset=0) == 48
    assert driver.end(committed=False, coordinator_epoch=-1, start_offset=1, epoch=1) == 47
    assert driver.end(committed=False, coordinator_epoch=-1, start_offset=1) == 0
    (producer,) = driver.log.producers.all_producers()
    assert (producer.txn_first_offset, producer.coordinator_epoch) == (-1, 4)
    # What a follower or a restart makes of the bytes is the same.
    copy_of_log = replayed_log(
        driver.log.batches(),
        topic_partition=driver.log.topic_partition,
        config=driver.log.config,
        leader_epoch=0,
    )
    assert copy_of_log.producers.all_producers() == driver.log.producers.all_producers()


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


def test_a_markers_timestamp_is_the_leaders(driver: LogDriver) -> None:
    driver.now = NOW + 5
    driver.end(committed=True)
    (batch_data,) = driver.log.batches()
    assert len(batch_data) == 78
    assert read_batch_header(batch_data).max_timestamp_ms == NOW + 5
    assert driver.log.producers.all_producers()[0].last_timestamp == NOW + 5


@pytest.mark.parametrize("timestamp_type", TimestampType)
def test_a_marker_says_whose_time_it_carries(timestamp_type: TimestampType) -> None:
    driver = LogDriver(config_of(timestamp_type=timestamp_type))
    driver.end(committed=True)
    (batch_data,) = driver.log.batches()
    assert read_batch_header(batch_data).is_log_append_time == (
        timestamp_type is TimestampType.LOG_APPEND_TIME
    )


def test_a_coordinators_records_have_no_sequence_rules(driver: LogDriver) -> None:
    for _ in range(3):
        guard = driver.guard(-1)
        answer = append_coordinator(
            driver.log, batch(-1, is_transactional=True), now_ms=NOW, guard=guard
        )
        assert isinstance(answer, Appended)
        driver.settle()
    assert driver.log.log_end_offset == 3  # three times the same is no duplicate
    assert driver.log.snapshot().ongoing == ((0, PID),)


def test_a_coordinators_transactional_records_need_a_guard(driver: LogDriver) -> None:
    answer = append_coordinator(driver.log, batch(-1, is_transactional=True), now_ms=NOW)
    assert isinstance(answer, AppendRejection)
    assert answer.error == 48


def test_a_coordinators_plain_batch_is_stamped_like_others() -> None:
    log = make_log(config_of(timestamp_type=TimestampType.LOG_APPEND_TIME))
    answer = append_coordinator(log, plain(timestamp=5), now_ms=NOW)
    assert isinstance(answer, Appended)
    assert answer.log_append_time_ms == NOW


# Bounds


# A view of a frame


@pytest.mark.parametrize("compression", [0, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize(
    "config",
    [
        config_of(),
        config_of(codec=0),
        config_of(codec=GZIP),
        config_of(timestamp_type=TimestampType.LOG_APPEND_TIME),
        config_of(is_compacted=True),
        config_of(max_message_bytes=100),
        config_of(codec=GZIP, max_message_bytes=200),
    ],
)
def test_a_batch_that_is_a_view_of_its_frame_is_appended_as_its_bytes(
    config: LogConfig, compression: int
) -> None:
    batch_data = batch(0, count=50, compression=compression)
    frame = b"head" + batch_data + b"tail"
    logs = make_log(config), make_log(config)
    views = batch_data, memoryview(frame)[4:-4]
    for log, view in zip(logs, views, strict=True):
        header = read_batch_header(view)
        newest_ms = newest_timestamp(header, view)
        answer = append_client(
            log, view, guard=0, now_ms=NOW, header=header, timestamp_check=newest_ms
        )
        answer_of_copy = append_client(log, view, guard=0, now_ms=NOW)
        longer = append_client(log, view[:-1], guard=0, now_ms=NOW)
        assert isinstance(longer, AppendRejection)
        assert isinstance(answer, AppendRejection) or isinstance(answer_of_copy, Appended)
        assert all(isinstance(stored_batch, bytes) for stored_batch in log.batches())
    assert logs[0].snapshot() == logs[1].snapshot()
    assert [*logs[0].batches()] == [*logs[1].batches()]


def test_refusals_of_producer_state_show_the_log_start(driver: LogDriver) -> None:
    driver.data(0, count=2, epoch=1)
    driver.log.delete_records_before(1)
    for batch_data, error in (
        (batch(9, epoch=1), 45),
        (batch(2, epoch=0), 47),
        (batch(2, epoch=1, is_transactional=True), 48),
    ):
        answer = append_client(driver.log, batch_data, guard=0, now_ms=NOW)
        assert isinstance(answer, AppendRejection)
        assert (answer.error, answer.log_start_offset) == (error, 1)
        assert str(PARTITION) in answer.reason


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1)])
def test_a_marker_without_producer_is_our_callers_bug(producer_id: int, epoch: int) -> None:
    driver = LogDriver()
    assert driver.end(committed=True, producer_id=producer_id, epoch=epoch) == -1


@pytest.mark.parametrize(("limit", "error"), [(77, 10), (78, 0)])
def test_a_marker_is_a_message_that_may_be_too_large(limit: int, error: int) -> None:
    driver = LogDriver(config_of(max_message_bytes=limit))
    assert driver.end(committed=True) == error
    assert driver.end(committed=True, producer_id=-1) == -1


@pytest.mark.parametrize(("bound", "error", "start"), [(100, 10, -1), (1_000, 0, 0)])
def test_a_batch_that_unpacks_to_too_much_is_too_large(
    bound: int, error: int, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "UNPACKED_BYTES_MAX", bound)
    log = LogDriver().log
    answer = append_client(
        log,
        batch(producer_id=-1, record_value=b"v" * 200, compression=GZIP),
        guard=SENTINEL,
        now_ms=NOW,
    )
    assert (answer.error if isinstance(answer, AppendRejection) else 0) == error
    assert answer.log_start_offset == start


PLAIN_BYTES = len(plain())


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (config_of(max_message_bytes=PLAIN_BYTES - 1), 10),
        (config_of(segment_bytes=PLAIN_BYTES - 1), 18),
    ],
)
def test_a_coordinators_batch_has_the_same_limits(config: LogConfig, error: int) -> None:
    answer = append_coordinator(make_log(config), plain(), now_ms=NOW)
    assert isinstance(answer, AppendRejection)
    assert (answer.error, answer.log_start_offset) == (error, -1)


@pytest.mark.parametrize(
    "config", [config_of(max_message_bytes=PLAIN_BYTES), config_of(segment_bytes=PLAIN_BYTES)]
)
def test_a_coordinators_batch_may_be_as_large_as_the_limit(config: LogConfig) -> None:
    assert isinstance(append_coordinator(make_log(config), plain(), now_ms=NOW), Appended)


def test_the_header_may_be_handed_in(driver: LogDriver) -> None:
    batch_data = plain(2)
    answer = append_client(
        driver.log, batch_data, guard=0, now_ms=NOW, header=read_batch_header(batch_data)
    )
    assert answer == Appended(
        base_offset=0, last_offset=1, log_append_time_ms=-1, log_start_offset=0
    )


def test_a_marker_of_a_negative_transaction_version_is_refused() -> None:
    refusal = appended_marker(
        LogDriver().log,
        producer_id=7,
        producer_epoch=0,
        committed=True,
        coordinator_epoch=0,
        transaction_version=-1,
        now_ms=NOW,
    )
    assert refusal == AppendRejection(
        error=ErrorCode.unknown_server_error, reason="there is no transaction version -1"
    )
