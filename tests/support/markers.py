"""Markers for logs, as a coordinator sends them."""

from __future__ import annotations

from txnsim.interbroker.transactions import TxnMarker
from txnsim.log import leader_append
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.partition_log import PartitionLog
from txnsim.types import CoordinatorEpoch, ProducerEpoch, ProducerId


def marker_of(
    *,
    producer_id: int = 7,
    producer_epoch: int = 0,
    committed: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    start_offset: int = -1,
) -> TxnMarker:
    """A marker that names no partitions."""
    return TxnMarker(
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(producer_epoch),
        committed=committed,
        coordinator_epoch=CoordinatorEpoch(coordinator_epoch),
        transaction_version=transaction_version,
        partitions=(),
        start_offset=start_offset,
    )


def append_marker(
    log: PartitionLog, *, now_ms: int, start_offset: int = -1, **fields: int
) -> Appended | AppendRejection:
    """Append a marker that names no partitions to a log."""
    marker = marker_of(start_offset=start_offset, **fields)  # type: ignore[arg-type]
    return leader_append.append_marker(log, marker, now_ms=now_ms)
