"""WriteTxnMarkers v1 and v2: what trips in the middle; the casebook has its answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api
from txnsim.errors import ErrorCode

NONE, STALE, FENCED, FAILED, UNKNOWN = (
    ErrorCode.none,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.transaction_coordinator_fenced,
    ErrorCode.unknown_server_error,
    ErrorCode.unknown_topic_or_partition,
)


def marker(
    pid: int, epoch: int, *partitions: int, coordinator: int = 0, tv: int = 0, name: str = "orders"
) -> dict[str, Any]:
    return {
        "producer_id": pid,
        "producer_epoch": epoch,
        "transaction_result": True,
        "coordinator_epoch": coordinator,
        "transaction_version": tv,
        "topics": [{"name": name, "partition_indexes": partitions}],
    }


def results(answer: Any) -> dict[int, dict[int, ErrorCode]]:
    """Errors by producer id and partition."""
    return {
        one.producer_id: {
            part.partition_index: part.error_code
            for topic in one.topics
            for part in topic.partitions
        }
        for one in answer.markers
    }


async def write(api: Api, version: int, *markers: dict[str, Any]) -> Any:
    return await api.ask("WriteTxnMarkers", version, markers=markers)


@pytest.mark.parametrize("bad", [(-1, 0), (73, -1)])
async def test_a_marker_without_a_producer_fails_the_request_that_it_is_in(
    api: Api, bad: tuple[int, int]
) -> None:
    # KafkaApis throws in the middle: what is before it is written, what is behind it is not.
    answer = await write(
        api, 1, marker(70, 0, 0), marker(70, 0, 1), marker(*bad, 0), marker(71, 0, 0)
    )
    assert results(answer) == {70: {1: FAILED}, bad[0]: {0: FAILED}, 71: {0: FAILED}}
    wanted = {"topics": [{"name": "orders", "partition_indexes": [0, 1]}]}
    described = await api.ask("DescribeProducers", 0, **wanted)
    assert [
        [producer.producer_id for producer in partition.active_producers]
        for partition in described.topics[0].partitions
    ] == [[70], [70]]


async def test_refusal_and_subject(api: Api) -> None:
    wanted = {"markers": [marker(70, 0, 0, 1), marker(71, 0, 2)]}
    refused = api.refuse("WriteTxnMarkers", 2, STALE, **wanted)
    assert results(refused) == {70: {0: STALE, 1: STALE}, 71: {2: STALE}}
    about = api.subject("WriteTxnMarkers", 1, **wanted)
    assert (about.producer_id, about.committed) == (70, True)
    assert [one.producer_id for one in about.others] == [71]
