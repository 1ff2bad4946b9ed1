"""What every coordinator needs on its broker: the partitions of its topic that the broker leads,
loaded and unloaded as new images say.

The host is the coordinator's ``CoordinatorLog``. Kafka's counterparts: CoordinatorPartitionWriter
and CoordinatorLoader, and the calls of BrokerMetadataPublisher to both coordinators.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Protocol

from txnsim.broker.verification import TransactionOperation, VerificationQueues
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.interception import FaultEffect
from txnsim.faults.points import FaultPoint
from txnsim.faults.subjects import Subject
from txnsim.interbroker.transactions import TxnMarker
from txnsim.log.answers import Appended
from txnsim.log.leader_append import append_coordinator, start_verification
from txnsim.log.partition_log import PartitionLog
from txnsim.log.verification import SENTINEL
from txnsim.loggers import Logger
from txnsim.metadata.image import ClusterImage
from txnsim.node.broker_fault_points import BrokerFaultPoints, error_in, is_lost, timer_gate
from txnsim.node.coordinator_loading import CoordinatorLoading
from txnsim.node.log_gate import COORDINATOR
from txnsim.releases.rules import Rules
from txnsim.replica.replicas import LeadershipChanges, Replicas
from txnsim.replication.leader_appends import Batch, Commits, LeaderAppends
from txnsim.runtime.environment import Environment, TimerHandle
from txnsim.runtime.tasks import Pending, ready_value
from txnsim.settings import Settings
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    BrokerId,
    CoordinatorEpoch,
    LeaderEpoch,
    TopicPartition,
    partition_for,
    uuid_text,
)

if TYPE_CHECKING:
    from txnsim.broker._share_persister import SharePersister
    from txnsim.coordinators.group.service import GroupCoordinator
    from txnsim.group.offset_commands import CommittingProducer


_log: Final = Logger("txnsim.cluster")
_NO_ERROR: Final = ErrorCode.none
REPLICATION_CHECK_MS: Final = 30_000
"""How long a load waits for replicas before it checks whether it is still wanted."""

_NOT_LED: Final = Rejection(
    error=ErrorCode.not_leader_or_follower, reason="the broker does not lead the partition"
)


def batches_to_load(log: PartitionLog) -> Iterable[bytes]:
    """What a coordinator reads of a partition that its broker leads now: all of it, also what is
    not replicated yet (``TransactionStateManager.loadTransactionMetadata``).
    """
    return log.batches()


class HostedCoordinator(Protocol):
    """What the host needs of a coordinator."""

    @property
    def partitions(self) -> int:
        """Number of partitions of its topic, by which keys are mapped to partitions as long as this
        broker runs.
        """

    def begin_load(self, partition_index: int, coordinator_epoch: CoordinatorEpoch) -> None:
        """Begin to load the partition, which the broker leads now."""

    def read(
        self, partition_index: int, coordinator_epoch: CoordinatorEpoch, batches: Iterable[bytes]
    ) -> Iterator[int]:
        """Read the partition's log step by step."""

    def unload(
        self, partition_index: int, coordinator_epoch: CoordinatorEpoch | None = None
    ) -> None:
        """Forget the partition, which the broker no longer leads."""


class CoordinatorHost:
    """Connects a coordinator with its broker."""

    def __init__(
        self,
        *,
        topic: str,
        make_coordinator: Callable[[], HostedCoordinator],
        replicas: Replicas,
        appends: LeaderAppends,
        commits: Commits,
        loading: CoordinatorLoading,
        is_count_fixed: bool = False,
    ) -> None:
        """Name what the host works with; the coordinator is not made yet.

        Args:
            topic: Topic of the coordinator's log.
            make_coordinator: Makes the coordinator; called once, when first needed.
            replicas: The broker's replicas.
            appends: Appends to the logs that the broker leads.
            commits: Tells when appended records are replicated.
            loading: Simulates how long reading a log takes.
            is_count_fixed: Whether to stop loading once the topic's number of partitions has
                changed.
        """
        self._topic = topic
        self._coordinator = make_coordinator
        self._replicas = replicas
        self._appends = appends
        self._commits = commits
        self._loading = loading
        self._is_count_fixed = is_count_fixed
        self._led_logs: dict[int, PartitionLog] = {}
        self._loaded_epochs: dict[int, CoordinatorEpoch] = {}
        """Partition -> epoch of its last load."""

    @cached_property
    def coordinator(self) -> HostedCoordinator:
        """The coordinator, which reads and writes the log."""
        return self._coordinator()

    # Leadership

    def apply(self, leadership_changes: LeadershipChanges, image: ClusterImage) -> None:
        """Load and unload partitions as a new image says."""
        changed_partitions = (
            *leadership_changes.led_partitions,
            *leadership_changes.lost_partitions,
            *((topic_partition, 0) for topic_partition in leadership_changes.deleted_partitions),
        )
        if any(topic_partition.topic == self._topic for topic_partition, _ in changed_partitions):
            self._led_logs = {
                topic_partition.partition: log
                for topic_partition, log in self._replicas.led.items()
                if topic_partition.topic == self._topic
            }
        for topic_partition, epoch in leadership_changes.lost_partitions:
            if topic_partition.topic == self._topic:
                self._unload(topic_partition, CoordinatorEpoch(epoch))
        for topic_partition in leadership_changes.deleted_partitions:
            if topic_partition.topic == self._topic:
                self.coordinator.unload(topic_partition.partition)
        for topic_partition, epoch in leadership_changes.led_partitions:
            if topic_partition.topic == self._topic:
                self._load(topic_partition, epoch, image)

    def directory_failed(self) -> None:
        """Fail all appends, because the log directory has failed."""
        self._led_logs = {}

    def coordinator_of(self, key: str) -> BrokerId | None:
        """The live broker that coordinates a transactional id or group; None if there is none
        now.
        """
        image = self._replicas.image
        partition = partition_for(key, self.coordinator.partitions)
        topic = image.topics.get(self._topic)
        if topic is None or partition >= len(topic.partitions):
            return None
        leader = topic.partitions[partition].leader
        broker = image.brokers.get(leader)
        return leader if broker is not None and broker.alive else None

    def _unload(self, topic_partition: TopicPartition, epoch: CoordinatorEpoch) -> None:
        """Unload the partition's entries, unless a fault holds the broker back
        (``coordinator.unload``).
        """
        partition = topic_partition.partition

        def unload_if_current(_verdict: FaultEffect | None) -> None:
            if self._loaded_epochs.get(partition, epoch) <= epoch:
                self.coordinator.unload(partition, epoch)

        self._loading.fault_points.go_on(
            unload_if_current, FaultPoint.COORDINATOR_UNLOAD, Subject(partitions=(topic_partition,))
        )

    def _load(
        self, topic_partition: TopicPartition, epoch: LeaderEpoch, image: ClusterImage
    ) -> None:
        log = self._replicas.hosted[topic_partition]
        partition = topic_partition.partition
        self._loaded_epochs[partition] = CoordinatorEpoch(epoch)
        self.coordinator.begin_load(partition, CoordinatorEpoch(epoch))
        if self._is_count_fixed:
            partition_count = len(image.topics[self._topic].partitions)
            if partition_count != self.coordinator.partitions:
                # TransactionStateManager.validateTransactionTopicPartitionCountIsStable throws, and
                # the partition stays loading for ever: ids were placed by the number at the
                # start.
                _log.error(
                    "txn.load.partitions_changed",
                    at_start=self.coordinator.partitions,
                    now=partition_count,
                )
                return

        def read(*, is_readable: bool) -> Iterator[int]:
            batches: Iterable[bytes] = batches_to_load(log) if is_readable else ()
            return self.coordinator.read(partition, CoordinatorEpoch(epoch), batches)

        self._load_once_replicated(
            log, CoordinatorEpoch(epoch), lambda: self._loading.load(topic_partition, read)
        )

    def _load_once_replicated(
        self, log: PartitionLog, epoch: CoordinatorEpoch, begin_load: Callable[[], None]
    ) -> None:
        """Load at once, as Kafka up to 4.4 does, although records of the log may still be lost. If
        the switch is on, first wait until the whole log is replicated.
        """
        log_end, topic_partition = log.log_end_offset, log.topic_partition
        must_wait = log.config.rules.loads_wait_for_replication and log.high_watermark < log_end
        if not must_wait:
            begin_load()
            return

        def load_if_wanted(pending_replication: Pending[ErrorCode]) -> None:
            is_wanted = self._loaded_epochs.get(topic_partition.partition) == epoch
            if is_wanted and pending_replication.value in (_NO_ERROR, ErrorCode.request_timed_out):
                self._load_once_replicated(log, epoch, begin_load)

        self._commits.wait_for_commit(log, log_end - 1, timeout_ms=REPLICATION_CHECK_MS).on_done(
            load_if_wanted
        )

    # Log

    def admit(
        self, partition_index: int, subject_of: Callable[[TopicPartition], Subject]
    ) -> Awaitable[Rejection | None] | None:
        """Check before records are appended; None where nothing can delay or refuse them."""
        gate = self._appends.gate
        if (
            not (gate.fault_points.network.interceptor.is_armed or gate.disk.is_full)
            or partition_index not in self._led_logs
        ):
            return None
        topic_partition = TopicPartition(self._topic, partition_index)
        return self._appends.admit(subject_of(topic_partition), COORDINATOR)

    def append(
        self, partition_index: int, batch: bytes, *, guard: int = SENTINEL
    ) -> Appended | Rejection:
        """Append a batch to a partition that this broker leads."""
        log = self._led_logs.get(partition_index)
        if log is None:
            return _NOT_LED
        append_batch = partial(append_coordinator, batch=batch, guard=guard)
        return self._appends.append_admitted(log, Batch(append_batch), needs_isr=True)

    def write(
        self,
        partition_index: int,
        batch: bytes,
        *,
        subject_of: Callable[[TopicPartition], Subject],
        timeout_ms: int,
        now_ms: int,
    ) -> ErrorCode | Awaitable[ErrorCode]:
        """Append a batch and wait for replication. Return the error code, or an awaitable of it."""
        log, gate = self._led_logs.get(partition_index), self._appends.gate
        if log is None:
            return _NOT_LED.error
        if gate.fault_points.network.interceptor.is_armed or gate.disk.is_full:
            return self._write_once_admitted(partition_index, batch, subject_of, timeout_ms)
        append_batch = partial(append_coordinator, batch=batch)
        append_outcome = self._appends.append_admitted(
            log, Batch(append_batch), now_ms=now_ms, needs_isr=True
        )
        if isinstance(append_outcome, Rejection):
            return append_outcome.error
        if log.high_watermark > append_outcome.last_offset:
            return _NO_ERROR
        return self._commits.wait_for_commit(log, append_outcome.last_offset, timeout_ms=timeout_ms)

    async def _write_once_admitted(
        self,
        partition_index: int,
        batch: bytes,
        subject_of: Callable[[TopicPartition], Subject],
        timeout_ms: int,
    ) -> ErrorCode:
        topic_partition = TopicPartition(self._topic, partition_index)
        rejection = await self._appends.admit(subject_of(topic_partition), COORDINATOR)
        if rejection is not None:
            return rejection.error
        append_outcome = self.append(partition_index, batch)
        if isinstance(append_outcome, Rejection):
            return append_outcome.error
        pending_replication = self.wait_for_commit(
            partition_index, append_outcome.last_offset, timeout_ms=timeout_ms
        )
        return _NO_ERROR if pending_replication is None else await pending_replication

    def leads(self, partition_index: int, coordinator_epoch: CoordinatorEpoch) -> bool:
        """Whether this broker leads the partition under this leader epoch, as far as it knows
        (TransactionStateManager.isCoordinatorFor).
        """
        log = self._led_logs.get(partition_index)
        return log is not None and log.leader_epoch == coordinator_epoch

    def batch_bytes_max(self, partition_index: int) -> int:
        """The topic's ``max.message.bytes``; 0 where the partition is not led any more."""
        log = self._led_logs.get(partition_index)
        return 0 if log is None else log.config.max_message_bytes

    def high_watermark_of(self, partition_index: int) -> int:
        """The high watermark; 0 where the partition is not led any more."""
        log = self._led_logs.get(partition_index)
        return 0 if log is None else log.high_watermark

    def wait_for_commit(
        self, partition_index: int, offset: int, *, timeout_ms: int
    ) -> Awaitable[ErrorCode] | None:
        """None if everything up to and including ``offset`` is replicated; else an awaitable of the
        outcome.
        """
        log = self._led_logs.get(partition_index)
        if log is None:
            return ready_value(_NOT_LED.error)
        if log.high_watermark > offset:
            return None
        return self._commits.wait_for_commit(log, offset, timeout_ms=timeout_ms)


# The group coordinator on its broker: the logs it writes, the transactions it asks about, loads.
#
# Everything that ``coordinators.group.service`` is handed is made here from the parts of a broker.
# Kafka's counterparts: CoordinatorPartitionWriter, and what BrokerMetadataPublisher tells the group
# coordinator.

_NO_SEQUENCE = -1


class GroupHost(CoordinatorHost):
    """Connects a group coordinator with its broker."""

    coordinator: GroupCoordinator

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        environment: Environment,
        read_settings: Callable[[], Settings],
        release_rules: Rules,
        replicas: Replicas,
        appends: LeaderAppends,
        commits: Commits,
        verification: VerificationQueues,
        loading: CoordinatorLoading,
        fault_points: BrokerFaultPoints,
        share_coordinators: Callable[[], SharePersister],
        find_latest_offset: Callable[[TopicPartition], Awaitable[int | Rejection]],
        partition_count: int | None = None,
    ) -> None:
        super().__init__(
            topic=CONSUMER_OFFSETS_TOPIC,
            make_coordinator=self._make_coordinator,
            replicas=replicas,
            appends=appends,
            commits=commits,
            loading=loading,
        )
        self._broker_id = broker_id
        self._environment = environment
        self._rules = release_rules
        self._partitions = partition_count
        self._static_settings = read_settings()
        self._is_running = False
        self._made_coordinator: GroupCoordinator | None = None
        self._expiry_timer: TimerHandle | None = None
        self._timers = timer_gate(fault_points)
        self._tasks = environment.tasks
        self._fault_points = fault_points
        self._pending_completions: dict[Pending[ErrorCode], None] = {}
        """Completions of ended transactions whose positions a fault keeps from their groups."""
        self._clock = environment.clock
        self._settings = read_settings
        self._verification = verification
        self._share_coordinators = share_coordinators
        self._latest_offset = find_latest_offset
        self._image = replicas.image

    def _make_coordinator(self) -> GroupCoordinator:
        """Make the coordinator when a request first needs it: a cluster starts without, because its
        many modules take time to import.
        """
        from txnsim.coordinators.group.service import GroupCoordinator

        environment, replicas = self._environment, self._replicas
        make_id = _ids(environment.rng.stream(f"member-ids.b{self._broker_id}").getrandbits)
        self._made_coordinator = coordinator = GroupCoordinator(
            broker_id=self._broker_id,
            clock=environment.clock,
            settings=self._static_settings,
            release_rules=self._rules,
            read_settings=self._settings,
            tasks=environment.tasks,
            log=self,
            read_image=lambda: replicas.image,
            make_id=lambda: str(make_id()),
            make_short_id=lambda: short_id(make_id),
            partition_count=self._partitions,
            tracer=environment.tracer,
            share_coordinators=self._share_coordinators(),
            find_latest_offset=self._latest_offset,
        )
        coordinator.is_running = self._is_running
        return coordinator

    @property
    def made_coordinator(self) -> GroupCoordinator | None:
        """The coordinator; None if no request has needed it yet."""
        return self._made_coordinator

    # Life

    def start(self) -> None:
        """Arm the expiry timer and accept requests about groups."""
        self._is_running = True
        if self._made_coordinator is not None:
            self._made_coordinator.is_running = True
        self._arm_expiry()

    def _arm_expiry(self) -> None:
        interval_ms = self._static_settings.offsets_retention_check_interval_ms
        self._expiry_timer = self._clock.call_at(
            self._clock.now_ms() + interval_ms,
            lambda: self._timers("offsets-expiration", self._expire, self._arm_expiry),
        )

    def _expire(self) -> None:
        self._arm_expiry()
        if self._made_coordinator is not None:
            self._made_coordinator.expire()

    def stop(self) -> None:
        """Release all groups; answer every request that waits for positions."""
        self._is_running = False
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        if self._made_coordinator is not None:
            self._made_coordinator.stop()
        for pending_completion in tuple(self._pending_completions):
            pending_completion.resolve(ErrorCode.not_leader_or_follower)

    # Leadership

    def apply(self, leadership_changes: LeadershipChanges, image: ClusterImage) -> None:
        """Like ``CoordinatorHost.apply``; also drop the positions on deleted topics."""
        super().apply(leadership_changes, image)
        old_image, self._image = self._image, image
        deleted_topics = {topic.name: topic.topic_id for topic in image.deleted_topics(old_image)}
        if deleted_topics and self._made_coordinator is not None:
            self._made_coordinator.topics_deleted(deleted_topics)

    # Transactions

    async def verify(
        self, partition_index: int, producer: CommittingProducer, operation: TransactionOperation
    ) -> int | Rejection:
        """Ask the transaction's coordinator before positions are committed in it (KIP-890).

        Returns:
            The guard to pass with the append, or why the coordinator refused.
        """
        adds_partition = operation is TransactionOperation.ADD_PARTITION
        log = self._replicas.leader_log(TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_index))
        if isinstance(log, Rejection):
            return log
        if not adds_partition and not (
            self._settings().transaction_partition_verification_enable
            and log.config.rules.offset_commits_are_verified  # KAFKA-15449
        ):
            return SENTINEL
        guard_or_rejection = start_verification(
            log,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=_NO_SEQUENCE,
            supports_epoch_bump=adds_partition,
            now_ms=self._clock.now_ms(),
        )
        if isinstance(guard_or_rejection, Rejection) or guard_or_rejection == SENTINEL:
            return guard_or_rejection
        topic_partition = log.topic_partition
        error_by_partition = await self._verification.ask(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            partitions=(topic_partition,),
            operation=operation,
        )
        error = error_by_partition.get(topic_partition)
        if error is None:
            return guard_or_rejection
        return Rejection(
            error=error,
            reason=f"{topic_partition} is not part of transaction {producer.transactional_id}",
        )

    # Markers

    def refuses_markers(self, topic_partition: TopicPartition) -> bool:
        """Whether markers must wait because the positions that they end are not loaded yet."""
        return topic_partition.topic == CONSUMER_OFFSETS_TOPIC and not self.coordinator.owns(
            topic_partition.partition
        )

    def marker_written(
        self, topic_partition: TopicPartition, marker: TxnMarker, offset: int
    ) -> Pending[ErrorCode] | None:
        """Complete the producer's pending positions, once their marker is in the log.

        Returns:
            An outcome that is done once the group has the positions; None if it has them already.
        """
        if topic_partition.topic != CONSUMER_OFFSETS_TOPIC:
            return None
        if not self._fault_points.is_armed:
            self.coordinator.marker_written(topic_partition.partition, marker, offset)
            return None
        pending_completion: Pending[ErrorCode] = Pending(self._tasks)
        self._pending_completions[pending_completion] = None
        pending_completion.on_done(lambda finished: self._pending_completions.pop(finished, None))

        def complete(fault_effect: FaultEffect | None) -> None:
            error = ErrorCode(error_in(fault_effect))
            if not error and not is_lost(fault_effect):
                if self.coordinator.owns(topic_partition.partition):
                    self.coordinator.marker_written(topic_partition.partition, marker, offset)
                else:
                    error = ErrorCode.not_leader_or_follower
            pending_completion.resolve(error)

        self._fault_points.go_on(
            complete,
            FaultPoint.GROUP_COMPLETION,
            Subject(
                producer_id=marker.producer_id,
                partitions=(topic_partition,),
                committed=marker.committed,
            ),
        )
        return pending_completion


def short_id(make_id: Callable[[], uuid.UUID]) -> str:
    """A new id in Kafka's form, for members of the consumer protocol. It does not begin with a dash
    (Uuid.randomUuid), which a command line would take for an option.
    """
    while True:
        id_text = uuid_text(make_id())
        if not id_text.startswith("-"):
            return id_text


def _ids(draw_bits: Callable[[int], int]) -> Callable[[], uuid.UUID]:
    return lambda: uuid.UUID(int=draw_bits(128), version=4)
