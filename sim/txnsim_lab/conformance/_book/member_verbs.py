"""Verbs for members of classic and consumer groups, and for clients that commit positions or
describe groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from txnsim_lab.conformance._book.values import Variables
from txnsim_lab.conformance._book.verbs import Values, Verb, VerbRequest, partition_of, topic_named

NOBODY: Final = -1
GROUPS_FROM: Final = 8
"""First version of OffsetFetch that can ask for several groups."""
SUBSCRIPTION_V0: Final = b"\x00\x00"
_NO_USER_DATA: Final = b"\xff\xff\xff\xff"


# Classic members


def join(
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
    values: Values = {
        "group_id": group,
        "session_timeout": session,
        "rebalance_timeout": rebalance,
        "member_id": member,
        "group_instance_id": instance,
        "protocol_type": type,
        "protocols": [
            {"name": name, "metadata": _subscription(variables, topic, owned)} for name in protocols
        ],
    }
    return [VerbRequest("JoinGroup", v, values)]


def sync(
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
        (assignee, assignment) if isinstance(assignee, str) else _own(variables, *assignee)
        for assignee in give
    ]
    values: Values = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": instance,
        "protocol_type": type,
        "protocol_name": protocol,
        "assignments": [
            {"member_id": assignee, "assignment": its} for assignee, its in assignments
        ],
    }
    return [VerbRequest("SyncGroup", v, values)]


def beat(
    _variables: Variables,
    group: str,
    *,
    member: str,
    generation: int = 1,
    instance: str | None = None,
    v: int = 4,
) -> list[VerbRequest]:
    """Heartbeat."""
    values: Values = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": instance,
    }
    return [VerbRequest("Heartbeat", v, values)]


def leave(
    _variables: Variables,
    group: str,
    *,
    member: str = "",
    instance: str | None = None,
    v: int = 5,
) -> list[VerbRequest]:
    """LeaveGroup of one member."""
    values: Values = {
        "group_id": group,
        "member_id": member,
        "members": [{"member_id": member, "group_instance_id": instance}],
    }
    return [VerbRequest("LeaveGroup", v, values)]


# Members of the consumer protocol


def consume(
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
    values: Values = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "instance_id": instance,
        "rack_id": rack,
        "rebalance_timeout": NOBODY if rebalance is None else rebalance,
        "subscribed_topic_names": None
        if topics is None
        else tuple(topic_named(variables, name) for name in topics),
        "subscribed_topic_regex": regex,
        "server_assignor": assignor,
        "topic_partitions": None
        if owned is None
        else tuple(
            {"topic_id": partition_of(variables, name)[0].id, "partitions": tuple(numbers)}
            for name, numbers in owned.items()
        ),
    }
    return [VerbRequest("ConsumerGroupHeartbeat", v, values)]


# Positions


def plain(
    variables: Variables,
    group: str,
    *,
    to: str = "t",
    offset: int = 1,
    v: int = 8,
    member: str = "",
    generation: int = NOBODY,
    instance: str | None = None,
    metadata: str | None = "",
    retention: int = NOBODY,
) -> list[VerbRequest]:
    """OffsetCommit of one position."""
    topic, partition = partition_of(variables, to)
    values: Values = {
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
                ],
            }
        ],
    }
    return [VerbRequest("OffsetCommit", v, values)]


def positions(
    variables: Variables,
    group: str,
    *,
    of: str | None = "t",
    v: int = 9,
    member: str | None = None,
    epoch: int = NOBODY,
    stable: bool = False,
) -> list[VerbRequest]:
    """OffsetFetch of one group: for one partition, or for all."""
    asked_group: Values = {"group_id": group, "topics": None}
    if of is not None:
        topic, partition = partition_of(variables, of)
        asked_topic: Values = {"name": topic.name, "partition_indexes": [partition]}
        if v >= GROUPS_FROM:
            asked_topic["topic_id"] = topic.id
        asked_group["topics"] = [asked_topic]
    if v < GROUPS_FROM:
        return [VerbRequest("OffsetFetch", v, {"require_stable": stable, **asked_group})]
    asked_group |= {"member_id": member, "member_epoch": epoch}
    return [VerbRequest("OffsetFetch", v, {"require_stable": stable, "groups": [asked_group]})]


def forget(variables: Variables, group: str, *, of: str = "t", v: int = 0) -> list[VerbRequest]:
    """OffsetDelete of one position."""
    topic, partition = partition_of(variables, of)
    values: Values = {
        "group_id": group,
        "topics": [{"name": topic.name, "partitions": [{"partition_index": partition}]}],
    }
    return [VerbRequest("OffsetDelete", v, values)]


# Administration


def group(_variables: Variables, of: str, *, v: int = 6) -> list[VerbRequest]:
    """DescribeGroups."""
    return [VerbRequest("DescribeGroups", v, _describe_values("groups", of))]


def consumers(_variables: Variables, of: str, *, v: int = 1) -> list[VerbRequest]:
    """ConsumerGroupDescribe."""
    return [VerbRequest("ConsumerGroupDescribe", v, _describe_values("group_ids", of))]


def groups(
    _variables: Variables,
    v: int = 5,
    *,
    states: Sequence[str] = (),
    types: Sequence[str] = (),
) -> list[VerbRequest]:
    """ListGroups; only groups of this play are kept in the transcript."""
    values: Values = {"states_filter": tuple(states), "types_filter": tuple(types)}
    return [VerbRequest("ListGroups", v, values)]


def drop(_variables: Variables, group: str, *, v: int = 2) -> list[VerbRequest]:
    """DeleteGroups."""
    return [VerbRequest("DeleteGroups", v, {"groups_names": [group]})]


def _describe_values(field: str, group_id: str) -> Values:
    return {field: [group_id], "include_authorized_operations": False}


def _subscription(
    variables: Variables, topic: str, owned: Mapping[str, Sequence[int]] | None
) -> bytes:
    """A subscription of version 0; of version 1 if it names owned partitions."""
    name = _text(topic_named(variables, topic))
    if owned is None:
        return SUBSCRIPTION_V0 + (1).to_bytes(4, "big") + name + _NO_USER_DATA
    return b"".join(
        (
            b"\x00\x01",
            (1).to_bytes(4, "big"),
            name,
            _NO_USER_DATA,
            len(owned).to_bytes(4, "big"),
            *(
                _text(topic_named(variables, name)) + _numbers(indexes)
                for name, indexes in owned.items()
            ),
        )
    )


def _assignment(variables: Variables, indexes: Sequence[int]) -> bytes:
    """An assignment of partitions of ``t``, in version 0."""
    name = _text(topic_named(variables, "t"))
    return b"\x00\x00" + (1).to_bytes(4, "big") + name + _numbers(indexes) + _NO_USER_DATA


def _own(variables: Variables, member: str, indexes: Sequence[int]) -> tuple[str, bytes]:
    return member, _assignment(variables, indexes)


def _text(value: str) -> bytes:
    data = value.encode()
    return len(data).to_bytes(2, "big") + data


def _numbers(values: Sequence[int]) -> bytes:
    return b"".join(number.to_bytes(4, "big") for number in (len(values), *values))


VERBS: Final[Mapping[str, Verb]] = {
    "join": join,
    "sync": sync,
    "beat": beat,
    "leave": leave,
    "consume": consume,
    "plain": plain,
    "positions": positions,
    "forget": forget,
    "group": group,
    "consumers": consumers,
    "groups": groups,
    "drop": drop,
}
