"""Between tests: snapshots and resets through the control port."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.support.clusters import VirtualCluster
from tests.support.control_port import run_story
from tests.support.within import within
from txnsim.client.producer import Producer

RESET = "/api/v1/reset"
SNAPSHOTS = "/api/v1/snapshots"
HOLD = {"id": "held", "point": "client.request", "api": "Produce", "action": {"do": "hold"}}


async def names(client: httpx.AsyncClient) -> list[str]:
    return [one["name"] for one in (await client.get("/api/v1/topics")).json()]


@within(run_story)
async def test_a_reset_takes_the_cluster_back_to_its_start(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    bootstrap = cluster.sim.bootstrap
    await client.post("/api/v1/topics", json={"name": "more"})
    async with cluster.client() as app, Producer(app, transactional_id="app") as producer:
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"v")
        await client.post("/api/v1/faults", json=HOLD)
        await client.post("/api/v1/clock", json={"advance_ms": 5_000})
        await client.post("/api/v1/brokers/3/kill")
        await client.post("/api/v1/brokers/2/isolate", json={"from_clients": True})
        answer = await client.post(RESET)
        assert answer.status_code == 200
        told = answer.json()
        assert (told["to"], told["bootstrap"]) == ("start", bootstrap)
        assert told["connections_closed"] > 0
        assert [one["rule"]["id"] for one in told["faults"]] == ["held"]
    assert await names(client) == ["orders"]
    assert (await client.get("/api/v1/transactions")).json() == []
    assert (await client.get("/api/v1/producers")).json() == []
    assert (await client.get("/api/v1/faults")).json() == []
    assert (await client.get("/api/v1/clock")).json()["advanced_ms"] == 0
    brokers = (await client.get("/api/v1/brokers")).json()
    assert {(one["state"], one["fenced"], one["isolated"]) for one in brokers} == {
        ("running", False, False)
    }
    assert cluster.sim.bootstrap == bootstrap


@within(run_story)
async def test_a_reset_goes_to_the_snapshot_that_is_named(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post("/api/v1/topics", json={"name": "base", "partitions": 2})
    taken = await client.post(SNAPSHOTS, json={"name": "with-base"})
    assert taken.status_code == 201
    assert taken.json()["topics"] == ["base", "orders"]
    await client.delete("/api/v1/topics/orders")
    assert (await client.post(RESET, json={"to": "with-base"})).status_code == 200
    assert await names(client) == ["base", "orders"]
    assert (await client.post(RESET, json={})).status_code == 200
    assert await names(client) == ["orders"]
    listed = (await client.get(SNAPSHOTS)).json()
    assert [one["name"] for one in listed] == ["start", "with-base"]
    assert listed[0]["features"]["transaction.version"] == 2


@pytest.mark.parametrize(
    ("path", "body", "status", "advice"),
    [
        (SNAPSHOTS, {"name": ""}, 422, "give it one"),
        (SNAPSHOTS, {"name": "start"}, 422, "other than 'start'"),
        (RESET, {"to": "nowhere"}, 404, "only start"),
        (RESET, {"two": "start"}, 422, "two"),
    ],
)
@within(run_story)
async def test_what_can_not_be_done_is_refused_with_the_reason(
    cluster: VirtualCluster,
    client: httpx.AsyncClient,
    /,
    path: str,
    body: dict[str, str],
    status: int,
    advice: str,
) -> None:
    answer = await client.post(path, json=body)
    assert answer.status_code == status
    assert advice in answer.json()["error"]


@within(run_story)
async def test_there_are_only_so_many_snapshots(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    for number in range(1, 100):
        assert (await client.post(SNAPSHOTS, json={"name": str(number)})).status_code == 201
    full = await client.post(SNAPSHOTS, json={"name": "one more"})
    assert (full.status_code, "to replace it" in full.json()["error"]) == (409, True)
    assert (await client.post(SNAPSHOTS, json={"name": "7"})).status_code == 201


@within(run_story)
async def test_what_faults_have_done_to_the_cluster_is_mended(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    for name, action in {
        "dead": {"do": "crash", "broker": 2},
        "back-later": {"do": "crash", "broker": 3, "restart_after_ms": 60_000},
        "apart": {"do": "partition", "groups": [[1], [2, 3]]},
        "off": {"do": "clock", "by_ms": -90_000, "broker": 1},
    }.items():
        rule = {"id": name, "point": "now", "action": action}
        assert (await client.post("/api/v1/faults", json=rule)).status_code == 201
        await client.get(f"/api/v1/faults/{name}/wait")
    told = (await client.post(RESET)).json()
    assert [one["struck"] for one in told["faults"]] == [1, 1, 1, 1]
    await asyncio.sleep(120)  # of virtual time: nothing of them comes back
    brokers = (await client.get("/api/v1/brokers")).json()
    assert {(one["state"], one["fenced"], one["isolated"]) for one in brokers} == {
        ("running", False, False)
    }
    clock = (await client.get("/api/v1/clock")).json()
    assert (clock["advanced_ms"], set(clock["brokers"].values())) == (0, {0})
