"""Trace events of the coordinator; the tracer is strict and refuses unknown kinds and fields."""

from __future__ import annotations

import pytest

from tests.support.txn_entries import FOO_0, FOO_1, NOW_MS, TID, entry
from txnsim.coordinators._ownership import OwnedPartition
from txnsim.coordinators.txn import tracing
from txnsim.errors import ErrorCode
from txnsim.runtime.trace import Event, TraceLevel, Tracer
from txnsim.txn.commands import MarkersOwed
from txnsim.txn.markers import Debt, debt_of
from txnsim.txn.refusals import unknown_id_rejection
from txnsim.txn.state import TransactionState, TxnMetadata, TxnTransition
from txnsim.txn.transitions import to_complete
from txnsim.types import BrokerId, CoordinatorEpoch, Decision, TransactionVersion

NODE = "broker/1/txn/10"
AGAIN = Decision[TxnTransition, None, MarkersOwed](reply=None, rule="end.v4.committed-commit")
PREPARED = entry(TransactionState.PREPARE_COMMIT, pending_state=TransactionState.COMPLETE_COMMIT)


@pytest.fixture
def tracer() -> Tracer:
    return Tracer(lambda: 0, level=TraceLevel.FULL, is_strict=True)


def last_event(tracer: Tracer) -> tuple[Event, dict[str, object]]:
    """The last event and its payload."""
    event = list(tracer.events())[-1]
    assert isinstance(event.d, dict)
    return event, event.d


def owned_partition(*txn_metadata_entries: TxnMetadata) -> OwnedPartition:
    return OwnedPartition(
        partition=10,
        coordinator_epoch=CoordinatorEpoch(3),
        node=NODE,
        entries={
            txn_metadata.transactional_id: txn_metadata for txn_metadata in txn_metadata_entries
        },
    )


def debt() -> Debt:
    prepared_txn = entry(TransactionState.PREPARE_COMMIT)
    return debt_of(
        prepared_txn,
        to_complete(prepared_txn, now_ms=NOW_MS),
        txn_partition=10,
        coordinator_epoch=CoordinatorEpoch(3),
    )


def test_a_decision_tells_the_entry_and_why_it_was_refused(tracer: Tracer) -> None:
    tracing.trace_decision(tracer, owned_partition(PREPARED), TID, "EndTxn", AGAIN)
    event, event_fields = last_event(tracer)
    assert (event.k, event.tx) == ("txn.decide", "txn-1/7:5")
    assert (event_fields["command"], event_fields["state"], event_fields["pending"]) == (
        "EndTxn",
        "PrepareCommit",
        "CompleteCommit",
    )
    assert event_fields["rule"] == "end.v4.committed-commit"
    rejection = unknown_id_rejection("end.v5.unknown-id")
    tracing.trace_decision(tracer, owned_partition(), TID, "EndTxn", rejection)
    event, event_fields = last_event(tracer)
    assert (event.tx, event_fields["rule"]) == (TID, "end.v5.unknown-id")
    assert event_fields["error"] == "INVALID_PRODUCER_ID_MAPPING"


@pytest.mark.parametrize(
    ("error", "shown_error"),
    [(ErrorCode.none, None), (ErrorCode.request_timed_out, "REQUEST_TIMED_OUT")],
)
def test_an_append_names_the_partition_and_the_error(
    tracer: Tracer, error: ErrorCode, shown_error: str | None
) -> None:
    tracing.trace_append(tracer, NODE, debt().completion, error, "sent.every-partition")
    _, event_fields = last_event(tracer)
    assert (event_fields["tp"], event_fields["state"]) == (
        "__transaction_state-10",
        "CompleteCommit",
    )
    assert event_fields.get("error") == shown_error


def test_moves_tell_the_whole_entry(tracer: Tracer) -> None:
    tracing.trace_preparation(tracer, NODE, PREPARED, TransactionVersion.TV_2)
    assert last_event(tracer)[1]["partitions"] == ["foo-0"]
    assert (last_event(tracer)[1]["version"], last_event(tracer)[1]["level"]) == (2, 2)
    tracing.trace_completion(tracer, NODE, entry(), TransactionVersion.TV_1)
    assert last_event(tracer)[1]["pending"] is None
    assert last_event(tracer)[1]["level"] == 1


def test_loads_and_unloads_name_the_partition(tracer: Tracer) -> None:
    finished_metadata = entry()
    loaded_partition = OwnedPartition(
        partition=10,
        coordinator_epoch=CoordinatorEpoch(3),
        node=NODE,
        entries={finished_metadata.transactional_id: finished_metadata},
    )
    tracing.trace_load(tracer, loaded_partition)
    assert last_event(tracer)[1] == {
        "tp": "__transaction_state-10",
        "coordinator_epoch": 3,
        "transactions": 1,
    }
    loaded_partition.entries[PREPARED.transactional_id] = PREPARED
    tracing.trace_load(tracer, loaded_partition)
    entries = last_event(tracer)[1]["entries"]
    assert isinstance(entries, list)
    assert [event["d"]["state"] for event in entries] == [PREPARED.state.wire_name]
    tracing.trace_unload(tracer, NODE, 10, None)
    assert last_event(tracer)[1] == {"tp": "__transaction_state-10"}
    tracing.trace_unload(tracer, NODE, 10, 4)
    assert last_event(tracer)[1]["coordinator_epoch"] == 4


def test_markers_are_traced_partition_by_partition(tracer: Tracer) -> None:
    marker_debt = debt()
    both_partitions, rule = (FOO_0, FOO_1), marker_debt.epoch_rule
    sent_event = tracing.marker(
        tracer, "marker.sent", NODE, marker_debt, both_partitions, broker_id=BrokerId(2), rule=rule
    )
    events = list(tracer.events())
    assert [event.d["tp"] for event in events] == ["foo-0", "foo-1"]  # type: ignore[index]
    assert sent_event == events[-1].i
    assert last_event(tracer)[1]["target"] == "broker/2"
    assert last_event(tracer)[1]["rule"] == "sent.epoch-v2"
    tracing.marker(tracer, "marker.owed", NODE, marker_debt, (FOO_0,), rule=rule)
    assert "target" not in last_event(tracer)[1]
    assert tracing.marker(tracer, "marker.owed", NODE, marker_debt, (), rule=rule) == -1
