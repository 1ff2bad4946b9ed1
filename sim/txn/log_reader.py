"""From a partition of ``__transaction_state`` to the entries that a coordinator starts with.

Every record goes through the same ``apply`` as a live one; the last one of each transactional id
stays. Kafka logs an exception met while reading and goes on with what it has read: so does this,
and tells what it was.

Counterpart in Kafka: TransactionStateManager.loadTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sim.errors import CorruptBatchError, CorruptLogRecordError
from sim.releases.rules import LATEST, Rules
from sim.txn.log_format import decode_record
from sim.txn.state import TxnMetadata
from sim.txn.transitions import apply
from sim.types import TransactionalId
from sim.wire.batch import iter_batches, read_records


class LoadedLog(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, and why reading stopped early, if it did."""

    entries: dict[TransactionalId, TxnMetadata]
    problem: str | None = None


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
