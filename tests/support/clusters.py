"""A whole cluster in a test: in virtual time (links in memory, hours in no time) or on the real
loop over TCP.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, TypeVar

from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.fetching import fetch
from txnsim.client.producer import Producer
from txnsim.faults.plan import Action, FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.injection.injector import Injector
from txnsim.runtime.environment import Environment
from txnsim.runtime.real_world import real_environment
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.net import LATENCY_US_DEFAULT
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.security.options import NO_SECURITY, SecurityOptions
from txnsim.server.cluster import SimCluster
from txnsim.server.options import ClusterOptions
from txnsim.settings import Settings
from txnsim.types import (
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    IsolationLevel,
    TopicPartition,
    TransactionalId,
    partition_for,
)

T = TypeVar("T")

IMPATIENT: Final = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=20)
"""A client that retries almost without a pause, as these clusters answer quickly."""


def options(
    *,
    brokers: int = 3,
    topics: tuple[tuple[str, int], ...] = (("orders", 3),),
    level: int = 2,
    as_version: tuple[str, ...] = (),
    rules: Mapping[str, bool] = MappingProxyType({}),
    security: SecurityOptions = NO_SECURITY,
    **settings: Any,
) -> ClusterOptions:
    """A small cluster on free ports."""
    return ClusterOptions(
        brokers=brokers,
        port=0,
        topics=topics,
        as_version=as_version,
        rules=rules,
        security=security,
        settings=Settings(
            transaction_version=level,
            transaction_state_log_num_partitions=6,
            **settings,
        ),
    )


class VirtualCluster:
    """A cluster in virtual time, with the calls that tests need."""

    def __init__(self, env: VirtualEnvironment, sim: SimCluster) -> None:
        self.env = env
        self.sim = sim

    @asynccontextmanager
    async def client(self, name: str = "app", **config_changes: Any) -> AsyncIterator[Cluster]:
        """Our own client, connected."""
        async with client_of(self.env, self.sim, name, **config_changes) as cluster:
            yield cluster

    @property
    def injector(self) -> Injector:
        """The fault injector of the cluster."""
        return self.sim.injector

    def address(self, topic_partition: TopicPartition) -> tuple[str, int]:
        """Where clients reach the leader of a partition."""
        broker = self.sim.metadata.image.brokers[self.leader(topic_partition)]
        return broker.host, broker.port

    def arm(self, action: Action, point: FaultPoint, rule_id: str = "f", **criteria: Any) -> None:
        """Put a fault rule in force."""
        self.injector.arm(FaultRule(id=rule_id, point=point, action=action, **criteria))

    async def wait_until_struck(self, rule_id: str = "f", count: int = 1) -> None:
        """Wait until the rule has struck ``count`` times."""
        await self.injector.wait_until_struck(rule_id, count=count, timeout_ms=60_000)

    def advance(self, ms: int) -> None:
        """Move the cluster clock."""
        self.env.clock.advance(ms)

    def leader(self, topic_partition: TopicPartition) -> BrokerId:
        """The leader of a partition, by the metadata."""
        partition = self.sim.metadata.image.partition(topic_partition)
        assert partition is not None
        return partition.leader

    def move(self, topic_partition: TopicPartition) -> BrokerId:
        """Move a partition to the next broker in sync, and return that broker."""
        image = self.sim.metadata.image
        partition = image.partition(topic_partition)
        assert partition is not None
        leader = next(broker for broker in partition.isr if broker != partition.leader)
        self.sim.move_leader(topic_partition, leader)
        return leader

    def home(self, transactional_id: str) -> TopicPartition:
        """The partition of ``__transaction_state`` that keeps this id."""
        topic = self.sim.metadata.image.topics[TRANSACTION_STATE_TOPIC]
        return TopicPartition(
            TRANSACTION_STATE_TOPIC,
            partition_for(TransactionalId(transactional_id), len(topic.partitions)),
        )


def run_cluster(
    main: Callable[[VirtualCluster], Awaitable[T]],
    *,
    seed: int = 1,
    trace_level: TraceLevel = TraceLevel.OFF,
    cluster_options: ClusterOptions | None = None,
    latency_us: tuple[int, int] = LATENCY_US_DEFAULT,
    **config_changes: Any,
) -> T:
    """Run ``main`` beside a cluster in virtual time; ``changes`` are those of ``options``."""

    async def run_beside_cluster(env: VirtualEnvironment) -> T:
        sim = SimCluster(env, cluster_options or options(**config_changes))
        await sim.start()
        try:
            return await main(VirtualCluster(env, sim))
        finally:
            await sim.stop()

    return run_virtual(
        run_beside_cluster, seed=seed, trace_level=trace_level, latency_us=latency_us
    )


@asynccontextmanager
async def real_cluster(
    *, trace_level: TraceLevel = TraceLevel.OFF, **config_changes: Any
) -> AsyncIterator[SimCluster]:
    """A cluster on the running loop, over TCP on free ports."""
    sim = SimCluster(real_environment(trace_level=trace_level), options(**config_changes))
    await sim.start()
    try:
        yield sim
    finally:
        await sim.stop()


async def begin_transaction(cluster: Cluster, transactional_id: str, **options: Any) -> Producer:
    producer = Producer(cluster, transactional_id=transactional_id, **options)
    await producer.init_transactions()
    producer.begin()
    return producer


@asynccontextmanager
async def client_of(
    env: Environment, sim: SimCluster, client_id: str = "app", **config_changes: Any
) -> AsyncIterator[Cluster]:
    """Our own client of a cluster, connected, on the cluster's runtime."""
    settings = ClientSettings(
        **{
            "client_id": client_id,
            "retry_backoff_ms": IMPATIENT.retry_backoff_ms,
            "retry_backoff_max_ms": IMPATIENT.retry_backoff_max_ms,
            **config_changes,
        }
    )
    async with Cluster(
        sim.bootstrap, settings=settings, clock=env.clock, tasks=env.tasks
    ) as cluster:
        yield cluster


async def values(
    cluster: Cluster,
    topic: str,
    *,
    partitions: int = 3,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> list[bytes | None]:
    """The values of all records that can be read now, partition by partition."""
    record_values: list[bytes | None] = []
    for partition_index in range(partitions):
        offset = 0
        while True:
            result = await fetch(
                cluster, topic, partition_index, offset, isolation=isolation, max_wait_ms=0
            )
            record_values += [record.value for record in result.records]
            if result.next_offset == offset:
                break
            offset = result.next_offset
    return record_values


async def until_state(cluster: Cluster, transactional_id: str, state: str) -> None:
    """Wait until the coordinator describes the transaction with this state."""
    admin = Admin(cluster)
    pause_s = 0.002
    while pause_s < 10:
        description = (await admin.describe_transactions((transactional_id,)))[transactional_id]
        if not isinstance(description, ClientError) and description.state == state:
            return
        await asyncio.sleep(pause_s)
        pause_s *= 1.2
    raise AssertionError(f"{transactional_id} never became {state}: {description}")
