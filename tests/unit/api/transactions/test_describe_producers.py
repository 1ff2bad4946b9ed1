"""DescribeProducers v0: the producer state of partitions, any replica's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import STAMP_MS, Api, batch, produce, transaction
from txnsim.errors import ErrorCode


def values(name: str, *partitions: int) -> dict[str, Any]:
    return {"topics": [{"name": name, "partition_indexes": partitions}]}


async def test_every_producer_is_listed_open_or_not(api: Api) -> None:
    pid, epoch = await api.producer("id")
    await api.ask("AddPartitionsToTxn", 3, **transaction("id", (pid, epoch), {"orders": [0]}))
    idle = (await api.producer())[0]
    for records, name in (
        (batch(producer_id=idle, producer_epoch=0, base_sequence=0), None),
        (
            batch(
                b"a",
                b"b",
                producer_id=pid,
                producer_epoch=epoch,
                base_sequence=0,
                transactional=True,
            ),
            "id",
        ),
    ):
        await api.ask("Produce", 11, **produce("orders", records, transactional_id=name))
    answer = await api.ask("DescribeProducers", 0, **values("orders", 0))
    (partition,) = answer.topics[0].partitions
    found = {one.producer_id: one for one in partition.active_producers}
    assert set(found) == {pid, idle}
    assert found[idle].current_txn_start_offset == -1
    opened = found[pid]
    assert (opened.producer_epoch, opened.last_sequence) == (epoch, 1)
    assert (opened.last_timestamp, opened.coordinator_epoch) == (STAMP_MS, -1)
    assert opened.current_txn_start_offset == 1


@pytest.mark.parametrize(
    ("name", "partition", "error", "words"),
    [
        ("missing", 0, ErrorCode.unknown_topic_or_partition, "does not host this topic-partition"),
        ("orders", 9, ErrorCode.unknown_topic_or_partition, None),
        ("orders", -1, ErrorCode.unknown_topic_or_partition, None),
        ("a b", 0, ErrorCode.invalid_topic_exception, "Topic name is invalid: 'a b' contains"),
        ("", 0, ErrorCode.invalid_topic_exception, "the empty string is not allowed"),
    ],
)
async def test_what_is_not_there(
    api: Api, name: str, partition: int, error: ErrorCode, words: str | None
) -> None:
    answer = await api.ask("DescribeProducers", 0, **values(name, partition))
    (found,) = answer.topics[0].partitions
    assert found.error_code is error
    assert (words or "") in (found.error_message or "")
    assert (found.error_message is None) == (words is None)


async def test_a_follower_answers_too(api_of_three: Api) -> None:
    answer = await api_of_three.ask("DescribeProducers", 0, **values("orders", 0, 1, 2))
    assert {one.error_code for one in answer.topics[0].partitions} == {ErrorCode.none}


async def test_refusal_and_subject(api: Api) -> None:
    wanted = values("orders", 0, 1)
    refused = api.refuse("DescribeProducers", 0, ErrorCode.request_timed_out, **wanted)
    assert {one.error_code for one in refused.topics[0].partitions} == {ErrorCode.request_timed_out}
    about = api.subject("DescribeProducers", 0, **wanted)
    assert [str(one) for one in about.partitions] == ["orders-0", "orders-1"]
