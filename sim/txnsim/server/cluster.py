"""A whole simulated cluster: brokers, links, controller, listeners, clock.

``txnsim serve``, the scenarios, the control port and tests start it. It only puts the parts
together; see ``broker.broker`` for one broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.api.registry import shipped_apis
from txnsim.api.request import ApiTable
from txnsim.broker.broker import Broker
from txnsim.controller import controller
from txnsim.controller.controller import TopicToCreate
from txnsim.controller.partition_growth import grown_topic
from txnsim.errors import ConfigError, Rejection
from txnsim.faults.absent_targets import doubt
from txnsim.faults.plan import FaultRule
from txnsim.injection.injector import Injector
from txnsim.metadata.image import CLIENT_LISTENER, BrokerImage, ClusterImage, TopicImage
from txnsim.node.controller_node import ControllerNode
from txnsim.node.metadata_publisher import Metadata
from txnsim.node.peers import CONTROLLER_ID
from txnsim.on_demand_imports import OnDemand
from txnsim.releases import Fleet, Release, fleet_from, release_named
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.replication.budget_keeper import BudgetKeeper
from txnsim.runtime.clock import SkewedClock
from txnsim.runtime.environment import Environment
from txnsim.runtime.real_world import host_name
from txnsim.security.acls import NO_ACLS
from txnsim.security.options import SecurityOptions, check_security
from txnsim.server._channel_builder import ChannelBuilder, authorizer_of, first_credentials
from txnsim.server._cluster_control import SimClusterControl
from txnsim.server._connection import RequestConnection
from txnsim.server._listener import BrokerListener, Endpoint
from txnsim.server._metadata_trace import MetadataTrace
from txnsim.server._trace_snapshot import open_with_snapshot
from txnsim.server.member import ClusterMember, MemberLifeState
from txnsim.server.options import KIP_TEXT_PORT_DISTANCE, ClusterOptions, port_step
from txnsim.server.snapshot import Snapshot, restore_image
from txnsim.server.user_inputs import describe_run, input_event
from txnsim.settings import Settings
from txnsim.text import EVERYWHERE, host_and_port
from txnsim.txn.producer_ids import FIRST_PRODUCER_ID
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    ProducerId,
    TopicPartition,
)

if TYPE_CHECKING:
    from txnsim.server.disk_loading import LoadedCluster
    from txnsim.server.options import ClusterOptions

if TYPE_CHECKING:
    from txnsim.api.authorization import gate
    from txnsim.api.kip_text import table as kip_text
    from txnsim.server.disk_loading import LoadedCluster
else:
    gate = OnDemand("txnsim.api.authorization.gate")
    kip_text = OnDemand("txnsim.api.kip_text.table")
TURNS_TO_END: Final = 20
"""Turns of the loop after which every released task has ended, however deep its calls are."""


class SimCluster:
    """A running cluster in this process."""

    def __init__(self, environment: Environment, options: ClusterOptions) -> None:
        if options.brokers < 1:
            raise ConfigError(f"a cluster needs at least one broker, asked for {options.brokers}")
        first_id = options.first_broker_id
        if not 0 <= first_id <= CONTROLLER_ID - options.brokers:
            raise ConfigError(
                f"the first broker's id is {first_id}: ids of brokers begin at 0, and the"
                f" controller's is {CONTROLLER_ID}"
            )
        for option_name, values_per_broker in (
            ("racks", options.racks),
            ("ports", options.ports),
            ("advertised", options.advertised),
        ):
            if values_per_broker and len(values_per_broker) != options.brokers:
                raise ConfigError(
                    f"{option_name}: {len(values_per_broker)} for {options.brokers} brokers, one"
                    " for each"
                )
        self.environment = environment
        self.options = options
        self.fleet = fleet_from(
            options.as_version,
            broker_count=options.brokers,
            switched_rules=options.rules,
            broker_ids=options.broker_ids,
        )
        """The Kafka release of each broker."""
        environment.tracer.run = describe_run(environment.tracer.run, options)
        self.members: dict[BrokerId, ClusterMember] = {}
        """All brokers by their ids, running or not."""
        self._bound_listeners: list[BrokerListener] = []
        check_security(options.security)
        self._authorizer = authorizer_of(options.security)
        self._channel_builders = [
            ChannelBuilder(listener, options.security, environment)
            for listener in sorted(
                options.security.listeners,
                # Its address is the one in a broker's image (BrokerImage.address).
                key=lambda listener: listener.name != CLIENT_LISTENER,
            )
        ]
        self.injector = Injector(
            clock=environment.clock,
            tracer=environment.tracer,
            tasks=environment.tasks,
            rng=environment.rng,
            doubt_of=self._doubt,
        )
        """Arms faults: every message on this cluster's network passes it."""
        environment.network.interceptor = self.injector
        open_with_snapshot(self)
        self.injector.cluster_control = SimClusterControl(self)
        self._metadata: Metadata | None = None
        self._controller: ControllerNode | None = None
        self._resetting = asyncio.Lock()

    def _doubt(self, rule: FaultRule, may_topic_come: bool) -> str | None:  # noqa: FBT001 - a callback
        if self._metadata is None:
            return None
        return doubt(
            rule,
            brokers=self.members,
            topics={
                topic_name: len(topic.partitions)
                for topic_name, topic in self.metadata.image.topics.items()
            },
            may_create=may_topic_come and self.options.settings.auto_create_topics_enable,
        )

    @property
    def brokers(self) -> dict[BrokerId, Broker]:
        """The running brokers by their ids."""
        return {
            broker_id: member.broker
            for broker_id, member in self.members.items()
            if member.broker is not None
        }

    @property
    def listeners(self) -> list[BrokerListener]:
        """The listeners of the running brokers."""
        return [member.listener for member in self.members.values() if member.listener is not None]

    @property
    def controller(self) -> ControllerNode:
        """The controller; exists from ``start`` on."""
        assert self._controller is not None
        return self._controller

    @property
    def metadata(self) -> Metadata:
        """The cluster's metadata; exists from ``start`` on."""
        assert self._metadata is not None
        return self._metadata

    @property
    def bootstrap(self) -> str:
        """``host:port`` of all brokers; the first secure listener if there is no plain one."""
        if self.options.security.has_plain_listener:
            return self.bootstrap_of(CLIENT_LISTENER)
        return self.bootstrap_of(self._channel_builders[0].listener.name)

    @property
    def kip_text_bootstrap(self) -> str | None:
        """``host:port`` of all brokers' KIP-text listeners; None if switched off."""
        return self.bootstrap_of(kip_text.LISTENER) if self.options.settings.kip_text else None

    def bootstrap_of(self, listener: str) -> str:
        """``host:port`` of every broker, at the listener of that name."""
        return ",".join(
            host_and_port(*broker.address(listener))
            for broker in self.metadata.image.alive_brokers()
        )

    async def start(self) -> None:
        """Bind all ports, start the brokers, then handle requests.

        Raises:
            OSError: A port is busy; nothing stays bound.
            ConfigError: A topic of the options can't be created.
        """
        try:
            loaded_cluster = self.options.loaded
            self._make_brokers(
                await self._bind_endpoints(),
                first_producer_id=FIRST_PRODUCER_ID
                if loaded_cluster is None
                else loaded_cluster.first_producer_id,
                loaded_cluster=loaded_cluster,
            )
            with input_event(self.environment, "create-topics"):
                self._create_topics()
            await self._prepare_coordinators()
            if loaded_cluster is not None and self.environment.tracer.on:
                self.environment.tracer.tell_snapshot()  # no event has the contents of the disks
        except BaseException:
            await self.stop()
            raise
        for member in self.members.values():
            member.let_in_clients()

    async def stop(self) -> None:
        """Close the listeners, stop the brokers, end every task."""
        for listener in self._bound_listeners:
            await listener.close()
        if self._controller is not None:
            self._controller.stop()
        with input_event(self.environment, "stop-cluster"):
            for member in self.members.values():
                if member.state is not MemberLifeState.DOWN:
                    await member.kill()
                await member.free_ports()
        await self.environment.tasks.close()

    # Between tests

    def snapshot(self) -> Snapshot:
        """The current state, for ``reset``."""
        releases = {broker_id: self.fleet.release_of(broker_id) for broker_id in self.members}
        return Snapshot(image=self.metadata.image, releases=releases)

    async def reset(self, snapshot: Snapshot) -> None:
        """Make it a fresh cluster on the same ports, with the topics and settings of a snapshot.

        It is as if every machine had been formatted: logs, transactions, producers and groups are
        deleted, held messages are thrown away, faults are disarmed, links healed, clocks set right,
        and all brokers run. Clients are disconnected; when they connect again, they get the new
        cluster. Producer ids and topic ids are not reused: a client from before is not taken for
        one of now.

        Raises:
            OSError: A broker is down and can't have its port back; the others go on.
        """
        async with self._resetting:
            await kill_starting_brokers(self.members.values())
            successors = await self._successor_listeners(snapshot)
            image_before = self.metadata.image
            controller, members = self.controller, tuple(self.members.values())
            for member in members:
                if member.listener is not None:
                    member.listener.pause()  # requests that are released now get no answer
            self.injector.disarm_all()
            self.injector.forget()
            for member in members:
                if member.state is not MemberLifeState.DOWN:
                    await member.kill()
            controller.stop()
            undo_disturbances(self.environment, (CONTROLLER_ID, *self.members))
            # Released requests go on in the loop's next turns, find their broker gone, and end.
            await await_released_tasks()
            for broker_id, release in snapshot.releases.items():
                self.fleet.assign(broker_id, release)
            self._bound_listeners = successors
            self._make_brokers(
                [
                    self._endpoints_with_release(member, snapshot.releases[member.broker_id])
                    for member in members
                ],
                first_producer_id=controller.next_producer_id,
            )
            fresh_image = msgspec.structs.replace(
                self.metadata.image,
                offset=image_before.offset,
                features_epoch=image_before.features_epoch,
            )
            self.metadata.publish(
                restore_image(fresh_image, snapshot, new_topic_id=self.metadata.new_topic_id)
            )
            await self._prepare_coordinators()
            for member in self.members.values():
                member.let_in_clients()

    async def _prepare_coordinators(self) -> None:
        """Create internal topics and load coordinators before clients need them, if the options say
        so.
        """
        if not self.options.ready_coordinators:
            return
        with input_event(self.environment, "create-topics"):
            image = self.metadata.image
            self.metadata.create_topics(
                [
                    controller.internal_topic(
                        topic_name, image=image, settings=self.metadata.settings
                    )
                    for topic_name in (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC)
                    if topic_name not in image.topics
                ]
            )
        for broker in self.brokers.values():
            await broker.coordinator.ready()

    async def _successor_listeners(self, snapshot: Snapshot) -> list[BrokerListener]:
        """A listener for the next life of each broker: with the sockets of the current one, or with
        new sockets if the broker is down.
        """
        successors: dict[BrokerId, BrokerListener] = {}
        try:
            for broker_id, member in self.members.items():
                successor = successors[broker_id] = self._new_listener()
                if member.listener is None:
                    await member.free_ports()
                    for endpoint in self._endpoints_with_release(
                        member, snapshot.releases[broker_id]
                    ):
                        await successor.bind(endpoint)
        except OSError:
            for successor in successors.values():
                await successor.close()
            raise
        for broker_id, member in self.members.items():
            if member.listener is not None:
                endpoints = self._endpoints_with_release(member, snapshot.releases[broker_id])
                successors[broker_id].take_over_sockets(member.listener, endpoints)
        return list(successors.values())

    def _endpoints_with_release(
        self, member: ClusterMember, release: Release
    ) -> tuple[Endpoint, ...]:
        """The endpoints of a broker, with the APIs of its new release."""
        api_table = self._api_table(release)
        return tuple(
            endpoint
            if endpoint.apis.listener == kip_text.LISTENER
            else msgspec.structs.replace(
                endpoint, apis=self._guarded_apis(api_table, endpoint.apis.listener)
            )
            for endpoint in member.endpoints
        )

    # Life of brokers

    async def start_broker(self, broker_id: BrokerId, *, as_version: str | None = None) -> None:
        """Start a broker that is down, on its ports and its disk; returns when it serves clients.

        Args:
            broker_id: The broker.
            as_version: The release of Kafka that it runs from now on; by default the one of its
                last life.

        Raises:
            ConfigError: There is no such broker or release, the broker is not down, or the
                cluster's features are at levels that the release does not know.
            OSError: One of its ports is taken by now.
        """
        member = self.member(broker_id)
        if as_version is not None and member.state is MemberLifeState.DOWN:
            release = release_named(as_version)
            complaint = self.fleet.complaint(release, self.metadata.image.features)
            if complaint is not None:
                raise ConfigError(f"broker {broker_id} as {as_version}: {complaint}")
            self.fleet.assign(broker_id, release)
            member.endpoints = self._endpoints_with_release(member, release)
        with input_event(self.environment, "start", broker=broker_id, as_version=as_version):
            await member.start()

    async def stop_broker(self, broker_id: BrokerId) -> None:
        """Stop a broker with a controlled shutdown: other brokers take its leaderships first.

        Raises:
            ConfigError: There is no such broker, or the broker does not run.
        """
        member = self.member(broker_id)
        with input_event(self.environment, "stop", broker=broker_id):
            await member.stop()

    async def kill_broker(self, broker_id: BrokerId, *, lose_unflushed: bool = False) -> None:
        """End a broker at once; the controller notices when its session ends.

        Args:
            broker_id: The broker.
            lose_unflushed: Also lose data that was not flushed to disk, as if its machine broke
                down.

        Raises:
            ConfigError: There is no such broker, or the broker does not run.
        """
        member = self.member(broker_id)
        with input_event(self.environment, "kill", broker=broker_id, lose_unflushed=lose_unflushed):
            await member.kill(lose_unflushed=lose_unflushed)

    def isolate(self, broker_id: BrokerId, *, from_clients: bool = False) -> None:
        """Cut a broker off from the controller and from all other brokers, with black holes.

        It continues with its old metadata, also as a leader that has been replaced (a zombie),
        until ``heal``.

        Args:
            broker_id: The broker.
            from_clients: Cut it off from clients, too.

        Raises:
            ConfigError: There is no such broker.
        """
        member = self.member(broker_id)
        with input_event(self.environment, "isolate", broker=broker_id, from_clients=from_clients):
            for other_node in self._other_nodes(broker_id):
                self.environment.network.cut(broker_id, other_node)
                self.environment.network.cut(other_node, broker_id)
            if from_clients:
                member.cut_off_clients()

    def heal(self, broker_id: BrokerId) -> None:
        """Undo ``isolate``: the broker gets all metadata that it has missed.

        Raises:
            ConfigError: There is no such broker.
        """
        member = self.member(broker_id)
        with input_event(self.environment, "heal", broker=broker_id):
            for other_node in self._other_nodes(broker_id):
                self.environment.network.heal(other_node, broker_id)
                self.environment.network.heal(broker_id, other_node)
            member.let_in_clients()

    def is_isolated(self, broker_id: BrokerId) -> bool:
        """Whether a broker can't reach the controller."""
        return not self.environment.network.reaches(broker_id, CONTROLLER_ID)

    def member(self, broker_id: BrokerId) -> ClusterMember:
        """The broker of that id, running or not.

        Raises:
            ConfigError: There is no such broker.
        """
        member = self.members.get(broker_id)
        if member is None:
            known_ids = ", ".join(map(str, self.members))
            raise ConfigError(f"there is no broker {broker_id}, only {known_ids}")
        return member

    def _other_nodes(self, broker_id: BrokerId) -> list[BrokerId]:
        return [
            CONTROLLER_ID,
            *(other_broker for other_broker in self.members if other_broker != broker_id),
        ]

    # Topics

    def grow_topic(
        self,
        topic_name: str,
        partition_count: int,
        assignments: Sequence[Sequence[BrokerId]] | None = None,
    ) -> Rejection | None:
        """Give a topic more partitions; returns the reason if that is refused.

        Args:
            topic_name: The topic.
            partition_count: Number of all partitions, including the existing ones.
            assignments: Replicas of the new partitions; chosen by default.
        """
        assignment_tuples = None if assignments is None else tuple(map(tuple, assignments))
        grown_image = grown_topic(
            self.metadata.image,
            topic_name,
            partition_count=partition_count,
            assignments=assignment_tuples,
        )
        if isinstance(grown_image, Rejection):
            return grown_image
        with input_event(
            self.environment, "grow-topic", topic=topic_name, partitions=partition_count
        ):
            self.metadata.publish(self.metadata.image.with_topics([grown_image]))
        return None

    # Leaders

    def move_leader(
        self, topic_partition: TopicPartition, leader: BrokerId | None = None
    ) -> BrokerId:
        """Make another in-sync replica the leader of a partition.

        Args:
            topic_partition: The partition.
            leader: The new leader; by default the first other live replica in sync.

        Returns:
            The new leader.

        Raises:
            ConfigError: There is no such partition, or the broker can't lead it, or no broker can.
        """
        image_and_leader = controller.move_leader(self.metadata.image, topic_partition, leader)
        if isinstance(image_and_leader, Rejection):
            raise ConfigError(image_and_leader.reason)
        image, new_leader = image_and_leader
        with input_event(self.environment, "move-leader", tp=str(topic_partition), to=new_leader):
            self.metadata.publish(image)
        return new_leader

    # Parts

    async def _bind_endpoints(self) -> list[tuple[Endpoint, ...]]:
        """Bind the endpoints of each broker, so that all ports are known before the brokers
        start.
        """
        endpoints = []
        for broker_index in range(self.options.brokers):
            listener = self._new_listener()
            self._bound_listeners.append(listener)
            endpoints.append(
                tuple(
                    [
                        await listener.bind(endpoint)
                        for endpoint in self._configured_endpoints(broker_index)
                    ]
                )
            )
        return endpoints

    def _new_listener(self) -> BrokerListener:
        return BrokerListener(
            environment=self.environment,
            settings=self.options.settings,
            make_connection=RequestConnection,
        )

    def _api_table(self, release: Release) -> ApiTable:
        """The APIs of a broker with that release, under the cluster's settings."""
        settings = self.options.settings
        return shipped_apis(
            release,
            has_unstable_versions=settings.unstable_api_versions_enable,
            has_telemetry=settings.client_telemetry_enable,
        )

    def _configured_endpoints(self, broker_index: int) -> list[Endpoint]:
        """The configured listeners of a broker; port 0 is any free port."""
        options = self.options
        port_offset = broker_index * port_step(options)
        apis = self._api_table(self.fleet.release_of(options.broker_ids[broker_index]))
        endpoints: list[Endpoint] = []
        if options.security.has_plain_listener:
            port = options.port and options.port + port_offset
            if options.ports:
                port = options.ports[broker_index]
            plain_apis = self._guarded_apis(apis, CLIENT_LISTENER)
            endpoints.append(Endpoint(host=options.host, port=port, apis=plain_apis))
        for channel_builder in self._channel_builders:
            listener = channel_builder.listener
            endpoints.append(
                Endpoint(
                    host=listener.host or options.host,
                    port=listener.port and listener.port + port_offset,
                    apis=self._guarded_apis(apis, listener.name),
                    channel_builder=channel_builder,
                )
            )
        if options.settings.kip_text:
            kip_text_port = options.kip_text_port
            if kip_text_port is None:
                kip_text_port = options.port and options.port + KIP_TEXT_PORT_DISTANCE
            port = kip_text_port and kip_text_port + broker_index
            endpoints.append(
                Endpoint(host=options.host, port=port, apis=self._guarded_apis(kip_text.KIP_TEXT))
            )
        return endpoints

    def _guarded_apis(self, apis: ApiTable, listener: str | None = None) -> ApiTable:
        """The APIs at a listener of that name, with checks of ACLs if there is an authorizer."""
        if listener is not None and listener != apis.listener:
            apis = msgspec.structs.replace(apis, listener=listener)
        authorizer = self._authorizer
        return apis if authorizer is None else gate.guard_apis(apis, authorizer)

    def _make_brokers(
        self,
        endpoints: list[tuple[Endpoint, ...]],
        *,
        first_producer_id: ProducerId = FIRST_PRODUCER_ID,
        loaded_cluster: LoadedCluster | None = None,
    ) -> None:
        options = self.options
        host = options.advertised_host or self.environment.clients_host
        image = first_image(
            registered_brokers(msgspec.structs.replace(options, advertised_host=host), endpoints),
            settings=options.settings,
            security=options.security,
            fleet=self.fleet,
            draw_salt=self.environment.rng.stream("scram.salts").randbytes,
            loaded_cluster=loaded_cluster,
        )
        network = self.environment.network
        if self._metadata is not None and self.environment.tracer.on:
            data = {"brokers": self.options.brokers}
            self.environment.tracer.emit("cluster.reset", "cluster", data=data)
        metadata = self._metadata = Metadata(
            image=image,
            settings=options.settings,
            random_bits=self.environment.rng.stream("topic-ids").getrandbits,
            fleet=self.fleet,
            reaches=lambda broker_id: network.reaches(CONTROLLER_ID, broker_id),
        )
        MetadataTrace.follow(
            self.environment.tracer, metadata, lambda broker_id: broker_id in self.brokers
        )
        self._controller = ControllerNode(
            metadata=metadata,
            environment=self.environment,
            first_producer_id=first_producer_id,
        )
        self._controller.start()
        budget = self._new_budget()
        for broker_id, broker_endpoints, listener in zip(
            image.brokers, endpoints, self._bound_listeners, strict=True
        ):
            logs = BrokerLogs(
                options.settings,
                self.fleet.release_of(broker_id).rules,
                allowance=None if budget is None else budget.allowance,
            )
            for loaded_replica in () if loaded_cluster is None else loaded_cluster.logs[broker_id]:
                logs.adopt_log(
                    loaded_replica.topic_id,
                    loaded_replica.log,
                    high_watermark=loaded_replica.high_watermark,
                )
            clock = SkewedClock(self.environment.clock)
            member = ClusterMember(
                broker_id=broker_id,
                environment=self._machine_environment(clock),
                clock=clock,
                metadata=metadata,
                disk=logs,
                endpoints=broker_endpoints,
            )
            self.members[broker_id] = member
            member.join(listener)
        if budget is not None:
            budget.begin({broker_id: member.disk for broker_id, member in self.members.items()})

    def _new_budget(self) -> BudgetKeeper | None:
        """A new memory budget for the logs; None if there is no bound."""
        log_budget = self.options.settings.log_budget_bytes
        if not log_budget:
            return None
        return BudgetKeeper(
            log_budget,
            self.environment,
            lambda: [broker.log_maintenance for broker in self.brokers.values()],
        )

    def _machine_environment(self, clock: SkewedClock) -> Environment:
        """The environment of one broker's machine, which has a clock of its own."""
        cluster_environment = self.environment
        return Environment(
            clock=clock,
            rng=cluster_environment.rng,
            network=cluster_environment.network,
            tasks=cluster_environment.tasks,
            tracer=cluster_environment.tracer,
        )

    def _create_topics(self) -> None:
        replication_factor = min(3, self.options.brokers)
        for topic_name, partition_count in self.options.topics:
            created_topic = self.metadata.create_topic(
                TopicToCreate(
                    name=topic_name,
                    partition_count=partition_count,
                    replication_factor=replication_factor,
                )
            )
            if not isinstance(created_topic, TopicImage):
                raise ConfigError(f"topic {topic_name}: {created_topic.reason}")


# The first metadata


def first_image(
    brokers: Sequence[BrokerImage],
    *,
    settings: Settings,
    security: SecurityOptions,
    fleet: Fleet,
    draw_salt: Callable[[int], bytes],
    loaded_cluster: LoadedCluster | None = None,
) -> ClusterImage:
    """The metadata with these brokers: of a freshly formatted cluster, or as loaded from disks."""
    if loaded_cluster is None:
        image = controller.initial_image(
            cluster_id=settings.cluster_id,
            brokers=tuple(brokers),
            transaction_version=settings.transaction_version,
            min_insync_replicas=settings.min_insync_replicas,
            fleet=fleet,
        )
    else:
        image = loaded_cluster.image
        for broker in brokers:
            # A registration's epoch is its offset in the metadata log.
            image = image.with_broker(msgspec.structs.replace(broker, epoch=image.offset + 1))
    image = image.with_acls(NO_ACLS.plus(security.acls))
    if security.scram_users or security.scram_users_by_mechanism:
        image = image.with_scram(first_credentials(security, draw_salt))
    return image


def registered_brokers(
    options: ClusterOptions, endpoints: Sequence[tuple[Endpoint, ...]]
) -> list[BrokerImage]:
    """The image of each broker, with the addresses that clients are told."""
    return [
        BrokerImage(
            broker_id=broker_id,
            epoch=broker_number,
            rack=options.racks[broker_number - 1] if options.racks else None,
            host=_advertised_address(options, broker_endpoints[0], broker_number)[0],
            port=_advertised_address(options, broker_endpoints[0], broker_number)[1],
            addresses={
                endpoint.apis.listener: _advertised_address(options, endpoint, broker_number)
                for endpoint in broker_endpoints
                if endpoint.apis.listener != CLIENT_LISTENER
            },
        )
        for broker_number, (broker_id, broker_endpoints) in enumerate(
            zip(options.broker_ids, endpoints, strict=True), 1
        )
    ]


def _advertised_address(
    options: ClusterOptions, endpoint: Endpoint, broker_number: int
) -> tuple[str, int]:
    """Host and port of a broker's listener that clients are told."""
    if options.advertised and endpoint.apis.listener == CLIENT_LISTENER:
        return options.advertised[broker_number - 1]
    secure_listener = (
        None if endpoint.channel_builder is None else endpoint.channel_builder.listener
    )
    host, port = options.advertised_host or _reachable_host(endpoint.host), options.advertised_port
    if secure_listener is not None:
        host, port = secure_listener.advertised_host or host, secure_listener.advertised_port
    return host, endpoint.port if port is None or options.brokers > 1 else port


def _reachable_host(host: str) -> str:
    """The host that clients are told for a listening host; for a wildcard address this machine's
    name, as Kafka's default is.
    """
    return host_name() if host in EVERYWHERE else host


# Stopping all work before a reset


async def kill_starting_brokers(members: Iterable[ClusterMember]) -> None:
    """Kill the brokers that are starting: only a part of their ports is open."""
    starting_members = [member for member in members if member.state is MemberLifeState.STARTING]
    for member in starting_members:
        await member.kill()
    if starting_members:
        await await_released_tasks()


async def await_released_tasks() -> None:
    """Wait until released tasks have ended."""
    for _ in range(TURNS_TO_END):
        await asyncio.sleep(0)


def undo_disturbances(environment: Environment, nodes: Sequence[BrokerId]) -> None:
    """Heal every link between these nodes, and undo all advances and shifts of the cluster
    clock.
    """
    for source in nodes:
        for target in nodes:
            environment.network.heal(source, target)
    environment.clock.shift(-environment.clock.advanced_ms)
