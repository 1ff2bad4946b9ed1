"""DeleteRecords v0 to v2: where the log then starts, and every refusal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api, batch, produce
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition


def values(offset: int, *, name: str = "orders", partition: int = 0) -> dict[str, Any]:
    return {
        "topics": [{"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}]
    }


def result(answer: Any) -> tuple[int, ErrorCode]:
    (partition,) = answer.topics[0].partitions
    return partition.low_watermark, partition.error_code


@pytest.fixture
async def filled(api: Api) -> Api:
    """The api with five records in orders-0."""
    await api.ask("Produce", 8, **produce("orders", batch(*[b"v"] * 5)))
    return api


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, (0, ErrorCode.none)),
        (3, (3, ErrorCode.none)),
        (5, (5, ErrorCode.none)),
        (-1, (5, ErrorCode.none)),
        (6, (-1, ErrorCode.offset_out_of_range)),
        (-2, (-1, ErrorCode.offset_out_of_range)),
    ],
)
async def test_offsets(
    filled: Api, version: int, offset: int, expected: tuple[int, ErrorCode]
) -> None:
    assert result(await filled.ask("DeleteRecords", version, **values(offset))) == expected


async def test_the_start_never_goes_back(filled: Api) -> None:
    await filled.ask("DeleteRecords", 2, **values(4))
    assert result(await filled.ask("DeleteRecords", 2, **values(1))) == (4, ErrorCode.none)


@pytest.mark.parametrize(
    ("name", "partition", "error"),
    [
        ("missing", 0, ErrorCode.unknown_topic_or_partition),
        ("orders", 9, ErrorCode.unknown_topic_or_partition),
        ("orders", -1, ErrorCode.unknown_topic_or_partition),
        ("__transaction_state", 0, ErrorCode.invalid_topic_exception),
        ("compacted", 0, ErrorCode.policy_violation),
        ("both", 0, ErrorCode.none),
    ],
)
async def test_where_nothing_may_be_deleted(
    filled: Api, name: str, partition: int, error: ErrorCode
) -> None:
    await filled.producer("id")
    for topic, policy in (("compacted", "compact"), ("both", "compact,delete")):
        wanted = {
            "name": topic,
            "num_partitions": 1,
            "replication_factor": 1,
            "configs": [{"name": "cleanup.policy", "value": policy}],
        }
        await filled.ask("CreateTopics", 7, topics=[wanted])
    answer = await filled.ask("DeleteRecords", 2, **values(0, name=name, partition=partition))
    assert result(answer)[1] is error


async def test_only_the_leader_deletes(api_of_three: Api) -> None:
    answer = await api_of_three.ask("DeleteRecords", 2, **values(0, partition=1))
    assert result(answer) == (-1, ErrorCode.not_leader_or_follower)


async def test_a_partition_named_twice_counts_as_named_last(filled: Api) -> None:
    wanted = values(2)
    wanted["topics"][0]["partitions"].append({"partition_index": 0, "offset": 99})
    answer = await filled.ask("DeleteRecords", 2, **wanted)
    assert result(answer) == (-1, ErrorCode.offset_out_of_range)


async def test_refusal_and_subject(filled: Api) -> None:
    refused = filled.refuse("DeleteRecords", 1, ErrorCode.request_timed_out, **values(3))
    assert result(refused) == (-1, ErrorCode.request_timed_out)
    about = filled.subject("DeleteRecords", 1, **values(3))
    assert [str(one) for one in about.partitions] == ["orders-0"]


async def test_it_is_answered_when_the_followers_have_deleted(api_of_three: Api) -> None:
    api = api_of_three
    for _ in range(3):
        await api.ask("Produce", 8, **produce("orders", batch()))
    asked = {"name": "orders", "partitions": [{"partition_index": 0, "offset": 2}]}
    answer = await api.ask("DeleteRecords", 2, topics=[asked], timeout=5_000)
    (deleted,) = answer.topics[0].partitions
    assert (deleted.error_code, deleted.low_watermark) == (ErrorCode.none, 2)
    where = TopicPartition("orders", 0)
    assert [
        api.at(number).broker.replicas.hosted[where].log_start_offset for number in (1, 2, 3)
    ] == [2, 2, 2]
