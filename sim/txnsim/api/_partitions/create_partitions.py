"""CreatePartitions (key 37): more partitions for topics that exist.

Versions: 2 is flexible, 3 adds throttling. ``count`` is the total. The new partitions have logs and
leaders before the answer is sent. Kafka's counterparts: ControllerApis.createPartitions,
ReplicationControlManager.createPartitions.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from txnsim.api.request import Reply, Request, error_fields, invalid
from txnsim.controller import partition_growth
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import ClusterImage, TopicImage
from txnsim.types import BrokerId

API_KEY: Final = 37

DEVIATIONS: Final = (
    "Of the topics of one request that would get more than 10,000 partitions together, the one that"
    " is too much gets none; Apache Kafka 4.3.1 gives it as many as there is room for and answers"
    " UNKNOWN_SERVER_ERROR all the same.",
)


async def handle(request: Request) -> Reply:
    """Grow each topic by itself, or only check it."""
    if request.has_no_time:
        return refuse(request, ErrorCode.request_timed_out)
    topics = request.message.topics
    # Topics that are named twice are refused ahead of everything else.
    name_counts = Counter(topic.name for topic in topics)
    repeated_names = [topic_name for topic_name, count in name_counts.items() if count > 1]
    topic_rows = [
        _topic_row(request, topic_name, invalid("Duplicate topic name."))
        for topic_name in repeated_names
    ]
    image, added_replicas = request.broker.metadata.image, 0
    grown_topics: list[TopicImage] = []
    for topic in topics:
        if name_counts[topic.name] == 1:
            grown_topic = _grow_topic(topic, image, records_before=added_replicas)
            if isinstance(grown_topic, TopicImage):
                added_replicas += len(grown_topic.partitions) - len(
                    image.topics[topic.name].partitions
                )
                grown_topics.append(grown_topic)
            topic_rows.append(_topic_row(request, topic.name, grown_topic))
    if not request.message.validate_only:
        request.broker.metadata.publish(image.with_topics(grown_topics))
    return request.answer(results=tuple(topic_rows))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every topic."""
    rejection = Rejection(error=error, reason="")
    return request.answer(
        results=tuple(
            _topic_row(request, topic.name, rejection) for topic in request.message.topics
        )
    )


def _grow_topic(topic: Any, image: ClusterImage, *, records_before: int) -> TopicImage | Rejection:
    assignments = (
        None
        if topic.assignments is None
        else tuple(tuple(map(BrokerId, assignment.broker_ids)) for assignment in topic.assignments)
    )
    return partition_growth.grown_topic(
        image,
        topic.name,
        partition_count=topic.count,
        assignments=assignments,
        records_before=records_before,
    )


def _topic_row(request: Request, topic_name: str, outcome: TopicImage | Rejection) -> Any:
    return request.schema.CreatePartitionsTopicResult(name=topic_name, **error_fields(outcome))
