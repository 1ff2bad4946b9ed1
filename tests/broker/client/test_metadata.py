from __future__ import annotations

from uuid import UUID

from tests.broker.client.fake_broker import Asked, FakeBroker, coordinator
from txnsim.client.metadata import (
    BrokerAddress,
    ClusterView,
    PartitionView,
    TopicView,
    merge,
    parse_coordinators,
    parse_metadata,
)
from txnsim.types import TopicPartition


def topic(*epochs: int, leader: int = 1, topic_id: UUID | None = None, error: int = 0) -> TopicView:
    return TopicView(
        name="t",
        topic_id=topic_id,
        error=error,
        partitions=tuple(
            PartitionView(partition=index, leader_id=leader, leader_epoch=epoch)
            for index, epoch in enumerate(epochs)
        ),
    )


def view(*topics: TopicView, broker_id: int = 1) -> ClusterView:
    broker = BrokerAddress(broker_id=broker_id, host="h", port=1)
    return ClusterView(brokers=(broker,), topics=topics)


def test_lookups() -> None:
    known = view(topic(0, 0))
    assert str(known.broker(1)) == "broker 1 (h:1)"
    assert known.broker(2) is None
    assert known.topic("u") is None
    assert known.leader(TopicPartition("t", 1)) is not None
    assert known.leader(TopicPartition("t", 2)) is None
    assert known.leader(TopicPartition("u", 0)) is None
    assert view(topic(0, leader=-1)).leader(TopicPartition("t", 0)) is None
    assert view(topic(0, error=29)).leader(TopicPartition("t", 0)) is None


def test_a_topic_is_led_when_every_partition_is() -> None:
    assert topic(0, 0).led
    assert not topic(0, leader=-1).led
    assert not topic(0, error=3).led
    assert not topic().led


def test_topics_not_asked_for_stay_known_and_brokers_are_replaced() -> None:
    other = TopicView(name="u")
    merged = merge(view(topic(0), other), view(topic(1), broker_id=2))
    assert merged.topics == (topic(1), other)
    assert merged.broker(1) is None


def test_leader_epochs_never_go_back() -> None:
    merged = merge(view(topic(5, 5)), view(topic(4, 6, leader=2)))
    found = merged.topic("t")
    assert found is not None
    assert [(p.leader_id, p.leader_epoch) for p in found.partitions] == [(1, 5), (2, 6)]


def test_a_recreated_topic_begins_anew() -> None:
    fresh = topic(0, leader=2, topic_id=UUID(int=2))
    assert merge(view(topic(5, topic_id=UUID(int=1))), view(fresh)).topics == (fresh,)


def test_an_error_replaces_what_was_known() -> None:
    gone = topic(error=3)
    assert merge(view(topic(5)), view(gone)).topics == (gone,)


def test_a_new_partition_and_a_broker_without_epochs_are_believed() -> None:
    merged = merge(view(topic(5)), view(topic(-1, 0, leader=3)))
    found = merged.topic("t")
    assert found is not None
    assert [p.leader_id for p in found.partitions] == [3, 3]


def test_answers_of_all_versions_are_read() -> None:
    broker = FakeBroker()
    broker.port = 9
    for version in (1, 5, 9, 12, 13):
        asked = Asked(3, version, type("Message", (), {"topics": None})())
        seen = parse_metadata(broker.metadata(asked))
        assert seen.broker(1) is not None
        assert seen.leader(TopicPartition("t", 1)) is not None
    for version in (1, 3, 4, 6):
        asked = Asked(10, version, type("Message", (), {"coordinator_keys": ("a",)})())
        assert parse_coordinators(coordinator(asked), ("a",)) == {"a": (0, 1)}
        assert parse_coordinators(coordinator(asked, error=15), ("a",)) == {"a": (15, -1)}
