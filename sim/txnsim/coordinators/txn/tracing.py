"""The coordinator's trace events. Call these only under ``if tracer.on``, because they format
values.

``trace_decision``, ``trace_preparation``, ``trace_append`` and ``trace_completion`` make themselves
the current cause, so that a command's events form a chain: decided, pending, in the log, in effect,
markers owed. A command runs in a context of its own (``Tasks.drive``); code that only queues
markers restores the cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from txnsim.coordinators._ownership import OwnedPartition
from txnsim.errors import ErrorCode, Rejection
from txnsim.runtime.trace import NO_CAUSE, Tracer, name_of
from txnsim.txn.commands import MarkersOwed
from txnsim.txn.markers import Debt
from txnsim.txn.state import PREPARED_STATES, TransactionState, TxnMetadata, TxnTransition
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    Decision,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)

_NO_ERROR: Final = ErrorCode.none
_COMPLETE_STATES: Final = frozenset(
    {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""A transition to these states leaves start, timeout and last epoch unchanged, so a reader has them
already. PrepareCommit repeats them: the coordinator may have loaded the open transaction from the
log, with a transition that no event has shown because its append had failed at the previous
coordinator.
"""
_UNFINISHED_STATES: Final = frozenset({TransactionState.ONGOING, *PREPARED_STATES})


def tx_of(txn: TxnMetadata | TxnTransition | Debt) -> tuple[str, int, int]:
    """Transactional id, producer id and epoch, which name a transaction in the trace."""
    return txn.transactional_id, txn.producer_id, txn.producer_epoch


def trace_decision(
    tracer: Tracer,
    owned_partition: OwnedPartition,
    transactional_id: TransactionalId,
    command: str,
    decision_or_rejection: Decision[TxnTransition, Any, MarkersOwed] | Rejection,
    *,
    asked_end: str = "",
) -> None:
    """Trace the decision on a command; a transition is pending from now on. ``asked_end`` is the
    end that EndTxn asks for, ``commit`` or ``abort``, also if the request is refused.
    """
    txn = owned_partition.entries.get(transactional_id)
    txn_label = transactional_id if txn is None else tx_of(txn)
    event_data = (_decision, txn, command, decision_or_rejection, asked_end)
    tracer.set_cause(tracer.emit("txn.decide", owned_partition.node, tx=txn_label, data=event_data))


def _decision(
    txn: TxnMetadata | None,
    command: str,
    decision_or_rejection: Decision[TxnTransition, Any, MarkersOwed] | Rejection,
    asked_end: str,
) -> dict[str, object]:
    event_data: dict[str, object] = {"command": command, "rule": decision_or_rejection.rule}
    if asked_end:
        event_data["asked"] = asked_end
    if txn is not None:
        event_data["state"] = txn.state.wire_name
        event_data["pending"] = None if txn.pending_state is None else txn.pending_state.wire_name
    if isinstance(decision_or_rejection, Rejection):
        event_data["error"] = decision_or_rejection.error.name.upper()
        event_data["reason"] = decision_or_rejection.reason
    elif decision_or_rejection.records:
        event_data["pending"] = decision_or_rejection.records[0].state.wire_name
    return event_data


def trace_timeout(tracer: Tracer, node: str, txn: TxnMetadata) -> None:
    """Trace a transaction that has exceeded its timeout, and make the event the current cause."""
    event_data = {"timer": "transaction.timeout", "waited_ms": txn.txn_timeout_ms}
    tracer.set_cause(
        tracer.emit("timer.fire", node, parents=(NO_CAUSE,), tx=tx_of(txn), data=event_data)
    )


def trace_preparation(
    tracer: Tracer, node: str, txn: TxnMetadata, txn_version: TransactionVersion
) -> None:
    """Trace a pending transition, only at level full; ``txn_version`` is the current level of
    ``transaction.version``.
    """
    event_data = {**fields(txn), "level": int(txn_version)}
    tracer.set_cause(tracer.emit("txn.prepare", node, tx=tx_of(txn), data=event_data))


def trace_append(
    tracer: Tracer, node: str, record: TxnTransition, error: ErrorCode, rule: str
) -> None:
    """Trace the log's answer; at level brief only an error."""
    partition = node.rpartition("/")[2]
    event_data = {
        "state": record.state.wire_name,
        "tp": f"{TRANSACTION_STATE_TOPIC}-{partition}",
        "rule": rule,
    }
    if error is not _NO_ERROR:
        event_data["error"] = error.name.upper()
    tracer.set_cause(
        tracer.emit(
            "txn.append",
            node,
            tx=tx_of(record),
            data=event_data,
            importance=0 if error is _NO_ERROR else None,
        )
    )


def trace_completion(
    tracer: Tracer, node: str, txn: TxnMetadata, txn_version: TransactionVersion
) -> None:
    """Trace a transition that took effect; ``txn_version`` is the current level of
    ``transaction.version``.
    """
    event_data = (_completion, txn, int(txn_version))
    tracer.set_cause(tracer.emit("txn.complete", node, tx=tx_of(txn), data=event_data))


def _completion(txn: TxnMetadata, level: int) -> dict[str, object]:
    state = txn.state
    event_data: dict[str, object] = {
        "state": state.wire_name,
        "pending": None if txn.pending_state is None else txn.pending_state.wire_name,
        "pid": txn.producer_id,
        "epoch": txn.producer_epoch,
        "partitions": _partition_names(txn.partitions),
        "version": int(txn.client_version),
        "level": level,
    }
    if state not in _COMPLETE_STATES:
        event_data["timeout_ms"] = txn.txn_timeout_ms
        event_data["started_ms"] = txn.start_timestamp_ms
        event_data["last_epoch"] = txn.last_producer_epoch
    return event_data


def trace_load(tracer: Tracer, owned_partition: OwnedPartition) -> None:
    """Trace that a partition of the transaction log was loaded, with the transactions that are not
    finished. A recording that began before the load does not know them otherwise.
    """
    event_data: dict[str, object] = {
        "tp": f"{TRANSACTION_STATE_TOPIC}-{owned_partition.partition}",
        "coordinator_epoch": owned_partition.coordinator_epoch,
        "transactions": len(owned_partition.entries),
    }
    unfinished_entries = [
        {"tx": name_of(tx_of(txn)), "d": fields(txn)}
        for txn in owned_partition.entries.values()
        if txn.state in _UNFINISHED_STATES
    ]
    if unfinished_entries:
        event_data["entries"] = unfinished_entries
    tracer.emit("txn.load", owned_partition.node, data=event_data)


def trace_unload(tracer: Tracer, node: str, partition_index: int, epoch: int | None) -> None:
    """Trace that a partition of the transaction log was unloaded."""
    event_data: dict[str, object] = {"tp": f"{TRANSACTION_STATE_TOPIC}-{partition_index}"}
    if epoch is not None:
        event_data["coordinator_epoch"] = epoch
    tracer.emit("txn.unload", node, data=event_data)


def marker(
    tracer: Tracer,
    event_kind: str,
    node: str,
    debt: Debt,
    partitions: Iterable[TopicPartition],
    *,
    broker_id: BrokerId | None = None,
    parents: tuple[int, ...] = (),
    rule: str,
    importance: int | None = None,
    **more_fields: object,
) -> int:
    """Trace a marker once per partition; index of the last event, -1 without partitions."""
    if importance == 0 and not tracer.full:
        return tracer.cause_of(parents)
    last_event = -1
    for partition in partitions:
        event_data: dict[str, object] = {
            "pid": debt.producer_id,
            "epoch": debt.producer_epoch,
            "tp": str(partition),
            "rule": rule,
            **more_fields,
        }
        if event_kind != "marker.acked":  # its marker.sent has it
            event_data["committed"] = debt.committed
        if broker_id is None:
            event_data["coordinator_epoch"] = (
                debt.coordinator_epoch
            )  # when it is owed: then it is known
        else:
            event_data["target"] = f"broker/{broker_id}"
        last_event = tracer.emit(
            event_kind,
            node,
            parents=parents,
            tx=tx_of(debt),
            data=event_data,
            importance=importance,
        )
    return last_event


def fields(txn: TxnMetadata) -> dict[str, object]:
    """A coordinator's entry as event fields."""
    return {
        "state": txn.state.wire_name,
        "pending": None if txn.pending_state is None else txn.pending_state.wire_name,
        "pid": txn.producer_id,
        "epoch": txn.producer_epoch,
        "last_epoch": txn.last_producer_epoch,
        "timeout_ms": txn.txn_timeout_ms,
        "started_ms": txn.start_timestamp_ms,
        "partitions": _partition_names(txn.partitions),
        "version": int(txn.client_version),
    }


def _partition_names(partitions: frozenset[TopicPartition]) -> list[str]:
    if len(partitions) < 2:
        return list(map(str, partitions))
    return [str(partition) for partition in sorted(partitions)]
