"""StreamsGroupHeartbeat (key 88): join, stay in, and leave a streams group (KIP-1071).

Versions: 1 tells of missing client tags, and of the recovery lag. Missing internal topics of the
topology are created here, with the rights of the member. Kafka's counterparts:
KafkaApis.handleStreamsGroupHeartbeat, AutoTopicCreationManager.createStreamsInternalTopics.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from txnsim.api.request import NO_THROTTLE, Reply, Request, may_describe
from txnsim.controller.controller import TopicToCreate, name_complaint
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.streams.commands import EndpointPartitions, StreamsHeartbeat, StreamsReply
from txnsim.group.streams.tasks import Task, by_subtopology
from txnsim.group.streams.topology import (
    StatusMessage,
    Subtopology,
    TopicInfo,
    TopologyStatus,
    subtopology_of,
    topics_of,
)
from txnsim.metadata.image import STREAMS_VERSION
from txnsim.security.acls import AclOperation
from txnsim.types import INTERNAL_TOPICS

API_KEY: Final = 88

_PROBLEMS_SHOWN: Final = 3


async def handle(request: Request) -> Reply:
    """Decide the heartbeat; answer once the group's records are replicated."""
    if not has_streams_groups(request):
        return refuse(request, ErrorCode.unsupported_version)
    message = request.message
    epoch_and_subtopologies = None
    if message.topology is not None:
        subtopologies = tuple(map(subtopology_of, message.topology.subtopologies))
        refusal = _refused_topics(request, subtopologies)
        if refusal is not None:
            return _failure(request, refusal)
        epoch_and_subtopologies = (message.topology.epoch, subtopologies)
    tag_rows, endpoint = message.client_tags, message.user_endpoint
    outcome = await request.broker.groups.streams_heartbeat(
        StreamsHeartbeat(
            group_id=message.group_id,
            member_id=message.member_id,
            member_epoch=message.member_epoch,
            endpoints_epoch=message.endpoint_information_epoch,
            instance_id=message.instance_id,
            rack_id=message.rack_id,
            rebalance_timeout_ms=round(message.rebalance_timeout.total_seconds() * 1_000),
            topology=epoch_and_subtopologies,
            active=_read_tasks(message.active_tasks),
            standby=_read_tasks(message.standby_tasks),
            warmup=_read_tasks(message.warmup_tasks),
            process_id=message.process_id,
            endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            client_tags=None if tag_rows is None else {tag.key: tag.value for tag in tag_rows},
            task_offsets=_read_offsets(message.task_offsets),
            task_end_offsets=_read_offsets(message.task_end_offsets),
            shutdown=message.shutdown_application,
            client_id=request.client_id or "",
            client_host=request.client_host,
            api_version=request.api_version,
        )
    )
    if isinstance(outcome, Rejection):
        return _failure(request, outcome)
    statuses = outcome.statuses
    if outcome.topics_to_make:
        statuses = _create_internal_topics(request, outcome)
    return _answer(request, outcome, statuses)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error for the whole request."""
    return _failure(request, Rejection(error=error, reason=""))


def has_streams_groups(request: Request) -> bool:
    """Whether the finalized level of ``streams.version`` enables streams groups; their APIs are
    advertised either way.
    """
    return request.broker.image.features.get(STREAMS_VERSION, 0) > 0


# The request


def _refused_topics(request: Request, subtopologies: tuple[Subtopology, ...]) -> Rejection | None:
    """Why an application must not use these topics; None if it may."""
    topic_names = topics_of(subtopologies)
    internal_topics = [topic_name for topic_name in topic_names if topic_name in INTERNAL_TOPICS]
    if internal_topics:
        return _refuse_topology(
            f"Use of Kafka internal topics {','.join(internal_topics)} in a Kafka Streams topology "
            "is prohibited."
        )
    invalid_topics = [
        topic_name for topic_name in topic_names if name_complaint(topic_name) is not None
    ]
    if invalid_topics:
        return _refuse_topology(
            f"Topic names {','.join(invalid_topics)} are not valid topic names."
        )
    is_describable = may_describe(request)
    if is_describable is None or all(map(is_describable, topic_names)):
        return None
    return Rejection(error=ErrorCode.topic_authorization_failed, reason="")


def _refuse_topology(reason: str) -> Rejection:
    return Rejection(error=ErrorCode.streams_invalid_topology, reason=reason)


def _read_tasks(tasks: Iterable[Any] | None) -> frozenset[Task] | None:
    if tasks is None:
        return None
    return frozenset(
        (subtopology_row.subtopology_id, index)
        for subtopology_row in tasks
        for index in subtopology_row.partitions
    )


def _read_offsets(offsets: Iterable[Any] | None) -> tuple[tuple[Task, int], ...] | None:
    if offsets is None:
        return None
    return tuple(
        ((offset_row.subtopology_id, offset_row.partition), offset_row.offset)
        for offset_row in offsets
    )


# Internal topics


def _create_internal_topics(request: Request, reply: StreamsReply) -> tuple[StatusMessage, ...]:
    """Create the missing internal topics. Return the statuses of the reply, extended by what has
    prevented a creation so far.
    """
    access, topics_to_make = request.access, reply.topics_to_make
    if access is not None and not access.may_cluster(AclOperation.CREATE):
        denied_topics = [
            topic_name
            for topic_name in topics_to_make
            if not access.may_topic(AclOperation.CREATE, topic_name)
        ]
        if denied_topics:
            return _with_internal_topics_detail(
                reply.statuses, f"Unauthorized to CREATE on topics {', '.join(denied_topics)}."
            )
    members, broker = request.broker.groups.streams, request.broker
    problems = members.topic_problems(topics_to_make)
    creatable_topics = [
        topic for topic_name, topic in topics_to_make.items() if topic_name not in problems
    ]
    if creatable_topics and broker.reaches_controller:
        creation_outcomes = broker.metadata.create_topics(
            [_new_topic(topic) for topic in creatable_topics]
        )
        for topic, creation_outcome in zip(creatable_topics, creation_outcomes, strict=True):
            if isinstance(creation_outcome, Rejection):
                problem_text = creation_outcome.reason or creation_outcome.error.name
                members.keep_topic_problem(
                    topic.name, problem_text, 2 * reply.heartbeat_interval_ms
                )
    if not problems:
        return reply.statuses
    shown_problems = ", ".join(
        f"{topic_name} ({problem_text})"
        for topic_name, problem_text in list(problems.items())[:_PROBLEMS_SHOWN]
    )
    unlisted_count = len(problems) - _PROBLEMS_SHOWN
    unlisted_text = f" and {unlisted_count} more" if unlisted_count > 0 else ""
    return _with_internal_topics_detail(
        reply.statuses, f"Creation failed: {shown_problems}{unlisted_text}."
    )


def _new_topic(topic: TopicInfo) -> TopicToCreate:
    return TopicToCreate(
        name=topic.name,
        partition_count=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        configs=dict(topic.topic_configs),
    )


def _with_internal_topics_detail(
    statuses: tuple[StatusMessage, ...], added_detail: str
) -> tuple[StatusMessage, ...]:
    return tuple(
        (
            status,
            f"{detail}; {added_detail}"
            if status is TopologyStatus.MISSING_INTERNAL_TOPICS
            else detail,
        )
        for status, detail in statuses
    )


# The answer


def _answer(request: Request, reply: StreamsReply, statuses: tuple[StatusMessage, ...]) -> Reply:
    tasks = reply.tasks
    acceptable_lag = reply.acceptable_recovery_lag if request.api_version > 0 else 0
    return request.answer(
        error_code=ErrorCode.none,
        error_message=None,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval=timedelta(milliseconds=reply.heartbeat_interval_ms),
        acceptable_recovery_lag=acceptable_lag,
        task_offset_interval=timedelta(milliseconds=reply.task_offset_interval_ms),
        status=tuple(
            request.schema.Status(status_code=status, status_detail=detail)
            for status, detail in statuses
        ),
        active_tasks=None if tasks is None else _task_ids(request, tasks.active),
        standby_tasks=None if tasks is None else _task_ids(request, tasks.standby),
        warmup_tasks=None if tasks is None else _task_ids(request, tasks.warmup),
        topology_description_required=False,
        endpoint_information_epoch=reply.endpoints_epoch,
        partitions_by_user_endpoint=None
        if reply.endpoints is None
        else tuple(_endpoint_row(request, endpoint) for endpoint in reply.endpoints),
    )


def _task_ids(request: Request, tasks: Iterable[Task]) -> tuple[Any, ...]:
    return tuple(
        request.schema.TaskIds(subtopology_id=subtopology_id, partitions=partition_indexes)
        for subtopology_id, partition_indexes in by_subtopology(tasks)
    )


def _endpoint_row(request: Request, endpoint_partitions: EndpointPartitions) -> Any:
    schema = request.schema

    def partitions(topics: Iterable[tuple[str, tuple[int, ...]]]) -> tuple[Any, ...]:
        return tuple(
            schema.TopicPartition(topic=topic_name, partitions=partition_indexes)
            for topic_name, partition_indexes in topics
        )

    host, port = endpoint_partitions.endpoint
    return schema.EndpointToPartitions(
        user_endpoint=schema.Endpoint(host=host, port=port),
        active_partitions=partitions(endpoint_partitions.active),
        standby_partitions=partitions(endpoint_partitions.standby),
    )


_ERRORS_WITHOUT_TEXT: Final = frozenset(
    {
        ErrorCode.unknown_server_error,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
"""Errors that are answered without a message: missing coordinators and internal faults."""


def _failure(request: Request, refusal: Rejection) -> Reply:
    reason = "" if refusal.error in _ERRORS_WITHOUT_TEXT else refusal.reason
    return request.answer(
        error_code=refusal.error,
        error_message=reason or None,
        member_id="",
        member_epoch=0,
        heartbeat_interval=NO_THROTTLE,
        acceptable_recovery_lag=-1 if request.api_version > 0 else 0,
        task_offset_interval=NO_THROTTLE,
        status=(),
        active_tasks=None,
        standby_tasks=None,
        warmup_tasks=None,
        topology_description_required=False,
        endpoint_information_epoch=0,
        partitions_by_user_endpoint=None,
    )
