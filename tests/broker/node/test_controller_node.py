"""The controller among its brokers: what it answers, publishes and does by itself."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest

from tests.support.images import B1, B2, B3, broker, cluster, partition, topic
from tests.support.within_environment import in_virtual_time, within
from txnsim.controller.broker_sessions import BrokerState
from txnsim.controller.controller import TopicToCreate, initial_image
from txnsim.errors import ErrorCode, InvariantViolation, Rejection
from txnsim.faults.actions import Drop, Hold
from txnsim.faults.plan import Action, FaultRule
from txnsim.faults.points import FaultPoint
from txnsim.injection.injector import Injector
from txnsim.interbroker.lifecycle import (
    BrokerHeartbeatCommand,
    BrokerHeartbeatReply,
    BrokerRegistrationCommand,
    BrokerRegistrationReply,
)
from txnsim.interbroker.replication import AlterPartitionCommand, AlterPartitionReply
from txnsim.interbroker.transactions import AllocateProducerIdsCommand, AllocateProducerIdsReply
from txnsim.metadata.image import ClusterImage, PartitionImage, TopicImage
from txnsim.node.broker_fault_points import BrokerFaultPoints
from txnsim.node.controller_node import HEARTBEAT_MS, ControllerNode
from txnsim.node.image_intake import ImageIntake
from txnsim.node.metadata_publisher import Metadata
from txnsim.node.peers import CONTROLLER_ID
from txnsim.runtime.clock import STANDSTILL_MS
from txnsim.runtime.environment import TimerHandle
from txnsim.runtime.loop_turns import Pace
from txnsim.runtime.rng import RandomStreams
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.settings import Settings
from txnsim.types import TRANSACTION_STATE_TOPIC, BrokerId, LeaderEpoch, TopicPartition

# The controller among its brokers: what it answers them, and what it does by itself.


P0 = TopicPartition("orders", 0)
SESSION_MS = Settings().broker_session_timeout_ms
REQUEST_MS = 500
FENCED, UNFENCED, LEAVING, GONE = BrokerState


class ControllerBench:
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
        self.metadata.create_topic(TopicToCreate(name="orders", replication_factor=3))
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
        partition = self.metadata.image.partition(P0)
        assert partition is not None
        return partition


def run(
    main: Callable[[ControllerBench], Awaitable[None]], **settings: Any
) -> list[dict[str, Any]]:
    """Run a story in virtual time; return the traced states of brokers."""

    async def run_with_bench(env: VirtualEnvironment) -> list[dict[str, Any]]:
        controller_bench = ControllerBench(env, **settings)
        await main(controller_bench)
        controller_bench.controller.stop()
        await env.tasks.close()
        lines: list[bytes] = []
        env.tracer.export(lines.append)
        events = [msgspec.json.decode(line) for line in b"".join(lines).splitlines()]
        return [event["d"] for event in events if event["k"] == "node.state"]

    return run_virtual(run_with_bench, seed=1, trace_level=TraceLevel.FULL)


@within(run)
async def test_producer_ids_come_in_blocks_that_never_overlap(
    controller_bench: ControllerBench,
) -> None:
    blocks = [
        await controller_bench.ask(
            AllocateProducerIdsCommand(broker_id=broker_id, broker_epoch=broker_id)
        )
        for broker_id in (B1, B2, B1)
    ]
    assert blocks == [
        AllocateProducerIdsReply(first_producer_id=first_id, producer_id_count=1_000)
        for first_id in (0, 1_000, 2_000)
    ]


@pytest.mark.parametrize(
    ("broker_id", "epoch", "error"),
    [(1, 9, ErrorCode.stale_broker_epoch), (7, 7, ErrorCode.broker_id_not_registered)],
)
@within(run)
async def test_a_stranger_gets_no_block(
    controller_bench: ControllerBench, broker_id: int, epoch: int, error: ErrorCode
) -> None:
    command = AllocateProducerIdsCommand(broker_id=BrokerId(broker_id), broker_epoch=epoch)
    reply = await controller_bench.ask(command)
    assert isinstance(reply, AllocateProducerIdsReply)
    assert reply.error == error


@within(run)
async def test_a_leaders_isr_request_is_judged(controller_bench: ControllerBench) -> None:
    command = AlterPartitionCommand(broker_id=B1, broker_epoch=99, partitions=())
    assert await controller_bench.ask(command) == AlterPartitionReply(
        error=ErrorCode.stale_broker_epoch
    )


@within(run)
async def test_anything_else_is_a_bug_of_the_asker(controller_bench: ControllerBench) -> None:
    with pytest.raises(InvariantViolation, match="broker 2"):
        await controller_bench.controller.handle_peer(0, 0, None, B2)


def test_who_is_not_heard_of_is_fenced_and_comes_back_with_a_heartbeat() -> None:
    async def main(controller_bench: ControllerBench) -> None:
        for _ in range(5):
            await asyncio.sleep(2)
            await controller_bench.beat(B2)
            await controller_bench.beat(B3)
        assert controller_bench.controller.state(B1) is FENCED
        assert not controller_bench.metadata.image.is_alive(B1)
        assert (controller_bench.partition.leader, controller_bench.partition.isr) == (2, (2, 3))
        assert controller_bench.metadata.image.is_alive(B3)
        reply = await controller_bench.beat(B1)
        assert (reply.is_fenced, reply.is_caught_up) == (False, True)
        assert controller_bench.metadata.image.is_alive(B1)
        assert controller_bench.partition.isr == (2, 3), "it has to catch up first"

    assert run(main) == [{"state": "fenced"}, {"state": "unfenced"}]


@within(run)
async def test_when_all_brokers_are_silent_none_is_left(controller_bench: ControllerBench) -> None:
    await asyncio.sleep(60)
    assert not controller_bench.metadata.image.alive_brokers()
    assert controller_bench.partition.leader == -1
    assert controller_bench.partition.last_known_elr == (3,)
    assert controller_bench.partition.elr == (3,), "the last one that was in sync"
    await controller_bench.beat(B1)
    assert controller_bench.partition.leader == -1, "it lacks what came after it had left"
    await controller_bench.beat(B3)
    assert controller_bench.partition.leader == 3


@within(run)
async def test_a_process_that_stood_still_fences_no_broker(
    controller_bench: ControllerBench,
) -> None:
    clock = controller_bench.env.clock
    punctual = clock.call_at

    def late(due_ms: int, callback: Callable[[], object]) -> TimerHandle:
        is_session = due_ms - clock.now_ms() > REQUEST_MS
        return punctual(due_ms + (STANDSTILL_MS if is_session else 0), callback)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(clock, "call_at", late)
        for broker_id in (B1, B2, B3):
            await controller_bench.beat(broker_id)
    await asyncio.sleep((2 * SESSION_MS + STANDSTILL_MS) / 1_000 - 0.1)
    assert controller_bench.partition.leader == 1
    await asyncio.sleep(0.2)
    assert controller_bench.partition.leader == -1


@within(run)
async def test_an_advance_ends_the_session_of_who_is_silent(
    controller_bench: ControllerBench,
) -> None:
    """The advance waits a moment, in which live brokers send their heartbeats."""
    for broker_id in (B1, B2, B3):
        await controller_bench.beat(broker_id)
    controller_bench.env.clock.advance(SESSION_MS + 1)
    await asyncio.sleep(0.01)
    await controller_bench.beat(B2)
    assert controller_bench.partition.leader == 1, "its heartbeat may be on its way"
    await asyncio.sleep(HEARTBEAT_MS / 1_000)
    assert (controller_bench.controller.state(B1), controller_bench.controller.state(B2)) == (
        FENCED,
        UNFENCED,
    )
    assert controller_bench.partition.leader == 2
    controller_bench.env.clock.shift(10 * SESSION_MS)
    await asyncio.sleep(1)
    assert controller_bench.controller.state(B2) is UNFENCED, (
        "a clock that is set lets no time pass"
    )


@within(run)
async def test_a_new_incarnation_waits_for_the_session_of_the_old_one(
    controller_bench: ControllerBench,
) -> None:
    assert (await controller_bench.register(B1)).error == ErrorCode.duplicate_broker_registration
    await asyncio.sleep(10)
    reply = await controller_bench.register(B1)
    assert reply.error == 0
    assert reply.broker_epoch == controller_bench.metadata.image.brokers[B1].epoch
    assert controller_bench.controller.state(B1) is FENCED
    stale_reply = await controller_bench.beat(B1, epoch=1)
    assert stale_reply.error == ErrorCode.stale_broker_epoch
    assert not (await controller_bench.beat(B1)).is_fenced


def test_leaders_move_away_before_a_broker_stops() -> None:
    async def main(controller_bench: ControllerBench) -> None:
        first_reply = await controller_bench.beat(B1, want_shut_down=True)
        assert not first_reply.should_shut_down
        assert controller_bench.controller.state(B1) is LEAVING
        assert (controller_bench.partition.leader, controller_bench.partition.isr) == (2, (2, 3))
        second_reply = await controller_bench.beat(B1, want_shut_down=True)
        assert not second_reply.should_shut_down, "others have not said yet that they know"
        await controller_bench.beat(B2)
        await controller_bench.beat(B3)
        last_reply = await controller_bench.beat(B1, want_shut_down=True)
        assert last_reply.should_shut_down
        assert not controller_bench.metadata.image.is_alive(B1)

    assert run(main) == [{"state": "controlled_shutdown"}, {"state": "shutdown_now"}]


@within(run)
async def test_unclean_elections_are_tried_by_the_cluster_clock(
    controller_bench: ControllerBench,
) -> None:
    image = controller_bench.metadata.image
    leaderless_partition = msgspec.structs.replace(
        controller_bench.partition, leader=BrokerId(-1), isr=()
    )
    controller_bench.metadata.publish(
        image.with_partition(P0, leaderless_partition).with_topic_configs(
            "orders", {"unclean.leader.election.enable": "false"}
        )
    )
    controller_bench.env.clock.advance(300_000)
    assert controller_bench.partition.leader == -1
    controller_bench.metadata.publish(
        controller_bench.metadata.image.with_topic_configs(
            "orders", {"unclean.leader.election.enable": "true"}
        )
    )
    assert controller_bench.partition.leader == -1, "the config alone elects nobody"
    controller_bench.env.clock.advance(300_000)
    assert controller_bench.partition.leader == 1
    assert controller_bench.partition.is_recovering


@pytest.mark.parametrize("is_on", [True, False])
def test_leaders_go_back_by_themselves_where_that_is_on(is_on: bool) -> None:
    async def main(controller_bench: ControllerBench) -> None:
        moved_partition = msgspec.structs.replace(controller_bench.partition, leader=B2)
        controller_bench.metadata.publish(
            controller_bench.metadata.image.with_partition(P0, moved_partition)
        )
        controller_bench.env.clock.advance(86_400_000)
        assert controller_bench.partition.leader == 2, "an advance moves no leader"
        for _ in range(302):
            # The first heartbeats come in time: the controller hears them during an advance.
            for broker_id in (B1, B2, B3):
                await controller_bench.beat(broker_id)
            await asyncio.sleep(1)
        assert controller_bench.partition.leader == (1 if is_on else 2)

    run(main, auto_leader_rebalance_enable=is_on)


@within(run)
async def test_a_broker_hears_what_it_has_missed_once_its_link_heals(
    controller_bench: ControllerBench,
) -> None:
    image_offsets: list[int] = []
    controller_bench.metadata.subscribe(
        lambda image: image_offsets.append(image.offset), broker_id=B2
    )
    controller_bench.env.network.cut(CONTROLLER_ID, B2)
    controller_bench.metadata.create_topic(TopicToCreate(name="more"))
    assert image_offsets == []
    controller_bench.env.network.cut(B1, B2)
    controller_bench.env.network.heal(B1, B2)
    assert image_offsets == []
    controller_bench.env.network.heal(CONTROLLER_ID, B2)
    assert image_offsets == [controller_bench.metadata.image.offset]


# The metadata log as one object: publishing, creating topics, blocks of producer ids.


def metadata(seed: int = 1) -> Metadata:
    return Metadata(
        image=initial_image(cluster_id="c", brokers=(broker(1), broker(2)), transaction_version=2),
        settings=Settings(),
        random_bits=RandomStreams(seed).stream("topic-ids").getrandbits,
    )


def test_subscribers_learn_of_a_change_in_order_of_subscription() -> None:
    images_by_listener: list[tuple[str, ClusterImage]] = []
    metadata_core = metadata()
    metadata_core.subscribe(lambda image: images_by_listener.append(("a", image)))
    metadata_core.subscribe(lambda image: images_by_listener.append(("b", image)))
    metadata_core.publish(metadata_core.image)
    assert images_by_listener == [], "nothing has changed"
    metadata_core.create_topic(TopicToCreate(name="orders"))
    assert [name for name, _ in images_by_listener] == ["a", "b"]
    assert all(image is metadata_core.image for _, image in images_by_listener)
    assert "orders" in metadata_core.image.topics


def test_a_refused_topic_is_not_published() -> None:
    metadata_core = metadata()
    image_before = metadata_core.image
    rejection = metadata_core.create_topic(TopicToCreate(name="a b"))
    assert isinstance(rejection, Rejection)
    assert rejection.error is ErrorCode.invalid_topic_exception
    assert metadata_core.image is image_before


def test_topic_ids_are_random_ones_and_repeat_with_the_seed() -> None:
    ids = [metadata(seed).new_topic_id() for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]
    assert {topic_id.version for topic_id in ids} == {4}
    assert isinstance(ids[0], uuid.UUID)


@pytest.mark.parametrize(
    ("topic_name", "partitions", "is_internal"),
    [(TRANSACTION_STATE_TOPIC, 50, True), ("orders", 1, False)],
)
def test_a_topic_asked_for_by_name_gets_its_own_settings(
    topic_name: str, partitions: int, is_internal: bool
) -> None:
    created_topic = metadata().auto_create(topic_name)
    assert isinstance(created_topic, TopicImage)
    assert len(created_topic.partitions) == partitions
    assert created_topic.is_internal == is_internal


def test_topics_asked_for_by_one_request_are_published_together_or_not_at_all() -> None:
    metadata_core = metadata()
    images: list[ClusterImage] = []
    metadata_core.subscribe(images.append)
    created_topics = metadata_core.create_topics(
        [metadata_core.automatic(f"t-{topic_number}") for topic_number in range(5_000)]
    )
    assert len(created_topics) == 5_000
    assert [len(image.topics) for image in images] == [5_000]
    rejections = metadata_core.create_topics(
        [metadata_core.automatic(f"u-{user_number}") for user_number in range(5_001)]
    )
    assert {getattr(outcome, "error", None) for outcome in rejections} == {
        ErrorCode.policy_violation
    }
    assert len(images) == 1, "more than one request may make are none"


def test_a_broker_that_is_cut_off_is_given_the_latest_image_after_the_heal() -> None:
    reached_brokers = {BrokerId(1)}
    metadata = Metadata(
        image=initial_image(cluster_id="c", brokers=(broker(1), broker(2)), transaction_version=2),
        settings=Settings(),
        random_bits=RandomStreams(1).stream("topic-ids").getrandbits,
        reaches=lambda broker_id: broker_id in reached_brokers,
    )
    offsets_by_broker: list[tuple[int, int]] = []
    for number in (1, 2):
        metadata.subscribe(
            lambda image, number=number: offsets_by_broker.append((number, image.offset)),  # type: ignore[misc]
            broker_id=BrokerId(number),
        )
    offset_before = metadata.image.offset
    metadata.create_topic(TopicToCreate(name="a"))
    metadata.create_topic(TopicToCreate(name="b"))
    assert offsets_by_broker == [(1, offset_before + 1), (1, offset_before + 2)]
    metadata.catch_up(BrokerId(2))
    assert len(offsets_by_broker) == 2, "its link is cut still"
    reached_brokers.add(BrokerId(2))
    metadata.catch_up(BrokerId(2))
    metadata.catch_up(BrokerId(2))
    assert offsets_by_broker[2:] == [(2, offset_before + 2)], "the latest one, once"


def test_a_subscriber_that_leaves_hears_nothing_more() -> None:
    metadata_core = metadata()
    listeners_told: list[str] = []

    def leave_then_note(_: ClusterImage) -> None:
        listeners_told.append("first")
        leave_second()

    metadata_core.subscribe(leave_then_note)
    leave_second = metadata_core.subscribe(lambda _: listeners_told.append("second"))
    metadata_core.create_topic(TopicToCreate(name="a"))
    leave_second()
    assert listeners_told == ["first"]


def test_no_subscriber_gets_an_older_image_after_a_newer_one() -> None:
    metadata_core = metadata()
    listeners_told: list[tuple[str, int]] = []

    def meddles(image: ClusterImage) -> None:
        listeners_told.append(("meddles", len(image.topics)))
        if len(image.topics) == 1:
            metadata_core.create_topic(TopicToCreate(name="b"))

    metadata_core.subscribe(meddles)
    metadata_core.subscribe(lambda image: listeners_told.append(("listens", len(image.topics))))
    metadata_core.create_topic(TopicToCreate(name="a"))
    assert listeners_told == [("meddles", 1), ("meddles", 2), ("listens", 2)]


def test_many_topics_are_decided_on_in_slices_and_published_together() -> None:
    async def main(env: VirtualEnvironment) -> None:
        metadata_core, images = metadata(), list[ClusterImage]()
        metadata_core.subscribe(images.append)
        pace = Pace(env.tasks.turns, env.clock.stopwatch_ns)
        new_topics = [TopicToCreate(name=f"t{topic_number}") for topic_number in range(1_000)]
        outcomes = await metadata_core.create_topics_in_slices(new_topics, pace)
        assert pace.has_rested
        assert len(images) == 1
        assert [
            metadata_core.image.topics[topic_name.name] for topic_name in new_topics
        ] == outcomes

    run_virtual(main, seed=1)


@pytest.mark.parametrize(
    ("other_name", "error"),
    [("t.7", ErrorCode.topic_already_exists), ("t_7", ErrorCode.invalid_topic_exception)],
)
def test_who_makes_a_topic_between_the_slices_has_made_it(
    other_name: str, error: ErrorCode
) -> None:
    metadata, other_topic, outcomes = _made_meanwhile(other_name)
    rejections = [outcome for outcome in outcomes if isinstance(outcome, Rejection)]
    assert [rejection.error for rejection in rejections] == [error]
    assert metadata.image.topics[other_name] is other_topic
    assert len(metadata.image.topics) == 1_000


def test_a_topic_of_another_name_between_the_slices_changes_nothing() -> None:
    metadata_core, other_topic, outcomes = _made_meanwhile("other")
    assert metadata_core.image.topics["other"] is other_topic
    decided_topics = [outcome for outcome in outcomes if isinstance(outcome, TopicImage)]
    assert [metadata_core.image.topics[topic.name] for topic in decided_topics] == outcomes
    fresh_metadata = metadata()
    ids = {fresh_metadata.new_topic_id() for _ in range(1_001)}
    assert {topic.topic_id for topic in metadata_core.image.topics.values()} == ids, (
        "decided on once"
    )


def _made_meanwhile(
    other_name: str,
) -> tuple[Metadata, TopicImage | Rejection, list[TopicImage | Rejection]]:
    """Create a topic after the first slice of a thousand others; the metadata and all results."""
    metadata_core = metadata()

    async def main(
        env: VirtualEnvironment,
    ) -> tuple[TopicImage | Rejection, list[TopicImage | Rejection]]:
        pace = Pace(env.tasks.turns, env.clock.stopwatch_ns)
        new_topics = [TopicToCreate(name=f"t.{topic_number}") for topic_number in range(1_000)]
        making_task = env.tasks.spawn(
            metadata_core.create_topics_in_slices(new_topics, pace), name="test"
        )
        await asyncio.sleep(0)
        other_topic = metadata_core.create_topic(TopicToCreate(name=other_name))
        return other_topic, await making_task

    return metadata_core, *run_virtual(main, seed=1)


# News of the metadata that a fault keeps from a broker.


FIRST = (
    cluster()
    .with_topic(topic("orders", partition(1, replicas=(1, 2)), partition(2, replicas=(2, 1))))
    .with_topic(topic("others", partition(2, replicas=(2, 3)), topic_id=uuid.UUID(int=9)))
)


def with_other_leader(image_before: ClusterImage, topic: str = "orders") -> ClusterImage:
    """The image with another leader epoch for the topic's partition 0."""
    topic_partition = TopicPartition(topic, 0)
    partition_before = image_before.partition(topic_partition)
    assert partition_before is not None
    return image_before.with_partition(
        topic_partition,
        msgspec.structs.replace(
            partition_before, leader_epoch=LeaderEpoch(partition_before.leader_epoch + 1)
        ),
    )


SECOND = with_other_leader(FIRST)
THIRD = with_other_leader(SECOND)
FOURTH = with_other_leader(THIRD)


class ImageIntakeBench:
    def __init__(self, env: VirtualEnvironment) -> None:
        self.injector = Injector(clock=env.clock, tracer=env.tracer, tasks=env.tasks, rng=env.rng)
        env.network.interceptor = self.injector
        self.fault_points = BrokerFaultPoints(node="broker/1", network=env.network, tasks=env.tasks)
        self.taken = [FIRST]
        self.steps = 0
        self.intake = ImageIntake(
            broker_id=B1,
            fault_points=self.fault_points,
            current_image=lambda: self.taken[-1],
            take_up=self.take_up,
            clock=env.clock,
        )

    def take_up(self, image: ClusterImage) -> Iterator[int]:
        self.taken.append(image)
        for topic_image in image.topics.values():
            for _ in topic_image.partitions:
                self.steps += 1
                yield 8

    def arm(self, action: Action, **rule_fields: Any) -> None:
        self.injector.arm(
            FaultRule(id="f", point=FaultPoint.METADATA_APPLY, action=action, **rule_fields)
        )


run_of_image_intake = in_virtual_time(ImageIntakeBench)


@within(run_of_image_intake)
async def test_news_is_taken_up_at_once(controller_bench: ImageIntakeBench) -> None:
    controller_bench.intake.receive(SECOND)
    assert controller_bench.taken == [FIRST, SECOND]


@within(run_of_image_intake)
async def test_news_that_is_held_lets_later_news_wait_and_the_newest_says_all(
    controller_bench: ImageIntakeBench,
) -> None:
    controller_bench.arm(Hold(), limit=1)
    for later_image in (SECOND, THIRD, FOURTH):
        controller_bench.intake.receive(later_image)
    assert controller_bench.taken == [FIRST]
    controller_bench.injector.release("f")
    await asyncio.sleep(0.001)
    assert controller_bench.taken == [FIRST, SECOND, FOURTH]


@within(run_of_image_intake)
async def test_news_that_is_lost_comes_with_the_next_image(
    controller_bench: ImageIntakeBench,
) -> None:
    controller_bench.arm(Drop(), limit=1)
    controller_bench.intake.receive(SECOND)
    assert controller_bench.taken == [FIRST]
    controller_bench.intake.receive(THIRD)
    assert controller_bench.taken == [FIRST, THIRD]


@within(run_of_image_intake)
async def test_a_rule_names_the_partitions_whose_roles_change(
    controller_bench: ImageIntakeBench,
) -> None:
    controller_bench.arm(Hold(), topic="orders", partition=1)
    controller_bench.intake.receive(SECOND)
    assert controller_bench.taken[-1] is SECOND
    controller_bench.injector.disarm("f")
    controller_bench.arm(Hold(), topic="orders", partition=0)
    controller_bench.intake.receive(THIRD)
    assert controller_bench.taken[-1] is SECOND


@within(run_of_image_intake)
async def test_a_broker_without_a_replica_has_no_role(controller_bench: ImageIntakeBench) -> None:
    controller_bench.arm(Hold(), topic="others")
    controller_bench.intake.receive(other_image := with_other_leader(FIRST, "others"))
    assert controller_bench.taken[-1] is other_image


WIDE = FIRST.with_topic(
    topic("wide", *[partition(1, replicas=(1,))] * 600, topic_id=uuid.UUID(int=11))
)
PARTITIONS = 603


@within(run_of_image_intake)
async def test_many_changes_are_taken_up_in_slices_and_later_news_waits(
    controller_bench: ImageIntakeBench,
) -> None:
    controller_bench.intake.receive(WIDE)
    assert controller_bench.taken == [FIRST, WIDE]
    assert controller_bench.steps == 128, "a slice is 1,024 elements, a replica counts for eight"
    later_image = with_other_leader(WIDE)
    controller_bench.intake.receive(with_other_leader(WIDE, "others"))
    controller_bench.intake.receive(later_image)
    assert controller_bench.taken == [FIRST, WIDE]
    await controller_bench.intake.wait_until_up_to_date()
    assert controller_bench.taken == [FIRST, WIDE, later_image]
    assert controller_bench.steps == 2 * PARTITIONS


@within(run_of_image_intake)
async def test_many_deletions_are_taken_up_in_slices_too(
    controller_bench: ImageIntakeBench,
) -> None:
    controller_bench.taken = [WIDE]
    controller_bench.intake.receive(FIRST)
    assert controller_bench.taken == [WIDE, FIRST]
    await controller_bench.intake.wait_until_up_to_date()
    assert controller_bench.steps == 3


@within(run_of_image_intake)
async def test_a_broker_that_is_gone_takes_up_no_more(controller_bench: ImageIntakeBench) -> None:
    controller_bench.intake.receive(WIDE)
    controller_bench.intake.receive(with_other_leader(WIDE))
    controller_bench.fault_points.stop()
    await controller_bench.intake.wait_until_up_to_date()
    assert controller_bench.taken == [FIRST, WIDE]
    assert controller_bench.steps == 128


@within(run_of_image_intake)
async def test_news_that_a_fault_holds_is_not_waited_for(
    controller_bench: ImageIntakeBench,
) -> None:
    controller_bench.arm(Hold())
    controller_bench.intake.receive(WIDE)
    await controller_bench.intake.wait_until_up_to_date()
    assert controller_bench.taken == [FIRST]
    controller_bench.injector.release("f")
    await asyncio.sleep(0.001)
    assert controller_bench.taken == [FIRST, WIDE]
    assert controller_bench.steps == PARTITIONS
