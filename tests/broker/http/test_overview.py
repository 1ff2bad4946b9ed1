"""The cluster as a whole through the control port."""

from __future__ import annotations

import httpx

from tests.support.clusters import VirtualCluster
from tests.support.control_port import run_story
from tests.support.within import within


@within(run_story)
async def test_health_says_where_the_cluster_is(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    answer = await client.get("/healthz")
    assert answer.json() == {
        "status": "ok",
        "brokers": 3,
        "bootstrap": cluster.sim.bootstrap,
    }


@within(run_story)
async def test_metrics_and_the_document_are_there(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    metrics = await client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert 'txnsim_producer_ids{broker="1"} 0.0' in metrics.text
    described = await client.get("/openapi.json")
    assert described.json()["openapi"].startswith("3.")


@within(run_story, level=1)
async def test_the_cluster_in_short(cluster: VirtualCluster, client: httpx.AsyncClient, /) -> None:
    seen = (await client.get("/api/v1/cluster")).json()
    assert seen["bootstrap"] == cluster.sim.bootstrap
    assert (seen["brokers"], seen["brokers_running"]) == (3, 3)
    assert set(seen["releases"]) == {"1", "2", "3"}
    assert seen["features"]["transaction.version"] == 1
    assert (seen["topics"], seen["partitions"], seen["partitions_without_leader"]) == (1, 3, 0)
    assert seen["settings"]["transaction.state.log.num.partitions"] == "6"
    await client.post("/api/v1/brokers/1/stop")
    await client.post(
        "/api/v1/faults", json={"id": "f", "point": "client.request", "action": {"do": "drop"}}
    )
    later = (await client.get("/api/v1/cluster")).json()
    assert (later["brokers"], later["brokers_running"], later["faults"]) == (3, 2, 1)
    assert later["metadata_offset"] > seen["metadata_offset"]
