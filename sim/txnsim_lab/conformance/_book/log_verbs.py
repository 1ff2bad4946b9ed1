"""Verbs for logs, configs and topics: reading, finding, deleting.

``of`` and ``to`` are partitions as in ``verbs``; a case writes a request in full if it needs fields
that the verb lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from txnsim_lab.conformance._book.frame_player import fetch
from txnsim_lab.conformance._book.values import Variables
from txnsim_lab.conformance._book.verbs import RequestFields, Verb, VerbRequest, partition_of

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
SET_OPERATION: Final = 0
_BYTES_MAX: Final = 1 << 20


def fetch_partitions(
    variables: Variables,
    of: str | Sequence[str] = "t",
    *,
    v: int = 12,
    offset: int = 0,
    isolation: int = 0,
    wait: int = 0,
    min_bytes: int = 1,
    max_bytes: int = _BYTES_MAX,
    each: int = _BYTES_MAX,
    epoch: int = -1,
    fetched: int = -1,
    replica: int = -1,
    session: Sequence[int] = (0, -1),
    forget: Sequence[str] = (),
) -> list[VerbRequest]:
    request_fields: RequestFields = {**fetch(("", None)), "topics": [], "forgotten_topics_data": []}
    for partition_name in [of] if isinstance(of, str) else of:
        topic, partition = partition_of(variables, partition_name)
        epoch_fields = {"current_leader_epoch": epoch, "last_fetched_epoch": fetched}
        single_fetch = fetch((topic.name, topic.id), offset, partition=partition, **epoch_fields)
        single_fetch["topics"][0]["partitions"][0]["partition_max_bytes"] = each
        request_fields["topics"] += single_fetch["topics"]
    for partition_name in forget:
        topic, partition = partition_of(variables, partition_name)
        request_fields["forgotten_topics_data"].append(
            {"topic": topic.name, "topic_id": topic.id, "partitions": [partition]}
        )
    request_fields |= {
        "replica_id": replica,
        "max_wait": wait,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": isolation,
        "session_id": session[0],
        "session_epoch": session[1],
    }
    return [VerbRequest("Fetch", v, request_fields)]


def list_offsets(
    variables: Variables,
    of: str = "t",
    *,
    at: int | Sequence[int] = -1,
    v: int = 11,
    isolation: int = 0,
    epoch: int = -1,
    replica: int = -1,
) -> list[VerbRequest]:
    topic, partition = partition_of(variables, of)
    timestamps = [at] if isinstance(at, int) else at
    return [
        VerbRequest(
            "ListOffsets",
            v,
            {
                "replica_id": replica,
                "isolation_level": isolation,
                "timeout": 1000,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {
                                "partition_index": partition,
                                "timestamp": timestamp,
                                "current_leader_epoch": epoch,
                            }
                        ],
                    }
                ],
            },
            f"at {timestamp}" if len(timestamps) > 1 else "",
        )
        for timestamp in timestamps
    ]


def offset_for_leader_epoch(
    variables: Variables,
    of: str = "t",
    *,
    epoch: int | Sequence[int] = 0,
    v: int = 4,
    current: int = -1,
    replica: int = -1,
) -> list[VerbRequest]:
    topic, partition = partition_of(variables, of)
    epochs = [epoch] if isinstance(epoch, int) else epoch
    asked_partitions = [
        {"partition": partition, "current_leader_epoch": current, "leader_epoch": leader_epoch}
        for leader_epoch in epochs
    ]
    return [
        VerbRequest(
            "OffsetForLeaderEpoch",
            v,
            {
                "replica_id": replica,
                "topics": [{"topic": topic.name, "partitions": [asked_partition]}],
            },
            f"epoch {asked_partition['leader_epoch']}" if len(asked_partitions) > 1 else "",
        )
        for asked_partition in asked_partitions
    ]


def delete_records(
    variables: Variables, of: str = "t", *, before: int, v: int = 2
) -> list[VerbRequest]:
    """Make a DeleteRecords request up to the offset ``before``."""
    topic, partition = partition_of(variables, of)
    asked_partition = {"partition_index": partition, "offset": before}
    topics = [{"name": topic.name, "partitions": [asked_partition]}]
    return [VerbRequest("DeleteRecords", v, {"timeout": 10_000, "topics": topics})]


def alter_configs(
    variables: Variables,
    of: str = "t",
    *,
    configs: Mapping[str, str | None],
    op: int = SET_OPERATION,
    v: int = 1,
    dry: bool = False,
    broker: str | None = None,
) -> list[VerbRequest]:
    """IncrementalAlterConfigs of a topic, or of a broker (empty: the default of all brokers)."""
    resource_fields = {
        "resource_type": TOPIC_RESOURCE if broker is None else BROKER_RESOURCE,
        "resource_name": partition_of(variables, of)[0].name if broker is None else broker,
        "configs": [
            {"name": name, "config_operation": op, "value": value}
            for name, value in configs.items()
        ],
    }
    return [
        VerbRequest(
            "IncrementalAlterConfigs", v, {"resources": [resource_fields], "validate_only": dry}
        )
    ]


def describe_configs(
    variables: Variables,
    of: str = "t",
    *,
    names: Sequence[str] | None = None,
    v: int = 4,
    synonyms: bool = False,
    broker: str | None = None,
) -> list[VerbRequest]:
    """DescribeConfigs of a topic, or of a broker (empty: the default of all brokers)."""
    resource_fields = {
        "resource_type": TOPIC_RESOURCE if broker is None else BROKER_RESOURCE,
        "resource_name": partition_of(variables, of)[0].name if broker is None else broker,
        "configuration_keys": names,
    }
    return [
        VerbRequest(
            "DescribeConfigs", v, {"resources": [resource_fields], "include_synonyms": synonyms}
        )
    ]


def create_topic(
    variables: Variables,
    name: str,
    *,
    v: int = 7,
    partitions: int = 1,
    replicas: int = 1,
    assigned: Sequence[Sequence[int]] = (),
    configs: Mapping[str, str | None] | None = None,
    dry: bool = False,
) -> list[VerbRequest]:
    """CreateTopics of one topic; ``assigned`` are the brokers of partition 0, 1, …"""
    del variables  # it makes what is not known yet
    new_topic: dict[str, Any] = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [
            {"partition_index": index, "broker_ids": list(brokers)}
            for index, brokers in enumerate(assigned)
        ],
        "configs": [
            {"name": config_name, "value": value} for config_name, value in (configs or {}).items()
        ],
    }
    return [
        VerbRequest(
            "CreateTopics", v, {"topics": [new_topic], "timeout": 10_000, "validate_only": dry}
        )
    ]


VERBS: Final[Mapping[str, Verb]] = {
    "configure": alter_configs,
    "configured": describe_configs,
    "create": create_topic,
    "cut": delete_records,
    "epoch-end": offset_for_leader_epoch,
    "find": list_offsets,
    "look": fetch_partitions,
}
