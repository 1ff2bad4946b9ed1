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
    "A request that adds more than 10,000 partitions is refused as a whole, as of Apache Kafka 4.4;"
    " 4.3.1 adds as many as there is room for, and answers UNKNOWN_SERVER_ERROR for the topic that"
    " is too much.",
)


async def handle(request: Request) -> Reply:
    """Grow each topic by itself, or only check it."""
    if request.has_no_time:
        return refuse(request, ErrorCode.request_timed_out)
    topics, image = request.message.topics, request.broker.metadata.image
    # Topics that are named twice are refused ahead of everything else.
    name_counts = Counter(topic.name for topic in topics)
    repeated_names = [topic_name for topic_name, count in name_counts.items() if count > 1]
    topic_rows = [
        _topic_row(request, topic_name, invalid("Duplicate topic name."))
        for topic_name in repeated_names
    ]
    refusal = partition_growth.refuse_many(
        image, [(topic.name, topic.count) for topic in topics if name_counts[topic.name] == 1]
    )
    if refusal is not None:
        return _refuse_all(request, refusal)
    grown_topics: list[TopicImage] = []
    for topic in topics:
        if name_counts[topic.name] == 1:
            grown_topic = _grow_topic(topic, image)
            if isinstance(grown_topic, TopicImage):
                grown_topics.append(grown_topic)
            topic_rows.append(_topic_row(request, topic.name, grown_topic))
    if not request.message.validate_only:
        request.broker.metadata.publish(image.with_topics(grown_topics))
    return request.answer(results=tuple(topic_rows))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every topic."""
    return _refuse_all(request, Rejection(error=error, reason=""))


def _refuse_all(request: Request, rejection: Rejection) -> Reply:
    return request.answer(
        results=tuple(
            _topic_row(request, topic.name, rejection) for topic in request.message.topics
        )
    )


def _grow_topic(topic: Any, image: ClusterImage) -> TopicImage | Rejection:
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
    )


def _topic_row(request: Request, topic_name: str, outcome: TopicImage | Rejection) -> Any:
    return request.schema.CreatePartitionsTopicResult(name=topic_name, **error_fields(outcome))
