"""Requests about partitions can be encoded at every version they may be sent in."""

from __future__ import annotations

import pytest

from txnsim.client import requests
from txnsim.client.versions import VersionedRequest
from txnsim.types import TopicPartition
from txnsim.wire import codec

P0, Q0 = TopicPartition("t", 0), TopicPartition("u", 0)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (requests.delete_records({P0: 3, Q0: -1}, timeout_ms=5), [3, -1]),
        (
            requests.alter_partition_reassignments({P0: (1, 2), Q0: (3,)}, timeout_ms=5),
            [(1, 2), (3,)],
        ),
    ],
)
def test_they_can_be_sent_in_every_version(
    request_: VersionedRequest, expected: list[object]
) -> None:
    own_versions = request_.api.own_range
    for version in range(own_versions.lowest, own_versions.highest + 1):
        message = request_.build(codec.request_schema(request_.api, version))
        assert codec.encode_request(request_.api, version, 1, "c", message)
        rows = [row for topic in message.topics for row in topic.partitions]
        assert [getattr(row, "offset", None) or row.replicas for row in rows] == expected
