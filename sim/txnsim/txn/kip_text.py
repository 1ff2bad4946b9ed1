"""What the text of KIP-890 asks of the transaction log where Kafka does otherwise.

Two pure functions between a coordinator and its log, used only where ``kip_text`` is set: for
clusters whose clients are to be tried against the letter of the KIP. Kafka writes the previous
producer id into every record and never restores the last producer epoch.
"""

from __future__ import annotations

from msgspec.structs import replace

from txnsim.txn.state import EPOCH_EXHAUSTED, TransactionState, TxnMetadata, TxnTransition
from txnsim.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, TransactionVersion

_PAST_THE_END = frozenset({TransactionState.EMPTY, TransactionState.ONGOING})


def as_logged(record: TxnTransition) -> TxnTransition:
    """The record to write of a transition. After the end of a transaction no producer can ask for
    that end again, so the record drops the identity of the request.
    """
    if record.state not in _PAST_THE_END or record.prev_producer_id == NO_PRODUCER_ID:
        return record
    return replace(record, prev_producer_id=NO_PRODUCER_ID)


def as_loaded(txn: TxnMetadata) -> TxnMetadata:
    """An entry read from the log, with the epoch of the request for its end."""
    return replace(txn, last_producer_epoch=_last_epoch(txn))


def _last_epoch(txn: TxnMetadata) -> ProducerEpoch:
    """The epoch is one less than the present one, which is why the record need not hold it; of a
    producer id that was used up it is the last but one there is.
    """
    if txn.client_version < TransactionVersion.TV_2 or txn.state in _PAST_THE_END:
        return NO_PRODUCER_EPOCH
    if txn.prev_producer_id == NO_PRODUCER_ID:
        return NO_PRODUCER_EPOCH
    if txn.prev_producer_id != txn.producer_id:
        return ProducerEpoch(EPOCH_EXHAUSTED)
    return ProducerEpoch(txn.producer_epoch - 1)
