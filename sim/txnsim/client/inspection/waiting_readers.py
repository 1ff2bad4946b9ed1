"""Why a read_committed consumer does not advance on a partition, in words.

Such a consumer gets only records below the last stable offset: the first offset of the oldest
transaction that is still open (``UnifiedLog.fetchLastStableOffsetMetadata``). The leader
(DescribeProducers) and the coordinator of that transaction (DescribeTransactions) tell what it is.
Brokers before Kafka 3.0 lack one of these APIs: then the log itself is read, which at least names
the producer.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.errors import ClientTooOldError, NotSupportedError
from txnsim.client.fetching import fetch
from txnsim.client.inspection._waiting_share_groups import WaitingShareGroups, waiting_share_groups
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.client.isolation import ConsumedRecord
from txnsim.client.metadata import PartitionMetadata
from txnsim.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from txnsim.shell_text import ShellText, continued, option
from txnsim.txn.open_txn_verdict import DECIDED_STATES, PROGRAM, partition_options
from txnsim.types import IsolationLevel, TopicPartition
from txnsim.verdict import words
from txnsim.verdict.facts import (
    ClusterFacts,
    MarkerSending,
    OpenTxnFacts,
    OwedMarkerFacts,
    PartitionFacts,
    ShareGroupFacts,
    TransactionFacts,
)
from txnsim.verdict.judge import PartitionVerdict, judge_partition, untold_verdict
from txnsim.verdict.reader_standing import Cause, blocking_txn_of


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a partition for a reader; -1 for offsets that the leader did not give."""

    partition: TopicPartition
    cause: Cause
    leader_id: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    log_start_offset: int = -1
    last_stable_offset: int = -1
    high_watermark: int = -1
    findings: tuple[JudgedTransaction, ...] = ()
    """Every open transaction, the one that holds readers back first."""
    command: str | None = None
    """The repair command for the first open transaction; None unless it hangs."""
    share_groups: tuple[ShareGroupFacts, ...] = ()
    """Share groups that an open transaction holds back."""
    sentences: tuple[str, ...] = ()
    verdict: PartitionVerdict
    """What the judge says; the fields above are kept for programs that read them."""


async def explain(
    admin: Admin, partition: TopicPartition, *, now_ms: int, program: ShellText = PROGRAM
) -> Explanation:
    """Explain why readers do not advance.

    Args:
        admin: The cluster.
        partition: The partition.
        now_ms: The wall clock to measure ages by.
        program: How ``txnsim txns`` is called for this cluster, for the commands in the
            explanation.

    Raises:
        ClientError: There is no such partition, or it or a coordinator did not answer.
    """
    partition_view = await admin.describe_partition(partition)
    if partition_view.leader_id < 0:
        leaderless = PartitionFacts(
            partition=partition, replicas=partition_view.replicas, isr=partition_view.isr
        )
        return _explained(leaderless, _judge_partition(leaderless, (), now_ms, program))
    # This order avoids false causes. A transaction that ends meanwhile moves the stable offset away
    # from its start; one that begins meanwhile can't start below the first watermark.
    high_watermark_before = await admin.offset_of(partition, LATEST_TIMESTAMP)
    try:
        survey_result = await survey(
            admin, now_ms=now_ms, partitions=[partition], older_than_ms=ANY_AGE
        )
        if partition in survey_result.unread:
            raise survey_result.unread[partition]
    except ClientTooOldError:
        raise  # the brokers could tell
    except NotSupportedError:
        return await _explain_by_the_log(admin, partition, partition_view, program)
    log_start = await admin.offset_of(partition, EARLIEST_TIMESTAMP)
    stable_offset = await admin.offset_of(
        partition, LATEST_TIMESTAMP, IsolationLevel.READ_COMMITTED
    )
    high_watermark = await admin.offset_of(partition, LATEST_TIMESTAMP)
    findings = tuple(sorted(survey_result.findings, key=_start_offset))
    partition_facts = PartitionFacts(
        partition=partition,
        leader_id=partition_view.leader_id,
        replicas=partition_view.replicas,
        isr=partition_view.isr,
        log_start=log_start,
        last_stable_offset=stable_offset,
        high_watermark=high_watermark,
        open_txns=tuple(map(_open_txn_facts, findings)),
    )
    if blocking_txn_of(partition_facts) is None and stable_offset >= high_watermark_before:
        # What was written meanwhile is not held back, and what was open has ended.
        partition_facts = msgspec.structs.replace(partition_facts, high_watermark=stable_offset)
    waiting_groups = WaitingShareGroups()
    if blocking_txn_of(partition_facts) is not None:
        waiting_groups = await waiting_share_groups(admin, partition)
        partition_facts = msgspec.structs.replace(
            partition_facts, share_groups=waiting_groups.groups
        )
    verdict = _judge_partition(partition_facts, survey_result.transactions, now_ms, program)
    return msgspec.structs.replace(
        _explained(partition_facts, verdict),
        log_start_offset=log_start,
        last_stable_offset=stable_offset,
        high_watermark=high_watermark,
        findings=findings,
        command=None if verdict.holder is None else verdict.holder.ends.command,
        share_groups=waiting_groups.groups,
        sentences=(*verdict.sentences, *waiting_groups.sentences()),
    )


async def _explain_by_the_log(
    admin: Admin, partition: TopicPartition, partition_view: PartitionMetadata, program: ShellText
) -> Explanation:
    """Explain a partition whose open transactions are unknown."""
    log_start = await admin.offset_of(partition, EARLIEST_TIMESTAMP)
    stable_offset = await admin.offset_of(
        partition, LATEST_TIMESTAMP, IsolationLevel.READ_COMMITTED
    )
    high_watermark = await admin.offset_of(partition, LATEST_TIMESTAMP)
    partition_facts = PartitionFacts(
        partition=partition,
        leader_id=partition_view.leader_id,
        replicas=partition_view.replicas,
        isr=partition_view.isr,
        log_start=log_start,
        last_stable_offset=stable_offset,
        high_watermark=max(stable_offset, high_watermark),
    )
    verdict = _judge_partition(partition_facts, (), 0, program)
    if verdict.cause is not Cause.NOTHING:
        fetch_result = await fetch(
            admin.cluster,
            partition.topic,
            partition.partition,
            stable_offset,
            isolation=IsolationLevel.READ_UNCOMMITTED,
            max_wait_ms=0,
            max_bytes=1,  # the first batch comes whole (KIP-74)
        )
        first_record = next(
            (record for record in fetch_result.records if record.transactional), None
        )
        verdict = untold_verdict(partition_facts, _whose(partition, first_record, program))
    return msgspec.structs.replace(
        _explained(partition_facts, verdict),
        log_start_offset=log_start,
        last_stable_offset=stable_offset,
        high_watermark=high_watermark,
    )


def _explained(partition_facts: PartitionFacts, verdict: PartitionVerdict) -> Explanation:
    return Explanation(
        partition=partition_facts.partition,
        cause=verdict.cause,
        leader_id=partition_facts.leader_id,
        replicas=partition_facts.replicas,
        isr=partition_facts.isr,
        sentences=verdict.sentences,
        verdict=verdict,
    )


def _start_offset(finding: JudgedTransaction) -> int:
    start_offset = finding.transaction.producer.txn_start_offset
    assert start_offset is not None, "a transaction without a start is not open"
    return start_offset


def _judge_partition(
    partition_facts: PartitionFacts,
    transactions: tuple[TransactionFacts, ...],
    now_ms: int,
    program: ShellText,
) -> PartitionVerdict:
    """The judge's verdict on the partition, with what its coordinators have answered."""
    cluster_facts = ClusterFacts(
        now_ms=now_ms,
        partitions=(partition_facts,),
        transactions=transactions,
        owed_markers=tuple(_owed_markers(partition_facts.partition, transactions)),
    )
    return judge_partition(partition_facts, cluster_facts, program=program)


def _open_txn_facts(finding: JudgedTransaction) -> OpenTxnFacts:
    producer = finding.transaction.producer
    return OpenTxnFacts(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        first_offset=_start_offset(finding),
        last_write_ms=producer.last_timestamp_ms,
        decided=finding.decided,
    )


def _owed_markers(
    partition: TopicPartition, transactions: tuple[TransactionFacts, ...]
) -> Iterator[OwedMarkerFacts]:
    """The markers of decided transactions. Brokers don't tell whether they go on sending them."""
    for transaction in transactions:
        if transaction.state in DECIDED_STATES and partition in transaction.partitions:
            yield OwedMarkerFacts(
                transactional_id=transaction.transactional_id,
                partition=partition,
                is_commit=transaction.state == "PrepareCommit",
                sending=MarkerSending.UNTOLD,
            )


def _whose(
    partition: TopicPartition, first_record: ConsumedRecord | None, program: ShellText
) -> tuple[str, ...]:
    """Sentences about the transaction's producer, from the first batch; for brokers older than
    3.0.
    """
    if first_record is None:
        return words.untold_sentences(None, None, "")
    abort_command = continued(
        program,
        "abort",
        *partition_options(partition),
        *option("--producer-id", first_record.producer_id),
        *option("--producer-epoch", first_record.producer_epoch),
        *option("--coordinator-epoch", 0),
    )
    return words.untold_sentences(
        first_record.producer_id, first_record.producer_epoch, abort_command
    )
