"""Groups of all types as an operator sees them, and changes of share groups.

Kafka's counterparts are ``Admin.listGroups``, ``describeShareGroups``, ``listShareGroupOffsets``
and their like.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from txnsim.client import group_requests
from txnsim.client.admin import Admin
from txnsim.client.cluster import LOST_ANSWER_ERRORS
from txnsim.client.errors import ClientError, RetriableError, check_unrepeated, code_name, only_row
from txnsim.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from txnsim.client.versions import ClientApi, VersionedRequest
from txnsim.errors import ErrorCode
from txnsim.group.subscription import read_assignment
from txnsim.types import IsolationLevel, TopicPartition

CLASSIC: Final = "classic"
SHARE: Final = "share"
STREAMS: Final = "streams"
ISOLATION_LEVEL: Final = "share.isolation.level"
OFFSET_RESET: Final = "share.auto.offset.reset"
"""The config that says where a share group begins in a partition without state (KIP-932)."""
_DESCRIBED_BY: Final = {
    CLASSIC: ClientApi.DESCRIBE_GROUPS,
    "consumer": ClientApi.CONSUMER_GROUP_DESCRIBE,
    SHARE: ClientApi.SHARE_GROUP_DESCRIBE,
    STREAMS: ClientApi.STREAMS_GROUP_DESCRIBE,
}
TYPES: Final = tuple(_DESCRIBED_BY)


class GroupListing(msgspec.Struct, frozen=True, kw_only=True):
    """A group as its coordinator lists it; empty strings for fields that the broker's version
    lacks.
    """

    group_id: str
    type: str
    state: str
    protocol_type: str
    coordinator_id: int


class StreamsMember(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that only members of streams groups have; a task is a subtopology and a
    partition.
    """

    process_id: str
    topology_epoch: int
    standby: tuple[str, ...]
    warmup: tuple[str, ...]
    target: tuple[str, ...]
    """Active tasks of its target assignment."""


class DescribedMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member and its assignment."""

    member_id: str
    client_id: str
    client_host: str
    epoch: int | None = None
    """None for members of a classic group, which have a generation."""
    assigned: tuple[str, ...] = ()
    """Assigned partitions; in a streams group the active tasks."""
    streams: StreamsMember | None = None


class DescribedSubtopology(msgspec.Struct, frozen=True, kw_only=True):
    """A subtopology of a streams group, whose topics have their real names."""

    subtopology_id: str
    sources: tuple[str, ...]
    repartition_sources: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[str, ...]


class DescribedTopology(msgspec.Struct, frozen=True, kw_only=True):
    """The topology that a streams group runs."""

    epoch: int
    subtopologies: tuple[DescribedSubtopology, ...]


class GroupPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A group's position in a partition: the start offset of a share partition, or the committed
    position of other groups; None for unknown values.
    """

    partition: TopicPartition
    offset: int | None
    lag: int | None
    error: str = ""
    waits_at: int | None = None
    """The last stable offset, if an open transaction holds back a share group with
    read_committed.
    """
    begins_at: int | None = None
    """The end of the log, if a share group with share.auto.offset.reset=latest begins there
    although the log has records. Unless the group has acquired them earlier they are never
    delivered to it, and its lag does not count them.
    """


class GroupDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a coordinator says about a group; a classic group has no epochs."""

    group_id: str
    type: str
    state: str
    coordinator_id: int
    assignor: str
    epoch: int | None
    assignment_epoch: int | None
    members: tuple[DescribedMember, ...]
    positions: tuple[GroupPosition, ...]
    topology: DescribedTopology | None = None
    """Only for a streams group."""
    isolation_level: str | None = None
    """The config share.isolation.level of a share group; None if we may not describe it."""
    offset_reset: str | None = None
    """The config share.auto.offset.reset of a share group; None if we may not describe it."""


async def list_groups(
    admin: Admin, *, types: Sequence[str] = (), states: Sequence[str] = ()
) -> tuple[GroupListing, ...]:
    """Every group that we may describe, sorted by name: each broker lists the groups that it
    coordinates.

    Raises:
        ClientError: A broker did not answer, or refused.
    """
    cluster_view = await admin.cluster.refresh()
    request = group_requests.list_groups(types=types, states=states)
    broker_listings = await asyncio.gather(
        *(
            _list_groups_of_broker(admin, broker.broker_id, request)
            for broker in cluster_view.brokers
        )
    )
    return tuple(
        sorted(
            (listing for listings in broker_listings for listing in listings),
            key=lambda listing: listing.group_id,
        )
    )


async def _list_groups_of_broker(
    admin: Admin, broker_id: int, request: VersionedRequest
) -> list[GroupListing]:
    message = await _ask_until_answered(
        admin,
        f"broker {broker_id} did not list its groups",
        lambda: admin.cluster.ask(broker_id, request),
        lambda answer: answer,
    )
    check_unrepeated(
        (group_row.group_id for group_row in message.groups), f"broker {broker_id} listed groups"
    )
    return [
        GroupListing(
            group_id=group_row.group_id,
            type=getattr(group_row, "group_type", "").lower(),
            state=getattr(group_row, "group_state", ""),
            protocol_type=group_row.protocol_type,
            coordinator_id=broker_id,
        )
        for group_row in message.groups
    ]


async def describe_group(admin: Admin, group_id: str) -> GroupDescription:
    """A group of any type with its members and positions.

    Raises:
        ClientError: There is no such group, or we may not describe it.
    """
    coordinator_id = await admin.cluster.group_coordinator(group_id)
    coordinator_listings = await _list_groups_of_broker(
        admin, coordinator_id, group_requests.list_groups()
    )
    listing = next(
        (listing for listing in coordinator_listings if listing.group_id == group_id), None
    )
    if listing is None:
        raise ClientError(
            f"there is no group {group_id!r}, or it may not be described",
            error=ErrorCode.group_id_not_found,
        )
    group_type = listing.type or CLASSIC
    if group_type not in _DESCRIBED_BY:
        raise ClientError(f"group {group_id!r} is of type {group_type!r}, which is not known here")
    message = await _of_group(
        admin,
        f"group {group_id!r} was not described",
        group_id,
        group_requests.describe_group(_DESCRIBED_BY[group_type], group_id),
        lambda answer: only_row(answer.groups, f"about group {group_id!r}"),
    )
    group_row = only_row(message.groups, f"about group {group_id!r}")
    positions = await (share_positions if group_type == SHARE else _committed_group_positions)(
        admin, group_id
    )
    configs: Mapping[str, str] = {}
    if group_type == SHARE:
        configs = await _share_configs(admin, group_id)
        if positions:
            positions = await _held_back(admin, configs, positions)
    return GroupDescription(
        group_id=group_id,
        type=group_type,
        state=group_row.group_state,
        coordinator_id=coordinator_id,
        assignor=str(
            getattr(group_row, "assignor_name", None) or getattr(group_row, "protocol_data", "")
        ),
        epoch=getattr(group_row, "group_epoch", None),
        assignment_epoch=getattr(group_row, "assignment_epoch", None),
        members=tuple(_member(member, group_type) for member in group_row.members),
        positions=positions,
        topology=_topology(group_row.topology) if group_type == STREAMS else None,
        isolation_level=configs.get(ISOLATION_LEVEL),
        offset_reset=configs.get(OFFSET_RESET),
    )


def _topology(topology_row: Any) -> DescribedTopology | None:
    if topology_row is None:
        return None
    return DescribedTopology(
        epoch=topology_row.epoch,
        subtopologies=tuple(
            DescribedSubtopology(
                subtopology_id=subtopology.subtopology_id,
                sources=tuple(subtopology.source_topics),
                repartition_sources=tuple(
                    topic.name for topic in subtopology.repartition_source_topics
                ),
                repartition_sinks=tuple(subtopology.repartition_sink_topics),
                changelogs=tuple(topic.name for topic in subtopology.state_changelog_topics),
            )
            for subtopology in topology_row.subtopologies or ()
        ),
    )


def _member(member_row: Any, group_type: str) -> DescribedMember:
    assigned_names: Iterable[str]
    streams = None
    if group_type == CLASSIC:
        assignment = read_assignment(member_row.member_assignment)
        assigned_names = (
            (f"{topic}-{index}" for topic, index in sorted(assignment.partitions))
            if assignment
            else ()
        )
    elif group_type == STREAMS:
        assigned_names = _tasks(member_row.assignment.active_tasks)
        streams = StreamsMember(
            process_id=member_row.process_id,
            topology_epoch=member_row.topology_epoch,
            standby=_tasks(member_row.assignment.standby_tasks),
            warmup=_tasks(member_row.assignment.warmup_tasks),
            target=_tasks(member_row.target_assignment.active_tasks),
        )
    else:
        assigned_topics = member_row.assignment.topic_partitions
        assigned_names = (
            f"{topic.topic_name}-{index}" for topic in assigned_topics for index in topic.partitions
        )
    return DescribedMember(
        member_id=member_row.member_id,
        client_id=member_row.client_id,
        client_host=member_row.client_host,
        epoch=getattr(member_row, "member_epoch", None),
        assigned=tuple(assigned_names),
        streams=streams,
    )


def _tasks(task_rows: Iterable[Any]) -> tuple[str, ...]:
    """Task ids in the notation of Kafka Streams."""
    return tuple(
        f"{task_row.subtopology_id}_{index}"
        for task_row in task_rows
        for index in task_row.partitions
    )


async def _committed_group_positions(admin: Admin, group_id: str) -> tuple[GroupPosition, ...]:
    """Committed positions; the lag is counted to the high watermark, as Kafka's tool does."""
    committed_offsets = await admin.committed_positions(group_id, None)
    end_offset_by_partition = (
        await admin.list_offsets(dict.fromkeys(committed_offsets, LATEST_TIMESTAMP))
        if committed_offsets
        else {}
    )
    positions = []
    for partition in sorted(committed_offsets):
        offset, end_offset = committed_offsets[partition], end_offset_by_partition[partition]
        is_end_unknown = isinstance(end_offset, ClientError)
        positions.append(
            GroupPosition(
                partition=partition,
                offset=offset,
                lag=None
                if isinstance(end_offset, ClientError)
                else max(0, end_offset.offset - offset),
                error=str(end_offset) if is_end_unknown else "",
            )
        )
    return tuple(positions)


async def share_positions(admin: Admin, group_id: str) -> tuple[GroupPosition, ...]:
    """Start offset and lag of every share partition of a share group.

    Raises:
        ClientError: Refused.
    """
    message = await _of_group(
        admin,
        f"offsets of share group {group_id!r} are not told",
        group_id,
        group_requests.describe_share_group_offsets(group_id),
        lambda answer: only_row(answer.groups, f"about group {group_id!r}"),
    )
    share_group_positions = [
        GroupPosition(
            partition=TopicPartition(topic.topic_name, partition_row.partition_index),
            offset=_none_if_negative(partition_row.start_offset),
            lag=_none_if_negative(getattr(partition_row, "lag", -1)),
            error=code_name(partition_row.error_code) if partition_row.error_code else "",
        )
        for topic in only_row(message.groups, f"about group {group_id!r}").topics
        for partition_row in topic.partitions
    ]
    check_unrepeated(
        (position.partition for position in share_group_positions),
        f"the coordinator described group {group_id!r}",
    )
    return tuple(sorted(share_group_positions, key=lambda position: position.partition))


async def reads_committed(admin: Admin, group_id: str) -> bool:
    """Whether a share group gets only records of committed transactions.

    Raises:
        ClientError: We may not describe its configs.
    """
    configs = await admin.group_configs(group_id, [ISOLATION_LEVEL])
    return configs.get(ISOLATION_LEVEL) == "read_committed"


async def _share_configs(admin: Admin, group_id: str) -> Mapping[str, str]:
    """The configs that decide which records a share group gets; empty if we may not describe
    them.
    """
    try:
        return await admin.group_configs(group_id, [ISOLATION_LEVEL, OFFSET_RESET])
    except ClientError as error:
        if error.error is not ErrorCode.group_authorization_failed:
            raise
        return {}  # configs need a right of their own, and positions are still to be shown


async def _held_back(
    admin: Admin, configs: Mapping[str, str], positions: tuple[GroupPosition, ...]
) -> tuple[GroupPosition, ...]:
    """The positions of a share group, with what holds back its records: an open transaction (with
    read_committed), or a start at the end of the log.
    """
    reads_committed = configs.get(ISOLATION_LEVEL) == "read_committed"
    begins_at_end = configs.get(OFFSET_RESET) == "latest"
    if not reads_committed and not begins_at_end:
        return positions
    latest_by_partition = dict.fromkeys(
        (position.partition for position in positions), LATEST_TIMESTAMP
    )
    log_end_by_partition = await admin.list_offsets(latest_by_partition)
    last_stable_offset_by_partition = log_start_by_partition = log_end_by_partition
    if reads_committed:
        last_stable_offset_by_partition = await admin.list_offsets(
            latest_by_partition, isolation=IsolationLevel.READ_COMMITTED
        )
    if begins_at_end:
        log_start_by_partition = await admin.list_offsets(
            dict.fromkeys(latest_by_partition, EARLIEST_TIMESTAMP)
        )

    def with_causes(position: GroupPosition) -> GroupPosition:
        offsets = [
            offsets_by_partition[position.partition]
            for offsets_by_partition in (
                log_start_by_partition,
                last_stable_offset_by_partition,
                log_end_by_partition,
            )
        ]
        log_start, last_stable, log_end = (
            None if isinstance(offset, ClientError) else offset.offset for offset in offsets
        )
        if log_start is None or last_stable is None or log_end is None:
            return position
        is_at_end = (
            log_start < log_end and position.offset in (None, log_end) and not position.error
        )
        return msgspec.structs.replace(
            position,
            waits_at=last_stable if last_stable < log_end else None,
            begins_at=log_end if is_at_end else None,
        )

    return tuple(map(with_causes, positions))


def _none_if_negative(number: int) -> int | None:
    return None if number < 0 else int(number)


async def bounds(admin: Admin, topic: str) -> dict[TopicPartition, tuple[int, int]]:
    """Log start offset and high watermark of every partition of a topic.

    Raises:
        ClientError: There is no such topic, or a leader refuses.
    """
    topic_view = only_row(await admin.describe_topics((topic,)), f"about topic {topic!r}")
    if topic_view.error:
        failure = f"topic {topic!r}: {code_name(topic_view.error)}"
        raise ClientError(failure, error=ErrorCode(topic_view.error))
    offset_bounds = {}
    for partition_view in topic_view.partitions:
        partition = TopicPartition(topic, partition_view.partition)
        offset_bounds[partition] = (
            await admin.offset_of(partition, EARLIEST_TIMESTAMP),
            await admin.offset_of(partition, LATEST_TIMESTAMP),
        )
    return offset_bounds


async def alter_share_positions(
    admin: Admin, group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Set the start offsets of share partitions in a group without members.

    Raises:
        ClientError: Refused, as a whole or for a partition; other partitions may have been altered.
    """
    message = await _of_group(
        admin,
        f"offsets of share group {group_id!r} were not altered",
        group_id,
        group_requests.alter_share_group_offsets(group_id, offsets),
        lambda answer: answer,
    )
    for topic in message.responses:
        for partition_row in topic.partitions:
            partition = TopicPartition(topic.topic_name, partition_row.partition_index)
            _raise(partition_row, f"the start offset of {partition} was not altered")


async def delete_share_positions(admin: Admin, group_id: str, topic: str) -> None:
    """Delete the state that a share group without members has for a topic.

    Raises:
        ClientError: Refused.
    """
    failure = f"offsets of topic {topic!r} were not deleted"
    request = group_requests.delete_share_group_offsets(group_id, [topic])
    message = await _of_group(admin, failure, group_id, request, lambda answer: answer)
    for topic_row in message.responses:
        _raise(topic_row, failure)


async def delete_group(admin: Admin, group_id: str) -> None:
    """Delete a group without members, and its positions.

    Raises:
        ClientError: Refused.
    """
    await _of_group(
        admin,
        f"group {group_id!r} was not deleted",
        group_id,
        group_requests.delete_groups([group_id]),
        lambda answer: only_row(answer.results, f"about group {group_id!r}"),
    )


async def _of_group(
    admin: Admin,
    failure: str,
    group_id: str,
    request: VersionedRequest,
    status_row_of: Callable[[Any], Any],
) -> Any:
    async def ask() -> Any:
        return await admin.cluster.ask_group_coordinator(group_id, request)

    return await _ask_until_answered(admin, failure, ask, status_row_of)


async def _ask_until_answered(
    admin: Admin, failure: str, send_request: Callable[[], Any], status_row_of: Callable[[Any], Any]
) -> Any:
    """The answer, once its row has no error; repeated while a coordinator moves or loads.

    Raises:
        ClientError: The answer has another error.
        RetriableError: No such answer in time.
        ConnectionLostError: No connection in time; the request may have taken effect.
    """
    deadline, backoff = admin.cluster.deadline(), admin.cluster.backoff()
    while True:
        try:
            answer = await send_request()
        except LOST_ANSWER_ERRORS:
            if deadline.has_passed:
                raise
        else:
            status_row = status_row_of(answer)
            error = ErrorCode(status_row.error_code)
            if error not in _MOVING:
                _raise(status_row, failure)
                return answer
            if deadline.has_passed:
                raise RetriableError(f"{failure}: {code_name(error)}", error=error)
        await backoff.wait(deadline)


_MOVING: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


def _raise(status_row: Any, failure: str) -> None:
    error = ErrorCode(status_row.error_code)
    if error != ErrorCode.none:
        error_message = getattr(status_row, "error_message", None)
        raise ClientError(
            f"{failure}: {code_name(error)}" + (f" ({error_message})" if error_message else ""),
            error=error,
        )
