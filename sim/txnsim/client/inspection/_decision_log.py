"""What a coordinator had written down of a transactional id, read from ``__transaction_state`` of a
running cluster as any consumer may: there stands what was decided about transactions that it has
long forgotten. It needs the right to read that topic.
"""

from __future__ import annotations

from typing import Final

from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError, ErrorCode
from txnsim.client.fetching import fetch
from txnsim.client.offsets import EARLIEST, offset_of
from txnsim.errors import CorruptLogRecordError
from txnsim.releases.rules import LATEST
from txnsim.txn.log_format import decode_record, encode_key
from txnsim.txn.past_decision import Noted
from txnsim.txn.state import TxnTransition
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    IsolationLevel,
    TopicPartition,
    TransactionalId,
    partition_for,
)

BEFORE_MS: Final = 3_600_000
"""From so long before the last write on: clocks differ, and a late record is decided before."""
RECORDS_MAX: Final = 1_000_000
"""Of one search; with more to read, use the disks (``txnsim logs find-hanging``)."""


async def noted(
    cluster: Cluster, transactional_id: str, *, last_timestamp_ms: int
) -> tuple[Noted, ...]:
    """What the coordinator wrote down of an id, oldest first.

    Returns:
        Nothing where the log is too long, or can't be read to its end.

    Raises:
        ClientError: This user may not read it.
    """
    try:
        view = (await cluster.refresh((TRANSACTION_STATE_TOPIC,))).topic(TRANSACTION_STATE_TOPIC)
        if view is not None and view.error:
            raise ClientError("the log may not be described", error=ErrorCode(view.error))
        if view is None or not view.partitions:
            return ()
        index = partition_for(transactional_id, len(view.partitions))
        place = TopicPartition(TRANSACTION_STATE_TOPIC, index)
        return await _read(cluster, place, transactional_id, since_ms=last_timestamp_ms - BEFORE_MS)
    except (ClientError, CorruptLogRecordError) as failure:
        if (
            isinstance(failure, ClientError)
            and failure.error == ErrorCode.topic_authorization_failed
        ):
            raise
        return ()  # the state of the coordinator is what is left


async def _read(
    cluster: Cluster, place: TopicPartition, transactional_id: str, *, since_ms: int
) -> tuple[Noted, ...]:
    key = encode_key(TransactionalId(transactional_id))
    # -1 where nothing is as late
    offset = await offset_of(cluster, place, since_ms if since_ms > 0 else EARLIEST)
    seen = 0
    found: list[Noted] = []
    while offset >= 0:
        result = await fetch(
            cluster,
            place.topic,
            place.partition,
            offset,
            isolation=IsolationLevel.READ_UNCOMMITTED,
            max_wait_ms=0,
        )
        for record in result.records:
            if record.key == key:
                entry = decode_record(key, record.value, rules=LATEST)
                if isinstance(entry, TxnTransition):
                    found.append(_noted(entry))
        seen += len(result.records)
        if result.next_offset == offset:
            break
        if seen > RECORDS_MAX:
            return ()
        offset = result.next_offset
    return tuple(found)


def _noted(entry: TxnTransition) -> Noted:
    return Noted(
        state=entry.state.wire_name,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        partitions=entry.partitions,
        is_v2=entry.client_version >= 2,
    )
