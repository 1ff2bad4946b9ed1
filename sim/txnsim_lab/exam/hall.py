"""Where a situation is played: a simulated cluster of its own, or a real one behind the proxy.

What both can do is here. What only a simulator can do is asked for by ``Hall.simulator``; on a real
cluster the situation then does not apply.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final, Protocol

from txnsim.client.admin import Admin
from txnsim.releases.kafka import REFERENCE
from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.testing.faults import AsyncFaults
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
    TransactionalId,
    partition_for,
)
from txnsim_lab.exam.results import NotAskedError

SETTINGS: Final = {"broker.session.timeout.ms": 3_000, "broker.heartbeat.interval.ms": 300}
"""A dead broker is known as dead in three seconds."""
TOPICS: Final = {"t": 2, "input": 2}


class Hall(Protocol):
    """The cluster of one situation."""

    @property
    def prefix(self) -> str:
        """Of the names of all topics, ids and groups; empty where the cluster is its own."""
        ...

    @property
    def bootstrap(self) -> str:
        """Where the driver connects."""
        ...

    @property
    def faults(self) -> AsyncFaults:
        """Its faults."""
        ...

    @property
    def expiring_ms(self) -> int:
        """Timeout of a transaction that is to time out: on a real cluster it is waited for."""
        ...

    async def admin(self) -> Admin:
        """An operator, whom no fault strikes."""
        ...

    async def move_leader(self, place: TopicPartition, *, to: int | None = None) -> None:
        """Hand a partition to another replica.

        Args:
            place: The partition.
            to: The broker; any other in sync unless given.

        Raises:
            NotAskedError: Not on this cluster.
        """

    async def kill(self, broker: int) -> None:
        """End a broker at once; it stays dead until the situation is over.

        Raises:
            NotAskedError: Not on this cluster.
        """

    async def create_topic(self, name: str, configs: Mapping[str, str]) -> None:
        """Create a topic with one partition; it is deleted after the situation."""

    async def roll(self, place: TopicPartition) -> None:
        """End the segment of a partition on every replica, with the next record at the latest.

        Raises:
            NotAskedError: Not on this cluster.
        """

    async def clean(self, place: TopicPartition) -> None:
        """Have the cleaner run.

        Raises:
            NotAskedError: Not on this cluster.
        """

    async def pass_time(self) -> None:
        """Let enough time pass for a short transaction timeout to expire."""

    def simulator(self) -> AsyncSimulatedKafka:
        """The simulated cluster itself.

        Raises:
            NotAskedError: It is a real one.
        """
        ...

    async def story(self) -> list[str]:
        """What happened in the cluster, in sentences."""
        ...

    async def recording(self) -> bytes:
        """Trace of the cluster; empty without one."""
        ...


class Halls(Protocol):
    """Opens a hall for each situation."""

    about: str
    """Description of the Kafka under test."""
    levels: tuple[int, ...]
    """Possible values of ``transaction.version``."""

    def open(
        self, level: int, *, begins_as: str = ""
    ) -> contextlib.AbstractAsyncContextManager[Hall]:
        """The hall of one situation.

        Args:
            level: Of ``transaction.version``.
            begins_as: The release of Kafka at the beginning, where the situation wants one.
        """
        ...

    async def close(self) -> None:
        """End what runs."""


async def home_of_id(hall: Hall, transactional_id: str) -> TopicPartition:
    """The partition on which a transactional id lives."""
    admin = await hall.admin()
    await admin.cluster.coordinator(transactional_id)
    topic = await admin.wait_for_topic(TRANSACTION_STATE_TOPIC)
    index = partition_for(TransactionalId(transactional_id), len(topic.partitions))
    return TopicPartition(TRANSACTION_STATE_TOPIC, index)


async def home_of_group(hall: Hall, group: str) -> TopicPartition:
    """The partition on which a group lives."""
    topic = await (await hall.admin()).wait_for_topic(CONSUMER_OFFSETS_TOPIC)
    return TopicPartition(CONSUMER_OFFSETS_TOPIC, partition_for(group, len(topic.partitions)))


class SimulatedHall:
    """A simulated cluster of its own."""

    prefix: Final = ""
    expiring_ms: Final = 60_000

    def __init__(self, kafka: AsyncSimulatedKafka) -> None:
        self._kafka = kafka
        self.bootstrap = kafka.bootstrap
        self.faults = kafka.faults

    async def admin(self) -> Admin:
        """See ``Hall``."""
        return await self._kafka.rebuilt.admin()

    async def move_leader(self, place: TopicPartition, *, to: int | None = None) -> None:
        """See ``Hall``."""
        await self._kafka.leaders.move(place.topic, place.partition, to=to)

    async def kill(self, broker: int) -> None:
        """See ``Hall``."""
        await self._kafka.brokers.kill(broker)

    async def create_topic(self, name: str, configs: Mapping[str, str]) -> None:
        """See ``Hall``."""
        await self._kafka.topics.create(name, configs=configs)
        await (await self.admin()).wait_for_topic(name)

    async def roll(self, place: TopicPartition) -> None:
        """See ``Hall``."""
        for broker in self._kafka.cluster.brokers.values():
            broker.log_maintenance.roll_now(place)

    async def clean(self, place: TopicPartition) -> None:
        """See ``Hall``."""
        for broker in self._kafka.cluster.brokers.values():
            broker.log_maintenance.clean_now(place)

    async def pass_time(self) -> None:
        """The clock is moved."""
        await self._kafka.clock.advance("2m")

    def simulator(self) -> AsyncSimulatedKafka:
        """This."""
        return self._kafka

    async def story(self) -> list[str]:
        """See ``Hall``."""
        return [str(line.text) for line in await self._kafka.trace.story()]

    async def recording(self) -> bytes:
        """See ``Hall``."""
        return await self._kafka.trace.export()


class SimulatedHalls:
    """A fresh cluster of three brokers for each situation."""

    def __init__(self, as_version: str | None = None) -> None:
        """Nothing runs.

        Args:
            as_version: The release of Kafka that it is; the newest unless given.
        """
        self._as_version = as_version
        self.about = f"txnsim as Kafka {as_version or REFERENCE.name}"
        self.levels: tuple[int, ...] = (0, 1, 2)

    @contextlib.asynccontextmanager
    async def open(self, level: int, *, begins_as: str = "") -> AsyncIterator[Hall]:
        """See ``Halls``.

        Raises:
            ConfigError: There is no such release, or it has no such level.
            NotAskedError: Another release is wanted.
        """
        if begins_as and self._as_version:
            raise NotAskedError(f"it begins as {begins_as}; --as-version is another release")
        async with AsyncSimulatedKafka(
            topics=TOPICS,
            transaction_version=None if begins_as else level,
            settings=SETTINGS,
            as_version=begins_as or self._as_version or (),
            trace="brief",
            faults_may_miss=True,  # the sitting asks for those that must strike
        ) as kafka:
            yield SimulatedHall(kafka)

    async def close(self) -> None:
        """Nothing runs between two situations."""
