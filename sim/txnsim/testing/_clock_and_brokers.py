"""Clock, brokers and leaders of a cluster, from Python."""

from __future__ import annotations

from datetime import timedelta

from txnsim.errors import ConfigError
from txnsim.runtime.environment import Clock
from txnsim.server.user_inputs import advance, shift
from txnsim.testing.event_loop import in_cluster_loop
from txnsim.testing.rebuilt_cluster import ClusterPart
from txnsim.text import whole_ms
from txnsim.types import BrokerId, TopicPartition

Duration = int | timedelta | str
"""Whole milliseconds, or as Python says it, or a text: ``"2m"``."""


class AsyncClock(ClusterPart):
    """The cluster clock: transaction timeouts, expiry, append times go by it (docs/time.md)."""

    @in_cluster_loop
    async def now_ms(self) -> int:
        """Milliseconds since 1970, including what was advanced."""
        return self._rebuilt.environment.clock.now_ms()

    @in_cluster_loop
    async def advance(self, duration: Duration) -> int:
        """Let time pass: everything that is then due happens, in the order of deadlines.

        A request between brokers that a fault has lost times out by it as well; one that is held or
        on its way does not grow older.

        Args:
            duration: Whole milliseconds, a ``timedelta``, or a text such as ``"2m"``.

        Returns:
            The time it is now.

        Raises:
            ValueError: It is negative, or no whole number of milliseconds.
        """
        clock = self._rebuilt.environment.clock
        advance(self._rebuilt.environment, whole_ms(duration))
        return clock.now_ms()

    @in_cluster_loop
    async def jump(self, duration: Duration, *, broker: int | None = None) -> int:
        """Set the clock ahead, or back where negative, as an operator or NTP does: no time passes,
        and nothing is due for it. ``advance`` lets time pass.

        Args:
            duration: Whole milliseconds, a ``timedelta``, or a text such as ``"-10s"``.
            broker: That broker's own clock alone; everybody's unless given.

        Returns:
            The time that it shows now.

        Raises:
            ConfigError: There is no such broker.
            ValueError: It is no whole number of milliseconds.
        """
        rebuilt = self._rebuilt
        clock: Clock = rebuilt.environment.clock
        if broker is not None:
            clock = rebuilt.sim.member(BrokerId(broker)).clock
        shift(clock, whole_ms(duration))
        return clock.now_ms()


class AsyncBrokers(ClusterPart):
    """The lives of a cluster's brokers (docs/cluster-life.md)."""

    @in_cluster_loop
    async def states(self) -> dict[int, str]:
        """Broker id -> ``running``, ``down``, ``starting`` or ``stopping``."""
        return {
            int(broker_id): member.state.name.lower()
            for broker_id, member in self._rebuilt.sim.members.items()
        }

    @in_cluster_loop
    async def stop(self, broker_id: int) -> None:
        """Stop a broker in good order: its leaders move away first.

        Raises:
            ConfigError: There is no such broker, or it does not run.
        """
        await self._rebuilt.sim.stop_broker(BrokerId(broker_id))

    @in_cluster_loop
    async def start(self, broker_id: int, *, as_version: str | None = None) -> None:
        """Start a broker that is down, on its address and its logs; done when it serves clients.

        Args:
            broker_id: Which one.
            as_version: The release of Kafka that it runs from now on.

        Raises:
            ConfigError: There is no such broker or release, or it is not down.
        """
        await self._rebuilt.sim.start_broker(BrokerId(broker_id), as_version=as_version)

    @in_cluster_loop
    async def kill(self, broker_id: int, *, lose_unflushed: bool = False) -> None:
        """End a broker at once; the controller notices when its session ends.

        Args:
            broker_id: Which one.
            lose_unflushed: Its machine broke down: unflushed records are lost.

        Raises:
            ConfigError: There is no such broker, or it does not run.
        """
        await self._rebuilt.sim.kill_broker(BrokerId(broker_id), lose_unflushed=lose_unflushed)

    @in_cluster_loop
    async def isolate(self, broker_id: int, *, from_clients: bool = False) -> None:
        """Cut a broker off from the controller and all others, until ``heal``.

        Args:
            broker_id: Which one.
            from_clients: Clients don't reach it either.

        Raises:
            ConfigError: There is no such broker.
        """
        self._rebuilt.sim.isolate(BrokerId(broker_id), from_clients=from_clients)

    @in_cluster_loop
    async def heal(self, broker_id: int) -> None:
        """Undo ``isolate``.

        Raises:
            ConfigError: There is no such broker.
        """
        self._rebuilt.sim.heal(BrokerId(broker_id))


class AsyncLeaders(ClusterPart):
    """The leaders of partitions."""

    @in_cluster_loop
    async def of(self, topic: str, partition: int = 0) -> int:
        """The leader of a partition; -1 where there is none.

        Raises:
            ConfigError: There is no such partition.
        """
        partition_image = self._rebuilt.sim.metadata.image.partition(
            TopicPartition(topic, partition)
        )
        if partition_image is None:
            raise ConfigError(f"there is no partition {topic}-{partition}")
        return int(partition_image.leader)

    @in_cluster_loop
    async def move(self, topic: str, partition: int = 0, *, to: int | None = None) -> int:
        """Hand a partition to another replica in sync.

        Args:
            topic: Topic of the partition.
            partition: Its number.
            to: The broker; the next one in sync unless given.

        Returns:
            The new leader.

        Raises:
            ConfigError: There is no such partition, or no replica that could lead it.
        """
        broker = None if to is None else BrokerId(to)
        return int(self._rebuilt.sim.move_leader(TopicPartition(topic, partition), broker))

    @in_cluster_loop
    async def coordinator_of(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id."""
        return await (await self._rebuilt.outside()).coordinator(transactional_id)
