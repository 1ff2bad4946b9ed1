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
    partition: TopicPartition, error: ErrorCode, message: str | None, fixed_id: int | None
) -> str:
    """What Kafka's tools say when DescribeProducers fails (DescribeProducersHandler)."""
    message_start = f"Failed to describe active producers for partition {partition}"
    match error:
        case _E.not_leader_or_follower:
            return f"{message_start} on brokerId {fixed_id}"
        case _E.invalid_topic_exception:
            reason = message or message_of(error)
            return (
                f"Failed to fetch metadata for partition {partition} due to invalid topic error: "
                f"{reason}"
            )
        case _E.topic_authorization_failed:
            return f"{message_start} due to authorization failure on topic `{partition.topic}`"
        case _:
            return f"{message_start} due to unexpected error"


def describe_failure(transactional_id: str, error: ErrorCode) -> str:
    """What Kafka's tools say when DescribeTransactions fails (DescribeTransactionsHandler)."""
    message_start = f"DescribeTransactions request for transactionalId `{transactional_id}` failed"
    match error:
        case _E.transactional_id_not_found:
            return f"{message_start} because the ID could not be found"
        case _E.transactional_id_authorization_failed:
            return f"{message_start} due to authorization failure"
        case _:
            return f"{message_start} due to unexpected error"


def fence_failure(transactional_id: str, error: ErrorCode) -> str:
    """What Kafka's tools say when InitProducerId fails (FenceProducersHandler)."""
    message_start = f"InitProducerId request for transactionalId `{transactional_id}` failed due to"
    match error:
        case _E.cluster_authorization_failed:
            return f"{message_start} cluster authorization failure"
        case _E.transactional_id_authorization_failed:
            return f"{message_start} transactional ID authorization failure"
        case _:
            return f"{message_start} unexpected error"


def marker_failure(marker_text: str, error: ErrorCode, coordinator_epoch: int) -> str:
    """What Kafka's tools say when WriteTxnMarkers fails (AbortTransactionHandler)."""
    message_start = f"WriteTxnMarkers request with {marker_text} failed"
    match error:
        case _E.cluster_authorization_failed:
            return f"{message_start} due to cluster authorization error"
        case _E.invalid_producer_epoch:
            return f"{message_start} due an invalid producer epoch"
        case _E.transaction_coordinator_fenced:
            return (
                f"{message_start} since the provided coordinator epoch {coordinator_epoch} has "
                "been fenced by the active coordinator"
            )
        case _:
            return f"{message_start} due to unexpected error: {message_of(error)}"


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
    error_code = _E(error)
    return _MESSAGES.get(error_code, error_code.name.upper())
