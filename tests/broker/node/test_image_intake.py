"""News of the metadata that a fault keeps from a broker."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.support.images import B1, cluster, partition, topic
from tests.support.within import in_virtual_time, within
from txnsim.faults.actions import Drop, Hold
from txnsim.faults.plan import Action, FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.injection.injector import Injector
from txnsim.metadata.image import ClusterImage
from txnsim.node.crossings import Crossings
from txnsim.node.image_intake import ImageIntake
from txnsim.runtime.virtual.run import VirtualEnvironment
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
        self.crossings = Crossings(node="broker/1", network=env.network, tasks=env.tasks)
        self.taken = [FIRST]
        self.steps = 0
        self.intake = ImageIntake(
            broker_id=B1,
            crossings=self.crossings,
            current=lambda: self.taken[-1],
            take_up=self.take_up,
            clock=env.clock,
        )

    def take_up(self, image: ClusterImage) -> Iterator[int]:
        self.taken.append(image)
        for topic_image in image.topics.values():
            for _ in topic_image.partitions:
                self.steps += 1
                yield 8

    def arm(self, action: Action, **more: Any) -> None:
        self.injector.arm(FaultRule(id="f", point=FaultPoint.METADATA_APPLY, action=action, **more))


run = in_virtual_time(World)


@within(run)
async def test_news_is_taken_up_at_once(world: World) -> None:
    world.intake.receive(SECOND)
    assert world.taken == [FIRST, SECOND]


@within(run)
async def test_news_that_is_held_lets_later_news_wait_and_the_newest_says_all(world: World) -> None:
    world.arm(Hold(), limit=1)
    for one in (SECOND, THIRD, FOURTH):
        world.intake.receive(one)
    assert world.taken == [FIRST]
    world.injector.release("f")
    await asyncio.sleep(0.001)
    assert world.taken == [FIRST, SECOND, FOURTH]


@within(run)
async def test_news_that_is_lost_comes_with_the_next_image(world: World) -> None:
    world.arm(Drop(), limit=1)
    world.intake.receive(SECOND)
    assert world.taken == [FIRST]
    world.intake.receive(THIRD)
    assert world.taken == [FIRST, THIRD]


@within(run)
async def test_a_rule_names_the_partitions_whose_roles_change(world: World) -> None:
    world.arm(Hold(), topic="orders", partition=1)
    world.intake.receive(SECOND)
    assert world.taken[-1] is SECOND
    world.injector.disarm("f")
    world.arm(Hold(), topic="orders", partition=0)
    world.intake.receive(THIRD)
    assert world.taken[-1] is SECOND


@within(run)
async def test_a_broker_without_a_replica_has_no_role(world: World) -> None:
    world.arm(Hold(), topic="others")
    world.intake.receive(elsewhere := changed(FIRST, "others"))
    assert world.taken[-1] is elsewhere


WIDE = FIRST.with_topic(
    topic("wide", *[partition(1, replicas=(1,))] * 600, topic_id=uuid.UUID(int=11))
)
PARTITIONS = 603


@within(run)
async def test_many_changes_are_taken_up_in_slices_and_later_news_waits(world: World) -> None:
    world.intake.receive(WIDE)
    assert world.taken == [FIRST, WIDE]
    assert world.steps == 128, "a slice is 1,024 elements, a replica counts for eight"
    later = changed(WIDE)
    world.intake.receive(changed(WIDE, "others"))
    world.intake.receive(later)
    assert world.taken == [FIRST, WIDE]
    await world.intake.up_to_date()
    assert world.taken == [FIRST, WIDE, later]
    assert world.steps == 2 * PARTITIONS


@within(run)
async def test_many_deletions_are_taken_up_in_slices_too(world: World) -> None:
    world.taken = [WIDE]
    world.intake.receive(FIRST)
    assert world.taken == [WIDE, FIRST]
    await world.intake.up_to_date()
    assert world.steps == 3


@within(run)
async def test_a_broker_that_is_gone_takes_up_no_more(world: World) -> None:
    world.intake.receive(WIDE)
    world.intake.receive(changed(WIDE))
    world.crossings.stop()
    await world.intake.up_to_date()
    assert world.taken == [FIRST, WIDE]
    assert world.steps == 128


@within(run)
async def test_news_that_a_fault_holds_is_not_waited_for(world: World) -> None:
    world.arm(Hold())
    world.intake.receive(WIDE)
    await world.intake.up_to_date()
    assert world.taken == [FIRST]
    world.injector.release("f")
    await asyncio.sleep(0.001)
    assert world.taken == [FIRST, WIDE]
    assert world.steps == PARTITIONS
