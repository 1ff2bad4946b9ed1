"""The timers of a broker's groups, of either protocol.

They run on the monotonic clock, like the clients that keep sessions and rebalances alive; advancing
the cluster's clock expels no member. Counterpart in Kafka: CoordinatorTimer.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from txnsim.group.commands import TimerCancelled, TimerKind, TimerSet
from txnsim.group.shard import GroupShard
from txnsim.runtime.env import Clock, TimerHandle

_Key = tuple[TimerKind, str, str]


class GroupTimers(msgspec.Struct, kw_only=True, eq=False):
    """Armed timers; each (kind, group, member) has one."""

    clock: Clock
    _armed: dict[int, dict[_Key, TimerHandle]] = {}
    """By partition of ``__consumer_offsets``."""

    def arm(self, shard: GroupShard, timer: TimerSet, due: Callable[[TimerSet], None]) -> None:
        """Arm a timer, or move it; ``due`` is called with it when it fires."""
        key = _key(timer)
        if timer.keeps_first and key in self._armed.get(shard.partition, {}):
            return
        self.disarm(shard, timer)

        def fire() -> None:
            self._armed.get(shard.partition, {}).pop(key, None)
            due(timer)

        armed = self._armed.setdefault(shard.partition, {})
        armed[key] = self.clock.call_later(timer.delay_ms, fire)

    def disarm(self, shard: GroupShard, timer: TimerSet | TimerCancelled) -> None:
        """Cancel a timer, armed or not."""
        armed = self._armed.get(shard.partition, {}).pop(_key(timer), None)
        if armed is not None:
            armed.cancel()

    def forget(self, shard: GroupShard, group_id: str) -> None:
        """The group was deleted, or has changed its protocol: nothing of it fires any more."""
        timers = self._armed.get(shard.partition, {})
        for key in [key for key in timers if key[1] == group_id]:
            timers.pop(key).cancel()

    def unloaded(self, shard: GroupShard) -> None:
        """Another broker coordinates these groups now."""
        for armed in self._armed.pop(shard.partition, {}).values():
            armed.cancel()


def _key(timer: TimerSet | TimerCancelled) -> _Key:
    return timer.kind, timer.group_id, timer.member_id
