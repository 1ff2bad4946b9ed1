"""Verbs for members of share groups: ``share`` fetches, ``settle`` acknowledges records, ``kept``
reads the persisted state. ``share-beat`` is a member's heartbeat, ``sharers`` describes a group;
``starts``, ``start-at`` and ``forget-starts`` are about its start offsets.

``acks`` are ``"t.0 0-4:1"``: a range of offsets and a type, or one for each offset, ``0-2:1,2,3``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from txnsim_lab.conformance._book.values import Variables
from txnsim_lab.conformance._book.verbs import (
    RequestFields,
    Verb,
    VerbRequest,
    partition_of,
    topic_named,
)

_BYTES_MAX: Final = 1 << 20


def share_fetch(
    variables: Variables,
    group: str,
    *,
    v: int = 2,
    member: str = "m1",
    epoch: int | None = None,
    of: Sequence[str] = (),
    acks: Sequence[str] = (),
    forget: Sequence[str] = (),
    wait: int = 5_000,
    min_bytes: int = 1,
    max_bytes: int = _BYTES_MAX,
    records: int = 500,
    batch: int = 500,
    mode: int = 0,
    renew: bool = False,
) -> list[VerbRequest]:
    """Make a ShareFetch request."""
    request_fields: RequestFields = {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": _next_epoch(variables, group, member, epoch),
        "max_wait": wait,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "max_records": records,
        "batch_size": batch,
        "topics": _topics_to_acknowledge(variables, of, acks),
        "forgotten_topics_data": [
            {"topic_id": topic.id, "partitions": [partition]}
            for topic, partition in (
                partition_of(variables, partition_name) for partition_name in forget
            )
        ],
    }
    if v >= 2:
        request_fields |= {"share_acquire_mode": mode, "is_renew_ack": renew}
    return [VerbRequest("ShareFetch", v, request_fields)]


def share_acknowledge(
    variables: Variables,
    group: str,
    *,
    v: int = 2,
    member: str = "m1",
    epoch: int | None = None,
    of: Sequence[str] = (),
    acks: Sequence[str] = (),
    renew: bool = False,
) -> list[VerbRequest]:
    """Make a ShareAcknowledge request."""
    request_fields: RequestFields = {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": _next_epoch(variables, group, member, epoch),
        "topics": _topics_to_acknowledge(variables, of, acks),
    }
    if v >= 2:
        request_fields["is_renew_ack"] = renew
    return [VerbRequest("ShareAcknowledge", v, request_fields)]


def read_share_state(
    variables: Variables, group: str, *, of: str = "t.0", epoch: int = 0
) -> list[VerbRequest]:
    """Make a ReadShareGroupState request, in the name of a leader with this epoch."""
    topic, partition = partition_of(variables, of)
    partition_fields = {"partition": partition, "leader_epoch": epoch}
    topics = [{"topic_id": topic.id, "partitions": [partition_fields]}]
    return [VerbRequest("ReadShareGroupState", 0, {"group_id": group, "topics": topics})]


def share_group_heartbeat(
    variables: Variables,
    group: str,
    *,
    v: int = 1,
    member: str = "a",
    epoch: int = 0,
    topics: Sequence[str] | None = None,
    rack: str | None = None,
) -> list[VerbRequest]:
    """Make a ShareGroupHeartbeat request."""
    topic_names = (
        None if topics is None else tuple(topic_named(variables, topic) for topic in topics)
    )
    request_fields: RequestFields = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "rack_id": rack,
        "subscribed_topic_names": topic_names,
    }
    return [VerbRequest("ShareGroupHeartbeat", v, request_fields)]


def describe_share_group(_variables: Variables, of: str, *, v: int = 1) -> list[VerbRequest]:
    """Make a ShareGroupDescribe request."""
    fields: RequestFields = {"group_ids": [of], "include_authorized_operations": False}
    return [VerbRequest("ShareGroupDescribe", v, fields)]


def describe_start_offsets(
    variables: Variables,
    group: str,
    *,
    v: int = 1,
    of: Mapping[str, Sequence[int]] | None = None,
) -> list[VerbRequest]:
    """Make a DescribeShareGroupOffsets request, for the partitions ``of`` or for all."""
    topics = None
    if of is not None:
        topics = [
            {"topic_name": topic_named(variables, topic_name), "partitions": tuple(partitions)}
            for topic_name, partitions in of.items()
        ]
    return [
        VerbRequest(
            "DescribeShareGroupOffsets", v, {"groups": [{"group_id": group, "topics": topics}]}
        )
    ]


def alter_start_offsets(
    variables: Variables, group: str, *, v: int = 0, to: Mapping[str, Mapping[str, int]]
) -> list[VerbRequest]:
    """AlterShareGroupOffsets; ``to`` has topic, partition and offset."""
    topics = [
        {
            "topic_name": topic_named(variables, topic_name),
            "partitions": [
                {"partition_index": int(partition), "start_offset": offset}
                for partition, offset in offsets.items()
            ],
        }
        for topic_name, offsets in to.items()
    ]
    return [VerbRequest("AlterShareGroupOffsets", v, {"group_id": group, "topics": topics})]


def delete_start_offsets(
    variables: Variables, group: str, *, v: int = 0, of: Sequence[str]
) -> list[VerbRequest]:
    """Make a DeleteShareGroupOffsets request, which takes whole topics."""
    topics = [{"topic_name": topic_named(variables, topic_name)} for topic_name in of]
    return [VerbRequest("DeleteShareGroupOffsets", v, {"group_id": group, "topics": topics})]


def _next_epoch(variables: Variables, group: str, member: str, named_epoch: int | None) -> int:
    """The share session epoch of a request: ``named_epoch``, else the member's next one, from 0
    on.
    """
    if named_epoch is not None:
        return named_epoch
    variable_name = f"share session of {member} in {group}"
    epoch = int(variables.setdefault(variable_name, 0))
    variables[variable_name] = epoch + 1
    return epoch


def _topics_to_acknowledge(
    variables: Variables, of: Sequence[str], acks: Sequence[str]
) -> list[Any]:
    ranges_by_partition: dict[str, list[Any]] = {partition_name: [] for partition_name in of}
    for acknowledgement_text in acks:
        partition_name, _, acknowledge_type = acknowledgement_text.partition(" ")
        ranges_by_partition.setdefault(partition_name, [])
        if acknowledge_type:
            ranges_by_partition[partition_name].append(_parse_acknowledged_range(acknowledge_type))
    topics: dict[Any, list[Any]] = {}
    for partition_name, batches in ranges_by_partition.items():
        topic, partition = partition_of(variables, partition_name)
        partition_fields = {"partition_index": partition, "acknowledgement_batches": batches}
        topics.setdefault(topic.id, []).append(partition_fields)
    return [
        {"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()
    ]


def _parse_acknowledged_range(range_and_types: str) -> Mapping[str, Any]:
    offsets, _, types_text = range_and_types.partition(":")
    first_offset, _, last_offset = offsets.partition("-")
    return {
        "first_offset": int(first_offset),
        "last_offset": int(last_offset or first_offset),
        "acknowledge_types": [int(type_text) for type_text in types_text.split(",") if type_text],
    }


VERBS: Final[Mapping[str, Verb]] = {
    "share": share_fetch,
    "settle": share_acknowledge,
    "kept": read_share_state,
    "share-beat": share_group_heartbeat,
    "sharers": describe_share_group,
    "starts": describe_start_offsets,
    "start-at": alter_start_offsets,
    "forget-starts": delete_start_offsets,
}
