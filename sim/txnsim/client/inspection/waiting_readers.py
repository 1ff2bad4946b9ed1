"""Why a read_committed consumer does not advance on a partition, in words.

Such a consumer is given records below the last stable offset only: the first offset of the oldest
transaction that is still open (``UnifiedLog.fetchLastStableOffsetMetadata``). What stands between
it and the high watermark is answered by the leader (DescribeProducers) and by the coordinator of
that transaction (DescribeTransactions). Brokers before Kafka 3.0 lack one of these: there the log
itself is read, and says at least whose transaction it is.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError, ErrorCode, NotSupportedError
from txnsim.client.fetching import fetch
from txnsim.client.inspection.judgement import Finding, Verdict
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.client.inspection.txn_wording import message_of
from txnsim.client.isolation import ConsumedRecord
from txnsim.client.metadata import PartitionView
from txnsim.client.offsets import EARLIEST, LATEST
from txnsim.types import IsolationLevel, TopicPartition


class Cause(StrEnum):
    """What holds readers back."""

    NOTHING = "nothing"
    """No open transaction; the end is where the high watermark is."""
    HANGING = "hanging transaction"
    DECIDED = "marker outstanding"
    ALIVE = "open transaction"
    UNREPLICATED = "marker not replicated"
    """The transaction has ended at the leader, and its marker is above the high watermark."""
    UNTOLD = "open transaction that can't be judged"
    """The brokers are too old to say what becomes of it."""
    OFFLINE = "no leader"


_CAUSES = {
    Verdict.HANGING: Cause.HANGING,
    Verdict.DECIDED: Cause.DECIDED,
    Verdict.ALIVE: Cause.ALIVE,
}


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as a reader meets it; -1 where an offset could not be asked for."""

    partition: TopicPartition
    cause: Cause
    leader_id: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    log_start_offset: int = -1
    last_stable_offset: int = -1
    high_watermark: int = -1
    findings: tuple[Finding, ...] = ()
    """Every open transaction, the one that holds readers back first."""
    sentences: tuple[str, ...] = ()
    """What it means and what to do."""


async def explain(admin: Admin, partition: TopicPartition, *, now_ms: int) -> Explanation:
    """Say why readers stand where they stand.

    Raises:
        ClientError: There is no such partition, or it or a coordinator did not answer.
    """
    (topic,) = await admin.describe_topics((partition.topic,))
    view = topic.partition(partition.partition)
    if topic.error == ErrorCode.topic_authorization_failed:
        raise ClientError(f"{partition}: {message_of(topic.error)}", error=ErrorCode(topic.error))
    if view is None:
        raise ClientError(f"there is no partition {partition}")
    if view.leader_id < 0:
        return _explanation(partition, view, Cause.OFFLINE, sentences=(_offline(view),))
    # In this order what happens meanwhile can't be taken for a cause: what ends while we ask moves
    # the stable offset away from where it began, what begins can't be below the first watermark.
    watermark_before = await admin.offset_of(partition, LATEST)
    try:
        found = await survey(admin, now_ms=now_ms, partitions=[partition], older_than_ms=ANY_AGE)
        if partition in found.unread:
            raise found.unread[partition]
    except NotSupportedError:
        return await _explain_by_the_log(admin, partition, view)
    log_start = await admin.offset_of(partition, EARLIEST)
    stable = await admin.offset_of(partition, LATEST, IsolationLevel.READ_COMMITTED)
    watermark = await admin.offset_of(partition, LATEST)
    findings = tuple(sorted(found.findings, key=_start))
    # A transaction whose first records are deleted holds readers back at the log's start.
    holder = next((one for one in findings if max(_start(one), log_start) == stable), None)
    if holder is not None and watermark > stable:
        cause = _CAUSES[holder.verdict]
    elif stable >= watermark_before:
        cause = Cause.NOTHING
    else:
        cause = Cause.UNREPLICATED
    done = msgspec.structs.replace(
        _explanation(partition, view, cause),
        log_start_offset=log_start,
        last_stable_offset=stable,
        high_watermark=watermark,
        findings=findings,
    )
    return msgspec.structs.replace(done, sentences=_sentences(done, holder, now_ms))


async def _explain_by_the_log(
    admin: Admin, partition: TopicPartition, view: PartitionView
) -> Explanation:
    """What can be said where nobody tells of transactions."""
    log_start = await admin.offset_of(partition, EARLIEST)
    stable = await admin.offset_of(partition, LATEST, IsolationLevel.READ_COMMITTED)
    watermark = await admin.offset_of(partition, LATEST)
    cause = Cause.NOTHING if stable >= watermark else Cause.UNTOLD
    done = msgspec.structs.replace(
        _explanation(partition, view, cause),
        log_start_offset=log_start,
        last_stable_offset=stable,
        high_watermark=watermark,
    )
    if cause is Cause.NOTHING:
        return msgspec.structs.replace(done, sentences=_sentences(done, None, 0))
    read = await fetch(
        admin.cluster,
        partition.topic,
        partition.partition,
        stable,
        isolation=IsolationLevel.READ_UNCOMMITTED,
        max_wait_ms=0,
        max_bytes=1,  # the first batch comes whole (KIP-74)
    )
    first = next((one for one in read.records if one.transactional), None)
    return msgspec.structs.replace(done, sentences=(_withheld(done), *_untold(done, first)))


def _explanation(
    partition: TopicPartition,
    view: PartitionView,
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


def _start(finding: Finding) -> int:
    start = finding.transaction.producer.txn_start_offset
    assert start is not None, "a transaction without a start is not open"
    return start


# Words


def _offline(view: PartitionView) -> str:
    return (
        f"The partition has no leader: none of its replicas {list(view.replicas)} that may lead"
        " is alive, so nobody can read or write. Start one of the brokers"
        f" {list(view.isr or view.replicas)}."
    )


def _sentences(known: Explanation, holder: Finding | None, now_ms: int) -> tuple[str, ...]:
    end = f"the high watermark is {known.high_watermark}"
    if known.cause is Cause.NOTHING:
        return (
            f"No transaction holds readers back: the last stable offset is"
            f" {known.last_stable_offset}, {end}.",
            "A consumer that stands there has read everything. One that stands lower is held back"
            " by itself, by its group, or by a broker it can't reach.",
            *_behind(known),
        )
    first = _withheld(known)
    if holder is None or known.cause is Cause.UNREPLICATED:
        return (
            first,
            "No transaction is open there any more: the marker that ended it is written at the"
            " leader and not yet on all replicas that are in sync. It is a matter of replication.",
            *_behind(known),
        )
    others = len(known.findings) - 1
    tail = (f"Transactions that are open behind it: {others}.",) if others else ()
    return first, _holder(holder, now_ms), _advice(known.partition, holder), *tail


def _withheld(known: Explanation) -> str:
    withheld = known.high_watermark - known.last_stable_offset
    return (
        f"read_committed consumers stop at offset {known.last_stable_offset}, the last stable"
        f" offset; the high watermark is {known.high_watermark}, so the last {withheld} are"
        " withheld."
    )


def _untold(known: Explanation, first: ConsumedRecord | None) -> tuple[str, ...]:
    """Whose transaction it is, as the batch says that begins there."""
    untold = (
        "These brokers are too old to tell whether it hangs (Kafka 3.0 is needed): ask its"
        " application, and wait for longer than any transaction.timeout.ms."
    )
    if first is None:
        return ("The log does not tell whose transaction begins there.", untold)
    where = f"--topic {known.partition.topic} --partition {known.partition.partition}"
    return (
        f"That is where the transaction of producer id {first.producer_id}, epoch"
        f" {first.producer_epoch}, begins, as the record says that lies there.",
        untold,
        f"Where it hangs, to end it: txnsim txns abort {where} --producer-id {first.producer_id}"
        f" --producer-epoch {first.producer_epoch} --coordinator-epoch 0; if that is fenced, the"
        " partition has seen a marker of a later coordinator epoch, and a higher one is needed.",
    )


def _holder(holder: Finding, now_ms: int) -> str:
    producer = holder.transaction.producer
    return (
        f"That is where the transaction of producer id {producer.producer_id}, epoch"
        f" {producer.producer_epoch}, begins, which is open here and last wrote"
        f" {max(0, now_ms - producer.last_timestamp_ms) // 1000} s ago; {holder.reason}."
    )


def _advice(partition: TopicPartition, holder: Finding) -> str:
    match holder.verdict:
        case Verdict.HANGING:
            where = f"--topic {partition.topic} --partition {partition.partition}"
            return f"It hangs. To end it: txnsim txns repair {where} --yes."
        case Verdict.DECIDED:
            return (
                "It does not hang: the marker comes as soon as its coordinator reaches the leader."
                f" Look at broker {holder.coordinator_id} and at its way to the leader."
            )
        case Verdict.ALIVE:
            return (
                "It does not hang. To end it now, fence its producer: txnsim txns"
                f" forceTerminateTransaction --transactionalId {holder.transactional_id}."
            )


def _behind(known: Explanation) -> tuple[str, ...]:
    """What else may hold the end back."""
    missing = [replica for replica in known.replicas if replica not in known.isr]
    if not missing:
        return ()
    return (
        f"Replicas {missing} are not in sync; with min.insync.replicas not met the high"
        " watermark stands still.",
    )
