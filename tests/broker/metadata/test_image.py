"""Immutable metadata: what a change leaves alone, and what a lookup finds."""

from __future__ import annotations

import uuid

import msgspec
import pytest

from tests.support.images import B1, B2, TOPIC_ID, broker, cluster, partition, topic
from txnsim.metadata.image import CLIENT_LISTENER, BrokerImage, ClusterImage, TopicImage
from txnsim.types import BrokerId, TopicPartition


@pytest.mark.parametrize(
    ("name", "index", "found"),
    [
        ("orders", 0, True),
        ("orders", 1, True),
        ("orders", 2, False),
        ("orders", -1, False),
        ("other", 0, False),
    ],
)
def test_a_partition_is_found_by_topic_and_index(name: str, index: int, found: bool) -> None:
    image = cluster().with_topic(topic("orders", partition(1), partition(2)))
    assert (image.partition(TopicPartition(name, index)) is not None) == found


def test_a_topic_is_found_by_its_id_until_it_is_deleted() -> None:
    image = cluster().with_topic(topic())
    other = uuid.UUID(int=9)
    image = image.with_topic(topic("other", topic_id=other))
    assert image.topic_by_id(TOPIC_ID) is image.topics["orders"]
    gone = image.without_topic("orders")
    assert gone.topic_by_id(TOPIC_ID) is None
    assert gone.topic_by_id(other) is image.topics["other"]
    assert "orders" not in gone.topics


def test_brokers_are_listed_by_id_and_only_while_they_live_and_listen() -> None:
    image = cluster(broker(3), broker(1), broker(2, alive=False), broker(4, port=-1))
    assert [one.broker_id for one in image.alive_brokers()] == [1, 3]
    assert [one.broker_id for one in image.fenced_brokers()] == [2]
    assert image.is_alive(B1)
    assert not image.is_alive(B2)
    assert not image.is_alive(BrokerId(9))


def test_every_change_is_a_new_image_one_offset_further() -> None:
    image = cluster().with_topic(topic())
    changes = (
        image.with_topic(topic("more", topic_id=uuid.UUID(int=9))),
        image.without_topic("orders"),
        image.with_partition(TopicPartition("orders", 0), partition(2, epoch=1)),
        image.with_topic_configs("orders", {"retention.ms": "1"}),
        image.with_broker(broker(4)),
        image.with_feature("transaction.version", 1),
        image.with_broker_configs("", {"num.partitions": "3"}),
        image.with_group_configs("g", {"consumer.session.timeout.ms": "1"}),
        image.with_client_metrics("m", {"interval.ms": "1"}),
        image.with_scram(image.scram),
    )
    assert [change.offset - image.offset for change in changes] == [1] * len(changes)
    assert image == cluster().with_topic(topic()), "the old image is as it was"


def test_one_partition_is_replaced_and_the_others_stay() -> None:
    image = cluster().with_topic(topic("orders", partition(1), partition(2)))
    moved = image.with_partition(TopicPartition("orders", 1), partition(3, epoch=1))
    assert [one.leader for one in moved.topics["orders"].partitions] == [1, 3]
    assert moved.topics["orders"].partitions[0] is image.topics["orders"].partitions[0]


def test_the_epoch_of_the_features_moves_with_a_feature_only() -> None:
    image = cluster().with_feature("transaction.version", 2)
    assert image.features_epoch == image.offset
    assert image.with_topic(topic()).features_epoch == image.features_epoch
    lowered = image.with_feature("transaction.version", 0)
    assert lowered.features == {"transaction.version": 0}, "level 0 is kept, not removed"
    assert lowered.features_epoch > image.features_epoch


def test_configs_are_replaced_whole() -> None:
    image = cluster().with_topic(topic(configs={"retention.ms": "1"}))
    changed = image.with_topic_configs("orders", {"segment.ms": "2"})
    assert changed.topics["orders"].configs == {"segment.ms": "2"}
    image = image.with_broker_configs("1", {"a": "1"}).with_broker_configs("", {"b": "2"})
    assert image.with_broker_configs("1", {}).broker_configs == {"1": {}, "": {"b": "2"}}


def test_groups_and_subscriptions_without_configs_are_gone() -> None:
    image = cluster().with_group_configs("g", {"a": "1"}).with_client_metrics("m", {"b": "2"})
    assert (image.group_configs, image.client_metrics) == ({"g": {"a": "1"}}, {"m": {"b": "2"}})
    assert image.with_group_configs("g", {}, stays=True).group_configs == {"g": {}}
    assert image.with_group_configs("x", {}, stays=True) == image.with_group_configs("x", {})
    image = image.with_group_configs("g", {}).with_client_metrics("m", {})
    assert (image.group_configs, image.client_metrics) == ({}, {})


def test_what_changes_nothing_is_the_image_itself() -> None:
    image = cluster()
    assert image.with_topics(()) is image
    assert image.with_acls(image.acls) is image


def test_a_broker_has_an_address_on_each_of_its_listeners() -> None:
    broker = BrokerImage(
        broker_id=BrokerId(1), epoch=1, host="a", port=9092, addresses={"OTHER": ("b", 9192)}
    )
    assert broker.address(CLIENT_LISTENER) == ("a", 9092)
    assert broker.address("OTHER") == ("b", 9192)


def test_a_broker_on_its_way_out_lives_but_is_not_active() -> None:
    image = cluster(broker(1), broker(2, leaving=True), broker(3, alive=False))
    assert [one for one in image.brokers if image.is_alive(one)] == [1, 2]
    assert [one for one in image.brokers if image.is_active(one)] == [1]
    assert not image.is_active(BrokerId(9))


def test_several_partitions_change_in_one_step() -> None:
    image = cluster().with_topic(topic("orders", partition(1), partition(2)))
    changed = image.with_partitions(
        {
            TopicPartition("orders", 1): partition(3, epoch=1),
            TopicPartition("orders", 0): partition(2, epoch=1),
        }
    )
    assert [one.leader for one in changed.topics["orders"].partitions] == [2, 3]
    assert changed.offset == image.offset + 1
    assert image.with_partitions({}) is image


def changes(names: tuple[str, ...]) -> ClusterImage:
    """An image of several topics."""
    return cluster().with_topics([own(name) for name in names])


def own(name: str, leader: int = 1) -> TopicImage:
    """A topic with an id of its own."""
    return topic(name, partition(leader), topic_id=uuid.uuid5(uuid.NAMESPACE_DNS, name))


def told(after: ClusterImage, before: ClusterImage) -> tuple[str, ...]:
    """What changed, as the image knows it, which is what a comparison finds."""
    known = after.changed_topics(before)
    compared = msgspec.structs.replace(after, topics=dict(after.topics)).changed_topics(before)
    assert known == compared
    return known


def test_an_image_knows_which_topics_have_changed_since_the_one_before() -> None:
    image = changes(("a", "b", "c"))
    assert told(image, image) == ()
    assert told(image.with_feature("f", 1), image) == ()
    assert told(image.without_topic("b"), image) == ("b",)
    assert told(image.with_topic_configs("c", {"retention.ms": "1"}), image) == ("c",)
    more = image.with_topics([own("e"), own("d")])
    assert told(more, image) == ("e", "d")
    both = {TopicPartition("c", 0): partition(2), TopicPartition("a", 0): partition(2)}
    assert told(image.with_partitions(both), image) == ("a", "c")


def test_a_reader_that_has_missed_images_compares_them() -> None:
    image = changes(("a", "b"))
    later = image.without_topic("a").with_topic(own("c"))
    assert told(later, image) == ("a", "c")
    again = image.without_topic("a").with_topic(own("a", 2))
    assert told(again, image) == ("a",)
    assert told(image, later) == ("c", "a")
