"""The errors of KIP-890's text: which ones make a producer abort, and which ones make it retry.

The text has one error for "something went wrong on the server, abort and go on", and does not say
code by code what becomes of it. We read it as follows:

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

from collections.abc import Callable, Mapping
from typing import Final

from txnsim.errors import ErrorCode

Renamed = Callable[[ErrorCode], ErrorCode]


def _rename_by(text_errors: Mapping[ErrorCode, ErrorCode]) -> Renamed:
    return lambda error: text_errors.get(error, error)


_UNKNOWN_TRANSACTION: Final = dict.fromkeys(
    (
        ErrorCode.unknown_server_error,
        ErrorCode.invalid_txn_state,
        ErrorCode.invalid_producer_id_mapping,
    ),
    ErrorCode.transaction_abortable,
)
_PASSING_AT_COORDINATOR: Final = dict.fromkeys(
    (
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.network_exception,
        ErrorCode.not_coordinator,
        ErrorCode.not_enough_replicas,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_topic_or_partition,
    ),
    ErrorCode.coordinator_not_available,
)

server_failure: Final = _rename_by(
    {ErrorCode.unknown_server_error: ErrorCode.transaction_abortable}
)
"""The error of any transactional API, in a version that knows TRANSACTION_ABORTABLE."""
produce_error: Final = _rename_by(
    {**_UNKNOWN_TRANSACTION, ErrorCode.concurrent_transactions: ErrorCode.not_enough_replicas}
)
"""The error of a transactional Produce, in a version that knows TRANSACTION_ABORTABLE."""
verification_error: Final = _rename_by(
    {ErrorCode.transaction_abortable: ErrorCode.invalid_txn_state}
)
"""The coordinator's error for a partition that it should verify but that is not in the transaction.
"""
passing_error: Final = _rename_by(_PASSING_AT_COORDINATOR)
"""The error of a verification for TxnOffsetCommit, in any version."""
txn_offset_commit_error: Final = _rename_by({**_UNKNOWN_TRANSACTION, **_PASSING_AT_COORDINATOR})
"""The error of TxnOffsetCommit, in a version that knows TRANSACTION_ABORTABLE."""
