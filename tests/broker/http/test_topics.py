"""Topics through the control port, over a cluster in virtual time."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.clusters import VirtualCluster
from tests.support.control_port import run_story
from tests.support.within import within
from txnsim.client.producer import Producer

TOPICS = "/api/v1/topics"


@within(run_story)
async def test_a_topic_is_created_shown_and_deleted(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    wanted = {
        "name": "payments",
        "partitions": 2,
        "replication_factor": 2,
        "configs": {"cleanup.policy": "compact"},
    }
    created = await client.post(TOPICS, json=wanted)
    assert created.status_code == 201
    assert len(created.json()["partitions"]) == 2
    shown = (await client.get(f"{TOPICS}/payments")).json()
    assert shown["configs"] == {"cleanup.policy": "compact"}
    assert shown["id"] == created.json()["id"]
    assert [one["name"] for one in (await client.get(TOPICS)).json()] == ["orders", "payments"]
    assert (await client.delete(f"{TOPICS}/payments")).json() == created.json()
    assert "payments" not in cluster.sim.metadata.image.topics


@within(run_story)
async def test_the_offsets_of_every_replica_are_shown(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    async with (
        cluster.client() as app,
        Producer(app) as plain,
        Producer(app, transactional_id="app") as producer,
    ):
        await plain.send("orders", 0, b"v")
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"w")
        (first, *_) = (await client.get(f"{TOPICS}/orders")).json()["partitions"]
        leader = next(one for one in first["replicas"] if one["broker"] == first["leader"])
        assert leader["is_running"]
        assert leader["in_sync"]
        assert leader["size_bytes"] > 0
        names = ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset")
        assert [leader[name] for name in names] == [0, 1, 2, 2]
        assert [one["log_end_offset"] for one in first["replicas"]] == [2, 2, 2]
        await producer.abort()
    await client.post("/api/v1/brokers/3/kill")
    (first, *_) = (await client.get(f"{TOPICS}/orders")).json()["partitions"]
    gone = next(one for one in first["replicas"] if one["broker"] == 3)
    assert (gone["is_running"], gone["log_end_offset"]) == (False, None)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "advice"),
    [
        ("POST", TOPICS, {"name": "orders"}, 409, "TOPIC_ALREADY_EXISTS"),
        ("POST", TOPICS, {"name": "a b"}, 422, "INVALID_TOPIC_EXCEPTION"),
        ("POST", TOPICS, {"name": "a", "replication_factor": 9}, 422, "REPLICATION_FACTOR"),
        ("POST", TOPICS, {"name": "a", "configs": {"x": "y"}}, 422, "INVALID_CONFIG"),
        ("POST", TOPICS, {"name": "a", "partition": 9}, 422, "partition"),
        ("GET", f"{TOPICS}/nope", None, 404, "GET /api/v1/topics lists them"),
        ("DELETE", f"{TOPICS}/nope", None, 404, "GET /api/v1/topics lists them"),
    ],
)
@within(run_story)
async def test_what_can_not_be_done_is_refused_with_the_reason(
    cluster: VirtualCluster,
    client: httpx.AsyncClient,
    /,
    method: str,
    path: str,
    body: Any,
    status: int,
    advice: str,
) -> None:
    answer = await client.request(method, path, json=body)
    assert answer.status_code == status
    assert advice in answer.json()["error"]
