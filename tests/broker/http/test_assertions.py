"""Assertions through the control port: each is one call, answered in the words of Python's."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.clusters import VirtualCluster, real_cluster
from tests.support.control_port import run_story
from tests.support.within import within
from txnsim.client.producer import Producer
from txnsim.faults.actions import Drop
from txnsim.faults.points import FaultPoint
from txnsim.http.app import ControlApi
from txnsim.runtime import _unpacker as unpacker

ONCE = "/api/v1/assertions/exactly-once"
HANGING = "/api/v1/assertions/no-hanging-transactions"


async def transact(cluster: VirtualCluster, *values: bytes, commits: bool = True) -> None:
    async with cluster.client() as app, Producer(app, transactional_id="app") as producer:
        await producer.init_transactions()
        producer.begin()
        for value in values:
            await producer.send("orders", 0, value)
        await (producer.commit() if commits else producer.abort())


@within(run_story)
async def test_committed_values_are_read_as_text_or_as_bytes(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await transact(cluster, b"a", b"b")
    await transact(cluster, b"c", commits=False)
    path = "/api/v1/topics/orders/committed"
    assert (await client.get(path)).json() == ["a", "b"]
    await transact(cluster, b"\xff")
    refusal = await client.get(path)
    assert refusal.status_code == 422
    assert "orders-0 at offset 5 is no UTF-8: ask with ?encoding=base64" in refusal.text
    found = (await client.get(f"{path}?encoding=base64")).json()
    assert [base64.b64decode(one) for one in found] == [b"a", b"b", b"\xff"]


@within(run_story)
async def test_exactly_once_fails_in_the_words_of_python(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await transact(cluster, b"a", b"a")
    await transact(cluster, b"c", commits=False)
    good = await client.post(ONCE, json={"input": ["a", "a"], "output": "orders"})
    assert (good.status_code, good.json()) == (200, {"error": None})
    bad = await client.post(ONCE, json={"input": ["a", "b"], "output": "orders"})
    assert bad.status_code == 409
    assert bad.json()["error"].splitlines() == [
        "not exactly once, from what was given to orders:",
        "missing: 1 record",
        "  'b'",
        "more than once: 1 record",
        "  'a'",
    ]
    encoded = [base64.b64encode(b"a").decode()] * 2
    same = await client.post(
        ONCE, json={"input": encoded, "output": "orders", "encoding": "base64"}
    )
    assert same.status_code == 200


@within(run_story)
async def test_who_is_alive_does_not_hang_and_silence_is_no_answer(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    assert (await client.get(HANGING)).json() == {"error": None}
    async with cluster.client() as app, Producer(app, transactional_id="app") as producer:
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"v")
        assert (await client.get(HANGING)).status_code == 200, "it is alive"
        await producer.commit()
    cluster.arm(Drop(), FaultPoint.CLIENT_REQUEST, api="DescribeProducers")
    silent = await client.get(HANGING)
    assert silent.status_code == 503
    assert "the cluster did not answer" in silent.json()["error"]


@pytest.mark.parametrize(
    ("body", "status", "advice"),
    [
        ({"input": "nope", "output": "orders"}, 404, "GET /api/v1/topics lists them"),
        ({"input": [], "output": "nope"}, 404, "GET /api/v1/topics lists them"),
        ({"input": [], "output": "orders", "settle_ms": -1}, 422, "expected 0 to"),
        ({"input": ["?"], "output": "orders", "encoding": "base64"}, 422, "no base64"),
        ({"output": "orders"}, 422, "input"),
    ],
)
@within(run_story)
async def test_what_can_not_be_compared_is_refused(
    cluster: VirtualCluster,
    client: httpx.AsyncClient,
    /,
    body: dict[str, Any],
    status: int,
    advice: str,
) -> None:
    answer = await client.post(ONCE, json=body)
    assert (answer.status_code, advice in answer.text) == (status, True), answer.text


async def test_a_topic_is_read_up_to_a_bound_and_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A whole topic was read and held, in steps of a Fetch each."""
    threads: list[str] = []

    def noted(work: Callable[[], object]) -> object:
        threads.append(threading.current_thread().name)
        return work()

    monkeypatch.setattr(unpacker, "with_short_switch_interval", noted)
    async with real_cluster(brokers=1, answer_max_bytes=2_000) as sim:
        api = ControlApi(sim)
        transport = httpx.ASGITransport(app=api.app())
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=60
        ) as ask:
            await transact(VirtualCluster(sim.environment, sim), b"a", b"b")
            assert (await ask.get("/api/v1/topics/orders/committed")).json() == ["a", "b"]
            wanted = {"input": ["a", "b"], "output": "orders"}
            assert (await ask.post(ONCE, json=wanted)).json() == {"error": None}
            assert threads
            assert all(name.startswith("txnsim-unpack") for name in threads)
            await transact(VirtualCluster(sim.environment, sim), b"v" * 1_500, b"v" * 1_500)
            refused = await ask.get("/api/v1/topics/orders/committed")
            assert refused.status_code == 422
            assert "more than 2,000 bytes (answer_max_bytes)" in refused.json()["error"]
            refused = await ask.post(ONCE, json=wanted)
            assert refused.status_code == 422
            assert refused.json()["error"].endswith("besides its key and value (answer_max_bytes)")
        api.close()
