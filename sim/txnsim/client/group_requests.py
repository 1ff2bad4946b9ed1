"""Requests about groups and their positions, built from plain values as in ``requests``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from txnsim.client.requests import MessageRow, per_topic, versioned_request
from txnsim.client.versions import ANY, ClientApi, VersionedRequest, VersionRange
from txnsim.types import TopicPartition

COORDINATOR_GROUP = 0
"""KeyType of FindCoordinator."""


class GroupMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The member that commits positions (Java's ConsumerGroupMetadata)."""

    generation: int = -1
    """Generation in a classic group; member epoch in the new protocol."""
    member_id: str = ""
    instance_id: str | None = None

    @property
    def fields(self) -> dict[str, Any]:
        return {
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }


def find_group_coordinator(group_id: str) -> VersionedRequest:
    """Ask for a group's coordinator."""
    return versioned_request(
        ClientApi.FIND_COORDINATOR,
        key=group_id,
        key_type=COORDINATOR_GROUP,
        coordinator_keys=(group_id,),
    )


def committed_topics(
    request: str, offsets: Mapping[TopicPartition, int], **partition_fields: Any
) -> list[MessageRow]:
    """The topics of a request that commits positions.

    Args:
        request: The request's name, which is the prefix of its rows' names.
        offsets: The positions.
        partition_fields: Further fields of each partition.
    """

    def row(partition: TopicPartition) -> MessageRow:
        return MessageRow(
            f"{request}Partition",
            partition_index=partition.partition,
            committed_offset=offsets[partition],
            committed_metadata="",
            **partition_fields,
        )

    return per_topic(f"{request}Topic", offsets, row)


def offset_fetch(
    group_id: str, partitions: Iterable[TopicPartition] | None, *, needs_stable: bool
) -> VersionedRequest:
    """Ask for a group's positions.

    Args:
        group_id: Id of the group.
        partitions: The partitions; None for all that the group has.
        needs_stable: Ask for UNSTABLE_OFFSET_COMMIT instead of a position that an open
            transaction may change.
    """
    return versioned_request(
        ClientApi.OFFSET_FETCH,
        VersionRange(7 if needs_stable else 0, ANY.highest),
        group_id=group_id,
        topics=None
        if partitions is None
        else per_topic("OffsetFetchRequestTopic", partitions, partitions_field="partition_indexes"),
        require_stable=needs_stable,
    )


def delete_groups(group_ids: Sequence[str]) -> VersionedRequest:
    """Delete groups without members, with their positions; the request goes to the groups'
    coordinator.
    """
    return versioned_request(ClientApi.DELETE_GROUPS, groups_names=tuple(group_ids))


def list_groups(*, types: Sequence[str] = (), states: Sequence[str] = ()) -> VersionedRequest:
    """Ask a broker for the groups that it coordinates; it shows those that we may describe.

    Args:
        types: Only groups of these types (KIP-848, from version 5 on); all unless given.
        states: Only groups in these states (KIP-518, from version 4 on); all unless given.
    """
    return versioned_request(
        ClientApi.LIST_GROUPS,
        VersionRange(5 if types else 4 if states else 0, ANY.highest),
        types_filter=tuple(types),
        states_filter=tuple(states),
    )


def describe_group(api: ClientApi, group_id: str) -> VersionedRequest:
    """Ask the coordinator for a group and its members; each type of group has an API of its own."""
    request_fields: dict[str, Any] = {"include_authorized_operations": False}
    if api == ClientApi.STREAMS_GROUP_DESCRIBE:
        request_fields["include_topology_description"] = False
    request_fields["groups" if api == ClientApi.DESCRIBE_GROUPS else "group_ids"] = (group_id,)
    return versioned_request(api, **request_fields)


def describe_share_group_offsets(group_id: str) -> VersionedRequest:
    """Ask for the start offset of every share partition that a share group has."""
    group_row = MessageRow("DescribeShareGroupOffsetsRequestGroup", group_id=group_id, topics=None)
    return versioned_request(ClientApi.DESCRIBE_SHARE_GROUP_OFFSETS, groups=[group_row])


def alter_share_group_offsets(
    group_id: str, offsets: Mapping[TopicPartition, int]
) -> VersionedRequest:
    """Set the start offsets of share partitions in a share group without members."""

    def row(partition: TopicPartition) -> MessageRow:
        return MessageRow(
            "AlterShareGroupOffsetsRequestPartition",
            partition_index=partition.partition,
            start_offset=offsets[partition],
        )

    topics = per_topic("AlterShareGroupOffsetsRequestTopic", offsets, row, name_field="topic_name")
    return versioned_request(ClientApi.ALTER_SHARE_GROUP_OFFSETS, group_id=group_id, topics=topics)


def delete_share_group_offsets(group_id: str, topics: Sequence[str]) -> VersionedRequest:
    """Delete the state that a share group without members has for these topics."""
    topic_rows = [
        MessageRow("DeleteShareGroupOffsetsRequestTopic", topic_name=topic_name)
        for topic_name in topics
    ]
    return versioned_request(
        ClientApi.DELETE_SHARE_GROUP_OFFSETS, group_id=group_id, topics=topic_rows
    )
