"""Requests about groups' positions, in transactions and out of them: made from plain values, as in
``requests``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from txnsim.client.requests import by_topic
from txnsim.client.versions import ANY, Api, Request, VersionRange
from txnsim.types import TopicPartition
from txnsim.wire.codec import build

COORDINATOR_GROUP = 0
"""KeyType of FindCoordinator."""


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
    """Add a group's positions to a transaction; with transactions v2 nobody asks this any more."""
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
) -> Request:
    """Write a group's positions as part of a transaction; version 5 adds the group by itself
    (KIP-890)."""
    topics = by_topic(offsets)

    def make(schema: ModuleType) -> Any:
        row = schema.TxnOffsetCommitRequestPartition
        return build(
            schema.TxnOffsetCommitRequest,
            transactional_id=transactional_id,
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            topics=tuple(
                build(
                    schema.TxnOffsetCommitRequestTopic,
                    name=name,
                    partitions=tuple(
                        build(
                            row,
                            partition_index=index,
                            committed_offset=offsets[TopicPartition(name, index)],
                            committed_metadata="",
                        )
                        for index in indexes
                    ),
                )
                for name, indexes in topics.items()
            ),
        )

    return Request(api=Api.TXN_OFFSET_COMMIT, within=within, build=make)


def offset_fetch(group_id: str, partitions: Iterable[TopicPartition], *, stable: bool) -> Request:
    """Ask for a group's positions.

    Args:
        group_id: Of the group.
        partitions: Which.
        stable: Rather have UNSTABLE_OFFSET_COMMIT than what an open transaction may change.
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
