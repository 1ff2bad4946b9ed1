"""Each switch of a partition's log on and off."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.logs import NOW, PID, batch, make_log, plain
from tests.support.markers import append_marker
from txnsim.errors import ErrorCode, Rejection
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.cleaner import clean, dirty_part_of
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_client, append_coordinator, start_verification
from txnsim.log.partition_log import PartitionLog
from txnsim.log.verification import SENTINEL
from txnsim.releases import LATEST_RULES, Rules
from txnsim.types import PRODUCER_EPOCH_MAX
from txnsim.wire.batch import read_batch_header


def log_with(rules: Rules) -> PartitionLog:
    return make_log(LogConfig(rules=rules))


def verify(
    log: PartitionLog, *, epoch: int = 0, sequence: int = 0, is_tv2: bool = False
) -> int | Rejection:
    return start_verification(
        log,
        producer_id=PID,
        producer_epoch=epoch,
        base_sequence=sequence,
        supports_epoch_bump=is_tv2,
        now_ms=NOW,
    )


def produce(
    log: PartitionLog, sequence: int = 0, *, epoch: int = 0, guard: int | Rejection = SENTINEL
) -> ErrorCode:
    assert isinstance(guard, int)
    outcome = append_client(
        log, batch(sequence, epoch=epoch, is_transactional=True), guard=guard, now_ms=NOW
    )
    log.advance_high_watermark(log.log_end_offset)
    return _error(outcome)


def mark(
    log: PartitionLog, *, epoch: int = 0, version: int = 0, coordinator_epoch: int = 0
) -> ErrorCode:
    outcome = append_marker(
        log,
        producer_id=PID,
        producer_epoch=epoch,
        committed=False,
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
        now_ms=NOW,
    )
    log.advance_high_watermark(log.log_end_offset)
    return _error(outcome)


def open_txn(log: PartitionLog, *, epoch: int = 0, is_tv2: bool = False) -> None:
    guard = verify(log, epoch=epoch, is_tv2=is_tv2)
    assert produce(log, epoch=epoch, guard=guard) is ErrorCode.none


def _error(outcome: Appended | AppendRejection) -> ErrorCode:
    return outcome.error if isinstance(outcome, AppendRejection) else ErrorCode.none


# Verification


def test_a_batch_that_nobody_verified() -> None:
    assert produce(log_with(LATEST_RULES)) is ErrorCode.invalid_txn_state
    assert produce(log_with(Rules(transactions_are_verified=False))) is ErrorCode.none


def test_an_answer_that_arrives_after_the_abort() -> None:
    for rules, error in (
        (LATEST_RULES, ErrorCode.invalid_txn_state),
        (Rules(guards_are_compared=False), ErrorCode.none),
    ):
        log = log_with(rules)
        guard = verify(log)
        mark(log)
        assert produce(log, guard=guard) is error
    unverified_log = log_with(Rules(guards_are_compared=False))
    assert produce(unverified_log) is ErrorCode.invalid_txn_state, "it was never asked about"


@pytest.mark.parametrize("is_epoch_raised", [True, False])
@pytest.mark.parametrize("are_guards_compared", [True, False])
def test_guard_and_raised_epoch_refuse_a_late_append_each_without_the_other(
    *, are_guards_compared: bool, is_epoch_raised: bool
) -> None:
    """If both would refuse the append, the epoch does. Without both, the append hangs."""
    log = log_with(Rules(guards_are_compared=are_guards_compared))
    guard = verify(log, is_tv2=is_epoch_raised)
    mark(log, epoch=int(is_epoch_raised), version=2 * is_epoch_raised)
    refusal_error = ErrorCode.invalid_txn_state if are_guards_compared else ErrorCode.none
    error = ErrorCode.invalid_producer_epoch if is_epoch_raised else refusal_error
    assert produce(log, guard=guard) is error
    is_hanging = not are_guards_compared and not is_epoch_raised
    assert (log.last_stable_offset < log.high_watermark) is is_hanging


def test_positions_that_nobody_verified() -> None:
    positions = batch(is_transactional=True)
    for rules, error in (
        (LATEST_RULES, ErrorCode.invalid_txn_state),
        (Rules(offset_commits_are_verified=False), ErrorCode.none),
    ):
        log = log_with(rules)
        assert _error(append_coordinator(log, positions, now_ms=NOW)) is error
        assert produce(log_with(rules)) is ErrorCode.invalid_txn_state, "clients are verified"


def test_a_batch_that_overtook_an_earlier_one() -> None:
    for rules, error in (
        (LATEST_RULES, ErrorCode.out_of_order_sequence_number),
        (Rules(earlier_sequence_goes_first=False), ErrorCode.none),
    ):
        log = log_with(rules)
        verify(log, sequence=0)
        assert produce(log, 1, guard=verify(log, sequence=1)) is error


def test_an_open_transaction_of_an_older_epoch() -> None:
    old_rules = Rules(open_transactions_have_epochs=False)
    for rules, is_asked in ((LATEST_RULES, True), (old_rules, False)):
        log = log_with(rules)
        open_txn(log, epoch=1)
        assert (verify(log, epoch=2) != SENTINEL) is is_asked
    log = log_with(old_rules)
    open_txn(log, epoch=1)
    assert produce(log, epoch=2) is ErrorCode.none, "it joins the open one"


def test_a_fenced_epoch_when_verification_begins() -> None:
    log = log_with(LATEST_RULES)
    mark(log, epoch=3)
    rejection = verify(log, epoch=2)
    assert isinstance(rejection, Rejection)
    assert rejection.error is ErrorCode.invalid_producer_epoch
    old_rules_log = log_with(Rules(stale_epoch_is_refused_early=False))
    mark(old_rules_log, epoch=3)
    guard = verify(old_rules_log, epoch=2)
    assert isinstance(guard, int)
    assert guard != SENTINEL, "the coordinator is asked"


def test_a_fenced_epoch_at_the_append() -> None:
    for rules, error in (
        (LATEST_RULES, ErrorCode.invalid_producer_epoch),
        (Rules(stale_epoch_comes_before_guard=False), ErrorCode.invalid_txn_state),
    ):
        log = log_with(rules)
        guard = verify(log, epoch=2)
        mark(log, epoch=3)
        assert produce(log, epoch=2, guard=guard) is error


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        (LATEST_RULES, ErrorCode.out_of_order_sequence_number),
        (Rules(v2_starts_at_sequence_zero=False), ErrorCode.none),
    ],
)
def test_the_first_sequence_of_transactions_v2(rules: Rules, error: ErrorCode) -> None:
    log = log_with(rules)
    assert produce(log, 3, guard=verify(log, sequence=3, is_tv2=True)) is error


def test_a_repeated_marker_while_the_next_transaction_is_verified() -> None:
    for rules, error in (
        (LATEST_RULES, ErrorCode.none),
        (Rules(own_epoch_marker_keeps_guard=False), ErrorCode.invalid_txn_state),
    ):
        log = log_with(rules)
        open_txn(log, is_tv2=True)
        assert mark(log, epoch=1, version=2) is ErrorCode.none
        guard = verify(log, epoch=1, is_tv2=True)
        assert mark(log, epoch=1, version=2) is ErrorCode.none
        assert produce(log, epoch=1, guard=guard) is error


# Markers


def test_a_late_marker_of_the_transaction_before() -> None:
    for rules, error in (
        (LATEST_RULES, ErrorCode.invalid_producer_epoch),
        (Rules(v2_markers_need_higher_epoch=False), ErrorCode.none),
    ):
        log = log_with(rules)
        open_txn(log, epoch=1, is_tv2=True)
        assert mark(log, epoch=1, version=2) is error
        assert (log.producers.open_transaction_of(PID) < 0) is (error is ErrorCode.none)


def test_a_marker_that_was_written_already() -> None:
    for rules, error in (
        (LATEST_RULES, ErrorCode.none),
        (Rules(repeated_v2_markers_are_written=False), ErrorCode.invalid_producer_epoch),
    ):
        log = log_with(rules)
        open_txn(log, is_tv2=True)
        assert mark(log, epoch=1, version=2) is ErrorCode.none
        assert mark(log, epoch=1, version=2) is error


def test_a_marker_of_the_last_epoch() -> None:
    for rules, error in (
        (LATEST_RULES, ErrorCode.none),
        (Rules(last_epoch_markers_are_written=False), ErrorCode.invalid_producer_epoch),
    ):
        log = log_with(rules)
        open_txn(log, epoch=PRODUCER_EPOCH_MAX, is_tv2=True)
        assert mark(log, epoch=PRODUCER_EPOCH_MAX, version=2) is error


# Producer state


def test_a_producer_of_whom_only_a_marker_is_known() -> None:
    for rules, expired in ((LATEST_RULES, ()), (Rules(markers_renew_producers=False), (PID,))):
        log = log_with(rules)
        open_txn(log)
        mark(log, epoch=1)
        assert log.expire_producers(NOW + 1_000) == expired


def test_a_producer_with_batches_lives_from_them() -> None:
    log = log_with(Rules(markers_renew_producers=False))
    open_txn(log)
    mark(log)
    assert log.expire_producers(NOW + 1_000) == ()
    assert log.expire_producers(NOW + log.config.producer_id_expiration_ms) == (PID,)


def test_a_producer_whose_records_are_deleted() -> None:
    for rules, expected_ids in (
        (LATEST_RULES, [PID]),
        (Rules(producers_outlive_records=False), []),
    ):
        log = log_with(rules)
        open_txn(log)
        mark(log, epoch=1)
        append_client(log, plain(), guard=SENTINEL, now_ms=NOW)
        log.advance_high_watermark(log.log_end_offset)
        log.delete_records_before(2)
        assert [
            all_producer.producer_id for all_producer in log.producers.all_producers()
        ] == expected_ids


def test_deleting_records_healed_a_hanging_transaction_of_old() -> None:
    for rules, is_stuck in ((LATEST_RULES, True), (Rules(producers_outlive_records=False), False)):
        log = log_with(rules)
        open_txn(log)
        append_client(log, plain(), guard=SENTINEL, now_ms=NOW)
        log.advance_high_watermark(log.log_end_offset)
        log.delete_records_before(2)
        assert (log.producers.open_transaction_of(PID) >= 0) is is_stuck
        assert (log.last_stable_offset < log.high_watermark) is False or is_stuck


@pytest.mark.parametrize(
    ("rules", "stable_offset"),
    [(LATEST_RULES, 0), (Rules(cut_transactions_begin_at_batch=False), 1)],
)
def test_records_of_an_open_transaction_are_deleted(rules: Rules, stable_offset: int) -> None:
    log = log_with(rules)
    two_records = batch(0, count=2, is_transactional=True)
    guard = verify(log)
    assert isinstance(guard, int)
    append_client(log, two_records, guard=guard, now_ms=NOW)
    log.advance_high_watermark(2)
    log.delete_records_before(1)
    log.check_invariants()
    assert (log.last_stable_offset, log.log_start_offset, log.high_watermark) == (
        stable_offset,
        1,
        2,
    )


def test_a_record_whose_key_is_that_of_a_marker() -> None:
    for rules, expected_offsets in (
        (LATEST_RULES, [0, 1, 2, 3, 4]),
        (Rules(cleaner_spares_markers=False), [0, 2, 3, 4]),
    ):
        config = LogConfig(
            rules=rules,
            is_compacted=True,
            is_deleted=False,
            roll_bytes=1 << 20,
            min_cleanable_dirty_ratio=0.0,
        )
        log = make_log(config)
        for producer_id, key in ((7, b"k"), (8, b"\x00\x00\x00\x01")):  # version 0, type COMMIT
            guard = start_verification(
                log,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                supports_epoch_bump=False,
                now_ms=NOW,
            )
            assert isinstance(guard, int)
            append_client(
                log,
                batch(0, producer_id=producer_id, is_transactional=True, key=key),
                guard=guard,
                now_ms=NOW,
            )
            append_marker(
                log,
                producer_id=producer_id,
                producer_epoch=0,
                committed=True,
                coordinator_epoch=0,
                transaction_version=0,
                now_ms=NOW,
            )
        log.config = msgspec.structs.replace(config, roll_bytes=1)
        append_client(log, batch(producer_id=-1), guard=SENTINEL, now_ms=NOW)
        log.advance_high_watermark(log.log_end_offset)
        dirty_part = dirty_part_of(log, NOW)
        assert dirty_part is not None
        for _ in clean(log, dirty_part, NOW):
            pass
        stored_offsets = [read_batch_header(batch).base_offset for batch in log.batches()]
        assert stored_offsets == expected_offsets
