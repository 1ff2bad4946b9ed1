"""Requests about positions can be encoded at every version they may be sent in."""

from __future__ import annotations

import pytest

from txnsim.client import group_requests
from txnsim.client.versions import Api, Request
from txnsim.types import TopicPartition
from txnsim.wire import codec

P0, P1, Q0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ALL = {
    "coordinator": group_requests.find_group_coordinator("g"),
    "add": group_requests.add_offsets_to_txn("a", producer_id=1, producer_epoch=2, group_id="g"),
    "commit": group_requests.txn_offset_commit(
        "a", producer_id=1, producer_epoch=2, group_id="g", offsets={P0: 3, Q0: 4, P1: 5}
    ),
    "fetch": group_requests.offset_fetch("g", (P0, Q0), stable=False),
    "stable": group_requests.offset_fetch("g", (P0, Q0), stable=True),
}


@pytest.mark.parametrize("request_", ALL.values(), ids=ALL)
def test_they_can_be_sent_in_every_version(request_: Request) -> None:
    ours = request_.api.ours
    lowest = max(ours.lowest, request_.within.lowest)
    highest = min(ours.highest, request_.within.highest)
    assert lowest <= highest
    for version in range(lowest, highest + 1):
        message = request_.build(codec.request_schema(request_.api, version))
        assert codec.encode_request(request_.api, version, 1, "c", message)


def test_positions_are_grouped_by_topic() -> None:
    message = ALL["commit"].build(codec.request_schema(Api.TXN_OFFSET_COMMIT, 3))
    found = {
        (topic.name, row.partition_index): row.committed_offset
        for topic in message.topics
        for row in topic.partitions
    }
    assert found == {("t", 0): 3, ("t", 1): 5, ("u", 0): 4}


def test_only_a_version_that_can_say_so_is_asked_for_stable_positions() -> None:
    assert ALL["stable"].within.lowest == 7
    assert ALL["fetch"].within.lowest < 7
