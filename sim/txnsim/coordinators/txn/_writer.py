"""Begin, append, apply: how a move gets into the log before it takes effect.

The move is marked as pending, its record is written and waited for until it is committed, and only
then is the move applied, by the function that loading uses too. If the coordinator moved
meanwhile nothing is touched. If the append failed the move is withdrawn, but for a completion that
the log was merely not able to take (15): that one stays pending and is tried again.

Counterpart in Kafka: TransactionStateManager.appendTransactionToLog.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import msgspec

from txnsim.coordinators._coordinator_log import TransactionLog, append_error
from txnsim.coordinators._ownership import OwnedPartition, Ownership
from txnsim.coordinators.txn import tracing
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.releases.rules import Rules
from txnsim.runtime.env import Clock
from txnsim.runtime.trace import Tracer
from txnsim.txn.kip_text import as_logged
from txnsim.txn.log_format import encode_batch, refuse_record
from txnsim.txn.state import Tombstone, TransactionState, TxnMetadata, TxnRecord, TxnTransition
from txnsim.txn.transitions import apply, begin, withdraw
from txnsim.types import Decision, TopicPartition, TransactionalId, TransactionVersion

_NONE: Final = ErrorCode.none
ReplyT = TypeVar("ReplyT")
EffectT = TypeVar("EffectT")
_TV_0: Final = TransactionVersion.TV_0
_TV_1: Final = TransactionVersion.TV_1
_COMPLETE: Final = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

_IN_THE_LOG: Final = (ErrorCode.request_timed_out, ErrorCode.not_enough_replicas_after_append)
"""Errors after which the record is in the log nevertheless."""

_RESULTS: Final = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}
"""Whether a transaction in that state is committed."""


class Then(Protocol):
    """What follows when a move has taken effect."""

    def __call__(
        self, owned: OwnedPartition, transactional_id: TransactionalId, now_ms: int, *, fences: bool
    ) -> object:
        """Act on it, at the time ``now_ms``."""


def subject_of(records: Sequence[TxnRecord], where: TopicPartition) -> Subject:
    """Whom records of the partition ``where`` are about, for fault plans."""
    return Subject(
        partitions=(where,),
        others=tuple(
            [
                Subject(transactional_id=record.transactional_id, partitions=(where,))
                if isinstance(record, Tombstone)
                else Subject(
                    transactional_id=record.transactional_id,
                    producer_id=record.producer_id,
                    partitions=(where,),
                    committed=_RESULTS.get(record.state),
                )
                for record in records
            ]
        ),
    )


class TransactionLogWriter(msgspec.Struct, kw_only=True, eq=False):
    """Gets moves into ``__transaction_state``."""

    ownership: Ownership[OwnedPartition]
    clock: Clock
    tracer: Tracer
    log: TransactionLog
    rules: Rules
    level: TransactionVersion = _TV_0
    """The finalized level of ``transaction.version``."""
    kip_text: bool = False

    async def append(
        self,
        owned: OwnedPartition,
        decision: Decision[TxnTransition, ReplyT, EffectT],
        *,
        now_ms: int,
        is_begun: bool = False,
        then: Then | None = None,
    ) -> ReplyT | Rejection:
        """Begin a move, write its record, apply it.

        Returns:
            The reply; or why the move did not take effect.
        """
        (record,) = decision.records
        level, written, name = self.level, record, record.transactional_id
        if not is_begun:
            # Every other command meets CONCURRENT_TRANSACTIONS from now on.
            begun = begin(owned.entries.get(name), record, now_ms=record.last_update_timestamp_ms)
            owned.entries[name] = begun
            if self.tracer.full:
                tracing.prepared(self.tracer, owned.node, begun, level)
        if self.kip_text:
            # The text calls lowering the level harmless: fields that have no room in a record are
            # left out.
            written, refusal = as_logged(record), None
        else:
            refusal = None if level >= _TV_1 else refuse_record(record, level)
        if refusal is not None:
            # TransactionLog.valueToBytes throws when the move is pending already: the entry stays
            # so until the coordinator moves. A real broker wedges the same way.
            return refusal
        error = self.log.write(
            owned.partition,
            encode_batch((written,), level=level, now_ms=now_ms, rules=self.rules),
            subject=partial(subject_of, (written,)),
            timeout_ms=record.txn_timeout_ms,
            now_ms=now_ms,
        )
        if not isinstance(error, ErrorCode):
            error, now_ms = await error, self.clock.now_ms()
        if self.tracer.full or (error != _NONE and self.tracer.on):
            why = decision.rule if error == _NONE else _refused_rule(record, error)
            tracing.appended(self.tracer, owned.node, record, error, why)
        if self.ownership.owned.get(owned.partition) is not owned:
            return self.ownership.refuse(owned.partition)
        txn = owned.entries[name]
        if error != _NONE:
            return _withdrawn(owned, record, error)
        insists_on_order = not self.rules.start_may_step_back
        if (
            insists_on_order
            and record.start_timestamp_ms < txn.start_timestamp_ms
            and record.state is TransactionState.ONGOING
        ):
            return _stepped_back(record, txn)
        applied = apply(txn, record, rules=self.rules)
        assert applied is not None
        owned.entries[name] = applied
        if owned.withdrawn:
            owned.withdrawn.pop(name, None)
        if self.tracer.on:
            tracing.completed(self.tracer, owned.node, applied, level)
        if then is not None and decision.effects:
            then(owned, name, now_ms, fences=record.fences_epoch)
        return decision.reply

    async def write(
        self, owned: OwnedPartition, records: Sequence[TxnRecord], *, timeout_ms: int
    ) -> ErrorCode:
        """Append records with acks=-1 and wait until they are committed; the log's error."""
        now_ms = self.clock.now_ms()
        error = self.log.write(
            owned.partition,
            encode_batch(records, level=self.level, now_ms=now_ms, rules=self.rules),
            subject=partial(subject_of, records),
            timeout_ms=timeout_ms,
            now_ms=now_ms,
        )
        return error if isinstance(error, ErrorCode) else await error


def _stepped_back(record: TxnTransition, txn: TxnMetadata) -> Rejection:
    """The exception leaves the move pending, until the coordinator moves (KAFKA-8803)."""
    return Rejection(
        error=ErrorCode.unknown_server_error,
        reason=f"{record.transactional_id}: starts at {record.start_timestamp_ms}, before "
        f"{txn.start_timestamp_ms}, and this broker insists on the order",
    )


def _withdrawn(owned: OwnedPartition, record: TxnTransition, error: ErrorCode) -> Rejection:
    """The log has refused a move: it is pending no longer, unless it is tried again."""
    name = record.transactional_id
    mapped = append_error(error)
    retried = mapped is ErrorCode.coordinator_not_available and record.state in _COMPLETE
    if not retried:
        owned.entries[name] = withdraw(owned.entries[name], record)
        if error in _IN_THE_LOG:
            owned.withdrawn[name] = record
    return Rejection(
        error=mapped,
        reason=f"{name}: the log refused {record.state.wire_name} with {error.name}",
        rule=_refused_rule(record, error),
    )


def _refused_rule(record: TxnTransition, error: ErrorCode) -> str:
    if record.state in _COMPLETE:
        is_passing = append_error(error) is ErrorCode.coordinator_not_available
        return "complete.unavailable" if is_passing else "complete.refused"
    return "end.v4.failed-fence" if record.fences_epoch else "init.failed-append"


def settled(_result: Any, error: BaseException | None) -> None:
    """``done`` of ``Tasks.drive`` for work without a waiting caller.

    Its outcome is in the entries. An exception is a bug of txnsim and must not be swallowed.
    """
    if error is not None and not isinstance(error, asyncio.CancelledError):
        raise error
