"""CreateTopics (key 19): topics with partitions, replicas and configs.

Versions: 4 defaults for partitions and replicas, 5 returns them (and the configs), 6 throttling, 7
topic ids. Kafka's counterparts: ControllerApis.createTopics,
ReplicationControlManager.createTopics.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from txnsim.api._topics import topic_lookup
from txnsim.api.request import Reply, Request, invalid
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import TopicImage
from txnsim.types import BrokerId
from txnsim.wire.codec import build

API_KEY: Final = 19

DEVIATIONS: Final = (
    "A policy for topics is Java code that a broker loads (create.topic.policy.class.name); txnsim "
    "has none, so POLICY_VIOLATION answers only what asks for too much at once.",
)

Outcome = TopicImage | Rejection

ELEMENTS_PER_RESULT: Final = 16
"""Weight of a topic in an answer: it lists all of its configs."""

_NAMED_TWICE: Final = invalid("Duplicate topic name.")


async def handle(request: Request) -> Reply:
    """Create each topic by itself, or only check it."""
    if request.has_no_time:
        return refuse(request, ErrorCode.request_timed_out)
    message = request.message
    name_counts = Counter(topic.name for topic in message.topics)
    unique_topics = [topic for topic in message.topics if name_counts[topic.name] == 1]
    new_topics = await request.map_each(_new_topic, unique_topics)
    creation_outcomes = await request.broker.metadata.create_topics_in_slices(
        new_topics, request.pace_of(len(new_topics)), validate_only=message.validate_only
    )
    outcome_by_topic: dict[str, Outcome] = dict.fromkeys(name_counts, _NAMED_TWICE)
    outcome_by_topic |= zip((topic.name for topic in unique_topics), creation_outcomes, strict=True)
    await request.broker.wait_until_up_to_date()
    return request.answer(
        topics=tuple(
            await request.map_each(
                lambda name_and_outcome: _topic_row(request, *name_and_outcome),
                outcome_by_topic.items(),
                weight=ELEMENTS_PER_RESULT,
            )
        )
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every topic."""
    rejection = Rejection(error=error, reason="")
    return request.answer(
        topics=tuple(_topic_row(request, topic.name, rejection) for topic in request.message.topics)
    )


def _new_topic(topic: Any) -> TopicToCreate:
    return TopicToCreate(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            (assignment.partition_index, tuple(map(BrokerId, assignment.broker_ids)))
            for assignment in topic.assignments
        ),
        configs={config.name: config.value for config in topic.configs},
    )


def _topic_row(request: Request, topic_name: str, outcome: Outcome) -> Any:
    schema = request.schema
    if isinstance(outcome, Rejection):
        return build(
            schema.CreatableTopicResult,
            name=topic_name,
            topic_id=None,
            error_code=outcome.error,
            error_message=outcome.reason or None,
            configs=() if request.api_version >= 5 else None,
        )
    return build(
        schema.CreatableTopicResult,
        name=topic_name,
        topic_id=outcome.topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=len(outcome.partitions),
        replication_factor=len(outcome.partitions[0].replicas),
        configs=_topic_configs(request, outcome),
    )


def _topic_configs(request: Request, topic: TopicImage) -> tuple[Any, ...]:
    if request.api_version < 5:
        return ()
    lookup = topic_lookup(request, topic.configs)
    return tuple(
        request.schema.CreatableTopicConfigs(
            name=config_value.name,
            value=config_value.value,
            read_only=False,
            config_source=config_value.source,
            is_sensitive=False,
        )
        for config_value in map(lookup.controller_value, lookup.broker_names())
    )
