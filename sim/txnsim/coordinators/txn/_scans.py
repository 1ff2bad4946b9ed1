"""The two timers of a coordinator: transactions past their timeout, transactional ids past theirs.

Both run on the cluster clock, so that advancing it makes them happen. A timed-out transaction is
fenced and aborted by the cluster's own protocol version; its producer learns of it at its next
call. An expired id is forgotten by a tombstone.

Counterpart in Kafka: TransactionCoordinator.abortTimedOutTransactions,
TransactionStateManager.removeExpiredTransactionalIds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Final

import msgspec

from txnsim.coordinators._ownership import OwnedPartition, Ownership
from txnsim.coordinators.txn._writer import TransactionLogWriter, settled
from txnsim.errors import ErrorCode
from txnsim.loggers import Logger, Retries
from txnsim.node.crossings import TimerGate, at_once
from txnsim.releases.rules import Rules
from txnsim.runtime.env import Clock, Tasks, TimerHandle
from txnsim.runtime.turns import Pace
from txnsim.settings import Settings
from txnsim.txn.log_format import tombstone_batches
from txnsim.txn.machine import decide_expiry, is_timed_out
from txnsim.txn.state import Tombstone, TransactionState, TxnMetadata
from txnsim.txn.transitions import begin, withdraw
from txnsim.types import TRANSACTION_STATE_TOPIC, TransactionalId

_log: Final = Logger("txnsim.txn")

ABORT_WEIGHT: Final = 64
"""Weight of an abort: a decision, a record, a line of the log."""
AbortTimedOut = Callable[[OwnedPartition, TxnMetadata], None]
"""Fence and abort one transaction; nothing comes back, the next scan tries again."""


class Scans(msgspec.Struct, kw_only=True, eq=False):
    """Periodic work over all entries of a coordinator."""

    rules: Rules
    gate: TimerGate = at_once
    ownership: Ownership[OwnedPartition]
    clock: Clock
    settings: Settings
    tasks: Tasks
    writer: TransactionLogWriter
    abort: AbortTimedOut
    _timers: dict[str, TimerHandle] = {}
    _unexpired: Retries = msgspec.field(
        default_factory=lambda: Retries(_log, "txn.expiry.refused", "transactional_id")
    )
    expired_total: int = 0
    """Transactional ids forgotten."""

    def start(self) -> None:
        """Arm both timers; each runs for the first time one interval from now."""
        settings = self.settings
        self._arm(
            "transaction-timeouts",
            settings.transaction_abort_timed_out_cleanup_interval_ms,
            self._on_abort,
        )
        self._arm(
            "transactional-id-expiration",
            settings.transaction_remove_expired_cleanup_interval_ms,
            self._on_expiry,
        )

    def stop(self) -> None:
        """Disarm both timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _arm(self, kind: str, interval_ms: int, scan: Callable[[], object]) -> None:
        again = partial(self._arm, kind, interval_ms, scan)

        def due() -> None:
            again()
            scan()

        self._timers[kind] = self.clock.call_at(
            self.clock.now_ms() + interval_ms, lambda: self.gate(kind, due, again)
        )

    def _on_abort(self) -> None:
        self._scan(self._timeouts(), "timeouts")

    def _on_expiry(self) -> None:
        self._scan(self._expiries(), "expiries")

    def _scan(self, steps: Generator[int, None, None], name: str) -> None:
        """Look at all ids, of which there may be very many, with breaks."""
        pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
        self.tasks.drive(pace.run(steps), settled, name=name)

    def _entries(self, owned: OwnedPartition) -> Iterator[tuple[TransactionalId, TxnMetadata]]:
        """Entries as of the moment each is reached; ends when the partition is lost."""
        for tid in list(owned.entries):
            if not self.ownership.is_current(owned):
                return
            txn = owned.entries.get(tid)
            if txn is not None:
                yield tid, txn

    def _timeouts(self) -> Generator[int, None, None]:
        now_ms = self.clock.now_ms()
        for owned in list(self.ownership):
            for _, txn in self._entries(owned):
                if is_timed_out(txn, now_ms=now_ms, rules=self.rules):
                    self.abort(owned, txn)
                    yield ABORT_WEIGHT
                else:
                    yield 1

    def _expiries(self) -> Generator[int, None, None]:
        now_ms = self.clock.now_ms()
        expiration_ms = self.settings.transactional_id_expiration_ms
        trips_over_unnumbered = not self.rules.unnumbered_ids_expire
        for owned in list(self.ownership):
            tombstones: list[Tombstone] = []
            for tid, txn in self._entries(owned):
                tombstone = decide_expiry(txn, now_ms=now_ms, expiration_ms=expiration_ms)
                if tombstone is not None:
                    if trips_over_unnumbered and txn.producer_epoch < 0:
                        # An uncaught exception ends the pass: transitions that it has begun stay
                        # begun (KAFKA-14880).
                        return
                    tombstones.append(tombstone)
                    owned.entries[tid] = begin(txn, tombstone, now_ms=now_ms)
                yield 1
            if not self.ownership.is_current(owned):
                continue
            limit = self.writer.log.batch_bytes_max(owned.partition)
            for batch in tombstone_batches(tombstones, batch_bytes_max=limit, rules=self.rules):
                self.tasks.drive(self._bury(owned, batch), settled, name="expiry")

    async def _bury(self, owned: OwnedPartition, tombstones: list[Tombstone]) -> None:
        error = await self.writer.write(
            owned, tombstones, timeout_ms=self.settings.request_timeout_ms
        )
        if not self.ownership.is_current(owned):
            return
        self._tell(error, tombstones, owned.partition)
        for tombstone in tombstones:
            tid = tombstone.transactional_id
            txn = owned.entries[tid]
            assert txn.pending_state is TransactionState.DEAD
            if error == ErrorCode.none:
                del owned.entries[tid]
                self.expired_total += 1
            else:
                owned.entries[tid] = withdraw(txn, tombstone)

    def _tell(self, error: ErrorCode, tombstones: list[Tombstone], partition: int) -> None:
        """Say once that ids can't expire: they are tried again at each scan."""
        if error != ErrorCode.none:
            where = f"partition {partition} of {TRANSACTION_STATE_TOPIC}"
            self._unexpired.failed(
                tombstones[0].transactional_id,
                error.name.upper(),
                f"{where} does not take the {len(tombstones)} tombstones of a batch: these"
                " transactional ids stay until the next scan",
            )
        elif self._unexpired.tried:
            for tombstone in tombstones:
                self._unexpired.done(tombstone.transactional_id)
