"""Refusals in the words of Kafka's Java ``Admin``.

``txnsim txns`` prints the messages of Kafka's tool, which come from these handlers. Kafka's
counterparts are named per function.
"""

from __future__ import annotations

from typing import Final

from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition

_E = ErrorCode


def producers_failure(
    key: TopicPartition, error: ErrorCode, message: str | None, fixed_id: int | None
) -> str:
    """The wording of DescribeProducersHandler."""
    start = f"Failed to describe active producers for partition {key}"
    match error:
        case _E.not_leader_or_follower:
            return f"{start} on brokerId {fixed_id}"
        case _E.invalid_topic_exception:
            reason = message or message_of(error)
            return (
                f"Failed to fetch metadata for partition {key} due to invalid topic error: {reason}"
            )
        case _E.topic_authorization_failed:
            return f"{start} due to authorization failure on topic `{key.topic}`"
        case _:
            return f"{start} due to unexpected error"


def describe_failure(key: str, error: ErrorCode) -> str:
    """The wording of DescribeTransactionsHandler."""
    start = f"DescribeTransactions request for transactionalId `{key}` failed"
    match error:
        case _E.transactional_id_not_found:
            return f"{start} because the ID could not be found"
        case _E.transactional_id_authorization_failed:
            return f"{start} due to authorization failure"
        case _:
            return f"{start} due to unexpected error"


def fence_failure(key: str, error: ErrorCode) -> str:
    """The wording of FenceProducersHandler."""
    start = f"InitProducerId request for transactionalId `{key}` failed due to"
    match error:
        case _E.cluster_authorization_failed:
            return f"{start} cluster authorization failure"
        case _E.transactional_id_authorization_failed:
            return f"{start} transactional ID authorization failure"
        case _:
            return f"{start} unexpected error"


def marker_failure(subject: str, error: ErrorCode, coordinator_epoch: int) -> str:
    """The wording of AbortTransactionHandler."""
    start = f"WriteTxnMarkers request with {subject} failed"
    match error:
        case _E.cluster_authorization_failed:
            return f"{start} due to cluster authorization error"
        case _E.invalid_producer_epoch:
            return f"{start} due an invalid producer epoch"
        case _E.transaction_coordinator_fenced:
            return (
                f"{start} since the provided coordinator epoch {coordinator_epoch} has been fenced"
                " by the active coordinator"
            )
        case _:
            return f"{start} due to unexpected error: {message_of(error)}"


_MESSAGES: Final = {
    _E.unknown_topic_or_partition: "This server does not host this topic-partition.",
    _E.topic_authorization_failed: "Topic authorization failed.",
    _E.invalid_topic_exception: "The request attempted to perform an operation on an"
    " invalid topic.",
    _E.unknown_server_error: "The server experienced an unexpected error when processing the"
    " request.",
    _E.request_timed_out: "The request timed out.",
    _E.invalid_txn_state: "The producer attempted a transactional operation in an invalid state.",
}


def message_of(error: int) -> str:
    """Kafka's sentence about an error code (``Errors``), or at least its name."""
    code = _E(error)
    return _MESSAGES.get(code, code.name.upper())
