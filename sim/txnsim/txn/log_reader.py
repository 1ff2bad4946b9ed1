"""From a partition of ``__transaction_state`` to the entries that a coordinator starts with.

Every record goes through the same ``apply`` as a live one; the last one of each transactional id
stays. Kafka logs an exception met while reading and goes on with what it has read: so does this,
and tells what it was.

Counterpart in Kafka: TransactionStateManager.loadTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from txnsim.errors import CorruptBatchError, CorruptLogRecordError
from txnsim.releases.rules import LATEST, Rules
from txnsim.txn.log_format import decode_record
from txnsim.txn.state import Tombstone, TransactionState, TxnMetadata
from txnsim.txn.transitions import apply
from txnsim.types import Subject, TopicPartition, TransactionalId
from txnsim.wire.batch import iter_batches, read_records

_RESULTS: Final = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}
"""Whether a transaction in that state is committed."""


class LoadedLog(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, and why reading stopped early, if it did."""

    entries: dict[TransactionalId, TxnMetadata]
    problem: str | None = None


def subjects_in(batch: bytes, where: TopicPartition) -> Subject:
    """Whom the records of a batch are about, for fault plans.

    Args:
        batch: As a coordinator appends it.
        where: The partition of ``__transaction_state``.
    """
    subjects = []
    for record in read_records(batch, 0):
        assert record.key is not None  # it is our own
        found = decode_record(record.key, record.value)
        assert found is not None
        if isinstance(found, Tombstone):
            subject = Subject(transactional_id=found.transactional_id, partitions=(where,))
        else:
            subject = Subject(
                transactional_id=found.transactional_id,
                producer_id=found.producer_id,
                partitions=(where,),
                committed=_RESULTS.get(found.state),
            )
        subjects.append(subject)
    return Subject(partitions=(where,), others=tuple(subjects))


def read_log(chunks: Iterable[bytes], *, rules: Rules = LATEST) -> LoadedLog:
    """Replay a log.

    Args:
        chunks: Record batches in the order of the log; a chunk may hold several, end to end.
        rules: The broker's.
    """
    entries: dict[TransactionalId, TxnMetadata] = {}
    try:
        for chunk in chunks:
            for position, header in iter_batches(chunk):
                if not header.is_control:
                    _replay(entries, chunk, position, rules)
    except (CorruptBatchError, CorruptLogRecordError) as error:
        return LoadedLog(entries=entries, problem=str(error))
    return LoadedLog(entries=entries)


def _replay(
    entries: dict[TransactionalId, TxnMetadata], chunk: bytes, position: int, rules: Rules
) -> None:
    for record in read_records(chunk, position):
        if record.key is None:
            raise CorruptLogRecordError(f"record {record.offset} of __transaction_state has no key")
        found = decode_record(record.key, record.value, rules=rules)
        if found is None:  # a version that is not known
            continue
        txn = apply(None, found)
        if txn is None:
            entries.pop(found.transactional_id, None)
        else:
            entries[found.transactional_id] = txn
