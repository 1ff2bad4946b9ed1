"""A cluster control that records actions and carries none of them out."""

from __future__ import annotations

import asyncio

from txnsim.errors import ConfigError
from txnsim.injection.armed_rule import Undo
from txnsim.server._cluster_control import SimClusterControl
from txnsim.types import BrokerId, TopicPartition

MISSING = BrokerId(99)


class RecordingControl(SimClusterControl):
    """Records every action in words, and waits at ``gate`` before each. There is no broker 99."""

    def __init__(self) -> None:
        self.actions: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def _do(self, action_name: str) -> Undo:
        await self.gate.wait()
        self.actions.append(action_name)

        async def undo() -> None:
            self.actions.append(f"undo {action_name}")

        return undo

    async def crash(self, broker: BrokerId, *, lose_unflushed: bool) -> Undo:
        """Note the words; nothing crashes. Broker 99 is unknown (ConfigError)."""
        if broker == MISSING:
            raise ConfigError("there is no broker 99")
        loss_text = " losing what was not flushed" if lose_unflushed else ""
        return await self._do(f"crash {broker}{loss_text}")

    async def move_leader(self, partition: TopicPartition, *, new_leader: BrokerId | None) -> None:
        """Note it."""
        await self._do(f"move {partition} to {new_leader or 'somebody'}")

    async def resign_leader(self, partition: TopicPartition) -> None:
        """Note it."""
        await self._do(f"resign {partition}")

    async def partition(self, groups: tuple[tuple[BrokerId, ...], ...]) -> Undo:
        """Note it."""
        return await self._do(f"partition {groups}")

    async def move_clock(self, by_ms: int, *, broker: BrokerId | None) -> Undo:
        """Note it."""
        return await self._do(f"clock {by_ms} of {broker or 'all'}")

    async def fill_disk(self, broker: BrokerId) -> Undo:
        """Note it."""
        return await self._do(f"fill {broker}")

    async def lag_replica(self, broker: BrokerId, partition: TopicPartition) -> Undo:
        """Note it."""
        return await self._do(f"lag {partition} on {broker}")
