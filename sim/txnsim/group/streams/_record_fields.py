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

OURS: Final = {
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


def _pairs(pairs: Iterable[tuple[str, str]] | None) -> Any:
    if pairs is None:
        return None
    return tuple(schema.KeyValue(key=key, value=value) for key, value in pairs)


def _tasks(tasks: Partitions) -> tuple[Any, ...]:
    return tuple(
        schema.TaskIds(
            subtopology_id=name, partitions=tuple(index for _, index in subtopology_tasks)
        )
        for name, subtopology_tasks in groupby(tasks, key=lambda task: task[0])
    )


def _assigned_messages(epochs: Epochs) -> tuple[Any, ...]:
    assigned_tasks = []
    for name, subtopology_epochs in groupby(epochs, key=lambda entry: entry[0]):
        entries = list(subtopology_epochs)
        assigned_tasks.append(
            schema.AssignedTasks(
                subtopology_id=name,
                partitions=tuple(index for _, index, _ in entries),
                assignment_epochs=tuple(epoch for _, _, epoch in entries),
            )
        )
    return tuple(assigned_tasks)


def _endpoint(endpoint: tuple[str, int] | None) -> Any:
    return None if endpoint is None else schema.Endpoint(host=endpoint[0], port=endpoint[1])


def _topics(topics: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        schema.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=_pairs(topic.topic_configs),
        )
        for topic in topics
    )


def _subtopologies(parts: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        schema.Subtopology(
            subtopology_id=subtopology.subtopology_id,
            source_topics=subtopology.source_topics,
            source_topic_regex=subtopology.source_topic_regex,
            state_changelog_topics=_topics(subtopology.state_changelog_topics),
            repartition_sink_topics=subtopology.repartition_sink_topics,
            repartition_source_topics=_topics(subtopology.repartition_source_topics),
            copartition_groups=tuple(
                schema.CopartitionGroup(
                    source_topics=group.source_topics,
                    source_topic_regex=group.source_topic_regex,
                    repartition_source_topics=group.repartition_source_topics,
                )
                for group in subtopology.copartition_groups
            ),
        )
        for subtopology in parts
    )


WRITTEN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "active_tasks": _tasks,
    "active_tasks_pending_revocation": _assigned_messages,
    "assigned_active_tasks": _assigned_messages,
    "client_tags": _pairs,
    "last_assignment_configs": _pairs,
    "standby_tasks": _tasks,
    "standby_tasks_pending_revocation": _tasks,
    "subtopologies": _subtopologies,
    "user_endpoint": _endpoint,
    "warmup_tasks": _tasks,
    "warmup_tasks_pending_revocation": _tasks,
}
"""Field of a message -> conversion from the record's field."""


def _sorted_pairs(pairs: Iterable[Any] | None) -> tuple[tuple[str, str], ...] | None:
    return None if pairs is None else tuple(sorted((pair.key, pair.value) for pair in pairs))


def _partitions(tasks: Iterable[Any]) -> Partitions:
    return tuple(
        sorted(
            (task_ids.subtopology_id, index) for task_ids in tasks for index in task_ids.partitions
        )
    )


def _epochs(tasks: Iterable[Any], member_epoch: int) -> Epochs:
    """Tasks with their epochs; if a record has none, or too few, the member's epoch applies."""
    task_epochs: list[tuple[str, int, int]] = []
    for task_ids in tasks:
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


READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "active_tasks": lambda value: _partitions(value.active_tasks),
    "active_tasks_pending_revocation": lambda value: _epochs(
        value.active_tasks_pending_revocation, value.member_epoch
    ),
    "assigned_active_tasks": lambda value: _epochs(value.assigned_active_tasks, value.member_epoch),
    "client_tags": lambda value: _sorted_pairs(value.client_tags),
    "last_assignment_configs": lambda value: _sorted_pairs(value.last_assignment_configs),
    "standby_tasks": lambda value: _partitions(value.standby_tasks),
    "standby_tasks_pending_revocation": lambda value: _partitions(
        value.standby_tasks_pending_revocation
    ),
    "subtopologies": lambda value: tuple(map(subtopology_of, value.subtopologies)),
    "user_endpoint": lambda value: _endpoint_of(value.user_endpoint),
    "warmup_tasks": lambda value: _partitions(value.warmup_tasks),
    "warmup_tasks_pending_revocation": lambda value: _partitions(
        value.warmup_tasks_pending_revocation
    ),
}
"""Field of a message -> conversion to the record's value; it gets the whole message."""
