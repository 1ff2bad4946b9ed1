"""Subjects of requests, for fault plans: the transactional ids and partitions that a request is
about.

Used only while a rule is armed or a request is traced. A topic with an unknown id has an empty name
here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from txnsim.api._topics import partitions_below
from txnsim.api.request import Request
from txnsim.faults.subjects import NO_SUBJECT, Subject
from txnsim.types import TopicPartition

_TOPIC_NAME_FIELDS: Final = ("topic", "name", "topic_name")
"""The fields under which requests name a topic."""


def subject_of_transactions(transactional_ids: Iterable[str]) -> Subject:
    """The subject of a request about several transactional ids: each of them counts."""
    subjects = [
        Subject(transactional_id=transactional_id) for transactional_id in transactional_ids
    ]
    if len(subjects) < 2:
        return subjects[0] if subjects else NO_SUBJECT
    return Subject(
        transactional_id=subjects[0].transactional_id, other_subjects=tuple(subjects[1:])
    )


def subject_of_topics(request: Request) -> Subject:
    """The subject of a request that names partitions below ``topics``."""
    return Subject(partitions=partitions_named(request, request.message.topics))


def partitions_named(request: Request, topics: Iterable[Any] | None) -> tuple[TopicPartition, ...]:
    return tuple(
        [
            TopicPartition(_topic_name(request, topic), _partition_index(partition))
            for topic in topics or ()
            for partition in partitions_below(topic)
        ]
    )


def _topic_name(request: Request, topic: Any) -> str:
    topic_id = getattr(topic, "topic_id", None)
    if topic_id is not None:
        return request.broker.image.topic_names.get(topic_id, "")
    # Without a name it has the zero id, which the codec reads as None.
    name_fields = (name_field for name_field in _TOPIC_NAME_FIELDS if hasattr(topic, name_field))
    return next((str(getattr(topic, name_field)) for name_field in name_fields), "")


def _partition_index(partition: Any) -> int:
    if isinstance(partition, int):
        return partition
    has_short_name = hasattr(partition, "partition")
    return int(partition.partition if has_short_name else partition.partition_index)
