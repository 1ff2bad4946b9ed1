"""Requests about groups' positions, in transactions and out of them: made from plain values, as in
``requests``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import msgspec

from txnsim.client.requests import by_topic
from txnsim.client.versions import ANY, Api, Request, VersionRange
from txnsim.types import TopicPartition
from txnsim.wire.codec import build

COORDINATOR_GROUP = 0
"""KeyType of FindCoordinator."""


class GroupMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Who commits positions, as a member of the group (Java's ConsumerGroupMetadata)."""

    generation: int = -1
    """Of a classic group; the member epoch of the new protocol."""
    member_id: str = ""
    instance_id: str | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """As requests have them."""
        return {
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }


def find_group_coordinator(group_id: str) -> Request:
    """Ask for a group's coordinator."""
    return Request(
        api=Api.FIND_COORDINATOR,
        build=lambda schema: build(
            schema.FindCoordinatorRequest,
            key=group_id,
            key_type=COORDINATOR_GROUP,
            coordinator_keys=(group_id,),
        ),
    )


def add_offsets_to_txn(
    transactional_id: str, *, producer_id: int, producer_epoch: int, group_id: str
) -> Request:
    """Add a group's positions to a transaction; not used with transactions v2."""
    return Request(
        api=Api.ADD_OFFSETS_TO_TXN,
        build=lambda schema: build(
            schema.AddOffsetsToTxnRequest,
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            group_id=group_id,
        ),
    )


def txn_offset_commit(
    transactional_id: str,
    *,
    producer_id: int,
    producer_epoch: int,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    within: VersionRange = ANY,
    member: GroupMetadata | None = None,
) -> Request:
    """Write a group's positions as part of a transaction; version 5 adds the group by itself
    (KIP-890). With ``member`` the group's coordinator checks who asks (KIP-447, from version 3).
    """

    def make(schema: ModuleType) -> Any:
        return build(
            schema.TxnOffsetCommitRequest,
            transactional_id=transactional_id,
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            **({} if member is None else member.fields),
            topics=committed_topics(
                schema.TxnOffsetCommitRequestTopic, schema.TxnOffsetCommitRequestPartition, offsets
            ),
        )

    return Request(api=Api.TXN_OFFSET_COMMIT, within=within, build=make)


def committed_topics(
    topic: type, row: type, offsets: Mapping[TopicPartition, int], **fields: Any
) -> tuple[Any, ...]:
    """The positions in a request that commits them.

    Args:
        topic: Type of a topic in the request.
        row: Type of a partition in it.
        offsets: The positions.
        fields: Further fields of each partition.
    """
    return tuple(
        build(
            topic,
            name=name,
            partitions=tuple(
                build(
                    row,
                    partition_index=index,
                    committed_offset=offsets[TopicPartition(name, index)],
                    committed_metadata="",
                    **fields,
                )
                for index in indexes
            ),
        )
        for name, indexes in by_topic(offsets).items()
    )


def offset_fetch(group_id: str, partitions: Iterable[TopicPartition], *, stable: bool) -> Request:
    """Ask for a group's positions.

    Args:
        group_id: Id of the group.
        partitions: Which.
        stable: UNSTABLE_OFFSET_COMMIT instead of a position that an open transaction may change.
    """
    topics = by_topic(partitions)
    return Request(
        api=Api.OFFSET_FETCH,
        # From 8 on several groups are asked at once, from 10 on topics go by id.
        within=VersionRange(7 if stable else 2, 7),
        build=lambda schema: build(
            schema.OffsetFetchRequest,
            group_id=group_id,
            topics=tuple(
                build(schema.OffsetFetchRequestTopic, name=name, partition_indexes=tuple(indexes))
                for name, indexes in topics.items()
            ),
            require_stable=stable,
        ),
    )


def delete_groups(group_ids: Sequence[str]) -> Request:
    """Delete groups without members, and their positions; each is asked of its coordinator."""

    def make(schema: ModuleType) -> Any:
        return build(schema.DeleteGroupsRequest, groups_names=tuple(group_ids))

    return Request(api=Api.DELETE_GROUPS, build=make)


def list_groups() -> Request:
    """Ask a broker for the groups that it coordinates; it shows those that we may describe."""
    return Request(api=Api.LIST_GROUPS, build=lambda schema: build(schema.ListGroupsRequest))
