"""The controller among its brokers: what it answers them, and what it does by itself."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from tests.support.images import B1, B2, B3, broker
from tests.support.within import within
from txnsim.controller.broker_sessions import BrokerState
from txnsim.controller.controller import NewTopic, initial_image
from txnsim.errors import ErrorCode, InvariantViolation
from txnsim.interbroker.lifecycle import (
    BrokerHeartbeatCommand,
    BrokerHeartbeatReply,
    BrokerRegistrationCommand,
    BrokerRegistrationReply,
)
from txnsim.interbroker.replication import AlterPartitionCommand, AlterPartitionReply
from txnsim.interbroker.transactions import AllocateProducerIdsCommand, AllocateProducerIdsReply
from txnsim.metadata.image import PartitionImage
from txnsim.node.controller_node import HEARTBEAT_MS, ControllerNode
from txnsim.node.metadata_publisher import Metadata
from txnsim.node.peers import CONTROLLER_ID
from txnsim.runtime.clock import STANDSTILL_MS
from txnsim.runtime.env import TimerHandle
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.settings import Settings
from txnsim.types import BrokerId, TopicPartition

P0 = TopicPartition("orders", 0)
SESSION_MS = Settings().broker_session_timeout_ms
REQUEST_MS = 500
FENCED, UNFENCED, LEAVING, GONE = BrokerState


class World:
    """A controller with three brokers that say nothing by themselves."""

    def __init__(self, env: VirtualEnvironment, **settings: Any) -> None:
        self.env = env
        self.metadata = Metadata(
            image=initial_image(
                cluster_id="c", brokers=(broker(1), broker(2), broker(3)), transaction_version=2
            ),
            settings=Settings(**settings),
            random_bits=env.rng.stream("topic-ids").getrandbits,
            reaches=lambda broker_id: env.network.reaches(CONTROLLER_ID, broker_id),
        )
        self.metadata.create_topic(NewTopic(name="orders", replication_factor=3))
        self.controller = ControllerNode(metadata=self.metadata, environment=env)
        self.controller.start()

    async def ask(self, command: object, source: BrokerId = B1) -> Any:
        return await self.env.network.ask(
            source, CONTROLLER_ID, 0, 0, command, timeout_ms=REQUEST_MS
        )

    async def beat(
        self, broker_id: BrokerId, *, epoch: int | None = None, **wishes: bool
    ) -> BrokerHeartbeatReply:
        image = self.metadata.image
        reply = await self.ask(
            BrokerHeartbeatCommand(
                broker_id=broker_id,
                broker_epoch=image.brokers[broker_id].epoch if epoch is None else epoch,
                metadata_offset=image.offset,
                **wishes,
            )
        )
        assert isinstance(reply, BrokerHeartbeatReply)
        return reply

    async def register(
        self, broker_id: BrokerId, *, incarnation: int = 7
    ) -> BrokerRegistrationReply:
        reply = await self.ask(
            BrokerRegistrationCommand(
                broker_id=broker_id,
                cluster_id="c",
                incarnation_id=uuid.UUID(int=incarnation),
                host="h",
                port=1,
            )
        )
        assert isinstance(reply, BrokerRegistrationReply)
        return reply

    @property
    def partition(self) -> PartitionImage:
        found = self.metadata.image.partition(P0)
        assert found is not None
        return found


def run(main: Callable[[World], Awaitable[None]], **settings: Any) -> list[dict[str, Any]]:
    """Run a story; returns the states that were traced."""

    async def whole(env: VirtualEnvironment) -> list[dict[str, Any]]:
        world = World(env, **settings)
        await main(world)
        world.controller.stop()
        await env.tasks.close()
        lines: list[bytes] = []
        env.tracer.export(lines.append)
        events = [msgspec.json.decode(line) for line in b"".join(lines).splitlines()]
        return [event["d"] for event in events if event["k"] == "node.state"]

    return run_virtual(whole, seed=1, trace_level=TraceLevel.FULL)


@within(run)
async def test_producer_ids_come_in_blocks_that_never_overlap(world: World) -> None:
    blocks = [
        await world.ask(AllocateProducerIdsCommand(broker_id=who, broker_epoch=who))
        for who in (B1, B2, B1)
    ]
    assert blocks == [
        AllocateProducerIdsReply(first=first, length=1_000) for first in (0, 1_000, 2_000)
    ]


@pytest.mark.parametrize(
    ("who", "epoch", "error"),
    [(1, 9, ErrorCode.stale_broker_epoch), (7, 7, ErrorCode.broker_id_not_registered)],
)
@within(run)
async def test_a_stranger_gets_no_block(
    world: World, who: int, epoch: int, error: ErrorCode
) -> None:
    command = AllocateProducerIdsCommand(broker_id=BrokerId(who), broker_epoch=epoch)
    reply = await world.ask(command)
    assert isinstance(reply, AllocateProducerIdsReply)
    assert reply.error == error


@within(run)
async def test_a_leaders_isr_request_is_judged(world: World) -> None:
    command = AlterPartitionCommand(broker_id=B1, broker_epoch=99, partitions=())
    assert await world.ask(command) == AlterPartitionReply(error=ErrorCode.stale_broker_epoch)


@within(run)
async def test_anything_else_is_a_bug_of_the_asker(world: World) -> None:
    with pytest.raises(InvariantViolation, match="broker 2"):
        await world.controller.handle_peer(0, 0, None, B2)


def test_who_is_not_heard_of_is_fenced_and_comes_back_with_a_heartbeat() -> None:
    async def main(world: World) -> None:
        for _ in range(5):
            await asyncio.sleep(2)
            await world.beat(B2)
            await world.beat(B3)
        assert world.controller.state(B1) is FENCED
        assert not world.metadata.image.is_alive(B1)
        assert (world.partition.leader, world.partition.isr) == (2, (2, 3))
        assert world.metadata.image.is_alive(B3)
        reply = await world.beat(B1)
        assert (reply.is_fenced, reply.is_caught_up) == (False, True)
        assert world.metadata.image.is_alive(B1)
        assert world.partition.isr == (2, 3), "it has to catch up first"

    assert run(main) == [{"state": "fenced"}, {"state": "unfenced"}]


@within(run)
async def test_when_all_brokers_are_silent_none_is_left(world: World) -> None:
    await asyncio.sleep(60)
    assert not world.metadata.image.alive_brokers()
    assert world.partition.leader == -1
    assert world.partition.last_known_elr == (3,)
    assert world.partition.elr == (3,), "the last one that was in sync"
    await world.beat(B1)
    assert world.partition.leader == -1, "it lacks what came after it had left"
    await world.beat(B3)
    assert world.partition.leader == 3


@within(run)
async def test_a_process_that_stood_still_fences_no_broker(world: World) -> None:
    clock = world.env.clock
    punctual = clock.call_at

    def late(due_ms: int, callback: Callable[[], object]) -> TimerHandle:
        is_session = due_ms - clock.now_ms() > REQUEST_MS
        return punctual(due_ms + (STANDSTILL_MS if is_session else 0), callback)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(clock, "call_at", late)
        for broker_id in (B1, B2, B3):
            await world.beat(broker_id)
    await asyncio.sleep((2 * SESSION_MS + STANDSTILL_MS) / 1_000 - 0.1)
    assert world.partition.leader == 1
    await asyncio.sleep(0.2)
    assert world.partition.leader == -1


@within(run)
async def test_an_advance_ends_the_session_of_who_is_silent(world: World) -> None:
    """Who lives is heard during the advance; a moment is granted for that."""
    for broker_id in (B1, B2, B3):
        await world.beat(broker_id)
    world.env.clock.advance(SESSION_MS + 1)
    await asyncio.sleep(0.01)
    await world.beat(B2)
    assert world.partition.leader == 1, "its heartbeat may be on its way"
    await asyncio.sleep(HEARTBEAT_MS / 1_000)
    assert (world.controller.state(B1), world.controller.state(B2)) == (FENCED, UNFENCED)
    assert world.partition.leader == 2
    world.env.clock.shift(10 * SESSION_MS)
    await asyncio.sleep(1)
    assert world.controller.state(B2) is UNFENCED, "a clock that is set lets no time pass"


@within(run)
async def test_a_new_incarnation_waits_for_the_session_of_the_old_one(world: World) -> None:
    assert (await world.register(B1)).error == ErrorCode.duplicate_broker_registration
    await asyncio.sleep(10)
    reply = await world.register(B1)
    assert reply.error == 0
    assert reply.broker_epoch == world.metadata.image.brokers[B1].epoch
    assert world.controller.state(B1) is FENCED
    stale = await world.beat(B1, epoch=1)
    assert stale.error == ErrorCode.stale_broker_epoch
    assert not (await world.beat(B1)).is_fenced


def test_leaders_move_away_before_a_broker_stops() -> None:
    async def main(world: World) -> None:
        first = await world.beat(B1, want_shut_down=True)
        assert not first.should_shut_down
        assert world.controller.state(B1) is LEAVING
        assert (world.partition.leader, world.partition.isr) == (2, (2, 3))
        again = await world.beat(B1, want_shut_down=True)
        assert not again.should_shut_down, "others have not said yet that they know"
        await world.beat(B2)
        await world.beat(B3)
        last = await world.beat(B1, want_shut_down=True)
        assert last.should_shut_down
        assert not world.metadata.image.is_alive(B1)

    assert run(main) == [{"state": "controlled_shutdown"}, {"state": "shutdown_now"}]


@within(run)
async def test_unclean_elections_are_tried_by_the_cluster_clock(world: World) -> None:
    image = world.metadata.image
    lost = msgspec.structs.replace(world.partition, leader=BrokerId(-1), isr=())
    world.metadata.publish(
        image.with_partition(P0, lost).with_topic_configs(
            "orders", {"unclean.leader.election.enable": "false"}
        )
    )
    world.env.clock.advance(300_000)
    assert world.partition.leader == -1
    world.metadata.publish(
        world.metadata.image.with_topic_configs(
            "orders", {"unclean.leader.election.enable": "true"}
        )
    )
    assert world.partition.leader == -1, "the config alone elects nobody"
    world.env.clock.advance(300_000)
    assert world.partition.leader == 1
    assert world.partition.is_recovering


@pytest.mark.parametrize("is_on", [True, False])
def test_leaders_go_back_by_themselves_where_that_is_on(is_on: bool) -> None:
    async def main(world: World) -> None:
        moved = msgspec.structs.replace(world.partition, leader=B2)
        world.metadata.publish(world.metadata.image.with_partition(P0, moved))
        world.env.clock.advance(86_400_000)
        assert world.partition.leader == 2, "an advance moves no leader"
        for _ in range(302):
            for one in (B1, B2, B3):  # the first ones in time: who lives is heard in an advance
                await world.beat(one)
            await asyncio.sleep(1)
        assert world.partition.leader == (1 if is_on else 2)

    run(main, auto_leader_rebalance_enable=is_on)


@within(run)
async def test_a_broker_hears_what_it_has_missed_once_its_link_heals(world: World) -> None:
    heard: list[int] = []
    world.metadata.subscribe(lambda image: heard.append(image.offset), broker_id=B2)
    world.env.network.cut(CONTROLLER_ID, B2)
    world.metadata.create_topic(NewTopic(name="more"))
    assert heard == []
    world.env.network.cut(B1, B2)
    world.env.network.heal(B1, B2)
    assert heard == []
    world.env.network.heal(CONTROLLER_ID, B2)
    assert heard == [world.metadata.image.offset]
