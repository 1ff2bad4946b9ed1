"""Ends hanging transactions with checks before and after.

A hanging transaction is ended by a marker that is written to the partition alone
(``Admin.abortTransaction``, KIP-664): the decided one, COMMIT or ABORT, if its coordinator still
knows it, else the operator's explicit guess (``txn.past_decision``). That is right only while the
transaction hangs. A live one would be ended without its coordinator's knowledge. So each one is
judged again right before its marker is sent. Afterwards the partition is checked: is the
transaction gone, and what is the last stable offset?
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.fetching import fetch
from txnsim.client.inspection.judgement import JudgedTransaction
from txnsim.client.inspection.survey import ANY_AGE, survey
from txnsim.client.inspection.txn_views import AbortSpec
from txnsim.client.isolation import SeenMarker
from txnsim.client.offsets import LATEST_TIMESTAMP
from txnsim.errors import ErrorCode
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.txn.past_decision import PastDecision
from txnsim.types import IsolationLevel, TopicPartition

_FETCHES_MAX: Final = 20
"""Number of fetches in a search for markers after the one that was written."""


class Outcome(StrEnum):
    """How an attempt to end a transaction ended."""

    REPAIRED = "repaired"
    """The repair ended it; the last stable offset advances unless another open transaction starts
    there.
    """
    WOULD_REPAIR = "would be repaired"
    NO_LONGER_HANGS = "no longer hangs"
    """It has ended, or a coordinator knows it now; nothing was written."""
    NEEDS_A_GUESS = "needs a guess"
    """The decision is lost and the operator gave no guess; nothing was written."""
    REFUSED = "refused"
    """The leader did not write the marker."""
    NOT_KNOWN = "not known"
    """The second judgement or the final check failed; check again."""
    ENDED_TWICE = "ended twice"
    """Another client wrote the same marker at the same time."""
    ENDED_OTHERWISE = "ended otherwise"
    """Another client's opposite marker came first."""
    STILL_OPEN = "still open"
    """The marker was written, but the transaction is still open."""


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction and what was done about it; a line of the audit file."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """The coordinator epoch that the marker names."""
    start_offset: int
    transactional_id: str | None
    reason: str
    """Why the transaction hangs or does not, or the leader's error."""
    outcome: Outcome
    decision: PastDecision = PastDecision.UNKNOWN
    """The coordinator's past decision."""
    marker: str = ""
    """``COMMIT`` or ``ABORT``, written or planned; empty where unknown."""
    records: int | None = None
    """Number of offsets from the start of the transaction to the end of the log. COMMIT delivers
    the producer's records among them to readers, ABORT loses them.
    """
    last_stable_offset_before: int | None = None
    last_stable_offset_after: int | None = None
    high_watermark_after: int | None = None
    at_ms: int
    error: ErrorCode | None = None
    """The leader's error, if it refused."""


async def repair(
    admin: Admin,
    finding: JudgedTransaction,
    *,
    now_ms: int,
    dry_run: bool = False,
    guess: PastDecision | None = None,
) -> Repair:
    """End one hanging transaction, if it still hangs.

    Args:
        admin: The cluster.
        finding: The transaction, as a survey found it.
        now_ms: The wall clock.
        dry_run: Judge it again, but write nothing.
        guess: ``COMMITTED`` or ``ABORTED``: what to write if the decision is unknown. A known
            decision is never overruled.

    Raises:
        ClientError: The transaction could not be judged again, or not be checked afterwards.
    """
    partition = finding.transaction.partition
    spec = AbortSpec.of(partition, finding.transaction.producer)
    log_end = await admin.offset_of(partition, LATEST_TIMESTAMP, IsolationLevel.READ_UNCOMMITTED)
    repair_state = msgspec.structs.replace(
        _attempt(finding, now_ms),
        records=log_end - (finding.transaction.producer.txn_start_offset or 0),
        last_stable_offset_before=await admin.offset_of(
            partition, LATEST_TIMESTAMP, IsolationLevel.READ_COMMITTED
        ),
    )
    finding_now = await _judge_again(admin, finding, now_ms=now_ms)
    if finding_now is None or finding_now.verdict is not OpenTxnStatus.HANGING:
        reason = "it has ended" if finding_now is None else finding_now.reason
        return msgspec.structs.replace(repair_state, outcome=Outcome.NO_LONGER_HANGS, reason=reason)
    decision = PastDecision.UNKNOWN if finding_now.decided is None else finding_now.decided.decision
    decision_to_write = guess if decision is PastDecision.UNKNOWN else decision
    repair_state = msgspec.structs.replace(
        repair_state,
        decision=decision,
        marker="" if decision_to_write is None else decision_to_write.marker,
    )
    if not repair_state.marker:
        reason = f"{repair_state.reason}. {finding_now.decided}"
        return msgspec.structs.replace(repair_state, outcome=Outcome.NEEDS_A_GUESS, reason=reason)
    if dry_run:
        return repair_state
    try:
        if decision_to_write is PastDecision.COMMITTED:
            # Kafka's Admin has no call for it.
            await admin.end(spec.marker(committed=True))
        else:
            await admin.abort_transaction(spec)
    except ClientError as refused:
        return msgspec.structs.replace(
            repair_state, outcome=Outcome.REFUSED, reason=str(refused), error=refused.error
        )
    if await _judge_again(admin, finding, now_ms=now_ms) is None:
        repair_state = _outcome_by_markers(
            repair_state, await _markers_since(admin, finding, log_end)
        )
    else:
        repair_state = msgspec.structs.replace(repair_state, outcome=Outcome.STILL_OPEN)
    return await _with_offsets_after(admin, repair_state)


async def _with_offsets_after(admin: Admin, repair_state: Repair) -> Repair:
    """The repair with the offsets that readers of its partition can reach now."""
    partition = repair_state.partition
    return msgspec.structs.replace(
        repair_state,
        last_stable_offset_after=await admin.offset_of(
            partition, LATEST_TIMESTAMP, IsolationLevel.READ_COMMITTED
        ),
        high_watermark_after=await admin.offset_of(
            partition, LATEST_TIMESTAMP, IsolationLevel.READ_UNCOMMITTED
        ),
    )


async def _markers_since(
    admin: Admin, finding: JudgedTransaction, offset: int
) -> tuple[SeenMarker, ...]:
    """The producer's markers on the partition from an offset on; empty if they can't be read. Two
    repairs at the same time can't see each other before they write, because no request in Kafka
    lets a leader refuse the second marker.
    """
    partition = finding.transaction.partition
    markers: list[SeenMarker] = []
    try:
        for _ in range(_FETCHES_MAX):
            fetch_result = await fetch(
                admin.cluster,
                partition.topic,
                partition.partition,
                offset,
                isolation=IsolationLevel.READ_UNCOMMITTED,
                max_wait_ms=0,
            )
            markers += fetch_result.markers
            if fetch_result.next_offset == offset:
                break
            offset = fetch_result.next_offset
    except ClientError:
        return ()  # it is ended, which is what matters
    producer_id = finding.transaction.producer.producer_id
    return tuple(marker for marker in markers if marker.producer_id == producer_id)


def _outcome_by_markers(repair_done: Repair, markers: Sequence[SeenMarker]) -> Repair:
    """The outcome: repaired by one marker, or ended by the first of two."""
    if len(markers) < 2:
        return msgspec.structs.replace(repair_done, outcome=Outcome.REPAIRED)
    first_marker_word = (
        PastDecision.COMMITTED if markers[0].committed else PastDecision.ABORTED
    ).marker
    offsets = ", ".join(str(marker.offset) for marker in markers)
    return msgspec.structs.replace(
        repair_done,
        outcome=Outcome.ENDED_TWICE
        if first_marker_word == repair_done.marker
        else Outcome.ENDED_OTHERWISE,
        reason=f"two markers were written at the same time: they lie at offsets {offsets}, and"
        f" the first one, {first_marker_word}, has ended it",
    )


def not_known(finding: JudgedTransaction, failure: ClientError, *, now_ms: int) -> Repair:
    """The report about a transaction for which ``repair`` failed."""
    return msgspec.structs.replace(
        _attempt(finding, now_ms),
        outcome=Outcome.NOT_KNOWN,
        reason=str(failure),
        error=failure.error,
    )


def _attempt(finding: JudgedTransaction, now_ms: int) -> Repair:
    producer = finding.transaction.producer
    start_offset = producer.txn_start_offset
    assert start_offset is not None, "a transaction without a start is not open"
    return Repair(
        partition=finding.transaction.partition,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=AbortSpec.of(finding.transaction.partition, producer).coordinator_epoch,
        start_offset=start_offset,
        transactional_id=finding.transactional_id,
        reason=finding.reason,
        outcome=Outcome.WOULD_REPAIR,
        at_ms=now_ms,
    )


async def _judge_again(
    admin: Admin, finding: JudgedTransaction, *, now_ms: int
) -> JudgedTransaction | None:
    """The same transaction judged again; None if it is no longer open."""
    partition = finding.transaction.partition
    # However young: its age was judged before, and clocks that differ must not hide it now.
    survey_result = await survey(
        admin, now_ms=now_ms, partitions=[partition], older_than_ms=ANY_AGE
    )
    if partition in survey_result.unread:
        raise ClientError(f"{partition} could not be looked at: {survey_result.unread[partition]}")
    for other_finding in survey_result.findings:
        if finding.transaction.is_that_of(other_finding.transaction.producer):
            return other_finding
    return None
