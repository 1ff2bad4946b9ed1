"""How the text of KIP-890 is read, error by error."""

from __future__ import annotations

import pytest

from txnsim.api.kip_text._errors import (
    passing_error,
    produce_error,
    server_failure,
    txn_offset_commit_error,
    verification_error,
)
from txnsim.errors import ErrorCode

E = ErrorCode


@pytest.mark.parametrize(
    ("error", "failure", "produce", "offsets", "verification"),
    [
        (E.none, E.none, E.none, E.none, E.none),
        (E.unknown_server_error, *[E.transaction_abortable] * 3, E.unknown_server_error),
        (
            E.invalid_txn_state,
            E.invalid_txn_state,
            *[E.transaction_abortable] * 2,
            E.invalid_txn_state,
        ),
        (
            E.invalid_producer_id_mapping,
            E.invalid_producer_id_mapping,
            *[E.transaction_abortable] * 2,
            E.invalid_producer_id_mapping,
        ),
        (E.transaction_abortable, *[E.transaction_abortable] * 3, E.invalid_txn_state),
        (E.invalid_producer_epoch, *[E.invalid_producer_epoch] * 4),
        (
            E.concurrent_transactions,
            E.concurrent_transactions,
            E.not_enough_replicas,
            E.coordinator_not_available,
            E.concurrent_transactions,
        ),
        *[
            (error, error, error, E.coordinator_not_available, error)
            for error in (
                E.coordinator_load_in_progress,
                E.coordinator_not_available,
                E.network_exception,
                E.not_coordinator,
                E.not_enough_replicas,
                E.request_timed_out,
                E.unknown_topic_or_partition,
            )
        ],
    ],
)
def test_each_error_at_each_place(
    error: ErrorCode,
    failure: ErrorCode,
    produce: ErrorCode,
    offsets: ErrorCode,
    verification: ErrorCode,
) -> None:
    assert server_failure(error) is failure
    assert produce_error(error) is produce
    assert txn_offset_commit_error(error) is offsets
    passes = offsets is E.coordinator_not_available
    assert passing_error(error) is (offsets if passes else error)
    assert verification_error(error) is verification
