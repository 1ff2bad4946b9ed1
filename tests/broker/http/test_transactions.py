"""Transactions through the control port: as coordinators have them and as partitions do."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.support.clusters import VirtualCluster, until_state
from tests.support.control_port import run_story
from tests.support.within import within
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.faults.actions import Hold
from txnsim.faults.points import FaultPoint

TRANSACTIONS = "/api/v1/transactions"
OPEN = "/api/v1/open-transactions"


@within(run_story)
async def test_an_open_transaction_is_shown_by_coordinator_and_partition(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    async with cluster.client() as app, Producer(app, transactional_id="a/b") as producer:
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 1, b"v")
        cluster.advance(5_000)
        (listed,) = (await client.get(TRANSACTIONS)).json()
        assert listed == (await client.get(f"{TRANSACTIONS}/a/b")).json()
        assert (listed["state"], listed["pending_state"]) == ("Ongoing", None)
        assert listed["partitions"] == [{"topic": "orders", "partition": 1}]
        assert listed["open_for_ms"] >= 5_000
        assert listed["markers_owed"] == 0
        (known,) = (await client.get("/api/v1/producers?topic=orders&partition=1")).json()
        assert known["open_since_offset"] == 0
        assert known["producer_id"] == listed["producer_id"]
        (judged,) = (await client.get(OPEN)).json()
        assert (judged["verdict"], judged["transactional_id"]) == ("alive", "a/b")
        assert _commands(judged) == []
        assert (await client.get(f"{OPEN}?verdict=hanging")).json() == []
        await producer.commit()
    assert (await client.get(OPEN)).json() == []


@within(run_story)
async def test_markers_that_are_owed_are_counted(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    cluster.arm(Hold(), FaultPoint.PEER_REQUEST, api="WriteTxnMarkers")
    async with cluster.client() as app, Producer(app, transactional_id="app") as producer:
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"v")
        await producer.commit()
        await cluster.struck()
        (owing,) = (await client.get(f"{TRANSACTIONS}?state=PrepareCommit")).json()
        assert (owing["markers_owed"], owing["pending_state"]) == (1, "CompleteCommit")
        (judged,) = (await client.get(OPEN)).json()
        assert judged["verdict"] == "decided"
        # An abort would take back what the client was told to be committed.
        assert _commands(judged) == []
        cluster.sim.injector.disarm_all()
        await until_state(app, "app", "CompleteCommit")
        (ended,) = (await client.get(TRANSACTIONS)).json()
        assert (ended["markers_owed"], ended["start_ms"], ended["open_for_ms"]) == (
            0,
            None,
            None,
        )
        assert (await client.get(f"{TRANSACTIONS}?state=Ongoing")).json() == []


@within(run_story)
async def test_a_state_is_waited_for_and_in_vain_says_why(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    wait = "/api/v1/transaction-wait?transactional_id=a/b"
    async with cluster.client() as app, Producer(app, transactional_id="a/b") as producer:
        await producer.init_transactions()
        empty = await client.get(f"{wait}&state=CompleteCommit&state=Empty")
        assert empty.json()["state"] == "Empty"
        late = await client.get(f"{wait}&state=Ongoing&timeout_ms=20")
        assert late.status_code == 408
        assert late.json()["error"] == "a/b is Empty after 20 ms, not Ongoing"
    for query, said in (
        ("state=Ongoin", "did you mean Ongoing"),
        ("timeout_ms=5", "no state is given"),
        ("state=Empty&timeout_ms=x", "timeout_ms"),
    ):
        refused = await client.get(f"{wait}&{query}")
        assert (refused.status_code, said in refused.json()["error"]) == (422, True)
    nobody = await client.get("/api/v1/transaction-wait?state=Empty")
    assert nobody.status_code == 422


@within(run_story, level=0, transaction_partition_verification_enable=False)
async def test_a_transaction_that_its_coordinator_does_not_know_hangs(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    cluster.arm(Hold(), FaultPoint.CLIENT_REQUEST, api="Produce", client_id="app")
    async with cluster.client() as app:
        producer = Producer(
            app, transactional_id="app", delivery_timeout_ms=200, request_timeout_ms=150
        )
        await producer.init_transactions()
        producer.begin()
        late = producer.send("orders", 0, b"late")
        await cluster.struck()
        with pytest.raises(ClientError):
            await late
        await producer.abort()
        await client.post("/api/v1/faults/f/release")
        await asyncio.sleep(1)
        (judged,) = (await client.get(f"{OPEN}?verdict=hanging")).json()
        assert judged["start_offset"] >= 0
        # The old flow: its coordinator says that it was aborted. ``repair`` asks again.
        assert _commands(judged) == [
            f"txnsim txns --bootstrap-server {cluster.sim.bootstrap} repair --topic orders"
            " --partition 0 --yes"
        ]
        assert "marker" in judged["reason"] or "no longer has" in judged["reason"]
        asserted = await client.get("/api/v1/assertions/no-hanging-transactions")
        assert asserted.status_code == 409
        told = asserted.json()["error"].splitlines()
        assert told[0] == "1 transaction hangs:"
        assert told[-1].strip() == _commands(judged)[0]
        await producer.close()


def _commands(judged: dict[str, Any]) -> list[str]:
    """Every value that would end the transaction."""
    words = ("abort --topic", "repair --topic")
    return [one for one in map(str, judged.values()) if any(word in one for word in words)]


@within(run_story)
async def test_every_producer_of_every_partition_is_shown_unless_one_is_asked_for(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    async with cluster.client() as app, Producer(app, idempotent=True) as producer:
        await producer.send("orders", 0, b"v")
        await producer.send("orders", 2, b"v")
    known = (await client.get("/api/v1/producers")).json()
    assert [(one["topic"], one["partition"]) for one in known] == [("orders", 0), ("orders", 2)]
    assert {one["open_since_offset"] for one in known} == {None}
    assert len((await client.get("/api/v1/producers?topic=orders")).json()) == 2
    assert (await client.get("/api/v1/producers?topic=orders&partition=1")).json() == []


@pytest.mark.parametrize(
    ("path", "status", "advice"),
    [
        (f"{TRANSACTIONS}?state=Open", 422, "Ongoing"),
        (f"{TRANSACTIONS}/nobody", 404, "GET /api/v1/transactions lists"),
        ("/api/v1/producers?partition=1", 422, "needs a topic"),
        ("/api/v1/producers?topic=nope", 404, "GET /api/v1/topics"),
        ("/api/v1/producers?topic=orders&partition=9", 404, "partitions 0 to 2"),
        ("/api/v1/producers?topic=orders&partition=x", 422, "whole number"),
        (f"{OPEN}?verdict=bad", 422, "alive, decided, hanging"),
    ],
)
@within(run_story)
async def test_what_is_not_there_is_refused_with_the_reason(
    cluster: VirtualCluster, client: httpx.AsyncClient, /, path: str, status: int, advice: str
) -> None:
    answer = await client.get(path)
    assert answer.status_code == status
    assert advice in answer.json()["error"]
