"""Subscriptions as consumers write them (ConsumerProtocolSubscription.json)."""

from __future__ import annotations

import struct

import pytest

from sim.group.subscription import subscribed_topics


def subscription(*topics: bytes, version: int = 3, tail: bytes = b"\xff\xff\xff\xff") -> bytes:
    names = b"".join(struct.pack("!h", len(topic)) + topic for topic in topics)
    return struct.pack("!hi", version, len(topics)) + names + tail


def test_topics_are_read_whatever_follows_them() -> None:
    assert subscribed_topics(subscription(b"a", "é".encode())) == {"a", "é"}
    assert subscribed_topics(subscription(version=0, tail=b"")) == frozenset()


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
    assert subscribed_topics(metadata) is None
