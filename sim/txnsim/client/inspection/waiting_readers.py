"""Why a read_committed consumer does not advance on a partition, in words.

Such a consumer gets only records below the last stable offset: the first offset of the oldest
transaction that is still open (``UnifiedLog.fetchLastStableOffsetMetadata``). The leader
(DescribeProducers) and the coordinator of that transaction (DescribeTransactions) tell what it is.
Brokers before Kafka 3.0 lack one of these APIs: then the log itself is read, which at least names
the producer.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.errors import ClientTooOldError, NotSupportedError
from txnsim.client.fetching import fetch
from txnsim.client.inspection._waiting_share_groups import (
    WaitingShareGroup,
    WaitingShareGroups,
    waiting_share_groups,
)
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.client.isolation import ConsumedRecord
from txnsim.client.metadata import PartitionMetadata
from txnsim.client.offsets import EARLIEST, LATEST
from txnsim.shell_text import ShellText, continued, option
from txnsim.txn.open_txn_verdict import (
    PROGRAM,
    BlockingTxn,
    Cause,
    ReaderStanding,
    partition_options,
    withheld_sentence,
)
from txnsim.types import IsolationLevel, TopicPartition


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
    share_groups: tuple[WaitingShareGroup, ...] = ()
    """Share groups that an open transaction holds back."""
    sentences: tuple[str, ...] = ()


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
    view = await admin.describe_partition(partition)
    if view.leader_id < 0:
        return _explanation(partition, view, Cause.OFFLINE, sentences=(_offline(view),))
    # This order avoids false causes. A transaction that ends meanwhile moves the stable offset away
    # from its start; one that begins meanwhile can't start below the first watermark.
    watermark_before = await admin.offset_of(partition, LATEST)
    try:
        surveyed = await survey(admin, now_ms=now_ms, partitions=[partition], older_than_ms=ANY_AGE)
        if partition in surveyed.unread:
            raise surveyed.unread[partition]
    except ClientTooOldError:
        raise  # the brokers could tell
    except NotSupportedError:
        return await _explain_by_the_log(admin, partition, view, program)
    log_start = await admin.offset_of(partition, EARLIEST)
    stable_offset = await admin.offset_of(partition, LATEST, IsolationLevel.READ_COMMITTED)
    watermark = await admin.offset_of(partition, LATEST)
    findings = tuple(sorted(surveyed.findings, key=_start))
    # A transaction whose first records are deleted holds readers back at the log's start.
    holder = next(
        (finding for finding in findings if max(_start(finding), log_start) == stable_offset), None
    )
    if holder is not None and watermark > stable_offset:
        cause = Cause.of_status(holder.verdict)
    elif stable_offset >= watermark_before:
        cause = Cause.NOTHING
    else:
        cause = Cause.UNREPLICATED
    waiting_groups = WaitingShareGroups()
    if cause in _OPEN:
        waiting_groups = await waiting_share_groups(admin, partition)
    explanation = msgspec.structs.replace(
        _explanation(partition, view, cause),
        log_start_offset=log_start,
        last_stable_offset=stable_offset,
        high_watermark=watermark,
        findings=findings,
        command=None if holder is None else holder.command(program),
        share_groups=waiting_groups.groups,
    )
    sentences = (*_sentences(explanation, holder, now_ms, program), *waiting_groups.sentences())
    return msgspec.structs.replace(explanation, sentences=sentences)


_OPEN: Final = frozenset({Cause.HANGING, Cause.DECIDED, Cause.ALIVE})


async def _explain_by_the_log(
    admin: Admin, partition: TopicPartition, view: PartitionMetadata, program: ShellText
) -> Explanation:
    """Explain a partition whose open transactions are unknown."""
    log_start = await admin.offset_of(partition, EARLIEST)
    stable_offset = await admin.offset_of(partition, LATEST, IsolationLevel.READ_COMMITTED)
    watermark = await admin.offset_of(partition, LATEST)
    cause = Cause.NOTHING if stable_offset >= watermark else Cause.UNTOLD
    explanation = msgspec.structs.replace(
        _explanation(partition, view, cause),
        log_start_offset=log_start,
        last_stable_offset=stable_offset,
        high_watermark=watermark,
    )
    if cause is Cause.NOTHING:
        return msgspec.structs.replace(
            explanation, sentences=_sentences(explanation, None, 0, program)
        )
    fetch_result = await fetch(
        admin.cluster,
        partition.topic,
        partition.partition,
        stable_offset,
        isolation=IsolationLevel.READ_UNCOMMITTED,
        max_wait_ms=0,
        max_bytes=1,  # the first batch comes whole (KIP-74)
    )
    first_record = next((record for record in fetch_result.records if record.transactional), None)
    return msgspec.structs.replace(
        explanation,
        sentences=(
            withheld_sentence(stable_offset, watermark),
            *_untold(explanation, first_record, program),
        ),
    )


def _explanation(
    partition: TopicPartition,
    view: PartitionMetadata,
    cause: Cause,
    *,
    sentences: tuple[str, ...] = (),
) -> Explanation:
    return Explanation(
        partition=partition,
        cause=cause,
        leader_id=view.leader_id,
        replicas=view.replicas,
        isr=view.isr,
        sentences=sentences,
    )


def _start(finding: JudgedTransaction) -> int:
    start_offset = finding.transaction.producer.txn_start_offset
    assert start_offset is not None, "a transaction without a start is not open"
    return start_offset


# Words


def _offline(view: PartitionMetadata) -> str:
    return (
        f"The partition has no leader: none of its replicas {list(view.replicas)} that may lead"
        " is alive, so clients can't read or write. Start one of the brokers"
        f" {list(view.isr or view.replicas)}."
    )


def _sentences(
    explanation: Explanation, holder: JudgedTransaction | None, now_ms: int, program: ShellText
) -> tuple[str, ...]:
    leader_text = ReaderStanding(
        partition=explanation.partition,
        cause=explanation.cause,
        last_stable_offset=explanation.last_stable_offset,
        high_watermark=explanation.high_watermark,
        blocking_txn=None if holder is None else _held_by(holder, now_ms),
        later_open_count=len(explanation.findings) - 1,
        not_in_sync=[
            broker_id for broker_id in explanation.replicas if broker_id not in explanation.isr
        ],
        share_groups=[
            (share_group.group_id, share_group.start_offset)
            for share_group in explanation.share_groups
        ],
        program=program,
    )
    return leader_text.sentences()


def _held_by(holder: JudgedTransaction, now_ms: int) -> BlockingTxn:
    producer = holder.transaction.producer
    return BlockingTxn(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        quiet_ms=now_ms - producer.last_timestamp_ms,
        verdict=holder.verdict,
        reason=holder.reason,
        transactional_id=holder.transactional_id,
        coordinator_id=holder.coordinator_id,
        is_two_phase=holder.is_two_phase,
        decided=holder.decided,
    )


def _untold(
    explanation: Explanation, first_record: ConsumedRecord | None, program: ShellText
) -> tuple[str, ...]:
    """Sentences about the transaction's producer, from the first batch; for brokers older than
    3.0.
    """
    untold = (
        "These brokers are too old to tell whether it hangs (Kafka 3.0 is needed): ask its"
        " application, and wait for longer than any transaction.timeout.ms."
    )
    if first_record is None:
        return ("The log does not tell whose transaction begins there.", untold)
    abort_command = continued(
        program,
        "abort",
        *partition_options(explanation.partition),
        *option("--producer-id", first_record.producer_id),
        *option("--producer-epoch", first_record.producer_epoch),
        *option("--coordinator-epoch", 0),
    )
    return (
        f"That is where the transaction of producer id {first_record.producer_id}, epoch"
        f" {first_record.producer_epoch}, begins, as the record says that lies there.",
        untold,
        f"Where it hangs and was not committed, to end it and discard its records:"
        f" {abort_command}; if that is fenced, the partition has seen a marker of a later"
        " coordinator epoch, and a higher one is needed.",
    )
