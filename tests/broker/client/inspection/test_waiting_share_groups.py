"""Share groups behind an open transaction, as ``txns why`` and ``groups describe`` tell them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker.client.fake_broker import FakeBroker, ReceivedRequest
from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.hanging_transaction import make_hanging
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.inspection import groups
from txnsim.client.inspection._waiting_share_groups import WaitingShareGroups, waiting_share_groups
from txnsim.client.inspection.waiting_readers import Explanation, explain
from txnsim.client.members.membership import MemberOptions
from txnsim.client.members.share import ShareMember
from txnsim.client.producer import Producer
from txnsim.client.versions import ClientApi
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition
from txnsim.verdict.reader_standing import Cause

ORDERS_0 = TopicPartition("orders", 0)
ISOLATIONS = {"careful": "read_committed", "hasty": "read_uncommitted", "silent": None}


async def reading(client: Cluster) -> list[ShareMember]:
    """A member of each group, which has read and accepted one record."""
    admin = Admin(client)
    members = []
    for group, isolation in ISOLATIONS.items():
        await admin.set_group_config(group, "share.auto.offset.reset", "earliest")
        if isolation is not None:
            await admin.set_group_config(group, "share.isolation.level", isolation)
        member = ShareMember(client, MemberOptions(group_id=group, member_id=group))
        await member.subscribe(["orders"], until=frozenset({ORDERS_0}))
        await member.poll(max_wait_ms=500)
        member.acknowledge(ORDERS_0, [0])
        await member.commit()
        members.append(member)
    return members


def test_share_groups_that_wait_are_named_and_others_are_not() -> None:
    async def story(
        virtual_cluster: VirtualCluster,
    ) -> tuple[Explanation, Explanation, dict[str, Any]]:
        async with virtual_cluster.client() as client, Producer(client) as producer:
            await producer.send("orders", 0, b"x")
            members = await reading(client)
            admin = Admin(client)
            explanation_before_hanging = await explain(
                admin, ORDERS_0, now_ms=client.clock.now_ms()
            )
            await make_hanging(admin, ORDERS_0, "ghost")
            await producer.send("orders", 0, b"y")
            position_by_group = {}
            for group in ISOLATIONS:
                (position_by_group[group],) = (await groups.describe_group(admin, group)).positions
            explanation = await explain(admin, ORDERS_0, now_ms=client.clock.now_ms())
            for member in members:
                await member.close()
            return explanation_before_hanging, explanation, position_by_group

    explanation_before_hanging, explanation, position_by_group = run_cluster(
        story, topics=(("orders", 1),)
    )
    assert (explanation_before_hanging.cause, explanation_before_hanging.share_groups) == (
        Cause.NOTHING,
        (),
    )
    assert explanation.cause is Cause.HANGING
    assert [share_group.group_id for share_group in explanation.share_groups] == ["careful"]
    (waiting_group,) = explanation.share_groups
    assert explanation.sentences[-1] == (
        "Share groups with read_committed get nothing from there on either: careful"
        f" (start offset {waiting_group.start_offset})."
    )
    assert {group: position.waits_at for group, position in position_by_group.items()} == {
        "careful": 1,
        "hasty": None,
        "silent": None,
    }


def positions_where_configs_fail(
    monkeypatch: pytest.MonkeyPatch, error: ErrorCode
) -> tuple[groups.GroupPosition, ...]:
    """Positions of a share group whose configs are answered with an error."""

    async def refuse(*_: object) -> dict[str, str]:
        raise ClientError(error.name, error=error)

    async def story(virtual_cluster: VirtualCluster) -> tuple[groups.GroupPosition, ...]:
        async with virtual_cluster.client() as client, Producer(client) as producer:
            await producer.send("orders", 0, b"x")
            members = await reading(client)
            monkeypatch.setattr(Admin, "group_configs", refuse)
            group = await groups.describe_group(Admin(client), "careful")
            for member in members:
                await member.close()
            return group.positions

    return run_cluster(story, topics=(("orders", 1),))


def test_positions_are_shown_where_configs_may_not_be_described(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (position,) = positions_where_configs_fail(monkeypatch, ErrorCode.group_authorization_failed)
    assert (position.partition, position.waits_at) == (ORDERS_0, None)


def test_another_error_of_configs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClientError, match="request_timed_out"):
        positions_where_configs_fail(monkeypatch, ErrorCode.request_timed_out)


def listing_of_groups(error: ErrorCode = ErrorCode.none) -> Any:
    def handle(request: ReceivedRequest) -> Any:
        row = {
            "group_id": "g",
            "protocol_type": "share",
            "group_state": "Empty",
            "group_type": "share",
        }
        return request.answer(error_code=error, groups=() if error else (row,))

    return handle


def _offsets(error: ErrorCode) -> Any:
    def handle(request: ReceivedRequest) -> Any:
        row = {"group_id": "g", "error_code": error}
        return request.answer(groups=(row,))

    return handle


@pytest.mark.parametrize(
    ("error", "is_told"),
    [(ErrorCode.group_id_not_found, False), (ErrorCode.group_authorization_failed, True)],
)
async def test_a_group_that_is_gone_waits_for_nothing_and_a_refusal_is_told(
    error: ErrorCode, *, is_told: bool
) -> None:
    handler_by_api = {
        ClientApi.LIST_GROUPS: listing_of_groups(),
        ClientApi.DESCRIBE_SHARE_GROUP_OFFSETS: _offsets(error),
    }
    async with FakeBroker(handler_by_api) as broker, Cluster(broker.address) as client:
        waiting_groups = await waiting_share_groups(Admin(client), ORDERS_0)
    assert waiting_groups.groups == ()
    sentences = [
        f"Whether a share group waits there is not told: {reason}."
        for reason in waiting_groups.untold_reasons
    ]
    assert list(waiting_groups.sentences()) == sentences
    assert bool(sentences) == is_told
    assert all("GROUP_AUTHORIZATION_FAILED" in reason for reason in sentences)


async def test_groups_that_are_not_listed_are_told_and_older_brokers_have_none() -> None:
    denied_listing = listing_of_groups(ErrorCode.cluster_authorization_failed)
    async with (
        FakeBroker({ClientApi.LIST_GROUPS: denied_listing}) as broker,
        Cluster(broker.address) as client,
    ):
        (reason,) = (await waiting_share_groups(Admin(client), ORDERS_0)).untold_reasons
        assert "CLUSTER_AUTHORIZATION_FAILED" in reason
        with pytest.raises(ClientError):
            await groups.list_groups(Admin(client))
    async with (
        FakeBroker({ClientApi.LIST_GROUPS: listing_of_groups()}, ranges={16: (0, 4)}) as broker,
        Cluster(broker.address) as client,
    ):
        assert await waiting_share_groups(Admin(client), ORDERS_0) == WaitingShareGroups()
