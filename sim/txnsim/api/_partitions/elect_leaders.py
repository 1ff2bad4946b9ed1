"""ElectLeaders (key 43): make the preferred replica the leader, or any replica of a leaderless
partition.

Versions: 0 preferred only, 1 election types (KIP-460) and a top-level error, 2 is flexible. A
request without partitions means all of them; its answer lists only those that needed an election.
Kafka's counterpart: ReplicationControlManager.electLeaders.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from txnsim.api._topics import answered_topics
from txnsim.api.request import ELEMENTS_PER_CHANGE, Reply, Request, error_fields
from txnsim.controller.elections import NOT_NEEDED, ElectionType, elect_leader
from txnsim.errors import ErrorCode, Rejection
from txnsim.faults.subjects import Subject
from txnsim.types import TopicPartition

API_KEY: Final = 43


async def handle(request: Request) -> Reply:
    """Elect a leader for each partition; a failure of one does not affect the others."""
    if request.has_no_time and request.message.topic_partitions != ():
        return refuse(request, ErrorCode.request_timed_out)
    election_number = getattr(request.message, "election_type", ElectionType.PREFERRED)
    try:
        election_type = ElectionType(election_number)
    except ValueError:
        return _refuse(
            request, ErrorCode.invalid_request, f"Unknown election type {election_number}"
        )
    is_all = request.message.topic_partitions is None
    topic_rows = []
    requested_topics = _requested_partitions(request)
    request.expect(len(requested_topics) * ELEMENTS_PER_CHANGE)
    for topic, partitions in requested_topics:
        election_outcomes = await request.map_each(
            partial(_elect, request, election_type, topic),
            partitions,
            weight=ELEMENTS_PER_CHANGE,
        )
        listed_outcomes = [
            outcome for outcome in election_outcomes if not (is_all and outcome[1] is NOT_NEEDED)
        ]
        topic_rows.append(
            (topic, [_partition_row(request, outcome) for outcome in listed_outcomes])
        )
    return _answer(request, ErrorCode.none, topic_rows)


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The answer with the error at the top level and on every partition."""
    return _refuse(request, error, "")


def subject(request: Request) -> Subject:
    """The partitions that fault rules can name."""
    return Subject(
        partitions=tuple(
            TopicPartition(topic, index)
            for topic, partitions in _requested_partitions(request)
            for index in partitions
        )
    )


def _requested_partitions(request: Request) -> list[tuple[str, tuple[int, ...]]]:
    requested_topics = request.message.topic_partitions
    if requested_topics is None:
        topics = request.broker.image.topics.values()
        return [(topic.name, tuple(range(len(topic.partitions)))) for topic in topics]
    return [(topic.topic, topic.partitions) for topic in requested_topics]


def _elect(
    request: Request, election_type: ElectionType, topic: str, index: int
) -> tuple[int, Rejection | None]:
    """Elect a leader for one partition. Return its index, and why its leader stays."""
    metadata = request.broker.metadata
    image_or_rejection = elect_leader(
        metadata.image, TopicPartition(topic, index), election_type, metadata.settings
    )
    if isinstance(image_or_rejection, Rejection):
        return index, image_or_rejection
    metadata.publish(image_or_rejection)
    return index, None


def _refuse(request: Request, error: ErrorCode, reason: str) -> Reply:
    rejection = Rejection(error=error, reason=reason)
    requested_topics = (
        () if request.message.topic_partitions is None else _requested_partitions(request)
    )
    topic_rows = [
        (topic, [_partition_row(request, (index, rejection)) for index in partitions])
        for topic, partitions in requested_topics
    ]
    return _answer(request, error, topic_rows)


def _answer(request: Request, error: ErrorCode, topic_rows: list[tuple[str, list[Any]]]) -> Reply:
    results = answered_topics(
        request.schema.ReplicaElectionResult,
        topic_rows,
        name_field="topic",
        partitions_field="partition_result",
    )
    return request.answer(error_code=error, replica_election_results=results)


def _partition_row(request: Request, outcome: tuple[int, Rejection | None]) -> Any:
    index, rejection = outcome
    return request.schema.PartitionResult(partition_id=index, **error_fields(rejection))
