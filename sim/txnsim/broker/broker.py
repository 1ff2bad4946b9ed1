"""One broker: the partitions it leads, the coordinators it hosts, the requests of its peers.

A broker knows the others only through ``Peers`` and the image that ``Metadata`` publishes. This
module only composes its parts; the rules are in those. Kafka's counterparts: BrokerServer and, for
requests of peers, the inter-broker half of KafkaApis.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Mapping, Sequence
from functools import cached_property, partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import msgspec

from txnsim.broker._coordinator_host import CoordinatorHost, GroupHost
from txnsim.broker._share_host import ShareHost
from txnsim.broker._share_persister import SharePersister
from txnsim.broker.fetch import Fetching
from txnsim.broker.produce import ACKS_ALL, ProduceCommand, ProducePartition, Producing
from txnsim.broker.verification import TransactionOperation, VerificationQueues
from txnsim.controller.controller import TopicToCreate
from txnsim.coordinators.txn.service import TransactionCoordinator
from txnsim.errors import ErrorCode, InvariantViolation, PeerError, PeerTimeoutError, Rejection
from txnsim.faults.subjects import Subject
from txnsim.interbroker.dead_letters import DeadLettersCommand, DeadLettersReply
from txnsim.interbroker.replication import ReplicaFetchCommand, ReplicaOffsetCommand
from txnsim.interbroker.transactions import (
    AddPartitionsToTxnCommand,
    AddPartitionsToTxnReply,
    AllocateProducerIdsCommand,
    AllocateProducerIdsReply,
    TxnMarker,
    WriteTxnMarkersCommand,
    WriteTxnMarkersReply,
)
from txnsim.log.answers import Appended
from txnsim.log.leader_append import append_marker
from txnsim.log.partition_log import PartitionLog
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
from txnsim.node.broker_fault_points import BrokerFaultPoints, TimerGate, timer_gate
from txnsim.node.coordinator_loading import CoordinatorLoading
from txnsim.node.image_intake import ImageIntake
from txnsim.node.log_events import LogEvents
from txnsim.node.log_gate import MARKER, LogGate
from txnsim.node.metadata_publisher import Metadata
from txnsim.node.peers import (
    ADD_PARTITIONS_TO_TXN,
    CONTROLLER_ID,
    FETCH,
    LIST_OFFSETS,
    PRODUCE,
    SHARE_STATE,
    WRITE_TXN_MARKERS,
    Peers,
    ShareAnswer,
    ShareCommand,
)
from txnsim.node.purgatory import Purgatory
from txnsim.releases.rules import Rules
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.replica.fetch_sessions import FetchSessions
from txnsim.replica.replicas import Replicas
from txnsim.replication.append_events import AppendEvents
from txnsim.replication.deletions import Deletions
from txnsim.replication.isr_changes import IsrChanges
from txnsim.replication.leader_appends import (
    Appends,
    Commits,
    LeaderAppends,
    WaitingBatch,
    Watermarks,
)
from txnsim.replication.log_maintenance import LogMaintenance
from txnsim.replication.replica_fetcher import ReplicaFetchers
from txnsim.replication.replica_sessions import ReplicaSessions
from txnsim.runtime.environment import Clock, Environment, Tasks, TimerHandle
from txnsim.runtime.loop_turns import Pace
from txnsim.runtime.tasks import Pending, ignore_end, ready_value
from txnsim.settings import Settings
from txnsim.txn.commands import AddPartitions, VerifyPartitions
from txnsim.txn.markers import LeaderLookup, NoLeader
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    ProducerId,
    TopicPartition,
    TransactionalId,
    TransactionVersion,
)
from txnsim.wire.batch_header import read_batch_header

if TYPE_CHECKING:
    from txnsim.broker._share_partitions import Watched
    from txnsim.broker.share_fetch import ShareFetching
    from txnsim.coordinators.group.service import GroupCoordinator


_PartitionErrors = tuple[tuple[TopicPartition, int], ...]
_log_state: Final = Logger("txnsim.cluster")
DEAD_LETTERS_TIMEOUT_MS: Final = 30_000
"""Timeout of a Produce request with dead letters."""
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
            current=lambda: self.image,
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
            fault_points=self.fault_points,
            share_coordinators=lambda: self.share_persister,
            latest_offset=self._latest_offset,
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

    def _make_share_coordinator(self, environment: Environment) -> None:
        """Make the share coordinator, and the part that asks share coordinators."""
        self.share_host = ShareHost(
            broker_id=self.broker_id,
            environment=environment,
            settings=self.metadata.settings,
            rules=self.release.rules,
            replicas=self.replicas,
            appends=self.appends,
            commits=self.commits,
            deletions=self.deletions,
            loading=self.loading,
            fault_points=self.fault_points,
            partitions=_partitions_of(self.metadata.image, SHARE_STATE_TOPIC),
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
            fault_points=self.fault_points,
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
        if self.shares_made is not None:
            self.shares_made.stop()
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
                self.log_events.trace_leadership(log, epoch, self.replicas.count(topic_partition))
            for partition in changes.regrouped:
                self.log_events.trace_replicas(partition.log, len(partition.replicas))
        for topic_partition, _ in changes.lost:
            self.purgatory.release(topic_partition)
        for topic_partition in changes.deleted:
            self.purgatory.release(topic_partition)
            yield 1
        for host in (self.transaction_host, self.group_host, self.share_host):
            host.apply(changes, image)
            yield (len(changes.led) + len(changes.lost) + len(changes.deleted)) // CHANGES_PER_STEP
        if self.shares_made is not None:
            self.shares_made.apply(changes, image)
        for partition in changes.regrouped:
            self.watermarks.advance(partition)
            yield 1
        if changes.followed or changes.unfollowed:
            self.replica_fetchers.apply(changes.followed, changes.unfollowed)

    def fail_directory(self) -> None:
        """Take the log directory offline: its replicas are no longer served, and the controller is
        told (ReplicaManager.handleLogDirFailure).
        """
        if self.logs.has_failed or self.fault_points.is_stopped:
            return
        self.logs.has_failed = True
        _log_state.error("broker.directory_failed", broker=self.broker_id)
        led_partitions = tuple(self.replicas.led)
        self.replica_fetchers.apply((), self.replicas.directory_failed())
        self.transaction_host.directory_failed()
        self.group_host.directory_failed()
        self.share_host.directory_failed()
        if self.shares_made is not None:
            self.shares_made.shares.forget_partitions(led_partitions)
        for topic_partition in led_partitions:
            self.purgatory.release(topic_partition)
        self.on_directory_failure()

    async def up_to_date(self) -> None:
        await self._intake.up_to_date()

    # Queries

    @cached_property
    def groups(self) -> GroupCoordinator:
        return self.group_host.coordinator

    @cached_property
    def share_fetching(self) -> ShareFetching:
        """ShareFetch and ShareAcknowledge at this leader; created by the first request."""
        from txnsim.broker._dead_letters import DeadLetters
        from txnsim.broker._share_meters import ShareMeter
        from txnsim.broker._share_partitions import SharePartitions
        from txnsim.broker.share_fetch import ShareFetching

        environment = self.environment
        purgatory = cast("Purgatory[Watched]", self.purgatory)
        return ShareFetching(
            settings=lambda: self.settings,
            replicas=self.replicas,
            fetching=self.fetching,
            purgatory=purgatory,
            shares=SharePartitions(
                clock=environment.clock,
                tasks=environment.tasks,
                settings=lambda: self.settings,
                replicas=self.replicas,
                persister=self.share_persister,
                letters=DeadLetters(
                    replicas=self.replicas,
                    peers=self.peers,
                    settings=lambda: self.settings,
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
                rules=self.release.rules,
            ),
            draw=environment.rng.stream(f"share-fetch.b{self.broker_id}").randrange,
        )

    @property
    def shares_made(self) -> ShareFetching | None:
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

    # What peers ask

    def handle_peer(
        self, api_key: int, api_version: int, command: object, source: BrokerId
    ) -> Awaitable[object]:
        """Answer a request from a broker, which may be this one."""
        if api_key == FETCH and isinstance(command, ReplicaFetchCommand):
            return self.replica_sessions.fetch(command)
        if api_key == ADD_PARTITIONS_TO_TXN and isinstance(command, AddPartitionsToTxnCommand):
            return self.add_partitions_to_txn(command)
        if api_key == WRITE_TXN_MARKERS and isinstance(command, WriteTxnMarkersCommand):
            return self.write_txn_markers(command)
        if api_key == LIST_OFFSETS and isinstance(command, ReplicaOffsetCommand):
            return ready_value(self.replica_sessions.list_offset(command))
        if api_key == PRODUCE and isinstance(command, DeadLettersCommand):
            return self.append_dead_letters(command)
        if api_key in SHARE_STATE and isinstance(command, tuple):
            return self.share_state(api_key, command)
        raise InvariantViolation(
            f"broker {source} asked {self.node} for API {api_key} v{api_version} with "
            f"{type(command).__name__}"
        )

    async def add_partitions_to_txn(
        self, command: AddPartitionsToTxnCommand
    ) -> AddPartitionsToTxnReply:
        """AddPartitionsToTxn v4+: verify or add partitions, each transaction separately
        (KafkaApis.handleAddPartitionsToTxnRequest).
        """
        results = []
        for transaction in command.transactions:
            image, unknown_partitions = self.replicas.image, set()
            for partition in transaction.partitions:
                if image.partition(partition) is None:
                    unknown_partitions.add(partition)
            if unknown_partitions:
                errors = _not_attempted(transaction.partitions, unknown_partitions)
            elif transaction.verify_only:
                verification = self.coordinator.verify(
                    VerifyPartitions(
                        transactional_id=transaction.transactional_id,
                        producer_id=transaction.producer_id,
                        producer_epoch=transaction.producer_epoch,
                        partitions=transaction.partitions,
                    )
                )
                errors = (
                    tuple(zip(transaction.partitions, repeat(verification.error), strict=False))
                    if isinstance(verification, Rejection)
                    else verification.partition_errors
                )
            else:
                addition = await self.coordinator.add_partitions(
                    AddPartitions(
                        transactional_id=transaction.transactional_id,
                        producer_id=transaction.producer_id,
                        producer_epoch=transaction.producer_epoch,
                        partitions=frozenset(transaction.partitions),
                        transaction_version=TransactionVersion.TV_2,
                    )
                )
                error = addition.error if isinstance(addition, Rejection) else ErrorCode.none
                if error is ErrorCode.unsupported_version:
                    # A record that can't be built is an exception, and that fails the whole batch.
                    return AddPartitionsToTxnReply(error=error)
                errors = tuple(zip(transaction.partitions, repeat(error), strict=False))
            results.append((transaction.transactional_id, errors))
        return AddPartitionsToTxnReply(results=tuple(results))

    async def append_dead_letters(self, command: DeadLettersCommand) -> DeadLettersReply:
        """Append dead letters that arrive in a Produce with acks=all."""
        topic_partition = command.topic_partition
        partition_batch = ProducePartition(
            topic_partition=topic_partition,
            batch=command.batch,
            header=read_batch_header(command.batch),
        )
        outcomes = await self.producing.produce(
            ProduceCommand(
                transactional_id=None,
                acks=ACKS_ALL,
                timeout_ms=DEAD_LETTERS_TIMEOUT_MS,
                operation=TransactionOperation.ADD_PARTITION,
                partitions=(partition_batch,),
            )
        )
        return DeadLettersReply(
            topic_id=command.topic_id,
            topic_partition=topic_partition,
            error=outcomes[topic_partition].error,
        )

    def share_state(
        self, api_key: int, commands: Sequence[ShareCommand]
    ) -> Coroutine[Any, Any, Sequence[ShareAnswer]]:
        """Answer the request with that API key to the share coordinator; a large one with
        breaks.
        """
        return self.share_host.coordinator.answer(api_key, commands)

    def write_txn_markers(
        self, command: WriteTxnMarkersCommand
    ) -> Coroutine[Any, Any, WriteTxnMarkersReply]:
        """Write markers to the partitions that this broker leads; many of them in slices."""
        pace = None
        marker_count = 0
        for marker in command.markers:
            marker_count += len(marker.partitions)
        if marker_count > MARKERS_AT_ONCE:
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

    # Parts: housekeeping

    def _effective_settings(self, image: ClusterImage) -> Settings:
        return configs.effective_settings(self.metadata.settings, image, self.broker_id)


def _not_attempted(
    partitions: tuple[TopicPartition, ...], unknown_partitions: Collection[TopicPartition]
) -> _PartitionErrors:
    """The answer if some of the partitions do not exist: none was attempted."""
    return tuple(
        (
            partition,
            ErrorCode.unknown_topic_or_partition
            if partition in unknown_partitions
            else ErrorCode.operation_not_attempted,
        )
        for partition in partitions
    )


def _partitions_of(image: ClusterImage, topic: str) -> int | None:
    topic_image = image.topics.get(topic)
    return None if topic_image is None else len(topic_image.partitions)


def _transaction_version(image: ClusterImage) -> TransactionVersion:
    return TransactionVersion(image.features.get(TRANSACTION_VERSION, 0))


# WriteTxnMarkers at a leader: KafkaApis.handleWriteTxnMarkersRequest

MARKERS_AT_ONCE: Final = 500
"""Number of markers that are written without a break, which takes some milliseconds. Coordinators
send all that they owe at once.
"""

_NOT_HOSTED: Final = Rejection(
    error=ErrorCode.unknown_topic_or_partition, reason="the partition is not here"
)
_NOT_HOSTED_FOR_GOOD: Final = Rejection(
    error=ErrorCode.unsupported_for_message_format, reason="the partition is not here"
)
_NOT_LOADED: Final = Rejection(
    error=ErrorCode.not_leader_or_follower, reason="the group's positions are not loaded yet"
)


class _PendingAppends(msgspec.Struct, eq=False):
    """The results that a request has so far, and the appends that it still waits for."""

    appends: Appends = []
    completions: list[tuple[TopicPartition, Pending[ErrorCode]]] = []


class MarkerWrites(msgspec.Struct, kw_only=True, eq=False):
    """Writes markers on one broker."""

    rules: Rules
    appends: LeaderAppends
    replicas: Replicas
    commits: Commits
    groups: GroupHost

    async def write(
        self, command: WriteTxnMarkersCommand, pace: Pace | None = None
    ) -> WriteTxnMarkersReply:
        """Write markers to the partitions that this broker leads; in slices between partitions if
        given a pace.
        """
        pending_appends, now_ms = _PendingAppends(), self.appends.clock.now_ms()
        errors_by_producer: dict[ProducerId, dict[TopicPartition, int]] = {}
        for marker in command.markers:
            if (marker.producer_id < 0 or marker.producer_epoch < 0) and self._has_a_partition(
                marker
            ):
                # MemoryRecords.withEndTransactionMarker throws, and the whole request is answered
                # with what the client sees of any bug: markers before this one are written, those
                # behind it are not.
                return _server_errors(command)
            errors = errors_by_producer.setdefault(marker.producer_id, {})
            for topic_partition in dict.fromkeys(marker.partitions):
                batch = _Marker(
                    partial(append_marker, marker=marker),
                    partial(self.log_for_marker, topic_partition),
                    marker,
                    topic_partition,
                )
                appended = self.appends.append(batch, pending_appends.appends, now_ms=now_ms)
                if not isinstance(appended, Appended | Rejection):
                    appended, now_ms = await appended, self.appends.clock.now_ms()
                if isinstance(appended, Rejection):
                    errors[topic_partition] = appended.error
                else:
                    errors[topic_partition] = ErrorCode.none
                    if topic_partition.topic == CONSUMER_OFFSETS_TOPIC:
                        self._complete_positions(
                            marker, topic_partition, appended.base_offset, pending_appends
                        )
                if pace is not None and pace.has_done(1):
                    await pace.yield_turn()
                    now_ms = self.appends.clock.now_ms()
        appends = pending_appends.appends
        is_forgotten = self._is_never_answered(command, appends)
        late_errors: dict[TopicPartition, ErrorCode] = {}
        if self.commits.are_late(appends):
            timeout_ms = self.replicas.dynamic.request_timeout_ms
            late_errors = await self.commits.wait(appends, timeout_ms=timeout_ms)
        for topic_partition, completion in pending_appends.completions:
            # The positions of the transaction come before the answer (KAFKA-17507).
            completion_error = await completion
            if completion_error:
                late_errors.setdefault(topic_partition, completion_error)
        if late_errors:
            for errors in errors_by_producer.values():
                for topic_partition, error in errors.items():
                    errors[topic_partition] = error or late_errors.get(
                        topic_partition, ErrorCode.none
                    )
        return WriteTxnMarkersReply(
            results=tuple(
                [
                    (producer_id, tuple(errors.items()))
                    for producer_id, errors in errors_by_producer.items()
                    if errors
                ]
            ),
            is_forgotten=is_forgotten,
        )

    # Parts

    def _is_never_answered(self, command: WriteTxnMarkersCommand, appends: Appends) -> bool:
        """Whether Kafka's handler never answers this request.

        It answers when the last append completes. A marker without any partition on this broker
        counts as complete, but there Kafka does not check whether it was the last one. So the
        client gets no answer if such a marker comes last and the earlier appends are complete,
        unless the request has no other markers.

        Nor does it if a marker names a partition twice: Kafka appends the marker once, and waits
        for the second append.
        """
        for marker in command.markers:
            if len(marker.partitions) > 1 and self._names_partition_twice(marker):
                return True
        if not command.markers or self._has_a_partition(command.markers[-1]):
            return False
        is_written = any(map(self._has_a_partition, command.markers))
        return is_written and all(log.high_watermark > offset for log, offset in appends)

    def _names_partition_twice(self, marker: TxnMarker) -> bool:
        """Whether the marker names a partition of this broker twice. The group coordinator's
        partitions are not checked, because it counts them one by one.
        """
        partitions = marker.partitions
        return len(set(partitions)) < len(partitions) and any(
            times_named > 1
            and partition in self.replicas.hosted
            and partition.topic != CONSUMER_OFFSETS_TOPIC
            for partition, times_named in Counter(partitions).items()
        )

    def _has_a_partition(self, marker: TxnMarker) -> bool:
        return not self.replicas.hosted.keys().isdisjoint(marker.partitions)

    def _complete_positions(
        self,
        marker: TxnMarker,
        topic_partition: TopicPartition,
        offset: int,
        pending_appends: _PendingAppends,
    ) -> None:
        """Pass a marker that is in a log of positions to the group coordinator, which completes the
        positions that it ends.
        """
        completion = self.groups.marker_written(topic_partition, marker, offset)
        if completion is not None and self.rules.positions_come_before_answer:
            pending_appends.completions.append((topic_partition, completion))

    def log_for_marker(self, topic_partition: TopicPartition) -> PartitionLog | Rejection:
        """The log for a marker if this broker leads the partition, else the error."""
        # "Not hosted online here" is answered 3 whether or not the partition exists elsewhere: the
        # sender looks the leader up again.
        if topic_partition not in self.replicas.hosted:
            is_retried = self.rules.unhosted_markers_are_retried  # KAFKA-5610
            return _NOT_HOSTED if is_retried else _NOT_HOSTED_FOR_GOOD
        log = self.replicas.led.get(topic_partition)
        if log is None:
            return self.replicas.leader(topic_partition)
        replicated_log = self.replicas.replicated.get(topic_partition)
        if replicated_log is not None and replicated_log.is_under_min_isr:
            return self.appends.refuse_too_few_replicas(log) or log
        is_offsets_topic = topic_partition.topic == CONSUMER_OFFSETS_TOPIC
        if is_offsets_topic and self.groups.refuses_markers(topic_partition):
            return _NOT_LOADED
        return log


class _Marker(WaitingBatch, frozen=True, gc=False):
    """A coordinator's marker, waiting to be appended to a partition of its transaction."""

    kind: ClassVar[str] = MARKER
    marker: TxnMarker
    topic_partition: TopicPartition

    def subject(self) -> Subject:
        return Subject(
            producer_id=self.marker.producer_id,
            partitions=(self.topic_partition,),
            committed=self.marker.committed,
        )

    def trace_append(self, events: AppendEvents, log: PartitionLog, appended: Appended) -> int:
        return events.trace_marker(log, self.marker, appended)

    def trace_refusal(self, events: AppendEvents, refusal: Rejection) -> None:
        events.trace_marker_refusal(self.topic_partition, self.marker, refusal)

    @property
    def aborted_producer_id(self) -> int | None:
        return None if self.marker.committed else self.marker.producer_id


def _server_errors(command: WriteTxnMarkersCommand) -> WriteTxnMarkersReply:
    """UNKNOWN_SERVER_ERROR for every marker; for two markers of one producer only the last one is
    in the answer (WriteTxnMarkersRequest.getErrorResponse).
    """
    server_error = ErrorCode.unknown_server_error
    partitions_by_producer = {marker.producer_id: marker.partitions for marker in command.markers}
    return WriteTxnMarkersReply(
        results=tuple(
            (producer_id, tuple((partition, server_error) for partition in partitions))
            for producer_id, partitions in partitions_by_producer.items()
        )
    )


# Periodic work on logs: the timers of LogManager and ReplicaManager


class Housekeeping(msgspec.Struct, kw_only=True, eq=False):
    """Timers of one broker over the logs that it hosts."""

    clock: Clock
    """Tells when a timer is due."""
    tasks: Tasks
    settings: Callable[[], Settings]
    """Returns the broker's current settings."""
    hosted: Mapping[TopicPartition, PartitionLog]
    """The logs that the broker currently hosts."""
    logs: BrokerLogs
    """The broker's disk."""
    gate: LogGate
    """Refuses batches that do not fit on the disk."""
    timers: TimerGate
    """The ``timer`` fault point of this broker."""
    log_events: LogEvents
    """Traces each producer that expires."""
    _expiry_timer: TimerHandle | None = None
    _checkpoint_timer: TimerHandle | None = None
    _is_stopped: bool = False

    def start(self) -> None:
        """Start the timers."""
        self._arm_expiry()
        self._arm_checkpoint()

    def stop(self) -> None:
        self._is_stopped = True
        for timer in (self._expiry_timer, self._checkpoint_timer):
            if timer is not None:
                timer.cancel()

    def note_log_starts(self) -> None:
        """Write the checkpoint of log start offsets."""
        if self._can_write_checkpoints():
            self.logs.note_log_starts()

    def _arm_expiry(self) -> None:
        interval_ms = self.settings().producer_id_expiration_check_interval_ms
        self._expiry_timer = self.clock.call_at(
            self.clock.now_ms() + interval_ms,
            lambda: self.timers("producer-id-expiration", self._expire, self._arm_expiry),
        )

    def _expire(self) -> None:
        pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
        self.tasks.drive(pace.run(self._expire_in_steps()), ignore_end, name="producers.expiry")
        self._arm_expiry()

    def _expire_in_steps(self) -> Generator[int, None, None]:
        now_ms = self.clock.now_ms()
        for log in list(self.hosted.values()):
            if self._is_stopped:
                return
            expired_producers = log.expire_producers(now_ms)
            if expired_producers and self.log_events.tracer.on:
                self.log_events.timer(
                    "producer.id.expiration",
                    self.settings().producer_id_expiration_check_interval_ms,
                )
                self.log_events.trace_expiry(log, expired_producers)
            yield 1 + len(log.producers.state.by_id) // 4

    def _arm_checkpoint(self) -> None:
        self._checkpoint_timer = self.clock.call_later(
            self.settings().replica_high_watermark_checkpoint_interval_ms, self._checkpoint
        )

    def _checkpoint(self) -> None:
        if self._can_write_checkpoints():
            pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
            checkpoint_steps = self.logs.checkpoint(lambda: self._is_stopped)
            self.tasks.drive(pace.run(checkpoint_steps), ignore_end, name="logs.checkpoint")
        self._arm_checkpoint()

    def _can_write_checkpoints(self) -> bool:
        """Whether checkpoints can be written. They are in the log directory, so a full disk is
        noticed here at the latest (CheckpointFileWithFailureHandler).
        """
        return self.gate.refuse_full() is None and not self.logs.has_failed
