"""Conversion of fields between the records of streams groups and the messages of
``__consumer_offsets``.

``group.record_kinds`` includes these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from txnsim.group.streams._records import Epochs, Partitions
from txnsim.group.streams.topology import subtopology_of
from txnsim.on_demand_imports import OnDemand

if TYPE_CHECKING:
    from txnsim.wire.messages import streams_group_records as schema
else:
    schema = OnDemand("txnsim.wire.messages.streams_group_records")

OUR_FIELD_NAMES: Final = {
    "active_tasks": "active",
    "active_tasks_pending_revocation": "active_revoked",
    "assigned_active_tasks": "active",
    "last_assignment_configs": "assignment_configs",
    "standby_tasks": "standby",
    "standby_tasks_pending_revocation": "standby_revoked",
    "user_endpoint": "endpoint",
    "warmup_tasks": "warmup",
    "warmup_tasks_pending_revocation": "warmup_revoked",
}
"""Kafka's name of a field -> the name in our records, if it differs."""


def _key_values(keys_and_values: Iterable[tuple[str, str]] | None) -> Any:
    if keys_and_values is None:
        return None
    return tuple(schema.KeyValue(key=key, value=value) for key, value in keys_and_values)


def _task_messages(tasks: Partitions) -> tuple[Any, ...]:
    return tuple(
        schema.TaskIds(
            subtopology_id=subtopology_id, partitions=tuple(index for _, index in subtopology_tasks)
        )
        for subtopology_id, subtopology_tasks in groupby(tasks, key=lambda task: task[0])
    )


def _assigned_messages(epochs: Epochs) -> tuple[Any, ...]:
    assigned_tasks = []
    for subtopology_id, subtopology_epochs in groupby(epochs, key=lambda task_epoch: task_epoch[0]):
        subtopology_task_epochs = list(subtopology_epochs)
        assigned_tasks.append(
            schema.AssignedTasks(
                subtopology_id=subtopology_id,
                partitions=tuple(index for _, index, _ in subtopology_task_epochs),
                assignment_epochs=tuple(epoch for _, _, epoch in subtopology_task_epochs),
            )
        )
    return tuple(assigned_tasks)


def _endpoint_message(endpoint: tuple[str, int] | None) -> Any:
    return None if endpoint is None else schema.Endpoint(host=endpoint[0], port=endpoint[1])


def _topic_messages(topics: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        schema.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=_key_values(topic.topic_configs),
        )
        for topic in topics
    )


def _subtopologies(subtopologies: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        schema.Subtopology(
            subtopology_id=subtopology.subtopology_id,
            source_topics=subtopology.source_topics,
            source_topic_regex=subtopology.source_topic_regex,
            state_changelog_topics=_topic_messages(subtopology.state_changelog_topics),
            repartition_sink_topics=subtopology.repartition_sink_topics,
            repartition_source_topics=_topic_messages(subtopology.repartition_source_topics),
            copartition_groups=tuple(
                schema.CopartitionGroup(
                    source_topics=copartition_group.source_topics,
                    source_topic_regex=copartition_group.source_topic_regex,
                    repartition_source_topics=copartition_group.repartition_source_topics,
                )
                for copartition_group in subtopology.copartition_groups
            ),
        )
        for subtopology in subtopologies
    )


FIELD_WRITERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "active_tasks": _task_messages,
    "active_tasks_pending_revocation": _assigned_messages,
    "assigned_active_tasks": _assigned_messages,
    "client_tags": _key_values,
    "last_assignment_configs": _key_values,
    "standby_tasks": _task_messages,
    "standby_tasks_pending_revocation": _task_messages,
    "subtopologies": _subtopologies,
    "user_endpoint": _endpoint_message,
    "warmup_tasks": _task_messages,
    "warmup_tasks_pending_revocation": _task_messages,
}
"""Field of a message -> conversion from the record's field."""


def _sorted_pairs(keys_and_values: Iterable[Any] | None) -> tuple[tuple[str, str], ...] | None:
    return (
        None
        if keys_and_values is None
        else tuple(sorted((key_value.key, key_value.value) for key_value in keys_and_values))
    )


def _read_tasks(task_messages: Iterable[Any]) -> Partitions:
    return tuple(
        sorted(
            (task_ids.subtopology_id, index)
            for task_ids in task_messages
            for index in task_ids.partitions
        )
    )


def _read_epochs(task_messages: Iterable[Any], member_epoch: int) -> Epochs:
    """Tasks with their epochs; if a record has none, or too few, the member's epoch applies."""
    task_epochs: list[tuple[str, int, int]] = []
    for task_ids in task_messages:
        epochs = task_ids.assignment_epochs
        if epochs is None or len(epochs) != len(task_ids.partitions):
            epochs = (member_epoch,) * len(task_ids.partitions)
        task_epochs += (
            (task_ids.subtopology_id, index, epoch)
            for index, epoch in zip(task_ids.partitions, epochs, strict=True)
        )
    return tuple(sorted(task_epochs))


def _endpoint_of(endpoint: Any) -> tuple[str, int] | None:
    return None if endpoint is None else (endpoint.host, endpoint.port)


FIELD_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "active_tasks": lambda message: _read_tasks(message.active_tasks),
    "active_tasks_pending_revocation": lambda message: _read_epochs(
        message.active_tasks_pending_revocation, message.member_epoch
    ),
    "assigned_active_tasks": lambda message: _read_epochs(
        message.assigned_active_tasks, message.member_epoch
    ),
    "client_tags": lambda message: _sorted_pairs(message.client_tags),
    "last_assignment_configs": lambda message: _sorted_pairs(message.last_assignment_configs),
    "standby_tasks": lambda message: _read_tasks(message.standby_tasks),
    "standby_tasks_pending_revocation": lambda message: _read_tasks(
        message.standby_tasks_pending_revocation
    ),
    "subtopologies": lambda message: tuple(map(subtopology_of, message.subtopologies)),
    "user_endpoint": lambda message: _endpoint_of(message.user_endpoint),
    "warmup_tasks": lambda message: _read_tasks(message.warmup_tasks),
    "warmup_tasks_pending_revocation": lambda message: _read_tasks(
        message.warmup_tasks_pending_revocation
    ),
}
"""Field of a message -> conversion to the record's value; it gets the whole message."""
