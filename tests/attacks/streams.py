"""Members of streams groups whose topologies, tasks, offsets or members are very many."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from tests.attacks.sending import request, send_frames
from tests.attacks.target import Attack, AttackTarget

WIDE: Final = "wide"
PARTITIONS: Final = 9_990
_PROPERTIES: Final = str(Path(__file__).with_name("streams.properties"))
SERVE: Final = (
    *("--brokers", "1", "--ready-coordinators", "--config", _PROPERTIES),
    *("--topic", f"{WIDE}:{PARTITIONS}"),
)
DELAY_S: Final = 5.0
"""Time after which the first assignment has been made; its delay is 3 s."""
_HEARTBEAT, _DESCRIBE, _TOPOLOGY = 88, 89, 93


def topology(target: AttackTarget) -> int:
    """A topology of 20,000 subtopologies that read one topic, twice, and ten heartbeats after."""
    parts = [_subtopology(str(number), [WIDE]) for number in range(20_000)]
    return send_frames(target, [_join("m", parts), _join("n", parts), *[_heartbeat("m", 2)] * 10])


def internal_topics(target: AttackTarget) -> int:
    """A topology that wants 20,000 changelogs and as many repartition topics, and is refused."""
    logs = [_topic(f"log-{number}") for number in range(20_000)]
    repartition = [_topic(f"repartition-{number}") for number in range(20_000)]
    subtopology = {
        **_subtopology("0", ["missing"]),
        "state_changelog_topics": logs,
        "repartition_source_topics": repartition,
        "repartition_sink_topics": [topic["name"] for topic in repartition],
    }
    return send_frames(target, [_join("m", [subtopology])] * 3)


def copartitions(target: AttackTarget) -> int:
    """2,000 groups of co-partitioned topics, each of 500 topics that are not there."""
    names = [f"t{topic_number}" for topic_number in range(500)]
    group = {
        "source_topics": list(range(500)),
        "source_topic_regex": [],
        "repartition_source_topics": [],
    }
    subtopology = {**_subtopology("0", names), "copartition_groups": [group] * 2_000}
    return send_frames(target, [_join("m", [subtopology])] * 2)


def tasks(target: AttackTarget) -> int:
    """9,990 tasks and fifty members, each of which has them assigned anew."""
    frames = [_join(f"m{frame_number}", [_subtopology("0", [WIDE])]) for frame_number in range(50)]
    return send_frames(target, frames)


def owned_tasks(target: AttackTarget) -> int:
    """A member that reports 9,990 tasks and their offsets, twenty times."""
    sent_bytes = send_frames(target, [_join("m", [_subtopology("0", [WIDE])])])
    all_partitions = [{"subtopology_id": "0", "partitions": list(range(PARTITIONS))}]
    offsets = [
        {"subtopology_id": "0", "partition": partition_number, "offset": partition_number}
        for partition_number in range(PARTITIONS)
    ]
    task_fields: dict[str, Any] = {
        "active_tasks": all_partitions,
        "standby_tasks": [],
        "warmup_tasks": [],
    }
    frame = _heartbeat("m", 2, **task_fields, task_offsets=offsets, task_end_offsets=offsets)
    return sent_bytes + send_frames(target, [frame] * 20)


def members(target: AttackTarget) -> int:
    """1,000 members join a group of 1,000 tasks, and one describes it ten times."""
    parts = [_subtopology("0", ["narrow"])]
    sent_bytes = send_frames(
        target, [_join(f"m{member_number}", parts, group="many") for member_number in range(1_000)]
    )
    return sent_bytes + send_frames(target, [_describe_groups(["many"])] * 10)


def first_assignment(target: AttackTarget) -> int:
    """500 members join while the first assignment of 9,990 tasks is delayed."""
    parts = [_subtopology("0", [WIDE])]
    sent_bytes = send_frames(
        target, [_join(f"m{member_number}", parts, group="many") for member_number in range(500)]
    )
    time.sleep(DELAY_S)
    return sent_bytes + send_frames(target, [_describe_groups(["many"])])


def described_groups(target: AttackTarget) -> int:
    """StreamsGroupDescribe of 60,000 groups that are not there, and of one 60,000 times."""
    sent_bytes = send_frames(target, [_join("m", [_subtopology("0", [WIDE])])])
    missing = [f"g{group_number}" for group_number in range(60_000)]
    return sent_bytes + send_frames(
        target, [_describe_groups(missing), _describe_groups(["g"] * 60_000)]
    )


def description(target: AttackTarget) -> int:
    """StreamsGroupTopologyDescriptionUpdate with 20,000 subtopologies of ten nodes, ten times."""
    nodes = [
        {
            "name": f"node-{node_number}",
            "node_type": 2,
            "source_topics": [],
            "sink_topic": None,
            "stores": [],
            "successors": [f"node-{node_number + 1}"],
        }
        for node_number in range(10)
    ]
    subtopologies = [
        {"subtopology_id": str(subtopology_id), "nodes": nodes} for subtopology_id in range(20_000)
    ]
    frame = request(
        _TOPOLOGY,
        0,
        group_id="g",
        member_id="m",
        topology_epoch=0,
        topology_description={"subtopologies": subtopologies, "global_stores": []},
    )
    return send_frames(target, [frame] * 10)


# What is sent


def _topic(name: str) -> dict[str, Any]:
    return {"name": name, "partitions": 0, "replication_factor": 1, "topic_configs": []}


def _subtopology(subtopology_id: str, sources: Iterable[str]) -> dict[str, Any]:
    return {
        "subtopology_id": subtopology_id,
        "source_topics": list(sources),
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
    }


def _join(member: str, subtopologies: list[dict[str, Any]], *, group: str = "g") -> bytes:
    return _heartbeat(
        member,
        0,
        group=group,
        rebalance_timeout=timedelta(minutes=1),
        topology={"epoch": 0, "subtopologies": subtopologies},
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id=member,
        client_tags=[],
    )


def _heartbeat(member: str, epoch: int, *, group: str = "g", **request_fields: Any) -> bytes:
    values = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "endpoint_information_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": timedelta(milliseconds=-1),
        "topology": None,
        "active_tasks": None,
        "standby_tasks": None,
        "warmup_tasks": None,
        "process_id": None,
        "user_endpoint": None,
        "client_tags": None,
        "task_offsets": None,
        "task_end_offsets": None,
        "shutdown_application": False,
    }
    return request(_HEARTBEAT, 1, **{**values, **request_fields})


def _describe_groups(groups: list[str]) -> bytes:
    fields = {"include_authorized_operations": False, "include_topology_description": False}
    return request(_DESCRIBE, 1, group_ids=groups, **fields)


_NARROW: Final = (*SERVE, "--topic", "narrow:1000")
_DELAYED: Final = ("--brokers", "1", "--ready-coordinators", "--topic", f"{WIDE}:{PARTITIONS}")

ATTACKS: Final = (
    Attack("streams-topology", topology, serve=SERVE),
    Attack("streams-internal-topics", internal_topics, serve=SERVE),
    Attack("streams-copartitions", copartitions, serve=SERVE),
    Attack("streams-tasks", tasks, serve=SERVE),
    Attack("streams-owned", owned_tasks, serve=SERVE),
    Attack("streams-members", members, serve=_NARROW),
    Attack("streams-first-assignment", first_assignment, serve=_DELAYED),
    Attack("streams-described", described_groups, serve=SERVE),
    Attack("streams-description", description, serve=SERVE),
)
