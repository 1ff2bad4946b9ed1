"""Reads a partition of ``__transaction_state`` into the entries with which a coordinator starts.

Every record goes through the same ``apply`` as a new one; the last one of each transactional id
stays. When Kafka gets an exception while reading, it logs it and goes on with the records read so
far. So does this module; it returns the exception's text.

Counterpart in Kafka: TransactionStateManager.loadTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

import msgspec

from txnsim.errors import CorruptBatchError, CorruptLogRecordError
from txnsim.releases.rules import Rules
from txnsim.txn.log_format import decode_record
from txnsim.txn.state import TxnMetadata
from txnsim.txn.transitions import apply
from txnsim.types import TransactionalId
from txnsim.wire.batch import iter_batches, read_records


class CoordinatorLogEntries(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that were read, and the error that ended the reading early, if any."""

    entries: dict[TransactionalId, TxnMetadata]
    read_error: str | None = None


def read_log(chunks: Iterable[bytes], *, release_rules: Rules) -> CoordinatorLogEntries:
    """Replay a log in one step; arguments as for ``read_in_steps``."""
    steps = read_in_steps(chunks, release_rules=release_rules)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            loaded_entries: CoordinatorLogEntries = end.value
            return loaded_entries


def read_in_steps(
    chunks: Iterable[bytes], *, release_rules: Rules
) -> Generator[int, None, CoordinatorLogEntries]:
    """Replay a log, a batch at a time; yields the number of records of each batch."""
    txn_by_id: dict[TransactionalId, TxnMetadata] = {}
    try:
        for chunk in chunks:
            for batch_position, header in iter_batches(chunk):
                if not header.is_control:
                    _replay(txn_by_id, chunk, batch_position, release_rules)
                    yield header.records_count
    except (CorruptBatchError, CorruptLogRecordError) as error:
        return CoordinatorLogEntries(entries=txn_by_id, read_error=str(error))
    return CoordinatorLogEntries(entries=txn_by_id)


def _replay(
    txn_by_id: dict[TransactionalId, TxnMetadata],
    chunk: bytes,
    batch_position: int,
    release_rules: Rules,
) -> None:
    for log_record in read_records(chunk, batch_position):
        if log_record.key is None:
            raise CorruptLogRecordError(
                f"record {log_record.offset} of __transaction_state has no key"
            )
        txn_record = decode_record(log_record.key, log_record.value, release_rules=release_rules)
        if txn_record is None:  # a version that is not known
            continue
        txn = apply(None, txn_record, release_rules=release_rules)
        if txn is None:
            txn_by_id.pop(txn_record.transactional_id, None)
        else:
            txn_by_id[txn_record.transactional_id] = txn
