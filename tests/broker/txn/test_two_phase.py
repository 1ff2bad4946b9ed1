"""A prepared transaction is kept by the text of KIP-939."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.support.txn_entries import FOO_0, FRESH, NOW_MS, TID, entry
from txnsim.errors import ErrorCode, Rejection
from txnsim.releases.rules import LATEST_RULES
from txnsim.txn.commands import (
    AddPartitions,
    EndTxn,
    InitProducerId,
    NeedsProducerId,
    PreparedKept,
    VerifyPartitions,
)
from txnsim.txn.log_format import decode_record, encode_key, encode_value
from txnsim.txn.machine import decide_add_partitions, decide_verify
from txnsim.txn.machine_end import decide_end_txn, decide_fence
from txnsim.txn.machine_init import decide_init_producer_id
from txnsim.txn.state import TransactionState, TxnMetadata, TxnTransition
from txnsim.txn.transitions import apply, begin, to_complete
from txnsim.txn.two_phase import KeptDecision, decide_end_kept, decide_keep, without_next_epoch
from txnsim.types import ProducerEpoch, ProducerId, ProducerIdAndEpoch, TransactionVersion

S = TransactionState
TV_2 = TransactionVersion.TV_2
LAST = 32_766


def identity(producer_id: int, epoch: int) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(
        producer_id=ProducerId(producer_id), producer_epoch=ProducerEpoch(epoch)
    )


def entry_after(txn: TxnMetadata, decision: KeptDecision) -> TxnMetadata:
    """The entry once the record of a decision is written."""
    (record,) = decision.records
    moved_txn = apply(begin(txn, record, now_ms=NOW_MS), record, release_rules=LATEST_RULES)
    assert moved_txn is not None
    return moved_txn


def keep_prepared(txn: TxnMetadata) -> tuple[TxnMetadata, PreparedKept]:
    outcome = decide_keep(txn, finalized_version=TV_2, now_ms=NOW_MS, fresh_producer_id=None)
    if isinstance(outcome, NeedsProducerId):
        outcome = decide_keep(txn, finalized_version=TV_2, now_ms=NOW_MS, fresh_producer_id=FRESH)
    assert not isinstance(outcome, NeedsProducerId | Rejection)
    assert isinstance(outcome.reply, PreparedKept)
    return entry_after(txn, outcome), outcome.reply


def end_command(producer_id: int, epoch: int, *, version: TransactionVersion = TV_2) -> EndTxn:
    return EndTxn(
        transactional_id=TID,
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(epoch),
        committed=True,
        transaction_version=version,
    )


def end(
    txn: TxnMetadata, producer_id: int, epoch: int, *, version: TransactionVersion = TV_2
) -> object:
    command = end_command(producer_id, epoch, version=version)
    outcome = decide_end_txn(txn, command, now_ms=NOW_MS, release_rules=LATEST_RULES)
    if isinstance(outcome, NeedsProducerId):
        outcome = decide_end_txn(
            txn,
            command,
            now_ms=NOW_MS,
            fresh_producer_id=ProducerId(2000),
            release_rules=LATEST_RULES,
        )
    return outcome


def complete_entry(txn: TxnMetadata, outcome: object) -> TxnMetadata:
    assert not isinstance(outcome, NeedsProducerId | Rejection)
    prepared_txn = entry_after(txn, outcome)  # type: ignore[arg-type]
    pending_metadata = begin(prepared_txn, to_complete(prepared_txn, now_ms=NOW_MS), now_ms=NOW_MS)
    completed_metadata = apply(
        pending_metadata, to_complete(prepared_txn, now_ms=NOW_MS), release_rules=LATEST_RULES
    )
    assert completed_metadata is not None
    return completed_metadata


@pytest.mark.parametrize(
    ("epoch", "first_identity", "second_identity", "went_on"),
    [
        (5, (7, 6), (7, 7), (7, 8)),
        (LAST - 2, (7, LAST - 1), (7, LAST), (2000, 0)),
        (LAST, (FRESH, 0), (FRESH, 1), (FRESH, 2)),
    ],
)
def test_each_caller_gets_the_next_identity_and_the_transaction_stays(
    epoch: int,
    first_identity: tuple[int, int],
    second_identity: tuple[int, int],
    went_on: tuple[int, int],
) -> None:
    txn = entry(S.ONGOING, epoch=epoch)
    metadata_after_first, prepared_kept = keep_prepared(txn)
    metadata_kept_twice, second_kept = keep_prepared(metadata_after_first)
    assert (prepared_kept.producer_id, prepared_kept.producer_epoch) == first_identity
    assert (second_kept.producer_id, second_kept.producer_epoch) == second_identity
    assert prepared_kept.ongoing_identity == second_kept.ongoing_identity == identity(7, epoch)
    assert (
        metadata_kept_twice.state,
        metadata_kept_twice.partitions,
        metadata_kept_twice.start_timestamp_ms,
    ) == (
        S.ONGOING,
        txn.partitions,
        txn.start_timestamp_ms,
    )
    assert metadata_kept_twice.txn_timeout_ms == txn.txn_timeout_ms
    outcome = end(metadata_kept_twice, *second_identity)
    assert not isinstance(outcome, Rejection)
    completed_metadata = complete_entry(metadata_kept_twice, outcome)
    assert (
        completed_metadata.producer_id,
        completed_metadata.producer_epoch,
        completed_metadata.state,
    ) == (
        *went_on,
        S.COMPLETE_COMMIT,
    )
    # The answer was lost: the same request is answered alike.
    retried = end(completed_metadata, *second_identity)
    assert not isinstance(retried, Rejection | NeedsProducerId)
    assert retried.reply == identity(*went_on)  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_kept", [True, False])
def test_an_open_transaction_is_kept_for_who_asks_for_that(*, is_kept: bool) -> None:
    txn = entry(S.ONGOING)
    init_decision = decide_init_producer_id(
        txn,
        InitProducerId(transactional_id=TID, timeout_ms=1_000, keeps_prepared=is_kept),
        finalized_version=TV_2,
        now_ms=NOW_MS,
        release_rules=LATEST_RULES,
    )
    kept_decision = decide_keep(txn, finalized_version=TV_2, now_ms=NOW_MS, fresh_producer_id=None)
    assert (init_decision == kept_decision) is is_kept


@pytest.mark.parametrize(
    ("producer_id", "epoch", "version", "error"),
    [
        (7, 5, TV_2, ErrorCode.producer_fenced),
        (7, 5, TransactionVersion.TV_0, ErrorCode.producer_fenced),
        (7, 6, TV_2, ErrorCode.producer_fenced),
        (8, 7, TV_2, ErrorCode.invalid_producer_id_mapping),
        (7, 7, TransactionVersion.TV_0, ErrorCode.producer_fenced),
    ],
)
def test_only_the_last_caller_may_end_it(
    producer_id: int, epoch: int, version: TransactionVersion, error: ErrorCode
) -> None:
    txn = keep_prepared(keep_prepared(entry(S.ONGOING))[0])[0]
    outcome = end(txn, producer_id, epoch, version=version)
    assert isinstance(outcome, Rejection)
    assert outcome.error is error


@pytest.mark.parametrize("epoch", [4, 5, 6])
def test_nothing_is_added_to_it(epoch: int) -> None:
    txn = keep_prepared(entry(S.ONGOING))[0]
    command = AddPartitions(
        transactional_id=TID,
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(epoch),
        partitions=frozenset({FOO_0}),
        transaction_version=TV_2,
    )
    outcome = decide_add_partitions(txn, command, now_ms=NOW_MS, release_rules=LATEST_RULES)
    assert isinstance(outcome, Rejection)
    assert outcome.error is ErrorCode.invalid_txn_state


def test_it_is_no_part_of_what_a_leader_may_take_more_for() -> None:
    txn = keep_prepared(entry(S.ONGOING))[0]
    command = VerifyPartitions(
        transactional_id=TID,
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(6),
        partitions=frozenset({FOO_0}),
    )
    outcome = decide_verify(txn, command, release_rules=LATEST_RULES)
    assert isinstance(outcome, Rejection)
    assert outcome.error is ErrorCode.invalid_txn_state


def test_who_ends_it_waits_while_it_moves() -> None:
    txn = keep_prepared(entry(S.ONGOING))[0]
    decision = decide_end_kept(txn, end_command(7, 6), now_ms=NOW_MS, fresh_producer_id=None)
    assert not isinstance(decision, Rejection | NeedsProducerId)
    pending_metadata = begin(txn, decision.records[0], now_ms=NOW_MS)
    outcome = decide_end_kept(
        pending_metadata, end_command(7, 6), now_ms=NOW_MS, fresh_producer_id=None
    )
    assert isinstance(outcome, Rejection)
    assert outcome.error is ErrorCode.concurrent_transactions


def test_an_operator_fences_who_kept_it() -> None:
    txn = keep_prepared(entry(S.ONGOING))[0]
    outcome = decide_fence(txn, finalized_version=TV_2, now_ms=NOW_MS, release_rules=LATEST_RULES)
    completed_metadata = complete_entry(txn, outcome)
    assert (
        completed_metadata.state,
        completed_metadata.producer_id,
        completed_metadata.producer_epoch,
    ) == (
        S.COMPLETE_ABORT,
        7,
        7,
    )


def test_below_version_2_there_is_no_room_for_it() -> None:
    outcome = decide_keep(
        entry(S.ONGOING),
        finalized_version=TransactionVersion.TV_1,
        now_ms=NOW_MS,
        fresh_producer_id=None,
    )
    assert isinstance(outcome, Rejection)
    assert outcome.error is ErrorCode.unsupported_version


def test_the_next_identity_is_logged_and_a_shipped_broker_does_not_read_it() -> None:
    decision = decide_keep(
        entry(S.ONGOING), finalized_version=TV_2, now_ms=NOW_MS, fresh_producer_id=None
    )
    assert not isinstance(decision, Rejection | NeedsProducerId)
    (record,) = decision.records
    record_value = encode_value(record, finalized_version=TV_2, release_rules=LATEST_RULES)
    read = decode_record(encode_key(TID), record_value, release_rules=LATEST_RULES)
    assert isinstance(read, TxnTransition)
    assert (read.next_producer_id, read.next_producer_epoch) == (7, 6)
    loaded_txn = apply(None, read, release_rules=LATEST_RULES)
    assert loaded_txn is not None
    assert without_next_epoch(loaded_txn) == replace(
        loaded_txn, next_producer_epoch=ProducerEpoch(-1)
    )
