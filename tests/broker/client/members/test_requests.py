from __future__ import annotations

from uuid import UUID

import pytest

from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members.requests import (
    consumer_group_heartbeat,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    sync_group,
)
from txnsim.client.versions import Request
from txnsim.types import TopicPartition
from txnsim.wire import codec

MEMBER = GroupMetadata(generation=3, member_id="m", instance_id="one")
TOPIC = UUID(int=7)
REQUESTS = [
    join_group(
        "g", MEMBER, subscription=b"s", session_timeout_ms=45_000, rebalance_timeout_ms=300_000
    ),
    sync_group("g", MEMBER, assignments={"m": b"a"}),
    heartbeat("g", MEMBER),
    leave_group("g", MEMBER),
    consumer_group_heartbeat("g", MEMBER, joining=(("t",), 300_000), owned={TOPIC: (1, 0)}),
    consumer_group_heartbeat("g", MEMBER),
    offset_commit("g", MEMBER, {TopicPartition("t", 1): 5, TopicPartition("t", 0): 4}),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: one.api.name)
def test_each_request_is_made_in_every_version_that_is_ours(request_: Request) -> None:
    versions = request_.api.ours
    for version in range(versions.lowest, versions.highest + 1):
        message = request_.build(codec.request_schema(request_.api, version))
        assert codec.encode_request(request_.api, version, 1, "c", message)


def test_who_leaves_and_who_commits() -> None:
    old = REQUESTS[3].build(codec.request_schema(REQUESTS[3].api, 2))
    new = REQUESTS[3].build(codec.request_schema(REQUESTS[3].api, 5))
    assert old.member_id == "m"
    assert [(row.member_id, row.group_instance_id) for row in new.members] == [("m", "one")]
    commit = REQUESTS[6].build(codec.request_schema(REQUESTS[6].api, 9))
    assert (commit.generation_id_or_member_epoch, commit.member_id) == (3, "m")
    assert [row.committed_offset for row in commit.topics[0].partitions] == [5, 4]


def test_a_consumer_says_what_it_owns_only_where_it_has_changed() -> None:
    joins, beats = (one.build(codec.request_schema(one.api, 1)) for one in REQUESTS[4:6])
    assert joins.subscribed_topic_names == ("t",)
    assert [(row.topic_id, row.partitions) for row in joins.topic_partitions] == [(TOPIC, (0, 1))]
    assert (beats.subscribed_topic_names, beats.topic_partitions) == (None, None)
