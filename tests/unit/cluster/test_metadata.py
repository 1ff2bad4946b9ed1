"""The metadata log as one object: publishing, creating topics, blocks of producer ids."""

from __future__ import annotations

import uuid

import pytest

from sim.cluster.controller import NewTopic, initial_image
from sim.cluster.image import ClusterImage, TopicImage
from sim.cluster.metadata import Metadata
from sim.errors import ErrorCode, InvariantViolation, Rejection
from sim.runtime.rng import SeededRng
from sim.settings import Settings
from sim.types import (
    TRANSACTION_STATE_TOPIC,
    AllocateProducerIdsCommand,
    AllocateProducerIdsReply,
    BrokerId,
)
from tests.support.images import broker


def metadata(seed: int = 1) -> Metadata:
    return Metadata(
        image=initial_image(cluster_id="c", brokers=(broker(1), broker(2)), transaction_version=2),
        settings=Settings(),
        random_bits=SeededRng(seed).stream("topic-ids").getrandbits,
    )


def test_everybody_is_told_of_a_change_in_order_of_subscription() -> None:
    heard: list[tuple[str, ClusterImage]] = []
    one = metadata()
    one.subscribe(lambda image: heard.append(("a", image)))
    one.subscribe(lambda image: heard.append(("b", image)))
    one.publish(one.image)
    assert heard == [], "nothing has changed"
    one.create_topic(NewTopic(name="orders"))
    assert [name for name, _ in heard] == ["a", "b"]
    assert all(image is one.image for _, image in heard)
    assert "orders" in one.image.topics


def test_a_refused_topic_is_not_published() -> None:
    one = metadata()
    before = one.image
    refused = one.create_topic(NewTopic(name="a b"))
    assert isinstance(refused, Rejection)
    assert refused.error is ErrorCode.invalid_topic_exception
    assert one.image is before


def test_topic_ids_are_random_ones_and_repeat_with_the_seed() -> None:
    ids = [metadata(seed).new_topic_id() for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]
    assert {found.version for found in ids} == {4}
    assert isinstance(ids[0], uuid.UUID)


@pytest.mark.parametrize(
    ("name", "partitions", "internal"),
    [(TRANSACTION_STATE_TOPIC, 50, True), ("orders", 1, False)],
)
def test_a_topic_asked_for_by_name_gets_its_own_settings(
    name: str, partitions: int, internal: bool
) -> None:
    made = metadata().auto_create(name)
    assert isinstance(made, TopicImage)
    assert len(made.partitions) == partitions
    assert made.is_internal == internal


async def test_producer_ids_come_in_blocks_that_never_overlap() -> None:
    one = metadata()
    blocks = [
        await one.handle_peer(
            67,
            0,
            AllocateProducerIdsCommand(broker_id=BrokerId(who), broker_epoch=who),
            BrokerId(who),
        )
        for who in (1, 2, 1)
    ]
    assert blocks == [
        AllocateProducerIdsReply(first=first, length=1_000) for first in (0, 1_000, 2_000)
    ]


@pytest.mark.parametrize(
    ("who", "epoch", "error"),
    [
        (1, 9, ErrorCode.stale_broker_epoch),
        (7, 7, ErrorCode.broker_id_not_registered),
    ],
)
async def test_a_stranger_gets_no_block(who: int, epoch: int, error: ErrorCode) -> None:
    one = metadata()
    command = AllocateProducerIdsCommand(broker_id=BrokerId(who), broker_epoch=epoch)
    reply = await one.handle_peer(67, 0, command, BrokerId(who))
    assert isinstance(reply, AllocateProducerIdsReply)
    assert reply.error == error


@pytest.mark.parametrize(
    ("api_key", "command"),
    [(27, AllocateProducerIdsCommand(broker_id=BrokerId(1), broker_epoch=1)), (67, None)],
)
async def test_anything_else_is_a_bug_of_the_asker(api_key: int, command: object) -> None:
    with pytest.raises(InvariantViolation):
        await metadata().handle_peer(api_key, 0, command, BrokerId(1))
