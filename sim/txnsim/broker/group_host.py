"""The group coordinator on its broker: the logs it writes, the transactions it asks about, loads.

Everything that ``coordinators.group.service`` is handed is made here from the parts of a broker.
Kafka's counterparts: CoordinatorPartitionWriter, and what BrokerMetadataPublisher tells the group
coordinator.
"""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterable

from txnsim.broker.verification import TransactionOperation, Verification
from txnsim.coordinators.group.service import GroupCoordinator
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.points import FaultPoint
from txnsim.group.offset_commands import CommittingProducer
from txnsim.log.answers import Appended
from txnsim.log.partition_log import PartitionLog
from txnsim.log.verification import SENTINEL
from txnsim.metadata.image import ClusterImage
from txnsim.node.coordinator_loading import CoordinatorLoading
from txnsim.node.crossings import Crossings, error_in, is_lost, timer_gate
from txnsim.node.log_gate import COORDINATOR, LogGate
from txnsim.placement import partition_for
from txnsim.replica.replicas import LeadershipChanges, Replicas
from txnsim.replication.commits import Commits
from txnsim.replication.watermarks import Watermarks
from txnsim.runtime.env import Environment
from txnsim.runtime.pending import Pending
from txnsim.settings import Settings
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    BrokerId,
    CoordinatorEpoch,
    LeaderEpoch,
    Subject,
    TopicPartition,
    TxnMarker,
    Verdict,
)

_NO_SEQUENCE = -1


class GroupHost:
    """What connects a group coordinator with its broker; it is its ``OffsetsLog``."""

    __slots__ = (
        "_clock",
        "_commits",
        "_completions",
        "_crossings",
        "_gate",
        "_loading",
        "_replicas",
        "_settings",
        "_tasks",
        "_topics",
        "_verification",
        "_watermarks",
        "coordinator",
    )

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        environment: Environment,
        settings: Callable[[], Settings],
        replicas: Replicas,
        watermarks: Watermarks,
        commits: Commits,
        verification: Verification,
        loading: CoordinatorLoading,
        crossings: Crossings,
        gate: LogGate,
        partitions: int | None = None,
    ) -> None:
        self._tasks = environment.tasks
        self._crossings = crossings
        self._completions: dict[Pending[ErrorCode], None] = {}
        """Positions of ended transactions that a fault keeps from their groups."""
        self._gate = gate
        self._clock = environment.clock
        self._settings = settings
        self._replicas = replicas
        self._watermarks = watermarks
        self._commits = commits
        self._verification = verification
        self._loading = loading
        self._topics: dict[str, uuid.UUID] = {}
        """Topics by name, as the last image had them."""
        new_id = _ids(environment.rng.stream(f"member-ids.b{broker_id}").getrandbits)
        self.coordinator = GroupCoordinator(
            broker_id=broker_id,
            clock=environment.clock,
            settings=settings(),
            dynamic_settings=settings,
            tasks=environment.tasks,
            log=self,
            image=lambda: replicas.image,
            new_id=lambda: str(new_id()),
            # In Kafka's own form (Uuid), as members of the consumer protocol get it.
            new_short_id=lambda: urlsafe_b64encode(new_id().bytes).rstrip(b"=").decode(),
            timers=timer_gate(crossings),
            partitions=partitions,
            tracer=environment.tracer,
        )

    def stop(self) -> None:
        """Whoever waits for positions is told."""
        for completion in tuple(self._completions):
            completion.resolve(ErrorCode.not_leader_or_follower)

    # Leadership

    def apply(self, changes: LeadershipChanges, image: ClusterImage) -> None:
        """Load, unload and forget what a new image says."""
        for topic_partition, epoch in changes.lost:
            if topic_partition.topic == CONSUMER_OFFSETS_TOPIC:
                self.coordinator.unload(topic_partition.partition, CoordinatorEpoch(epoch))
        for topic_partition in changes.deleted:
            if topic_partition.topic == CONSUMER_OFFSETS_TOPIC:
                self.coordinator.unload(topic_partition.partition)
        for topic_partition, epoch in changes.led:
            if topic_partition.topic == CONSUMER_OFFSETS_TOPIC:
                self._load(topic_partition, epoch)
        topics = {name: topic.topic_id for name, topic in image.topics.items()}
        gone = frozenset(
            name for name, topic_id in self._topics.items() if topics.get(name) != topic_id
        )
        self._topics = topics
        if gone:
            self.coordinator.topics_deleted(gone)

    def coordinator_of(self, group_id: str, image: ClusterImage) -> BrokerId | None:
        """The live broker that coordinates this group; None where there is none at the moment."""
        index = partition_for(group_id, self.coordinator.partitions)
        partition = image.partition(TopicPartition(CONSUMER_OFFSETS_TOPIC, index))
        if partition is None or not image.is_alive(partition.leader):
            return None
        return partition.leader

    def _load(self, topic_partition: TopicPartition, epoch: LeaderEpoch) -> None:
        log = self._replicas.hosted[topic_partition]
        partition = topic_partition.partition
        self.coordinator.begin_load(partition, CoordinatorEpoch(epoch))

        def finish(*, is_readable: bool) -> None:
            batches: Iterable[bytes] = log.batches() if is_readable else ()
            self.coordinator.finish_load(partition, CoordinatorEpoch(epoch), batches)

        self._loading.load(topic_partition, finish)

    # Log

    def append(self, partition: int, batch: bytes, *, guard: int) -> Appended | Rejection:
        """Append a batch to a partition of ``__consumer_offsets`` that this broker leads."""
        log = self._led(partition)
        if isinstance(log, Rejection):
            return log
        full = self._gate.refuse_full()
        if full is not None:
            return Rejection(error=full, reason="the disk is full")
        too_few = self._replicas.too_few_in_sync(log.topic_partition)
        if too_few is not None:
            return too_few
        before = self._gate.durable(log) if self._crossings.armed else None
        appended = log.append_coordinator(batch, now_ms=self._clock.now_ms(), guard=guard)
        if isinstance(appended, Appended):
            self._watermarks.appended(log)
            if before is not None:
                self._gate.appended(log, before)
        return appended

    def admit(
        self, partition: int, producer: CommittingProducer | None
    ) -> Awaitable[Rejection | None] | None:
        """Ask before positions are appended; None where nobody wants to be asked."""
        return None if self._gate.is_open else self._admit(partition, producer)

    async def _admit(self, partition: int, producer: CommittingProducer | None) -> Rejection | None:
        subject = Subject(
            transactional_id=None if producer is None else producer.transactional_id,
            producer_id=None if producer is None else producer.producer_id,
            partitions=(TopicPartition(CONSUMER_OFFSETS_TOPIC, partition),),
        )
        error = await self._gate.admit(subject, kind=COORDINATOR)
        if error is None:
            return None
        return Rejection(error=error, reason="the log does not take the positions")

    def replicated(self, partition: int) -> int:
        """The high watermark; 0 where the partition is not led any more."""
        log = self._led(partition)
        return 0 if isinstance(log, Rejection) else log.high_watermark

    def committed(self, partition: int, offset: int) -> Awaitable[ErrorCode] | None:
        """Whether everything up to ``offset`` is replicated; None where it is."""
        log = self._led(partition)
        if isinstance(log, Rejection):
            return _failed(log.error)
        return None if log.high_watermark > offset else self._wait(log, offset)

    async def _wait(self, log: PartitionLog, offset: int) -> ErrorCode:
        failed = await self._commits.wait(
            [(log, offset)], timeout_ms=self._settings().offsets_commit_timeout_ms
        )
        return failed.get(log.topic_partition, ErrorCode.none)

    def _led(self, partition: int) -> PartitionLog | Rejection:
        return self._replicas.leader(TopicPartition(CONSUMER_OFFSETS_TOPIC, partition))

    # Transactions

    async def verify(
        self, partition: int, producer: CommittingProducer, operation: TransactionOperation
    ) -> int | Rejection:
        """Ask the transaction's coordinator before positions are committed in it (KIP-890).

        Returns:
            The guard to show with the append, or why the coordinator did not agree.
        """
        adds = operation is TransactionOperation.ADD_PARTITION
        log = self._led(partition)
        if isinstance(log, Rejection):
            return log
        if not adds and not (
            self._settings().transaction_partition_verification_enable
            and log.config.rules.offset_commits_are_verified  # KAFKA-15449
        ):
            return SENTINEL
        guard = log.start_verification(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=_NO_SEQUENCE,
            supports_epoch_bump=adds,
            now_ms=self._clock.now_ms(),
        )
        if isinstance(guard, Rejection) or guard == SENTINEL:
            return guard
        topic_partition = log.topic_partition
        errors = await self._verification.ask(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            partitions=(topic_partition,),
            operation=operation,
        )
        error = errors.get(topic_partition)
        if error is None:
            return guard
        return Rejection(
            error=error,
            reason=f"{topic_partition} is not part of transaction {producer.transactional_id}",
        )

    # Markers

    def refuses_markers(self, topic_partition: TopicPartition) -> bool:
        """Whether markers must wait: the positions that they end are not loaded yet."""
        return topic_partition.topic == CONSUMER_OFFSETS_TOPIC and not self.coordinator.owns(
            topic_partition.partition
        )

    def marker_written(
        self, topic_partition: TopicPartition, marker: TxnMarker, offset: int
    ) -> Pending[ErrorCode] | None:
        """A marker is in the log: what the producer has pending there is decided.

        Returns:
            What is there once the positions are the group's; None where they are already.
        """
        if topic_partition.topic != CONSUMER_OFFSETS_TOPIC:
            return None
        if not self._crossings.armed:
            self.coordinator.marker_written(topic_partition.partition, marker, offset)
            return None
        completion: Pending[ErrorCode] = Pending(self._tasks)
        self._completions[completion] = None
        completion.on_done(lambda done: self._completions.pop(done, None))

        def complete(verdict: Verdict | None) -> None:
            error = ErrorCode(error_in(verdict))
            if not error and not is_lost(verdict):
                if self.coordinator.owns(topic_partition.partition):
                    self.coordinator.marker_written(topic_partition.partition, marker, offset)
                else:
                    error = ErrorCode.not_leader_or_follower
            completion.resolve(error)

        self._crossings.go_on(
            complete,
            FaultPoint.GROUP_COMPLETION,
            Subject(
                producer_id=marker.producer_id,
                partitions=(topic_partition,),
                committed=marker.committed,
            ),
        )
        return completion


def _ids(random_bits: Callable[[int], int]) -> Callable[[], uuid.UUID]:
    return lambda: uuid.UUID(int=random_bits(128), version=4)


async def _failed(error: ErrorCode) -> ErrorCode:
    return error
