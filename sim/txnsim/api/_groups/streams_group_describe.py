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

API_KEY: Final = 89

_NOT_STORED: Final = 1
"""Status code: no plugin keeps descriptions of topologies."""


# Topology


def _topology_row(request: Request, group: StreamsGroup) -> Any:
    """The topology of a group; once its topics exist, internal ones have their partition counts."""
    topology, configured_topology = group.topology, group.memory.configured_topology
    if (
        configured_topology is not None
        and configured_topology.is_ready
        and configured_topology.subtopologies is not None
    ):
        epoch, subtopologies = configured_topology.epoch, configured_topology.subtopologies
    elif topology is not None:
        epoch, subtopologies = topology.epoch, topology.subtopologies
    else:
        return None
    return request.schema.Topology(
        epoch=epoch,
        subtopologies=tuple(
            _subtopology_row(request, subtopologies[subtopology_id])
            for subtopology_id in sorted(subtopologies)
        ),
    )


def _subtopology_row(request: Request, subtopology: Subtopology) -> Any:
    def topics(topic_infos: Iterable[TopicInfo]) -> tuple[Any, ...]:
        return tuple(
            _topic_row(request, topic) for topic in sorted(topic_infos, key=lambda info: info.name)
        )

    return request.schema.Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=tuple(sorted(subtopology.source_topics)),
        repartition_sink_topics=tuple(sorted(subtopology.repartition_sink_topics)),
        state_changelog_topics=topics(subtopology.state_changelog_topics),
        repartition_source_topics=topics(subtopology.repartition_source_topics),
    )


def _topic_row(request: Request, topic: TopicInfo) -> Any:
    return request.schema.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=_key_values(request, topic.topic_configs),
    )


def _key_values(request: Request, keys_and_values: Iterable[tuple[str, str]]) -> tuple[Any, ...]:
    return tuple(request.schema.KeyValue(key=key, value=value) for key, value in keys_and_values)


# Members


def _count_elements(group: StreamsGroup, member: StreamsGroupMember) -> int:
    target_tasks = group.target.get(member.member_id, NO_TASKS)
    task_sets = (
        member.assigned.active,
        member.assigned.standby,
        target_tasks.active,
        target_tasks.standby,
    )
    return 1 + sum(map(len, task_sets))


def _member_row(request: Request, group: StreamsGroup, member: StreamsGroupMember) -> Any:
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
        client_tags=_key_values(request, member.client_tags.items()),
        task_offsets=_task_offsets(request, offsets.offsets),
        task_end_offsets=_task_offsets(request, offsets.end_offsets),
        assignment=_assignment(request, member.assigned.tasks),
        target_assignment=_assignment(request, group.target.get(member.member_id, NO_TASKS)),
        is_classic=False,
    )


def _task_offsets(request: Request, offsets: Mapping[Task, int]) -> tuple[Any, ...]:
    return tuple(
        request.schema.TaskOffset(
            subtopology_id=subtopology_id, partition=partition_index, offset=offset
        )
        for (subtopology_id, partition_index), offset in sorted(offsets.items())
    )


def _assignment(request: Request, tasks: Tasks) -> Any:
    def ids(tasks: Iterable[Task]) -> tuple[Any, ...]:
        return tuple(
            request.schema.TaskIds(subtopology_id=subtopology_id, partitions=partition_indexes)
            for subtopology_id, partition_indexes in sorted(by_subtopology(tasks))
        )

    return request.schema.Assignment(
        active_tasks=ids(tasks.active),
        standby_tasks=ids(tasks.standby),
        warmup_tasks=ids(tasks.warmup),
    )


# Groups


def _error_message(rejection: Rejection) -> str | None:
    return rejection.reason if rejection.error is ErrorCode.group_id_not_found else None


def _extra_fields(request: Request, group: StreamsGroup) -> dict[str, object]:
    wants_operations = getattr(request.message, "include_topology_description", False)
    return {
        "assignor_name": STICKY,
        "topology": _topology_row(request, group),
        "topology_description_status": _NOT_STORED if wants_operations else 0,
    }


_STREAMS_GROUPS: Final = GroupsOfType(
    group_class=StreamsGroup,
    type_name="streams",
    is_enabled=has_streams_groups,
    reason_of_rejection=_error_message,
    members_of=StreamsGroup.members_in_order,
    build_member=_member_row,
    count_elements=_count_elements,
    build_extra_fields=_extra_fields,
    extra_field_defaults=(
        *(("assignor_name", None), ("topology", None)),
        *(("topology_description", None), ("topology_description_status", 0)),
    ),
)
handle, refuse, failed_group = (
    _STREAMS_GROUPS.handle,
    _STREAMS_GROUPS.refuse,
    _STREAMS_GROUPS.failed_group,
)
