"""The group coordinator on its broker: the logs it writes, the transactions it asks about, loads.

Everything that ``coordinators.group.service`` is handed is made here from the parts of a broker.
Kafka's counterparts: CoordinatorPartitionWriter, and what BrokerMetadataPublisher tells the group
coordinator.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from txnsim.broker._coordinator_host import CoordinatorHost
from txnsim.broker.verification import TransactionOperation, VerificationQueues
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.crossings import FaultEffect
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.interbroker.transactions import TxnMarker
from txnsim.log.leader_append import start_verification
from txnsim.log.verification import SENTINEL
from txnsim.metadata.image import ClusterImage
from txnsim.node.coordinator_loading import CoordinatorLoading
from txnsim.node.crossings import Crossings, error_in, is_lost, timer_gate
from txnsim.releases.rules import Rules
from txnsim.replica.replicas import LeadershipChanges, Replicas
from txnsim.replication.leader_appends import Commits, LeaderAppends
from txnsim.runtime.env import Environment, TimerHandle
from txnsim.runtime.tasks import Pending
from txnsim.settings import Settings
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    BrokerId,
    TopicPartition,
    uuid_text,
)

if TYPE_CHECKING:
    from txnsim.coordinators.group.service import GroupCoordinator
    from txnsim.group.offset_commands import CommittingProducer

_NO_SEQUENCE = -1


class GroupHost(CoordinatorHost):
    """What connects a group coordinator with its broker."""

    coordinator: GroupCoordinator

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        environment: Environment,
        settings: Callable[[], Settings],
        rules: Rules,
        replicas: Replicas,
        appends: LeaderAppends,
        commits: Commits,
        verification: VerificationQueues,
        loading: CoordinatorLoading,
        crossings: Crossings,
        partitions: int | None = None,
    ) -> None:
        super().__init__(
            topic=CONSUMER_OFFSETS_TOPIC,
            coordinator=self._make,
            replicas=replicas,
            appends=appends,
            commits=commits,
            loading=loading,
        )
        self._broker_id = broker_id
        self._environment = environment
        self._rules = rules
        self._partitions = partitions
        self._static_settings = settings()
        self._is_running = False
        self._made: GroupCoordinator | None = None
        self._expiry: TimerHandle | None = None
        self._timers = timer_gate(crossings)
        self._tasks = environment.tasks
        self._crossings = crossings
        self._completions: dict[Pending[ErrorCode], None] = {}
        """Positions of ended transactions that a fault keeps from their groups."""
        self._clock = environment.clock
        self._settings = settings
        self._verification = verification
        self._image = replicas.image
        """The last one."""

    def _make(self) -> GroupCoordinator:
        """Made when groups or their log are first asked for: a cluster begins without, and its
        modules are many.
        """
        from txnsim.coordinators.group.service import GroupCoordinator

        environment, replicas = self._environment, self._replicas
        new_id = _ids(environment.rng.stream(f"member-ids.b{self._broker_id}").getrandbits)
        self._made = made = GroupCoordinator(
            broker_id=self._broker_id,
            clock=environment.clock,
            settings=self._static_settings,
            rules=self._rules,
            dynamic_settings=self._settings,
            tasks=environment.tasks,
            log=self,
            image=lambda: replicas.image,
            new_id=lambda: str(new_id()),
            new_short_id=lambda: short_id(new_id),
            partitions=self._partitions,
            tracer=environment.tracer,
        )
        made.is_running = self._is_running
        return made

    # Life

    def start(self) -> None:
        """Arm the timer of expiry; from now on groups can be asked for."""
        self._is_running = True
        if self._made is not None:
            self._made.is_running = True
        self._arm_expiry()

    def _arm_expiry(self) -> None:
        interval_ms = self._static_settings.offsets_retention_check_interval_ms
        self._expiry = self._clock.call_at(
            self._clock.now_ms() + interval_ms,
            lambda: self._timers("offsets-expiration", self._expire, self._arm_expiry),
        )

    def _expire(self) -> None:
        self._arm_expiry()
        if self._made is not None:
            self._made.expire()

    def stop(self) -> None:
        """Release all groups; answer every request that waits for positions."""
        self._is_running = False
        if self._expiry is not None:
            self._expiry.cancel()
        if self._made is not None:
            self._made.stop()
        for completion in tuple(self._completions):
            completion.resolve(ErrorCode.not_leader_or_follower)

    # Leadership

    def apply(self, changes: LeadershipChanges, image: ClusterImage) -> None:
        """The same, and the positions of deleted topics are forgotten."""
        super().apply(changes, image)
        before, self._image = self._image, image
        gone = frozenset(topic.name for topic in image.deleted_topics(before))
        if gone and self._made is not None:
            self._made.topics_deleted(gone)

    # Transactions

    async def verify(
        self, partition: int, producer: CommittingProducer, operation: TransactionOperation
    ) -> int | Rejection:
        """Ask the transaction's coordinator before positions are committed in it (KIP-890).

        Returns:
            The guard to show with the append, or why the coordinator did not agree.
        """
        adds = operation is TransactionOperation.ADD_PARTITION
        log = self._replicas.leader(TopicPartition(CONSUMER_OFFSETS_TOPIC, partition))
        if isinstance(log, Rejection):
            return log
        if not adds and not (
            self._settings().transaction_partition_verification_enable
            and log.config.rules.offset_commits_are_verified  # KAFKA-15449
        ):
            return SENTINEL
        guard = start_verification(
            log,
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
        """A marker is in the log: it decides the producer's pending positions there.

        Returns:
            An answer that is there once the positions are the group's; None where they are already.
        """
        if topic_partition.topic != CONSUMER_OFFSETS_TOPIC:
            return None
        if not self._crossings.armed:
            self.coordinator.marker_written(topic_partition.partition, marker, offset)
            return None
        completion: Pending[ErrorCode] = Pending(self._tasks)
        self._completions[completion] = None
        completion.on_done(lambda done: self._completions.pop(done, None))

        def complete(verdict: FaultEffect | None) -> None:
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


def short_id(new_id: Callable[[], uuid.UUID]) -> str:
    """A new id in Kafka's own form, as members of the consumer protocol get it: it begins with no
    dash (Uuid.randomUuid), which a command would take for an option.
    """
    while True:
        text = uuid_text(new_id())
        if not text.startswith("-"):
            return text


def _ids(random_bits: Callable[[int], int]) -> Callable[[], uuid.UUID]:
    return lambda: uuid.UUID(int=random_bits(128), version=4)
