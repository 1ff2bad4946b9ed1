"""Verbs for members of streams groups: ``stream-beat`` is a member's heartbeat, ``streamers``
describes a group.

A member that joins (epoch 0) brings a topology of one subtopology, ``"0"``, which reads ``topics``;
``log`` names a changelog topic of it. ``active`` are the tasks that the member has, ``["0_1"]`` for
partition 1 of that subtopology; without them the heartbeat leaves all tasks out, as unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from txnsim_lab.conformance._book.values import Variables
from txnsim_lab.conformance._book.verbs import RequestFields, Verb, VerbRequest, topic_named

REBALANCE_TIMEOUT_MS: Final = 60_000


def streams_group_heartbeat(
    variables: Variables,
    group: str,
    *,
    v: int = 1,
    member: str = "a",
    epoch: int = 0,
    topics: Sequence[str] = ("t",),
    topology: int | None = 0,
    log: Mapping[str, Any] | None = None,
    copartitioned: bool = False,
    active: Sequence[str] | None = None,
    standby: Sequence[str] | None = None,
    tasks: bool | None = None,
    instance: str | None = None,
    process: str | None = None,
    rebalance: int | None = None,
    endpoint: str | None = None,
    endpoints: int = 0,
    shutdown: bool = False,
) -> list[VerbRequest]:
    """Make a StreamsGroupHeartbeat request.

    ``topology`` is the epoch of a joining member's topology, None leaves it out. ``log`` has
    the fields of a changelog topic that differ from the default; ``copartitioned`` topics must have
    as many partitions. ``tasks`` says whether the heartbeat has the member's tasks: by default if
    it joins, or if some are given. ``process`` names the member whose process it is a thread of:
    by default itself. ``endpoint`` is where the member is asked from outside, as
    ``host:port``, ``endpoints`` the epoch of those that it knows. ``rebalance`` is in milliseconds:
    by default a minute of a member that joins, else unchanged.
    """
    is_joining = epoch == 0
    is_whole = is_joining or active is not None or standby is not None
    if tasks is not None:
        is_whole = tasks
    timeout_ms = (REBALANCE_TIMEOUT_MS if is_joining else -1) if rebalance is None else rebalance
    source_topics = [topic_named(variables, topic) for topic in topics]
    request_fields: RequestFields = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "endpoint_information_epoch": endpoints,
        "instance_id": instance,
        "rack_id": None,
        "rebalance_timeout": timedelta(milliseconds=timeout_ms),
        "topology": {
            "epoch": topology,
            "subtopologies": [_subtopology(source_topics, log, copartitioned=copartitioned)],
        }
        if is_joining and topology is not None
        else None,
        "active_tasks": _task_ids(active or ()) if is_whole else None,
        "standby_tasks": _task_ids(standby or ()) if is_whole else None,
        "warmup_tasks": [] if is_whole else None,
        "process_id": f"process of {process or member}" if is_joining else None,
        "user_endpoint": None if endpoint is None else _endpoint(endpoint),
        "client_tags": [] if is_joining else None,
        "task_offsets": None,
        "task_end_offsets": None,
        "shutdown_application": shutdown,
    }
    return [VerbRequest("StreamsGroupHeartbeat", v, request_fields)]


def describe_streams_group(_variables: Variables, of: str, *, v: int = 0) -> list[VerbRequest]:
    """Make a StreamsGroupDescribe request."""
    fields: RequestFields = {"group_ids": [of], "include_authorized_operations": False}
    return [VerbRequest("StreamsGroupDescribe", v, fields)]


def _subtopology(
    sources: Sequence[str], log: Mapping[str, Any] | None, *, copartitioned: bool
) -> dict[str, Any]:
    defaults = {"partitions": 0, "replication_factor": 0, "topic_configs": []}
    indexes = list(range(len(sources)))
    group = {"source_topics": indexes, "source_topic_regex": [], "repartition_source_topics": []}
    return {
        "subtopology_id": "0",
        "source_topics": sources,
        "source_topic_regex": [],
        "state_changelog_topics": [] if log is None else [{**defaults, **log}],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [group] if copartitioned else [],
    }


def _endpoint(text: str) -> dict[str, Any]:
    host, _, port = text.partition(":")
    return {"host": host, "port": int(port)}


def _task_ids(tasks: Sequence[str]) -> list[dict[str, Any]]:
    """Tasks as a request has them, from ``"0_1"``."""
    partitions_by_subtopology: dict[str, list[int]] = {}
    for task in tasks:
        subtopology_id, _, partition = task.partition("_")
        partitions_by_subtopology.setdefault(subtopology_id, []).append(int(partition))
    return [
        {"subtopology_id": subtopology_id, "partitions": partitions}
        for subtopology_id, partitions in partitions_by_subtopology.items()
    ]


VERBS: Final[Mapping[str, Verb]] = {
    "stream-beat": streams_group_heartbeat,
    "streamers": describe_streams_group,
}
