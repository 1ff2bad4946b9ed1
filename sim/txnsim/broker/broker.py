"""One broker: the partitions it leads, the coordinators it hosts, the requests of its peers.

A broker knows the others only through ``Peers`` and the image that ``Metadata`` publishes. It
composes; the rules are in what it composes. Kafka's counterparts: BrokerServer and, for what peers
ask, the inter-broker half of KafkaApis.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from txnsim.broker._coordinator_host import CoordinatorHost
from txnsim.broker._group_host import GroupHost
from txnsim.broker._housekeeping import Housekeeping
from txnsim.broker._marker_writes import MARKERS_AT_ONCE, MarkerWrites
from txnsim.broker.fetch import Fetching
from txnsim.broker.produce import Producing
from txnsim.broker.verification import VerificationQueues
from txnsim.coordinators.txn.service import TransactionCoordinator
from txnsim.errors import ErrorCode, InvariantViolation, Rejection
from txnsim.interbroker.replication import ReplicaFetchCommand, ReplicaOffsetCommand
from txnsim.interbroker.transactions import (
    AddPartitionsToTxnCommand,
    AddPartitionsToTxnReply,
    AllocateProducerIdsCommand,
    AllocateProducerIdsReply,
    WriteTxnMarkersCommand,
    WriteTxnMarkersReply,
)
from txnsim.loggers import Logger
from txnsim.metadata import configs
from txnsim.metadata.client_metrics import ClientMetrics
from txnsim.metadata.image import (
    METADATA_VERSION,
    NO_LEADER,
    TRANSACTION_VERSION,
    ClusterImage,
)
from txnsim.node.coordinator_loading import CoordinatorLoading
from txnsim.node.crossings import Crossings, timer_gate
from txnsim.node.image_intake import ImageIntake
from txnsim.node.log_gate import LogGate
from txnsim.node.metadata_publisher import Metadata
from txnsim.node.peers import (
    ADD_PARTITIONS_TO_TXN,
    CONTROLLER_ID,
    FETCH,
    LIST_OFFSETS,
    WRITE_TXN_MARKERS,
    Peers,
)
from txnsim.node.purgatory import Purgatory
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.replica.fetch_sessions import FetchSessions
from txnsim.replica.replicas import Replicas
from txnsim.replication.append_events import AppendEvents
from txnsim.replication.deletions import Deletions
from txnsim.replication.isr_changes import IsrChanges
from txnsim.replication.leader_appends import Commits, LeaderAppends, Watermarks
from txnsim.replication.log_maintenance import LogMaintenance
from txnsim.replication.replica_fetcher import ReplicaFetchers
from txnsim.replication.replica_sessions import ReplicaSessions
from txnsim.runtime.env import Environment
from txnsim.runtime.turns import Pace
from txnsim.settings import Settings
from txnsim.txn.commands import AddPartitions, VerifyPartitions
from txnsim.txn.markers import LeaderLookup, NoLeader
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)

if TYPE_CHECKING:
    from txnsim.coordinators.group.service import GroupCoordinator

_PartitionErrors = tuple[tuple[TopicPartition, int], ...]
_log: Final = Logger("txnsim.cluster")


class Broker:
    """A broker of the cluster."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        environment: Environment,
        metadata: Metadata,
        logs: BrokerLogs,
    ) -> None:
        self.broker_id = broker_id
        self.node: Final = f"broker/{broker_id}"
        """The broker's name in traces and fault plans."""
        self.environment = environment
        self.metadata = metadata
        self.release = metadata.fleet.of(broker_id)
        """The API versions and the rules of this broker."""
        self.settings = self._effective_settings(metadata.image)
        logs.rules = self.release.rules
        self.logs = logs
        """The broker's disk: it outlives the broker."""
        self.replicas = Replicas(
            broker_id=broker_id,
            logs=logs,
            image=ClusterImage(cluster_id=metadata.image.cluster_id),
            settings=metadata.settings,
            dynamic=self.settings,
        )
        self.purgatory: Purgatory[TopicPartition] = Purgatory(environment.clock, environment.tasks)
        self.peers = Peers(
            network=environment.network,
            broker_id=broker_id,
            request_timeout_ms=metadata.settings.request_timeout_ms,
            fleet=metadata.fleet,
        )
        self.log_events = AppendEvents(environment.tracer, self.node)
        self.crossings = Crossings(
            node=self.node, network=environment.network, tasks=environment.tasks
        )
        self.log_gate = LogGate(
            crossings=self.crossings, disk=logs, directory_failed=self.fail_directory
        )
        self.on_directory_failure: Callable[[], object] = lambda: None
        """Called when the log directory goes offline: the owner of this broker has to know."""
        self._intake = ImageIntake(
            broker_id=broker_id,
            crossings=self.crossings,
            current=lambda: self.image,
            take_up=self.apply_in_steps,
            clock=environment.clock,
        )
        self._timers = timer_gate(self.crossings)
        self._make_replication(environment)
        self._make_coordinators(environment)
        self._make_request_paths(environment)
        self._unsubscribe: Callable[[], None] | None = None

    # Parts, in the order in which they need one another

    def _make_replication(self, environment: Environment) -> None:
        """What moves records between brokers, and what waits for that."""
        self.watermarks = Watermarks(
            clock=environment.clock,
            replicas=self.replicas,
            purgatory=self.purgatory,
            log_events=self.log_events,
        )
        self.appends = LeaderAppends(
            clock=environment.clock,
            replicas=self.replicas,
            watermarks=self.watermarks,
            gate=self.log_gate,
            log_events=self.log_events,
        )
        self.commits = Commits(replicas=self.replicas, purgatory=self.purgatory)
        self.deletions = Deletions(replicas=self.replicas, purgatory=self.purgatory)
        self.isr_changes = IsrChanges(
            broker_id=self.broker_id,
            clock=environment.clock,
            settings=lambda: self.settings,
            image=lambda: self.image,
            peers=self.peers,
            replicas=self.replicas,
            watermarks=self.watermarks,
        )
        self.replica_sessions = ReplicaSessions(
            clock=environment.clock,
            tasks=environment.tasks,
            replicas=self.replicas,
            watermarks=self.watermarks,
            isr_changes=self.isr_changes,
        )
        self.replica_fetchers = ReplicaFetchers(
            broker_id=self.broker_id,
            clock=environment.clock,
            tasks=environment.tasks,
            replicas=self.replicas,
            peers=self.peers,
            purgatory=self.purgatory,
            gate=self.log_gate,
            log_events=self.log_events,
        )
        self.housekeeping = Housekeeping(
            clock=environment.clock,
            settings=lambda: self.settings,
            hosted=self.replicas.hosted,
            logs=self.logs,
            gate=self.log_gate,
            timers=self._timers,
            log_events=self.log_events,
        )
        self.log_maintenance = LogMaintenance(
            clock=environment.clock,
            tasks=environment.tasks,
            settings=lambda: self.settings,
            hosted=self.replicas.hosted,
            log_events=self.log_events,
            note_log_starts=self.housekeeping.note_log_starts,
            gate=self._timers,
        )

    def _make_coordinators(self, environment: Environment) -> None:
        """What coordinates transactions and groups, and what asks coordinators elsewhere."""
        metadata = self.metadata
        self.loading = CoordinatorLoading(
            crossings=self.crossings,
            clock=environment.clock,
            tasks=environment.tasks,
            min_ms=metadata.settings.coordinator_load_min_ms,
        )
        self.transaction_host = CoordinatorHost(
            topic=TRANSACTION_STATE_TOPIC,
            coordinator=lambda: self.coordinator,
            replicas=self.replicas,
            appends=self.appends,
            commits=self.commits,
            loading=self.loading,
            is_count_fixed=True,
        )
        self.verification = VerificationQueues(
            peers=self.peers,
            coordinator_of=self.transaction_host.coordinator_of,
            clock=environment.clock,
            tasks=environment.tasks,
            tracer=environment.tracer,
            node=self.node,
            rules=self.release.rules,
        )
        self.group_host = GroupHost(
            broker_id=self.broker_id,
            environment=environment,
            settings=lambda: self.settings,
            rules=self.release.rules,
            replicas=self.replicas,
            appends=self.appends,
            commits=self.commits,
            verification=self.verification,
            loading=self.loading,
            crossings=self.crossings,
            partitions=_partitions_of(metadata.image, CONSUMER_OFFSETS_TOPIC),
        )
        self.coordinator = TransactionCoordinator(
            broker_id=self.broker_id,
            clock=environment.clock,
            settings=metadata.settings,
            tasks=environment.tasks,
            tracer=environment.tracer,
            log=self.transaction_host,
            send_markers=self.peers.write_txn_markers,
            leader_of=self._leader_of,
            allocate_producer_ids=self._allocate_producer_ids,
            partitions=_partitions_of(metadata.image, TRANSACTION_STATE_TOPIC),
            timers=self._timers,
            rules=self.release.rules,
        )
        self.coordinator.level = _transaction_version(metadata.image)

    def _make_request_paths(self, environment: Environment) -> None:
        """What clients and coordinators ask of a partition leader."""
        self.marker_writes = MarkerWrites(
            replicas=self.replicas,
            appends=self.appends,
            commits=self.commits,
            groups=self.group_host,
            rules=self.release.rules,
        )
        self.producing = Producing(
            clock=environment.clock,
            tasks=environment.tasks,
            replicas=self.replicas,
            appends=self.appends,
            commits=self.commits,
            verification=self.verification,
            log_events=self.log_events,
            rules=self.release.rules,
        )
        self.fetching = Fetching(
            settings=lambda: self.settings,
            replicas=self.replicas,
            purgatory=self.purgatory,
            crossings=self.crossings,
        )
        new_bits = environment.rng.stream(f"client-instances.b{self.broker_id}").getrandbits
        self.client_metrics = ClientMetrics(
            max_bytes=self.metadata.settings.telemetry_max_bytes,
            new_id=lambda: uuid.UUID(int=new_bits(128), version=4),
        )
        self.fetch_sessions = FetchSessions(
            slots=self.metadata.settings.max_incremental_fetch_session_cache_slots,
            draw=environment.rng.stream(f"fetch-sessions.b{self.broker_id}").randrange,
            partitions=self.metadata.settings.fetch_session_partitions_max,
        )

    # Life

    def start(self) -> None:
        """Become reachable for peers and start the timers."""
        now_ms = self.environment.clock.now_ms()
        self.logs.reopen(self.metadata.image, self.broker_id, now_ms=now_ms)
        self.environment.network.register(self.broker_id, self.handle_peer)
        self._unsubscribe = self.metadata.subscribe(self._intake.receive, broker_id=self.broker_id)
        self.apply(self.metadata.image)
        self.coordinator.start()
        self.group_host.start()
        self.isr_changes.start()
        self.log_maintenance.start()
        self.housekeeping.start()

    def stop(self) -> None:
        """Answer parked requests, stop the timers, become unreachable."""
        self.crossings.stop()
        self.peers.close()
        self.environment.network.unregister(self.broker_id)
        if self._unsubscribe is not None:
            self._unsubscribe()
        self.loading.stop()
        self.log_maintenance.stop()
        self.housekeeping.stop()
        self.coordinator.stop()
        self.group_host.stop()
        self.isr_changes.stop()
        self.replica_fetchers.stop()
        self.replica_sessions.stop()
        self.purgatory.release_all()

    def apply(self, image: ClusterImage) -> None:
        """Take over a new image in one step."""
        for _ in self.apply_in_steps(image):
            pass

    def apply_in_steps(self, image: ClusterImage) -> Generator[int, None, None]:
        """Take over a new image: host, lead, load and unload what it says. Each step yields how
        much it was.
        """
        self.settings = self.replicas.dynamic = self._effective_settings(image)
        self.coordinator.level = _transaction_version(image)
        self.peers.apply(image.features.get(METADATA_VERSION, 0))
        changes = yield from self.replicas.apply_in_steps(
            image, now_ms=self.environment.clock.monotonic_ms()
        )
        self.coordinator.leaders_changed()
        if self.environment.tracer.on:
            for topic_partition, epoch in changes.led:
                log = self.replicas.led[topic_partition]
                self.log_events.led(log, epoch, self.replicas.count(topic_partition))
            for partition in changes.regrouped:
                self.log_events.regrouped(partition.log, len(partition.replicas))
        for topic_partition, _ in changes.lost:
            self.purgatory.release(topic_partition)
        for topic_partition in changes.deleted:
            self.purgatory.release(topic_partition)
        self.transaction_host.apply(changes, image)
        self.group_host.apply(changes, image)
        for partition in changes.regrouped:
            self.watermarks.advance(partition)
            yield 1
        if changes.followed or changes.unfollowed:
            self.replica_fetchers.apply(changes.followed, changes.unfollowed)

    def fail_directory(self) -> None:
        """The log directory goes offline: its replicas are not served any more, the controller
        hears of it (ReplicaManager.handleLogDirFailure).
        """
        if self.logs.has_failed or self.crossings.is_stopped:
            return
        self.logs.has_failed = True
        _log.error("broker.directory_failed", broker=self.broker_id)
        led = tuple(self.replicas.led)
        self.replica_fetchers.apply((), self.replicas.directory_failed())
        self.transaction_host.directory_failed()
        self.group_host.directory_failed()
        for topic_partition in led:
            self.purgatory.release(topic_partition)
        self.on_directory_failure()

    async def up_to_date(self) -> None:
        await self._intake.up_to_date()

    # Queries

    @cached_property
    def groups(self) -> GroupCoordinator:
        return self.group_host.coordinator

    @property
    def image(self) -> ClusterImage:
        """The metadata as this broker knows it."""
        return self.replicas.image

    @property
    def reaches_controller(self) -> bool:
        """Whether requests for changes can be forwarded."""
        return self.environment.network.reaches(self.broker_id, CONTROLLER_ID)

    def transaction_version(self) -> TransactionVersion:
        """The finalized level of ``transaction.version``."""
        return self.coordinator.level

    def transaction_coordinator_of(self, transactional_id: TransactionalId) -> BrokerId | None:
        """The live broker that coordinates this id; None where there is none at the moment."""
        return self.transaction_host.coordinator_of(transactional_id)

    # What peers ask

    def handle_peer(
        self, api_key: int, api_version: int, command: object, source: BrokerId
    ) -> Awaitable[object]:
        """Answer a request of a broker, this one included."""
        if api_key == FETCH and isinstance(command, ReplicaFetchCommand):
            return self.replica_sessions.fetch(command)
        if api_key == ADD_PARTITIONS_TO_TXN and isinstance(command, AddPartitionsToTxnCommand):
            return self.add_partitions_to_txn(command)
        if api_key == WRITE_TXN_MARKERS and isinstance(command, WriteTxnMarkersCommand):
            return self.write_txn_markers(command)
        if api_key == LIST_OFFSETS and isinstance(command, ReplicaOffsetCommand):
            return _at_once(self.replica_sessions.offset(command))
        raise InvariantViolation(
            f"broker {source} asked {self.node} for API {api_key} v{api_version} with "
            f"{type(command).__name__}"
        )

    async def add_partitions_to_txn(
        self, command: AddPartitionsToTxnCommand
    ) -> AddPartitionsToTxnReply:
        """AddPartitionsToTxn v4+: verify or add, each transaction by itself
        (KafkaApis.handleAddPartitionsToTxnRequest).
        """
        results = []
        for transaction in command.transactions:
            image, unknown = self.replicas.image, set()
            for partition in transaction.partitions:
                if image.partition(partition) is None:
                    unknown.add(partition)
            if unknown:
                errors = _not_attempted(transaction.partitions, unknown)
            elif transaction.verify_only:
                verified = self.coordinator.verify(
                    VerifyPartitions(
                        transactional_id=transaction.transactional_id,
                        producer_id=transaction.producer_id,
                        producer_epoch=transaction.producer_epoch,
                        partitions=transaction.partitions,
                    )
                )
                errors = (
                    tuple(zip(transaction.partitions, repeat(verified.error), strict=False))
                    if isinstance(verified, Rejection)
                    else verified.results
                )
            else:
                added = await self.coordinator.add_partitions(
                    AddPartitions(
                        transactional_id=transaction.transactional_id,
                        producer_id=transaction.producer_id,
                        producer_epoch=transaction.producer_epoch,
                        partitions=frozenset(transaction.partitions),
                        transaction_version=TransactionVersion.TV_2,
                    )
                )
                error = added.error if isinstance(added, Rejection) else ErrorCode.none
                if error is ErrorCode.unsupported_version:
                    # A record that can't be built is an exception, and that fails the whole batch.
                    return AddPartitionsToTxnReply(error=error)
                errors = tuple(zip(transaction.partitions, repeat(error), strict=False))
            results.append((transaction.transactional_id, errors))
        return AddPartitionsToTxnReply(results=tuple(results))

    def write_txn_markers(
        self, command: WriteTxnMarkersCommand
    ) -> Coroutine[Any, Any, WriteTxnMarkersReply]:
        """Write the markers that this broker leads; many of them with breaks."""
        pace = None
        count = 0
        for marker in command.markers:
            count += len(marker.partitions)
        if count > MARKERS_AT_ONCE:
            pace = Pace(self.environment.tasks.turns, self.environment.clock.stopwatch_ns)
        return self.marker_writes.write(command, pace)

    # Parts: transactions

    def _leader_of(self, topic_partition: TopicPartition) -> LeaderLookup:
        image = self.replicas.image
        partition = image.partition(topic_partition)
        if partition is None:
            return NoLeader.NO_SUCH_PARTITION
        leader = image.brokers.get(partition.leader)
        if leader is not None and leader.alive:
            return partition.leader
        keeps = self.release.rules.leaderless_partitions_keep_markers
        if partition.leader == NO_LEADER and not keeps:
            # KRaftMetadataCache.getPartitionLeaderEndpoint: empty, as if it did not exist
            # (KAFKA-20734)
            return NoLeader.NO_SUCH_PARTITION
        return NoLeader.UNKNOWN

    async def _allocate_producer_ids(self) -> AllocateProducerIdsReply:
        return await self.peers.allocate_producer_ids(
            AllocateProducerIdsCommand(
                broker_id=self.broker_id, broker_epoch=self.image.brokers[self.broker_id].epoch
            )
        )

    # Parts: housekeeping

    def _effective_settings(self, image: ClusterImage) -> Settings:
        return configs.effective_settings(self.metadata.settings, image, self.broker_id)


def _not_attempted(
    partitions: tuple[TopicPartition, ...], unknown: Collection[TopicPartition]
) -> _PartitionErrors:
    """The answer where some of the partitions do not exist."""
    return tuple(
        (
            partition,
            ErrorCode.unknown_topic_or_partition
            if partition in unknown
            else ErrorCode.operation_not_attempted,
        )
        for partition in partitions
    )


async def _at_once(reply: object) -> object:
    return reply


def _partitions_of(image: ClusterImage, topic: str) -> int | None:
    found = image.topics.get(topic)
    return None if found is None else len(found.partitions)


def _transaction_version(image: ClusterImage) -> TransactionVersion:
    return TransactionVersion(image.features.get(TRANSACTION_VERSION, 0))
