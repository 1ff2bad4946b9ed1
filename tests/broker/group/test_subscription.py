"""Subscriptions as consumers write them (ConsumerProtocolSubscription.json)."""

from __future__ import annotations

import struct

import pytest

from txnsim.group.subscription import (
    ELEMENTS_MAX,
    NAMES_MAX,
    Subscription,
    TopicsReader,
    read_assignment,
    read_subscription,
    write_assignment,
)


def topics_of(*subscriptions: bytes) -> frozenset[str] | None:
    return TopicsReader().topics_of_all(subscriptions)


def subscription(*topics: bytes, version: int = 3, tail: bytes = b"\xff\xff\xff\xff") -> bytes:
    names = b"".join(struct.pack("!h", len(topic)) + topic for topic in topics)
    return struct.pack("!hi", version, len(topics)) + names + tail


def test_topics_are_read_whatever_follows_them() -> None:
    assert topics_of(subscription(b"a", "é".encode())) == frozenset({"a", "é"})
    assert topics_of(subscription(version=0, tail=b"")) == frozenset()


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00",
        subscription(b"topic")[:8],
        subscription(b"\xff"),
        subscription(version=-1),
        struct.pack("!hih", 1, 1, -1),
    ],
)
def test_what_is_no_subscription_can_t_be_read(metadata: bytes) -> None:
    assert topics_of(metadata) is None


def test_equal_lists_are_read_once_and_others_are_told_apart() -> None:
    reader = TopicsReader()
    long_lists = [subscription(*(b"%d" % number for number in range(100, 200))) for _ in range(3)]
    other_subscription = subscription(*(b"%d" % number for number in range(100, 199)), b"end")
    assert reader.topics_of_all(long_lists) == frozenset(str(number) for number in range(100, 200))
    for _ in range(2):
        topics = reader.topics_of_all([*long_lists, other_subscription])
        assert topics is not None
        assert len(topics) == 101
    assert reader.topics_of_all([subscription(b"a"), subscription(version=-1)]) is None


def test_an_absurd_subscription_is_as_one_that_can_t_be_read_however_short_its_names() -> None:
    longest = subscription(*[b""] * ELEMENTS_MAX)
    assert topics_of(longest) == frozenset({""})
    assert topics_of(subscription(*[b""] * (ELEMENTS_MAX + 1))) is None
    assert read_subscription(subscription(*[b""] * (ELEMENTS_MAX + 1))) is None
    lists = [
        subscription(
            *(b"%d-%d" % (member, element_number) for element_number in range(ELEMENTS_MAX))
        )
        for member in range(NAMES_MAX // ELEMENTS_MAX + 1)
    ]
    assert topics_of(*lists[:-1]) is not None
    assert topics_of(*lists) is None
    assert topics_of(*[lists[0]] * 50) is not None


# All of it


def text(value: str) -> bytes:
    return struct.pack("!h", len(value)) + value.encode()


def numbers(*values: int) -> bytes:
    return struct.pack(f"!{len(values)}i", *values)


V0 = struct.pack("!hi", 0, 1) + text("t") + numbers(-1)
OWNED = numbers(1) + text("t") + numbers(2, 0, 3)
V1 = struct.pack("!hi", 1, 1) + text("t") + numbers(2) + b"ud" + OWNED
V3 = struct.pack("!hi", 3, 1) + text("t") + numbers(-1) + OWNED + numbers(7)


def test_each_version_tells_more() -> None:
    owned_partitions = frozenset({("t", 0), ("t", 3)})
    assert read_subscription(V0) == Subscription(version=0, topics=("t",))
    assert read_subscription(V1) == Subscription(
        version=1, topics=("t",), owned_partitions=owned_partitions
    )
    rack_subscription = read_subscription(V3 + text("r"))
    assert rack_subscription == Subscription(
        version=3, topics=("t",), owned_partitions=owned_partitions, rack_id="r"
    )
    no_subscription = read_subscription(V3 + struct.pack("!h", -1))
    assert no_subscription is not None
    assert no_subscription.rack_id is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xff",
        V0[:-2],
        V1[:-1],
        struct.pack("!hi", 0, 1 << 30),
        struct.pack("!hih", 0, 1, -1),
        struct.pack("!hih", 0, 1, 9) + b"t",
    ],
)
def test_what_can_not_be_read_is_nothing(data: bytes) -> None:
    assert read_subscription(data) is None
    if data:
        assert read_assignment(data) is None


def test_assignments_are_read_as_they_were_written() -> None:
    data = write_assignment(1, {"t": [3, 0], "u": [1]})
    assert data[:2] == b"\x00\x01"
    assignment = read_assignment(data)
    assert assignment is not None
    assert assignment.partitions == {("t", 0), ("t", 3), ("u", 1)}
    assert not assignment.has_user_data
    custom_assignment = read_assignment(data[:-4] + numbers(2) + b"ud")
    assert custom_assignment is not None
    assert custom_assignment.has_user_data
    empty_assignment = read_assignment(b"")
    assert empty_assignment is not None
    assert empty_assignment.partitions == frozenset()
