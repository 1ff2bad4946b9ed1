"""One broker: the partitions it leads, the coordinators it hosts, the requests of its peers.

A broker knows the others only through ``Peers`` and the image that ``Metadata`` publishes. This
module only composes its parts; the rules are in those. Kafka's counterpart: BrokerServer.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, cast

from txnsim.broker._housekeeping import Housekeeping
from txnsim.broker._marker_writes import MarkerWrites
from txnsim.broker._peer_requests import PeerRequests
from txnsim.broker._share_host import ShareHost
from txnsim.broker._share_persister import SharePersister
from txnsim.broker.coordinator_host import CoordinatorHost, GroupHost
from txnsim.broker.fetch import FetchPath
from txnsim.broker.produce import ProducePath
from txnsim.broker.verification import VerificationQueues
from txnsim.controller.controller import TopicToCreate
from txnsim.coordinators.txn.service import TransactionCoordinator
from txnsim.errors import ErrorCode, PeerError, PeerTimeoutError, Rejection
from txnsim.interbroker.transactions import AllocateProducerIdsCommand, AllocateProducerIdsReply
from txnsim.loggers import Logger
from txnsim.metadata import configs
from txnsim.metadata.client_metrics import ClientMetrics
from txnsim.metadata.image import (
    METADATA_VERSION,
    NO_LEADER,
    TRANSACTION_VERSION,
    ClusterImage,
    TopicImage,
)
from txnsim.node.broker_fault_points import BrokerFaultPoints, timer_gate
from txnsim.node.coordinator_loading import CoordinatorLoading
from txnsim.node.image_intake import ImageIntake
from txnsim.node.log_gate import LogGate
from txnsim.node.metadata_publisher import Metadata
from txnsim.node.peers import CONTROLLER_ID, Peers
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
from txnsim.runtime.environment import Environment
from txnsim.settings import Settings
from txnsim.txn.markers import LeaderLookup, NoLeader
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)

if TYPE_CHECKING:
    from txnsim.broker._share_partitions import Watched
    from txnsim.broker.share_fetch import ShareFetchPath
    from txnsim.coordinators.group.service import GroupCoordinator


_log: Final = Logger("txnsim.cluster")
CHANGES_PER_STEP: Final = 16
"""Number of changed partitions that count as one element of work for a coordinator's host."""


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
        self.release = metadata.fleet.release_of(broker_id)
        """The release whose API versions and rules this broker follows."""
        self.settings = self._effective_settings(metadata.image)
        logs.rules = self.release.rules
        self.logs = logs
        """The broker's disk, which outlives the broker."""
        self.replicas = Replicas(
            broker_id=broker_id,
            logs=logs,
            image=ClusterImage(cluster_id=metadata.image.cluster_id),
            settings=metadata.settings,
            dynamic_settings=self.settings,
        )
        self.purgatory: Purgatory[TopicPartition] = Purgatory(environment.clock, environment.tasks)
        self.peers = Peers(
            network=environment.network,
            broker_id=broker_id,
            request_timeout_ms=metadata.settings.request_timeout_ms,
            fleet=metadata.fleet,
        )
        self.log_events = AppendEvents(environment.tracer, self.node)
        self.fault_points = BrokerFaultPoints(
            node=self.node, network=environment.network, tasks=environment.tasks
        )
        self.log_gate = LogGate(
            fault_points=self.fault_points, disk=logs, directory_failed=self.fail_directory
        )
        self.on_directory_failure: Callable[[], object] = lambda: None
        """Called when the log directory goes offline, so that the owner of this broker learns of
        it.
        """
        self._intake = ImageIntake(
            broker_id=broker_id,
            fault_points=self.fault_points,
            current_image=lambda: self.image,
            take_up=self.apply_in_steps,
            clock=environment.clock,
        )
        self._timers = timer_gate(self.fault_points)
        self._make_replication(environment)
        self._make_coordinators(environment)
        self._make_share_coordinator(environment)
        self._make_request_paths(environment)
        self._unsubscribe: Callable[[], None] | None = None

    # Parts, in the order in which they need one another

    def _make_replication(self, environment: Environment) -> None:
        """Make the parts that replicate records, and those that wait for replication."""
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
        self.deletions = Deletions(
            replicas=self.replicas,
            purgatory=self.purgatory,
            watermarks=self.watermarks,
        )
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
            tasks=environment.tasks,
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
        """Make the coordinators of transactions and groups, and the parts that ask coordinators on
        other brokers.
        """
        metadata = self.metadata
        self.loading = CoordinatorLoading(
            fault_points=self.fault_points,
            clock=environment.clock,
            tasks=environment.tasks,
            min_ms=metadata.settings.coordinator_load_min_ms,
        )
        self.transaction_host = CoordinatorHost(
            topic=TRANSACTION_STATE_TOPIC,
            make_coordinator=lambda: self.coordinator,
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
            read_settings=lambda: self.settings,
            release_rules=self.release.rules,
            replicas=self.replicas,
            appends=self.appends,
            commits=self.commits,
            verification=self.verification,
            loading=self.loading,
            fault_points=self.fault_points,
            share_coordinators=lambda: self.share_persister,
            find_latest_offset=self._latest_offset,
            partition_count=_partitions_of(metadata.image, CONSUMER_OFFSETS_TOPIC),
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
            partition_count=_partitions_of(metadata.image, TRANSACTION_STATE_TOPIC),
            timer_gate=self._timers,
            release_rules=self.release.rules,
        )
        self.coordinator.level = _transaction_version(metadata.image)

    def _make_share_coordinator(self, environment: Environment) -> None:
        """Make the share coordinator, and the part that asks share coordinators."""
        self.share_host = ShareHost(
            broker_id=self.broker_id,
            environment=environment,
            settings=self.metadata.settings,
            release_rules=self.release.rules,
            replicas=self.replicas,
            appends=self.appends,
            commits=self.commits,
            deletions=self.deletions,
            loading=self.loading,
            fault_points=self.fault_points,
            partition_count=_partitions_of(self.metadata.image, SHARE_STATE_TOPIC),
        )
        self.share_persister = SharePersister(
            peers=self.peers,
            coordinator_of=self.share_host.coordinator_of,
            make_topic=partial(self.make_coordinators_topic, SHARE_STATE_TOPIC),
            clock=environment.clock,
            tasks=environment.tasks,
            draw=environment.rng.stream(f"share-persister.b{self.broker_id}").uniform,
        )

    def _make_request_paths(self, environment: Environment) -> None:
        """Make the parts that serve requests to a partition leader."""
        self.marker_writes = MarkerWrites(
            replicas=self.replicas,
            appends=self.appends,
            commits=self.commits,
            groups=self.group_host,
            rules=self.release.rules,
        )
        self.producing = ProducePath(
            clock=environment.clock,
            tasks=environment.tasks,
            replicas=self.replicas,
            appends=self.appends,
            commits=self.commits,
            verification=self.verification,
            log_events=self.log_events,
            rules=self.release.rules,
        )
        self.fetching = FetchPath(
            settings=lambda: self.settings,
            replicas=self.replicas,
            purgatory=self.purgatory,
            fault_points=self.fault_points,
            tracer=environment.tracer,
            node=self.node,
        )
        self.peer_requests = PeerRequests(
            node=self.node,
            clock=environment.clock,
            tasks=environment.tasks,
            replicas=self.replicas,
            coordinator=self.coordinator,
            replica_sessions=self.replica_sessions,
            marker_writes=self.marker_writes,
            producing=self.producing,
            share_host=self.share_host,
        )
        draw_bits = environment.rng.stream(f"client-instances.b{self.broker_id}").getrandbits
        self.client_metrics = ClientMetrics(
            max_bytes=self.metadata.settings.telemetry_max_bytes,
            new_id=lambda: uuid.UUID(int=draw_bits(128), version=4),
        )
        self.fetch_sessions = FetchSessions(
            slot_count=self.metadata.settings.max_incremental_fetch_session_cache_slots,
            draw_number=environment.rng.stream(f"fetch-sessions.b{self.broker_id}").randrange,
            partition_count=self.metadata.settings.fetch_session_partitions_max,
        )

    # Life

    def start(self) -> None:
        """Become reachable for peers and start the timers."""
        now_ms = self.environment.clock.now_ms()
        self.logs.reopen(self.metadata.image, self.broker_id, now_ms=now_ms)
        self.environment.network.register(self.broker_id, self.peer_requests.handle)
        self._unsubscribe = self.metadata.subscribe(self._intake.receive, broker_id=self.broker_id)
        self.apply(self.metadata.image)
        self.coordinator.start()
        self.group_host.start()
        self.share_host.start()
        self.isr_changes.start()
        self.log_maintenance.start()
        self.housekeeping.start()

    def stop(self) -> None:
        """Answer parked requests, stop the timers, become unreachable."""
        self.fault_points.stop()
        self.peers.close()
        self.environment.network.unregister(self.broker_id)
        if self._unsubscribe is not None:
            self._unsubscribe()
        self.loading.stop()
        self.log_maintenance.stop()
        self.housekeeping.stop()
        self.coordinator.stop()
        self.group_host.stop()
        self.share_persister.stop()
        if self.made_share_fetching is not None:
            self.made_share_fetching.stop()
        self.share_host.stop()
        self.isr_changes.stop()
        self.replica_fetchers.stop()
        self.replica_sessions.stop()
        self.purgatory.release_all()

    def apply(self, image: ClusterImage) -> None:
        """Apply a new image in one step."""
        for _ in self.apply_in_steps(image):
            pass

    def apply_in_steps(self, image: ClusterImage) -> Generator[int, None, None]:
        """Apply a new image: host, lead, load and unload partitions as it says. Each step yields
        how much work it was.
        """
        self.settings = self.replicas.dynamic_settings = self._effective_settings(image)
        self.coordinator.level = _transaction_version(image)
        self.peers.apply(image.features.get(METADATA_VERSION, 0))
        leadership_changes = yield from self.replicas.apply_in_steps(
            image, now_ms=self.environment.clock.monotonic_ms()
        )
        self.coordinator.leaders_changed()
        if self.environment.tracer.on:
            for topic_partition, epoch in leadership_changes.led_partitions:
                log = self.replicas.led[topic_partition]
                self.log_events.trace_leadership(
                    log, epoch, self.replicas.replica_count(topic_partition)
                )
            for leader_partition in leadership_changes.regrouped_partitions:
                self.log_events.trace_replicas(leader_partition.log, len(leader_partition.replicas))
        for topic_partition, _ in leadership_changes.lost_partitions:
            self.purgatory.release(topic_partition)
        for topic_partition in leadership_changes.deleted_partitions:
            self.purgatory.release(topic_partition)
            self.log_events.forget(topic_partition)
            yield 1
        for host in (self.transaction_host, self.group_host, self.share_host):
            host.apply(leadership_changes, image)
            yield (
                len(leadership_changes.led_partitions)
                + len(leadership_changes.lost_partitions)
                + len(leadership_changes.deleted_partitions)
            ) // CHANGES_PER_STEP
        if self.made_share_fetching is not None:
            self.made_share_fetching.apply(leadership_changes, image)
        for leader_partition in leadership_changes.regrouped_partitions:
            self.watermarks.advance(leader_partition)
            yield 1
        if leadership_changes.followed_replicas or leadership_changes.unfollowed_partitions:
            self.replica_fetchers.apply(
                leadership_changes.followed_replicas, leadership_changes.unfollowed_partitions
            )

    def fail_directory(self) -> None:
        """Take the log directory offline: its replicas are no longer served, and the controller is
        told (ReplicaManager.handleLogDirFailure).
        """
        if self.logs.has_failed or self.fault_points.is_stopped:
            return
        self.logs.has_failed = True
        _log.error("broker.directory_failed", broker=self.broker_id)
        led_partitions = tuple(self.replicas.led)
        self.replica_fetchers.apply((), self.replicas.take_offline())
        self.transaction_host.directory_failed()
        self.group_host.directory_failed()
        self.share_host.directory_failed()
        if self.made_share_fetching is not None:
            self.made_share_fetching.shares.forget_partitions(led_partitions)
        for topic_partition in led_partitions:
            self.purgatory.release(topic_partition)
        self.on_directory_failure()

    async def wait_until_up_to_date(self) -> None:
        await self._intake.wait_until_up_to_date()

    # Queries

    @cached_property
    def groups(self) -> GroupCoordinator:
        return self.group_host.coordinator

    @cached_property
    def share_fetching(self) -> ShareFetchPath:
        """ShareFetch and ShareAcknowledge at this leader; created by the first request."""
        from txnsim.broker._dead_letters import DeadLetters
        from txnsim.broker._share_meters import ShareMeter
        from txnsim.broker._share_partitions import SharePartitions
        from txnsim.broker.share_fetch import ShareFetchPath

        environment = self.environment
        purgatory = cast("Purgatory[Watched]", self.purgatory)
        return ShareFetchPath(
            read_settings=lambda: self.settings,
            replicas=self.replicas,
            fetch_path=self.fetching,
            purgatory=purgatory,
            shares=SharePartitions(
                clock=environment.clock,
                tasks=environment.tasks,
                read_settings=lambda: self.settings,
                replicas=self.replicas,
                persister=self.share_persister,
                letters=DeadLetters(
                    replicas=self.replicas,
                    peers=self.peers,
                    read_settings=lambda: self.settings,
                    leader_of=self._leader_or_none,
                    make_topic=self._make_topic,
                    clock=environment.clock,
                    tasks=environment.tasks,
                    draw=environment.rng.stream(f"dead-letters.b{self.broker_id}").uniform,
                    meter=ShareMeter(),
                ),
                purgatory=purgatory,
                fault_points=self.fault_points,
                tracer=environment.tracer,
                node=self.node,
                release_rules=self.release.rules,
            ),
            draw=environment.rng.stream(f"share-fetch.b{self.broker_id}").randrange,
        )

    @property
    def made_share_fetching(self) -> ShareFetchPath | None:
        """``share_fetching``, or None before the first request of a share group."""
        return self.__dict__.get("share_fetching")

    @property
    def image(self) -> ClusterImage:
        """The metadata as this broker knows it."""
        return self.replicas.image

    @property
    def reaches_controller(self) -> bool:
        """Whether this broker can reach the controller to forward requests."""
        return self.environment.network.reaches(self.broker_id, CONTROLLER_ID)

    def transaction_version(self) -> TransactionVersion:
        """The finalized level of ``transaction.version``."""
        return self.coordinator.level

    def transaction_coordinator_of(self, transactional_id: TransactionalId) -> BrokerId | None:
        """The live broker that coordinates this id; None if there is none now."""
        return self.transaction_host.coordinator_of(transactional_id)

    def make_coordinators_topic(self, name: str) -> None:
        """Have a coordinator's topic created, because a client looks for the coordinator."""
        if name not in self.image.topics and self.reaches_controller:
            self.metadata.auto_create(name)

    # What other parts ask of this one

    def _leader_of(self, topic_partition: TopicPartition) -> LeaderLookup:
        image = self.replicas.image
        partition = image.partition(topic_partition)
        if partition is None:
            return NoLeader.NO_SUCH_PARTITION
        leader = image.brokers.get(partition.leader)
        if leader is not None and leader.alive:
            return partition.leader
        keeps_markers = self.release.rules.leaderless_partitions_keep_markers
        if partition.leader == NO_LEADER and not keeps_markers:
            # KRaftMetadataCache.getPartitionLeaderEndpoint: empty, as if it did not exist
            # (KAFKA-20734)
            return NoLeader.NO_SUCH_PARTITION
        return NoLeader.UNKNOWN

    def _leader_or_none(self, topic_partition: TopicPartition) -> BrokerId | None:
        leader = self._leader_of(topic_partition)
        return None if isinstance(leader, NoLeader) else leader

    def _make_topic(self, topic: TopicToCreate) -> TopicImage | Rejection:
        if not self.reaches_controller:
            return Rejection(error=ErrorCode.not_leader_or_follower, reason="no controller")
        return self.metadata.create_topic(topic)

    async def _allocate_producer_ids(self) -> AllocateProducerIdsReply:
        return await self.peers.allocate_producer_ids(
            AllocateProducerIdsCommand(
                broker_id=self.broker_id, broker_epoch=self.image.brokers[self.broker_id].epoch
            )
        )

    async def _latest_offset(self, topic_partition: TopicPartition) -> int | Rejection:
        """The end offset of a log, as its leader answers a consumer
        (NetworkPartitionMetadataClient).
        """
        leader = self._leader_of(topic_partition)
        if isinstance(leader, NoLeader):
            return Rejection(
                error=ErrorCode.leader_not_available, reason=f"{topic_partition} has no leader"
            )
        try:
            answer = await self.peers.latest_offset(leader, topic_partition)
        except PeerTimeoutError as error:
            return Rejection(error=ErrorCode.request_timed_out, reason=str(error))
        except PeerError as error:
            return Rejection(error=ErrorCode.network_exception, reason=str(error))
        if answer.error:
            return Rejection(error=ErrorCode(answer.error), reason=f"broker {leader} refused")
        return answer.offset

    def _effective_settings(self, image: ClusterImage) -> Settings:
        return configs.effective_settings(
            self.metadata.settings, image, self.broker_id, release_rules=self.release.rules
        )


def _partitions_of(image: ClusterImage, topic: str) -> int | None:
    topic_image = image.topics.get(topic)
    return None if topic_image is None else len(topic_image.partitions)


def _transaction_version(image: ClusterImage) -> TransactionVersion:
    return TransactionVersion(image.features.get(TRANSACTION_VERSION, 0))
