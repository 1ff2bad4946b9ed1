"""CreateTopics v2 to v7: what is told back, what is only checked, every refusal with its words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api, handlers
from txnsim.errors import ErrorCode


def topic(name: str = "new", **changes: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 2, "replication_factor": 1, **changes}


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_creates_and_tells_what_it_can(api: Api, version: int) -> None:
    wanted = topic(configs=[{"name": "retention.ms", "value": "5"}])
    answer = await api.ask("CreateTopics", version, topics=[wanted])
    (made,) = answer.topics
    assert (made.name, made.error_code, made.error_message) == ("new", ErrorCode.none, None)
    image = api.broker.image.topics["new"]
    assert len(image.partitions) == 2
    assert image.configs == {"retention.ms": "5"}
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (2, 1)
        told = {one.name: (one.value, one.config_source) for one in made.configs}
        assert told["retention.ms"] == ("5", 1)
        assert told["segment.bytes"] == ("1073741824", 5)
        assert told["min.insync.replicas"] == ("1", 3)
    if version >= 7:
        assert made.topic_id == image.topic_id


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_check_creates_nothing(api: Api, version: int) -> None:
    answer = await api.ask("CreateTopics", version, topics=[topic()], validate_only=True)
    assert answer.topics[0].error_code is ErrorCode.none
    again = await api.ask("CreateTopics", version, topics=[topic("orders")], validate_only=True)
    assert again.topics[0].error_code is ErrorCode.topic_already_exists
    assert "new" not in api.broker.image.topics


async def test_defaults_come_from_the_settings() -> None:
    async with handlers(brokers=3, num_partitions=4, default_replication_factor=2) as api:
        wanted = topic(num_partitions=-1, replication_factor=-1)
        (made,) = (await api.ask("CreateTopics", 7, topics=[wanted])).topics
        assert (made.num_partitions, made.replication_factor) == (4, 2)


OWN = {"partition_index": 0, "broker_ids": [1]}
BY_HAND: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1}


@pytest.mark.parametrize(
    ("wanted", "error", "words"),
    [
        (topic(""), ErrorCode.invalid_topic_exception, "the empty string is not allowed"),
        (topic("a b"), ErrorCode.invalid_topic_exception, "Topic name is invalid: 'a b' contains"),
        (topic("__cluster_metadata"), ErrorCode.invalid_request, "is prohibited"),
        (topic("orders"), ErrorCode.topic_already_exists, "Topic 'orders' already exists."),
        (topic(num_partitions=0), ErrorCode.invalid_partitions, "invalid non-positive value"),
        (
            topic(num_partitions=0, replication_factor=0),
            ErrorCode.invalid_replication_factor,
            "must be larger than 0, or -1 to use the default",
        ),
        (
            topic(replication_factor=2),
            ErrorCode.invalid_replication_factor,
            "because only 1 broker(s) are registered or some brokers have all",
        ),
        (topic(assignments=[OWN]), ErrorCode.invalid_request, "replication factor was not set"),
        (
            topic(assignments=[OWN], replication_factor=-1),
            ErrorCode.invalid_request,
            "numPartitions was not set",
        ),
        (
            topic(assignments=[OWN, OWN], **BY_HAND),
            ErrorCode.invalid_replica_assignment,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            topic(assignments=[{**OWN, "partition_index": 1}], **BY_HAND),
            ErrorCode.invalid_replica_assignment,
            "consecutive 0-based",
        ),
        (
            topic(assignments=[{**OWN, "broker_ids": [9]}], **BY_HAND),
            ErrorCode.invalid_replica_assignment,
            "no such broker is registered",
        ),
        (
            topic(configs=[{"name": "nonsense", "value": "1"}]),
            ErrorCode.invalid_config,
            "Unknown topic config name: nonsense",
        ),
        (
            topic(configs=[{"name": "retention.ms", "value": None}]),
            ErrorCode.invalid_config,
            "Null value not supported for topic configs: retention.ms",
        ),
    ],
)
@pytest.mark.parametrize("version", [4, 7])
async def test_refusals(
    api: Api, version: int, wanted: dict[str, Any], error: ErrorCode, words: str
) -> None:
    before = set(api.broker.image.topics)
    (refused,) = (await api.ask("CreateTopics", version, topics=[wanted])).topics
    assert refused.error_code is error
    assert words in refused.error_message
    assert set(api.broker.image.topics) == before
    if version >= 5:
        assert (refused.num_partitions, refused.replication_factor) == (-1, -1)
        assert refused.configs == ()


async def test_one_topic_does_not_hinder_another_but_itself(api: Api) -> None:
    wanted = [topic("twice"), topic("twice"), topic("good"), topic("bad", num_partitions=0)]
    answer = await api.ask("CreateTopics", 7, topics=wanted)
    found = {one.name: one.error_code for one in answer.topics}
    assert found == {
        "twice": ErrorCode.invalid_request,
        "good": ErrorCode.none,
        "bad": ErrorCode.invalid_partitions,
    }


async def test_refusing_names_every_topic(api: Api) -> None:
    error = ErrorCode.request_timed_out
    answer = api.refuse("CreateTopics", 7, error, topics=[topic("a"), topic("b")])
    assert [(one.name, one.error_code) for one in answer.topics] == [("a", error), ("b", error)]
