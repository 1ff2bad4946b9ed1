"""A coordinator on a bench of lists: its log, its leaders and its controller are plain Python."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from itertools import count
from typing import Any, Final

from tests.support.at_once import load_whole
from txnsim.coordinators.txn.service import TransactionCoordinator
from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.transactions import (
    AllocateProducerIdsReply,
    WriteTxnMarkersCommand,
    WriteTxnMarkersReply,
)
from txnsim.releases.rules import LATEST_RULES, Rules
from txnsim.runtime.tasks import LoopTasks, Pending
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.settings import Settings
from txnsim.txn.commands import AddPartitions, EndTxn, InitProducerId, PartitionsAdded
from txnsim.txn.log_format import encode_batch
from txnsim.txn.markers import LeaderLookup
from txnsim.txn.state import TxnMetadata
from txnsim.txn.transitions import apply, begin, to_first, to_ongoing, to_prepared_v2
from txnsim.types import (
    BrokerId,
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
    partition_for,
)

START_MS: Final = 1_700_000_000_000
TID: Final = TransactionalId("txn-1")
FOO_0: Final = TopicPartition("foo", 0)
FOO_1: Final = TopicPartition("foo", 1)
PARTITIONS: Final = 50
HOME: Final = partition_for(TID, PARTITIONS)
BROKER: Final = BrokerId(1)


class ManualTimer:
    """A timer of ``ManualClock``."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """A wall clock and a monotonic clock that move only by calls."""

    def __init__(self) -> None:
        self._now_ms = START_MS
        self._monotonic_ms = 5_000
        self._order = count()
        self._at: list[tuple[int, int, ManualTimer]] = []
        self._later: list[tuple[float, int, ManualTimer]] = []

    def now_ms(self) -> int:
        return self._now_ms

    @property
    def advanced_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def elapsed_ms(self) -> int:
        return self._monotonic_ms

    def monotonic_us(self) -> int:
        return self._monotonic_ms * 1_000

    def wall_ns(self) -> int:
        return self._now_ms * 1_000_000

    def ms_of(self, stopwatch_ns: int) -> int:
        return stopwatch_ns // 1_000_000

    def stopwatch_ns(self) -> int:
        return self._monotonic_ms * 1_000_000

    def call_at(self, deadline_ms: int, callback: Callable[[], object]) -> ManualTimer:
        timer = ManualTimer(callback)
        heapq.heappush(self._at, (deadline_ms, next(self._order), timer))
        return timer

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> ManualTimer:
        timer = ManualTimer(callback)
        heapq.heappush(self._later, (self._monotonic_ms + delay_ms, next(self._order), timer))
        return timer

    async def advance_with_breaks(self, ms: int) -> None:
        self.advance(ms)

    def advance(self, ms: int) -> None:
        """Move the cluster clock; timers see the time they were set for."""
        until_ms = self._now_ms + ms
        while self._at and self._at[0][0] <= until_ms:
            deadline_ms, _, timer = heapq.heappop(self._at)
            self._now_ms = max(self._now_ms, deadline_ms)
            if timer.callback is not None:
                timer.callback()
        self._now_ms = until_ms

    def shift(self, ms: int) -> None:
        """Set the cluster clock; timers keep the time that they have left."""
        self._now_ms += ms
        self._at = [(deadline_ms + ms, order, timer) for deadline_ms, order, timer in self._at]

    def pass_ms(self, ms: int) -> None:
        """Move the monotonic clock."""
        self._monotonic_ms += ms
        while self._later and self._later[0][0] <= self._monotonic_ms:
            timer = heapq.heappop(self._later)[2]
            if timer.callback is not None:
                timer.callback()

    @property
    def armed_timers(self) -> int:
        """How many timers would still fire."""
        return sum(entry[2].callback is not None for entry in (*self._at, *self._later))


class SentMarkers:
    """A WriteTxnMarkers request that has left the coordinator."""

    def __init__(
        self, broker_id: BrokerId, command: WriteTxnMarkersCommand, tasks: LoopTasks
    ) -> None:
        self.broker_id = broker_id
        self.command = command
        self.answer: Pending[WriteTxnMarkersReply] = Pending(tasks)

    def reply(self, *errors: ErrorCode) -> None:
        """Answer with these errors, one per partition in order. Partitions without one
        are written.
        """
        self.answer.resolve(marker_reply(self.command, *errors))


def marker_reply(command: WriteTxnMarkersCommand, *errors: ErrorCode) -> WriteTxnMarkersReply:
    """An answer to ``command``, partition by partition."""
    remaining_errors = iter(errors)
    return WriteTxnMarkersReply(
        results=tuple(
            (
                marker.producer_id,
                tuple(
                    (topic_partition, next(remaining_errors, ErrorCode.none))
                    for topic_partition in marker.partitions
                ),
            )
            for marker in command.markers
        )
    )


class _Log:
    """``TransactionLog`` of a bench: batches in lists."""

    def __init__(self, coordinator_bench: CoordinatorBench) -> None:
        self._coordinator_bench = coordinator_bench

    def leads(self, partition: int, coordinator_epoch: CoordinatorEpoch) -> bool:
        return (partition, coordinator_epoch) not in self._coordinator_bench.lost

    def batch_bytes_max(self, partition: int) -> int:
        return self._coordinator_bench.batch_bytes_max

    def write(
        self, partition: int, batch: bytes, *, subject_of: Any, timeout_ms: int, now_ms: int
    ) -> ErrorCode | Awaitable[ErrorCode]:
        coordinator_bench = self._coordinator_bench
        error = (
            coordinator_bench.append_errors.popleft()
            if coordinator_bench.append_errors
            else ErrorCode.none
        )
        if error:
            return error
        if len(batch) > coordinator_bench.batch_bytes_max:
            return ErrorCode.message_too_large
        coordinator_bench.log.setdefault(partition, []).append(batch)
        coordinator_bench.append_timeouts_ms.append(timeout_ms)
        if coordinator_bench.held_appends is None:
            return ErrorCode.none
        held_append_future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        coordinator_bench.held_appends.append(held_append_future)
        return held_append_future


class CoordinatorBench:
    """A running coordinator that owns every partition, unless told otherwise."""

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        transaction_version: TransactionVersion = TransactionVersion.TV_2,
        is_loaded: bool = True,
        is_traced: bool = False,
        rules: Rules = LATEST_RULES,
        partitions: int | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.tasks = LoopTasks(asyncio.get_running_loop())
        self.tracer = Tracer(self.clock.monotonic_us, is_strict=True)
        if is_traced:
            self.tracer.level = TraceLevel.FULL
        self.log: dict[int, list[bytes]] = {}
        self.append_timeouts_ms: list[int] = []
        self.batch_bytes_max = 1_048_588
        """``max.message.bytes`` of the topic."""
        self.lost: set[tuple[int, int]] = set()
        """(partition, coordinator epoch) whose leadership the broker has lost, loaded or not."""
        self.append_errors: deque[ErrorCode] = deque()
        self.lost_appends = False
        """Whether a failed append leaves no record. Otherwise the record is in the log all the
        same.
        """
        self.held_appends: list[asyncio.Future[ErrorCode]] | None = None
        self.leaders: dict[TopicPartition, LeaderLookup] = {}
        self.sent: list[SentMarkers] = []
        self.answers_markers = True
        self.markers_as_coroutine = False
        self.id_replies: deque[AllocateProducerIdsReply | Exception] = deque()
        self.id_requests = 0
        self._next_block = 0
        self.service = TransactionCoordinator(
            broker_id=BROKER,
            clock=self.clock,
            settings=settings or Settings(),
            tasks=self.tasks,
            tracer=self.tracer,
            log=_Log(self),
            send_markers=self._send_markers,
            leader_of=self._leader_of,
            allocate_producer_ids=self._allocate,
            partition_count=partitions,
            release_rules=rules,
        )
        self.level = transaction_version
        self.service.start()
        if is_loaded:
            for partition in range(PARTITIONS):
                load_whole(self.service, partition, CoordinatorEpoch(0), ())

    @property
    def level(self) -> TransactionVersion:
        """The finalized level of ``transaction.version``."""
        return self.service.level

    @level.setter
    def level(self, transaction_version: TransactionVersion) -> None:
        self.service.level = transaction_version

    # What the coordinator is given

    def _send_markers(
        self, broker_id: BrokerId, command: WriteTxnMarkersCommand
    ) -> Pending[WriteTxnMarkersReply]:
        sent_markers = SentMarkers(broker_id, command, self.tasks)
        self.sent.append(sent_markers)
        if self.answers_markers:
            sent_markers.reply()
        if self.markers_as_coroutine:
            return _await_answer(sent_markers.answer)  # type: ignore[return-value]
        return sent_markers.answer

    def _leader_of(self, partition: TopicPartition) -> LeaderLookup:
        return self.leaders.get(partition, BROKER)

    async def _allocate(self) -> AllocateProducerIdsReply:
        self.id_requests += 1
        if self.id_replies:
            reply = self.id_replies.popleft()
            if isinstance(reply, Exception):
                raise reply
            return reply
        first_id = self._next_block
        self._next_block += 1_000
        return AllocateProducerIdsReply(first_producer_id=first_id, producer_id_count=1_000)

    # What tests ask

    def entry(self, transactional_id: TransactionalId = TID) -> TxnMetadata:
        """The entry of a transactional id, with its pending state."""
        return next(
            txn_metadata
            for txn_metadata in self.service.entries()
            if txn_metadata.transactional_id == transactional_id
        )

    def entry_or_none(self, transactional_id: TransactionalId = TID) -> TxnMetadata | None:
        txn_metadata_entries = (
            txn_metadata
            for txn_metadata in self.service.entries()
            if txn_metadata.transactional_id == transactional_id
        )
        return next(txn_metadata_entries, None)

    async def settle(self) -> None:
        """Let everything run that needs no time."""
        for _ in range(12):
            await asyncio.sleep(0)

    def start(self, command: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Send a command without waiting for its answer."""
        return self.tasks.spawn(command, name="command")

    async def init(
        self, *, timeout_ms: int = 60_000, expected_identity: ProducerIdAndEpoch | None = None
    ) -> ProducerIdAndEpoch | Rejection:
        return await self.service.init_producer_id(
            InitProducerId(
                transactional_id=TID, timeout_ms=timeout_ms, expected_identity=expected_identity
            )
        )

    async def ready(self) -> ProducerIdAndEpoch:
        """An identity for ``TID``; asks twice, because the first block of ids is missing."""
        first_reply = await self.init()
        assert isinstance(first_reply, Rejection)
        assert first_reply.error is ErrorCode.coordinator_load_in_progress
        identity = await self.init()
        assert isinstance(identity, ProducerIdAndEpoch)
        return identity

    async def add(
        self,
        producer_identity: ProducerIdAndEpoch,
        *partitions: TopicPartition,
        version: TransactionVersion = TransactionVersion.TV_2,
    ) -> PartitionsAdded | Rejection:
        return await self.service.add_partitions(
            AddPartitions(
                transactional_id=TID,
                producer_id=producer_identity.producer_id,
                producer_epoch=producer_identity.producer_epoch,
                partitions=frozenset(partitions),
                transaction_version=version,
            )
        )

    async def end(
        self,
        producer_identity: ProducerIdAndEpoch,
        *,
        committed: bool = True,
        version: TransactionVersion = TransactionVersion.TV_2,
    ) -> ProducerIdAndEpoch | Rejection:
        return await self.service.end_txn(
            EndTxn(
                transactional_id=TID,
                producer_id=producer_identity.producer_id,
                producer_epoch=producer_identity.producer_epoch,
                committed=committed,
                transaction_version=version,
            )
        )


async def _await_answer(answer_future: Pending[WriteTxnMarkersReply]) -> WriteTxnMarkersReply:
    return await answer_future


def identity(producer_id: int, producer_epoch: int) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(
        producer_id=ProducerId(producer_id), producer_epoch=ProducerEpoch(producer_epoch)
    )


def error_of(reply: object) -> ErrorCode:
    """The error of a reply, NONE for success."""
    return reply.error if isinstance(reply, Rejection) else ErrorCode.none


def prepared_transactions(transactional_ids: Iterable[str]) -> list[bytes]:
    """A log with a prepared transaction of one partition for each id."""
    batches = []
    for id_number, name in enumerate(transactional_ids):
        first_transition = to_first(
            TransactionalId(name), producer_id=ProducerId(id_number), timeout_ms=1, now_ms=START_MS
        )
        txn = apply(None, first_transition, release_rules=LATEST_RULES)
        assert txn is not None
        open_transition = to_ongoing(
            txn,
            partitions=frozenset({FOO_0}),
            client_version=TransactionVersion.TV_2,
            now_ms=START_MS,
        )
        txn = apply(
            begin(txn, open_transition, now_ms=START_MS),
            open_transition,
            release_rules=LATEST_RULES,
        )
        assert txn is not None
        end_transition = to_prepared_v2(
            txn, is_commit=True, fresh_producer_id=None, now_ms=START_MS
        )
        batches.append(
            encode_batch(
                (first_transition, open_transition, end_transition),
                finalized_version=TransactionVersion.TV_2,
                now_ms=START_MS,
                release_rules=LATEST_RULES,
            )
        )
    return batches
