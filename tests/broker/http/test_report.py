"""What happened, told for the report of a failed test."""

from __future__ import annotations

import httpx

from tests.support.clusters import VirtualCluster
from tests.support.control_port import run_story
from tests.support.within import within
from txnsim.client.producer import Producer
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint
from txnsim.runtime.trace import TraceLevel


@within(run_story)
async def test_the_story_the_waits_and_the_rules_are_told(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    cluster.env.tracer.level = TraceLevel.OFF
    fresh = (await client.get("/api/v1/report")).text
    assert "nothing was recorded" in fresh
    assert 'POST /api/v1/trace with {"level": "brief"}' in fresh
    assert f"3 of 3 brokers up at {cluster.sim.bootstrap}; transactional ids: 0; topics: " in fresh
    cluster.env.tracer.level = TraceLevel.BRIEF
    cluster.arm(Hold(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers")
    async with cluster.client() as app, Producer(app, transactional_id="shop") as producer:
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"v")
        await producer.commit()
        await cluster.struck()
        told = (await client.get("/api/v1/report")).text
        assert "txnsim: what happened" in told
        assert "shop: the fault rule 'f' holds WriteTxnMarkers" in told
        assert "shop: orders-0 has no marker yet" in told
        assert "f: 1 matched, 1 struck, 1 held" in told
        assert max(map(len, told.splitlines())) <= 200
        cluster.sim.injector.disarm_all()
    refused = await client.get("/api/v1/report?from=x")
    assert refused.status_code == 422


@within(run_story)
async def test_names_that_a_terminal_would_obey_are_written_out(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    cluster.env.tracer.level = TraceLevel.BRIEF
    name = "id\x1b]0;taken\x07\r\nforged: all is well\u202e"
    async with cluster.client() as app, Producer(app, transactional_id=name) as producer:
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"v")
        told = (await client.get("/api/v1/report")).text
        await producer.abort()
    assert r"id\x1b]0;taken\x07\r\nforged" in told
    assert not {*told} & {"\x1b", "\x07", "\r", "\u202e"}
    assert not any(line.startswith("forged") for line in told.splitlines())
