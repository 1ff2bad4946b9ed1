"""Our members of streams groups, in virtual time (KIP-1071)."""

from __future__ import annotations

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within_environment import within
from txnsim.client.admin import Admin
from txnsim.client.errors import ClientError
from txnsim.client.inspection.groups import describe_group
from txnsim.client.members.member import GroupMember
from txnsim.client.members.membership import MemberOptions
from txnsim.client.producer import Producer
from txnsim.types import TopicPartition

PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
two_partitions = within(run_cluster, topics=(("orders", 2), ("other", 1)))


def options(member_id: str, **fields: str) -> MemberOptions:
    return MemberOptions(group_id="app", protocol="streams", member_id=member_id, **fields)


@two_partitions
async def test_two_members_share_tasks_and_read_on(cluster: VirtualCluster) -> None:
    async with cluster.client("a") as client, cluster.client("b") as other_cluster:
        a, b = GroupMember(client, options("a")), GroupMember(other_cluster, options("b"))
        await a.subscribe(["orders"], until=frozenset(PLACES))
        async with Producer(client) as producer:
            for topic_partition in PLACES:
                await producer.send(topic_partition.topic, topic_partition.partition, b"one")
        values = [
            record.value
            for _, fetch_result in (await a.poll()).fetched
            for record in fetch_result.records
        ]
        assert values == [b"one", b"one"]
        await a.commit()
        await b.subscribe(["orders"])
        while len(b.assigned) < 1:
            await a.poll()
            await b.poll()
        assert a.assigned | b.assigned == frozenset(PLACES)
        assert not a.assigned & b.assigned
        assert [*(await b.poll()).fetched]
        description = await describe_group(Admin(client), "app")
        assert description.type == "streams"
        assert description.topology is not None
        assert description.topology.subtopologies[0].sources == ("orders",)
        for member in description.members:
            assert member.streams is not None
            assert member.streams.target == member.assigned
            assert member.streams.process_id == member.member_id
        await a.leave()
        await b.poll(until=frozenset(PLACES))
        await b.close()


@two_partitions
async def test_a_static_member_comes_back(cluster: VirtualCluster) -> None:
    async with cluster.client("a") as client:
        group_member = GroupMember(client, options("a", instance_id="i"))
        await group_member.subscribe(["orders"], until=frozenset(PLACES))
        await group_member.leave()
        second_member = GroupMember(client, options("b", instance_id="i"))
        await second_member.subscribe(["orders"], until=frozenset(PLACES))
        await second_member.close()


@two_partitions
async def test_another_topology_is_refused(cluster: VirtualCluster) -> None:
    async with cluster.client("a") as client:
        member = GroupMember(client, options("a"))
        await member.subscribe(["orders"], until=frozenset(PLACES))
        with pytest.raises(ClientError, match="INVALID_REQUEST"):
            await member.subscribe(["other"])
        await member.close()
