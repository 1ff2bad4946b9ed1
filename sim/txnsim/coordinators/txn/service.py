"""The transaction coordinator of one broker: the shell around the decisions.

Every command takes the same path: find the partition, decide, append, apply, answer. Only the
append can wait, nothing is answered before it succeeds, and nothing is changed once the coordinator
has moved. The answer to EndTxn is released once the prepared end is in the log, before any marker
is sent.

The service gets a log, and functions such as ``send_markers``; it does not know the broker.

Counterpart in Kafka: TransactionCoordinator and TransactionStateManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Final, TypeVar

import msgspec

from txnsim.coordinators._coordinator_log import TransactionLog
from txnsim.coordinators._ownership import OwnedPartition as OwnedPartition
from txnsim.coordinators._ownership import Ownership
from txnsim.coordinators.txn import tracing
from txnsim.coordinators.txn._transition_effects import (
    MarkerSender,
    SendMarkers,
    TransactionLogWriter,
)
from txnsim.errors import ErrorCode, PeerError, Rejection
from txnsim.interbroker.transactions import AllocateProducerIdsReply
from txnsim.loggers import FailureLog, Logger
from txnsim.node.broker_fault_points import TimerGate, run_when_due
from txnsim.releases.rules import Rules
from txnsim.runtime.environment import Clock, Tasks, TimerHandle
from txnsim.runtime.loop_turns import Pace, rest_where_due
from txnsim.runtime.tasks import Pending, coroutine_of, ignore_end
from txnsim.runtime.trace import Tracer
from txnsim.settings import Settings
from txnsim.txn.commands import (
    AddPartitions,
    DescribedTxn,
    EndTxn,
    InitProducerId,
    MarkersOwed,
    NeedsProducerId,
    PartitionsAdded,
    PartitionsVerified,
    VerifyPartitions,
)
from txnsim.txn.kip_text import restore_last_epoch
from txnsim.txn.list_filter import FilteredListing, ListTransactions, list_transactions
from txnsim.txn.log_format import TombstoneBatch, tombstone_batches
from txnsim.txn.log_reader import read_in_steps
from txnsim.txn.machine import (
    decide_add_partitions,
    decide_expiry,
    decide_verify,
    describe,
    is_timed_out,
)
from txnsim.txn.machine_end import decide_end_txn, decide_fence
from txnsim.txn.machine_init import check_init_producer_id, decide_init_producer_id
from txnsim.txn.markers import LeaderOf, MarkerQueue, SendingAndTarget
from txnsim.txn.producer_ids import ProducerIdPool
from txnsim.txn.refusals import empty_id_rejection, no_id_block_rejection
from txnsim.txn.state import (
    PREPARED_STATES,
    Tombstone,
    TransactionState,
    TxnMetadata,
    TxnTransition,
)
from txnsim.txn.transitions import apply, begin, to_empty, withdraw
from txnsim.txn.two_phase import without_next_epoch
from txnsim.types import (
    NO_PRODUCER_EPOCH,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    CoordinatorEpoch,
    Decision,
    ProducerEpoch,
    ProducerId,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)

_log: Final = Logger("txnsim.txn")

ReplyT = TypeVar("ReplyT")

_BUSY_STATES = frozenset({TransactionState.ONGOING, *PREPARED_STATES})
_NOT_RUNNING = Rejection(
    error=ErrorCode.coordinator_not_available,
    reason="the coordinator is not running",
    rule="list.not-running",
)
_NO_ID_TO_INIT = no_id_block_rejection("init.no-producer-id")
_NO_ID_TO_END = no_id_block_rejection("end.v5.no-producer-id")
_EMPTY_TO_ADD = empty_id_rejection("add.empty-id")
_EMPTY_TO_CHECK = empty_id_rejection("check.empty-id")
_EMPTY_TO_END_V1 = empty_id_rejection("end.v4.empty-id")
_EMPTY_TO_END_V2 = empty_id_rejection("end.v5.empty-id")
_EMPTY_TO_DESCRIBE = empty_id_rejection("describe.empty-id")


DEVIATIONS: Final = (
    "Fencing a producer with an open transaction and preparing the abort are one step; in Apache "
    "Kafka another request can slip in between.",
)


class CoordinatorSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Gauges and counters of a coordinator."""

    partitions_owned: int
    partitions_loading: int
    pending_marker_count: int
    """Number of transactions that wait for markers."""
    unknown_destination_count: int
    """Kafka's UnknownDestinationQueueSize."""
    completions_waiting: int
    """Kafka's LogAppendRetryQueueSize."""
    markers_sent_total: int
    markers_refused_total: int
    timeouts_total: int
    expired_total: int
    load_problems_total: int


def may_answer(owned_partition: OwnedPartition, log: TransactionLog, release_rules: Rules) -> bool:
    """Whether a coordinator answers for a partition that it has loaded, and has not unloaded: since
    KAFKA-21181 only while its broker leads the partition under the epoch of the load.
    """
    return not release_rules.coordinator_checks_leadership or log.leads(
        owned_partition.partition, owned_partition.coordinator_epoch
    )


def must_ask_who_leads(release_rules: Rules) -> bool:
    """Whether requests ask ``may_answer`` at all: not where it would always say yes."""
    return release_rules.coordinator_checks_leadership


class TransactionCoordinator:
    """The transaction coordinator of one broker."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        clock: Clock,
        settings: Settings,
        tasks: Tasks,
        tracer: Tracer,
        log: TransactionLog,
        send_markers: SendMarkers,
        leader_of: LeaderOf,
        allocate_producer_ids: AllocateProducerIds,
        partition_count: int | None = None,
        timer_gate: TimerGate = run_when_due,
        release_rules: Rules,
    ) -> None:
        self._rules = release_rules
        self._lists_led_only = release_rules.lost_partitions_are_not_listed
        self._keeps_prepared = release_rules.prepared_transactions_are_kept
        self._log = log
        self._clock = clock
        self._settings = settings
        self._tasks = tasks
        self._tracer = tracer
        self.partitions: Final = partition_count or settings.transaction_state_log_num_partitions
        """Number of partitions of ``__transaction_state``, existing or to be created."""
        self._ids = ProducerIdSource(clock=clock, tasks=tasks, allocate=allocate_producer_ids)
        self._is_running = False
        self.timeouts_total = 0
        """Number of transactions fenced because of their timeout."""
        self._unaborted = FailureLog(_log, "txn.timeout.refused", "transactional_id")
        self.load_problems_total = 0
        """Number of logs that could be read only in part."""
        self._ownership: Ownership[OwnedPartition] = Ownership(
            topic=TRANSACTION_STATE_TOPIC,
            kind="txn",
            broker_id=broker_id,
            partition_count=self.partitions,
            calls_off_older=release_rules.unload_calls_off_load,
        )
        self._find = self._finder(release_rules)
        """Finds the partition that coordinates an id; a rejection if it is not this broker's."""
        self._writer = TransactionLogWriter(
            ownership=self._ownership,
            clock=clock,
            tracer=tracer,
            log=log,
            rules=release_rules,
            kip_text=settings.kip_text,
        )
        self._markers = MarkerSender(
            queue=MarkerQueue(release_rules=release_rules),
            ownership=self._ownership,
            writer=self._writer,
            clock=clock,
            tasks=tasks,
            tracer=tracer,
            send_markers=send_markers,
            leader_of=leader_of,
        )
        self._scans = Scans(
            ownership=self._ownership,
            clock=clock,
            settings=settings,
            tasks=tasks,
            writer=self._writer,
            abort=self._abort_timed_out,
            gate=timer_gate,
            rules=release_rules,
        )

    @property
    def level(self) -> TransactionVersion:
        """The finalized level of ``transaction.version``, which is set when an image is applied."""
        return self._writer.level

    @level.setter
    def level(self, level: TransactionVersion) -> None:
        self._writer.level = level

    def start(self) -> None:
        """Arm the timers; transactions can be listed and described from now on."""
        self._is_running = True
        self._scans.start()

    def stop(self) -> None:
        """Disarm the timers and stop sending markers, for good."""
        self._is_running = False
        self._scans.stop()
        self._markers.stop()

    async def ready(self) -> None:
        """Wait until producer ids are available, so that no client has to."""
        await self._ids.ready()

    # Commands

    async def init_producer_id(self, command: InitProducerId) -> ProducerIdAndEpoch | Rejection:
        """Give a producer an identity; its record is committed when this returns."""
        if not self._rules.never_waits_for_ids:
            await self._ids.ready()
        transactional_id = command.transactional_id
        if transactional_id is None:
            new_producer_id = self._ids.take()
            if new_producer_id is None:
                return _NO_ID_TO_INIT
            return ProducerIdAndEpoch(producer_id=new_producer_id, producer_epoch=ProducerEpoch(0))
        refusal = check_init_producer_id(
            command, self._settings, keeps_prepared=self._keeps_prepared
        )
        if refusal is not None:
            return refusal
        owned_partition = self._find(transactional_id)
        if isinstance(owned_partition, Rejection):
            return owned_partition
        txn = owned_partition.entries.get(transactional_id)
        now_ms = self._clock.now_ms()
        decision_or_rejection = self._decide_with_new_id(
            lambda new_producer_id: decide_init_producer_id(
                txn,
                command,
                finalized_version=self._writer.level,
                now_ms=now_ms,
                fresh_producer_id=new_producer_id,
                release_rules=self._rules,
            ),
            _NO_ID_TO_INIT,
        )
        if self._tracer.on:
            tracing.trace_decision(
                self._tracer,
                owned_partition,
                transactional_id,
                "InitProducerId",
                decision_or_rejection,
            )
        if isinstance(decision_or_rejection, Rejection):
            return decision_or_rejection
        return await self._writer.append(
            owned_partition,
            decision_or_rejection,
            now_ms=now_ms,
            after_transition=self._markers.owe,
        )

    async def add_partitions(self, command: AddPartitions) -> PartitionsAdded | Rejection:
        """Add partitions to a transaction; one result for all of them."""
        transactional_id = command.transactional_id
        if not transactional_id:
            return _EMPTY_TO_ADD
        owned_partition = self._find(transactional_id)
        if isinstance(owned_partition, Rejection):
            return owned_partition
        txn = owned_partition.entries.get(transactional_id)
        now_ms = self._clock.now_ms()
        decision_or_rejection = decide_add_partitions(
            txn, command, now_ms=now_ms, release_rules=self._rules
        )
        if self._tracer.on:
            tracing.trace_decision(
                self._tracer,
                owned_partition,
                transactional_id,
                "AddPartitionsToTxn",
                decision_or_rejection,
            )
        if isinstance(decision_or_rejection, Rejection):
            return decision_or_rejection
        if not decision_or_rejection.records:
            return decision_or_rejection.reply
        return await self._writer.append(
            owned_partition,
            decision_or_rejection,
            now_ms=now_ms,
            after_transition=self._markers.owe,
        )

    def verify(self, command: VerifyPartitions) -> PartitionsVerified | Rejection:
        """Check whether partitions are in a transaction, by committed fields only."""
        transactional_id = command.transactional_id
        if not transactional_id:
            return _EMPTY_TO_CHECK
        owned_partition = self._find(transactional_id)
        if isinstance(owned_partition, Rejection):
            return owned_partition
        return decide_verify(
            owned_partition.entries.get(transactional_id), command, release_rules=self._rules
        )

    async def end_txn(self, command: EndTxn) -> ProducerIdAndEpoch | Rejection:
        """Commit or abort.

        Returns:
            The identity for the next transaction, once the prepared end is committed: version 2 of
                the protocol sends it to the producer, in older versions producers keep theirs.
        """
        transactional_id = command.transactional_id
        if not transactional_id:
            is_v2 = command.transaction_version >= TransactionVersion.TV_2
            return _EMPTY_TO_END_V2 if is_v2 else _EMPTY_TO_END_V1
        owned_partition = self._find(transactional_id)
        if isinstance(owned_partition, Rejection):
            return owned_partition
        txn = owned_partition.entries.get(transactional_id)
        now_ms = self._clock.now_ms()
        decide = partial(decide_end_txn, txn, command, now_ms=now_ms, release_rules=self._rules)
        decision = decide()
        decision_or_rejection = (
            self._decide_with_new_id(
                lambda fresh_id: decide(fresh_producer_id=fresh_id), _NO_ID_TO_END
            )
            if isinstance(decision, NeedsProducerId)
            else decision
        )
        if self._tracer.on:
            tracing.trace_decision(
                self._tracer,
                owned_partition,
                transactional_id,
                "EndTxn",
                decision_or_rejection,
                asked_end="commit" if command.committed else "abort",
            )
        if isinstance(decision_or_rejection, Rejection):
            return decision_or_rejection
        if not decision_or_rejection.records:
            return decision_or_rejection.reply
        return await self._writer.append(
            owned_partition,
            decision_or_rejection,
            now_ms=now_ms,
            after_transition=self._markers.owe,
        )

    async def age(
        self, transactional_id: TransactionalId, epoch: ProducerEpoch
    ) -> Rejection | None:
        """Set the epoch of an idle id, as if it had done that many transactions: for stories about
        exhausted epochs. Kafka has no counterpart.

        Returns:
            None once its record is committed; else the reason: not coordinated here, unknown, busy,
                or the epoch is older than its own.
        """
        owned_partition = self._ownership.find(transactional_id)
        if isinstance(owned_partition, Rejection):
            return owned_partition
        txn = owned_partition.entries.get(transactional_id)
        if txn is None or txn.pending_state is not None or txn.state in _BUSY_STATES:
            state_text = "unknown" if txn is None else f"in {txn.state.wire_name}"
            reason = f"{transactional_id} is {state_text}: only an idle id can be aged"
            return Rejection(error=ErrorCode.invalid_txn_state, reason=reason)
        if epoch <= txn.producer_epoch:
            reason = f"{transactional_id} is at epoch {txn.producer_epoch} already"
            return Rejection(error=ErrorCode.invalid_producer_epoch, reason=reason)
        record = to_empty(
            txn,
            producer_id=txn.producer_id,
            producer_epoch=epoch,
            last_producer_epoch=NO_PRODUCER_EPOCH,
            timeout_ms=txn.txn_timeout_ms,
            now_ms=self._clock.now_ms(),
        )
        # No move of a coordinator leaves out epochs: the record is taken up as a load would do it.
        error = await self._writer.write(
            owned_partition, (record,), timeout_ms=record.txn_timeout_ms
        )
        if error != ErrorCode.none:
            return Rejection(error=error, reason=f"the log refused {transactional_id}")
        if not self._ownership.is_current(owned_partition):
            return self._ownership.refuse(owned_partition.partition)
        aged_txn = apply(None, record, release_rules=self._rules)
        assert aged_txn is not None
        owned_partition.entries[transactional_id] = aged_txn
        return None

    def _finder(self, release_rules: Rules) -> Callable[[str], OwnedPartition | Rejection]:
        if must_ask_who_leads(release_rules):
            return self._find_where_it_leads
        return self._ownership.find

    def _find_where_it_leads(self, transactional_id: str) -> OwnedPartition | Rejection:
        """As ``Ownership.find``, and ``may_answer`` is asked (KAFKA-21181)."""
        owned_partition = self._ownership.find(transactional_id)
        if isinstance(owned_partition, Rejection):
            return owned_partition
        if not may_answer(owned_partition, self._log, self._rules):
            return self._ownership.refuse(owned_partition.partition)
        return owned_partition

    # Queries

    def describe(self, transactional_id: TransactionalId) -> DescribedTxn | Rejection:
        """The committed fields of a transactional id."""
        if not self._is_running:
            return _NOT_RUNNING
        if not transactional_id:
            return _EMPTY_TO_DESCRIBE
        owned_partition = self._find(transactional_id)
        if isinstance(owned_partition, Rejection):
            return owned_partition
        return describe(owned_partition.entries.get(transactional_id), transactional_id)

    def list_transactions(self, query: ListTransactions) -> FilteredListing | Rejection:
        """All transactional ids that this broker coordinates and that match the filters."""
        if not self._is_running:
            return _NOT_RUNNING
        if self._ownership.loading:
            return Rejection(
                error=ErrorCode.coordinator_load_in_progress,
                reason="a partition of __transaction_state is being loaded",
                rule="list.loading",
            )
        listed_entries = self._led_entries() if self._lists_led_only else self.entries()
        return list_transactions(listed_entries, query, now_ms=self._clock.now_ms())

    def owned_partitions(self) -> Iterator[OwnedPartition]:
        """The partitions of the transaction log that are coordinated here."""
        return iter(self._ownership)

    def entry(self, transactional_id: TransactionalId) -> TxnMetadata | None:
        """The entry with its pending transition; None if not coordinated here."""
        owned_partition = self._ownership.find(transactional_id)
        return (
            None
            if isinstance(owned_partition, Rejection)
            else owned_partition.entries.get(transactional_id)
        )

    def entries(self) -> tuple[TxnMetadata, ...]:
        """All entries with their pending transitions, for invariants and the control API."""
        return tuple(
            chain.from_iterable(
                owned_partition.entries.values() for owned_partition in self._ownership
            )
        )

    def _led_entries(self) -> tuple[TxnMetadata, ...]:
        """The entries of the partitions that the broker leads under the epochs of their loads."""
        return tuple(
            chain.from_iterable(
                owned_partition.entries.values()
                for owned_partition in self._ownership
                if self._log.leads(owned_partition.partition, owned_partition.coordinator_epoch)
            )
        )

    def sendings(self) -> dict[TransactionalId, dict[TopicPartition, SendingAndTarget]]:
        """How the markers that each transaction owes are sent, and to which broker; without those
        that are not sent again.
        """
        return self._markers.sendings()

    def withdrawn_transitions(self) -> dict[TransactionalId, TxnTransition]:
        """Transitions whose records are in the log although they did not take effect."""
        return {
            transactional_id: transition
            for owned_partition in self._ownership
            for transactional_id, transition in owned_partition.withdrawn_transitions.items()
        }

    def snapshot(self) -> CoordinatorSnapshot:
        """Gauges and counters."""
        queue = self._markers.queue
        return CoordinatorSnapshot(
            partitions_owned=len(self._ownership.owned),
            partitions_loading=len(self._ownership.loading),
            pending_marker_count=queue.debt_count,
            unknown_destination_count=queue.leader_unknown_count,
            completions_waiting=self._markers.completions_waiting,
            markers_sent_total=self._markers.sent_total,
            markers_refused_total=self._markers.refused_total,
            timeouts_total=self.timeouts_total,
            expired_total=self._scans.expired_total,
            load_problems_total=self.load_problems_total,
        )

    # Loading

    def begin_load(self, partition_index: int, coordinator_epoch: CoordinatorEpoch) -> None:
        """Start loading a partition that this broker leads now; until it is loaded, its ids answer
        COORDINATOR_LOAD_IN_PROGRESS (14).
        """
        self._markers.drop(partition_index)
        owned_partition = self._ownership.begin_load(partition_index, coordinator_epoch)
        if owned_partition is not None and self._tracer.on:
            tracing.trace_unload(
                self._tracer, owned_partition.node, partition_index, coordinator_epoch
            )

    def read(
        self, partition_index: int, coordinator_epoch: CoordinatorEpoch, batches: Iterable[bytes]
    ) -> Generator[int, None, bool]:
        """Read the log, own its entries, and send the markers of prepared transactions again. Each
        step yields how many records it has read.

        Returns:
            False if the load was cancelled meanwhile; nothing has changed.
        """
        loaded_log = yield from read_in_steps(batches, release_rules=self._rules)
        txn_by_id = loaded_log.entries
        if self._settings.kip_text:
            txn_by_id = {
                transactional_id: restore_last_epoch(txn)
                for transactional_id, txn in txn_by_id.items()
            }
        elif not self._keeps_prepared and any(
            txn.next_producer_epoch != NO_PRODUCER_EPOCH for txn in txn_by_id.values()
        ):
            txn_by_id = {
                transactional_id: without_next_epoch(txn)
                for transactional_id, txn in txn_by_id.items()
            }
        owned_partition = OwnedPartition(
            partition=partition_index,
            coordinator_epoch=coordinator_epoch,
            node=self._ownership.node_of(partition_index),
            entries=txn_by_id,
        )
        if not self._ownership.finish_load(owned_partition):
            return False
        if loaded_log.read_error is not None:
            self.load_problems_total += 1
            _log.error(
                "txn.load.incomplete", partition=partition_index, problem=loaded_log.read_error
            )
        if self._tracer.on:
            tracing.trace_load(self._tracer, owned_partition)
            if loaded_log.read_error is not None:
                self._tracer.emit(
                    "note", owned_partition.node, data={"text": loaded_log.read_error}
                )
        now_ms = self._clock.now_ms()
        for txn in list(owned_partition.entries.values()):
            if txn.state in PREPARED_STATES:
                self._markers.owe(owned_partition, txn.transactional_id, now_ms, is_load=True)
        return True

    def unload(self, partition_index: int, epoch: int | None = None) -> None:
        """Stop being the coordinator of a partition.

        Args:
            partition_index: Partition of ``__transaction_state``.
            epoch: Leader epoch under which this broker is a follower now; None if the replica was
                deleted.
        """
        self._markers.drop(partition_index)
        owned_partition = self._ownership.unload(partition_index, epoch)
        if owned_partition is not None and self._tracer.on:
            tracing.trace_unload(self._tracer, owned_partition.node, partition_index, epoch)

    def leaders_changed(self) -> None:
        """Route markers without a known leader at once instead of after the pause."""
        if self._markers.queue.leader_unknown_count:
            self._markers.flush_soon()

    # Timeouts

    def _abort_timed_out(self, owned_partition: OwnedPartition, txn: TxnMetadata) -> None:
        now_ms = self._clock.now_ms()
        decision_or_rejection = self._decide_with_new_id(
            lambda fresh_id: decide_fence(
                txn,
                finalized_version=self._writer.level,
                now_ms=now_ms,
                fresh_producer_id=fresh_id,
                is_timeout=True,
                release_rules=self._rules,
            ),
            _NO_ID_TO_END,
        )
        if self._tracer.on:
            tracing.trace_timeout(self._tracer, owned_partition.node, txn)
            tracing.trace_decision(
                self._tracer,
                owned_partition,
                txn.transactional_id,
                "timeout",
                decision_or_rejection,
            )
        if isinstance(
            decision_or_rejection, Rejection
        ):  # no producer id at hand: the next scan tries again
            self._on_aborted(owned_partition, txn, decision_or_rejection, None)
        else:
            self.timeouts_total += 1
            _log.info(
                "txn.timed_out", node=owned_partition.node, transactional_id=txn.transactional_id
            )
            abort_coroutine = self._writer.append(
                owned_partition,
                decision_or_rejection,
                now_ms=now_ms,
                after_transition=self._markers.owe,
            )
            self._tasks.drive(
                abort_coroutine, partial(self._on_aborted, owned_partition, txn), name="timeout"
            )

    def _on_aborted(
        self,
        owned_partition: OwnedPartition,
        txn: TxnMetadata,
        outcome: object,
        error: BaseException | None,
    ) -> None:
        """Called when an abort was prepared, or could not be logged; then the next scan tries
        again.
        """
        ignore_end(outcome, error)
        transactional_id = txn.transactional_id
        if not isinstance(outcome, Rejection):
            self._unaborted.forget_failures(transactional_id)
        elif self._ownership.is_current(owned_partition):
            self._unaborted.note_failure(
                transactional_id, outcome.error.name.upper(), outcome.reason
            )

    # Producer ids

    def _decide_with_new_id(
        self,
        decide: Callable[
            [ProducerId | None],
            Decision[TxnTransition, ReplyT, MarkersOwed] | Rejection | NeedsProducerId,
        ],
        rejection_without_id: Rejection,
    ) -> Decision[TxnTransition, ReplyT, MarkersOwed] | Rejection:
        """Decide; if it needs a new producer id, with one."""
        decision_or_rejection = decide(None)
        if isinstance(decision_or_rejection, NeedsProducerId):
            new_producer_id = self._ids.take()
            if new_producer_id is None:
                return rejection_without_id
            decision_or_rejection = decide(new_producer_id)
            assert not isinstance(decision_or_rejection, NeedsProducerId)
        return decision_or_rejection


# Producer ids (RPCProducerIdManager)

AllocateProducerIds = Callable[[], Awaitable[AllocateProducerIdsReply]]
"""Asks the controller for a block of producer ids; raises PeerError if no answer came."""


class ProducerIdSource(msgspec.Struct, kw_only=True, eq=False):
    """Unused producer ids; the next block is fetched in the background."""

    clock: Clock
    tasks: Tasks
    allocate: AllocateProducerIds
    _id_pool: ProducerIdPool = msgspec.field(default_factory=ProducerIdPool)
    _waiting_requests: list[Pending[None]] = []

    def take(self) -> ProducerId | None:
        """An unused producer id; None without a block, in which case a block is requested."""
        producer_id = self._id_pool.take()
        self._request_block()
        return producer_id

    async def ready(self) -> None:
        """Wait for a block from the controller if no id is available, as brokers did before
        KAFKA-14694.
        """
        if self._id_pool.has_id:
            return
        self._id_pool.want_block()
        self._request_block()
        if self._id_pool.is_asking:
            pending_block: Pending[None] = Pending(self.tasks)
            self._waiting_requests.append(pending_block)
            await pending_block

    def _request_block(self) -> None:
        if self._id_pool.start_request(now_ms=self.clock.monotonic_ms()):
            self.tasks.drive(coroutine_of(self.allocate()), self._on_block, name="producer ids")

    def _on_block(
        self, reply: AllocateProducerIdsReply | None, error: BaseException | None
    ) -> None:
        self._id_pool.on_reply(reply, now_ms=self.clock.monotonic_ms())
        waiting_requests, self._waiting_requests = self._waiting_requests, []
        for pending_block in waiting_requests:
            pending_block.resolve(None)
        if error is not None and not isinstance(error, PeerError | asyncio.CancelledError):
            raise error


# Timers: TransactionCoordinator.abortTimedOutTransactions, TransactionStateManager.
# removeExpiredTransactionalIds
#
# Both run on the cluster clock, so that advancing it makes them happen. A timed-out transaction is
# fenced and aborted by the cluster's own protocol version; its producer learns of it at its next
# call. An expired id is forgotten by a tombstone.

ELEMENTS_PER_ABORT: Final = 64
"""Weight of an abort: a decision, a record, a line of the log."""
AbortTimedOut = Callable[[OwnedPartition, TxnMetadata], None]
"""Fences and aborts one transaction; returns nothing, because the next scan retries."""


class Scans(msgspec.Struct, kw_only=True, eq=False):
    """Periodic work over all entries of a coordinator."""

    rules: Rules
    gate: TimerGate = run_when_due
    ownership: Ownership[OwnedPartition]
    clock: Clock
    settings: Settings
    tasks: Tasks
    writer: TransactionLogWriter
    abort: AbortTimedOut
    _timers: dict[str, TimerHandle] = {}
    _unexpired: FailureLog = msgspec.field(
        default_factory=lambda: FailureLog(_log, "txn.expiry.refused", "transactional_id")
    )
    expired_total: int = 0
    """Number of transactional ids removed."""

    def start(self) -> None:
        """Arm both timers; each first runs after one interval."""
        settings = self.settings
        self._arm_scan(
            "transaction-timeouts",
            settings.transaction_abort_timed_out_cleanup_interval_ms,
            lambda: self._scan(self._timeouts(), "timeouts"),
        )
        self._arm_scan(
            "transactional-id-expiration",
            settings.transaction_remove_expired_cleanup_interval_ms,
            lambda: self._scan(self._expiries(), "expiries"),
        )

    def stop(self) -> None:
        """Disarm both timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _arm_scan(self, scan_name: str, interval_ms: int, run_scan: Callable[[], object]) -> None:
        arm_again = partial(self._arm_scan, scan_name, interval_ms, run_scan)

        def due() -> None:
            arm_again()
            run_scan()

        self._timers[scan_name] = self.clock.call_at(
            self.clock.now_ms() + interval_ms, lambda: self.gate(scan_name, due, arm_again)
        )

    def _scan(self, steps: Generator[int, None, None], scan_name: str) -> None:
        """Check all ids, in slices because there may be very many."""
        pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
        self.tasks.drive(pace.run(steps), ignore_end, name=scan_name)

    def _entries(
        self, owned_partition: OwnedPartition
    ) -> Iterator[tuple[TransactionalId, TxnMetadata]]:
        """The entries, each in its state when reached; ends if the partition is lost."""
        for transactional_id in list(owned_partition.entries):
            if not self.ownership.is_current(owned_partition):
                return
            txn = owned_partition.entries.get(transactional_id)
            if txn is not None:
                yield transactional_id, txn

    def _timeouts(self) -> Generator[int, None, None]:
        now_ms = self.clock.now_ms()
        for owned_partition in list(self.ownership):
            for _, txn in self._entries(owned_partition):
                if is_timed_out(txn, now_ms=now_ms, release_rules=self.rules):
                    self.abort(owned_partition, txn)
                    yield ELEMENTS_PER_ABORT
                else:
                    yield 1

    def _expiries(self) -> Generator[int, None, None]:
        now_ms = self.clock.now_ms()
        expiration_ms = self.settings.transactional_id_expiration_ms
        trips_over_unnumbered = not self.rules.unnumbered_ids_expire
        for owned_partition in list(self.ownership):
            tombstones: list[Tombstone] = []
            for transactional_id, txn in self._entries(owned_partition):
                tombstone = decide_expiry(txn, now_ms=now_ms, expiration_ms=expiration_ms)
                if tombstone is not None:
                    if trips_over_unnumbered and txn.producer_epoch < 0:
                        # An uncaught exception ends the pass: transitions that it has begun stay
                        # begun (KAFKA-14880).
                        return
                    tombstones.append(tombstone)
                    owned_partition.entries[transactional_id] = begin(txn, tombstone, now_ms=now_ms)
                yield 1
            if not self.ownership.is_current(owned_partition):
                continue
            bytes_max = self.writer.log.batch_bytes_max(owned_partition.partition)
            batches = yield from tombstone_batches(
                tombstones, batch_bytes_max=bytes_max, release_rules=self.rules
            )
            for batch in batches:
                if not self.ownership.is_current(owned_partition):
                    break
                self.tasks.drive(
                    self._write_tombstones(owned_partition, batch), ignore_end, name="expiry"
                )
                yield len(batch[0])

    async def _write_tombstones(
        self, owned_partition: OwnedPartition, batch: TombstoneBatch
    ) -> None:
        error = await self.writer.write_tombstones(
            owned_partition, batch, timeout_ms=self.settings.request_timeout_ms
        )
        if not self.ownership.is_current(owned_partition):
            return
        tombstones, _ = batch
        self._note_result(error, tombstones, owned_partition.partition)
        pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
        for tombstone in tombstones:
            await rest_where_due(pace, 1)
            if not self.ownership.is_current(owned_partition):
                return
            transactional_id = tombstone.transactional_id
            txn = owned_partition.entries[transactional_id]
            assert txn.pending_state is TransactionState.DEAD
            if error == ErrorCode.none:
                del owned_partition.entries[transactional_id]
                self.expired_total += 1
            else:
                owned_partition.entries[transactional_id] = withdraw(txn, tombstone)

    def _note_result(
        self, error: ErrorCode, tombstones: list[Tombstone], partition_index: int
    ) -> None:
        """Log once that ids can't expire; each scan tries again."""
        if error != ErrorCode.none:
            partition_text = f"partition {partition_index} of {TRANSACTION_STATE_TOPIC}"
            self._unexpired.note_failure(
                tombstones[0].transactional_id,
                error.name.upper(),
                f"{partition_text} does not take the {len(tombstones)} tombstones of a batch: these"
                " transactional ids stay until the next scan",
            )
        elif self._unexpired.tried:
            for tombstone in tombstones:
                self._unexpired.forget_failures(tombstone.transactional_id)
