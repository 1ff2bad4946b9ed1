"""Verbs for members of classic and consumer groups, and for clients that commit positions or
describe groups.
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

UNSET_NUMBER: Final = -1
GROUPS_FROM: Final = 8
"""First version of OffsetFetch that can ask for several groups."""
SUBSCRIPTION_V0: Final = b"\x00\x00"
_NO_USER_DATA: Final = b"\xff\xff\xff\xff"


# Classic members


def join_group(
    variables: Variables,
    group: str,
    *,
    member: str = "",
    instance: str | None = None,
    v: int = 3,
    session: int = 120_000,
    rebalance: int = 120_000,
    type: str = "consumer",
    protocols: Sequence[str] = ("range",),
    topic: str = "t",
    owned: Mapping[str, Sequence[int]] | None = None,
) -> list[VerbRequest]:
    """JoinGroup; before v4 a new member needs no second request with its id."""
    request_fields: RequestFields = {
        "group_id": group,
        "session_timeout": session,
        "rebalance_timeout": rebalance,
        "member_id": member,
        "group_instance_id": instance,
        "protocol_type": type,
        "protocols": [
            {"name": protocol_name, "metadata": _subscription(variables, topic, owned)}
            for protocol_name in protocols
        ],
    }
    return [VerbRequest("JoinGroup", v, request_fields)]


def sync_group(
    variables: Variables,
    group: str,
    *,
    member: str,
    generation: int = 1,
    instance: str | None = None,
    give: Sequence[str | Sequence[Any]] = (),
    parts: Sequence[int] | None = None,
    v: int = 3,
    type: str | None = "consumer",
    protocol: str | None = "range",
) -> list[VerbRequest]:
    """SyncGroup; ``give`` has the members that get an assignment: these partitions of ``t``, or
    bytes that no coordinator can parse. ``parts`` gives a member its own partitions.
    """
    assignment = b"given" if parts is None else _assignment(variables, parts)
    assignments = [
        (assignee, assignment)
        if isinstance(assignee, str)
        else _assignment_of_member(variables, *assignee)
        for assignee in give
    ]
    request_fields: RequestFields = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": instance,
        "protocol_type": type,
        "protocol_name": protocol,
        "assignments": [
            {"member_id": assignee, "assignment": member_assignment}
            for assignee, member_assignment in assignments
        ],
    }
    return [VerbRequest("SyncGroup", v, request_fields)]


def heartbeat(
    _variables: Variables,
    group: str,
    *,
    member: str,
    generation: int = 1,
    instance: str | None = None,
    v: int = 4,
) -> list[VerbRequest]:
    """Make a Heartbeat request of a classic member."""
    request_fields: RequestFields = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": instance,
    }
    return [VerbRequest("Heartbeat", v, request_fields)]


def leave_group(
    _variables: Variables,
    group: str,
    *,
    member: str = "",
    instance: str | None = None,
    v: int = 5,
) -> list[VerbRequest]:
    """Make a LeaveGroup request for one member."""
    request_fields: RequestFields = {
        "group_id": group,
        "member_id": member,
        "members": [{"member_id": member, "group_instance_id": instance}],
    }
    return [VerbRequest("LeaveGroup", v, request_fields)]


# Members of the consumer protocol


def consumer_group_heartbeat(
    variables: Variables,
    group: str,
    *,
    member: str = "m",
    epoch: int = 0,
    v: int = 1,
    topics: Sequence[str] | None = None,
    regex: str | None = None,
    owned: Mapping[str, Sequence[int]] | None = None,
    instance: str | None = None,
    rack: str | None = None,
    assignor: str | None = None,
    rebalance: int | None = None,
) -> list[VerbRequest]:
    """ConsumerGroupHeartbeat; with epoch 0 the member joins, subscribes to ``t`` and owns
    nothing.
    """
    if epoch == 0:
        topics = ["t"] if topics is None and regex is None else topics
        owned = {} if owned is None else owned
        rebalance = 60_000 if rebalance is None else rebalance
    request_fields: RequestFields = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "instance_id": instance,
        "rack_id": rack,
        "rebalance_timeout": UNSET_NUMBER if rebalance is None else rebalance,
        "subscribed_topic_names": None
        if topics is None
        else tuple(topic_named(variables, topic_name) for topic_name in topics),
        "subscribed_topic_regex": regex,
        "server_assignor": assignor,
        "topic_partitions": None
        if owned is None
        else tuple(
            {"topic_id": partition_of(variables, topic_name)[0].id, "partitions": tuple(partitions)}
            for topic_name, partitions in owned.items()
        ),
    }
    return [VerbRequest("ConsumerGroupHeartbeat", v, request_fields)]


# Positions


def commit_offset(
    variables: Variables,
    group: str,
    *,
    to: str = "t",
    count: int = 1,
    offset: int = 1,
    v: int = 8,
    member: str = "",
    generation: int = UNSET_NUMBER,
    instance: str | None = None,
    metadata: str | None = "",
    retention: int = UNSET_NUMBER,
) -> list[VerbRequest]:
    """Make an OffsetCommit request for ``count`` partitions."""
    topic, first_partition = partition_of(variables, to)
    request_fields: RequestFields = {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "group_instance_id": instance,
        "retention_time": retention,
        "topics": [
            {
                "name": topic.name,
                "topic_id": topic.id,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": metadata,
                    }
                    for partition in range(first_partition, first_partition + count)
                ],
            }
        ],
    }
    return [VerbRequest("OffsetCommit", v, request_fields)]


def fetch_offsets(
    variables: Variables,
    group: str,
    *,
    of: str | None = "t",
    v: int = 9,
    member: str | None = None,
    epoch: int = UNSET_NUMBER,
    stable: bool = False,
) -> list[VerbRequest]:
    """OffsetFetch of one group: for one partition, or for all."""
    group_fields: RequestFields = {"group_id": group, "topics": None}
    if of is not None:
        topic, partition = partition_of(variables, of)
        topic_fields: RequestFields = {"name": topic.name, "partition_indexes": [partition]}
        if v >= GROUPS_FROM:
            topic_fields["topic_id"] = topic.id
        group_fields["topics"] = [topic_fields]
    if v < GROUPS_FROM:
        return [VerbRequest("OffsetFetch", v, {"require_stable": stable, **group_fields})]
    group_fields |= {"member_id": member, "member_epoch": epoch}
    return [VerbRequest("OffsetFetch", v, {"require_stable": stable, "groups": [group_fields]})]


def delete_offset(
    variables: Variables, group: str, *, of: str = "t", count: int = 1, v: int = 0
) -> list[VerbRequest]:
    """Make an OffsetDelete request for ``count`` partitions."""
    topic, first_partition = partition_of(variables, of)
    partitions = [
        {"partition_index": partition}
        for partition in range(first_partition, first_partition + count)
    ]
    request_fields: RequestFields = {
        "group_id": group,
        "topics": [{"name": topic.name, "partitions": partitions}],
    }
    return [VerbRequest("OffsetDelete", v, request_fields)]


# Administration


def describe_group(_variables: Variables, of: str, *, v: int = 6) -> list[VerbRequest]:
    """Make a DescribeGroups request."""
    return [VerbRequest("DescribeGroups", v, _describe_values("groups", of))]


def describe_consumer_group(_variables: Variables, of: str, *, v: int = 1) -> list[VerbRequest]:
    """Make a ConsumerGroupDescribe request."""
    return [VerbRequest("ConsumerGroupDescribe", v, _describe_values("group_ids", of))]


def list_groups(
    _variables: Variables,
    v: int = 5,
    *,
    states: Sequence[str] = (),
    types: Sequence[str] = (),
) -> list[VerbRequest]:
    """Make a ListGroups request; only groups of this play are kept in the transcript."""
    request_fields: RequestFields = {"states_filter": tuple(states), "types_filter": tuple(types)}
    return [VerbRequest("ListGroups", v, request_fields)]


def delete_group(_variables: Variables, group: str, *, v: int = 2) -> list[VerbRequest]:
    """Make a DeleteGroups request."""
    return [VerbRequest("DeleteGroups", v, {"groups_names": [group]})]


def _describe_values(field: str, group_id: str) -> RequestFields:
    return {field: [group_id], "include_authorized_operations": False}


def _subscription(
    variables: Variables, topic: str, owned: Mapping[str, Sequence[int]] | None
) -> bytes:
    """A subscription of version 0; of version 1 if it names owned partitions."""
    topic_name = _encode_text(topic_named(variables, topic))
    if owned is None:
        return SUBSCRIPTION_V0 + (1).to_bytes(4, "big") + topic_name + _NO_USER_DATA
    return b"".join(
        (
            b"\x00\x01",
            (1).to_bytes(4, "big"),
            topic_name,
            _NO_USER_DATA,
            len(owned).to_bytes(4, "big"),
            *(
                _encode_text(topic_named(variables, topic_name)) + _encode_numbers(partitions)
                for topic_name, partitions in owned.items()
            ),
        )
    )


def _assignment(variables: Variables, partitions: Sequence[int]) -> bytes:
    """An assignment of partitions of ``t``, in version 0."""
    encoded_name = _encode_text(topic_named(variables, "t"))
    return (
        b"\x00\x00"
        + (1).to_bytes(4, "big")
        + encoded_name
        + _encode_numbers(partitions)
        + _NO_USER_DATA
    )


def _assignment_of_member(
    variables: Variables, member: str, partitions: Sequence[int]
) -> tuple[str, bytes]:
    return member, _assignment(variables, partitions)


def _encode_text(text: str) -> bytes:
    text_bytes = text.encode()
    return len(text_bytes).to_bytes(2, "big") + text_bytes


def _encode_numbers(numbers: Sequence[int]) -> bytes:
    return b"".join(number.to_bytes(4, "big") for number in (len(numbers), *numbers))


VERBS: Final[Mapping[str, Verb]] = {
    "join": join_group,
    "sync": sync_group,
    "beat": heartbeat,
    "leave": leave_group,
    "consume": consumer_group_heartbeat,
    "plain": commit_offset,
    "positions": fetch_offsets,
    "forget": delete_offset,
    "group": describe_group,
    "consumers": describe_consumer_group,
    "groups": list_groups,
    "drop": delete_group,
}
