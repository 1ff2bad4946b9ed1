"""StreamsGroupDescribe (key 89): streams groups, their topology and members (KIP-1071).

Versions: 1 has the assignor, and whether there is a description of the topology. A group of another
type is GROUP_ID_NOT_FOUND. Kafka's counterpart: KafkaApis.handleStreamsGroupDescribe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from txnsim.api._groups.groups_of_type import GroupsOfType
from txnsim.api._groups.streams_group_heartbeat import has_streams_groups
from txnsim.api.request import Request
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.streams.assignor import STICKY
from txnsim.group.streams.group import NO_OFFSETS, StreamsGroup, StreamsGroupMember
from txnsim.group.streams.tasks import NO_TASKS, Task, Tasks, by_subtopology
from txnsim.group.streams.topology import Subtopology, TopicInfo

KEY: Final = 89

_NOT_STORED: Final = 1
"""Status code: no plugin keeps descriptions of topologies."""


# Topology


def _topology(request: Request, group: StreamsGroup) -> Any:
    """The topology of a group; once its topics exist, internal ones have their partition counts."""
    topology, configured = group.topology, group.memory.configured
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        epoch, parts = configured.epoch, configured.subtopologies
    elif topology is not None:
        epoch, parts = topology.epoch, topology.subtopologies
    else:
        return None
    return request.schema.Topology(
        epoch=epoch,
        subtopologies=tuple(_subtopology(request, parts[name]) for name in sorted(parts)),
    )


def _subtopology(request: Request, part: Subtopology) -> Any:
    def topics(topic_infos: Iterable[TopicInfo]) -> tuple[Any, ...]:
        return tuple(
            _topic(request, topic) for topic in sorted(topic_infos, key=lambda info: info.name)
        )

    return request.schema.Subtopology(
        subtopology_id=part.subtopology_id,
        source_topics=tuple(sorted(part.source_topics)),
        repartition_sink_topics=tuple(sorted(part.repartition_sink_topics)),
        state_changelog_topics=topics(part.state_changelog_topics),
        repartition_source_topics=topics(part.repartition_source_topics),
    )


def _topic(request: Request, topic: TopicInfo) -> Any:
    return request.schema.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=_pairs(request, topic.topic_configs),
    )


def _pairs(request: Request, pairs: Iterable[tuple[str, str]]) -> tuple[Any, ...]:
    return tuple(request.schema.KeyValue(key=key, value=value) for key, value in pairs)


# Members


def _elements(group: StreamsGroup, member: StreamsGroupMember) -> int:
    target = group.target.get(member.member_id, NO_TASKS)
    kinds = (member.assigned.active, member.assigned.standby, target.active, target.standby)
    return 1 + sum(map(len, kinds))


def _member(request: Request, group: StreamsGroup, member: StreamsGroupMember) -> Any:
    schema = request.schema
    offsets = group.memory.task_offsets.get(member.member_id, NO_OFFSETS)
    host, port = member.endpoint or ("", 0)
    return schema.Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else schema.Endpoint(host=host, port=port),
        client_tags=_pairs(request, member.client_tags.items()),
        task_offsets=_offsets(request, offsets.offsets),
        task_end_offsets=_offsets(request, offsets.end_offsets),
        assignment=_assignment(request, member.assigned.tasks),
        target_assignment=_assignment(request, group.target.get(member.member_id, NO_TASKS)),
        is_classic=False,
    )


def _offsets(request: Request, offsets: Mapping[Task, int]) -> tuple[Any, ...]:
    return tuple(
        request.schema.TaskOffset(subtopology_id=name, partition=index, offset=offset)
        for (name, index), offset in sorted(offsets.items())
    )


def _assignment(request: Request, tasks: Tasks) -> Any:
    def ids(tasks: Iterable[Task]) -> tuple[Any, ...]:
        return tuple(
            request.schema.TaskIds(subtopology_id=name, partitions=indexes)
            for name, indexes in sorted(by_subtopology(tasks))
        )

    return request.schema.Assignment(
        active_tasks=ids(tasks.active),
        standby_tasks=ids(tasks.standby),
        warmup_tasks=ids(tasks.warmup),
    )


# Groups


def _reason(refused: Rejection) -> str | None:
    return refused.reason if refused.error is ErrorCode.group_id_not_found else None


def _more(request: Request, group: StreamsGroup) -> dict[str, object]:
    is_asked = getattr(request.message, "include_topology_description", False)
    return {
        "assignor_name": STICKY,
        "topology": _topology(request, group),
        "topology_description_status": _NOT_STORED if is_asked else 0,
    }


_GROUPS: Final = GroupsOfType(
    kind=StreamsGroup,
    called="streams",
    is_enabled=has_streams_groups,
    reason=_reason,
    members=StreamsGroup.members_in_order,
    member=_member,
    elements=_elements,
    more=_more,
    blank=(
        *(("assignor_name", None), ("topology", None)),
        *(("topology_description", None), ("topology_description_status", 0)),
    ),
)
handle, refuse, failed_group = _GROUPS.handle, _GROUPS.refuse, _GROUPS.failed_group
