"""Clock, brokers and leaders of a cluster, for Python tests."""

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
"""Whole milliseconds, a ``timedelta``, or a text such as ``"2m"``."""


class AsyncClock(ClusterPart):
    """The cluster clock: transaction timeouts, expiry and append times follow it (docs/time.md)."""

    @in_cluster_loop
    async def now_ms(self) -> int:
        """Milliseconds since 1970, including the time by which the clock was advanced."""
        return self._rebuilt.environment.clock.now_ms()

    @in_cluster_loop
    async def advance(self, duration: Duration) -> int:
        """Let time pass: everything that becomes due happens, in the order of deadlines.

        A request between brokers that a fault has dropped times out, too; one that is held or on
        its way does not get older.

        Args:
            duration: Whole milliseconds, a ``timedelta``, or a text such as ``"2m"``.

        Returns:
            The new time.

        Raises:
            ValueError: The duration is negative, or no whole number of milliseconds.
        """
        clock = self._rebuilt.environment.clock
        advance(self._rebuilt.environment, whole_ms(duration))
        return clock.now_ms()

    @in_cluster_loop
    async def jump(self, duration: Duration, *, broker: int | None = None) -> int:
        """Set the clock forward, or back if negative, as an operator or NTP does: no time passes,
        and nothing becomes due. ``advance`` lets time pass.

        Args:
            duration: Whole milliseconds, a ``timedelta``, or a text such as ``"-10s"``.
            broker: Id of the broker whose own clock to set; all clocks unless given.

        Returns:
            The time that the clock shows now.

        Raises:
            ConfigError: There is no such broker.
            ValueError: The duration is no whole number of milliseconds.
        """
        rebuilt_cluster = self._rebuilt
        clock: Clock = rebuilt_cluster.environment.clock
        if broker is not None:
            clock = rebuilt_cluster.sim.member(BrokerId(broker)).clock
        shift(clock, whole_ms(duration))
        return clock.now_ms()


class AsyncBrokers(ClusterPart):
    """Starts, stops and isolates a cluster's brokers (docs/cluster-life.md)."""

    @in_cluster_loop
    async def states(self) -> dict[int, str]:
        """Broker id -> ``running``, ``down``, ``starting`` or ``stopping``."""
        return {
            int(broker_id): member.state.name.lower()
            for broker_id, member in self._rebuilt.sim.members.items()
        }

    @in_cluster_loop
    async def stop(self, broker_id: int) -> None:
        """Stop a broker by a controlled shutdown: its leaders move away first.

        Raises:
            ConfigError: There is no such broker, or it does not run.
        """
        await self._rebuilt.sim.stop_broker(BrokerId(broker_id))

    @in_cluster_loop
    async def start(self, broker_id: int, *, as_version: str | None = None) -> None:
        """Start a broker that is down, with its old address and logs; returns when it serves
        clients.

        Args:
            broker_id: Id of the broker.
            as_version: Kafka release that it emulates from now on.

        Raises:
            ConfigError: There is no such broker or release, or the broker is not down.
        """
        await self._rebuilt.sim.start_broker(BrokerId(broker_id), as_version=as_version)

    @in_cluster_loop
    async def kill(self, broker_id: int, *, lose_unflushed: bool = False) -> None:
        """Kill a broker at once; the controller notices when its session ends.

        Args:
            broker_id: Id of the broker.
            lose_unflushed: Whether unflushed records are lost, as if its machine had crashed.

        Raises:
            ConfigError: There is no such broker, or it does not run.
        """
        await self._rebuilt.sim.kill_broker(BrokerId(broker_id), lose_unflushed=lose_unflushed)

    @in_cluster_loop
    async def isolate(self, broker_id: int, *, from_clients: bool = False) -> None:
        """Cut a broker off from the controller and all other brokers, until ``heal``.

        Args:
            broker_id: Id of the broker.
            from_clients: Whether clients can't reach it either.

        Raises:
            ConfigError: There is no such broker.
        """
        self._rebuilt.sim.isolate(BrokerId(broker_id), from_clients=from_clients)

    @in_cluster_loop
    async def heal(self, broker_id: int) -> None:
        """Reconnect a broker after ``isolate``.

        Raises:
            ConfigError: There is no such broker.
        """
        self._rebuilt.sim.heal(BrokerId(broker_id))


class AsyncLeaders(ClusterPart):
    """The leaders of partitions."""

    @in_cluster_loop
    async def of(self, topic: str, partition: int = 0) -> int:
        """Broker id of a partition's leader; -1 if there is none.

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
        """Make another in-sync replica the leader of a partition.

        Args:
            topic: Topic of the partition.
            partition: Number of the partition.
            to: Broker id of the new leader; the next one in sync unless given.

        Returns:
            Broker id of the new leader.

        Raises:
            ConfigError: There is no such partition, or no replica that could lead it.
        """
        new_leader = None if to is None else BrokerId(to)
        return int(self._rebuilt.sim.move_leader(TopicPartition(topic, partition), new_leader))

    @in_cluster_loop
    async def coordinator_of(self, transactional_id: str) -> int:
        """Id of the broker that coordinates a transactional id."""
        return await (await self._rebuilt.onlooker()).coordinator(transactional_id)
