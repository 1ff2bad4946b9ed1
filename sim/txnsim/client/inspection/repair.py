"""Ending hanging transactions so that it can be trusted: look, look again, abort, look once more.

A hanging transaction is ended by an abort marker that is written to the partition alone
(``Admin.abortTransaction``, KIP-664). That is right only while the transaction hangs: for one that
lives it would be an abort behind its coordinator's back. So right before it is aborted each one is
judged anew, and afterwards the partition is asked whether the transaction is gone and where its
last stable offset stands.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError, ErrorCode
from txnsim.client.inspection.judgement import Finding, Verdict
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.client.inspection.txn_views import AbortSpec
from txnsim.client.offsets import LATEST
from txnsim.types import IsolationLevel, TopicPartition


class Outcome(StrEnum):
    """How an attempt to end a transaction ended."""

    REPAIRED = "repaired"
    """The transaction is gone; unless another one begins at the same place, the last stable offset
    has moved.
    """
    WOULD_REPAIR = "would be repaired"
    NO_LONGER_HANGS = "no longer hangs"
    """It ended by itself, or a coordinator knows it now: nothing was done."""
    REFUSED = "refused"
    """The leader did not write the marker."""
    NOT_KNOWN = "not known"
    """It could not be judged anew, or not be looked at afterwards: to be looked at again."""
    STILL_OPEN = "still open"
    """The marker was written, and the transaction is there all the same."""


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction and what was done: a line of the audit file."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """That the marker names."""
    start_offset: int
    transactional_id: str | None
    reason: str
    """Why it hangs; or why it does not, or what the leader said."""
    outcome: Outcome
    last_stable_offset_before: int | None = None
    last_stable_offset_after: int | None = None
    high_watermark_after: int | None = None
    at_ms: int
    error: ErrorCode | None = None
    """What the leader answered where it refused."""


async def repair(admin: Admin, finding: Finding, *, now_ms: int, dry_run: bool = False) -> Repair:
    """End one hanging transaction, if it still hangs.

    Args:
        admin: The cluster.
        finding: As a survey found it.
        now_ms: The wall clock.
        dry_run: Judge it anew, but write nothing.

    Raises:
        ClientError: It could not be judged anew, or not be looked at afterwards.
    """
    partition = finding.transaction.partition
    spec = AbortSpec.of(partition, finding.transaction.producer)
    done = msgspec.structs.replace(
        _attempt(finding, now_ms),
        last_stable_offset_before=await admin.offset_of(
            partition, LATEST, IsolationLevel.READ_COMMITTED
        ),
    )
    again = await _same_now(admin, finding, now_ms=now_ms)
    if again is None or again.verdict is not Verdict.HANGING:
        why = "it has ended" if again is None else again.reason
        return msgspec.structs.replace(done, outcome=Outcome.NO_LONGER_HANGS, reason=why)
    if dry_run:
        return done
    try:
        await admin.abort_transaction(spec)
    except ClientError as refused:
        return msgspec.structs.replace(
            done, outcome=Outcome.REFUSED, reason=str(refused), error=refused.error
        )
    left = await _same_now(admin, finding, now_ms=now_ms)
    return msgspec.structs.replace(
        done,
        outcome=Outcome.REPAIRED if left is None else Outcome.STILL_OPEN,
        last_stable_offset_after=await admin.offset_of(
            partition, LATEST, IsolationLevel.READ_COMMITTED
        ),
        high_watermark_after=await admin.offset_of(
            partition, LATEST, IsolationLevel.READ_UNCOMMITTED
        ),
    )


def not_known(finding: Finding, failure: ClientError, *, now_ms: int) -> Repair:
    """What is left to say where ``repair`` has failed."""
    return msgspec.structs.replace(
        _attempt(finding, now_ms),
        outcome=Outcome.NOT_KNOWN,
        reason=str(failure),
        error=failure.error,
    )


def _attempt(finding: Finding, now_ms: int) -> Repair:
    producer = finding.transaction.producer
    start = producer.txn_start_offset
    assert start is not None, "a transaction without a start is not open"
    return Repair(
        partition=finding.transaction.partition,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=AbortSpec.of(finding.transaction.partition, producer).coordinator_epoch,
        start_offset=start,
        transactional_id=finding.transactional_id,
        reason=finding.reason,
        outcome=Outcome.WOULD_REPAIR,
        at_ms=now_ms,
    )


async def _same_now(admin: Admin, finding: Finding, *, now_ms: int) -> Finding | None:
    """The same transaction judged anew; None if it is no longer open."""
    partition = finding.transaction.partition
    # However young: its age was judged before, and clocks that differ must not hide it now.
    found = await survey(admin, now_ms=now_ms, partitions=[partition], older_than_ms=ANY_AGE)
    if partition in found.unread:
        raise ClientError(f"{partition} could not be looked at: {found.unread[partition]}")
    for one in found.findings:
        if finding.transaction.is_that_of(one.transaction.producer):
            return one
    return None
