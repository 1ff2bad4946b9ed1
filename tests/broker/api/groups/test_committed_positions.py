"""Topics in, errors by topic out: what OffsetCommit and TxnOffsetCommit have in common."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

from tests.support.consumer_groups import image, topic_id
from txnsim.api._groups.committed_positions import (
    NamedTopic,
    errors_of,
    everywhere,
    find_topic,
    named_topic,
    split,
)
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import TopicImage
from txnsim.types import TopicPartition

E = ErrorCode
UNKNOWN = E.unknown_topic_or_partition
IMAGE = image(orders=2)


def position(index: int) -> SimpleNamespace:
    return SimpleNamespace(partition_index=index, committed_offset=7, committed_metadata="m")


def topic(name: str, *indexes: int) -> SimpleNamespace:
    return SimpleNamespace(name=name, partitions=[position(each) for each in indexes])


def test_a_topic_is_found_as_it_was_named() -> None:
    by_id = NamedTopic(name="", topic_id=topic_id("orders"), is_by_id=True)
    found = find_topic(IMAGE, by_id)
    assert isinstance(found, TopicImage)
    assert found.name == "orders"
    for unknown_id in (uuid.UUID(int=1), None):
        named = NamedTopic(name="", topic_id=unknown_id, is_by_id=True)
        assert find_topic(IMAGE, named) is E.unknown_topic_id
    unknown = E.unknown_topic_or_partition
    assert find_topic(IMAGE, NamedTopic(name="missing", topic_id=None, is_by_id=False)) is unknown
    assert find_topic(IMAGE, NamedTopic(name="", topic_id=None, is_by_id=False)) is unknown


def test_what_exists_goes_to_the_coordinator_with_its_id_and_no_epoch_before_v6() -> None:
    asked = split(IMAGE, [topic("orders", 0, 5), topic("missing", 1)])
    assert asked.refused == {
        named_topic(topic("orders")): [(5, UNKNOWN)],
        named_topic(topic("missing")): [(1, UNKNOWN)],
    }
    (one,) = asked.positions
    assert (one.topic_partition, one.offset) == (TopicPartition("orders", 0), 7)
    assert (one.leader_epoch, one.metadata, one.topic_id) == (-1, "m", topic_id("orders"))


def test_errors_of_the_coordinator_follow_those_of_what_is_not_there() -> None:
    topics = [topic("orders", 0), topic("missing", 3), topic("orders", 5, 1, 0)]
    asked = split(IMAGE, topics)
    assert asked.results([E.none, E.stale_member_epoch, E.none]) == [
        (named_topic(topic("missing")), [(3, UNKNOWN)]),
        (
            named_topic(topic("orders")),
            [(5, UNKNOWN), (0, E.none), (1, E.stale_member_epoch), (0, E.none)],
        ),
    ]
    assert asked.refused[named_topic(topic("orders"))] == [(5, UNKNOWN)]
    assert everywhere(topics[2:], E.not_coordinator) == [
        (named_topic(topic("orders")), [(index, E.not_coordinator) for index in (5, 1, 0)])
    ]


def test_a_topic_that_is_named_twice_is_answered_twice_where_all_of_it_exists() -> None:
    asked = split(IMAGE, [topic("orders", 0), topic("orders"), topic("orders", 1, 1)])
    outcome = tuple((each.topic_partition, E.none) for each in asked.positions)
    assert asked.results(errors_of(outcome)) == [
        (named_topic(topic("orders")), [(0, E.none)]),
        (named_topic(topic("orders")), [(1, E.none), (1, E.none)]),
    ]


def test_what_the_coordinator_refuses_it_refuses_for_what_exists() -> None:
    asked = split(IMAGE, [topic("orders", 0, 5, 1)])
    refused = Rejection(error=E.unknown_member_id, reason="nobody")
    assert asked.results(errors_of(refused)) == [
        (
            named_topic(topic("orders")),
            [(5, UNKNOWN), (0, E.unknown_member_id), (1, E.unknown_member_id)],
        )
    ]
