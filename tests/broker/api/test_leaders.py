"""The current leader in an answer that refuses for want of leadership."""

from __future__ import annotations

from tests.support.handlers import Api
from txnsim.api._leaders import CurrentLeaders


async def test_each_leader_is_named_and_its_address_given_once(api_of_three: Api) -> None:
    leaders = CurrentLeaders(api_of_three.request("Produce", 10))
    named = [leaders.of("orders", index).leader_id for index in (1, 2, 1)]
    assert named == [2, 3, 2]
    brokers = api_of_three.broker.image.brokers
    assert [(one.node_id, one.port) for one in leaders.endpoints()] == [
        (node, broker.port) for node, broker in brokers.items() if node in (2, 3)
    ]


async def test_a_missing_partition_has_no_leader(api: Api) -> None:
    leaders = CurrentLeaders(api.request("Fetch", 16))
    found = leaders.of("missing", 0)
    assert (found.leader_id, found.leader_epoch) == (-1, -1)
    assert leaders.endpoints() == ()
