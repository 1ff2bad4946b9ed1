"""Probes from outside how far ``read_committed`` readers are blocked on each partition, and by
which producer. Spark's Kafka connector asks for the latest offset with its own isolation level. If
a transaction never ends, it gets the last stable offset, takes it for the latest, and reports a lag
of 0. A probe asks for both ends (ListOffsets with either isolation level). If they differ, it asks
the leader for open transactions (DescribeProducers) and all coordinators for their state
(ListTransactions, DescribeTransactions), as in KIP-664. This module knows nothing of Spark, and
changes nothing on the cluster. Kafka's counterparts are ``ListOffsetsHandler`` and
``TransactionsCommand.FindHangingTransactionsCommand``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.errors import code_name
from txnsim.client.inspection.hanging import MAX_TRANSACTION_TIMEOUT_MS
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.survey import survey
from txnsim.client.metadata import ClusterMetadata
from txnsim.client.offsets import LATEST_TIMESTAMP, FoundOffset
from txnsim.errors import ClientError
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import INTERNAL_TOPICS, IsolationLevel, TopicPartition
from txnsim_spark.schemas import Bigint, Int, String


class OldestOpenTxn(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction that had no write for longer than the age that is asked for, and the
    verdict on it.
    """

    producer_id: Annotated[Bigint, "Whose transaction it is."]
    producer_epoch: Annotated[Int, "Of its records."]
    start_offset: Annotated[Bigint, "Of its first record."]
    last_timestamp_ms: Annotated[Bigint, "Of its last record, by its producer's clock."]
    verdict: Annotated[OpenTxnStatus, "string", "hanging, decided or alive."]
    reason: Annotated[String, "The rule that says so."]
    transactional_id: Annotated[String | None, "Null: no coordinator knows the producer id."] = None
    state: Annotated[String | None, "Of the transactional id, at its coordinator."] = None
    coordinator_id: Annotated[Int | None, "The broker that coordinates it."] = None

    @classmethod
    def of(cls, judged_txn: JudgedTransaction) -> OldestOpenTxn:
        producer_state = judged_txn.transaction.producer
        assert producer_state.txn_start_offset is not None, (
            "a transaction without a start is not open"
        )
        return cls(
            producer_id=producer_state.producer_id,
            producer_epoch=producer_state.producer_epoch,
            start_offset=producer_state.txn_start_offset,
            last_timestamp_ms=producer_state.last_timestamp_ms,
            verdict=judged_txn.verdict,
            reason=judged_txn.reason,
            transactional_id=judged_txn.transactional_id,
            state=judged_txn.state,
            coordinator_id=judged_txn.coordinator_id,
        )


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """A partition at one probe; unknown fields are None, and ``error`` says why."""

    topic: str | None = None
    """None if the cluster did not even list the partitions."""
    partition: int | None = None
    """None if the partitions of the topic are unknown."""
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    held_by: tuple[OldestOpenTxn, ...] = ()
    """Open transactions older than the given age, by their beginning."""
    error: str | None = None

    @property
    def lag(self) -> int | None:
        """Number of written offsets that ``read_committed`` readers can't read yet."""
        if self.high_watermark is None or self.last_stable_offset is None:
            return None
        return self.high_watermark - self.last_stable_offset


async def probe_partitions(
    admin: Admin,
    topics: Sequence[str] | None,
    *,
    now_ms: int,
    older_than_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
) -> tuple[PartitionLag, ...]:
    """Probe every partition once.

    Args:
        admin: Admin client of the cluster.
        topics: Topics to probe; None for all except Kafka's internal ones.
        now_ms: The wall clock to measure ages by.
        older_than_ms: Transactions with a younger write are not judged (KIP-664:
            transaction.max.timeout.ms, as no live one can be older).

    Returns:
        By topic and partition. A failure is a row with its reason, never an exception: a probe is
        one of many, and the next one may see more.
    """
    try:
        cluster_metadata = await admin.cluster.refresh(topics)
    except ClientError as failure:
        return (PartitionLag(error=str(failure)),)
    partitions, partitions_without_leader = _partitions_with_leader(
        cluster_metadata, is_whole_cluster=topics is None
    )
    # The stable offset is asked for first: both only grow, so that the lag is never below zero.
    latest_requests = dict.fromkeys(partitions, LATEST_TIMESTAMP)
    stable_offsets = await admin.list_offsets(
        latest_requests, isolation=IsolationLevel.READ_COMMITTED
    )
    high_watermarks = await admin.list_offsets(latest_requests)
    lag_by_partition = {
        partition: _lag_row_of(partition, stable_offsets[partition], high_watermarks[partition])
        for partition in partitions
    }
    lagging_partitions = [
        partition for partition, partition_lag in lag_by_partition.items() if partition_lag.lag
    ]
    if lagging_partitions:
        lag_by_partition |= await _judge_lagging(
            admin, lagging_partitions, lag_by_partition, now_ms=now_ms, older_than_ms=older_than_ms
        )
    return tuple(sorted((*lag_by_partition.values(), *partitions_without_leader), key=_sort_key))


def _sort_key(partition_lag: PartitionLag) -> tuple[str, int]:
    return (
        partition_lag.topic or "",
        -1 if partition_lag.partition is None else partition_lag.partition,
    )


def _partitions_with_leader(
    cluster_metadata: ClusterMetadata, *, is_whole_cluster: bool
) -> tuple[list[TopicPartition], list[PartitionLag]]:
    """The partitions that can be probed, and an error row for each other partition: it has no
    leader, or its topic does not exist. Waiting for a leader would delay all others.
    """
    partitions: list[TopicPartition] = []
    error_rows: list[PartitionLag] = []
    for topic_metadata in cluster_metadata.topics:
        if is_whole_cluster and (topic_metadata.error or topic_metadata.name in INTERNAL_TOPICS):
            continue
        if topic_metadata.error:
            error_rows.append(
                PartitionLag(topic=topic_metadata.name, error=code_name(topic_metadata.error))
            )
        for partition_metadata in topic_metadata.partitions:
            if partition_metadata.leader_id >= 0:
                partitions.append(TopicPartition(topic_metadata.name, partition_metadata.partition))
            else:
                error_rows.append(
                    PartitionLag(
                        topic=topic_metadata.name,
                        partition=partition_metadata.partition,
                        error="no leader",
                    )
                )
    return partitions, error_rows


def _lag_row_of(
    partition: TopicPartition,
    stable_offset: FoundOffset | ClientError,
    high_watermark: FoundOffset | ClientError,
) -> PartitionLag:
    topic, partition_number = partition.topic, partition.partition
    if isinstance(stable_offset, ClientError):
        return PartitionLag(topic=topic, partition=partition_number, error=str(stable_offset))
    if isinstance(high_watermark, ClientError):
        return PartitionLag(topic=topic, partition=partition_number, error=str(high_watermark))
    return PartitionLag(
        topic=topic,
        partition=partition_number,
        last_stable_offset=stable_offset.offset,
        high_watermark=high_watermark.offset,
    )


async def _judge_lagging(
    admin: Admin,
    lagging_partitions: Sequence[TopicPartition],
    lag_by_partition: Mapping[TopicPartition, PartitionLag],
    *,
    now_ms: int,
    older_than_ms: int,
) -> dict[TopicPartition, PartitionLag]:
    """The lagging partitions, each with the transactions that hold its readers, or with the error
    of the search for them.
    """
    try:
        txn_survey = await survey(
            admin, now_ms=now_ms, partitions=lagging_partitions, older_than_ms=older_than_ms
        )
    except ClientError as failure:
        unread_partitions = dict.fromkeys(lagging_partitions, failure)
        judged_txns: tuple[JudgedTransaction, ...] = ()
    else:
        unread_partitions, judged_txns = dict(txn_survey.unread), txn_survey.findings
    holders_by_partition: dict[TopicPartition, list[OldestOpenTxn]] = {}
    for judged_txn in judged_txns:
        holders_by_partition.setdefault(judged_txn.transaction.partition, []).append(
            OldestOpenTxn.of(judged_txn)
        )
    return {
        partition: msgspec.structs.replace(
            lag_by_partition[partition],
            held_by=tuple(
                sorted(
                    holders_by_partition.get(partition, ()), key=lambda holder: holder.start_offset
                )
            ),
            error=str(unread_partitions[partition]) if partition in unread_partitions else None,
        )
        for partition in lagging_partitions
    }
