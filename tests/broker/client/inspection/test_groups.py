"""Groups as an operator sees them: against a cluster in virtual time, and a scripted broker."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker.client.fake_broker import CLOSE, FakeBroker, Handler, ReceivedRequest, in_turn
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.within_environment import within
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError, ConnectionLostError, NotSupportedError, RetriableError
from txnsim.client.inspection import groups
from txnsim.client.inspection.groups import DescribedMember, GroupListing, GroupPosition
from txnsim.client.members.member import GroupMember
from txnsim.client.members.membership import GroupProtocol, MemberOptions
from txnsim.client.members.share import ShareMember
from txnsim.client.producer import Producer
from txnsim.client.versions import ClientApi
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=300)
two_partitions = within(run_cluster, topics=(("orders", 2),))


async def share_member(client: Cluster) -> ShareMember:
    """A member of the share group ``shop`` that has both partitions, and three records of one."""
    await Admin(client).set_group_config("shop", "share.auto.offset.reset", "earliest")
    async with Producer(client) as producer:
        for record_value in (b"1", b"2", b"3"):
            await producer.send("orders", 0, record_value)
    member = ShareMember(client, MemberOptions(group_id="shop", member_id="m"))
    await member.subscribe(["orders"], until=frozenset({A, B}))
    await member.poll(max_wait_ms=500)
    return member


async def consumer(client: Cluster, group_id: str, protocol: GroupProtocol) -> GroupMember:
    options = MemberOptions(group_id=group_id, protocol=protocol, member_id="c")
    if protocol == "classic":
        options = MemberOptions(group_id=group_id)
    member = GroupMember(client, options)
    await member.subscribe(["orders"], until=frozenset({A, B}))
    return member


@two_partitions
async def test_all_types_are_listed_and_filtered(cluster: VirtualCluster) -> None:
    async with cluster.client() as client:
        admin = Admin(client)
        joining_members = [
            await share_member(client),
            await consumer(client, "new", "consumer"),
            await consumer(client, "old", "classic"),
        ]
        await admin.commit_positions("alone", {A: 0})
        all_groups = await groups.list_groups(admin)
        assert [(group.group_id, group.type, group.state) for group in all_groups] == [
            ("alone", "classic", "Empty"),
            ("new", "consumer", "Stable"),
            ("old", "classic", "Stable"),
            ("shop", "share", "Stable"),
        ]
        for group in all_groups:
            assert group.coordinator_id == await client.group_coordinator(group.group_id)
        share = await groups.list_groups(admin, types=["share"])
        assert [group.group_id for group in share] == ["shop"]
        listed_groups = await groups.list_groups(
            admin, types=["classic", "consumer"], states=["Stable"]
        )
        assert [group.group_id for group in listed_groups] == ["new", "old"]
        for member in joining_members:
            await member.close()


@two_partitions
async def test_a_share_group_is_described_with_members_and_offsets(cluster: VirtualCluster) -> None:
    async with cluster.client() as client:
        member = await share_member(client)
        member.acknowledge(A, [0])
        await member.commit()
        admin = Admin(client)
        group = await groups.describe_group(admin, "shop")
        assert (group.type, group.state, group.assignor) == ("share", "Stable", "simple")
        assert group.epoch == group.assignment_epoch
        (only_member,) = group.members
        assert (only_member.member_id, only_member.client_id, only_member.epoch) == (
            "m",
            "app",
            group.epoch,
        )
        assert only_member.assigned == ("orders-0", "orders-1")
        assert group.positions == (
            # The start as it was written last, with one record behind it that is done.
            GroupPosition(partition=A, offset=0, lag=2),
            GroupPosition(partition=B, offset=None, lag=None),  # nothing was written yet
        )
        await member.close()


@two_partitions
@pytest.mark.parametrize("is_at_end", [False, True], ids=["no state yet", "at the end"])
async def test_a_default_share_group_says_where_it_begins(
    cluster: VirtualCluster, *, is_at_end: bool
) -> None:
    """By default a share group begins at the latest offset (KIP-932) and gets no older record."""
    async with cluster.client() as client, Producer(client) as producer:
        await producer.send("orders", 0, b"before")
        member = ShareMember(client, MemberOptions(group_id="shop", member_id="m"))
        await member.subscribe(["orders"], until=frozenset({A, B}))
        poll_answers = await member.poll(max_wait_ms=500)
        assert not any(partition.records for partition in poll_answers.acquired)
        if is_at_end:
            await member.leave()
            await groups.alter_share_positions(Admin(client), "shop", {A: 1})
        group = await groups.describe_group(Admin(client), "shop")
        assert (group.isolation_level, group.offset_reset) == ("read_uncommitted", "latest")
        first_position, *other_positions = group.positions
        assert (first_position.offset, first_position.begins_at) == (1 if is_at_end else None, 1)
        # A log without records withholds none.
        assert all(position.begins_at is None for position in other_positions)
        await Admin(client).set_group_config("shop", "share.auto.offset.reset", "earliest")
        group = await groups.describe_group(Admin(client), "shop")
        assert group.offset_reset == "earliest"
        assert all(position.begins_at is None for position in group.positions)
        await member.close()


@two_partitions
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_other_groups_are_described_with_their_committed_positions(
    cluster: VirtualCluster, protocol: GroupProtocol
) -> None:
    async with cluster.client() as client, Producer(client) as producer:
        await producer.send("orders", 1, b"1")
        await producer.send("orders", 1, b"2")
        await Admin(client).commit_positions("readers", {B: 1})
        member = await consumer(client, "readers", protocol)
        group = await groups.describe_group(Admin(client), "readers")
        assert (group.type, group.state) == (protocol, "Stable")
        assert (group.epoch is None) == (protocol == "classic")
        assert [(member.epoch, member.assigned) for member in group.members] == [
            (group.epoch, ("orders-0", "orders-1"))
        ]
        assert group.positions == (GroupPosition(partition=B, offset=1, lag=1),)
        await member.close()


@two_partitions
async def test_offsets_move_and_go_only_without_members(cluster: VirtualCluster) -> None:
    async with cluster.client() as client:
        admin = Admin(client)
        member = await share_member(client)
        assert await groups.bounds(admin, "orders") == {A: (0, 3), B: (0, 0)}
        for refused_change_coroutine in (
            groups.alter_share_positions(admin, "shop", {A: 2}),
            groups.delete_share_positions(admin, "shop", "orders"),
            groups.delete_group(admin, "shop"),
        ):
            with pytest.raises(ClientError, match="NON_EMPTY_GROUP") as error_info:
                await refused_change_coroutine
            assert error_info.value.error == ErrorCode.non_empty_group
        await member.leave()
        await groups.alter_share_positions(admin, "shop", {A: 2})
        assert (await groups.share_positions(admin, "shop"))[0] == GroupPosition(
            partition=A, offset=2, lag=1
        )
        await groups.delete_share_positions(admin, "shop", "orders")
        assert await groups.share_positions(admin, "shop") == ()
        await groups.delete_group(admin, "shop")
        assert await groups.list_groups(admin) == ()


@two_partitions
async def test_what_is_not_there_is_told(cluster: VirtualCluster) -> None:
    async with cluster.client() as client:
        admin = Admin(client)
        with pytest.raises(ClientError, match="there is no group 'no'") as error_info:
            await groups.describe_group(admin, "no")
        assert error_info.value.error == ErrorCode.group_id_not_found
        with pytest.raises(ClientError, match="topic 'no': UNKNOWN_TOPIC_OR_PARTITION"):
            await groups.bounds(admin, "no")
        member = await share_member(client)
        await member.leave()
        with pytest.raises(ClientError, match="the start offset of no-0 was not altered"):
            await groups.alter_share_positions(admin, "shop", {TopicPartition("no", 0): 0})
        with pytest.raises(ClientError, match="offsets of topic 'no' were not deleted"):
            await groups.delete_share_positions(admin, "shop", "no")


# What a scripted broker says


def group_listing(group_type: str, error: int = 0) -> Handler:
    def handle(request: ReceivedRequest) -> Any:
        row = {
            "group_id": "g",
            "protocol_type": "p",
            "group_state": "Stable",
            "group_type": group_type,
        }
        return request.answer(error_code=error, groups=() if error else (row,))

    return handle


def streams(request: ReceivedRequest) -> Any:
    none: dict[str, Any] = {"active_tasks": (), "standby_tasks": (), "warmup_tasks": ()}
    tasks = {"subtopology_id": "0", "partitions": (0, 1)}
    member = {
        "member_id": "m",
        "member_epoch": 4,
        "client_id": "c",
        "client_host": "/h",
        "process_id": "p",
        "assignment": {**none | {"active_tasks": (tasks,)}},
        "target_assignment": {**none},
    }
    group = {
        "group_id": "g",
        "group_state": "Stable",
        "group_epoch": 4,
        "assignment_epoch": 4,
        "members": (member,),
        "assignor_name": "sticky",
    }
    return request.answer(groups=(group,))


def committed_offsets(*topics: str) -> Handler:
    return lambda request: request.answer(
        error_code=0,
        topics=[
            {"name": topic, "partitions": ({"committed_offset": 5, "committed_leader_epoch": -1},)}
            for topic in topics
        ],
    )


async def test_tasks_of_a_streams_group_and_a_topic_that_is_gone() -> None:
    handler_by_api = {
        ClientApi.LIST_GROUPS: group_listing("Streams"),
        ClientApi.STREAMS_GROUP_DESCRIBE: streams,
        ClientApi.OFFSET_FETCH: committed_offsets("gone"),
    }
    async with (
        FakeBroker(handler_by_api) as broker,
        Cluster(broker.address, settings=SETTINGS) as client,
    ):
        group = await groups.describe_group(Admin(client), "g")
        assert (group.type, group.assignor, group.epoch) == ("streams", "sticky", 4)
        assert group.members == (
            DescribedMember(
                member_id="m",
                client_id="c",
                client_host="/h",
                epoch=4,
                assigned=("0_0", "0_1"),
                streams=groups.StreamsMember(
                    process_id="p", topology_epoch=0, standby=(), warmup=(), target=()
                ),
            ),
        )
        (position,) = group.positions
        assert (position.offset, position.lag) == (5, None)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in position.error


async def test_an_unknown_type_of_group_is_told() -> None:
    handler_by_api = {ClientApi.LIST_GROUPS: group_listing("Swarm")}
    async with (
        FakeBroker(handler_by_api) as broker,
        Cluster(broker.address, settings=SETTINGS) as client,
    ):
        with pytest.raises(ClientError, match="type 'swarm', which is not known here"):
            await groups.describe_group(Admin(client), "g")


async def test_a_coordinator_that_loads_or_goes_away_is_asked_again() -> None:
    load_error = ErrorCode.coordinator_load_in_progress
    count_turns = in_turn(
        group_listing("share", load_error), lambda _: CLOSE, group_listing("Share")
    )
    async with (
        FakeBroker({ClientApi.LIST_GROUPS: count_turns}) as broker,
        Cluster(broker.address, settings=SETTINGS) as client,
    ):
        assert await groups.list_groups(Admin(client)) == (
            GroupListing(
                group_id="g", type="share", state="Stable", protocol_type="p", coordinator_id=1
            ),
        )
        assert len(broker.of(ClientApi.LIST_GROUPS)) == 3


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        (group_listing("share", ErrorCode.not_coordinator), RetriableError),
        (lambda _: CLOSE, ConnectionLostError),
        (group_listing("share", ErrorCode.cluster_authorization_failed), ClientError),
    ],
)
async def test_the_time_of_a_broker_ends(handler: Handler, error: type[ClientError]) -> None:
    async with (
        FakeBroker({ClientApi.LIST_GROUPS: handler}) as broker,
        Cluster(broker.address, settings=SETTINGS) as client,
    ):
        with pytest.raises(error) as error_info:
            await groups.list_groups(Admin(client))
        assert type(error_info.value) is error


async def test_an_older_broker_tells_neither_type_nor_state() -> None:
    async with (
        FakeBroker({ClientApi.LIST_GROUPS: group_listing("share")}, ranges={16: (0, 3)}) as broker,
        Cluster(broker.address, settings=SETTINGS) as client,
    ):
        (group,) = await groups.list_groups(Admin(client))
        assert (group.type, group.state) == ("", "")
        for filters in ({"types": ["share"]}, {"states": ["Empty"]}):
            with pytest.raises(NotSupportedError):
                await groups.list_groups(Admin(client), **filters)
