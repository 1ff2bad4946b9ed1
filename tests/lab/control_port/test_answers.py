"""Every operation of the OpenAPI document is asked, and what is answered is what it says: its
status is declared, its JSON fits the schema.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import jsonschema
import pytest

from tests.support.clusters import begin_transaction, client_of, real_cluster
from txnsim.http._app import OPERATIONS, ControlApi
from txnsim.http._openapi import document
from txnsim.runtime.trace import TraceLevel
from txnsim.server.cluster import SimCluster

HOLD: Final = {"id": "late", "point": "client.request", "api": "EndTxn", "action": {"do": "hold"}}
SCENARIO: Final = """
name: one-record
title: One record is read
goal: See it.
method: Write it.
topics: {t: 1}
runs: {TV2: {mode: TV2, verdict: healthy}}
steps:
  - call: {who: bystander, do: append, partition: t-0, values: [a]}
"""


class CheckedClient:
    """An HTTP client that holds every answer against the document, and knows what it has asked."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.document = document(OPERATIONS)
        self.asked: set[tuple[str, str]] = set()
        self._client = client

    async def __call__(self, method: str, path: str, status: int, json: Any = None) -> Any:
        """Send a request, and check the status and the answer's schema."""
        answer = await self._client.request(method, path, json=json)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        path_template, operation = self._operation(method.lower(), path.partition("?")[0])
        self.asked.add((method.lower(), path_template))
        if json is not None:
            self._validate(json, operation["requestBody"]["content"]["application/json"]["schema"])
        declared_content = operation["responses"][str(status)].get("content")
        if declared_content is None:
            assert not answer.content
            return None
        media_type = answer.headers["content-type"].partition(";")[0]
        assert media_type in declared_content, f"{method} {path}: {media_type}"
        if media_type != "application/json":
            return answer.text
        self._validate(answer.json(), declared_content[media_type]["schema"])
        return answer.json()

    def _operation(self, method: str, path: str) -> tuple[str, dict[str, Any]]:
        for path_template, methods in self.document["paths"].items():
            pattern = re.sub(r"{\w+}", "[^/]+", path_template)
            if re.fullmatch(pattern, path) and method in methods:
                return path_template, methods[method]
        raise AssertionError(f"{method} {path} is not in the document")

    def _validate(self, value: Any, schema: dict[str, Any]) -> None:
        whole_schema = {**schema, "components": self.document["components"]}
        jsonschema.Draft202012Validator(whole_schema).validate(value)


@asynccontextmanager
async def control_port() -> AsyncIterator[tuple[SimCluster, CheckedClient]]:
    async with real_cluster(trace_level=TraceLevel.BRIEF, broker_heartbeat_interval_ms=100) as sim:
        api = ControlApi(sim)
        transport = httpx.ASGITransport(app=api.app())
        try:
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost", timeout=60
            ) as client:
                yield sim, CheckedClient(client)
        finally:
            api.close()


@pytest.mark.costly
@pytest.mark.slow
async def test_every_operation_answers_as_the_document_says() -> None:
    async with control_port() as (sim, checked_client):
        await checked_client("GET", "/healthz", 200)
        await checked_client("GET", "/metrics", 200)
        await checked_client("GET", "/api/v1/cluster", 200)
        await checked_client("GET", "/api/v1/connections", 200)
        await checked_client("POST", "/api/v1/session", 204)
        await clock_and_trace(checked_client)
        await topics(checked_client)
        await transactions_and_faults(sim, checked_client)
        await scenarios(checked_client)
        await brokers(checked_client)
        await practise_and_repair(checked_client)
        await rounds(checked_client)
        described_operations = {
            (method, path)
            for path, methods in checked_client.document["paths"].items()
            for method in methods
        }
        # Streams have no end; tests/broker/http/test_events.py hears them.
        streams = {("get", "/api/v1/events"), ("get", "/api/v1/events/packed")}
        assert described_operations - checked_client.asked == streams


async def practise_and_repair(checked_client: CheckedClient) -> None:
    await checked_client("POST", "/api/v1/practise", 200)
    (explained,) = (await checked_client("GET", "/api/v1/explain?partition=orders-0", 200))[
        "partitions"
    ]
    assert explained["cause"] == "hanging transaction"
    (repair,) = await checked_client(
        "POST", "/api/v1/repairs", 200, {"topic": "orders", "partition": 0}
    )
    assert repair["outcome"] == "repaired"
    assert (
        await checked_client("POST", "/api/v1/repairs", 200, {"topic": "orders", "partition": 0})
        == []
    )
    await checked_client("POST", "/api/v1/repairs", 404, {"topic": "nowhere", "partition": 0})


async def clock_and_trace(checked_client: CheckedClient) -> None:
    await checked_client("GET", "/api/v1/clock", 200)
    await checked_client("POST", "/api/v1/clock", 200, {"advance_ms": 5})
    await checked_client("POST", "/api/v1/clock", 422, {"advance_ms": -5})
    await checked_client("GET", "/api/v1/trace", 200)
    await checked_client("GET", "/api/v1/report", 200)
    await checked_client("GET", "/api/v1/report?from=x", 422)
    await checked_client("POST", "/api/v1/trace", 200, {"level": "brief"})
    await checked_client("GET", "/api/v1/explain?at=0", 200)
    await checked_client("GET", "/api/v1/explain?partition=nowhere-0", 404)
    await checked_client("GET", "/api/v1/explain?of=7", 404)


async def topics(checked_client: CheckedClient) -> None:
    await checked_client("GET", "/api/v1/topics", 200)
    await checked_client(
        "POST", "/api/v1/topics", 201, {"name": "more", "configs": {"cleanup.policy": "delete"}}
    )
    await checked_client("POST", "/api/v1/topics", 409, {"name": "more"})
    await checked_client("GET", "/api/v1/topics/orders", 200)
    await checked_client("GET", "/api/v1/topics/nope", 404)
    await checked_client("DELETE", "/api/v1/topics/more", 200)
    await checked_client("GET", "/api/v1/transactions/nobody", 404)


async def transactions_and_faults(sim: SimCluster, checked_client: CheckedClient) -> None:
    async with client_of(sim.environment, sim) as app_cluster:
        producer = await begin_transaction(app_cluster, "app")
        await producer.send("orders", 0, b"v")
        await checked_client("GET", "/api/v1/transactions", 200)
        await checked_client("GET", "/api/v1/transactions/app", 200)
        wait_text = "/api/v1/transaction-wait?transactional_id=app&timeout_ms=5"
        await checked_client(
            "GET", f"{wait_text}&state=Empty&state=Ongoing&state=CompleteCommit", 200
        )
        await checked_client("GET", f"{wait_text}&state=Dead", 408)
        await checked_client("GET", f"{wait_text}&state=Nothing", 422)
        await checked_client("GET", "/api/v1/producers?topic=orders", 200)
        assert await checked_client("GET", "/api/v1/open-transactions", 200)
        await checked_client("GET", "/api/v1/verdict", 200)
        history = await checked_client(
            "POST", "/api/v1/looks", 200, {"topic": "orders", "partition": 0}
        )
        await checked_client("POST", "/api/v1/verdicts", 200, history)
        await checked_client("GET", "/api/v1/assertions/no-hanging-transactions", 200)
        await checked_client("GET", "/api/v1/topics/orders/committed?settle_ms=0", 200)
        assertion_fields = {"input": ["v"], "output": "orders", "settle_ms": 0}
        await checked_client("POST", "/api/v1/assertions/exactly-once", 409, assertion_fields)
        await checked_client(
            "POST", "/api/v1/assertions/exactly-once", 200, {**assertion_fields, "input": []}
        )
        await checked_client("POST", "/api/v1/faults", 201, HOLD)
        await checked_client("POST", "/api/v1/faults", 409, HOLD)
        await checked_client("POST", "/api/v1/faults/plan", 201, [{**HOLD, "id": "other"}])
        await checked_client("POST", "/api/v1/faults/verify", 409)
        await checked_client("GET", "/api/v1/faults/late/wait?timeout_ms=0", 408)
        await checked_client("GET", "/api/v1/faults", 200)
        await checked_client("GET", "/api/v1/faults/late", 200)
        await checked_client("POST", "/api/v1/faults/late/release", 200)
        await checked_client("DELETE", "/api/v1/faults/late", 200)
        await checked_client("DELETE", "/api/v1/faults/late", 404)
        await checked_client("DELETE", "/api/v1/faults", 200)
        await producer.commit()
        await producer.close()
    await checked_client("POST", "/api/v1/faults/verify?forget=true", 409)
    await checked_client("POST", "/api/v1/faults/verify", 200)


async def scenarios(checked_client: CheckedClient) -> None:
    await checked_client("GET", "/api/v1/scenarios", 200)
    await checked_client("GET", "/api/v1/scenarios/z01", 200)
    run = await checked_client("POST", "/api/v1/runs?wait_ms=0", 202, {"yaml": SCENARIO})
    run_url = f"/api/v1/runs/{run['id']}"
    await checked_client("GET", f"{run_url}?wait_ms=60000", 200)
    await checked_client("GET", "/api/v1/runs", 200)
    await checked_client("GET", f"{run_url}/history?run=TV2", 200)
    await checked_client("GET", f"{run_url}/trace", 200)
    await checked_client("GET", f"{run_url}/trace?run=V-", 422)
    await checked_client("GET", f"{run_url}/findings", 200)
    await checked_client("GET", f"{run_url}/difference?beside={run['id']}", 200)
    await checked_client("GET", f"{run_url}/difference?beside=nobody", 404)
    await checked_client("POST", f"{run_url}/go", 409)
    driven = {"yaml": SCENARIO, "paused": True, "seed": 2}
    run = await checked_client("POST", "/api/v1/runs?wait_ms=60000", 200, driven)
    run_url = f"/api/v1/runs/{run['id']}"
    await checked_client(
        "POST", f"{run_url}/inputs?wait_ms=60000", 200, {"step": {"advance": "1s"}}
    )
    await checked_client("POST", f"{run_url}/go?wait_ms=60000", 200, {"steps": 1})
    await checked_client("POST", f"{run_url}/back?wait_ms=60000", 200, {"stops": 2})
    await checked_client("DELETE", run_url, 204)
    await checked_client("GET", "/api/v1/lessons", 200)
    await checked_client("GET", "/api/v1/lessons/l99/parts/0/answer", 404)
    await checked_client("GET", "/api/v1/lessons/L1/parts/1/answer", 422)
    await checked_client("GET", "/api/v1/lessons/L1/parts/0/answer", 404)  # it asks nothing
    await checked_client("POST", "/api/v1/lessons/L10/begin", 200, {})
    await checked_client("POST", "/api/v1/lessons/L10/seen", 200, [])
    await checked_client("GET", "/api/v1/lessons/L10/parts/0/now", 200)
    begin = {"name": "z01", "runs": ["V-"], "paused": True, "lesson": "L1"}
    run = await checked_client("POST", "/api/v1/runs?wait_ms=60000", 200, begin)
    answer_url = f"/api/v1/lessons/L1/parts/1/answer?of={run['id']}"
    await checked_client("POST", f"/api/v1/runs/{run['id']}/go?wait_ms=60000", 200, {"steps": 9})
    assert (await checked_client("GET", answer_url, 200))["key"] == "1"
    await checked_client(
        "POST", f"/api/v1/runs/{run['id']}/inputs?wait_ms=60000", 200, {"step": {"advance": "5m"}}
    )
    saved = await checked_client("GET", f"/api/v1/runs/{run['id']}/story?name=mine", 200)
    assert "name: mine" in saved
    assert saved.rstrip().endswith("advance: 300000ms")
    await checked_client("GET", "/api/v1/runs/nobody/story", 404)
    await checked_client("POST", f"{run_url}/back", 409)


async def brokers(checked_client: CheckedClient) -> None:
    await checked_client("GET", "/api/v1/brokers", 200)
    await checked_client("GET", "/api/v1/brokers/3", 200)
    await checked_client("GET", "/api/v1/brokers/3/log-dir", 200)
    await checked_client("GET", "/api/v1/log-dirs", 200)
    topic_partition = {"topic": "orders", "partition": 0}
    await checked_client("POST", "/api/v1/leaders", 200, {**topic_partition, "leader": 2})
    await checked_client("POST", "/api/v1/elections", 200, topic_partition)
    await checked_client("POST", "/api/v1/brokers/3/isolate", 200, {"from_clients": True})
    await checked_client("POST", "/api/v1/brokers/3/heal", 200)
    await checked_client("POST", "/api/v1/brokers/3/kill", 200, {"lose_unflushed": False})
    await checked_client("POST", "/api/v1/brokers/3/kill", 409)
    await checked_client("POST", "/api/v1/brokers/3/start?wait_ms=0", 202, {})
    await checked_client("POST", "/api/v1/brokers/2/stop", 200)


async def rounds(checked_client: CheckedClient) -> None:
    await checked_client("POST", "/api/v1/snapshots", 201, {"name": "base"})
    await checked_client("GET", "/api/v1/snapshots", 200)
    reset = await checked_client("POST", "/api/v1/reset", 200, {"to": "base"})
    assert reset["took_ms"] < 5_000
    await checked_client("POST", "/api/v1/reset", 404, {"to": "nowhere"})
