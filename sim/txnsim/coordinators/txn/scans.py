"""The two timers of a coordinator: transactions past their timeout, transactional ids past theirs.

Both run on the cluster clock, so that advancing it makes them happen. A timed-out transaction is
fenced and aborted by the cluster's own protocol version; its producer learns of it at its next
call. An expired id is forgotten by a tombstone.

Counterpart in Kafka: TransactionCoordinator.abortTimedOutTransactions,
TransactionStateManager.removeExpiredTransactionalIds.
"""

from __future__ import annotations

from collections.abc import Callable

from txnsim.coordinators.txn.writer import Append, settled
from txnsim.errors import ErrorCode
from txnsim.node.crossings import TimerGate, at_once
from txnsim.releases.rules import LATEST, Rules
from txnsim.runtime.env import Clock, Tasks, TimerHandle
from txnsim.settings import Settings
from txnsim.txn.log_format import encode_batch, tombstone_batches
from txnsim.txn.machine import decide_expiry, is_timed_out
from txnsim.txn.ownership import OwnedPartition, Ownership
from txnsim.txn.state import Tombstone, TransactionState, TxnMetadata
from txnsim.txn.transitions import begin, withdraw
from txnsim.types import TransactionVersion

AbortTimedOut = Callable[[OwnedPartition, TxnMetadata], None]
"""Fence and abort one transaction; nothing comes back, the next scan tries again."""


class Scans:
    """Periodic work over all entries of a coordinator."""

    def __init__(
        self,
        *,
        ownership: Ownership,
        clock: Clock,
        settings: Settings,
        tasks: Tasks,
        append: Append,
        transaction_version: Callable[[], TransactionVersion],
        abort: AbortTimedOut,
        gate: TimerGate = at_once,
        rules: Rules = LATEST,
    ) -> None:
        self._rules = rules
        self._gate = gate
        self._ownership = ownership
        self._clock = clock
        self._settings = settings
        self._tasks = tasks
        self._append = append
        self._level = transaction_version
        self._abort = abort
        self._timers: dict[str, TimerHandle] = {}
        self.expired_total = 0
        """Transactional ids forgotten."""

    def start(self) -> None:
        """Arm both timers; each runs for the first time one interval from now."""
        self._arm_abort()
        self._arm_expiry()

    def stop(self) -> None:
        """Disarm both timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    # Timeouts

    def _arm_abort(self) -> None:
        interval_ms = self._settings.transaction_abort_timed_out_cleanup_interval_ms
        deadline_ms = self._clock.now_ms() + interval_ms
        self._timers["abort"] = self._clock.call_at(
            deadline_ms,
            lambda: self._gate("transaction-timeouts", self._on_abort, self._arm_abort),
        )

    def _on_abort(self) -> None:
        self._arm_abort()
        now_ms = self._clock.now_ms()
        for owned in self._ownership:
            for txn in list(owned.entries.values()):
                if is_timed_out(txn, now_ms=now_ms, rules=self._rules):
                    self._abort(owned, txn)

    # Expiry

    def _arm_expiry(self) -> None:
        interval_ms = self._settings.transaction_remove_expired_cleanup_interval_ms
        deadline_ms = self._clock.now_ms() + interval_ms
        self._timers["expiry"] = self._clock.call_at(
            deadline_ms,
            lambda: self._gate("transactional-id-expiration", self._on_expiry, self._arm_expiry),
        )

    def _on_expiry(self) -> None:
        self._arm_expiry()
        now_ms = self._clock.now_ms()
        expiration_ms = self._settings.transactional_id_expiration_ms
        for owned in self._ownership:
            tombstones: list[Tombstone] = []
            for tid, txn in list(owned.entries.items()):
                tombstone = decide_expiry(txn, now_ms=now_ms, expiration_ms=expiration_ms)
                if tombstone is None:
                    continue
                if txn.producer_epoch < 0 and not self._rules.unnumbered_ids_expire:
                    # An exception that nobody catches ends the pass: what it had begun stays begun
                    # (KAFKA-14880).
                    return
                tombstones.append(tombstone)
                owned.entries[tid] = begin(txn, tombstone, now_ms=now_ms)
            for batch in tombstone_batches(
                tombstones, batch_bytes_max=self._settings.message_max_bytes
            ):
                self._tasks.drive(self._bury(owned, batch), settled, name="expiry")

    async def _bury(self, owned: OwnedPartition, tombstones: list[Tombstone]) -> None:
        error = await self._append(
            owned.partition,
            encode_batch(tombstones, level=self._level(), now_ms=self._clock.now_ms()),
            owned.coordinator_epoch,
            self._settings.request_timeout_ms,
        )
        if not self._ownership.is_current(owned):
            return
        for tombstone in tombstones:
            tid = tombstone.transactional_id
            txn = owned.entries[tid]
            assert txn.pending_state is TransactionState.DEAD
            if error == ErrorCode.none:
                del owned.entries[tid]
                self.expired_total += 1
            else:
                owned.entries[tid] = withdraw(txn, tombstone)
