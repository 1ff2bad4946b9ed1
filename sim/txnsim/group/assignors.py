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

TargetAssignment = dict[str, frozenset[TopicIdPartition]]
"""Member id -> its partitions."""


class AssignableMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member as an assignor sees it."""

    member_id: str
    instance_id: str | None = None
    topics: frozenset[uuid.UUID]
    """Its subscribed topics that exist."""
    previous_partitions: frozenset[TopicIdPartition] = frozenset()
    """Its previous target assignment."""


Assignor = Callable[[list[AssignableMember], Mapping[uuid.UUID, int]], TargetAssignment]
"""(members in the order they joined, partitions of each topic) -> target assignment."""


def assign_uniform(
    members: list[AssignableMember], partition_counts: Mapping[uuid.UUID, int]
) -> TargetAssignment:
    """Assign with balance as the first goal and stickiness as the second (UniformAssignor)."""
    if not members:
        return {}
    if len({member.topics for member in members}) == 1:
        return _uniform_homogeneous(members, partition_counts)
    return _uniform_heterogeneous(members, partition_counts)


def _uniform_homogeneous(
    members: list[AssignableMember], partition_counts: Mapping[uuid.UUID, int]
) -> TargetAssignment:
    """All members have the same subscription: their numbers of partitions differ by one at most."""
    topics = sorted(members[0].topics)
    previous_partitions = frozenset[TopicIdPartition]().union(
        *(member.previous_partitions for member in members)
    )
    free_partitions = [
        (topic, index) for topic in topics for index in range(partition_counts[topic])
    ]
    if previous_partitions:
        free_partitions = [
            partition for partition in free_partitions if partition not in previous_partitions
        ]
    partition_count = sum(partition_counts[topic] for topic in topics)
    quota_min, extra_count = divmod(partition_count, len(members))
    target_assignment: dict[str, list[TopicIdPartition]] = {}
    unfilled_quotas: list[tuple[str, int]] = []
    for index, member in enumerate(members):
        quota = quota_min + (extra_count > 0)
        has_extra = extra_count > 0
        kept_partitions = []
        for partition in sorted(_keepable_partitions(member, partition_counts)):
            if quota > 0:
                quota -= 1
                kept_partitions.append(partition)
            else:
                free_partitions.append(partition)
        if quota > 0 and has_extra and len(members) - index > extra_count:
            # A later member may own that many already.
            quota -= 1
            has_extra = False
        if quota > 0:
            unfilled_quotas.append((member.member_id, quota))
        extra_count -= has_extra
        target_assignment[member.member_id] = kept_partitions
    remaining_free = iter(free_partitions)
    for member_id, quota in unfilled_quotas:
        target_assignment[member_id].extend(islice(remaining_free, quota))
    return {
        member_id: frozenset(kept_partitions)
        for member_id, kept_partitions in target_assignment.items()
    }


def _uniform_heterogeneous(
    members: list[AssignableMember], partition_counts: Mapping[uuid.UUID, int]
) -> TargetAssignment:
    """Assign if subscriptions differ. Topics with the fewest subscribers come first, and each
    partition goes to the member with the fewest partitions. Then partitions move from the member
    with the most to the one with the fewest, as long as that balances the target assignment.
    """
    target_assignment = {
        member.member_id: set(_keepable_partitions(member, partition_counts)) for member in members
    }
    takers = _Takers(members, target_assignment)
    assigned_partitions = frozenset[TopicIdPartition]().union(*target_assignment.values())
    for topic in takers.topics():
        for index in range(partition_counts[topic]):
            if (topic, index) not in assigned_partitions:
                takers.give_partition((topic, index), takers.least_loaded(topic))
    _balance(target_assignment, takers)
    return {
        member_id: frozenset(member_partitions)
        for member_id, member_partitions in target_assignment.items()
    }


def _keepable_partitions(
    member: AssignableMember, partition_counts: Mapping[uuid.UUID, int]
) -> frozenset[TopicIdPartition]:
    """Partitions that a member had and may keep. A large set is checked topic by topic, because
    hashing a UUID is slow in Python.
    """
    invalid_partitions = []
    topic: uuid.UUID | None = None
    partition_count = 0
    for partition in member.previous_partitions:
        if partition[0] is not topic:
            topic = partition[0]
            partition_count = partition_counts[topic] if topic in member.topics else 0
        if partition[1] >= partition_count:
            invalid_partitions.append(partition)
    return (
        member.previous_partitions.difference(invalid_partitions)
        if invalid_partitions
        else member.previous_partitions
    )


class _Takers:
    """The members that may take partitions of a topic, sorted by number of partitions, then by
    order of joining.

    Members with the same subscription share a heap, so a partition looks at as many heaps as its
    topic has different subscriptions.
    """

    def __init__(
        self, members: list[AssignableMember], target_assignment: dict[str, set[TopicIdPartition]]
    ) -> None:
        self._target_assignment = target_assignment
        self._heap_of: dict[str, list[tuple[int, int, str]]] = {}
        self._order_by_member = {
            member.member_id: member_order for member_order, member in enumerate(members)
        }
        heaps_by_topics: dict[frozenset[uuid.UUID], list[tuple[int, int, str]]] = {}
        for member_order, member in enumerate(members):
            heap = heaps_by_topics.setdefault(member.topics, [])
            heap.append((len(target_assignment[member.member_id]), member_order, member.member_id))
            self._heap_of[member.member_id] = heap
        self._heaps_by_topic: dict[uuid.UUID, list[list[tuple[int, int, str]]]] = {}
        self._subscriber_counts: Counter[uuid.UUID] = Counter()
        for topics, heap in heaps_by_topics.items():
            for topic in topics:
                self._heaps_by_topic.setdefault(topic, []).append(heap)
                self._subscriber_counts[topic] += len(heap)
            heapify(heap)
        self._members_by_count = [
            heap_entry for heap in heaps_by_topics.values() for heap_entry in heap
        ]
        heapify(self._members_by_count)
        self.steps = 0
        """Number of heap lookups so far."""
        self.giver: str | None = None
        """The member that is giving up partitions; its entries in the heaps may be outdated."""

    def topics(self) -> list[uuid.UUID]:
        """The topics, those with the fewest subscribers first."""
        return sorted(
            self._subscriber_counts, key=lambda topic: (self._subscriber_counts[topic], topic)
        )

    def least_loaded(self, topic: uuid.UUID) -> str:
        """The member that gets the topic's next partition."""
        topic_heaps, target_assignment = self._heaps_by_topic[topic], self._target_assignment
        self.steps += len(topic_heaps)
        least_entry: tuple[int, int, str] | None = None
        for heap in topic_heaps:
            heap_entry = heap[0]
            if len(target_assignment[heap_entry[2]]) != heap_entry[0]:
                heap_entry = self._first_valid_entry(heap)
            if least_entry is None or heap_entry < least_entry:
                least_entry = heap_entry
        assert least_entry is not None, "a topic has takers"
        return least_entry[2]

    def lowest_partition_count(self) -> int:
        """The smallest number of partitions of any member."""
        return self._first_valid_entry(self._members_by_count)[0]

    def give_partition(self, partition: TopicIdPartition, member_id: str) -> None:
        self._target_assignment[member_id].add(partition)
        self.update_heaps(member_id)

    def update_heaps(self, member_id: str) -> None:
        """Update the heaps after a member's number of partitions has changed."""
        heap_entry = (
            len(self._target_assignment[member_id]),
            self._order_by_member[member_id],
            member_id,
        )
        for heap in (self._heap_of[member_id], self._members_by_count):
            if heap[0][2] == member_id:
                heapreplace(heap, heap_entry)
            else:
                heappush(heap, heap_entry)

    def _first_valid_entry(self, heap: list[tuple[int, int, str]]) -> tuple[int, int, str]:
        """The first valid entry of a heap; outdated entries stay in it."""
        target_assignment = self._target_assignment
        while (partition_count := len(target_assignment[heap[0][2]])) != heap[0][0]:
            if partition_count < heap[0][0] and heap[0][2] == self.giver:
                break
            heappop(heap)
        return heap[0]


_ROUNDS_MAX: Final = 16
"""UniformHeterogeneousAssignmentBuilder.MAX_ITERATION_COUNT."""
_STEPS_MAX: Final = 100_000
"""Limit of steps for balancing; a group that needs more stays unbalanced."""


def _balance(target_assignment: dict[str, set[TopicIdPartition]], takers: _Takers) -> None:
    """Move partitions until the target is balanced. Each move brings two members closer, so it
    terminates.
    """
    steps_max = takers.steps + _STEPS_MAX
    for _ in range(_ROUNDS_MAX):
        has_moved_any = False
        for giving_member in sorted(
            target_assignment, key=lambda member_id: -len(target_assignment[member_id])
        ):
            if len(target_assignment[giving_member]) - takers.lowest_partition_count() <= 1:
                continue  # nobody has so few that it may take from this one
            topic: uuid.UUID | None = None
            giver_partitions, has_given = target_assignment[giving_member], False
            takers.giver = giving_member
            for partition in sorted(giver_partitions):
                if partition[0] != topic:
                    topic, taker = partition[0], takers.least_loaded(partition[0])
                if len(giver_partitions) - len(target_assignment[taker]) > 1:
                    giver_partitions.remove(partition)
                    takers.give_partition(partition, taker)
                    has_given, topic = True, None
                if takers.steps > steps_max:
                    return
            takers.giver = None
            if has_given:
                takers.update_heaps(giving_member)
                has_moved_any = True
        if not has_moved_any:
            return


def assign_range(
    members: list[AssignableMember], partition_counts: Mapping[uuid.UUID, int]
) -> TargetAssignment:
    """Give each subscriber adjacent partitions of a topic: static members first, by instance id,
    then the others by member id (RangeAssignor).
    """
    ordered_members = sorted(
        members,
        key=lambda member: (member.instance_id is None, member.instance_id or member.member_id),
    )
    target_assignment: dict[str, set[TopicIdPartition]] = {
        member.member_id: set() for member in members
    }
    subscribers_by_topics: dict[frozenset[uuid.UUID], list[tuple[int, str]]] = {}
    for member_order, member in enumerate(ordered_members):
        subscribers_by_topics.setdefault(member.topics, []).append((member_order, member.member_id))
    subscribers: dict[uuid.UUID, list[list[tuple[int, str]]]] = {}
    for topics, ordered_subscribers in subscribers_by_topics.items():
        for topic in topics:
            subscribers.setdefault(topic, []).append(ordered_subscribers)
    for topic in sorted(subscribers):
        subscriber_lists = subscribers[topic]
        quota, extra_count = divmod(partition_counts[topic], sum(map(len, subscriber_lists)))
        # Without a quota only the first ones get something: the others are not looked at.
        merged_subscribers = (
            merge(*subscriber_lists) if len(subscriber_lists) > 1 else subscriber_lists[0]
        )
        first_index = 0
        for index, (_, member_id) in enumerate(merged_subscribers):
            end_index = first_index + quota + (index < extra_count)
            if end_index == first_index:
                break
            target_assignment[member_id].update(
                (topic, number) for number in range(first_index, end_index)
            )
            first_index = end_index
    return {
        member_id: frozenset(member_partitions)
        for member_id, member_partitions in target_assignment.items()
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
    members: Sequence[AssignableMember], assignable_indexes: Mapping[uuid.UUID, Sequence[int]]
) -> TargetAssignment:
    """Assign evenly with few changes.

    Args:
        members: Members in the order in which they joined.
        assignable_indexes: Topic -> its initialised partitions.
    """
    topics = sorted({topic for member in members for topic in member.topics})
    owned_by_member = {member.member_id: set(member.previous_partitions) for member in members}
    topic_partitions = {
        topic: [(topic, index) for index in assignable_indexes.get(topic, ())] for topic in topics
    }
    if not topics:
        return {member_id: frozenset() for member_id in owned_by_member}
    if all(member.topics == members[0].topics for member in members):
        kept_partitions = {
            member_id: {
                partition for partition in member_partitions if partition[0] in topic_partitions
            }
            for member_id, member_partitions in owned_by_member.items()
        }
        _share_evenly(
            [partition for topic in topics for partition in topic_partitions[topic]],
            list(owned_by_member),
            kept_partitions,
        )
        return {
            member_id: frozenset(member_partitions)
            for member_id, member_partitions in kept_partitions.items()
        }
    for topic in topics:
        owned_of_topic = {
            member_id: {partition for partition in member_partitions if partition[0] == topic}
            for member_id, member_partitions in owned_by_member.items()
        }
        owned_before = {
            member_id: frozenset(member_partitions)
            for member_id, member_partitions in owned_of_topic.items()
        }
        subscriber_ids = [member.member_id for member in members if topic in member.topics]
        _share_evenly(topic_partitions[topic], subscriber_ids, owned_of_topic)
        for member_id, member_partitions in owned_of_topic.items():
            owned_by_member[member_id] = (
                owned_by_member[member_id] - owned_before[member_id]
            ) | member_partitions
    return {
        member_id: frozenset(member_partitions)
        for member_id, member_partitions in owned_by_member.items()
    }


def _share_evenly(
    partitions: Sequence[TopicIdPartition],
    subscriber_ids: Sequence[str],
    owned_by_member: Mapping[str, set[TopicIdPartition]],
) -> None:
    """Give members an even number of partitions, each partition to ``sharing`` members."""
    holders_per_partition = -(-len(subscriber_ids) // len(partitions)) if partitions else 0
    partitions_per_member = holders_per_partition * len(partitions) / len(subscriber_ids)
    quota_by_member = dict.fromkeys(owned_by_member, 0)
    for index, member_id in enumerate(subscriber_ids):
        quota_by_member[member_id] = ceil(partitions_per_member * (index + 1)) - ceil(
            partitions_per_member * index
        )
    for member_id, member_partitions in owned_by_member.items():
        for partition in sorted(member_partitions)[
            : max(0, len(member_partitions) - quota_by_member[member_id])
        ]:
            member_partitions.discard(partition)
    members_by_partition: dict[TopicIdPartition, list[str]] = {
        partition: [] for partition in partitions
    }
    for member_id, member_partitions in owned_by_member.items():
        for partition in member_partitions:
            members_by_partition.setdefault(partition, []).append(member_id)
    for partition, holder_ids in members_by_partition.items():
        surplus_count = max(0, len(holder_ids) - holders_per_partition)
        for member_id in holder_ids[:surplus_count]:
            owned_by_member[member_id].discard(partition)
        del holder_ids[:surplus_count]
    _fill_quotas(
        members_by_partition,
        holders_per_partition,
        quota_by_member,
        [
            member_id
            for member_id in subscriber_ids
            if len(owned_by_member[member_id]) < quota_by_member[member_id]
        ],
        owned_by_member,
    )


def _fill_quotas(
    members_by_partition: Mapping[TopicIdPartition, list[str]],
    holders_per_partition: int,
    quota_by_member: Mapping[str, int],
    unfilled_ids: list[str],
    owned_by_member: Mapping[str, set[TopicIdPartition]],
) -> None:
    """Go round the members that lack partitions. After a round in which no member takes one, the
    remaining partitions stay unassigned (assignRemainingPartitions).
    """
    index, has_given = 0, False
    for partition, holder_ids in sorted(members_by_partition.items()):
        while unfilled_ids and len(holder_ids) < holders_per_partition:
            if index == len(unfilled_ids):
                if not has_given:
                    return
                index, has_given = 0, False
            member_id = unfilled_ids[index]
            index += 1
            if partition in owned_by_member[member_id]:
                continue
            owned_by_member[member_id].add(partition)
            holder_ids.append(member_id)
            has_given = True
            if len(owned_by_member[member_id]) >= quota_by_member[member_id]:
                index -= 1
                del unfilled_ids[index]
