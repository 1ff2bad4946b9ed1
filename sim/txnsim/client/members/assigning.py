"""What a classic member says in JoinGroup, and how the leader of a generation assigns. Pure.

Kafka's counterparts are ``ConsumerProtocol`` and ``RangeAssignor``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from txnsim.group.subscription import read_assignment, read_subscription, write_assignment
from txnsim.types import TopicPartition

_VERSION = 0
"""Of both: without owned partitions, as eager assignors need none."""


def write_subscription(topics: Iterable[str]) -> bytes:
    """A consumer's subscription."""
    names = sorted(topics)
    out = [struct.pack("!hi", _VERSION, len(names))]
    for name in names:
        data = name.encode()
        out.append(struct.pack("!h", len(data)) + data)
    out.append(struct.pack("!i", -1))
    return b"".join(out)


def assigned_partitions(data: bytes) -> frozenset[TopicPartition]:
    """What a member was assigned.

    Raises:
        ValueError: The leader of the generation sent something else.
    """
    found = read_assignment(data)
    if found is None:
        raise ValueError(f"the leader of the group sent {data.hex()}, which is no assignment")
    return frozenset(TopicPartition(topic, index) for topic, index in found.partitions)


def assign_range(
    members: Mapping[str, tuple[str, bytes]], partitions: Mapping[str, int]
) -> dict[str, bytes]:
    """Share each topic's partitions among the members that subscribe to it: consecutive ones, and
    one more to the first members where they don't come out even.

    Args:
        members: Member id -> what it is ordered by (its instance id, where it has one), and its
            subscription.
        partitions: Topic -> how many it has.

    Returns:
        Member id -> its assignment.
    """
    shares: dict[str, dict[str, list[int]]] = {name: {} for name in members}
    wanted = {name: read_subscription(data) for name, (_, data) in members.items()}
    ordered = sorted(members, key=lambda name: members[name][0])
    for topic, count in sorted(partitions.items()):
        takers = [
            name for name in ordered if (said := wanted[name]) is not None and topic in said.topics
        ]
        start = 0
        for at, name in enumerate(takers):
            size = count // len(takers) + (at < count % len(takers))
            if size:
                shares[name][topic] = list(range(start, start + size))
            start += size
    return {name: write_assignment(_VERSION, share) for name, share in shares.items()}


def subscribed(members: Iterable[bytes]) -> frozenset[str]:
    """Every topic that one of these subscriptions names."""
    found = (read_subscription(data) for data in members)
    return frozenset(topic for said in found if said is not None for topic in said.topics)
