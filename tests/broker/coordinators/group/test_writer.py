"""What the log or the transaction's coordinator refuses, in the words of a group coordinator."""

from __future__ import annotations

import pytest

from txnsim.coordinators.group._writer import coordinator_error
from txnsim.errors import ErrorCode

E = ErrorCode


@pytest.mark.parametrize(
    ("told", "by"),
    [
        (
            E.coordinator_not_available,
            [
                E.unknown_topic_or_partition,
                E.not_enough_replicas,
                E.not_enough_replicas_after_append,
                E.request_timed_out,
            ],
        ),
        (E.not_coordinator, [E.not_leader_or_follower, E.kafka_storage_error]),
        (
            E.unknown_server_error,
            [E.message_too_large, E.record_list_too_large, E.invalid_fetch_size],
        ),
        (E.coordinator_load_in_progress, [E.network_exception, E.coordinator_load_in_progress]),
    ],
)
def test_errors_of_a_log_become_states_of_the_coordinator(
    told: ErrorCode, by: list[ErrorCode]
) -> None:
    assert {coordinator_error(error) for error in by} == {told}


@pytest.mark.parametrize(
    "error",
    [
        E.none,
        E.transaction_abortable,
        E.concurrent_transactions,
        E.invalid_txn_state,
        E.invalid_producer_id_mapping,
        E.invalid_producer_epoch,
        E.coordinator_not_available,
        E.not_coordinator,
    ],
)
def test_other_errors_stay_as_they_are(error: ErrorCode) -> None:
    assert coordinator_error(error) is error
