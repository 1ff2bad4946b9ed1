"""Members of share groups, in virtual time (KIP-932)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within_environment import within
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.members.membership import MemberOptions
from txnsim.client.members.share import Acknowledge, ShareAnswers, ShareMember, _ranges
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)
ALL = frozenset({ORDERS_0})
one_partition = within(run_cluster, topics=(("orders", 1),))
CONFIGS = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}


@asynccontextmanager
async def member(cluster: VirtualCluster, name: str) -> AsyncIterator[ShareMember]:
    """A member of the share group ``s`` that is assigned all partitions."""
    async with cluster.client(name) as client:
        for config, config_value in CONFIGS.items():
            await Admin(client).set_group_config("s", config, config_value)
        share_member = ShareMember(client, MemberOptions(group_id="s", member_id=f"id-{name}"))
        await share_member.subscribe(["orders"], until=ALL)
        yield share_member
        await share_member.close()


async def write(
    cluster: VirtualCluster, *record_values: str, committed: bool | None = None
) -> None:
    """Write records to partition 0, in a transaction if ``committed`` says how it ends."""
    transactional_id = None if committed is None else "app"
    async with (
        cluster.client("writer") as client,
        Producer(client, transactional_id=transactional_id) as producer,
    ):
        if committed is not None:
            await producer.init_transactions()
            producer.begin()
        for record_value in record_values:
            await producer.send("orders", 0, record_value.encode())
        if committed is not None:
            await (producer.commit if committed else producer.abort)()


async def poll_values(member: ShareMember) -> list[tuple[str, int]]:
    """The values that a poll returns, with their delivery counts."""
    return values_and_counts(await member.poll(max_wait_ms=500))


def values_and_counts(share_answers: ShareAnswers) -> list[tuple[str, int]]:
    return [
        (bytes(record.value or b"").decode(), count)
        for acquired in share_answers.acquired
        for record, count in acquired.records
    ]


@one_partition
async def test_a_record_is_one_members_until_it_says_what_becomes_of_it(
    cluster: VirtualCluster,
) -> None:
    async with member(cluster, "a") as a, member(cluster, "b") as b:
        await write(cluster, "kept", "again", "never")
        assert await poll_values(a) == [("kept", 1), ("again", 1), ("never", 1)]
        assert await poll_values(b) == []
        a.acknowledge(ORDERS_0, [0])
        a.acknowledge(ORDERS_0, [1], "release")
        a.acknowledge(ORDERS_0, [2], "reject")
        commit_answers = await a.commit()
        assert commit_answers.error is ErrorCode.none
        assert [
            (acknowledgement.first_offset, acknowledgement.type)
            for acknowledgement in commit_answers.acknowledged_ranges
        ] == [
            (0, Acknowledge.ACCEPT),
            (1, Acknowledge.RELEASE),
            (2, Acknowledge.REJECT),
        ]
        assert await poll_values(b) == [("again", 2)]


@one_partition
async def test_what_was_said_goes_with_the_next_poll(cluster: VirtualCluster) -> None:
    async with member(cluster, "a") as a:
        await write(cluster, "first")
        assert await poll_values(a) == [("first", 1)]
        a.acknowledge(ORDERS_0, [0], "release")
        poll_answers = await a.poll(max_wait_ms=500)
        assert [acknowledgement.error for acknowledgement in poll_answers.acknowledged_ranges] == [
            ErrorCode.none
        ]
        assert values_and_counts(poll_answers) == [("first", 2)]


@one_partition
async def test_markers_and_aborted_records_are_not_for_applications(
    cluster: VirtualCluster,
) -> None:
    async with member(cluster, "a") as a:
        await write(cluster, "aborted", committed=False)
        await write(cluster, "committed", committed=True)
        assert await poll_values(a) == [("committed", 1)]
        a.acknowledge(ORDERS_0, [2])
        commit_answers = await a.commit()
        assert [
            (acknowledgement.first_offset, acknowledgement.error)
            for acknowledgement in commit_answers.acknowledged_ranges
        ] == [(2, ErrorCode.none)]
        assert not a._queued_acknowledgements


@one_partition
async def test_who_leaves_or_loses_its_connection_gives_up_its_records(
    cluster: VirtualCluster,
) -> None:
    async with member(cluster, "b") as b:
        async with member(cluster, "a") as a:
            await write(cluster, "work")
            assert await poll_values(a) == [("work", 1)]
        assert await poll_values(b) == [("work", 2)]  # the connection of a is closed
        await b.leave()
        async with member(cluster, "c") as c:
            assert await poll_values(c) == [("work", 3)]


@one_partition
async def test_a_lock_is_renewed(cluster: VirtualCluster) -> None:
    async with member(cluster, "a") as a, member(cluster, "b") as b:
        await write(cluster, "long work")
        assert await poll_values(a) == [("long work", 1)]
        for _ in range(3):
            cluster.advance(0)
            a.acknowledge(ORDERS_0, [0], "renew")
            assert (await a.commit()).error is ErrorCode.none
        assert await poll_values(b) == []


@one_partition
async def test_a_new_leader_knows_no_session(cluster: VirtualCluster) -> None:
    async with member(cluster, "a") as a:
        await write(cluster, "work")
        assert await poll_values(a) == [("work", 1)]
        cluster.move(ORDERS_0)
        a.acknowledge(ORDERS_0, [0])
        commit_answers = await a.commit()
        assert commit_answers.error is ErrorCode.unknown_topic_or_partition
        assert await poll_values(a) == []  # its metadata are those of before
        assert [record_value for record_value, _ in await poll_values(a)] == ["work"]


@one_partition
async def test_the_coordinator_may_refuse_a_member(cluster: VirtualCluster) -> None:
    async with cluster.client("a") as client:
        a = ShareMember(client, MemberOptions(group_id="", member_id="id-a"))
        with pytest.raises(ClientError, match="ShareGroupHeartbeat of group ''"):
            await a.subscribe(["orders"])
        await a.close()


def test_offsets_are_said_in_ranges() -> None:
    assert list(_ranges([5, 1, 2, 3, 7, 8])) == [(1, 3), (5, 5), (7, 8)]
    assert list(_ranges([])) == []
