"""The control port's answers, asked as an HTTP client would, over a cluster in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import msgspec
import pytest

from sim.client.producer import Producer
from sim.http.app import ControlApi
from sim.http.replies import BODY_BYTES_MAX
from sim.runtime.trace import TraceLevel
from tests.support.clusters import VirtualCluster, run_cluster

HOLD = {"id": "late", "point": "client.request", "api": "Produce", "action": {"do": "hold"}}
Story = Callable[[VirtualCluster, httpx.AsyncClient], Awaitable[None]]


def run(story: Story) -> None:
    async def main(cluster: VirtualCluster) -> None:
        transport = httpx.ASGITransport(app=ControlApi(cluster.sim).app())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await story(cluster, client)

    run_cluster(main)


def test_health_says_where_the_cluster_is() -> None:
    async def story(cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        answer = await client.get("/healthz")
        assert answer.json() == {
            "status": "ok",
            "brokers": 3,
            "bootstrap": cluster.sim.bootstrap,
        }

    run(story)


def test_metrics_and_the_document_are_there() -> None:
    async def story(_cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        metrics = await client.get("/metrics")
        assert metrics.headers["content-type"].startswith("text/plain")
        assert 'txnsim_producer_ids{broker="1"} 0.0' in metrics.text
        described = await client.get("/openapi.json")
        assert described.json()["openapi"].startswith("3.")

    run(story)


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example"])
def test_only_loopback_names_are_answered(host: str) -> None:
    async def story(_cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        assert (await client.get("/healthz", headers={"host": host})).status_code == 400

    run(story)


# Clock


def test_an_advance_moves_the_cluster_clock() -> None:
    async def story(cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        before = (await client.get("/api/v1/clock")).json()
        answer = await client.post("/api/v1/clock", json={"advance_ms": 5_000})
        assert answer.json() == {
            "now_ms": before["now_ms"] + 5_000,
            "advanced_ms": before["advanced_ms"] + 5_000,
        }
        assert cluster.env.clock.advanced_ms == 5_000

    run(story)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'{"advance_ms": -1}', 422),
        (b'{"advance_ms": 1e99}', 422),
        (b'{"advance_ms": 400000000000000}', 422),
        (b'{"advance_ms": "1"}', 422),
        (b"{", 422),
        (b" " * (BODY_BYTES_MAX + 1), 413),
    ],
)
def test_a_bad_advance_is_refused_with_the_reason(content: bytes, status: int) -> None:
    async def story(cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        answer = await client.post("/api/v1/clock", content=content)
        assert answer.status_code == status
        assert answer.json()["error"]
        assert cluster.env.clock.advanced_ms == 0

    run(story)


# Faults


def test_a_rule_holds_until_it_is_released_and_is_gone_when_taken_back() -> None:
    async def story(cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        armed = await client.post("/api/v1/faults", json=HOLD)
        assert (armed.status_code, armed.json()["struck"]) == (201, 0)
        async with cluster.client() as app, Producer(app) as producer:
            first = producer.send("orders", 0, b"v")
            waited = await client.get("/api/v1/faults/late/wait?struck=1")
            assert (waited.json()["struck"], waited.json()["held"]) == (1, 1)
            released = await client.post("/api/v1/faults/late/release")
            assert released.json() == {"released": 1}
            await first
            second = producer.send("orders", 0, b"v")
            await client.get("/api/v1/faults/late/wait?struck=2")
            gone = await client.delete("/api/v1/faults/late")
            assert gone.json()["released"] == 2
            await second
        assert (await client.get("/api/v1/faults")).json() == []

    run(story)


def test_rules_are_listed_and_shown_one_by_one() -> None:
    async def story(_cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        for name in ("a", "b"):
            await client.post("/api/v1/faults", json={**HOLD, "id": name})
        listed = (await client.get("/api/v1/faults")).json()
        assert [one["rule"]["id"] for one in listed] == ["a", "b"]
        assert (await client.get("/api/v1/faults/b")).json() == listed[1]

    run(story)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/v1/faults", {**HOLD, "id": "there"}, 409),
        ("POST", "/api/v1/faults", {**HOLD, "point": "nowhere"}, 422),
        ("POST", "/api/v1/faults", {**HOLD, "api": "NoSuchApi"}, 422),
        ("POST", "/api/v1/faults", {**HOLD, "surprise": 1}, 422),
        ("POST", "/api/v1/faults", {**HOLD, "action": {"do": "error", "error": "?"}}, 422),
        ("GET", "/api/v1/faults/missing", None, 404),
        ("DELETE", "/api/v1/faults/missing", None, 404),
        ("POST", "/api/v1/faults/missing/release", None, 404),
        ("GET", "/api/v1/faults/missing/wait", None, 404),
        ("GET", "/api/v1/faults/there/wait?timeout_ms=50", None, 408),
        ("GET", "/api/v1/faults/there/wait?struck=0", None, 422),
        ("GET", "/api/v1/faults/there/wait?struck=x", None, 422),
        ("GET", "/api/v1/faults/there/wait?timeout_ms=99999999", None, 422),
    ],
)
def test_what_can_not_be_obeyed_is_refused_with_the_reason(
    method: str, path: str, body: Any, status: int
) -> None:
    async def story(_cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        await client.post("/api/v1/faults", json={**HOLD, "id": "there"})
        answer = await client.request(method, path, json=body)
        assert answer.status_code == status
        assert answer.json()["error"]

    run(story)


def test_who_waits_for_a_rule_hears_that_it_was_taken_back() -> None:
    async def story(_cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        await client.post("/api/v1/faults", json=HOLD)
        waiting = asyncio.get_running_loop().create_task(client.get("/api/v1/faults/late/wait"))
        await asyncio.sleep(1)
        await client.delete("/api/v1/faults/late")
        answer = await waiting
        assert answer.status_code == 408
        assert "disarmed" in answer.json()["error"]

    run(story)


# Trace


def test_the_trace_comes_as_json_lines() -> None:
    async def story(cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        tracer = cluster.sim.environment.tracer
        tracer.level = TraceLevel.BRIEF
        tracer.emit("note", "test", data={"text": "here"})
        answer = await client.get("/api/v1/trace")
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        lines = [msgspec.json.decode(line) for line in answer.text.splitlines()]
        assert lines[0]["k"] == "run"
        assert lines[-1]["k"] == "end"
        assert lines[-1]["events"] == len(lines) - 2 > 0

    run(story)
