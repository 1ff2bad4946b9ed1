"""AlterPartitionReassignments v0 and v1: replicas move, and with them what they hold."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.handlers import Api, batch, produce
from txnsim.errors import ErrorCode
from txnsim.faults.subjects import Subject
from txnsim.types import BrokerId, TopicPartition

P0 = TopicPartition("orders", 0)
"""Led by the first of three brokers, which all have it."""


def move(
    replicas: list[int] | None, *, topic: str = "orders", partition: int = 0
) -> dict[str, Any]:
    wanted = [{"partition_index": partition, "replicas": replicas}]
    return {"topics": [{"name": topic, "partitions": wanted}]}


def told(answer: Any) -> tuple[ErrorCode, list[tuple[int, ErrorCode, str | None]]]:
    return answer.error_code, [
        (one.partition_index, one.error_code, one.error_message)
        for topic in answer.responses
        for one in topic.partitions
    ]


DONE = (ErrorCode.none, [(0, ErrorCode.none, None)])


async def until_replicas(api: Api, *replicas: int) -> None:
    for _ in range(2_000):
        found = api.broker.image.partition(P0)
        assert found is not None
        if found.replicas == replicas and not found.is_reassigning:
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"{P0} stays {found}")


async def alone(api: Api) -> None:
    """Only the first broker has it."""
    await api.ask("AlterPartitionReassignments", 1, **move([1]))
    await until_replicas(api, 1)


@pytest.mark.parametrize("version", [0, 1])
async def test_a_partition_moves_with_its_records(api_of_three: Api, version: int) -> None:
    api = api_of_three
    await alone(api)
    assert P0 not in api.at(3).broker.replicas.hosted
    await api.ask("Produce", 9, **produce("orders", batch()))
    assert told(await api.ask("AlterPartitionReassignments", version, **move([3, 2]))) == DONE
    await until_replicas(api, 3, 2)
    assert P0 not in api.broker.replicas.hosted
    moved = api.at(3).broker.replicas.leader(P0)
    assert moved is api.cluster.brokers[BrokerId(3)].replicas.hosted[P0]
    assert moved.high_watermark == 1


async def test_a_reassignment_that_waits_can_be_cancelled(api_of_three: Api) -> None:
    api = api_of_three
    nothing = await api.ask("AlterPartitionReassignments", 1, **move(None))
    assert told(nothing)[1] == [(0, ErrorCode.no_reassignment_in_progress, None)]
    await alone(api)
    await api.cluster.members[BrokerId(3)].kill(lose_unflushed=False)
    assert told(await api.ask("AlterPartitionReassignments", 1, **move([3]))) == DONE
    found = api.broker.image.partition(P0)
    assert found is not None
    assert (found.replicas, found.adding, found.removing) == ((3, 1), (3,), (1,))
    assert told(await api.ask("AlterPartitionReassignments", 1, **move(None))) == DONE
    await until_replicas(api, 1)


async def test_refuse_and_subject(api: Api) -> None:
    error = ErrorCode.not_controller
    answer = api.refuse("AlterPartitionReassignments", 0, error, **move([1]))
    assert told(answer) == (error, [(0, error, None)])
    found = api.subject("AlterPartitionReassignments", 0, **move([1]))
    assert found == Subject(partitions=(P0,))
