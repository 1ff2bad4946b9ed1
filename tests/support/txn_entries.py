"""Entries of a transaction coordinator, and tables of them as text."""

from __future__ import annotations

from typing import Final

from txnsim.txn.state import TransactionState, TxnMetadata
from txnsim.types import (
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)

TID: Final = TransactionalId("txn-1")
NOW_MS: Final = 1_700_000_000_000
FOO_0: Final = TopicPartition("foo", 0)
FOO_1: Final = TopicPartition("foo", 1)
FRESH: Final = ProducerId(1000)

STATES: Final = {state.wire_name: state for state in TransactionState}
VERSIONS: Final = {f"TV{version:d}": version for version in TransactionVersion}

NEVER_STARTED: Final = frozenset({TransactionState.EMPTY})
WITHOUT_PARTITIONS: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)


def entry(
    state: TransactionState = TransactionState.EMPTY,
    *,
    producer_id: int = 7,
    epoch: int = 5,
    last_epoch: int = -1,
    previous_producer_id: int | None = None,
    next_producer_id: int = -1,
    pending_state: TransactionState | None = None,
    partitions: frozenset[TopicPartition] | None = None,
    start_ms: int | None = None,
    update_ms: int = NOW_MS - 500,
    timeout_ms: int = 60_000,
    client_version: TransactionVersion = TransactionVersion.TV_2,
    has_failed_fence: bool = False,
) -> TxnMetadata:
    """An entry in ``state``, with the given fields changed."""
    if partitions is None:
        partitions = frozenset() if state in WITHOUT_PARTITIONS else frozenset({FOO_0})
    if start_ms is None:
        start_ms = -1 if state in NEVER_STARTED else NOW_MS - 1_000
    return TxnMetadata(
        transactional_id=TID,
        producer_id=ProducerId(producer_id),
        prev_producer_id=ProducerId(
            producer_id if previous_producer_id is None else previous_producer_id
        ),
        next_producer_id=ProducerId(next_producer_id),
        producer_epoch=ProducerEpoch(epoch),
        last_producer_epoch=ProducerEpoch(last_epoch),
        txn_timeout_ms=timeout_ms,
        state=state,
        partitions=partitions,
        start_timestamp_ms=start_ms,
        last_update_timestamp_ms=update_ms,
        client_version=client_version,
        pending_state=pending_state,
        has_failed_epoch_fence=has_failed_fence,
    )


def rows(table_name: str) -> list[list[str]]:
    """The rows of a text table: cells between bars, blank lines and the heading left out."""
    lines = [line for line in table_name.strip().splitlines() if line.strip()]
    return [[cell_text.strip() for cell_text in line.split("|")] for line in lines[1:]]
