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
from txnsim.client.offsets import LATEST, FoundOffset
from txnsim.errors import ClientError
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import INTERNAL_TOPICS, IsolationLevel, TopicPartition
from txnsim_spark.schemas import Bigint, Int, String


class HeldBy(msgspec.Struct, frozen=True, kw_only=True):
    """An open transaction without a write for longer than the given age, and the verdict on it."""

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
    def of(cls, finding: JudgedTransaction) -> HeldBy:
        producer = finding.transaction.producer
        assert producer.txn_start_offset is not None, "a transaction without a start is not open"
        return cls(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            start_offset=producer.txn_start_offset,
            last_timestamp_ms=producer.last_timestamp_ms,
            verdict=finding.verdict,
            reason=finding.reason,
            transactional_id=finding.transactional_id,
            state=finding.state,
            coordinator_id=finding.coordinator_id,
        )


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """A partition at one probe; unknown fields are None, and ``error`` says why."""

    topic: str | None = None
    """None if the cluster did not even list the partitions."""
    partition: int | None = None
    """None if the partitions of the topic are unknown."""
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    held_by: tuple[HeldBy, ...] = ()
    """Open transactions older than the given age, by their beginning."""
    error: str | None = None

    @property
    def lag(self) -> int | None:
        """Number of written offsets that ``read_committed`` readers can't read yet."""
        if self.high_watermark is None or self.last_stable_offset is None:
            return None
        return self.high_watermark - self.last_stable_offset


async def probe(
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
        view = await admin.cluster.refresh(topics)
    except ClientError as failure:
        return (PartitionLag(error=str(failure)),)
    partitions, unled = _partitions(view, everything=topics is None)
    # The stable offset is asked for first: both only grow, so that the lag is never below zero.
    latest = dict.fromkeys(partitions, LATEST)
    stable = await admin.list_offsets(latest, isolation=IsolationLevel.READ_COMMITTED)
    high = await admin.list_offsets(latest)
    rows = {
        partition: _row(partition, stable[partition], high[partition]) for partition in partitions
    }
    lagging = [partition for partition, row in rows.items() if row.lag]
    if lagging:
        rows |= await _judge_lagging(
            admin, lagging, rows, now_ms=now_ms, older_than_ms=older_than_ms
        )
    return tuple(sorted((*rows.values(), *unled), key=_sort_key))


def _sort_key(row: PartitionLag) -> tuple[str, int]:
    return row.topic or "", -1 if row.partition is None else row.partition


def _partitions(
    view: ClusterMetadata, *, everything: bool
) -> tuple[list[TopicPartition], list[PartitionLag]]:
    """The partitions that can be probed, and an error row for each other partition: it has no
    leader, or its topic does not exist. Waiting for a leader would delay all others.
    """
    partitions: list[TopicPartition] = []
    rows: list[PartitionLag] = []
    for topic in view.topics:
        if everything and (topic.error or topic.name in INTERNAL_TOPICS):
            continue
        if topic.error:
            rows.append(PartitionLag(topic=topic.name, error=code_name(topic.error)))
        for partition in topic.partitions:
            if partition.leader_id >= 0:
                partitions.append(TopicPartition(topic.name, partition.partition))
            else:
                rows.append(
                    PartitionLag(topic=topic.name, partition=partition.partition, error="no leader")
                )
    return partitions, rows


def _row(
    partition: TopicPartition, stable: FoundOffset | ClientError, high: FoundOffset | ClientError
) -> PartitionLag:
    topic, number = partition.topic, partition.partition
    if isinstance(stable, ClientError):
        return PartitionLag(topic=topic, partition=number, error=str(stable))
    if isinstance(high, ClientError):
        return PartitionLag(topic=topic, partition=number, error=str(high))
    return PartitionLag(
        topic=topic,
        partition=number,
        last_stable_offset=stable.offset,
        high_watermark=high.offset,
    )


async def _judge_lagging(
    admin: Admin,
    lagging: Sequence[TopicPartition],
    rows: Mapping[TopicPartition, PartitionLag],
    *,
    now_ms: int,
    older_than_ms: int,
) -> dict[TopicPartition, PartitionLag]:
    """Rows of lagging partitions with the transaction that holds each, or an error."""
    try:
        result = await survey(admin, now_ms=now_ms, partitions=lagging, older_than_ms=older_than_ms)
    except ClientError as failure:
        unread = dict.fromkeys(lagging, failure)
        findings: tuple[JudgedTransaction, ...] = ()
    else:
        unread, findings = dict(result.unread), result.findings
    held_by: dict[TopicPartition, list[HeldBy]] = {}
    for finding in findings:
        held_by.setdefault(finding.transaction.partition, []).append(HeldBy.of(finding))
    return {
        partition: msgspec.structs.replace(
            rows[partition],
            held_by=tuple(sorted(held_by.get(partition, ()), key=lambda held: held.start_offset)),
            error=str(unread[partition]) if partition in unread else None,
        )
        for partition in lagging
    }
