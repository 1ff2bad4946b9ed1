"""What carries out actions on the cluster: the protocol, and which action calls which method.

The injector gets an implementation (``server.cluster_control``) and knows no more of the cluster
than this. Each method returns when its action is done: the struck crossing waits until then. A
lasting action returns an ``Undo``. The injector decides when to call it: after the action's time,
on release or on disarming. Each ``Undo`` is called at most once.

A method may be called while a crossing of the very broker it strikes is under way, after the
callback in which that crossing came (never inside it). It must not wait for that crossing, which
waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, assert_never

from txnsim.faults.cluster_actions import (
    ClockJump,
    ClusterAction,
    Crash,
    FillDisk,
    LagReplica,
    MoveLeader,
    Partition,
    ResignLeader,
)
from txnsim.types import BrokerId, TopicPartition

Undo = Callable[[], Coroutine[Any, Any, None]]
"""Ends what lasts; done already, or too late because the cluster stops, it does nothing."""


class ClusterControl(Protocol):
    """Does to a running cluster what a rule asks for.

    Every method raises TxnsimError where the cluster has no such broker or partition, or is not in
    a state in which the thing can be done; the message says so.
    """

    async def crash(self, broker: BrokerId, *, lose_unflushed: bool) -> Undo:
        """Kill a broker without a controlled shutdown; undone, it is started again.

        Args:
            broker: The broker; one that is down already stays down, and its undo starts it.
            lose_unflushed: Cut its logs back to the flushed records.
        """

    async def move_leader(self, partition: TopicPartition, *, to: BrokerId | None) -> None:
        """Make ``to`` the leader, or the replica of the ISR that the controller picks.

        When this returns, all brokers that can hear of it have taken it up. It does not wait for a
        broker that is cut off, or kept from the news by a rule.
        """

    async def resign_leader(self, partition: TopicPartition) -> None:
        """Let the leader step down and be elected again, in a new leader epoch."""

    async def partition(self, groups: tuple[tuple[BrokerId, ...], ...]) -> Undo:
        """Cut every link between brokers of different groups; undone, those links are whole. The
        controller, 3000, may be in a group, too; in none it reaches everybody.
        """

    async def move_clock(self, by_ms: int, *, broker: BrokerId | None) -> Undo:
        """Set a broker's clock forward or back, or everybody's; undone, it is set right again."""

    async def fill_disk(self, broker: BrokerId) -> Undo:
        """Leave no room on a broker's disk: the next write is answered KAFKA_STORAGE_ERROR and
        takes the log directory offline; undone, there is room again, and a broker whose directory
        had failed is restarted.
        """

    async def lag_replica(self, broker: BrokerId, partition: TopicPartition) -> Undo:
        """Hold back the Fetches of a follower for one partition; undone, it catches up."""


async def carry_out(
    control: ClusterControl, action: ClusterAction, *, struck: BrokerId | None
) -> Undo | None:
    """Do what an action says.

    Args:
        control: Who does it.
        action: What.
        struck: The broker at which the rule struck; None at the point ``now``.

    Returns:
        How to end it, where it lasts.
    """
    match action:
        case Crash(broker=broker, lose_unflushed=lose_unflushed):
            return await control.crash(_one_of(broker, struck), lose_unflushed=lose_unflushed)
        case MoveLeader(topic=topic, partition=index, to=to):
            leader = None if to is None else BrokerId(to)
            await control.move_leader(TopicPartition(topic, index), to=leader)
            return None
        case ResignLeader(topic=topic, partition=index):
            await control.resign_leader(TopicPartition(topic, index))
            return None
        case Partition(groups=groups):
            return await control.partition(
                tuple(tuple(BrokerId(broker) for broker in group) for group in groups)
            )
        case ClockJump(by_ms=by_ms, broker=broker):
            whose = None if broker is None else BrokerId(broker)
            return await control.move_clock(by_ms, broker=whose)
        case FillDisk(broker=broker):
            return await control.fill_disk(_one_of(broker, struck))
        case LagReplica(broker=broker, topic=topic, partition=index):
            return await control.lag_replica(BrokerId(broker), TopicPartition(topic, index))
    assert_never(action)


def _one_of(named: int | None, struck: BrokerId | None) -> BrokerId:
    broker = named if named is not None else struck
    assert broker is not None  # a rule at the point `now` names its broker
    return BrokerId(broker)
