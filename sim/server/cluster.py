"""A whole simulated cluster: brokers, links, controller, listeners, clock.

What ``txnsim serve``, the scenarios, the control port and tests start. It only puts together; see
``cluster.broker`` for one broker.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sim.api.kip_text import table as kip_text
from sim.api.registry import shipped
from sim.cluster import controller
from sim.cluster.broker import Broker
from sim.cluster.controller import NewTopic
from sim.cluster.image import CLIENT_LISTENER, BrokerImage, TopicImage
from sim.cluster.metadata import Metadata
from sim.cluster.peers import CONTROLLER_ID
from sim.cluster.replicas import SharedLogs
from sim.errors import ConfigError, Rejection
from sim.faults.injector import Injector
from sim.releases import fleet_from
from sim.runtime.env import Environment
from sim.runtime.real import host_name
from sim.server.listener import BrokerListener
from sim.settings import DEFAULTS, Settings
from sim.types import BrokerId, TopicPartition

KIP_TEXT_PORT_DISTANCE: Final = 100
"""From the first client port to the first one that answers by the letter of the KIPs."""
EVERYWHERE: Final = ("", "0.0.0.0", "::")
"""Addresses to listen on that nobody can connect to."""


class ClusterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to start."""

    brokers: int = 3
    host: str = "127.0.0.1"
    port: int = 9092
    """First of consecutive ports; 0 picks free ones."""
    advertised_host: str | None = None
    """What clients are told to connect to; the listening host unless given, and this machine's name
    where that is everywhere.
    """
    topics: tuple[tuple[str, int], ...] = ()
    """(name, partitions) of topics to create at start, replicated to up to three brokers."""
    settings: Settings = DEFAULTS
    kip_text_port: int | None = None
    """First of consecutive ports of the listeners that ``settings.kip_text`` opens; 0 picks free
    ones. ``KIP_TEXT_PORT_DISTANCE`` above ``port`` unless given.
    """
    as_version: tuple[str, ...] = ()
    """Kafka releases to behave as: ``3.9`` for all brokers, ``1=3.9`` for one
    (``releases.fleet_from``); 4.3 unless named.
    """


class SimCluster:
    """A running cluster in this process."""

    def __init__(self, environment: Environment, options: ClusterOptions) -> None:
        if options.brokers < 1:
            raise ConfigError(f"a cluster needs at least one broker, asked for {options.brokers}")
        self.environment = environment
        self.options = options
        self.fleet = fleet_from(options.as_version, brokers=options.brokers)
        """Which broker runs which release of Kafka."""
        self.brokers: dict[BrokerId, Broker] = {}
        self.listeners: list[BrokerListener] = []
        self.injector = Injector(clock=environment.clock, tracer=environment.tracer)
        """Where faults are armed: every crossing of this cluster's network passes it."""
        environment.network.interceptor = self.injector
        self._metadata: Metadata | None = None

    @property
    def metadata(self) -> Metadata:
        """The cluster's metadata; there from ``start`` on."""
        assert self._metadata is not None
        return self._metadata

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, as clients take it."""
        return self._addresses(CLIENT_LISTENER)

    @property
    def kip_text_bootstrap(self) -> str | None:
        """The same of the listeners that answer by the letter of the KIPs; None without them."""
        return self._addresses(kip_text.LISTENER) if self.options.settings.kip_text else None

    async def start(self) -> None:
        """Bind every port, then let the brokers live, then handle requests.

        Raises:
            OSError: A port is busy; nothing stays bound.
            ConfigError: A topic of the options can't be created.
        """
        try:
            ports = await self._bind()
            self._make_brokers(ports, await self._bind_kip_text())
            self._create_topics()
        except BaseException:
            await self.stop()
            raise
        for listener, broker in zip(self.listeners, self.brokers.values(), strict=True):
            listener.open(broker)

    async def stop(self) -> None:
        """Close the listeners, stop the brokers, end every task."""
        for listener in self.listeners:
            await listener.close()
        for broker in self.brokers.values():
            broker.stop()
        self.environment.network.unregister(CONTROLLER_ID)
        await self.environment.tasks.close()

    def move_leader(self, topic_partition: TopicPartition, leader: BrokerId) -> None:
        """Hand the leadership of a partition to another in-sync replica.

        Raises:
            ConfigError: There is no such partition, or that broker can't lead it.
        """
        moved = controller.move_leader(self.metadata.image, topic_partition, leader)
        if isinstance(moved, Rejection):
            raise ConfigError(moved.reason)
        self.metadata.publish(moved)

    # Parts

    async def _bind(self) -> list[int]:
        options = self.options
        ports = []
        for index in range(options.brokers):
            listener = BrokerListener(environment=self.environment, settings=options.settings)
            port = options.port and options.port + index
            apis = shipped(self.fleet.of(BrokerId(index + 1)))
            ports.append(await listener.bind(options.host, port, apis=apis))
            self.listeners.append(listener)
        return ports

    async def _bind_kip_text(self) -> list[dict[str, int]]:
        """Open the second door of each broker, where it is asked for; ports by listener name."""
        options = self.options
        if not options.settings.kip_text:
            return [{} for _ in self.listeners]
        first = options.kip_text_port
        if first is None:
            first = options.port and options.port + KIP_TEXT_PORT_DISTANCE
        return [
            {
                kip_text.LISTENER: await listener.bind(
                    options.host, first and first + index, apis=kip_text.KIP_TEXT
                )
            }
            for index, listener in enumerate(self.listeners)
        ]

    def _addresses(self, listener: str) -> str:
        return ",".join(
            "{}:{}".format(*broker.address(listener))
            for broker in self.metadata.image.alive_brokers()
        )

    def _make_brokers(self, ports: list[int], others: list[dict[str, int]]) -> None:
        options = self.options
        host = options.advertised_host or _reachable(options.host)
        image = controller.initial_image(
            cluster_id=options.settings.cluster_id,
            brokers=tuple(
                BrokerImage(
                    broker_id=BrokerId(index + 1),
                    epoch=index + 1,
                    host=host,
                    port=port,
                    addresses={name: (host, other) for name, other in others[index].items()},
                )
                for index, port in enumerate(ports)
            ),
            transaction_version=options.settings.transaction_version,
            min_insync_replicas=options.settings.min_insync_replicas,
            fleet=self.fleet,
        )
        self._metadata = Metadata(
            image=image,
            settings=options.settings,
            random_bits=self.environment.rng.stream("topic-ids").getrandbits,
            fleet=self.fleet,
        )
        self.environment.network.register(CONTROLLER_ID, self._metadata.handle_peer)
        shared_logs = SharedLogs(options.settings)
        for broker_id in image.brokers:
            broker = Broker(
                broker_id=broker_id,
                environment=self.environment,
                metadata=self._metadata,
                shared_logs=shared_logs,
            )
            self.brokers[broker_id] = broker
            broker.start()

    def _create_topics(self) -> None:
        factor = min(3, self.options.brokers)
        for name, partitions in self.options.topics:
            created = self.metadata.create_topic(
                NewTopic(name=name, partitions=partitions, replication_factor=factor)
            )
            if not isinstance(created, TopicImage):
                raise ConfigError(f"topic {name}: {created.reason}")


def _reachable(host: str) -> str:
    """What clients are told of a listening address; of "everywhere" this machine's name, as Kafka's
    default is.
    """
    return host_name() if host in EVERYWHERE else host
