"""News of the metadata that a fault keeps from a broker."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tests.support.images import B1, cluster, partition, topic
from txnsim.faults.actions import Drop, Hold
from txnsim.faults.plan import Action, FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.injection.injector import Injector
from txnsim.metadata.image import ClusterImage
from txnsim.node.crossings import Crossings
from txnsim.node.image_intake import ImageIntake
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.types import LeaderEpoch, TopicPartition

FIRST = (
    cluster()
    .with_topic(topic("orders", partition(1, replicas=(1, 2)), partition(2, replicas=(2, 1))))
    .with_topic(topic("others", partition(2, replicas=(2, 3)), topic_id=uuid.UUID(int=9)))
)


def changed(before: ClusterImage, name: str = "orders") -> ClusterImage:
    """The topic's partition 0 under another leader epoch."""
    where = TopicPartition(name, 0)
    old = before.partition(where)
    assert old is not None
    return before.with_partition(
        where, msgspec.structs.replace(old, leader_epoch=LeaderEpoch(old.leader_epoch + 1))
    )


SECOND = changed(FIRST)
THIRD = changed(SECOND)
FOURTH = changed(THIRD)


class World:
    def __init__(self, env: VirtualEnvironment) -> None:
        self.injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
        env.network.interceptor = self.injector
        self.taken = [FIRST]
        self.intake = ImageIntake(
            broker_id=B1,
            crossings=Crossings(node="broker/1", network=env.network, tasks=env.tasks),
            current=lambda: self.taken[-1],
            take_up=self.taken.append,
        )

    def arm(self, action: Action, **more: Any) -> None:
        self.injector.arm(FaultRule(id="f", point=FaultPoint.METADATA_APPLY, action=action, **more))


def run(main: Callable[[World], Awaitable[None]]) -> None:
    async def whole(env: VirtualEnvironment) -> None:
        await main(World(env))
        await env.tasks.close()

    run_virtual(whole, seed=1)


def test_news_is_taken_up_at_once() -> None:
    async def main(world: World) -> None:
        world.intake.told(SECOND)
        assert world.taken == [FIRST, SECOND]

    run(main)


def test_news_that_is_held_lets_later_news_wait_and_the_newest_says_all() -> None:
    async def main(world: World) -> None:
        world.arm(Hold(), limit=1)
        for one in (SECOND, THIRD, FOURTH):
            world.intake.told(one)
        assert world.taken == [FIRST]
        world.injector.release("f")
        await asyncio.sleep(0.001)
        assert world.taken == [FIRST, SECOND, FOURTH]

    run(main)


def test_news_that_is_lost_comes_with_the_next_image() -> None:
    async def main(world: World) -> None:
        world.arm(Drop(), limit=1)
        world.intake.told(SECOND)
        assert world.taken == [FIRST]
        world.intake.told(THIRD)
        assert world.taken == [FIRST, THIRD]

    run(main)


def test_a_rule_names_the_partitions_whose_roles_change() -> None:
    async def main(world: World) -> None:
        world.arm(Hold(), topic="orders", partition=1)
        world.intake.told(SECOND)
        assert world.taken[-1] is SECOND
        world.injector.disarm("f")
        world.arm(Hold(), topic="orders", partition=0)
        world.intake.told(THIRD)
        assert world.taken[-1] is SECOND

    run(main)


def test_a_broker_without_a_replica_has_no_role() -> None:
    async def main(world: World) -> None:
        world.arm(Hold(), topic="others")
        world.intake.told(elsewhere := changed(FIRST, "others"))
        assert world.taken[-1] is elsewhere

    run(main)
