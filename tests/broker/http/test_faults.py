"""Faults through the control port, over a cluster in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.support.clusters import VirtualCluster
from tests.support.control_port import run_story
from tests.support.within import within
from txnsim.client.producer import Producer

HOLD = {"id": "late", "point": "client.request", "api": "Produce", "action": {"do": "hold"}}
FAULTS = "/api/v1/faults"


@within(run_story)
async def test_a_rule_holds_until_it_is_released_and_is_gone_when_taken_back(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
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


@within(run_story)
async def test_what_is_held_is_lost_when_it_is_released_so(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post(FAULTS, json=HOLD | {"limit": 1})
    async with cluster.client() as app, Producer(app) as producer:
        lost = producer.send("orders", 0, b"lost")
        await client.get(f"{FAULTS}/late/wait?struck=1")
        wrong = await client.post(f"{FAULTS}/late/release?as=nothing")
        assert (wrong.status_code, "pass, drop, duplicate" in wrong.text) == (422, True)
        assert (await client.post(f"{FAULTS}/late/release?as=drop")).json() == {"released": 1}
        await lost  # its client has sent it again
    assert (await client.get(f"{FAULTS}/late")).json()["released"] == 1


@within(run_story)
async def test_a_rule_that_waits_for_one_that_nobody_armed_is_refused(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    refused = await client.post(FAULTS, json={**HOLD, "after": "first"})
    assert refused.status_code == 409
    assert refused.json() == {"error": "after: no rule 'first' has been armed"}


@within(run_story)
async def test_actions_on_the_cluster_are_carried_out_and_undone(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    action = {"do": "crash", "broker": 2}
    armed = await client.post(FAULTS, json={"id": "dead", "point": "now", "action": action})
    assert armed.status_code == 201
    waited = await client.get(f"{FAULTS}/dead/wait")
    assert waited.json()["struck"] == 1
    assert 2 not in cluster.sim.brokers
    assert (await client.post(f"{FAULTS}/dead/release")).json() == {"released": 1}
    await asyncio.sleep(30)  # of virtual time
    assert 2 in cluster.sim.brokers
    nobody = {"id": "none", "point": "now", "action": {"do": "crash", "broker": 9}}
    await client.post(FAULTS, json=nobody)
    failed = await client.get(f"{FAULTS}/none/wait?timeout_ms=1000")
    assert failed.status_code == 408
    shown = (await client.get(f"{FAULTS}/none")).json()
    assert (shown["struck"], "9" in shown["failure"]) == (0, True)
    verified = await client.post(f"{FAULTS}/verify")
    assert [one["rule"]["id"] for one in verified.json()["never_struck"]] == ["none"]


@within(run_story)
async def test_rules_are_listed_and_shown_one_by_one(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    for name in ("a", "b"):
        await client.post("/api/v1/faults", json={**HOLD, "id": name})
    listed = (await client.get("/api/v1/faults")).json()
    assert [one["rule"]["id"] for one in listed] == ["a", "b"]
    assert (await client.get("/api/v1/faults/b")).json() == listed[1]


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
@within(run_story)
async def test_what_can_not_be_obeyed_is_refused_with_the_reason(
    cluster: VirtualCluster,
    client: httpx.AsyncClient,
    /,
    method: str,
    path: str,
    body: Any,
    status: int,
) -> None:
    await client.post("/api/v1/faults", json={**HOLD, "id": "there"})
    answer = await client.request(method, path, json=body)
    assert answer.status_code == status
    assert answer.json()["error"]


@within(run_story)
async def test_who_waits_for_a_rule_hears_that_it_was_taken_back(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post("/api/v1/faults", json=HOLD)
    waiting = asyncio.get_running_loop().create_task(client.get("/api/v1/faults/late/wait"))
    await asyncio.sleep(1)
    await client.delete("/api/v1/faults/late")
    answer = await waiting
    assert answer.status_code == 408
    assert "disarmed" in answer.json()["error"]


# Plans


@within(run_story)
async def test_a_plan_is_armed_whole_or_not_at_all(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    armed = await client.post(f"{FAULTS}/plan", json=[{**HOLD, "id": "a"}, {**HOLD, "id": "b"}])
    assert armed.status_code == 201
    assert [one["rule"]["id"] for one in armed.json()] == ["a", "b"]
    refused = await client.post(f"{FAULTS}/plan", json=[{**HOLD, "id": "c"}, {**HOLD, "id": "a"}])
    assert refused.status_code == 409
    assert "DELETE /api/v1/faults/a" in refused.json()["error"]
    assert [one.rule.id for one in cluster.sim.injector.rules()] == ["a", "b"]
    gone = await client.delete(FAULTS)
    assert [one["rule"]["id"] for one in gone.json()] == ["a", "b"]
    assert (await client.get(FAULTS)).json() == []


@pytest.mark.parametrize("body", [{"id": "a"}, [{**HOLD, "point": "x"}], [HOLD] * 1_001])
@within(run_story)
async def test_what_is_no_plan_is_refused(
    cluster: VirtualCluster, client: httpx.AsyncClient, /, body: Any
) -> None:
    assert (await client.post(f"{FAULTS}/plan", json=body)).status_code == 422


@within(run_story)
async def test_a_rule_that_can_strike_nothing_is_told_when_it_is_armed_and_in_hindsight(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    nowhere = {**HOLD, "id": "nowhere", "broker": 9}
    later = {**HOLD, "id": "later", "topic": "elsewhere"}
    armed = (await client.post(f"{FAULTS}/plan", json=[HOLD, nowhere, later])).json()
    doubts = [None, "broker: no broker '9'; there are: 1, 2, 3", None]
    assert [one["doubt"] for one in armed] == doubts
    told = (await client.post(f"{FAULTS}/verify")).json()["error"]
    assert "nowhere: 0 crossings matched, broker: no broker '9'" in told
    assert "later: 0 crossings matched, topic: no topic 'elsewhere'" in told


@within(run_story)
async def test_a_fault_that_never_struck_fails_the_verification(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    assert (await client.post(f"{FAULTS}/verify")).json() == {"error": None, "never_struck": []}
    slow = {**HOLD, "action": {"do": "delay", "delay_ms": 1}}
    await client.post(f"{FAULTS}/plan", json=[slow, {**HOLD, "id": "idle", "topic": "elsewhere"}])
    async with cluster.client() as app, Producer(app) as producer:
        await producer.send("orders", 0, b"v")
    answer = await client.post(f"{FAULTS}/verify")
    assert answer.status_code == 409
    assert [one["rule"]["id"] for one in answer.json()["never_struck"]] == ["idle"]
    assert "idle: 0 crossings matched" in answer.json()["error"]
    (gone,) = (await client.delete(f"{FAULTS}/idle"),)
    assert not gone.json()["in_force"]
    assert (await client.post(f"{FAULTS}/verify?forget=true")).status_code == 409
    assert (await client.post(f"{FAULTS}/verify")).status_code == 200
    assert (await client.post(f"{FAULTS}/verify?forget=1")).status_code == 422
