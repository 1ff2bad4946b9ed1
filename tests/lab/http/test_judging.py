"""Histories through the control port: an onlooker's looks, and the judges."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.clusters import VirtualCluster
from tests.support.control_port import run_story
from tests.support.within import within
from txnsim.client.producer import Producer
from txnsim.faults.actions import Drop
from txnsim.faults.points import FaultPoint

LOOKS = "/api/v1/looks"
VERDICTS = "/api/v1/verdicts"
TWICE = [
    {"seen": "wrote", "at_ms": 1, "who": "p", "topic": "t", "partition": 0, "value": "v",
     "offset": offset}
    for offset in (0, 1)
]  # fmt: skip


@within(run_story)
async def test_an_onlooker_sees_what_everybody_can(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    async with cluster.client() as app, Producer(app, transactional_id="app") as producer:
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"v")
        seen = (await client.post(LOOKS, json={"topic": "orders", "partition": 0})).json()
        kinds = [one["seen"] for one in seen]
        assert kinds == [
            "producers",
            "listed",
            "described",
            "producers",
            "read",
            "read",
            "read",
        ]
        assert seen[0]["producers"][0]["start_offset"] == 0
        assert seen[2]["state"] == "Ongoing"
        committed, uncommitted, _end = seen[4:]
        assert (committed.get("records"), committed["last_stable_offset"]) == (None, 0)
        assert uncommitted["records"] == [{"offset": 0, "value": "v"}]
        healthy = (await client.post(VERDICTS, json=seen)).json()
        assert healthy == {"healthy": True, "kinds": [], "anomalies": []}
        await producer.commit()


def test_the_judges_convict_over_the_port_as_everywhere() -> None:
    place = {"topic": "t", "partition": 0}
    history: list[dict[str, Any]] = [
        {"seen": "began", "transaction": "t1", "transactional_id": "app"},
        {"seen": "wrote", **place, "transaction": "t1", "value": "v", "offset": 0},
        {"seen": "ended", "transaction": "t1", "commit": False},
        {"seen": "read", **place, "asked": 0, "next_offset": 1,
         "records": [{"offset": 0, "value": "v"}]},
    ]  # fmt: skip

    async def story(_cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        body = [{"at_ms": at, "who": "app", **one} for at, one in enumerate(history)]
        verdict = (await client.post(VERDICTS, json=body)).json()
        assert not verdict["healthy"]
        assert verdict["kinds"] == ["aborted-read"]
        assert verdict["anomalies"][0]["because"]

    run_story(story)


@pytest.mark.parametrize(
    ("path", "body", "status", "advice"),
    [
        (LOOKS, {"topic": "nope", "partition": 0}, 404, "GET /api/v1/topics"),
        (LOOKS, {"topic": "orders", "partition": 7}, 404, "partitions 0 to 2"),
        (VERDICTS, [{"seen": "nothing"}], 422, "nothing"),
        (VERDICTS, {}, 422, "expected a list"),
        (VERDICTS, TWICE, 422, "observations 1 and 2: the value 'v' names two records of t-0"),
    ],
)
@within(run_story)
async def test_what_can_not_be_looked_at_or_judged_is_refused(
    cluster: VirtualCluster,
    client: httpx.AsyncClient,
    /,
    path: str,
    body: Any,
    status: int,
    advice: str,
) -> None:
    answer = await client.post(path, json=body)
    assert answer.status_code == status
    assert advice in answer.json()["error"]


@within(run_story)
async def test_an_onlooker_who_is_not_answered_says_so(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    cluster.arm(Drop(), FaultPoint.CLIENT_REQUEST, api="DescribeProducers")
    answer = await client.post(LOOKS, json={"topic": "orders", "partition": 0})
    assert answer.status_code == 503
    assert "GET /api/v1/brokers" in answer.json()["error"]
