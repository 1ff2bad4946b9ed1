"""OffsetForLeaderEpoch v2 to v4: refusal and subject; the casebook has its answers."""

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


async def test_refusal_and_subject(moved: Api) -> None:
    error = ErrorCode.request_timed_out
    assert found(moved.refuse("OffsetForLeaderEpoch", 2, error, **values(0)))[0] is error
    about = moved.subject("OffsetForLeaderEpoch", 2, **values(0))
    assert [str(one) for one in about.partitions] == ["orders-0"]
