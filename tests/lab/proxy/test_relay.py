"""One connection through the proxy: bytes pass as they are, memory is bounded, ends close as they
would without it. What faults do is told in ``tests/broker/server/test_client_fault_points.py``, of
both.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.broker.server.test_connection import first_partition, open_wire
from tests.support.proxied_cluster import ProxiedCluster, run_proxied
from tests.support.raw_connection import WireClient
from tests.support.within_environment import within
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.fetching import fetch
from txnsim.faults.actions import DropAnswer, Fail, Hold, Pass, Rewrite
from txnsim.faults.interception import RewriteHow
from txnsim.faults.points import FaultPoint
from txnsim.types import IsolationLevel
from txnsim.wire import codec
from txnsim.wire.plain_values import message_from
from txnsim_lab.proxy import _relay as relay

REQUEST, RESPONSE = FaultPoint.CLIENT_REQUEST, FaultPoint.CLIENT_RESPONSE


async def records(cluster: ProxiedCluster) -> int:
    """The number of records in orders-0, read without the proxy."""
    async with cluster.client("counter") as client:
        result = await fetch(
            client, "orders", 0, 0, isolation=IsolationLevel.READ_UNCOMMITTED, max_wait_ms=0
        )
        return len(result.records)


def struck(cluster: ProxiedCluster, rule_id: str) -> int:
    """How often an armed rule has struck."""
    armed = cluster.injector.get(rule_id)
    assert armed is not None
    return armed.struck


@within(run_proxied)
async def test_pipelined_requests_are_answered_in_order_without_a_rule(
    cluster: ProxiedCluster,
) -> None:
    wire = await open_wire(cluster)
    frames = [wire.produce(first_partition(), acks=acks) for acks in (1, 0, -1)] + [wire.metadata()]
    for byte in b"".join(frames):
        wire.send(bytes((byte,)))
    assert [(await wire.answer())[0] for _ in range(3)] == [1, 3, 4]
    assert await records(cluster) == 3
    await wire.close()


@within(run_proxied)
async def test_every_answer_with_an_address_leads_to_the_proxy(cluster: ProxiedCluster) -> None:
    wire = await open_wire(cluster)
    wire.send(wire.metadata())
    _, message = await wire.answer()
    address_by_node = {row.node_id: (row.host, row.port) for row in message.brokers}
    assert address_by_node == {
        node_id: cluster.proxy.clients.address(node_id) for node_id in (1, 2, 3)
    }
    await wire.close()


@pytest.mark.parametrize("acks", [0, 1])
@within(run_proxied)
async def test_a_held_request_of_a_client_that_left_is_sent_once_it_is_released(
    cluster: ProxiedCluster, acks: int
) -> None:
    cluster.arm(Hold(), REQUEST, api="Produce")
    wire = await open_wire(cluster)
    wire.send(wire.produce(first_partition(), acks=acks) + wire.metadata())
    await cluster.wait_until_struck()
    await wire.close()
    await asyncio.sleep(60)
    assert await records(cluster) == 0
    listener = next(iter(cluster.proxy.clients))
    cluster.injector.disarm("f")
    await asyncio.sleep(1)
    assert await records(cluster) == 1
    assert not any(client_listener.relays for client_listener in cluster.proxy.clients), (
        "both sides are closed"
    )
    assert listener.accepted_count >= 0


@within(run_proxied)
async def test_a_request_that_was_held_until_its_broker_had_gone_is_lost(
    cluster: ProxiedCluster,
) -> None:
    cluster.arm(Hold(), REQUEST, api="Produce")
    wire = await open_wire(cluster)
    wire.send(wire.produce(first_partition()))
    await cluster.wait_until_struck()
    await cluster.sim.kill_broker(cluster.leader(first_partition()))
    assert await wire.is_closed_by_broker(), "as without the proxy"
    cluster.injector.disarm("f")
    await asyncio.sleep(1)
    await wire.close()


@within(run_proxied)
async def test_an_answer_that_is_held_outlives_its_broker(cluster: ProxiedCluster) -> None:
    cluster.arm(Hold(), RESPONSE, api="Produce")
    wire = await open_wire(cluster)
    wire.send(wire.produce(first_partition()))
    await cluster.wait_until_struck()
    await cluster.sim.kill_broker(cluster.leader(first_partition()))
    await asyncio.sleep(1)
    cluster.injector.disarm("f")
    assert (await wire.answer())[0] == 1
    assert await wire.is_closed_by_broker()
    await wire.close()


@within(run_proxied)
async def test_a_client_that_lost_an_answer_notices_that_its_broker_has_gone(
    cluster: ProxiedCluster,
) -> None:
    cluster.arm(DropAnswer(), REQUEST, api="Produce")
    wire = await open_wire(cluster)
    wire.send(wire.produce(first_partition()))
    await cluster.wait_until_struck()
    assert await wire.silent_for(60)
    await cluster.sim.kill_broker(cluster.leader(first_partition()))
    assert await wire.is_closed_by_broker()
    await wire.close()


@within(run_proxied)
async def test_a_broker_out_of_reach_closes_the_connection(cluster: ProxiedCluster) -> None:
    await cluster.sim.kill_broker(cluster.leader(first_partition()))
    wire = await open_wire(cluster)
    assert await wire.is_closed_by_broker()
    with pytest.raises(ConnectionResetError):
        await wire.close()


@within(run_proxied)
async def test_a_rule_that_is_armed_late_sees_no_answer_of_a_request_that_it_can_not_know(
    cluster: ProxiedCluster,
) -> None:
    wire = await open_wire(cluster)
    cluster.arm(Hold(), REQUEST, "hold", api="Produce", limit=1)
    wire.send(wire.produce(first_partition()))
    await cluster.wait_until_struck("hold")
    cluster.arm(Pass(), RESPONSE, "by-api", api="Produce")
    cluster.arm(Pass(), RESPONSE, "by-topic", api="Produce", topic="orders")
    cluster.injector.disarm("hold")
    await wire.answer()
    counts = {rule.rule.id: rule.struck for rule in cluster.injector.rules()}
    assert counts["by-topic"] == 0
    wire.send(wire.produce(first_partition()))
    await wire.answer()
    assert struck(cluster, "by-topic") == 1
    await wire.close()


@within(run_proxied)
async def test_a_request_is_about_a_topic_that_it_tells_by_id(cluster: ProxiedCluster) -> None:
    """The proxy looks up the topic's name if no earlier answer had it."""
    cluster.arm(Fail(error="NOT_LEADER_OR_FOLLOWER"), REQUEST, api="Produce", topic="orders")
    topic_id = cluster.sim.metadata.image.topics["orders"].topic_id
    wire = await open_wire(cluster)
    topic = {"topic_id": topic_id, "partition_data": [{"records": b""}]}
    values = {"acks": 1, "timeout": 1_000, "topic_data": [topic]}
    message = message_from(codec.request_class(0, 13), values)
    wire.send(wire.frame(0, 13, message))
    _, answer = await wire.answer()
    assert answer.responses[0].partition_responses[0].error_code == 6
    assert struck(cluster, "f") == 1
    await wire.close()


@within(run_proxied)
async def test_what_is_no_request_of_kafkas_is_left_to_the_broker(cluster: ProxiedCluster) -> None:
    cluster.arm(Pass(), REQUEST)
    wire = await open_wire(cluster)
    wire.send(b"\x16\x03\x01\x02\x00 a ClientHello of TLS, at a listener in clear")
    assert await wire.is_closed_by_broker()
    await wire.close()


def test_an_answer_that_claims_to_be_huge_is_not_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its size is a broker's word; it was collected while a rule was armed, up to 2 GiB."""
    monkeypatch.setattr(relay, "COLLECTED_BYTES_MAX", 40)

    async def main(cluster: ProxiedCluster) -> None:
        wire = await open_wire(cluster)
        wire.send(wire.metadata())
        assert await wire.is_closed_by_broker()
        await wire.close()

    run_proxied(main)


def test_too_much_that_waits_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "BACKLOG_BYTES_MAX", 10_000)

    async def main(cluster: ProxiedCluster) -> None:
        cluster.arm(Hold(), REQUEST, api="Produce")
        wire = await open_wire(cluster)
        wire.send(wire.produce(first_partition()))
        await cluster.wait_until_struck()
        for _ in range(200):
            wire.send(wire.produce(first_partition(), value=bytes(1_000)))
            await asyncio.sleep(0.001)
        (open_one,) = [relay for listener in cluster.proxy.clients for relay in listener.relays]
        assert isinstance(open_one, relay.Relay)
        backlog_bytes: Any = open_one._request_frames.backlog_bytes
        assert 10_000 <= backlog_bytes < 100_000, "the rest stays with the client"
        cluster.injector.disarm("f")
        assert [(await wire.answer())[0] for _ in range(201)] == list(range(1, 202))
        await wire.close()

    run_proxied(main)


@within(run_proxied)
async def test_a_mechanism_that_can_not_pass_is_refused_and_the_connection_goes_on(
    cluster: ProxiedCluster,
) -> None:
    wire = await open_wire(cluster)
    schema = codec.request_schema(17, 1)
    wire.send(wire.frame(17, 1, schema.SaslHandshakeRequest(mechanism="GSSAPI")))
    _, message = await wire.answer()
    assert message.error_code == 33
    wire.send(wire.metadata())
    assert (await wire.answer())[0] == 2
    await wire.close()


@within(run_proxied)
async def test_an_answer_to_a_client_that_left_goes_nowhere(cluster: ProxiedCluster) -> None:
    cluster.arm(Hold(), RESPONSE, api="Metadata")
    wire = await WireClient.open(*cluster.address(first_partition()))
    wire.send(wire.metadata())
    await cluster.wait_until_struck()
    await wire.close()
    await asyncio.sleep(1)
    cluster.injector.disarm("f")
    await asyncio.sleep(1)
    assert not any(client_listener.relays for client_listener in cluster.proxy.clients)


@within(run_proxied)
async def test_a_rule_sees_the_answer_to_a_held_request_of_a_client_that_left(
    cluster: ProxiedCluster,
) -> None:
    cluster.arm(Hold(), REQUEST, api="Produce")
    cluster.arm(Pass(), RESPONSE, rule_id="answered", api="Produce", topic="orders")
    wire = await open_wire(cluster)
    wire.send(wire.produce(first_partition()))
    await cluster.wait_until_struck()
    await wire.close()
    await asyncio.sleep(1)
    assert struck(cluster, "answered") == 0
    cluster.injector.disarm("f")
    await cluster.wait_until_struck("answered")
    assert await records(cluster) == 1
    assert not any(client_listener.relays for client_listener in cluster.proxy.clients), (
        "both sides are closed"
    )


@within(run_proxied)
async def test_a_field_of_a_real_answer_is_rewritten(cluster: ProxiedCluster) -> None:
    """A rule rewrites the last stable offset of the broker's answer."""
    add_rewrite = Rewrite(field="last_stable_offset", how=RewriteHow.ADD, value=7)
    cluster.arm(add_rewrite, RESPONSE, api="Fetch", client_id="reader")
    settings = ClientSettings(client_id="reader")
    async with Cluster(
        cluster.proxy.bootstrap, settings=settings, clock=cluster.env.clock, tasks=cluster.env.tasks
    ) as client:
        fetch_result = await fetch(
            client, "orders", 0, 0, isolation=IsolationLevel.READ_COMMITTED, max_wait_ms=0
        )
    assert fetch_result.last_stable_offset == 7
    assert struck(cluster, "f") == 1
