"""Assign partitions to the members of a group of the consumer protocol: pure functions.

Kafka's two assignors. *uniform* balances over all topics together and moves as little as it can;
*range* gives each member neighbouring partitions, the same ones of topics with equal numbers.

Counterpart in Kafka: UniformAssignor, RangeAssignor. Where Kafka goes through hash maps, members
here are taken in the order in which they joined, topics by id.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

import msgspec

from txnsim.group.consumer_records import TopicIdPartition

UNIFORM: Final = "uniform"
RANGE: Final = "range"

Target = dict[str, frozenset[TopicIdPartition]]
"""Member id -> its partitions."""


class Subscriber(msgspec.Struct, frozen=True, kw_only=True):
    """A member as an assignor sees it."""

    member_id: str
    instance_id: str | None = None
    topics: frozenset[uuid.UUID]
    """Those that exist."""
    owned: frozenset[TopicIdPartition] = frozenset()
    """Its target so far."""


Assignor = Callable[[list[Subscriber], Mapping[uuid.UUID, int]], Target]
"""(members in the order they joined, partitions of each topic) -> target assignment."""


def assign_uniform(members: list[Subscriber], partitions: Mapping[uuid.UUID, int]) -> Target:
    """Balance first, stickiness second (UniformAssignor)."""
    if not members:
        return {}
    if all(member.topics == members[0].topics for member in members):
        return _uniform_homogeneous(members, partitions)
    return _uniform_heterogeneous(members, partitions)


def _uniform_homogeneous(members: list[Subscriber], partitions: Mapping[uuid.UUID, int]) -> Target:
    """Everybody subscribes to the same: all numbers of partitions differ by one at most."""
    topics = sorted(members[0].topics)
    owned = {each for member in members for each in member.owned}
    free = [
        (topic, index)
        for topic in topics
        for index in range(partitions[topic])
        if (topic, index) not in owned
    ]
    total = sum(partitions[topic] for topic in topics)
    quota_min, extra = divmod(total, len(members))
    target: dict[str, list[TopicIdPartition]] = {}
    unfilled: list[tuple[str, int]] = []
    for index, member in enumerate(members):
        quota = quota_min + (extra > 0)
        has_extra = extra > 0
        kept = []
        for each in sorted(member.owned):
            topic, number = each
            if topic not in member.topics or number >= partitions[topic]:
                continue
            if quota > 0:
                quota -= 1
                kept.append(each)
            else:
                free.append(each)
        if quota > 0 and has_extra and len(members) - index > extra:
            # A later member may own that many already.
            quota -= 1
            has_extra = False
        if quota > 0:
            unfilled.append((member.member_id, quota))
        extra -= has_extra
        target[member.member_id] = kept
    pool = iter(free)
    for member_id, quota in unfilled:
        target[member_id].extend(islice(pool, quota))
    return {member_id: frozenset(kept) for member_id, kept in target.items()}


def _uniform_heterogeneous(
    members: list[Subscriber], partitions: Mapping[uuid.UUID, int]
) -> Target:
    """Assign where subscriptions differ. Topics with the fewest subscribers go first, each
    partition to the member with the fewest partitions. Then partitions move from the member with
    the most to the one with the fewest, as long as that makes the target more even.
    """
    by_id = {member.member_id: member for member in members}
    target: dict[str, set[TopicIdPartition]] = {
        member.member_id: {
            (topic, index)
            for topic, index in member.owned
            if topic in member.topics and index < partitions[topic]
        }
        for member in members
    }
    takers: dict[uuid.UUID, list[str]] = {}
    for member in members:
        for topic in sorted(member.topics):
            takers.setdefault(topic, []).append(member.member_id)
    taken = {each for kept in target.values() for each in kept}
    for topic in sorted(takers, key=lambda each: (len(takers[each]), each)):
        for index in range(partitions[topic]):
            if (topic, index) not in taken:
                least = min(takers[topic], key=lambda each: len(target[each]))
                target[least].add((topic, index))
    _even_out(target, takers)
    return {member_id: frozenset(target[member_id]) for member_id in by_id}


def _even_out(target: dict[str, set[TopicIdPartition]], takers: dict[uuid.UUID, list[str]]) -> None:
    """Each move brings two members nearer to each other, so it ends."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(target, key=lambda each: -len(target[each])):
            for each in sorted(target[giver]):
                taker = min(takers[each[0]], key=lambda other: len(target[other]))
                if len(target[giver]) - len(target[taker]) > 1:
                    target[giver].remove(each)
                    target[taker].add(each)
                    moved = True


def assign_range(members: list[Subscriber], partitions: Mapping[uuid.UUID, int]) -> Target:
    """Neighbouring partitions of each topic to its subscribers in order: static members by instance
    id first, then the others by member id (RangeAssignor).
    """
    ordered = sorted(
        members,
        key=lambda member: (member.instance_id is None, member.instance_id or member.member_id),
    )
    target: dict[str, set[TopicIdPartition]] = {member.member_id: set() for member in members}
    for topic in sorted({topic for member in members for topic in member.topics}):
        subscribers = [member for member in ordered if topic in member.topics]
        quota, extra = divmod(partitions[topic], len(subscribers))
        start = 0
        for index, member in enumerate(subscribers):
            end = start + quota + (index < extra)
            target[member.member_id].update((topic, number) for number in range(start, end))
            start = end
    return {member_id: frozenset(kept) for member_id, kept in target.items()}


ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: assign_uniform, RANGE: assign_range}
"""Client-side name -> assignor; the first is the default."""
