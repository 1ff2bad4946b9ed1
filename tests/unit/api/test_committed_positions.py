"""Topics in, errors by topic out: what OffsetCommit and TxnOffsetCommit have in common."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

from sim.api.committed_positions import Told, everywhere, find_topic, merged, split, told
from sim.cluster.image import TopicImage
from sim.errors import ErrorCode
from sim.types import TopicPartition
from tests.support.consumer_groups import image, topic_id

E = ErrorCode
IMAGE = image(orders=2)


def position(index: int) -> SimpleNamespace:
    return SimpleNamespace(partition_index=index, committed_offset=7, committed_metadata="m")


def topic(name: str, *indexes: int) -> SimpleNamespace:
    return SimpleNamespace(name=name, partitions=[position(each) for each in indexes])


def test_a_topic_is_found_as_it_was_named() -> None:
    by_id = Told(name="", topic_id=topic_id("orders"))
    found = find_topic(IMAGE, by_id)
    assert isinstance(found, TopicImage)
    assert found.name == "orders"
    assert find_topic(IMAGE, Told(name="", topic_id=uuid.UUID(int=1))) is E.unknown_topic_id
    unknown = E.unknown_topic_or_partition
    assert find_topic(IMAGE, Told(name="missing", topic_id=None)) is unknown
    assert find_topic(IMAGE, Told(name="", topic_id=None)) is unknown


def test_what_exists_goes_to_the_coordinator_with_its_id_and_no_epoch_before_v6() -> None:
    refused, positions = split(IMAGE, [topic("orders", 0, 5), topic("missing", 1)])
    assert refused == {
        told(topic("orders")): {5: E.unknown_topic_or_partition},
        told(topic("missing")): {1: E.unknown_topic_or_partition},
    }
    (one,) = positions
    assert (one.topic_partition, one.offset) == (TopicPartition("orders", 0), 7)
    assert (one.leader_epoch, one.metadata, one.topic_id) == (-1, "m", topic_id("orders"))


def test_errors_of_the_coordinator_follow_those_of_what_is_not_there() -> None:
    topics = [topic("orders", 0, 5)]
    refused, _ = split(IMAGE, topics)
    results = merged(topics, refused, IMAGE, [(TopicPartition("orders", 0), E.none)])
    assert list(results[told(topics[0])].items()) == [
        (5, E.unknown_topic_or_partition),
        (0, E.none),
    ]
    assert refused[told(topics[0])] == {5: E.unknown_topic_or_partition}
    assert everywhere(topics, E.not_coordinator)[told(topics[0])] == dict.fromkeys(
        (0, 5), E.not_coordinator
    )
