"""Clock, brokers and leaders of a cluster, from Python."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from txnsim.errors import ConfigError
from txnsim.runtime.env import Clock
from txnsim.server.inputs import advance
from txnsim.testing.event_loop import in_home
from txnsim.testing.rebuilt_cluster import Inhabitant
from txnsim.types import BrokerId, TopicPartition

Duration = int | timedelta
"""Milliseconds, or as Python says it."""

_MILLISECOND: Final = timedelta(milliseconds=1)


def milliseconds(duration: Duration) -> int:
    """A duration in whole milliseconds."""
    return duration // _MILLISECOND if isinstance(duration, timedelta) else duration


class AsyncClock(Inhabitant):
    """The cluster clock: transaction timeouts, expiry, append times go by it (docs/time.md)."""

    @in_home
    async def now_ms(self) -> int:
        """Milliseconds since 1970, including what was advanced."""
        return self._world.environment.clock.now_ms()

    @in_home
    async def advance(self, duration: Duration) -> int:
        """Let time pass: everything that is then due happens, in the order of deadlines.

        Args:
            duration: Milliseconds, or a ``timedelta``.

        Returns:
            The time it is now.

        Raises:
            ValueError: It is negative.
        """
        clock = self._world.environment.clock
        advance(self._world.environment, milliseconds(duration))
        return clock.now_ms()

    @in_home
    async def jump(self, duration: Duration, *, broker: int | None = None) -> int:
        """Set the clock ahead, or back where negative, as an operator or NTP does: no time passes,
        and nothing is due for it. ``advance`` lets time pass.

        Args:
            duration: Milliseconds, or a ``timedelta``.
            broker: That broker's own clock alone; everybody's unless given.

        Returns:
            The time that it shows now.

        Raises:
            ConfigError: There is no such broker.
        """
        world = self._world
        clock: Clock = world.environment.clock
        if broker is not None:
            clock = world.sim.member(BrokerId(broker)).clock
        clock.shift(milliseconds(duration))
        return clock.now_ms()


class AsyncBrokers(Inhabitant):
    """The lives of a cluster's brokers (docs/cluster-life.md)."""

    @in_home
    async def states(self) -> dict[int, str]:
        """Broker id -> ``running``, ``down``, ``starting`` or ``stopping``."""
        return {
            int(broker_id): member.state.name.lower()
            for broker_id, member in self._world.sim.members.items()
        }

    @in_home
    async def stop(self, broker_id: int) -> None:
        """Stop a broker in good order: its leaders move away first.

        Raises:
            ConfigError: There is no such broker, or it does not run.
        """
        await self._world.sim.stop_broker(BrokerId(broker_id))

    @in_home
    async def start(self, broker_id: int, *, as_version: str | None = None) -> None:
        """Start a broker that is down, on its address and its logs; done when it serves clients.

        Args:
            broker_id: Which one.
            as_version: The release of Kafka that it runs from now on.

        Raises:
            ConfigError: There is no such broker or release, or it is not down.
        """
        await self._world.sim.start_broker(BrokerId(broker_id), as_version=as_version)

    @in_home
    async def kill(self, broker_id: int, *, lose_unflushed: bool = False) -> None:
        """End a broker at once; the controller notices when its session ends.

        Args:
            broker_id: Which one.
            lose_unflushed: Its machine broke down: what was not on disk yet is lost.

        Raises:
            ConfigError: There is no such broker, or it does not run.
        """
        await self._world.sim.kill_broker(BrokerId(broker_id), lose_unflushed=lose_unflushed)

    @in_home
    async def isolate(self, broker_id: int, *, from_clients: bool = False) -> None:
        """Cut a broker off from the controller and all others, until ``heal``.

        Args:
            broker_id: Which one.
            from_clients: Clients don't reach it either.

        Raises:
            ConfigError: There is no such broker.
        """
        self._world.sim.isolate(BrokerId(broker_id), from_clients=from_clients)

    @in_home
    async def heal(self, broker_id: int) -> None:
        """Undo ``isolate``.

        Raises:
            ConfigError: There is no such broker.
        """
        self._world.sim.heal(BrokerId(broker_id))


class AsyncLeaders(Inhabitant):
    """Who leads which partition."""

    @in_home
    async def of(self, topic: str, partition: int = 0) -> int:
        """The leader of a partition; -1 where there is none.

        Raises:
            ConfigError: There is no such partition.
        """
        found = self._world.sim.metadata.image.partition(TopicPartition(topic, partition))
        if found is None:
            raise ConfigError(f"there is no partition {topic}-{partition}")
        return int(found.leader)

    @in_home
    async def move(self, topic: str, partition: int = 0, *, to: int | None = None) -> int:
        """Hand a partition to another replica in sync.

        Args:
            topic: Of the partition.
            partition: Its number.
            to: The broker; the next one in sync unless given.

        Returns:
            The new leader.

        Raises:
            ConfigError: There is no such partition, or nobody who could lead it.
        """
        broker = None if to is None else BrokerId(to)
        return int(self._world.sim.move_leader(TopicPartition(topic, partition), broker))

    @in_home
    async def coordinator_of(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id."""
        return await (await self._world.outside()).coordinator(transactional_id)
