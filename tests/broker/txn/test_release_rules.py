"""Each switch of the transaction machine on and off: what the reference does, and what a broker did
before.

The off side is the history of the ticket; where a real older broker can be had, ``tests.conformance
.releases`` asks it the same.
"""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from tests.support.txn_entries import FOO_0, FOO_1, FRESH, NOW_MS, TID, entry
from txnsim.errors import CorruptLogRecordError, ErrorCode, Rejection
from txnsim.releases import LATEST_RULES, Rules
from txnsim.txn.commands import (
    NEEDS_PRODUCER_ID,
    AddPartitions,
    EndTxn,
    InitProducerId,
    PartitionsVerified,
    VerifyPartitions,
)
from txnsim.txn.log_format import decode_record, encode_key, encode_value
from txnsim.txn.log_reader import read_log
from txnsim.txn.machine import decide_add_partitions, decide_verify, is_timed_out
from txnsim.txn.machine_end import decide_end_txn, decide_fence
from txnsim.txn.machine_init import decide_init_producer_id
from txnsim.txn.state import TIMEOUT_NEVER_MS, TransactionState, TxnMetadata, TxnTransition
from txnsim.txn.transitions import (
    apply,
    begin,
    fence_epoch_of,
    to_complete,
    to_empty,
    to_ongoing,
    to_prepared_v2,
    withdraw,
)
from txnsim.types import PRODUCER_EPOCH_MAX, Decision, ProducerEpoch, ProducerId, TransactionVersion
from txnsim.wire.batch import Record, build_batch

TV_0: Final = TransactionVersion.TV_0
TV_1: Final = TransactionVersion.TV_1
TV_2: Final = TransactionVersion.TV_2
EMPTY: Final = TransactionState.EMPTY
ONGOING: Final = TransactionState.ONGOING
PREPARE_COMMIT: Final = TransactionState.PREPARE_COMMIT
COMPLETE_ABORT: Final = TransactionState.COMPLETE_ABORT
EXHAUSTED: Final = 32_766


def fence(
    txn: TxnMetadata,
    rules: Rules,
    *,
    finalized_version: TransactionVersion = TV_2,
    by_timeout: bool = False,
) -> TxnTransition | ErrorCode:
    """The record of a fence, or the error that it ends with; a new producer id is at hand."""
    outcome = None
    for fresh_id in (None, FRESH):
        outcome = decide_fence(
            txn,
            finalized_version=finalized_version,
            now_ms=NOW_MS,
            fresh_producer_id=fresh_id,
            is_timeout=by_timeout,
            release_rules=rules,
        )
        if outcome is not NEEDS_PRODUCER_ID:
            break
    if isinstance(outcome, Rejection):
        return outcome.error
    assert isinstance(outcome, Decision)
    return outcome.records[0]


def end(txn: TxnMetadata, rules: Rules, *, epoch: int, committed: bool) -> object:
    """EndTxn of transactions v2: the target's epoch, or the error."""
    command = EndTxn(
        transactional_id=TID,
        producer_id=txn.producer_id,
        producer_epoch=ProducerEpoch(epoch),
        committed=committed,
        transaction_version=TV_2,
    )
    outcome = decide_end_txn(
        txn, command, now_ms=NOW_MS, fresh_producer_id=FRESH, release_rules=rules
    )
    if isinstance(outcome, Rejection):
        return outcome.error
    assert isinstance(outcome, Decision)
    return int(outcome.records[0].producer_epoch) if outcome.records else outcome.reply


# Adding and verifying


@pytest.mark.parametrize(
    ("rules", "expected_error"),
    [
        (LATEST_RULES, ErrorCode.transaction_abortable),
        (Rules(unverified_is_abortable=False), ErrorCode.invalid_txn_state),
    ],
)
def test_a_partition_outside_of_the_transaction(rules: Rules, expected_error: ErrorCode) -> None:
    verification = decide_verify(entry(ONGOING), _verify(), release_rules=rules)
    assert isinstance(verification, PartitionsVerified)
    assert verification.partition_errors == ((FOO_0, ErrorCode.none), (FOO_1, expected_error))


def test_verification_while_a_move_is_under_way() -> None:
    txn = entry(ONGOING, pending_state=ONGOING)
    assert isinstance(decide_verify(txn, _verify(), release_rules=LATEST_RULES), PartitionsVerified)
    rejection = decide_verify(txn, _verify(), release_rules=Rules(verify_ignores_pending=False))
    assert isinstance(rejection, Rejection)
    assert rejection.error is ErrorCode.concurrent_transactions


def test_adding_with_the_identity_that_an_overflow_is_about_to_bring() -> None:
    txn = entry(
        PREPARE_COMMIT,
        epoch=PRODUCER_EPOCH_MAX,
        next_producer_id=FRESH,
        pending_state=PREPARE_COMMIT,
    )
    outcome_by_rules = {
        rules: decide_add_partitions(
            txn, _add(producer_id=FRESH, epoch=0), now_ms=NOW_MS, release_rules=rules
        )
        for rules in (LATEST_RULES, Rules(pending_comes_before_identity=False))
    }
    assert [
        outcome.error for outcome in outcome_by_rules.values() if isinstance(outcome, Rejection)
    ] == [
        ErrorCode.concurrent_transactions,
        ErrorCode.invalid_producer_id_mapping,
    ]


def test_a_pending_move_still_refuses_the_right_identity_of_old() -> None:
    rejection = decide_add_partitions(
        entry(ONGOING, pending_state=ONGOING),
        _add(),
        now_ms=NOW_MS,
        release_rules=Rules(pending_comes_before_identity=False),
    )
    assert isinstance(rejection, Rejection)
    assert rejection.error is ErrorCode.concurrent_transactions


@pytest.mark.parametrize(
    ("rules", "expected_version"),
    [(LATEST_RULES, TV_2), (Rules(client_version_is_kept=False), TV_0)],
)
def test_the_version_that_an_entry_remembers(
    rules: Rules, expected_version: TransactionVersion
) -> None:
    add_decision = decide_add_partitions(entry(), _add(), now_ms=NOW_MS, release_rules=rules)
    assert isinstance(add_decision, Decision)
    assert add_decision.records[0].client_version is expected_version


def _verify() -> VerifyPartitions:
    return VerifyPartitions(
        transactional_id=TID,
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(5),
        partitions=(FOO_0, FOO_1),
    )


def _add(*, producer_id: int = 7, epoch: int = 5) -> AddPartitions:
    return AddPartitions(
        transactional_id=TID,
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(epoch),
        partitions=frozenset({FOO_1}),
        transaction_version=TV_2,
    )


# Epochs


def test_a_late_commit_that_meets_the_timeouts_abort() -> None:
    txn = entry(COMPLETE_ABORT, epoch=6)
    assert end(txn, LATEST_RULES, epoch=5, committed=True) is ErrorCode.invalid_txn_state
    mended_rules = Rules(late_commit_is_fenced=True)
    assert end(txn, mended_rules, epoch=5, committed=True) is ErrorCode.producer_fenced
    assert end(txn, mended_rules, epoch=6, committed=True) is ErrorCode.invalid_txn_state
    metadata_after_commit = entry(TransactionState.COMPLETE_COMMIT, epoch=6)
    assert (
        end(metadata_after_commit, mended_rules, epoch=5, committed=False)
        is ErrorCode.invalid_txn_state
    )


@pytest.mark.parametrize("state", [EMPTY, TransactionState.COMPLETE_COMMIT, COMPLETE_ABORT])
def test_a_commit_of_nothing(state: TransactionState) -> None:
    ending_rules = Rules(empty_commits_are_ended=True)
    assert end(entry(state), LATEST_RULES, epoch=5, committed=True) is ErrorCode.invalid_txn_state
    assert end(entry(state), ending_rules, epoch=5, committed=True) == 6
    for rules in (LATEST_RULES, ending_rules):
        assert end(entry(state), rules, epoch=5, committed=False) == 6
        assert end(entry(ONGOING), rules, epoch=5, committed=True) == 6


def test_while_markers_are_sent_an_end_waits_or_is_judged() -> None:
    txn = entry(TransactionState.PREPARE_COMMIT, epoch=6)
    shipped = {
        (5, True): ErrorCode.concurrent_transactions,
        (5, False): ErrorCode.invalid_txn_state,
    }
    shipped |= dict.fromkeys([(4, True), (6, False)], ErrorCode.producer_fenced)
    waiting_rules = Rules(prepared_ends_are_concurrent=True)
    for (epoch, committed), error in shipped.items():
        assert end(txn, LATEST_RULES, epoch=epoch, committed=committed) is error
        end_error = end(txn, waiting_rules, epoch=epoch, committed=committed)
        assert end_error is ErrorCode.concurrent_transactions


def test_the_timeout_raises_the_epoch() -> None:
    old_rules = Rules(timeout_bumps_epoch=False)
    for rules, by_timeout, epoch in (
        (LATEST_RULES, True, 6),
        (old_rules, True, 5),
        (old_rules, False, 6),
    ):
        record = fence(entry(ONGOING), rules, finalized_version=TV_0, by_timeout=by_timeout)
        assert isinstance(record, TxnTransition)
        assert record.producer_epoch == epoch


def test_a_fence_whose_record_was_lost_is_repeated() -> None:
    txn = entry(ONGOING, client_version=TV_0)
    fence_transition = fence(txn, LATEST_RULES, finalized_version=TV_0)
    assert isinstance(fence_transition, TxnTransition)
    withdrawn_txn = withdraw(begin(txn, fence_transition, now_ms=NOW_MS), fence_transition)
    assert withdrawn_txn.producer_epoch == 6
    assert fence_epoch_of(withdrawn_txn, release_rules=LATEST_RULES) == 6
    assert fence_epoch_of(withdrawn_txn, Rules(failed_fence_keeps_epoch=False)) == 7


def test_a_fence_of_version_2_raises_the_epoch_once() -> None:
    txn = entry(ONGOING)
    single_fence, double_fence = fence(txn, LATEST_RULES), fence(txn, Rules(fence_bumps_once=False))
    assert isinstance(single_fence, TxnTransition)
    assert isinstance(double_fence, TxnTransition)
    assert (single_fence.producer_epoch, single_fence.last_producer_epoch) == (6, 5)
    assert (double_fence.producer_epoch, double_fence.last_producer_epoch) == (7, 6)
    begun_txn = begin(txn, double_fence, now_ms=NOW_MS)
    assert begun_txn.producer_epoch == 6, "the fence holds before it is logged"
    prepared_txn = apply(begun_txn, double_fence, release_rules=LATEST_RULES)
    assert prepared_txn is not None
    assert to_complete(prepared_txn, now_ms=NOW_MS).producer_epoch == 7


def test_a_double_fence_has_no_room_at_the_last_epochs() -> None:
    old_rules = Rules(fence_bumps_once=False)
    assert fence(entry(ONGOING, epoch=EXHAUSTED), old_rules) is ErrorCode.unknown_server_error
    at_last = fence(entry(ONGOING, epoch=EXHAUSTED - 1), old_rules)
    assert isinstance(at_last, TxnTransition)
    assert at_last.producer_epoch == PRODUCER_EPOCH_MAX


def test_a_fence_of_version_2_at_the_exhausted_epoch() -> None:
    txn = entry(ONGOING, epoch=EXHAUSTED)
    for rules, next_producer_id, complete in (
        (LATEST_RULES, 1000, (1000, 0)),
        (Rules(fence_rotates_exhausted_id=False), -1, (7, PRODUCER_EPOCH_MAX)),
    ):
        record = fence(txn, rules)
        assert isinstance(record, TxnTransition)
        assert (record.producer_epoch, record.next_producer_id) == (
            PRODUCER_EPOCH_MAX,
            next_producer_id,
        )
        prepared_txn = apply(begin(txn, record, now_ms=NOW_MS), record, release_rules=LATEST_RULES)
        assert prepared_txn is not None
        complete_transition = to_complete(prepared_txn, now_ms=NOW_MS)
        assert (complete_transition.producer_id, complete_transition.producer_epoch) == complete


@pytest.mark.parametrize("finalized_version", [TV_0, TV_2])
def test_a_transaction_that_was_opened_at_the_last_epoch(
    finalized_version: TransactionVersion,
) -> None:
    txn = entry(ONGOING, epoch=PRODUCER_EPOCH_MAX)
    old_rules = Rules(last_epoch_recovers=False)
    assert isinstance(fence(txn, LATEST_RULES, finalized_version=finalized_version), TxnTransition)
    assert (
        fence(txn, old_rules, finalized_version=finalized_version) is ErrorCode.unknown_server_error
    )
    last_epoch = PRODUCER_EPOCH_MAX
    assert end(txn, LATEST_RULES, epoch=last_epoch, committed=False) == last_epoch
    assert end(txn, old_rules, epoch=last_epoch, committed=False) is ErrorCode.unknown_server_error
    for rules in (LATEST_RULES, old_rules):
        assert end(txn, rules, epoch=last_epoch, committed=True) is ErrorCode.unknown_server_error


def test_a_fence_without_an_epoch_left_is_told_to_who_asked() -> None:
    rejection = decide_init_producer_id(
        entry(ONGOING, epoch=PRODUCER_EPOCH_MAX),
        InitProducerId(transactional_id=TID, timeout_ms=1_000),
        finalized_version=TV_2,
        now_ms=NOW_MS,
        release_rules=Rules(last_epoch_recovers=False),
    )
    assert isinstance(rejection, Rejection)
    assert rejection.error is ErrorCode.unknown_server_error


# What is kept and logged


def test_swapped_producer_ids_in_the_log() -> None:
    txn = entry(ONGOING, epoch=EXHAUSTED)
    record = to_prepared_v2(txn, is_commit=True, fresh_producer_id=FRESH, now_ms=NOW_MS)
    for rules, ids in ((LATEST_RULES, (7, 1000)), (Rules(swapped_ids_are_logged=False), (-1, -1))):
        transition = decode_record(
            encode_key(TID),
            encode_value(record, finalized_version=TV_2, release_rules=rules),
            release_rules=LATEST_RULES,
        )
        assert isinstance(transition, TxnTransition)
        assert (transition.prev_producer_id, transition.next_producer_id) == ids
        assert transition.client_version is TV_2


def test_tags_are_of_no_meaning_to_a_release_without_transactions_v2() -> None:
    record = to_prepared_v2(entry(ONGOING), is_commit=True, fresh_producer_id=None, now_ms=NOW_MS)
    record_value = encode_value(record, finalized_version=TV_2, release_rules=LATEST_RULES)
    transition = decode_record(
        encode_key(TID), record_value, release_rules=Rules(client_version_is_kept=False)
    )
    assert isinstance(transition, TxnTransition)
    assert (transition.client_version, transition.prev_producer_id) == (TV_0, -1)


def test_a_new_session_after_a_transaction() -> None:
    txn = entry(COMPLETE_ABORT, previous_producer_id=3)
    record = to_empty(
        txn,
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(6),
        last_producer_epoch=ProducerEpoch(-1),
        timeout_ms=60_000,
        now_ms=NOW_MS,
    )
    old_rules = Rules(moves_replace_whole_entry=False)
    for rules, start_ms in ((LATEST_RULES, -1), (old_rules, NOW_MS - 1_000)):
        session = apply(begin(txn, record, now_ms=NOW_MS), record, release_rules=rules)
        assert session is not None
        assert session.start_timestamp_ms == start_ms
        assert session.prev_producer_id == 7
        loaded_txn = apply(None, record, release_rules=rules)
        assert loaded_txn is not None
        assert loaded_txn.start_timestamp_ms == -1, "gone with the coordinator's memory"


def test_producer_ids_that_only_an_end_of_version_2_moves() -> None:
    old_rules = Rules(moves_replace_whole_entry=False)
    txn = entry(EMPTY, previous_producer_id=3, next_producer_id=9)
    open_transition = to_ongoing(
        txn, partitions=frozenset({FOO_0}), client_version=TV_2, now_ms=NOW_MS
    )
    for rules, ids in ((LATEST_RULES, (7, 9)), (old_rules, (3, 9))):
        moved_txn = apply(
            begin(txn, open_transition, now_ms=NOW_MS), open_transition, release_rules=rules
        )
        assert moved_txn is not None
        assert (moved_txn.prev_producer_id, moved_txn.next_producer_id) == ids
        end_transition = to_prepared_v2(
            moved_txn, is_commit=True, fresh_producer_id=None, now_ms=NOW_MS
        )
        prepared_txn = apply(
            begin(moved_txn, end_transition, now_ms=NOW_MS), end_transition, release_rules=rules
        )
        assert prepared_txn is not None
        assert (prepared_txn.prev_producer_id, prepared_txn.next_producer_id) == (ids[0], -1)
        completing_transition = to_complete(prepared_txn, now_ms=NOW_MS)
        complete_metadata = apply(
            begin(prepared_txn, completing_transition, now_ms=NOW_MS),
            completing_transition,
            release_rules=rules,
        )
        assert complete_metadata is not None
        assert complete_metadata.prev_producer_id == 7


def test_flexible_records_are_read_since_3_5() -> None:
    old_rules = Rules(flexible_records_are_read=False, unknown_records_are_skipped=False)
    record_value = encode_value(_session(), finalized_version=TV_1, release_rules=LATEST_RULES)
    assert isinstance(
        decode_record(encode_key(TID), record_value, release_rules=LATEST_RULES), TxnTransition
    )
    with pytest.raises(CorruptLogRecordError, match="unknown version 1"):
        decode_record(encode_key(TID), record_value, release_rules=old_rules)
    plain_value = encode_value(_session(), finalized_version=TV_0, release_rules=LATEST_RULES)
    assert isinstance(
        decode_record(encode_key(TID), plain_value, release_rules=old_rules), TxnTransition
    )


def test_a_record_of_the_future_ends_a_load_of_old() -> None:
    known_record = Record(
        key=encode_key(TID),
        value=encode_value(_session(), finalized_version=TV_1, release_rules=LATEST_RULES),
    )
    future_record = Record(key=encode_key(TID), value=b"\x00\x09" + bytes(40))
    log = [build_batch([record], timestamp_ms=NOW_MS) for record in (future_record, known_record)]
    assert list(read_log(log, release_rules=LATEST_RULES).entries) == [TID]
    stopped_entries = read_log(log, release_rules=Rules(unknown_records_are_skipped=False))
    assert stopped_entries.entries == {}
    assert stopped_entries.read_error is not None


def _session() -> TxnTransition:
    return to_empty(
        entry(),
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(6),
        last_producer_epoch=ProducerEpoch(5),
        timeout_ms=60_000,
        now_ms=NOW_MS,
    )


# Timers


@pytest.mark.parametrize(
    ("rules", "is_expected"), [(LATEST_RULES, False), (Rules(longest_timeout_is_never=False), True)]
)
def test_the_longest_timeout(rules: Rules, *, is_expected: bool) -> None:
    txn = entry(ONGOING, timeout_ms=TIMEOUT_NEVER_MS, start_ms=0)
    assert is_timed_out(txn, now_ms=TIMEOUT_NEVER_MS + 1, release_rules=rules) is is_expected


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_from_a_future_epoch(committed: bool) -> None:
    """Up to 2.5 only an older epoch is refused before the end is logged (KAFKA-9600)."""
    txn = entry(ONGOING, partitions=frozenset({FOO_0}))
    command = EndTxn(
        transactional_id=TID,
        producer_id=txn.producer_id,
        producer_epoch=ProducerEpoch(txn.producer_epoch + 1),
        committed=committed,
        transaction_version=TV_0,
    )
    old_rules = Rules(end_needs_exact_epoch=False)
    decision = decide_end_txn(txn, command, now_ms=NOW_MS, release_rules=old_rules)
    assert isinstance(decision, Decision)
    assert decision.records[0].producer_epoch == txn.producer_epoch
    assert isinstance(decision.reply, Rejection)
    assert decision.reply.error is ErrorCode.invalid_producer_epoch
    assert not decision.effects, "no marker is owed"
    stale_command = msgspec.structs.replace(
        command, producer_epoch=ProducerEpoch(txn.producer_epoch - 1)
    )
    for refused_command, rules in ((command, LATEST_RULES), (stale_command, old_rules)):
        outcome = decide_end_txn(txn, refused_command, now_ms=NOW_MS, release_rules=rules)
        assert isinstance(outcome, Rejection)
        assert outcome.error is ErrorCode.producer_fenced
