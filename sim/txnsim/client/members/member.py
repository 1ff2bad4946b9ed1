"""A member of a group, for programs: subscribe, poll, seek, commit, leave.

Heartbeats go on in the background. A member that does not poll for ``rebalance_timeout_ms`` leaves
its group with one of them. What else a heartbeat does depends on the protocol: a classic member
takes part in a rebalance only in its polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal
from uuid import UUID

import msgspec

from txnsim.client._positions import committed_positions
from txnsim.client.backoff import Backoff, Deadline, pause
from txnsim.client.cluster import LOST_ANSWER_ERRORS, Cluster
from txnsim.client.errors import ClientError, IllegalUseError, RetriableError
from txnsim.client.fetching import FetchResult, fetch
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members.membership import (
    GroupProtocol,
    MemberOptions,
    Membership,
    Subscriber,
    refusal_error,
)
from txnsim.client.members.requests import (
    consumer_group_heartbeat,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    share_group_heartbeat,
    streams_group_heartbeat,
    sync_group,
)
from txnsim.client.offsets import EARLIEST_TIMESTAMP, offset_of
from txnsim.client.versions import VersionedRequest
from txnsim.errors import ErrorCode
from txnsim.group.subscription import read_assignment, read_subscription, write_assignment
from txnsim.types import TopicPartition
from txnsim.wire.apis import api_name

HEARTBEAT_MS: Final = 300
"""Milliseconds between two heartbeats: short, so that a rebalance among a few members is soon
over.
"""
LOOK_FIRST_MS: Final = 10
"""First pause in ms while waiting for an assignment; it grows up to a heartbeat's."""
NO_WAIT_MS: Final = 0


# A member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.
#
# What it says in JoinGroup, and how the leader of a generation assigns, is pure. Kafka's
# counterparts are ``AbstractCoordinator``, ``ConsumerProtocol`` and the eager ``RangeAssignor``.

JOIN_GRACE_MS: Final = 5_000
"""How much longer than the rebalance timeout a client waits for a JoinGroup answer, like Java's; in
ms.
"""
METADATA_MAX_AGE_MS: Final = 300_000
"""metadata.max.age.ms: greatest age of a leader's metadata about the topics that it has
assigned.
"""

Place = Literal["out", "joining", "in"]
"""Java's ``MemberState``: UNJOINED; PREPARING_REBALANCE or COMPLETING_REBALANCE; STABLE."""

_ALIVE: Final = frozenset({ErrorCode.none, ErrorCode.rebalance_in_progress})
"""Errors after which the member is still in the group."""
_OUT: Final = frozenset(
    {
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
        ErrorCode.fenced_instance_id,
    }
)
"""Errors after which the member must rejoin: unknown, or of another generation."""


class ClassicMembership(Membership):
    """A member of a classic group, where the leader of each generation assigns partitions."""

    def __init__(self, subscriber: Subscriber) -> None:
        super().__init__(subscriber)
        self._member_id = ""
        self._place: Place = "out"
        self._heard_ms = 0.0
        """When its coordinator last confirmed the membership."""
        self._led_partition_counts: Mapping[str, int] | None = None
        """Topic -> number of partitions when this member, as leader, last assigned it."""
        self._known_ms = 0.0
        """When the numbers of partitions were last checked."""

    @property
    def takes_part(self) -> bool:
        return self._place != "out"

    async def beat(self) -> None:
        """See ``Membership``. Heartbeats continue while a rebalance waits for the member's next
        poll, so that it can wait for the whole ``rebalance_timeout_ms``.
        """
        if self._place != "in":
            return
        options, clock = self._options, self._cluster.clock
        if clock.monotonic_ms() - self._heard_ms >= options.session_timeout_ms:
            self._coordinator.forget()
            self._heard_ms = clock.monotonic_ms()
        answer = await self._coordinator.ask(
            heartbeat(options.group_id, self.metadata), timeout_ms=options.session_timeout_ms
        )
        error = ErrorCode(answer.error_code)
        if error in _ALIVE:
            self._heard_ms = clock.monotonic_ms()
            self._must_join |= error == ErrorCode.rebalance_in_progress
        elif error in _OUT:
            self._fall_out(keeps_id=error == ErrorCode.illegal_generation)
            if error == ErrorCode.fenced_instance_id:
                raise refusal_error("Heartbeat", options.group_id, error)
        # Whatever else it is answered, it asks again, as Java's heartbeat thread does.

    def _fall_out(self, *, keeps_id: bool = False) -> None:
        """Lose the membership (``resetStateAndGeneration``)."""
        self._place, self._must_join = "out", True
        if not keeps_id:
            self._member_id = ""

    async def settle(self) -> None:
        await self._look_at_topics()
        while self._must_join:
            self._hold(frozenset())  # an eager member gives up all before it joins again
            self._place = "joining"
            join_response = await self._join()
            if join_response is not None and await self._sync(join_response):
                self._must_join = False

    async def _look_at_topics(self) -> None:
        """As leader, start a rebalance if a topic that it has assigned has more partitions now."""
        if self._led_partition_counts is None or self._must_join:
            return
        if self._cluster.clock.monotonic_ms() - self._known_ms >= METADATA_MAX_AGE_MS:
            await self._learn(self._led_partition_counts)
        self._must_join = (
            self._partition_counts(self._led_partition_counts) != self._led_partition_counts
        )

    async def _learn(self, topics: Iterable[str]) -> None:
        await self._cluster.refresh(sorted(topics))
        self._known_ms = self._cluster.clock.monotonic_ms()

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        topic_views = {topic_name: self._cluster.view.topic(topic_name) for topic_name in topics}
        return {
            topic_name: 0 if topic_view is None else len(topic_view.partitions)
            for topic_name, topic_view in topic_views.items()
        }

    async def _join(self) -> Any:
        """Join a new generation; returns the JoinGroup answer, or None to try again."""
        options = self._options
        request = join_group(
            options.group_id,
            GroupMetadata(member_id=self._member_id, instance_id=options.instance_id),
            subscription=write_subscription(self._topics),
            session_timeout_ms=options.session_timeout_ms,
            rebalance_timeout_ms=options.rebalance_timeout_ms,
        )
        timeout_ms = max(
            self._cluster.settings.request_timeout_ms, options.rebalance_timeout_ms + JOIN_GRACE_MS
        )
        answer = await self._coordinator.ask(request, timeout_ms=timeout_ms)
        error = ErrorCode(answer.error_code)
        if error == ErrorCode.none:
            return answer
        if error == ErrorCode.member_id_required:
            self._member_id = answer.member_id
        elif error == ErrorCode.unknown_member_id:
            self._fall_out()
        elif error != ErrorCode.rebalance_in_progress:
            raise refusal_error("JoinGroup", options.group_id, error)
        return None

    async def _sync(self, join_response: Any) -> bool:
        """Take the assignment of a generation; False where the next one has begun."""
        options = self._options
        self._member_id = join_response.member_id
        member = GroupMetadata(
            generation=join_response.generation_id,
            member_id=join_response.member_id,
            instance_id=options.instance_id,
        )
        self._led_partition_counts = None
        is_leader = join_response.leader == join_response.member_id and not getattr(
            join_response, "skip_assignment", False
        )
        assignment_by_member = await self._assign(join_response) if is_leader else {}
        request = sync_group(options.group_id, member, assignment_by_member=assignment_by_member)
        answer = await self._coordinator.ask(request)
        error = ErrorCode(answer.error_code)
        if error in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            self._fall_out(keeps_id=error == ErrorCode.illegal_generation)
        elif error not in _ALIVE:
            raise refusal_error("SyncGroup", options.group_id, error)
        if error != ErrorCode.none:
            return False
        self.metadata, self._place = member, "in"
        self._heard_ms = self._cluster.clock.monotonic_ms()
        self._hold(assigned_partitions(answer.assignment))
        return True

    async def _assign(self, join_response: Any) -> dict[str, bytes]:
        topics = subscribed_topics(
            joined_member.metadata for joined_member in join_response.members
        )
        await self._learn(topics)
        self._led_partition_counts = self._partition_counts(topics)
        members = {
            joined_member.member_id: (
                getattr(joined_member, "group_instance_id", None),
                joined_member.metadata,
            )
            for joined_member in join_response.members
        }
        return assign_range(members, self._led_partition_counts)

    async def leave(self) -> None:
        """See ``Membership``. A static member sends nothing: its session expires unless it comes
        back.
        """
        options, member_id, membership_state = self._options, self._member_id, self._place
        self._fall_out()
        if options.instance_id is not None or not member_id or membership_state == "out":
            return
        leaver = GroupMetadata(member_id=member_id)
        answer = await self._coordinator.ask(leave_group(options.group_id, leaver))
        status_rows = (answer, *getattr(answer, "members", ()))
        error = next(
            (member_row.error_code for member_row in status_rows if member_row.error_code),
            ErrorCode.none,
        )
        if error != ErrorCode.none:
            raise refusal_error("LeaveGroup", options.group_id, ErrorCode(error))


_VERSION = 0
"""Version of both formats: without owned partitions, which eager assignors don't need."""


def write_subscription(topics: Iterable[str]) -> bytes:
    """Encode a consumer's subscription."""
    topic_names = sorted(topics)
    encoded_parts = [struct.pack("!hi", _VERSION, len(topic_names))]
    for topic_name in topic_names:
        name_bytes = topic_name.encode()
        encoded_parts.append(struct.pack("!h", len(name_bytes)) + name_bytes)
    encoded_parts.append(struct.pack("!i", -1))
    return b"".join(encoded_parts)


def assigned_partitions(assignment_bytes: bytes) -> frozenset[TopicPartition]:
    """Decode the partitions that a member was assigned.

    Raises:
        ValueError: The leader of the generation sent something that is no assignment.
    """
    assignment = read_assignment(assignment_bytes)
    if assignment is None:
        raise ValueError(
            f"the leader of the group sent {assignment_bytes.hex()}, which is no assignment"
        )
    return frozenset(TopicPartition(topic, index) for topic, index in assignment.partitions)


def assign_range(
    members: Mapping[str, tuple[str | None, bytes]], partition_counts: Mapping[str, int]
) -> dict[str, bytes]:
    """Share each topic's partitions among the members that subscribe to it: consecutive ones, and
    one more for the first members if the numbers don't divide evenly.

    Args:
        members: Member id -> its instance id, where it has one, and its subscription. Static
            members come first, by their instance ids.
        partition_counts: Topic -> how many it has.

    Returns:
        Member id -> its assignment.
    """
    member_shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in members}
    subscriptions = {
        member_id: read_subscription(subscription_bytes)
        for member_id, (_, subscription_bytes) in members.items()
    }
    ordered_members = sorted(
        members,
        key=lambda member_id: (members[member_id][0] is None, members[member_id][0], member_id),
    )
    for topic, partition_count in sorted(partition_counts.items()):
        subscribed_members = [
            member_id
            for member_id in ordered_members
            if (subscription := subscriptions[member_id]) is not None
            and topic in subscription.topics
        ]
        first_index = 0
        for rank, member_id in enumerate(subscribed_members):
            share_length = partition_count // len(subscribed_members) + (
                rank < partition_count % len(subscribed_members)
            )
            if share_length:
                member_shares[member_id][topic] = list(
                    range(first_index, first_index + share_length)
                )
            first_index += share_length
    return {
        member_id: write_assignment(_VERSION, share) for member_id, share in member_shares.items()
    }


def subscribed_topics(members: Iterable[bytes]) -> frozenset[str]:
    """Every topic that at least one of the members subscribes to."""
    subscriptions = (read_subscription(subscription_bytes) for subscription_bytes in members)
    return frozenset(
        topic
        for subscription in subscriptions
        if subscription is not None
        for topic in subscription.topics
    )


# A member of the consumer protocol: one request says and asks for everything (KIP-848).
#
# Kafka's counterpart is ``ConsumerMembershipManager``.

JOIN: Final = 0
LEAVE: Final = -1
LEAVE_FOR_A_WHILE: Final = -2
"""Special member epochs; with -2 a static member keeps its partitions until it returns."""
_EXPELLED: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})


class ConsumerMembership(Membership):
    """A member whose coordinator assigns the partitions.

    It joins and takes over assignments in polls. After it was expelled, its heartbeats rejoin.
    """

    def __init__(self, subscriber: Subscriber) -> None:
        super().__init__(subscriber)
        self.metadata = GroupMetadata(
            generation=JOIN,
            member_id=subscriber.options.member_id,
            instance_id=subscriber.options.instance_id,
        )
        self._group_metadata = self.metadata
        """The current identity; ``metadata`` keeps the old one until the member has rejoined."""
        self._target_partitions: frozenset[TopicPartition] = frozenset()
        self._confirmed_partitions: frozenset[TopicPartition] = frozenset()
        """The member's partitions that the coordinator knows."""
        self._is_out = True
        """Not joined yet, or left; the next poll joins."""
        self._says_topics = False
        """Whether the next heartbeat contains the subscription."""
        self._refusal: ClientError | None = None
        """The fatal error (``MemberState.FATAL``), after which the member sends nothing."""

    @property
    def takes_part(self) -> bool:
        return not self._is_out

    async def beat(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        if self._is_out:
            return
        if self._must_join or self._says_topics:
            await self._join()
        else:
            await self._send_heartbeat(self._request())

    async def settle(self) -> None:
        self._is_out = False
        while (
            self._must_join
            or self._says_topics
            or self._target_partitions != self._confirmed_partitions
        ):
            if self._must_join or self._says_topics:
                await self._join()
                continue
            target_assignment = self._target_partitions
            self._hold(target_assignment)
            if await self._send_heartbeat(
                self._request(owned_partitions=self._by_id(target_assignment))
            ):
                self._confirmed_partitions = target_assignment

    async def _join(self) -> None:
        """Send the first heartbeat of a member, with all fields."""
        if self._must_join:
            self._lose_all()
        join_fields = (self._topics, self._options.rebalance_timeout_ms)
        owned_partitions = self._by_id(self.assigned)
        if await self._send_heartbeat(
            self._request(join_fields=join_fields, owned_partitions=owned_partitions)
        ):
            self._says_topics = False

    def resubscribe(self, topics: tuple[str, ...]) -> None:
        """See ``Membership``. The next heartbeat sends the new topics; the member keeps its
        partitions. A refused member starts over.
        """
        self._must_join |= self._refusal is not None
        self._refusal = None
        self._says_topics |= topics != self._topics
        self._topics = topics

    def _lose_all(self) -> None:
        self._hold(frozenset())
        self._target_partitions = self._confirmed_partitions = frozenset()
        self._group_metadata = msgspec.structs.replace(self._group_metadata, generation=JOIN)

    def _request(
        self,
        *,
        join_fields: tuple[Collection[str], int] | None = None,
        owned_partitions: Mapping[UUID, Collection[int]] | None = None,
        leaving_epoch: int | None = None,
    ) -> VersionedRequest:
        """Build a heartbeat; ``leaving_epoch`` is the epoch of one that leaves."""
        member_fields = self._request_metadata(leaving_epoch)
        return consumer_group_heartbeat(
            self._options.group_id,
            member_fields,
            joining=join_fields,
            owned_partitions=owned_partitions,
        )

    def _request_metadata(self, leaving_epoch: int | None) -> GroupMetadata:
        return self._group_metadata if leaving_epoch is None else self._with_epoch(leaving_epoch)

    def _with_epoch(self, epoch: int) -> GroupMetadata:
        return msgspec.structs.replace(self._group_metadata, generation=epoch)

    async def _send_heartbeat(self, request: VersionedRequest) -> bool:
        answer = await self._coordinator.ask(request)
        error = ErrorCode(answer.error_code)
        if error in _EXPELLED:
            self._must_join = True
            return False
        if error != ErrorCode.none:
            self._refusal = refusal_error(api_name(request.api), self._options.group_id, error)
            raise self._refusal
        self._must_join = False
        self._group_metadata = self.metadata = msgspec.structs.replace(
            self._group_metadata,
            generation=answer.member_epoch,
            member_id=answer.member_id or self._group_metadata.member_id,
        )
        target_assignment = await self._assigned_by(answer)
        if target_assignment is not None:
            self._target_partitions = target_assignment
        return True

    async def _assigned_by(self, answer: Any) -> frozenset[TopicPartition] | None:
        """The partitions that an answer assigns; None if the assignment has not changed."""
        if answer.assignment is None:
            return None
        return await self._by_name(answer.assignment.topic_partitions)

    def _ids(self) -> dict[str, UUID]:
        topic_views = {
            topic_name: self._cluster.view.topic(topic_name) for topic_name in self._topics
        }
        return {
            topic_name: topic_view.topic_id
            for topic_name, topic_view in topic_views.items()
            if topic_view is not None and topic_view.topic_id is not None
        }

    async def _by_name(self, topic_rows: Sequence[Any]) -> frozenset[TopicPartition]:
        """Partitions by topic name; those of topics that the metadata does not know yet are left
        out.
        """
        if not {topic_row.topic_id for topic_row in topic_rows} <= set(self._ids().values()):
            await self._cluster.refresh(self._topics)
        name_by_topic_id = {topic_id: topic_name for topic_name, topic_id in self._ids().items()}
        return frozenset(
            TopicPartition(name_by_topic_id[topic_row.topic_id], index)
            for topic_row in topic_rows
            if topic_row.topic_id in name_by_topic_id
            for index in topic_row.partitions
        )

    def _by_id(self, partitions: Iterable[TopicPartition]) -> dict[UUID, list[int]]:
        """Partitions by topic id; those of deleted topics are left out."""
        id_by_topic = self._ids()
        indexes_by_id: dict[UUID, list[int]] = {}
        for partition in sorted(
            partition for partition in partitions if partition.topic in id_by_topic
        ):
            indexes_by_id.setdefault(id_by_topic[partition.topic], []).append(partition.partition)
        return indexes_by_id

    async def leave(self) -> None:
        """See ``Membership``. A static member keeps its place for a return."""
        epoch = LEAVE if self._options.instance_id is None else LEAVE_FOR_A_WHILE
        request = self._request(leaving_epoch=epoch)
        was_out = self._is_out or self._must_join or self._refusal is not None
        self._lose_all()
        self._is_out = self._must_join = True
        if was_out:
            return
        answer = await self._coordinator.ask(request)
        error = ErrorCode(answer.error_code)
        if error != ErrorCode.none:
            raise refusal_error(api_name(request.api), self._options.group_id, error)


class ShareMembership(ConsumerMembership):
    """A member of a share group. Several members may have a partition, so none is revoked before
    another gets it. Kafka's counterpart is ``ShareMembershipManager``.
    """

    def _request(
        self,
        *,
        join_fields: tuple[Collection[str], int] | None = None,
        leaving_epoch: int | None = None,
        **_unused_fields: object,
    ) -> VersionedRequest:
        member_fields = self._request_metadata(leaving_epoch)
        topics = None if join_fields is None else join_fields[0]
        return share_group_heartbeat(self._options.group_id, member_fields, topics=topics)


class StreamsMembership(ConsumerMembership):
    """A thread of Kafka Streams, alone in its process. Task N of its topology reads partition N of
    each topic. Kafka's counterpart is ``StreamsMembershipManager``.
    """

    def resubscribe(self, topics: tuple[str, ...]) -> None:
        """See ``Membership``. Other topics make the member rejoin, because its topology is
        fixed.
        """
        self._must_join |= self._refusal is not None or topics != self._topics
        self._refusal = None
        self._topics = topics

    def _request(
        self,
        *,
        join_fields: tuple[Collection[str], int] | None = None,
        owned_partitions: Mapping[UUID, Collection[int]] | None = None,
        leaving_epoch: int | None = None,
    ) -> VersionedRequest:
        member_fields = self._request_metadata(leaving_epoch)
        tasks = (
            None
            if owned_partitions is None
            else {
                task
                for partition_indexes in owned_partitions.values()
                for task in partition_indexes
            }
        )
        return streams_group_heartbeat(
            self._options.group_id, member_fields, joining=join_fields, tasks=tasks
        )

    async def _assigned_by(self, answer: Any) -> frozenset[TopicPartition] | None:
        """Like ``ConsumerMembership._assigned_by``, without tasks of partitions that the metadata
        lack.
        """
        if answer.active_tasks is None:
            return None
        tasks = {task for task_row in answer.active_tasks for task in task_row.partitions}
        if len({partition.partition for partition in self._places(tasks)}) < len(tasks):
            await self._cluster.refresh(self._topics)
        return frozenset(self._places(tasks))

    def _places(self, tasks: Collection[int]) -> Iterator[TopicPartition]:
        for topic_name in self._topics:
            topic_view = self._cluster.view.topic(topic_name)
            partitions = 0 if topic_view is None else len(topic_view.partitions)
            yield from (TopicPartition(topic_name, task) for task in tasks if task < partitions)


_PROTOCOLS: Final[Mapping[GroupProtocol, Callable[[Subscriber], Membership]]] = {
    "classic": ClassicMembership,
    "consumer": ConsumerMembership,
    "share": ShareMembership,
    "streams": StreamsMembership,
}


class PollResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a poll: new positions and fetched records."""

    positions: Mapping[TopicPartition, int] = {}
    """Committed positions of partitions that are new to the member; -1 if the group has none."""
    fetched: tuple[tuple[int, FetchResult], ...] = ()
    """Each Fetch: the requested offset, and its result."""


class JoiningMember:
    """What all kinds of members can do: subscribe, leave, close; heartbeats are sent in the
    background.
    """

    def __init__(self, cluster: Cluster, options: MemberOptions) -> None:
        """Nothing is sent before ``subscribe``."""
        self.options = options
        self.positions: dict[TopicPartition, int] = {}
        """The next offset by partition; empty in a share group, whose brokers keep positions."""
        self._cluster = cluster
        self._membership: Membership | None = None
        self._turn_lock = asyncio.Lock()
        """A rebalance and a heartbeat each take this lock, so a heartbeat waits for a rebalance."""
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._stands_still = False
        self._has_left = False
        self._polled_ms = math.inf
        """End of the last call in milliseconds; infinite during a call."""
        self._refusal: ClientError | None = None

    @property
    def metadata(self) -> GroupMetadata:
        """The member's identity, as a transactional producer sends it
        (``Consumer.groupMetadata``).
        """
        return self._current_membership.metadata

    @property
    def is_joined(self) -> bool:
        return self._membership is not None

    @property
    def takes_part(self) -> bool:
        """Whether the consumer considers itself a member of its group."""
        return self._membership is not None and self._membership.takes_part

    @property
    def polls_in_time(self) -> bool:
        """Whether its last call ended less than ``rebalance_timeout_ms`` ago, or is still
        running.
        """
        since_ms = self._cluster.clock.monotonic_ms() - self._polled_ms
        return since_ms < self.options.rebalance_timeout_ms

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return self._current_membership.assigned

    @property
    def _current_membership(self) -> Membership:
        if self._membership is None:
            group_id = self.options.group_id
            raise IllegalUseError(f"this member of group {group_id!r} has to subscribe")
        return self._membership

    async def subscribe(
        self,
        topics: Collection[str],
        *,
        until: frozenset[TopicPartition] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Join the group, or change the subscription.

        Args:
            topics: The topics to read.
            until: Wait until these partitions are assigned; by default until the first assignment.
            timeout_ms: How long to wait for them; ``api_timeout_ms`` unless given.

        Raises:
            ClientError: The coordinator refuses the member.
            RetriableError: The partitions were not assigned in time.
        """
        await self._cluster.refresh(tuple(topics))
        if self._membership is not None and not self._has_left:
            self._membership.resubscribe(tuple(topics))
        else:
            self._has_left = False
            subscriber = Subscriber(
                cluster=self._cluster,
                options=self.options,
                topics=tuple(topics),
                positions=self.positions,
            )
            self._membership = _PROTOCOLS[self.options.protocol](subscriber)
        if self._heartbeat_task is None:
            self._heartbeat_task = self._cluster.tasks.spawn(
                self._beat(), name=f"heartbeats to group {self.options.group_id}"
            )
        with self._suspend_rebalance_timeout():
            await self._wait_until_assigned(until, timeout_ms)

    def stand_still(self) -> None:
        """Send no heartbeats until the next poll, like a process that is suspended or collects
        garbage.
        """
        self._stands_still = True

    async def leave(self) -> None:
        """Leave the group, like a consumer that is closed. A static member may come back: in the
        consumer protocol it announces that, in the classic one it sends nothing.

        Raises:
            ClientError: Refused, or not answered.
        """
        await self._end_heartbeats()
        self._has_left = True
        await self._current_membership.leave()
        self.positions.clear()

    async def close(self) -> None:
        """End without leaving, like a process that dies; connections stay with the cluster."""
        await self._end_heartbeats()

    # Inside

    @contextlib.contextmanager
    def _suspend_rebalance_timeout(self) -> Iterator[None]:
        """During a call ``rebalance_timeout_ms`` does not run."""
        if self._has_left:
            raise IllegalUseError("This consumer has already been closed.")  # Java's words
        self._stands_still, self._polled_ms = False, math.inf
        try:
            yield
        finally:
            self._polled_ms = self._cluster.clock.monotonic_ms()

    async def _wait_until_assigned(
        self, until: frozenset[TopicPartition] | None, timeout_ms: float | None
    ) -> None:
        membership = self._current_membership
        deadline = self._cluster.deadline(timeout_ms)
        look_count = Backoff(self._cluster.clock, initial_ms=LOOK_FIRST_MS, max_ms=HEARTBEAT_MS)
        backoff = self._cluster.backoff()
        while True:
            if self._refusal is not None:
                refusal, self._refusal = self._refusal, None
                raise refusal
            try:
                async with self._turn_lock:
                    await membership.beat()
                    await membership.settle()
            except RetriableError:
                if deadline.has_passed:
                    raise
                await backoff.wait(deadline)
                continue
            if until is None or membership.assigned == until:
                return
            if deadline.has_passed:
                assigned_text = ", ".join(map(str, sorted(membership.assigned))) or "nothing"
                raise RetriableError(
                    f"assigned is {assigned_text} after {deadline.timeout_ms:.0f} ms"
                )
            await look_count.wait(deadline)

    async def _beat(self) -> None:
        membership, clock = self._current_membership, self._cluster.clock
        while True:
            await pause(clock, HEARTBEAT_MS)
            if self._stands_still:
                continue
            try:
                async with self._turn_lock:
                    if self.polls_in_time:
                        await membership.beat()
                        continue
                    self._polled_ms = math.inf  # until its next poll there is nothing to leave
                    await membership.leave()
            except ClientError as error:
                if not isinstance(error, (RetriableError, *LOST_ANSWER_ERRORS)):
                    self._refusal = error

    async def _end_heartbeats(self) -> None:
        heartbeat_task, self._heartbeat_task = self._heartbeat_task, None
        if heartbeat_task is not None:
            heartbeat_task.cancel()
            await asyncio.gather(heartbeat_task, return_exceptions=True)


class GroupMember(JoiningMember):
    """One consumer in a consumer group; ``close`` it."""

    async def poll(
        self,
        *,
        until: frozenset[TopicPartition] | None = None,
        stable: bool = True,
        waits: bool = True,
        timeout_ms: float | None = None,
    ) -> PollResult:
        """Take part in a rebalance, and read everything that is available now.

        Args:
            until: As in ``subscribe``.
            stable: Accept no position that an open transaction may change (KIP-447).
            waits: Retry for such positions until the transaction has ended.
            timeout_ms: How long to wait for partitions and positions.

        Raises:
            ClientError: Refused; ``error`` says why.
            RetriableError: Not answered, assigned or ended in time.
        """
        with self._suspend_rebalance_timeout():
            await self._wait_until_assigned(until, timeout_ms)
            deadline = self._cluster.deadline(timeout_ms)
            positions = await self._find_positions(deadline, needs_stable=stable, waits=waits)
            fetch_results: list[tuple[int, FetchResult]] = []
            for partition in sorted(self.positions):
                fetch_results += await self._read_partition(partition)
            return PollResult(positions=positions, fetched=tuple(fetch_results))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the offset to read at the next poll.

        Raises:
            IllegalUseError: The partition is not assigned to it.
        """
        if partition not in self.assigned:
            raise IllegalUseError(
                f"No current assignment for partition {partition}"
            )  # Java's words
        self.positions[partition] = offset

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        *,
        metadata: GroupMetadata | None = None,
    ) -> None:
        """Commit positions outside of a transaction.

        Args:
            offsets: The positions; by default the next offset of each partition.
            metadata: The committing member; by default this one with its current identity.

        Raises:
            ClientError: Refused, or not answered.
        """
        group_id = self.options.group_id
        request = offset_commit(
            group_id,
            self.metadata if metadata is None else metadata,
            self.positions if offsets is None else offsets,
        )
        message = await self._cluster.ask_group_coordinator(group_id, request)
        errors = [
            ErrorCode(partition_row.error_code)
            for topic in message.topics
            for partition_row in topic.partitions
        ]
        error = next(
            (error_code for error_code in errors if error_code != ErrorCode.none), ErrorCode.none
        )
        if error != ErrorCode.none:
            raise refusal_error("OffsetCommit", group_id, error)

    # Inside

    async def _find_positions(
        self, deadline: Deadline, *, needs_stable: bool, waits: bool
    ) -> dict[TopicPartition, int]:
        new_partitions = sorted(self.assigned - self.positions.keys())
        if not new_partitions:
            return {}
        backoff = self._cluster.backoff()
        while True:
            try:
                committed_offsets = await committed_positions(
                    self._cluster,
                    self.options.group_id,
                    new_partitions,
                    needs_stable=needs_stable,
                )
                break
            except ClientError as error:
                is_unstable = error.error == ErrorCode.unstable_offset_commit
                if not (is_unstable and waits) or deadline.has_passed:
                    raise
            await backoff.wait(deadline)
        for partition in new_partitions:
            committed_offset = committed_offsets[partition]
            offset = await self._earliest(partition) if committed_offset < 0 else committed_offset
            if partition in self.assigned:
                self.positions[partition] = offset
        return committed_offsets

    async def _earliest(self, partition: TopicPartition) -> int:
        """The log start offset (auto.offset.reset=earliest)."""
        return await offset_of(self._cluster, partition, EARLIEST_TIMESTAMP)

    async def _read_partition(self, partition: TopicPartition) -> list[tuple[int, FetchResult]]:
        offsets_and_results: list[tuple[int, FetchResult]] = []
        while partition in self.positions:
            offset = self.positions[partition]
            try:
                fetch_result = await fetch(
                    self._cluster,
                    partition.topic,
                    partition.partition,
                    offset,
                    isolation=self.options.isolation,
                    max_wait_ms=NO_WAIT_MS,
                )
            except ClientError as error:
                if error.error != ErrorCode.offset_out_of_range:
                    raise
                earliest_offset = await self._earliest(partition)
                if partition in self.positions:
                    self.positions[partition] = earliest_offset
                continue
            # The member gave the partition up meanwhile: it must not deliver these records.
            if partition not in self.positions:
                break
            offsets_and_results.append((offset, fetch_result))
            self.positions[partition] = fetch_result.next_offset
            if fetch_result.next_offset == offset:
                break
        return offsets_and_results
