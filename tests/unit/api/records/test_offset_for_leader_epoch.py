"""OffsetForLeaderEpoch v2 to v4: where an epoch ended."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api, batch, produce
from txnsim.errors import ErrorCode
from txnsim.types import BrokerId, TopicPartition


def values(
    epoch: int, *, name: str = "orders", partition: int = 0, current: int = -1
) -> dict[str, Any]:
    wanted = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    return {"replica_id": -1, "topics": [{"topic": name, "partitions": [wanted]}]}


def found(answer: Any) -> tuple[ErrorCode, int, int]:
    (one,) = answer.topics[0].partitions
    return one.error_code, one.leader_epoch, one.end_offset


@pytest.fixture
async def moved(api_of_three: Api) -> Api:
    """orders-0 with two records of epoch 0, led by broker 2 under epoch 1 with one more; asked at
    broker 2.
    """
    api = api_of_three
    await api.ask("Produce", 8, **produce("orders", batch(b"a", b"b")))
    api.cluster.move_leader(TopicPartition("orders", 0), BrokerId(2))
    await api.at(2).ask("Produce", 8, **produce("orders", batch(b"c")))
    return api.at(2)


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("epoch", "expected"), [(-1, (-1, -1)), (0, (0, 2)), (1, (1, 3)), (2, (-1, -1))]
)
async def test_epochs(moved: Api, version: int, epoch: int, expected: tuple[int, int]) -> None:
    answer = await moved.ask("OffsetForLeaderEpoch", version, **values(epoch))
    assert found(answer) == (ErrorCode.none, *expected)


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (values(0, name="missing"), ErrorCode.unknown_topic_or_partition),
        (values(0, partition=9), ErrorCode.unknown_topic_or_partition),
        (values(0, partition=2), ErrorCode.not_leader_or_follower),
        (values(0, current=0), ErrorCode.fenced_leader_epoch),
        (values(0, current=2), ErrorCode.unknown_leader_epoch),
    ],
)
async def test_refusals(moved: Api, version: int, wanted: dict[str, Any], error: ErrorCode) -> None:
    answer = await moved.ask("OffsetForLeaderEpoch", version, **wanted)
    assert found(answer) == (error, -1, -1)


async def test_refusal_and_subject(moved: Api) -> None:
    error = ErrorCode.request_timed_out
    assert found(moved.refuse("OffsetForLeaderEpoch", 2, error, **values(0)))[0] is error
    about = moved.subject("OffsetForLeaderEpoch", 2, **values(0))
    assert [str(one) for one in about.partitions] == ["orders-0"]
