"""ElectLeaders v0 to v2: the preferred leader comes back; who is told of what."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api
from txnsim.errors import ErrorCode
from txnsim.types import BrokerId, TopicPartition

P1 = TopicPartition("orders", 1)
"""Led by broker 2 of three, which is its preferred replica."""


def elect(*partitions: int, kind: int = 0, topic: str = "orders") -> dict[str, Any]:
    wanted = [{"topic": topic, "partitions": list(partitions)}]
    return {"election_type": kind, "topic_partitions": wanted, "timeout": 1_000}


def errors(answer: Any) -> list[tuple[str, int, ErrorCode]]:
    return [
        (result.topic, one.partition_id, one.error_code)
        for result in answer.replica_election_results
        for one in result.partition_result
    ]


def leader(api: Api) -> tuple[int, int]:
    found = api.broker.image.partition(P1)
    assert found is not None
    return found.leader, found.leader_epoch


@pytest.mark.parametrize("version", range(3))
async def test_the_preferred_leader_comes_back(api_of_three: Api, version: int) -> None:
    api = api_of_three
    api.cluster.move_leader(P1, BrokerId(3))
    answer = await api.ask("ElectLeaders", version, **elect(1))
    assert errors(answer) == [("orders", 1, ErrorCode.none)]
    assert leader(api) == (2, 2)
    assert P1 in api.at(2).broker.replicas.led
    again = await api.ask("ElectLeaders", version, **elect(1))
    assert errors(again) == [("orders", 1, ErrorCode.election_not_needed)]
    assert leader(api) == (2, 2)


async def test_all_partitions_that_needed_an_election_are_answered(api_of_three: Api) -> None:
    api_of_three.cluster.move_leader(P1, BrokerId(3))
    values = {**elect(), "topic_partitions": None}
    answer = await api_of_three.ask("ElectLeaders", 2, **values)
    assert errors(answer) == [("orders", 1, ErrorCode.none)]
    assert leader(api_of_three)[0] == 2


@pytest.mark.parametrize("version", range(3))
async def test_refuse(api: Api, version: int) -> None:
    answer = api.refuse("ElectLeaders", version, ErrorCode.not_controller, **elect(0))
    assert errors(answer) == [("orders", 0, ErrorCode.not_controller)]
    values = {**elect(), "topic_partitions": None}
    assert errors(api.refuse("ElectLeaders", version, ErrorCode.not_controller, **values)) == []


async def test_subject(api: Api) -> None:
    assert [str(one) for one in api.subject("ElectLeaders", 2, **elect(0, 2)).partitions] == [
        "orders-0",
        "orders-2",
    ]
