"""Partitions by topic."""

from __future__ import annotations

from txnsim.api._topics import by_topic
from txnsim.types import TopicPartition


def test_partitions_are_grouped_in_order_of_appearance() -> None:
    pairs = [
        (TopicPartition("b", 1), "x"),
        (TopicPartition("a", 0), "y"),
        (TopicPartition("b", 0), "z"),
    ]
    assert by_topic(pairs) == {"b": [(1, "x"), (0, "z")], "a": [(0, "y")]}
    assert list(by_topic(pairs)) == ["b", "a"]
    assert by_topic(()) == {}
