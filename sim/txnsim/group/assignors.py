"""Assign partitions to the members of a group: pure functions.

Kafka's three assignors. *uniform* balances over all topics together and moves as little as it can;
*range* gives each member adjacent partitions, the same ones in topics with equal partition counts.
The third one is for share groups (KIP-932), where several members may get the same partition.

Counterpart in Kafka: UniformAssignor, RangeAssignor. Where Kafka iterates over hash maps, this
module takes members in the order in which they joined, and topics by id.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace, merge
from itertools import islice
from math import ceil
from typing import Final

import msgspec

from txnsim.group.consumer_records import TopicIdPartition

UNIFORM: Final = "uniform"
RANGE: Final = "range"

Target = dict[str, frozenset[TopicIdPartition]]
"""Member id -> its partitions."""


class AssignableMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member as an assignor sees it."""

    member_id: str
    instance_id: str | None = None
    topics: frozenset[uuid.UUID]
    """Its subscribed topics that exist."""
    owned: frozenset[TopicIdPartition] = frozenset()
    """Its previous target."""


Assignor = Callable[[list[AssignableMember], Mapping[uuid.UUID, int]], Target]
"""(members in the order they joined, partitions of each topic) -> target assignment."""


def assign_uniform(members: list[AssignableMember], partitions: Mapping[uuid.UUID, int]) -> Target:
    """Assign with balance as the first goal and stickiness as the second (UniformAssignor)."""
    if not members:
        return {}
    if len({member.topics for member in members}) == 1:
        return _uniform_homogeneous(members, partitions)
    return _uniform_heterogeneous(members, partitions)


def _uniform_homogeneous(
    members: list[AssignableMember], partitions: Mapping[uuid.UUID, int]
) -> Target:
    """All members have the same subscription: their numbers of partitions differ by one at most."""
    topics = sorted(members[0].topics)
    owned = frozenset[TopicIdPartition]().union(*(member.owned for member in members))
    free = [(topic, index) for topic in topics for index in range(partitions[topic])]
    if owned:
        free = [partition for partition in free if partition not in owned]
    total = sum(partitions[topic] for topic in topics)
    quota_min, extra = divmod(total, len(members))
    target: dict[str, list[TopicIdPartition]] = {}
    unfilled: list[tuple[str, int]] = []
    for index, member in enumerate(members):
        quota = quota_min + (extra > 0)
        has_extra = extra > 0
        kept_partitions = []
        for partition in sorted(_valid(member, partitions)):
            if quota > 0:
                quota -= 1
                kept_partitions.append(partition)
            else:
                free.append(partition)
        if quota > 0 and has_extra and len(members) - index > extra:
            # A later member may own that many already.
            quota -= 1
            has_extra = False
        if quota > 0:
            unfilled.append((member.member_id, quota))
        extra -= has_extra
        target[member.member_id] = kept_partitions
    pool = iter(free)
    for member_id, quota in unfilled:
        target[member_id].extend(islice(pool, quota))
    return {member_id: frozenset(kept_partitions) for member_id, kept_partitions in target.items()}


def _uniform_heterogeneous(
    members: list[AssignableMember], partitions: Mapping[uuid.UUID, int]
) -> Target:
    """Assign if subscriptions differ. Topics with the fewest subscribers come first, and each
    partition goes to the member with the fewest partitions. Then partitions move from the member
    with the most to the one with the fewest, as long as that balances the target.
    """
    target = {member.member_id: set(_valid(member, partitions)) for member in members}
    takers = _Takers(members, target)
    assigned_partitions = frozenset[TopicIdPartition]().union(*target.values())
    for topic in takers.topics():
        for index in range(partitions[topic]):
            if (topic, index) not in assigned_partitions:
                takers.give((topic, index), takers.least(topic))
    _even_out(target, takers)
    return {
        member_id: frozenset(member_partitions) for member_id, member_partitions in target.items()
    }


def _valid(
    member: AssignableMember, partitions: Mapping[uuid.UUID, int]
) -> frozenset[TopicIdPartition]:
    """Partitions that a member had and may keep. A large set is checked topic by topic, because
    hashing a UUID is slow in Python.
    """
    invalid_partitions = []
    topic: uuid.UUID | None = None
    number = 0
    for partition in member.owned:
        if partition[0] is not topic:
            topic = partition[0]
            number = partitions[topic] if topic in member.topics else 0
        if partition[1] >= number:
            invalid_partitions.append(partition)
    return member.owned.difference(invalid_partitions) if invalid_partitions else member.owned


class _Takers:
    """The members that may take partitions of a topic, sorted by number of partitions, then by
    order of joining.

    Members with the same subscription share a heap, so a partition looks at as many heaps as its
    topic has different subscriptions.
    """

    def __init__(
        self, members: list[AssignableMember], target: dict[str, set[TopicIdPartition]]
    ) -> None:
        self._target = target
        self._line_of: dict[str, list[tuple[int, int, str]]] = {}
        self._order = {member.member_id: number for number, member in enumerate(members)}
        lines: dict[frozenset[uuid.UUID], list[tuple[int, int, str]]] = {}
        for number, member in enumerate(members):
            line = lines.setdefault(member.topics, [])
            line.append((len(target[member.member_id]), number, member.member_id))
            self._line_of[member.member_id] = line
        self._lines: dict[uuid.UUID, list[list[tuple[int, int, str]]]] = {}
        self._count: Counter[uuid.UUID] = Counter()
        for topics, line in lines.items():
            for topic in topics:
                self._lines.setdefault(topic, []).append(line)
                self._count[topic] += len(line)
            heapify(line)
        self._fewest = [entry for line in lines.values() for entry in line]
        heapify(self._fewest)
        self.steps = 0
        """Number of heap lookups so far."""
        self.giver: str | None = None
        """The member that is giving up partitions; its entries in the heaps may be outdated."""

    def topics(self) -> list[uuid.UUID]:
        """The topics, those with the fewest subscribers first."""
        return sorted(self._count, key=lambda topic: (self._count[topic], topic))

    def least(self, topic: uuid.UUID) -> str:
        """The member that gets the topic's next partition."""
        lines, target = self._lines[topic], self._target
        self.steps += len(lines)
        least: tuple[int, int, str] | None = None
        for line in lines:
            entry = line[0]
            if len(target[entry[2]]) != entry[0]:
                entry = self._first_valid(line)
            if least is None or entry < least:
                least = entry
        assert least is not None, "a topic has takers"
        return least[2]

    def fewest(self) -> int:
        """The smallest number of partitions of any member."""
        return self._first_valid(self._fewest)[0]

    def give(self, partition: TopicIdPartition, member_id: str) -> None:
        self._target[member_id].add(partition)
        self.has_changed(member_id)

    def has_changed(self, member_id: str) -> None:
        """Update the heaps after a member's number of partitions has changed."""
        entry = len(self._target[member_id]), self._order[member_id], member_id
        for heap in (self._line_of[member_id], self._fewest):
            if heap[0][2] == member_id:
                heapreplace(heap, entry)
            else:
                heappush(heap, entry)

    def _first_valid(self, line: list[tuple[int, int, str]]) -> tuple[int, int, str]:
        """The first valid entry of a heap; outdated entries stay in it."""
        target = self._target
        while (number := len(target[line[0][2]])) != line[0][0]:
            if number < line[0][0] and line[0][2] == self.giver:
                break
            heappop(line)
        return line[0]


_ROUNDS_MAX: Final = 16
"""UniformHeterogeneousAssignmentBuilder.MAX_ITERATION_COUNT."""
_STEPS_MAX: Final = 100_000
"""Limit of steps for balancing; a group that needs more stays unbalanced."""


def _even_out(target: dict[str, set[TopicIdPartition]], takers: _Takers) -> None:
    """Move partitions until the target is balanced. Each move brings two members closer, so it
    terminates.
    """
    steps_max = takers.steps + _STEPS_MAX
    for _ in range(_ROUNDS_MAX):
        moved = False
        for giver in sorted(target, key=lambda member_id: -len(target[member_id])):
            if len(target[giver]) - takers.fewest() <= 1:
                continue  # nobody has so few that it may take from this one
            topic: uuid.UUID | None = None
            giver_partitions, has_given = target[giver], False
            takers.giver = giver
            for partition in sorted(giver_partitions):
                if partition[0] != topic:
                    topic, taker = partition[0], takers.least(partition[0])
                if len(giver_partitions) - len(target[taker]) > 1:
                    giver_partitions.remove(partition)
                    takers.give(partition, taker)
                    has_given, topic = True, None
                if takers.steps > steps_max:
                    return
            takers.giver = None
            if has_given:
                takers.has_changed(giver)
                moved = True
        if not moved:
            return


def assign_range(members: list[AssignableMember], partitions: Mapping[uuid.UUID, int]) -> Target:
    """Give each subscriber adjacent partitions of a topic: static members first, by instance id,
    then the others by member id (RangeAssignor).
    """
    ordered = sorted(
        members,
        key=lambda member: (member.instance_id is None, member.instance_id or member.member_id),
    )
    target: dict[str, set[TopicIdPartition]] = {member.member_id: set() for member in members}
    lines: dict[frozenset[uuid.UUID], list[tuple[int, str]]] = {}
    for number, member in enumerate(ordered):
        lines.setdefault(member.topics, []).append((number, member.member_id))
    subscribers: dict[uuid.UUID, list[list[tuple[int, str]]]] = {}
    for topics, line in lines.items():
        for topic in topics:
            subscribers.setdefault(topic, []).append(line)
    for topic in sorted(subscribers):
        lines_of_topic = subscribers[topic]
        quota, extra = divmod(partitions[topic], sum(map(len, lines_of_topic)))
        # Without a quota only the first ones get something: the others are not looked at.
        in_order = merge(*lines_of_topic) if len(lines_of_topic) > 1 else lines_of_topic[0]
        start = 0
        for index, (_, member_id) in enumerate(in_order):
            end = start + quota + (index < extra)
            if end == start:
                break
            target[member_id].update((topic, number) for number in range(start, end))
            start = end
    return {
        member_id: frozenset(member_partitions) for member_id, member_partitions in target.items()
    }


ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: assign_uniform, RANGE: assign_range}
"""Name that clients use -> assignor; the first is the default."""


# Share groups (KIP-932): several members may get the same partition.
#
# Counterpart in Kafka: SimpleAssignor and its two builders. Where Kafka goes through hash maps,
# here partitions are taken by topic id and number.

SIMPLE: Final = "simple"
"""The name of the only assignor of share groups."""


def assign_simple(
    members: Sequence[AssignableMember], assignable: Mapping[uuid.UUID, Sequence[int]]
) -> Target:
    """Assign evenly with few changes.

    Args:
        members: Members in the order in which they joined.
        assignable: Topic -> its initialised partitions.
    """
    topics = sorted({topic for member in members for topic in member.topics})
    owned = {member.member_id: set(member.owned) for member in members}
    topic_partitions = {
        topic: [(topic, index) for index in assignable.get(topic, ())] for topic in topics
    }
    if not topics:
        return {member_id: frozenset() for member_id in owned}
    if all(member.topics == members[0].topics for member in members):
        kept_partitions = {
            member_id: {
                partition for partition in member_partitions if partition[0] in topic_partitions
            }
            for member_id, member_partitions in owned.items()
        }
        _share(
            [partition for topic in topics for partition in topic_partitions[topic]],
            list(owned),
            kept_partitions,
        )
        return {
            member_id: frozenset(member_partitions)
            for member_id, member_partitions in kept_partitions.items()
        }
    for topic in topics:
        of_topic = {
            member_id: {partition for partition in member_partitions if partition[0] == topic}
            for member_id, member_partitions in owned.items()
        }
        owned_before = {
            member_id: frozenset(member_partitions)
            for member_id, member_partitions in of_topic.items()
        }
        subscribed = [member.member_id for member in members if topic in member.topics]
        _share(topic_partitions[topic], subscribed, of_topic)
        for member_id, member_partitions in of_topic.items():
            owned[member_id] = (owned[member_id] - owned_before[member_id]) | member_partitions
    return {
        member_id: frozenset(member_partitions) for member_id, member_partitions in owned.items()
    }


def _share(
    partitions: Sequence[TopicIdPartition],
    subscribed: Sequence[str],
    owned: Mapping[str, set[TopicIdPartition]],
) -> None:
    """Give members an even number of partitions, each partition to ``sharing`` members."""
    sharing = -(-len(subscribed) // len(partitions)) if partitions else 0
    share = sharing * len(partitions) / len(subscribed)
    quota = dict.fromkeys(owned, 0)
    for number, member_id in enumerate(subscribed):
        quota[member_id] = ceil(share * (number + 1)) - ceil(share * number)
    for member_id, member_partitions in owned.items():
        for partition in sorted(member_partitions)[
            : max(0, len(member_partitions) - quota[member_id])
        ]:
            member_partitions.discard(partition)
    holders: dict[TopicIdPartition, list[str]] = {partition: [] for partition in partitions}
    for member_id, member_partitions in owned.items():
        for partition in member_partitions:
            holders.setdefault(partition, []).append(member_id)
    for partition, having in holders.items():
        surplus = max(0, len(having) - sharing)
        for member_id in having[:surplus]:
            owned[member_id].discard(partition)
        del having[:surplus]
    _fill(
        holders,
        sharing,
        quota,
        [member_id for member_id in subscribed if len(owned[member_id]) < quota[member_id]],
        owned,
    )


def _fill(
    holders: Mapping[TopicIdPartition, list[str]],
    sharing: int,
    quota: Mapping[str, int],
    unfilled: list[str],
    owned: Mapping[str, set[TopicIdPartition]],
) -> None:
    """Go round the members that lack partitions. After a round in which no member takes one, the
    remaining partitions stay unassigned (assignRemainingPartitions).
    """
    index, has_given = 0, False
    for partition, having in sorted(holders.items()):
        while unfilled and len(having) < sharing:
            if index == len(unfilled):
                if not has_given:
                    return
                index, has_given = 0, False
            member_id = unfilled[index]
            index += 1
            if partition in owned[member_id]:
                continue
            owned[member_id].add(partition)
            having.append(member_id)
            has_given = True
            if len(owned[member_id]) >= quota[member_id]:
                index -= 1
                del unfilled[index]
