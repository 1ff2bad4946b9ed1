"""Timers of groups: one per kind, group and member, and none of what is gone."""

from __future__ import annotations

from tests.support.coordinator import ManualClock
from txnsim.coordinators.group._timers import GroupTimers
from txnsim.group.commands import TimerCancelled, TimerKind, TimerSet
from txnsim.group.shard import GroupShard


class Armed:
    """Timers of one shard; the members whose timer fired, in order."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = GroupTimers(clock=self.clock)
        self.shard = GroupShard(partition=3, coordinator_epoch=0)
        self.fired: list[str] = []

    def arm(
        self, member_id: str, delay_ms: int, *, group_id: str = "g", keeps_first: bool = False
    ) -> None:
        timer = TimerSet(
            kind=TimerKind.HEARTBEAT,
            group_id=group_id,
            member_id=member_id,
            delay_ms=delay_ms,
            keeps_first=keeps_first,
        )
        self.timers.arm(self.shard, timer, lambda due: self.fired.append(due.member_id))


def test_a_timer_that_is_armed_again_is_moved_unless_the_first_one_counts() -> None:
    armed = Armed()
    armed.arm("a", 10)
    armed.arm("a", 30)
    armed.arm("b", 20)
    armed.arm("b", 40, keeps_first=True)
    armed.clock.pass_ms(25)
    assert armed.fired == ["b"]
    armed.clock.pass_ms(25)
    assert armed.fired == ["b", "a"]
    armed.arm("b", 10, keeps_first=True)
    armed.clock.pass_ms(10)
    assert armed.fired == ["b", "a", "b"]


def test_what_is_gone_does_not_fire() -> None:
    armed = Armed()
    for member, group in (("a", "g"), ("b", "g"), ("c", "h")):
        armed.arm(member, 10, group_id=group)
    armed.timers.disarm(
        armed.shard, TimerCancelled(kind=TimerKind.HEARTBEAT, group_id="g", member_id="a")
    )
    armed.timers.disarm(armed.shard, TimerCancelled(kind=TimerKind.SYNC, group_id="g"))
    armed.timers.forget(armed.shard, "g")
    armed.clock.pass_ms(10)
    assert armed.fired == ["c"]
    armed.arm("d", 10)
    armed.timers.unloaded(armed.shard)
    armed.timers.unloaded(armed.shard)
    armed.clock.pass_ms(10)
    assert armed.fired == ["c"]
