"""The table ``transactions``: the decoded log of the transaction coordinators.

Every record is a row. A record that this release can't read has a ``problem``. Kafka's
counterparts: TransactionLog, TransactionStateManager.loadTransactionMetadata.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from typing import Final

from txnsim.releases.rules import LATEST_RULES
from txnsim.txn.log_format import decode_record
from txnsim.txn.state import Tombstone, TxnTransition
from txnsim.wire.batch import Record
from txnsim_spark.scan.segments import SegmentFile
from txnsim_spark.schemas import TransactionRow
from txnsim_spark.tables._decoded import decode_or_problem, decoded_records
from txnsim_spark.tables.rows import (
    Rows,
    TableJob,
    none_if_negative,
    rows_of_structs,
    segment_columns,
)

_INT16: Final = struct.Struct(">h")


def read(segment: SegmentFile, job: TableJob) -> Iterator[Rows]:
    rows = (row_of(record) for record, _ in decoded_records(segment, job))
    return rows_of_structs(rows, partial(segment_columns, segment))


def row_of(record: Record) -> TransactionRow:
    key, value = record.key or b"", record.value
    decoded_entry, problem = decode_or_problem(
        record,
        partial(decode_record, release_rules=LATEST_RULES),
        partial(_unknown_reason, key, value),
    )
    match decoded_entry:
        case TxnTransition():
            return _decoded_entry(record, decoded_entry)
        case Tombstone():
            return TransactionRow(
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
                transactional_id=decoded_entry.transactional_id,
                is_tombstone=True,
            )
    return TransactionRow(
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        is_tombstone=value is None,
        value_version=version_of(value),
        problem=problem,
    )


def _decoded_entry(record: Record, transition: TxnTransition) -> TransactionRow:
    return TransactionRow(
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        transactional_id=transition.transactional_id,
        is_tombstone=False,
        value_version=version_of(record.value),
        state=transition.state.wire_name,
        producer_id=transition.producer_id,
        producer_epoch=transition.producer_epoch,
        previous_producer_id=none_if_negative(transition.prev_producer_id),
        next_producer_id=none_if_negative(transition.next_producer_id),
        timeout_ms=transition.txn_timeout_ms,
        partitions=tuple(
            {"topic": partition.topic, "partition": partition.partition}
            for partition in sorted(transition.partitions)
        ),
        start_timestamp_ms=none_if_negative(transition.start_timestamp_ms),
        last_update_timestamp_ms=none_if_negative(transition.last_update_timestamp_ms),
        client_transaction_version=int(transition.client_version),
    )


def version_of(data: bytes | None) -> int | None:
    """Version at the beginning of a key or value in a coordinator's log; None if the bytes are too
    short.
    """
    if data is None or len(data) < _INT16.size:
        return None
    (version,) = _INT16.unpack_from(data)
    return int(version)


def _unknown_reason(key: bytes, value: bytes | None) -> str:
    """Why the type of a record is unknown; Kafka skips it, too."""
    if version_of(key) != 0:
        return f"key of version {version_of(key)}, only 0 is known"
    return f"value of version {version_of(value)}, 0 and 1 are known"
