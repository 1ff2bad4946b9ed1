"""DescribeQuorum v0 to v2: the metadata log, and everything that has no quorum."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api, handlers
from txnsim.errors import ErrorCode

LOG = "__cluster_metadata"


def asked(*partitions: tuple[str, int]) -> list[dict[str, object]]:
    return [
        {"topic_name": name, "partitions": [{"partition_index": index}]}
        for name, index in partitions
    ]


@pytest.mark.parametrize("version", range(3))
async def test_one_voter_and_those_who_follow(version: int) -> None:
    async with handlers(brokers=3) as api:
        answer = await api.at(2).ask("DescribeQuorum", version, topics=asked((LOG, 0)))
        assert answer.error_code is ErrorCode.none
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.none, 1)
        assert [voter.replica_id for voter in partition.current_voters] == [1]
        assert [observer.replica_id for observer in partition.observers] == [2, 3]
        ends = {one.log_end_offset for one in (*partition.current_voters, *partition.observers)}
        assert ends == {partition.high_watermark}
        if version == 2:
            (node,) = answer.nodes
            (listener,) = node.listeners
            assert (node.node_id, listener.name) == (1, "CONTROLLER")
            assert (listener.host, listener.port) == api.broker.image.brokers[1].address(
                "PLAINTEXT"
            )


async def test_an_empty_request_gets_an_empty_answer(api: Api) -> None:
    answer = await api.ask("DescribeQuorum", 2, topics=[])
    assert (answer.error_code, answer.topics, answer.nodes) == (ErrorCode.none, (), ())
