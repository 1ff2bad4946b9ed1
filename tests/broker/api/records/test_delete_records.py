"""DeleteRecords v0 to v2: it waits for followers; the casebook has its answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.broker_api import Api, batch, produce
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
async def api_with_records(api: Api) -> Api:
    """The api with five records in orders-0."""
    await api.ask("Produce", 8, **produce("orders", batch(*[b"v"] * 5)))
    return api


async def test_refusal_and_subject(api_with_records: Api) -> None:
    refusal_answer = api_with_records.refuse(
        "DeleteRecords", 1, ErrorCode.request_timed_out, **values(3)
    )
    assert result(refusal_answer) == (-1, ErrorCode.request_timed_out)
    subject = api_with_records.subject("DeleteRecords", 1, **values(3))
    assert [str(partition) for partition in subject.partitions] == ["orders-0"]


async def test_it_is_answered_when_the_followers_have_deleted(api_of_three: Api) -> None:
    api = api_of_three
    for _ in range(3):
        await api.ask("Produce", 8, **produce("orders", batch()))
    topic = {"name": "orders", "partitions": [{"partition_index": 0, "offset": 2}]}
    answer = await api.ask("DeleteRecords", 2, topics=[topic], timeout=5_000)
    (deleted,) = answer.topics[0].partitions
    assert (deleted.error_code, deleted.low_watermark) == (ErrorCode.none, 2)
    topic_partition = TopicPartition("orders", 0)
    assert [
        api.on_broker(broker_id).broker.replicas.hosted[topic_partition].log_start_offset
        for broker_id in (1, 2, 3)
    ] == [2, 2, 2]
