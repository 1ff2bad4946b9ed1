"""Requests of a group member, built from plain values as in ``client.requests``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from txnsim.client.group_requests import GroupMetadata, committed_topics
from txnsim.client.requests import MessageRow, versioned_request
from txnsim.client.versions import ClientApi, VersionedRequest
from txnsim.types import TopicPartition

CONSUMER: Final = "consumer"
"""ProtocolType of a classic group of consumers."""
RANGE: Final = "range"
"""The assignor that a classic leader here knows."""


def join_group(
    group_id: str,
    member: GroupMetadata,
    *,
    subscription: bytes,
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
) -> VersionedRequest:
    """Ask to join the next generation; the answer waits for all members."""
    return versioned_request(
        ClientApi.JOIN_GROUP,
        group_id=group_id,
        session_timeout=session_timeout_ms,
        rebalance_timeout=rebalance_timeout_ms,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        protocol_type=CONSUMER,
        protocols=[MessageRow("JoinGroupRequestProtocol", name=RANGE, metadata=subscription)],
        reason=None,
    )


def sync_group(
    group_id: str, member: GroupMetadata, *, assignment_by_member: Mapping[str, bytes]
) -> VersionedRequest:
    """Ask for the assignment; the leader of the generation sends that of every member."""
    return versioned_request(
        ClientApi.SYNC_GROUP,
        group_id=group_id,
        **member.fields,
        protocol_type=CONSUMER,
        protocol_name=RANGE,
        assignments=[
            MessageRow(
                "SyncGroupRequestAssignment", member_id=member_id, assignment=assignment_bytes
            )
            for member_id, assignment_bytes in assignment_by_member.items()
        ],
    )


def heartbeat(group_id: str, member: GroupMetadata) -> VersionedRequest:
    """Say that a classic member is alive."""
    return versioned_request(ClientApi.HEARTBEAT, group_id=group_id, **member.fields)


def leave_group(group_id: str, member: GroupMetadata) -> VersionedRequest:
    """Take a member out of a classic group."""
    leaver = MessageRow(
        "MemberIdentity",
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        reason=None,
    )
    return versioned_request(
        ClientApi.LEAVE_GROUP, group_id=group_id, member_id=member.member_id, members=[leaver]
    )


def consumer_group_heartbeat(
    group_id: str,
    member: GroupMetadata,
    *,
    joining: tuple[Collection[str], int] | None = None,
    owned_partitions: Mapping[UUID, Collection[int]] | None = None,
) -> VersionedRequest:
    """The heartbeat of the consumer protocol (KIP-848).

    Args:
        group_id: Id of the group.
        member: Its generation is the member epoch: 0 joins, -1 leaves, -2 leaves for a while.
        joining: Topics to subscribe to and the rebalance timeout in ms, if it joins.
        owned_partitions: The partitions that it owns; None if they have not changed.
    """
    topics, timeout_ms = (None, -1) if joining is None else joining
    return versioned_request(
        ClientApi.CONSUMER_GROUP_HEARTBEAT,
        group_id=group_id,
        member_id=member.member_id,
        member_epoch=member.generation,
        instance_id=member.instance_id,
        rack_id=None,
        rebalance_timeout=timeout_ms,
        subscribed_topic_names=None if topics is None else tuple(topics),
        subscribed_topic_regex=None,
        server_assignor=None,
        topic_partitions=None
        if owned_partitions is None
        else [
            MessageRow("TopicPartitions", topic_id=topic_id, partitions=tuple(sorted(indexes)))
            for topic_id, indexes in owned_partitions.items()
        ],
    )


def share_group_heartbeat(
    group_id: str, member: GroupMetadata, *, topics: Collection[str] | None = None
) -> VersionedRequest:
    """The heartbeat of a share group's member (KIP-932).

    Args:
        group_id: Id of the group.
        member: Its generation is the member epoch: 0 joins, -1 leaves.
        topics: Topics to subscribe to, if it joins.
    """
    return versioned_request(
        ClientApi.SHARE_GROUP_HEARTBEAT,
        group_id=group_id,
        member_id=member.member_id,
        member_epoch=member.generation,
        rack_id=None,
        subscribed_topic_names=None if topics is None else tuple(topics),
    )


def streams_group_heartbeat(
    group_id: str,
    member: GroupMetadata,
    *,
    joining: tuple[Collection[str], int] | None = None,
    tasks: Collection[int] | None = None,
) -> VersionedRequest:
    """The heartbeat of a Kafka Streams thread (KIP-1071). Its topology is one stateless
    subtopology.

    Args:
        group_id: Id of the group.
        member: Its generation is the member epoch: 0 joins, -1 leaves, -2 leaves for a while.
        joining: Source topics of the topology and the rebalance timeout in ms, if it joins.
        tasks: Its active tasks, by partition; None if they have not changed.
    """
    topics, timeout_ms = (None, -1) if joining is None else joining
    active_task_rows = None
    if tasks is not None:
        partition_indexes = tuple(sorted(tasks))
        active_task_rows = (
            [MessageRow("TaskIds", subtopology_id=PART, partitions=partition_indexes)]
            if partition_indexes
            else []
        )
    empty_tasks = None if tasks is None else ()
    return versioned_request(
        ClientApi.STREAMS_GROUP_HEARTBEAT,
        group_id=group_id,
        member_id=member.member_id,
        member_epoch=member.generation,
        endpoint_information_epoch=0,
        instance_id=member.instance_id,
        rack_id=None,
        rebalance_timeout=timeout_ms,
        topology=None if topics is None else _topology(topics),
        active_tasks=active_task_rows,
        standby_tasks=empty_tasks,
        warmup_tasks=empty_tasks,
        process_id=None if topics is None else member.member_id,
        user_endpoint=None,
        client_tags=None if topics is None else (),
        task_offsets=None,
        task_end_offsets=None,
        shutdown_application=False,
    )


PART: Final = "0"
"""The subtopology of our members."""


def _topology(topics: Collection[str]) -> MessageRow:
    subtopology_row = MessageRow(
        "Subtopology",
        subtopology_id=PART,
        source_topics=tuple(sorted(topics)),
        source_topic_regex=(),
        state_changelog_topics=(),
        repartition_sink_topics=(),
        repartition_source_topics=(),
        copartition_groups=(),
    )
    return MessageRow("Topology", epoch=0, subtopologies=[subtopology_row])


def offset_commit(
    group_id: str, member: GroupMetadata, offsets: Mapping[TopicPartition, int]
) -> VersionedRequest:
    """Write a group's positions outside of a transaction."""
    return versioned_request(
        ClientApi.OFFSET_COMMIT,
        group_id=group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        retention_time=-1,
        topics=committed_topics("OffsetCommitRequest", offsets, committed_leader_epoch=-1),
    )
