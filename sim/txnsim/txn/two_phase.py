"""Prepared transactions by the text of KIP-939: InitProducerId with KeepPreparedTxn keeps a
transaction open and gives its caller a second producer id and epoch, with which it can only be
ended.

The entry keeps the producer id and epoch with which the records are written, for the markers, and
the next ones, which the client has. Another InitProducerId of this kind fences the client with the
next ones, and the transaction stays open. No released broker has any of this (KAFKA-20739):
requests at the listener of ``--kip-text`` lead here, and those to brokers of ``--kip 939``.

Counterpart in Kafka: none yet; apache/kafka#21735 proposes one, and decides here what the text
leaves open.
"""

from __future__ import annotations

from msgspec.structs import replace

from txnsim.errors import ErrorCode, Rejection
from txnsim.txn.commands import (
    MARKERS_OWED,
    NEEDS_PRODUCER_ID,
    EndTxn,
    MarkersOwed,
    NeedsProducerId,
    PreparedKept,
)
from txnsim.txn.refusals import concurrent_rejection, fencing_rejection, other_producer_rejection
from txnsim.txn.state import TxnMetadata, TxnTransition
from txnsim.txn.transitions import is_epoch_exhausted, to_kept, to_prepared_kept
from txnsim.types import (
    NO_PRODUCER_EPOCH,
    Decision,
    ProducerEpoch,
    ProducerId,
    ProducerIdAndEpoch,
    TransactionVersion,
)

KeptDecision = Decision[TxnTransition, ProducerIdAndEpoch | Rejection, MarkersOwed]


def decide_keep(
    txn: TxnMetadata,
    *,
    finalized_version: TransactionVersion,
    now_ms: int,
    fresh_producer_id: ProducerId | None,
) -> KeptDecision | Rejection | NeedsProducerId:
    """Keep the open transaction, and give out the next producer id and epoch.

    Args:
        txn: The entry: Ongoing, nothing pending.
        finalized_version: Finalized level of ``transaction.version``; the KIP builds on version 2.
        now_ms: Cluster time.
        fresh_producer_id: An unused producer id, on the second call after ``NeedsProducerId``.
    """
    if finalized_version < TransactionVersion.TV_2:
        return Rejection(
            error=ErrorCode.unsupported_version,
            reason=f"{txn.transactional_id}: KeepPreparedTxn needs transaction.version 2, "
            f"it is {finalized_version:d}",
        )
    next_identity = _next_identity(_client_identity(txn), fresh_producer_id)
    if next_identity is None:
        return NEEDS_PRODUCER_ID
    ongoing_identity = ProducerIdAndEpoch(
        producer_id=txn.producer_id, producer_epoch=txn.producer_epoch
    )
    return Decision(
        records=(to_kept(txn, next_identity=next_identity, now_ms=now_ms),),
        reply=PreparedKept(
            producer_id=next_identity.producer_id,
            producer_epoch=next_identity.producer_epoch,
            ongoing_identity=ongoing_identity,
        ),
    )


def decide_end_kept(
    txn: TxnMetadata, command: EndTxn, *, now_ms: int, fresh_producer_id: ProducerId | None
) -> KeptDecision | Rejection | NeedsProducerId:
    """Decide about the EndTxn of a kept transaction: only the client with the next producer id and
    epoch may send it. That client has version 2 of the protocol, so who has an older one is a
    zombie.
    """
    if command.transaction_version < TransactionVersion.TV_2:
        return fencing_rejection(txn, command.producer_epoch, "")
    refusal = _refuse_stranger(txn, command.producer_id, command.producer_epoch)
    if refusal is not None:
        return refusal
    return end_kept(
        txn, is_commit=command.committed, now_ms=now_ms, fresh_producer_id=fresh_producer_id
    )


def end_kept(
    txn: TxnMetadata, *, is_commit: bool, now_ms: int, fresh_producer_id: ProducerId | None
) -> KeptDecision | NeedsProducerId:
    """End a kept transaction. The epoch is raised once more, so that a late EndTxn with the epoch
    that was given out can't end the next transaction.
    """
    next_identity = _next_identity(_client_identity(txn), fresh_producer_id)
    if next_identity is None:
        return NEEDS_PRODUCER_ID
    record = to_prepared_kept(txn, is_commit=is_commit, next_identity=next_identity, now_ms=now_ms)
    return Decision(records=(record,), reply=next_identity, effects=MARKERS_OWED)


def refuse_addition(txn: TxnMetadata) -> Rejection:
    """The error for adding to a kept transaction, which no producer may do, not even the one that
    wrote it.
    """
    return concurrent_rejection(txn, "") if txn.pending_state is not None else _only_ended(txn)


def refuse_verification(
    txn: TxnMetadata, producer_id: ProducerId, producer_epoch: ProducerEpoch
) -> Rejection:
    """The error for a leader that verifies a kept transaction: no producer may write to it."""
    return _refuse_stranger(txn, producer_id, producer_epoch) or _only_ended(txn)


def without_next_epoch(txn: TxnMetadata) -> TxnMetadata:
    """An entry read from the log by a broker that does not know NextProducerEpoch."""
    return replace(txn, next_producer_epoch=NO_PRODUCER_EPOCH)


def _client_identity(txn: TxnMetadata) -> ProducerIdAndEpoch:
    """The producer id and epoch that the client has."""
    if txn.next_producer_epoch == NO_PRODUCER_EPOCH:
        return ProducerIdAndEpoch(producer_id=txn.producer_id, producer_epoch=txn.producer_epoch)
    return ProducerIdAndEpoch(
        producer_id=txn.next_producer_id, producer_epoch=txn.next_producer_epoch
    )


def _next_identity(
    identity: ProducerIdAndEpoch, fresh_producer_id: ProducerId | None
) -> ProducerIdAndEpoch | None:
    """The next producer id and epoch; None if that needs a new producer id."""
    if not is_epoch_exhausted(identity.producer_epoch):
        return replace(identity, producer_epoch=ProducerEpoch(identity.producer_epoch + 1))
    if fresh_producer_id is None:
        return None
    return ProducerIdAndEpoch(producer_id=fresh_producer_id, producer_epoch=ProducerEpoch(0))


def _refuse_stranger(
    txn: TxnMetadata, producer_id: ProducerId, producer_epoch: ProducerEpoch
) -> Rejection | None:
    if txn.pending_state is not None:
        return concurrent_rejection(txn, "")
    held_identity = _client_identity(txn)
    held_txn = replace(
        txn, producer_id=held_identity.producer_id, producer_epoch=held_identity.producer_epoch
    )
    if producer_id != held_identity.producer_id:
        return other_producer_rejection(held_txn, producer_id, "")
    if producer_epoch != held_identity.producer_epoch:
        return fencing_rejection(held_txn, producer_epoch, "")
    return None


def _only_ended(txn: TxnMetadata) -> Rejection:
    return Rejection(
        error=ErrorCode.invalid_txn_state,
        reason=f"{txn.transactional_id}: a prepared transaction can only be ended (KIP-939)",
    )
