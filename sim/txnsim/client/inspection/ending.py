"""Ends the open transaction of one exact identity: ``txns commit`` and ``txns abort`` by
transactional id, producer id and producer epoch.

A program that has to commit later, such as Flink's sink, keeps this identity in its checkpoint.
When it does not come back, an operator ends the transaction as the checkpoint says. The request is
the EndTxn that the program would have sent, so the coordinator writes down the decision and has the
markers written. It is sent only if the coordinator knows this very transaction; between look and
request the coordinator itself refuses another identity. Kafka's counterpart:
TransactionCoordinator.endTransaction.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from txnsim.client._txn_admin import TransactionAdmin
from txnsim.client.cluster import LOST_ANSWER_ERRORS, Cluster
from txnsim.client.errors import ClientError, RetriableError
from txnsim.client.inspection.txn_views import TransactionDescription
from txnsim.client.offsets import LATEST_TIMESTAMP, offset_of
from txnsim.client.session import TxnProtocol
from txnsim.client.txn_requests import TxnRequests
from txnsim.errors import ErrorCode
from txnsim.txn.past_decision import PastDecision
from txnsim.types import TopicPartition

_COMPLETE: Final = {"CompleteCommit": PastDecision.COMMITTED, "CompleteAbort": PastDecision.ABORTED}
_PREPARED: Final = {"PrepareCommit": PastDecision.COMMITTED, "PrepareAbort": PastDecision.ABORTED}


class TxnIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a transaction, as a checkpoint has it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def __str__(self) -> str:
        return f"producer {self.producer_id} epoch {self.producer_epoch}"


class EndOutcome(StrEnum):
    """The outcome of an attempt to end a transaction."""

    WOULD_END = "would be ended"
    ENDED = "ended"
    DECIDED = "decided, markers on their way"
    WAS_ENDED = "was ended so before"
    REFUSED = "refused"


class EndedPart(msgspec.Struct, frozen=True, kw_only=True):
    """What ending a transaction concerns on one partition: the records from its first offset on."""

    partition: TopicPartition
    start_offset: int | None
    """First offset of the open transaction; None if nothing of it is open there."""
    offsets: int
    """From there to the log's end, those of other producers included; 0 without a start."""


class TransactionEnd(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to end a transaction, and its outcome."""

    identity: TxnIdentity
    marker: str
    """``COMMIT`` or ``ABORT``."""
    state: str | None
    """State of the coordinator's entry before; None if it has none."""
    parts: tuple[EndedPart, ...]
    outcome: EndOutcome
    reason: str


async def look_at(
    admin: TransactionAdmin, identity: TxnIdentity, decision: PastDecision
) -> TransactionEnd:
    """What an attempt would do; nothing is changed.

    Args:
        admin: The cluster.
        identity: Of the transaction.
        decision: ``COMMITTED`` or ``ABORTED``.

    Raises:
        ClientError: The coordinator did not answer, or this user may not describe the id.
    """
    description = await _description_of(admin, identity.transactional_id)
    raises_epoch = _protocol_of(admin.cluster) is TxnProtocol.V2
    expected_outcome, reason = _prospective_outcome(
        identity, description, decision, raises_epoch=raises_epoch
    )
    is_open = expected_outcome is EndOutcome.WOULD_END
    ended_parts = await _parts_of(admin, identity, description) if description and is_open else ()
    return TransactionEnd(
        identity=identity,
        marker=decision.marker,
        state=None if description is None else description.state,
        parts=ended_parts,
        outcome=expected_outcome,
        reason=reason,
    )


async def end(
    admin: TransactionAdmin, transaction_end: TransactionEnd, decision: PastDecision
) -> TransactionEnd:
    """End the transaction that ``look_at`` has found open, and wait for its markers.

    Raises:
        RetriableError: No coordinator answered in time.
    """
    identity = transaction_end.identity
    try:
        await _send_end(admin.cluster, identity, decision)
    except RetriableError:
        raise
    except ClientError as refusal:
        return msgspec.structs.replace(
            transaction_end, outcome=EndOutcome.REFUSED, reason=str(refusal)
        )
    deadline, backoff = admin.cluster.deadline(), admin.cluster.backoff()
    while True:
        description = await _description_of(admin, identity.transactional_id)
        if (
            description is None
            or not _is_entry_of(identity, description)
            or description.state not in _PREPARED
        ):
            return msgspec.structs.replace(
                transaction_end, outcome=EndOutcome.ENDED, reason="every partition has its marker"
            )
        if deadline.has_passed:
            reason = f"it is {description.state}: some leader has not taken its marker yet"
            return msgspec.structs.replace(
                transaction_end, outcome=EndOutcome.DECIDED, reason=reason
            )
        await backoff.wait(deadline)


async def _description_of(
    admin: TransactionAdmin, transactional_id: str
) -> TransactionDescription | None:
    answer = (await admin.describe_transactions((transactional_id,)))[transactional_id]
    if not isinstance(answer, ClientError):
        return answer
    if answer.error == ErrorCode.transactional_id_not_found:
        return None
    raise answer


def _prospective_outcome(
    identity: TxnIdentity,
    description: TransactionDescription | None,
    decision: PastDecision,
    *,
    raises_epoch: bool,
) -> tuple[EndOutcome, str]:
    """What would become of an attempt, and why.

    Args:
        identity: Of the transaction.
        description: What the coordinator has of its id; None if nothing.
        decision: What is wanted.
        raises_epoch: Whether the end of a transaction raises the epoch. Then an entry of this very
            epoch that is complete tells of the transaction before, and not of this one.
    """
    if description is None:
        reason = "no coordinator knows this transactional id: it was never used, or is forgotten"
        return EndOutcome.REFUSED, reason
    state, epoch = description.state, description.producer_epoch
    coordinator_words = (
        f"its coordinator has producer {description.producer_id} epoch {epoch}, {state}"
    )
    if description.producer_id != identity.producer_id:
        return EndOutcome.REFUSED, f"{coordinator_words}: this is another producer"
    past_decision = {**_COMPLETE, **_PREPARED}.get(state)
    is_older_end = raises_epoch and epoch == identity.producer_epoch
    if past_decision is not None and _is_entry_of(identity, description) and not is_older_end:
        if past_decision is decision:
            return EndOutcome.WAS_ENDED, coordinator_words
        return EndOutcome.REFUSED, f"{coordinator_words}: it was decided otherwise"
    if epoch != identity.producer_epoch:
        return EndOutcome.REFUSED, f"{coordinator_words}: this is another epoch"
    if state != "Ongoing":
        return EndOutcome.REFUSED, f"{coordinator_words}: no transaction is open"
    return EndOutcome.WOULD_END, coordinator_words


def _is_entry_of(identity: TxnIdentity, description: TransactionDescription) -> bool:
    """Whether an entry is that of the transaction: transactions v2, and a fence, raise the epoch
    with the end.
    """
    return (
        description.producer_id == identity.producer_id
        and description.producer_epoch - identity.producer_epoch in (0, 1)
    )


async def _parts_of(
    admin: TransactionAdmin, identity: TxnIdentity, description: TransactionDescription
) -> tuple[EndedPart, ...]:
    """What is open of the transaction on each of its partitions. A partition that can't be looked
    at counts as one without an open transaction.
    """
    producers_by_partition = await admin.describe_producers(description.partitions)
    ended_parts = []
    for partition in sorted(description.partitions):
        producers = producers_by_partition[partition]
        start_offset = None
        if not isinstance(producers, ClientError):
            start_offset = next(
                (
                    producer.txn_start_offset
                    for producer in producers
                    if producer.producer_id == identity.producer_id
                ),
                None,
            )
        offset_count = 0
        if start_offset is not None:
            offset_count = (
                await offset_of(admin.cluster, partition, LATEST_TIMESTAMP) - start_offset
            )
        ended_parts.append(
            EndedPart(partition=partition, start_offset=start_offset, offsets=offset_count)
        )
    return tuple(ended_parts)


def _protocol_of(cluster: Cluster) -> TxnProtocol:
    """The protocol in which the cluster's newest clients end transactions."""
    level = cluster.features.level("transaction.version")
    return TxnProtocol.V2 if level >= 2 else TxnProtocol.V1


async def _send_end(cluster: Cluster, identity: TxnIdentity, decision: PastDecision) -> None:
    """Send EndTxn until the coordinator decides. Where the cluster has transactions v2, the end
    raises the epoch, so a producer that still lives is fenced.
    """
    request = TxnRequests(
        identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
    ).end(
        committed=decision is PastDecision.COMMITTED,
        accepted_versions=_protocol_of(cluster).end_versions,
    )
    deadline, backoff = cluster.deadline(), cluster.backoff()
    while True:
        try:
            coordinator = await cluster.coordinator(identity.transactional_id, deadline=deadline)
            error = ErrorCode((await cluster.ask(coordinator, request)).error_code)
        except LOST_ANSWER_ERRORS:
            error = ErrorCode.network_exception
        if error == ErrorCode.none:
            return
        failure = f"EndTxn of {identity.transactional_id}: {error.name.upper()}"
        if not error.retriable:
            raise ClientError(failure, error=error)
        cluster.forget_coordinator(identity.transactional_id)
        if deadline.has_passed:
            raise RetriableError(failure, error=error)
        await backoff.wait(deadline)
