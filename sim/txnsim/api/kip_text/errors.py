"""The errors of KIP-890's text: which ones make a producer abort, and which ones make it retry.

The text has one error for "something went wrong on the server, abort and go on", and does not say
code by code what becomes of it. It is read so here:

- A server failure without a known reason (UNKNOWN_SERVER_ERROR) is TRANSACTION_ABORTABLE in every
  version of a transactional API that knows this error.
- On the write path a transaction that the partition or the coordinator does not know
  (INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING) is TRANSACTION_ABORTABLE too.
- Fencing errors (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED) stay the same, and so do errors that have
  nothing to do with transactions.
- A temporary error is NOT_ENOUGH_REPLICAS for Produce, CONCURRENT_TRANSACTIONS included, and
  COORDINATOR_NOT_AVAILABLE for TxnOffsetCommit.
- A partition that is not part of the transaction is INVALID_TXN_STATE at the coordinator.

Kafka originates TRANSACTION_ABORTABLE in one place only, the verification at the coordinator.
"""

from __future__ import annotations

from typing import Final

from txnsim.errors import ErrorCode

_UNKNOWN_TRANSACTION: Final = frozenset(
    {
        ErrorCode.unknown_server_error,
        ErrorCode.invalid_txn_state,
        ErrorCode.invalid_producer_id_mapping,
    }
)
_PASSING_AT_COORDINATOR: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.network_exception,
        ErrorCode.not_coordinator,
        ErrorCode.not_enough_replicas,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_topic_or_partition,
    }
)


def server_failure(error: ErrorCode) -> ErrorCode:
    """An error of any transactional API, in a version that knows TRANSACTION_ABORTABLE."""
    if error is ErrorCode.unknown_server_error:
        return ErrorCode.transaction_abortable
    return error


def produce_error(error: ErrorCode) -> ErrorCode:
    """An error of a transactional Produce, in a version that knows TRANSACTION_ABORTABLE."""
    if error in _UNKNOWN_TRANSACTION:
        return ErrorCode.transaction_abortable
    if error is ErrorCode.concurrent_transactions:
        return ErrorCode.not_enough_replicas
    return error


def verification_error(error: ErrorCode) -> ErrorCode:
    """The coordinator's error for a partition that it should verify."""
    if error is ErrorCode.transaction_abortable:
        return ErrorCode.invalid_txn_state
    return error


def passing_error(error: ErrorCode) -> ErrorCode:
    """A verification error of TxnOffsetCommit, in any version."""
    if error in _PASSING_AT_COORDINATOR:
        return ErrorCode.coordinator_not_available
    return error


def txn_offset_commit_error(error: ErrorCode) -> ErrorCode:
    """The same in a version that knows TRANSACTION_ABORTABLE."""
    if error in _UNKNOWN_TRANSACTION:
        return ErrorCode.transaction_abortable
    return passing_error(error)
