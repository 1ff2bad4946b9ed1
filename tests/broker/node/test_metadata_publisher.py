"""The metadata log as one object: publishing, creating topics, blocks of producer ids."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from tests.support.images import broker
from txnsim.controller.controller import NewTopic, initial_image
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import ClusterImage, TopicImage
from txnsim.node.metadata_publisher import Metadata
from txnsim.runtime.rng import SeededRng
from txnsim.runtime.turns import Pace
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.settings import Settings
from txnsim.types import TRANSACTION_STATE_TOPIC, BrokerId


def metadata(seed: int = 1) -> Metadata:
    return Metadata(
        image=initial_image(cluster_id="c", brokers=(broker(1), broker(2)), transaction_version=2),
        settings=Settings(),
        random_bits=SeededRng(seed).stream("topic-ids").getrandbits,
    )


def test_subscribers_learn_of_a_change_in_order_of_subscription() -> None:
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


def test_topics_asked_for_by_one_request_are_published_together_or_not_at_all() -> None:
    one = metadata()
    images: list[ClusterImage] = []
    one.subscribe(images.append)
    made = one.create_topics([one.automatic(f"t-{number}") for number in range(5_000)])
    assert len(made) == 5_000
    assert [len(image.topics) for image in images] == [5_000]
    refused = one.create_topics([one.automatic(f"u-{number}") for number in range(5_001)])
    assert {getattr(found, "error", None) for found in refused} == {ErrorCode.policy_violation}
    assert len(images) == 1, "more than one request may make are none"


def test_a_broker_that_is_cut_off_is_given_the_latest_image_after_the_heal() -> None:
    reached = {BrokerId(1)}
    one = Metadata(
        image=initial_image(cluster_id="c", brokers=(broker(1), broker(2)), transaction_version=2),
        settings=Settings(),
        random_bits=SeededRng(1).stream("topic-ids").getrandbits,
        reaches=lambda broker_id: broker_id in reached,
    )
    heard: list[tuple[int, int]] = []
    for number in (1, 2):
        one.subscribe(
            lambda image, number=number: heard.append((number, image.offset)),  # type: ignore[misc]
            broker_id=BrokerId(number),
        )
    before = one.image.offset
    one.create_topic(NewTopic(name="a"))
    one.create_topic(NewTopic(name="b"))
    assert heard == [(1, before + 1), (1, before + 2)]
    one.catch_up(BrokerId(2))
    assert len(heard) == 2, "its link is cut still"
    reached.add(BrokerId(2))
    one.catch_up(BrokerId(2))
    one.catch_up(BrokerId(2))
    assert heard[2:] == [(2, before + 2)], "the latest one, once"


def test_a_subscriber_that_leaves_hears_nothing_more() -> None:
    one = metadata()
    heard: list[str] = []

    def first(_: ClusterImage) -> None:
        heard.append("first")
        leave_second()

    one.subscribe(first)
    leave_second = one.subscribe(lambda _: heard.append("second"))
    one.create_topic(NewTopic(name="a"))
    leave_second()
    assert heard == ["first"]


def test_no_subscriber_gets_an_older_image_after_a_newer_one() -> None:
    one = metadata()
    heard: list[tuple[str, int]] = []

    def meddles(image: ClusterImage) -> None:
        heard.append(("meddles", len(image.topics)))
        if len(image.topics) == 1:
            one.create_topic(NewTopic(name="b"))

    one.subscribe(meddles)
    one.subscribe(lambda image: heard.append(("listens", len(image.topics))))
    one.create_topic(NewTopic(name="a"))
    assert heard == [("meddles", 1), ("meddles", 2), ("listens", 2)]


def test_many_topics_are_decided_on_in_slices_and_published_together() -> None:
    async def main(env: VirtualEnvironment) -> None:
        one, heard = metadata(), list[ClusterImage]()
        one.subscribe(heard.append)
        pace = Pace(env.tasks.turns, env.clock.stopwatch_ns)
        wanted = [NewTopic(name=f"t{number}") for number in range(1_000)]
        outcomes = await one.create_topics_in_slices(wanted, pace)
        assert pace.has_rested
        assert len(heard) == 1
        assert [one.image.topics[name.name] for name in wanted] == outcomes

    run_virtual(main, seed=1)


@pytest.mark.parametrize(
    ("theirs", "error"),
    [("t.7", ErrorCode.topic_already_exists), ("t_7", ErrorCode.invalid_topic_exception)],
)
def test_who_makes_a_topic_between_the_slices_has_made_it(theirs: str, error: ErrorCode) -> None:
    one, made, outcomes = _made_meanwhile(theirs)
    refused = [each for each in outcomes if isinstance(each, Rejection)]
    assert [each.error for each in refused] == [error]
    assert one.image.topics[theirs] is made
    assert len(one.image.topics) == 1_000


def test_a_topic_of_another_name_between_the_slices_changes_nothing() -> None:
    one, made, outcomes = _made_meanwhile("other")
    assert one.image.topics["other"] is made
    decided = [each for each in outcomes if isinstance(each, TopicImage)]
    assert [one.image.topics[each.name] for each in decided] == outcomes
    again = metadata()
    ids = {again.new_topic_id() for _ in range(1_001)}
    assert {topic.topic_id for topic in one.image.topics.values()} == ids, "decided on once"


def _made_meanwhile(
    theirs: str,
) -> tuple[Metadata, TopicImage | Rejection, list[TopicImage | Rejection]]:
    """A topic is made after the first slice of a thousand others; those, and it."""
    one = metadata()

    async def main(
        env: VirtualEnvironment,
    ) -> tuple[TopicImage | Rejection, list[TopicImage | Rejection]]:
        pace = Pace(env.tasks.turns, env.clock.stopwatch_ns)
        wanted = [NewTopic(name=f"t.{number}") for number in range(1_000)]
        making = env.tasks.spawn(one.create_topics_in_slices(wanted, pace), name="test")
        await asyncio.sleep(0)
        made = one.create_topic(NewTopic(name=theirs))
        return made, await making

    return one, *run_virtual(main, seed=1)
