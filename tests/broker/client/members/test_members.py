"""Members of groups, in both protocols, against brokers that answer as scripted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within_environment import within
from txnsim.client._positions import committed_positions
from txnsim.client.errors import ClientError, IllegalUseError, RetriableError
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members.member import (
    ConsumerMembership,
    GroupMember,
    PollResult,
    assign_range,
    assigned_partitions,
    subscribed_topics,
    write_subscription,
)
from txnsim.client.members.membership import (
    CoordinatorClient,
    GroupProtocol,
    MemberOptions,
    refusal_error,
)
from txnsim.client.members.requests import (
    consumer_group_heartbeat,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    sync_group,
)
from txnsim.client.producer import Producer
from txnsim.client.versions import VersionedRequest
from txnsim.controller.partition_growth import grown_topic
from txnsim.errors import ErrorCode
from txnsim.faults.actions import Disconnect, Fail, Hold, Pass
from txnsim.faults.points import FaultPoint
from txnsim.group.subscription import read_subscription
from txnsim.metadata.image import TopicImage
from txnsim.types import TopicPartition
from txnsim.wire import codec

# Members of a group in a cluster in virtual time.


P0, P1, P2 = (TopicPartition("orders", partition_index) for partition_index in range(3))
ALL = frozenset({P0, P1, P2})
PROTOCOLS: tuple[GroupProtocol, ...] = ("classic", "consumer")
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@asynccontextmanager
async def member(
    cluster: VirtualCluster, name: str, protocol: GroupProtocol, **member_fields: Any
) -> AsyncIterator[GroupMember]:
    """A member of the group ``g`` that has not subscribed yet."""
    async with cluster.client(name) as client:
        options = MemberOptions(
            group_id="g", member_id=f"id-{name}", protocol=protocol, **member_fields
        )
        group_member = GroupMember(client, options)
        yield group_member
        await group_member.close()


def refuse(cluster: VirtualCluster, api: str, error: str, *, limit: int = 1) -> None:
    cluster.arm(Fail(error=error), FaultPoint.CLIENT_REQUEST, api, api=api, limit=limit)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("JoinGroup", "UNKNOWN_MEMBER_ID"),
        ("JoinGroup", "REBALANCE_IN_PROGRESS"),
        ("JoinGroup", "NOT_COORDINATOR"),
        ("SyncGroup", "UNKNOWN_MEMBER_ID"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("Heartbeat", "ILLEGAL_GENERATION"),
        ("Heartbeat", "UNKNOWN_MEMBER_ID"),
    ],
)
@within(run_cluster)
async def test_after_these_errors_it_joins_again(
    cluster: VirtualCluster, api: str, error: str
) -> None:
    refuse(cluster, api, error)
    async with member(cluster, "a", "classic", session_timeout_ms=6_000) as a:
        await a.subscribe(["orders"], until=ALL)
        await a.poll(until=ALL)
        await asyncio.sleep(1)  # a heartbeat or two
        await a.poll(until=ALL)
        await a.commit()
        assert cluster.injector.rules()[0].struck == 1


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup"])
@within(run_cluster)
async def test_these_errors_are_final(cluster: VirtualCluster, api: str) -> None:
    refuse(cluster, api, "GROUP_AUTHORIZATION_FAILED", limit=9)
    async with member(cluster, "a", "classic") as a:
        with pytest.raises(ClientError, match=f"{api} of group 'g': GROUP_AUTHORIZATION_FAILED"):
            await a.subscribe(["orders"])


SIX_SECONDS = {"session_timeout_ms": 6_000}


@within(run_cluster)
async def test_a_rebalance_waits_for_max_poll_interval_as_heartbeats_go_on(
    cluster: VirtualCluster,
) -> None:
    """Java's heartbeat thread goes on after REBALANCE_IN_PROGRESS, until it leaves the group."""
    async with (
        member(cluster, "a", "classic", rebalance_timeout_ms=15_000, **SIX_SECONDS) as a,
        member(cluster, "b", "classic", rebalance_timeout_ms=15_000, **SIX_SECONDS) as b,
    ):
        await a.subscribe(["orders"], until=ALL)
        began_ms = cluster.env.clock.monotonic_ms()
        await b.subscribe(["orders"], until=ALL)
        assert 14_900 <= cluster.env.clock.monotonic_ms() - began_ms <= 15_400
        with pytest.raises(ClientError, match="UNKNOWN_MEMBER_ID"):
            await a.commit({P0: 0})


@within(run_cluster)
async def test_one_that_polls_late_but_in_time_is_in_the_next_generation(
    cluster: VirtualCluster,
) -> None:
    async with (
        member(cluster, "a", "classic", **SIX_SECONDS) as a,
        member(cluster, "b", "classic", **SIX_SECONDS) as b,
    ):
        await a.subscribe(["orders"], until=ALL)
        metadata = a.metadata
        join_task = cluster.env.tasks.spawn(b.subscribe(["orders"]), name="joining")
        await asyncio.sleep(20)
        assert a.metadata == metadata
        await a.commit({P0: 0})
        await a.poll()
        await join_task
        assert a.metadata.member_id == metadata.member_id
        assert a.metadata.generation == b.metadata.generation == metadata.generation + 1


@pytest.mark.parametrize("instance_id", [None, "one"])
@within(run_cluster)
async def test_one_that_does_not_poll_leaves_and_joins_again_with_its_next_poll(
    cluster: VirtualCluster, instance_id: str | None
) -> None:
    async with member(
        cluster,
        "a",
        "classic",
        rebalance_timeout_ms=9_000,
        instance_id=instance_id,
        **SIX_SECONDS,
    ) as a:
        await a.subscribe(["orders"], until=ALL)
        metadata = a.metadata
        cluster.arm(Pass(), FaultPoint.CLIENT_REQUEST, "leave", api="LeaveGroup")
        await asyncio.sleep(8.5)
        assert cluster.injector.rules()[0].struck == 0
        await asyncio.sleep(1)
        assert (a.takes_part, a.assigned) == (False, ALL)
        assert cluster.injector.rules()[0].struck == (1 if instance_id is None else 0)
        if instance_id is None:
            with pytest.raises(ClientError, match="UNKNOWN_MEMBER_ID"):
                await a.commit({P0: 0})
        else:
            await a.commit({P0: 0})  # a static member says nothing: its session has not ended yet
        await a.poll(until=ALL)
        assert a.metadata.member_id != metadata.member_id
        await a.commit({P0: 0})


@within(run_cluster)
async def test_a_fenced_member_is_told_once_and_joins_again(cluster: VirtualCluster) -> None:
    async with member(cluster, "a", "classic", instance_id="one") as a:
        await a.subscribe(["orders"])
        refuse(cluster, "Heartbeat", "FENCED_INSTANCE_ID")
        await cluster.wait_until_struck("Heartbeat")
        await asyncio.sleep(0.1)
        with pytest.raises(ClientError, match="Heartbeat of group 'g': FENCED_INSTANCE_ID"):
            await a.poll()
        await a.poll(until=ALL)


@within(run_cluster)
async def test_other_errors_of_a_heartbeat_are_survived(cluster: VirtualCluster) -> None:
    """Only FENCED_INSTANCE_ID ends Java's heartbeat thread."""
    async with member(cluster, "a", "classic") as a:
        await a.subscribe(["orders"], until=ALL)
        metadata = a.metadata
        refuse(cluster, "Heartbeat", "GROUP_AUTHORIZATION_FAILED", limit=4)
        for _ in range(3):
            await a.poll()
        await cluster.wait_until_struck("Heartbeat", 4)
        await asyncio.sleep(1)
        await a.poll()
        assert a.metadata == metadata


@within(run_cluster)
async def test_who_is_refused_for_a_session_looks_its_coordinator_up(
    cluster: VirtualCluster,
) -> None:
    async with member(cluster, "a", "classic", **SIX_SECONDS) as a:
        await a.subscribe(["orders"], until=ALL)
        await a.poll()
        for api in ("Heartbeat", "FindCoordinator"):
            refuse(cluster, api, "GROUP_AUTHORIZATION_FAILED", limit=99)
        await asyncio.sleep(5.5)
        await a.poll()
        await asyncio.sleep(1)
        with pytest.raises(ClientError, match="no coordinator of group 'g': GROUP_AUTHORIZATION"):
            await a.poll()


@within(run_cluster)
async def test_after_a_sync_that_was_lost_it_joins_again(cluster: VirtualCluster) -> None:
    async with member(cluster, "a", "classic") as a:
        cluster.arm(Disconnect(), FaultPoint.CLIENT_RESPONSE, "lost", api="SyncGroup", limit=1)
        cluster.arm(Pass(), FaultPoint.CLIENT_REQUEST, "joins", api="JoinGroup")
        await a.subscribe(["orders"], until=ALL)
        assert {armed_rule.rule.id: armed_rule.struck for armed_rule in cluster.injector.rules()}[
            "joins"
        ] == 3


@within(run_cluster)
async def test_an_eager_member_reads_again_what_it_did_not_commit(cluster: VirtualCluster) -> None:
    """The member gives up all partitions before it joins again, even those it will get back."""
    async with cluster.client("writer") as client, Producer(client) as producer:
        await producer.send("orders", 0, b"r1")
    async with member(cluster, "a", "classic") as a, member(cluster, "b", "classic") as b:
        await a.subscribe(["orders"], until=ALL)
        first_poll = await a.poll()
        join_task = cluster.env.tasks.spawn(b.subscribe(["orders"]), name="joining")
        while len(a.assigned) == len(ALL):
            second_poll = await a.poll()
        await join_task
        assert P0 in a.assigned
        values = [
            [record.value for _, result in poll_result.fetched for record in result.records]
            for poll_result in (first_poll, second_poll)
        ]
        assert values == [[b"r1"], [b"r1"]]


@within(run_cluster)
async def test_a_leader_has_its_group_join_again_when_a_topic_has_grown(
    cluster: VirtualCluster,
) -> None:
    """The leader sees the growth after metadata.max.age.ms (five minutes) at the latest."""
    async with member(cluster, "a", "classic") as a:
        await a.subscribe(["orders"], until=ALL)
        await a.poll()
        metadata = cluster.sim.metadata
        grown = grown_topic(metadata.image, "orders", partition_count=4, assignments=None)
        assert isinstance(grown, TopicImage)
        metadata.publish(metadata.image.with_topics([grown]))
        for _ in range(4):
            await a.poll(until=ALL)
            await asyncio.sleep(60)
        await asyncio.sleep(61)
        await a.poll(until=ALL | {TopicPartition("orders", 3)})


@within(run_cluster)
async def test_other_topics_are_read_by_the_member_that_there_is(cluster: VirtualCluster) -> None:
    async with member(cluster, "a", "classic") as a:
        await a.subscribe(["orders"], until=ALL)
        metadata = a.metadata
        await a.subscribe(["orders"], until=ALL)
        assert a.metadata == metadata
        await a.subscribe(["other", "orders"], until=ALL)
        assert a.metadata.member_id == metadata.member_id
        assert a.metadata.generation == metadata.generation + 1


@pytest.mark.parametrize(("instance_id", "leaves_sent"), [(None, 1), ("one", 0)])
@within(run_cluster)
async def test_who_goes_says_so_once_and_a_static_member_never(
    cluster: VirtualCluster, instance_id: str | None, leaves_sent: int
) -> None:
    async with member(cluster, "a", "classic", instance_id=instance_id) as a:
        await a.subscribe(["orders"], until=ALL)
        cluster.arm(Pass(), FaultPoint.CLIENT_REQUEST, "leave", api="LeaveGroup")
        await a.leave()
        await a.leave()
        assert cluster.injector.rules()[0].struck == leaves_sent
        with pytest.raises(IllegalUseError, match="already been closed"):
            await a.poll()


def test_a_subscription_is_read_as_it_was_written() -> None:
    data = write_subscription(["orders", "a"])
    subscription = read_subscription(data)
    assert subscription is not None
    assert subscription.topics == ("a", "orders")
    assert data == bytes.fromhex("0000 00000002 0001 61 0006") + b"orders" + b"\xff" * 4
    assert subscribed_topics([data, write_subscription(["b"]), b"?"]) == {"a", "b", "orders"}


@pytest.mark.parametrize(
    ("members", "count", "shares"),
    [
        ({"m1": "t", "m2": "t"}, 3, {"m1": [0, 1], "m2": [2]}),
        ({"m1": "t", "m2": "t", "m3": "t"}, 2, {"m1": [0], "m2": [1], "m3": []}),
        ({"m1": "t", "m2": "other"}, 2, {"m1": [0, 1], "m2": []}),
        ({"m1": "t"}, 0, {"m1": []}),
    ],
)
def test_partitions_are_shared_in_ranges(
    members: dict[str, str], count: int, shares: dict[str, list[int]]
) -> None:
    subscriptions = {
        member_name: (None, write_subscription([topic])) for member_name, topic in members.items()
    }
    partitions_by_member = {
        name: sorted(
            assigned_partition.partition
            for assigned_partition in assigned_partitions(assignment_bytes)
        )
        for name, assignment_bytes in assign_range(subscriptions, {"t": count}).items()
    }
    assert partitions_by_member == shares


def test_static_members_come_first_and_are_ordered_by_their_instance_ids() -> None:
    subscriptions = {
        "a-dynamic": (None, write_subscription(["t"])),
        "m1": ("second", write_subscription(["t"])),
        "m2": ("first", write_subscription(["t"])),
    }
    shares = assign_range(subscriptions, {"t": 3})
    partitions_by_member = {
        member_id: assigned_partitions(share_data) for member_id, share_data in shares.items()
    }
    assert [
        [topic_partition.partition for topic_partition in partitions_by_member[member_id]]
        for member_id in ("m2", "m1", "a-dynamic")
    ] == [
        [0],
        [1],
        [2],
    ]


def test_bytes_that_are_no_assignment() -> None:
    with pytest.raises(ValueError, match="which is no assignment"):
        assigned_partitions(b"\x00")


async def append(cluster: VirtualCluster, *record_values: bytes, partition: int = 0) -> None:
    async with cluster.client("writer") as client, Producer(client) as producer:
        for record_value in record_values:
            await producer.send("orders", partition, record_value)


def values(poll_result: PollResult) -> list[bytes | None]:
    return [record.value for _, result in poll_result.fetched for record in result.records]


@each_protocol
@within(run_cluster)
async def test_a_member_reads_from_the_positions_of_its_group(
    cluster: VirtualCluster, protocol: GroupProtocol
) -> None:
    await append(cluster, b"r1", b"r2")
    async with member(cluster, "a", protocol) as a:
        await a.subscribe(["orders"], until=ALL)
        first_poll = await a.poll()
        assert first_poll.positions == dict.fromkeys(ALL, -1)
        assert values(first_poll) == [b"r1", b"r2"]
        assert a.positions == {**dict.fromkeys(ALL, 0), P0: 2}
        assert values(await a.poll()) == []
        a.seek(P0, 1)
        assert values(await a.poll()) == [b"r2"]
        await a.commit({P0: 1})
        await a.leave()
    async with member(cluster, "b", protocol) as b:
        await b.subscribe(["orders"], until=ALL)
        second_poll = await b.poll()
        assert second_poll.positions[P0] == 1
        assert values(second_poll) == [b"r2"]


@each_protocol
@within(run_cluster)
async def test_a_second_member_gets_its_share_when_the_first_one_polls(
    cluster: VirtualCluster, protocol: GroupProtocol
) -> None:
    async with member(cluster, "a", protocol) as a, member(cluster, "b", protocol) as b:
        await a.subscribe(["orders"], until=ALL)
        await a.poll()
        metadata = a.metadata
        join_task = cluster.env.tasks.spawn(b.subscribe(["orders"]), name="joining")
        await asyncio.sleep(3)
        assert a.assigned == ALL, "it follows a rebalance in its polls"
        await a.commit({P0: 0})
        while len(a.assigned) == 3:
            await a.poll()
        await join_task
        await b.poll(until=ALL - a.assigned)
        assert b.assigned
        assert a.positions.keys() == a.assigned
        assert a.metadata.generation > metadata.generation
        lost_partition = min(ALL - a.assigned)  # what it has kept, KIP-1251 lets it commit
        with pytest.raises(ClientError) as error_info:
            await a.commit({lost_partition: 0}, metadata=metadata)
        expected_errors = {
            "classic": ErrorCode.illegal_generation,
            "consumer": ErrorCode.stale_member_epoch,
        }
        assert error_info.value.error == expected_errors[protocol]
        with pytest.raises(IllegalUseError, match="No current assignment"):
            a.seek(next(iter(b.assigned)), 0)


@each_protocol
@within(
    run_cluster,
    group_consumer_min_session_timeout_ms=6_000,
    group_consumer_session_timeout_ms=6_000,
)
async def test_one_that_stands_still_is_expelled_and_joins_again_when_it_polls(
    cluster: VirtualCluster, protocol: GroupProtocol
) -> None:
    async with (
        member(cluster, "a", protocol, session_timeout_ms=6_000) as a,
        member(cluster, "b", protocol) as b,
    ):
        await a.subscribe(["orders"], until=ALL)
        await a.poll()
        a.stand_still()
        await b.subscribe(["orders"], until=ALL)
        with pytest.raises(ClientError) as error_info:
            await a.commit()
        assert error_info.value.error == ErrorCode.unknown_member_id
        poll_task = cluster.env.tasks.spawn(a.poll(), name="back")
        await asyncio.sleep(1)
        await b.poll()
        await poll_task
        await a.poll(until=ALL - b.assigned)


@each_protocol
@within(run_cluster)
async def test_a_static_member_s_place(cluster: VirtualCluster, protocol: GroupProtocol) -> None:
    static = {"instance_id": "one"}
    async with member(cluster, "a", protocol, **static) as a:
        await a.subscribe(["orders"], until=ALL)
        async with member(cluster, "b", protocol, **static) as b:
            if protocol == "consumer":
                with pytest.raises(ClientError, match="UNRELEASED_INSTANCE_ID"):
                    await b.subscribe(["orders"])
                await a.leave()
                await b.subscribe(["orders"], until=ALL)
                with pytest.raises(ClientError, match="UNKNOWN_MEMBER_ID"):
                    await a.commit({P0: 0})
                return
            await b.subscribe(["orders"], until=ALL)
            with pytest.raises(ClientError, match="FENCED_INSTANCE_ID"):
                await a.commit({P0: 0})
            await asyncio.sleep(1)
            with pytest.raises(ClientError, match="FENCED_INSTANCE_ID"):
                await a.poll()
            await b.leave()


@each_protocol
@within(run_cluster)
async def test_assignments_and_positions_that_do_not_come_in_time(
    cluster: VirtualCluster, protocol: GroupProtocol
) -> None:
    async with member(cluster, "a", protocol) as a:
        with pytest.raises(RetriableError, match="orders-0, orders-1, orders-2 after 100 ms"):
            await a.subscribe(["orders"], until=frozenset({P0}), timeout_ms=100)
        cluster.arm(
            Fail(error="UNSTABLE_OFFSET_COMMIT"),
            FaultPoint.CLIENT_RESPONSE,
            api="OffsetFetch",
            limit=3,
        )
        with pytest.raises(ClientError, match="UNSTABLE_OFFSET_COMMIT"):
            await a.poll(waits=False)
        assert (await a.poll()).positions == dict.fromkeys(ALL, -1)


@within(run_cluster)
async def test_a_position_that_is_out_of_range_is_set_to_the_earliest(
    cluster: VirtualCluster,
) -> None:
    await append(cluster, b"r1")
    async with member(cluster, "a", "classic") as a:
        await a.subscribe(["orders"], until=ALL)
        a.seek(P0, 77)
        assert values(await a.poll()) == [b"r1"]
        async with cluster.client("other") as client:
            assert await committed_positions(client, "g", (P0,)) == {P0: -1}


@within(run_cluster)
async def test_one_that_has_not_subscribed_is_no_member(cluster: VirtualCluster) -> None:
    async with member(cluster, "a", "classic") as a:
        with pytest.raises(IllegalUseError, match="has to subscribe"):
            await a.poll()


HEARTBEAT = "ConsumerGroupHeartbeat"


def refuse_of_consumer(cluster: VirtualCluster, error: str) -> None:
    cluster.arm(Fail(error=error), FaultPoint.CLIENT_REQUEST, api=HEARTBEAT, limit=1)


@pytest.mark.parametrize("error", ["UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"])
@within(run_cluster)
async def test_after_these_errors_its_heartbeats_join_again(
    cluster: VirtualCluster, error: str
) -> None:
    """The member takes over a new assignment with its next poll."""
    async with member(cluster, "a", "consumer") as a:
        await a.subscribe(["orders"], until=ALL)
        refuse_of_consumer(cluster, error)
        await cluster.wait_until_struck()
        await asyncio.sleep(1)
        assert a.assigned == frozenset()
        assert a.metadata.member_id == "id-a"
        await a.poll(until=ALL)
        await a.commit()


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"])
@within(run_cluster)
async def test_these_errors_change_nothing(cluster: VirtualCluster, error: str) -> None:
    async with member(cluster, "a", "consumer") as a:
        await a.subscribe(["orders"], until=ALL)
        metadata = a.metadata
        refuse_of_consumer(cluster, error)
        await cluster.wait_until_struck()
        await a.poll()
        assert (a.metadata, a.assigned) == (metadata, ALL)


@within(run_cluster)
async def test_an_assignment_is_confirmed_again_where_the_answer_was_lost(
    cluster: VirtualCluster,
) -> None:
    async with member(cluster, "a", "consumer") as a, member(cluster, "b", "consumer") as b:
        await a.subscribe(["orders"], until=ALL)
        join_task = cluster.env.tasks.spawn(b.subscribe(["orders"]), name="joining")
        await asyncio.sleep(3)
        await join_task
        cluster.arm(Disconnect(), FaultPoint.CLIENT_REQUEST, "lost", api=HEARTBEAT, limit=4)
        await a.poll()
        await b.poll(until=ALL - a.assigned)
        assert b.assigned


@pytest.mark.parametrize(("instance_id", "is_out"), [(None, True), ("one", False)])
@within(run_cluster)
async def test_consumer_one_that_does_not_poll_leaves_and_joins_again_with_its_next_poll(
    cluster: VirtualCluster, instance_id: str | None, is_out: bool
) -> None:
    """A static member leaves for a while: its partitions wait for it."""
    async with (
        member(cluster, "a", "consumer", rebalance_timeout_ms=9_000, instance_id=instance_id) as a,
        member(cluster, "b", "consumer") as b,
    ):
        await a.subscribe(["orders"], until=ALL)
        metadata = a.metadata
        await asyncio.sleep(8.5)
        assert a.assigned == ALL
        await asyncio.sleep(1)
        assert (a.assigned, a.metadata) == (frozenset(), metadata)
        with pytest.raises(ClientError, match="UNKNOWN_MEMBER_ID" if is_out else "STALE_MEMBER"):
            await a.commit({P0: 0})
        await b.subscribe(["orders"])
        await asyncio.sleep(5)
        await b.poll()
        assert (b.assigned == ALL) is is_out
        await a.poll()


@within(run_cluster)
async def test_consumer_other_topics_are_read_by_the_member_that_there_is(
    cluster: VirtualCluster,
) -> None:
    async with cluster.client("admin") as client:
        await client.refresh(["more"], create=True)
    async with member(cluster, "a", "consumer") as a:
        await a.subscribe(["orders"], until=ALL)
        await a.poll()
        await a.subscribe(["orders", "more"])
        assert a.positions.keys() >= ALL
        while {topic_partition.topic for topic_partition in a.assigned} != {"orders", "more"}:
            await a.poll()
        assert a.metadata.member_id == "id-a"


@within(run_cluster)
async def test_who_goes_says_so_once(cluster: VirtualCluster) -> None:
    async with member(cluster, "a", "consumer") as a:
        await a.subscribe(["orders"], until=ALL)
        await a.leave()
        cluster.arm(Pass(), FaultPoint.CLIENT_REQUEST, "said", api=HEARTBEAT)
        await a.leave()
        assert cluster.injector.rules()[0].struck == 0


@within(run_cluster)
async def test_who_is_refused_for_good(cluster: VirtualCluster) -> None:
    refuse_of_consumer(cluster, "GROUP_MAX_SIZE_REACHED")
    async with member(cluster, "a", "consumer") as a:
        with pytest.raises(ClientError, match=f"{HEARTBEAT} of group 'g': GROUP_MAX_SIZE"):
            await a.subscribe(["orders"])
        with pytest.raises(ClientError, match=f"{HEARTBEAT} of group 'g': GROUP_MAX_SIZE"):
            await a.poll()  # nothing is asked any more
        await a.subscribe(["orders"], until=ALL)


@within(run_cluster)
async def test_a_topic_that_is_made_later(cluster: VirtualCluster) -> None:
    async with member(cluster, "a", "consumer") as a:
        await a.subscribe(["orders", "late"], until=ALL)
        async with cluster.client("admin") as client:
            await client.refresh(["late"], create=True)
        for _ in range(50):
            await a.poll()
            if any(topic_partition.topic == "late" for topic_partition in a.positions):
                return
            await asyncio.sleep(0.3)
        raise AssertionError("it was never assigned")


@within(run_cluster)
async def test_of_a_topic_that_is_gone_nothing_is_owned(cluster: VirtualCluster) -> None:
    """Seed 5798: a topic was deleted between an assignment and the heartbeat that confirms it."""
    async with member(cluster, "a", "consumer") as a:
        await a.subscribe(["orders"], until=ALL)
        membership = a._membership
        assert isinstance(membership, ConsumerMembership)
        topic_partition = TopicPartition("orders", 0)
        (owned_indexes,) = membership._by_id({topic_partition, TopicPartition("gone", 0)}).values()
        assert owned_indexes == [0]


MEMBER = GroupMetadata(generation=3, member_id="m", instance_id="one")
TOPIC = UUID(int=7)
REQUESTS = [
    join_group(
        "g", MEMBER, subscription=b"s", session_timeout_ms=45_000, rebalance_timeout_ms=300_000
    ),
    sync_group("g", MEMBER, assignment_by_member={"m": b"a"}),
    heartbeat("g", MEMBER),
    leave_group("g", MEMBER),
    consumer_group_heartbeat(
        "g", MEMBER, joining=(("t",), 300_000), owned_partitions={TOPIC: (1, 0)}
    ),
    consumer_group_heartbeat("g", MEMBER),
    offset_commit("g", MEMBER, {TopicPartition("t", 1): 5, TopicPartition("t", 0): 4}),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda member_request: member_request.api.name)
def test_each_request_is_made_in_every_version_that_is_ours(request_: VersionedRequest) -> None:
    versions = request_.api.own_range
    for version in range(versions.lowest, versions.highest + 1):
        message = request_.build(codec.request_schema(request_.api, version))
        assert codec.encode_request(request_.api, version, 1, "c", message)


def test_who_leaves_and_who_commits() -> None:
    old_request = REQUESTS[3].build(codec.request_schema(REQUESTS[3].api, 2))
    new_request = REQUESTS[3].build(codec.request_schema(REQUESTS[3].api, 5))
    assert old_request.member_id == "m"
    assert [(row.member_id, row.group_instance_id) for row in new_request.members] == [("m", "one")]
    commit = REQUESTS[6].build(codec.request_schema(REQUESTS[6].api, 9))
    assert (commit.generation_id_or_member_epoch, commit.member_id) == (3, "m")
    assert [row.committed_offset for row in commit.topics[0].partitions] == [5, 4]


def test_a_consumer_says_what_it_owns_only_where_it_has_changed() -> None:
    joins, beats = (
        member_request.build(codec.request_schema(member_request.api, 1))
        for member_request in REQUESTS[4:6]
    )
    assert joins.subscribed_topic_names == ("t",)
    assert [(row.topic_id, row.partitions) for row in joins.topic_partitions] == [(TOPIC, (0, 1))]
    assert (beats.subscribed_topic_names, beats.topic_partitions) == (None, None)


BEAT = heartbeat("g", GroupMetadata(generation=1, member_id="m"))


@pytest.mark.parametrize(
    ("error", "lookup_count"),
    [("NOT_COORDINATOR", 1), ("COORDINATOR_NOT_AVAILABLE", 1), ("COORDINATOR_LOAD_IN_PROGRESS", 0)],
)
@within(run_cluster)
async def test_a_coordinator_is_kept_while_it_answers_and_looked_up_where_it_has_moved(
    cluster: VirtualCluster, error: str, lookup_count: int
) -> None:
    async with cluster.client() as client:
        coordinator = CoordinatorClient(client, "g")
        assert (await coordinator.ask(BEAT)).error_code == ErrorCode.unknown_member_id
        cluster.arm(Pass(), FaultPoint.CLIENT_REQUEST, "lookups", api="FindCoordinator")
        assert (await coordinator.ask(BEAT)).error_code == ErrorCode.unknown_member_id
        cluster.arm(Fail(error=error), FaultPoint.CLIENT_REQUEST, api="Heartbeat", limit=1)
        with pytest.raises(RetriableError, match=f"HEARTBEAT of group 'g': {error}"):
            await coordinator.ask(BEAT)
        assert (await coordinator.ask(BEAT)).error_code == ErrorCode.unknown_member_id
        assert cluster.injector.rules()[0].struck == lookup_count


@within(run_cluster)
async def test_a_coordinator_that_is_lost_is_looked_up(cluster: VirtualCluster) -> None:
    cluster.arm(Hold(), FaultPoint.CLIENT_REQUEST, "held", api="Heartbeat", limit=1)
    async with cluster.client() as client:
        coordinator = CoordinatorClient(client, "g")
        with pytest.raises(RetriableError, match="HEARTBEAT of group 'g': REQUEST_TIMED_OUT"):
            await coordinator.ask(BEAT, timeout_ms=500)
        assert (await coordinator.ask(BEAT)).error_code == ErrorCode.unknown_member_id


def test_a_refusal_names_group_and_error() -> None:
    error = refusal_error("Heartbeat", "g", ErrorCode.fenced_instance_id)
    assert str(error) == "Heartbeat of group 'g': FENCED_INSTANCE_ID"
    assert error.error is ErrorCode.fenced_instance_id
