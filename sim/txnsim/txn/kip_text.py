"""What the text of KIP-890 asks of the transaction log where Kafka behaves differently.

Two pure functions between a coordinator and its log, used only if ``kip_text`` is set: for clusters
whose clients are to be tested against the letter of the KIP. Kafka writes the previous producer id
into every record and never restores the last producer epoch.
"""

from __future__ import annotations

from msgspec.structs import replace

from txnsim.txn.state import EPOCH_EXHAUSTED, TransactionState, TxnMetadata, TxnTransition
from txnsim.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, TransactionVersion

_STATES_AFTER_END = frozenset({TransactionState.EMPTY, TransactionState.ONGOING})


def record_to_log(record: TxnTransition) -> TxnTransition:
    """The record to write for a transition. After the next transaction has begun, no producer can
    ask for the old end again, so the record has no previous producer id.
    """
    if record.state not in _STATES_AFTER_END or record.prev_producer_id == NO_PRODUCER_ID:
        return record
    return replace(record, prev_producer_id=NO_PRODUCER_ID)


def restore_last_epoch(txn: TxnMetadata) -> TxnMetadata:
    """Restore the last producer epoch of an entry that was read from the log."""
    return replace(txn, last_producer_epoch=_last_epoch(txn))


def _last_epoch(txn: TxnMetadata) -> ProducerEpoch:
    """The epoch of the EndTxn request: one less than the present epoch, so that the record need not
    have it. If the producer id was used up, it is the last but one possible epoch.
    """
    if txn.client_version < TransactionVersion.TV_2 or txn.state in _STATES_AFTER_END:
        return NO_PRODUCER_EPOCH
    if txn.prev_producer_id == NO_PRODUCER_ID:
        return NO_PRODUCER_EPOCH
    if txn.prev_producer_id != txn.producer_id:
        return ProducerEpoch(EPOCH_EXHAUSTED)
    return ProducerEpoch(txn.producer_epoch - 1)
