"""The requests of a member, made from plain values, as in ``client.requests``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any, Final
from uuid import UUID

from txnsim.client.group_requests import GroupMetadata, committed_topics
from txnsim.client.versions import Api, Request
from txnsim.types import TopicPartition
from txnsim.wire.codec import build

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
) -> Request:
    """Ask to be in the next generation. The answer waits until all members have asked."""

    def make(schema: ModuleType) -> Any:
        row = build(schema.JoinGroupRequestProtocol, name=RANGE, metadata=subscription)
        return build(
            schema.JoinGroupRequest,
            group_id=group_id,
            session_timeout=session_timeout_ms,
            rebalance_timeout=rebalance_timeout_ms,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type=CONSUMER,
            protocols=(row,),
            reason=None,
        )

    return Request(api=Api.JOIN_GROUP, build=make)


def sync_group(
    group_id: str, member: GroupMetadata, *, assignments: Mapping[str, bytes]
) -> Request:
    """Ask for the assignment; the leader of the generation brings that of every member."""

    def make(schema: ModuleType) -> Any:
        row = schema.SyncGroupRequestAssignment
        return build(
            schema.SyncGroupRequest,
            group_id=group_id,
            **member.fields,
            protocol_type=CONSUMER,
            protocol_name=RANGE,
            assignments=tuple(
                build(row, member_id=name, assignment=data) for name, data in assignments.items()
            ),
        )

    return Request(api=Api.SYNC_GROUP, build=make)


def heartbeat(group_id: str, member: GroupMetadata) -> Request:
    """Say that a classic member is alive."""
    return Request(
        api=Api.HEARTBEAT,
        build=lambda schema: build(schema.HeartbeatRequest, group_id=group_id, **member.fields),
    )


def leave_group(group_id: str, member: GroupMetadata) -> Request:
    """Take a member out of a classic group."""

    def make(schema: ModuleType) -> Any:
        rows: tuple[Any, ...] = ()
        if hasattr(schema, "MemberIdentity"):
            rows = (
                build(
                    schema.MemberIdentity,
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    reason=None,
                ),
            )
        return build(
            schema.LeaveGroupRequest, group_id=group_id, member_id=member.member_id, members=rows
        )

    return Request(api=Api.LEAVE_GROUP, build=make)


def consumer_group_heartbeat(
    group_id: str,
    member: GroupMetadata,
    *,
    joining: tuple[Collection[str], int] | None = None,
    owned: Mapping[UUID, Collection[int]] | None = None,
) -> Request:
    """All that a member of the consumer protocol says (KIP-848).

    Args:
        group_id: Id of the group.
        member: Its generation is the member epoch: 0 joins, -1 leaves, -2 leaves for a while.
        joining: Topics to subscribe to and the rebalance timeout in ms, where it joins.
        owned: The partitions that it has; None where nothing has changed.
    """

    def make(schema: ModuleType) -> Any:
        topics, timeout_ms = (None, -1) if joining is None else joining
        row = schema.TopicPartitions
        return build(
            schema.ConsumerGroupHeartbeatRequest,
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
            if owned is None
            else tuple(
                build(row, topic_id=topic_id, partitions=tuple(sorted(indexes)))
                for topic_id, indexes in owned.items()
            ),
        )

    return Request(api=Api.CONSUMER_GROUP_HEARTBEAT, build=make)


def offset_commit(
    group_id: str, member: GroupMetadata, offsets: Mapping[TopicPartition, int]
) -> Request:
    """Write a group's positions outside of a transaction."""

    def make(schema: ModuleType) -> Any:
        return build(
            schema.OffsetCommitRequest,
            group_id=group_id,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            retention_time=-1,
            topics=committed_topics(
                schema.OffsetCommitRequestTopic,
                schema.OffsetCommitRequestPartition,
                offsets,
                committed_leader_epoch=-1,
            ),
        )

    return Request(api=Api.OFFSET_COMMIT, build=make)
