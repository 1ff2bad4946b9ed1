"""Begin, append, apply: how a move gets into the log before it takes effect.

``begin`` marks the move as pending, ``append`` writes its record and waits until it is committed,
and only then is the move applied, by the function that loading uses too. If the coordinator moved
meanwhile nothing is touched. If the append failed the move is withdrawn, but for a completion that
the log was merely not able to take (15): that one stays pending and is tried again.

Counterpart in Kafka: TransactionStateManager.appendTransactionToLog.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from txnsim.coordinators.txn import tracing
from txnsim.errors import ErrorCode, Rejection
from txnsim.releases.rules import LATEST, Rules
from txnsim.runtime.env import Clock
from txnsim.runtime.trace import Tracer
from txnsim.txn.kip_text import as_logged
from txnsim.txn.log_format import encode_batch, refuse_record
from txnsim.txn.ownership import OwnedPartition, Ownership
from txnsim.txn.state import TransactionState, TxnMetadata, TxnTransition
from txnsim.txn.transitions import apply, begin, withdraw
from txnsim.types import CoordinatorEpoch, TransactionVersion

Append = Callable[[int, bytes, CoordinatorEpoch, int], Awaitable[ErrorCode]]
"""(partition of __transaction_state, batch, coordinator epoch, timeout in ms) -> error, once the
batch is committed.
"""

_NONE: Final = ErrorCode.none
_COMPLETE: Final = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

_NOT_AVAILABLE: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
    }
)
_NOT_COORDINATOR: Final = frozenset(
    {ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error}
)
_UNKNOWN: Final = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})


def append_error(error: ErrorCode) -> ErrorCode:
    """What an error of the log is called towards clients."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.coordinator_not_available
    if error in _NOT_COORDINATOR:
        return ErrorCode.not_coordinator
    if error in _UNKNOWN:
        return ErrorCode.unknown_server_error
    return error


class TransactionLogWriter:
    """Gets moves into ``__transaction_state``."""

    __slots__ = (
        "_append",
        "_clock",
        "_kip_text",
        "_level",
        "_ownership",
        "_rules",
        "_tracer",
    )

    def __init__(
        self,
        *,
        ownership: Ownership,
        clock: Clock,
        tracer: Tracer,
        append: Append,
        transaction_version: Callable[[], TransactionVersion],
        rules: Rules = LATEST,
        kip_text: bool = False,
    ) -> None:
        self._rules = rules
        self._kip_text = kip_text
        self._ownership = ownership
        self._clock = clock
        self._tracer = tracer
        self._append = append
        self._level = transaction_version

    def begin(self, owned: OwnedPartition, record: TxnTransition) -> None:
        """Mark a move as pending: every other command meets CONCURRENT_TRANSACTIONS from now on."""
        entries = owned.entries
        transactional_id = record.transactional_id
        entries[transactional_id] = begin(
            entries.get(transactional_id), record, now_ms=record.last_update_timestamp_ms
        )
        if self._tracer.on:
            tracing.prepared(self._tracer, owned.node, entries[transactional_id], self._level())

    async def append(
        self, owned: OwnedPartition, record: TxnTransition, *, rule: str
    ) -> Rejection | None:
        """Write a begun move and apply it.

        Args:
            owned: Where it belongs.
            record: The move.
            rule: Row of docs/rules.md that explains the move, for the trace.

        Returns:
            None once it took effect; else why it did not.
        """
        level = self._level()
        written = record
        if self._kip_text:
            # The text calls lowering the level harmless: what has no room in a record is left out.
            written, refusal = as_logged(record), None
        else:
            refusal = refuse_record(record, level)
        if refusal is not None:
            # TransactionLog.valueToBytes throws when the move is pending already: the entry stays
            # so until the coordinator moves. A real broker wedges the same way.
            return refusal
        batch = encode_batch(
            (written,), level=level, now_ms=self._clock.now_ms(), rules=self._rules
        )
        error = await self._append(
            owned.partition, batch, owned.coordinator_epoch, record.txn_timeout_ms
        )
        if self._tracer.on:
            why = rule if error == _NONE else _refused_rule(record, error)
            tracing.appended(self._tracer, owned.node, record, error, why)
        if not self._ownership.is_current(owned):
            return self._ownership.refuse(owned.partition)
        txn = owned.entries[record.transactional_id]
        if error != _NONE:
            mapped = append_error(error)
            retried = mapped is ErrorCode.coordinator_not_available and record.state in _COMPLETE
            if not retried:
                owned.entries[record.transactional_id] = withdraw(txn, record)
            return Rejection(
                error=mapped,
                reason=f"{record.transactional_id}: the log refused {record.state.wire_name} "
                f"with {error.name}",
                rule=_refused_rule(record, error),
            )
        if self._steps_back(txn, record):
            # The exception leaves the move pending, until the coordinator moves (KAFKA-8803).
            return Rejection(
                error=ErrorCode.unknown_server_error,
                reason=f"{record.transactional_id}: starts at {record.start_timestamp_ms}, before "
                f"{txn.start_timestamp_ms}, and this broker insists on the order",
            )
        applied = apply(txn, record, rules=self._rules)
        assert applied is not None
        owned.entries[record.transactional_id] = applied
        if self._tracer.on:
            tracing.completed(self._tracer, owned.node, applied, level)
        return None

    def _steps_back(self, txn: TxnMetadata, record: TxnTransition) -> bool:
        return (
            record.start_timestamp_ms < txn.start_timestamp_ms
            and record.state is TransactionState.ONGOING
            and not self._rules.start_may_step_back
        )


def _refused_rule(record: TxnTransition, error: ErrorCode) -> str:
    if record.state in _COMPLETE:
        is_passing = append_error(error) is ErrorCode.coordinator_not_available
        return "complete.unavailable" if is_passing else "complete.refused"
    return "end.v4.failed-fence" if record.fences_epoch else "init.failed-append"


def settled(_result: Any, error: BaseException | None) -> None:
    """``done`` of ``Tasks.drive`` for work that nobody waits for.

    Its outcome is in the entries; what is thrown is a bug of ours and must not be swallowed.
    """
    if error is not None and not isinstance(error, asyncio.CancelledError):
        raise error
