"""The clock through the control port, over a cluster in virtual time."""

from __future__ import annotations

import httpx
import pytest

from tests.support.clusters import VirtualCluster
from tests.support.control_port import run_story
from tests.support.within import within
from txnsim.http.replies import BODY_BYTES_MAX


@within(run_story)
async def test_an_advance_moves_the_cluster_clock(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    before = (await client.get("/api/v1/clock")).json()
    answer = await client.post("/api/v1/clock", json={"advance_ms": 5_000})
    assert answer.json() == {
        "now_ms": before["now_ms"] + 5_000,
        "advanced_ms": before["advanced_ms"] + 5_000,
        "brokers": {"1": 0, "2": 0, "3": 0},
    }
    assert cluster.env.clock.advanced_ms == 5_000


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'{"advance_ms": -1}', 422),
        (b'{"advance_ms": 1e99}', 422),
        (b'{"advance_ms": 400000000000000}', 422),
        (b'{"advance_ms": "1"}', 422),
        (b'{"advance_ms": 1.5}', 422),
        (b'{"advance_ms": true}', 422),
        (b'{"set_by_ms": 0.5}', 422),
        (b"{}", 422),
        (b'{"advance_ms": 1, "set_by_ms": 1}', 422),
        (b'{"advance_ms": 1, "broker": 1}', 422),
        (b'{"set_by_ms": 400000000000000}', 422),
        (b'{"set_by_ms": -400000000000000}', 422),
        (b'{"set_by_ms": 1, "broker": 9}', 404),
        (b"{", 422),
        (b" " * (BODY_BYTES_MAX + 1), 413),
    ],
)
@within(run_story)
async def test_a_bad_advance_is_refused_with_the_reason(
    cluster: VirtualCluster, client: httpx.AsyncClient, /, content: bytes, status: int
) -> None:
    answer = await client.post("/api/v1/clock", content=content)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert cluster.env.clock.advanced_ms == 0


@within(run_story)
async def test_a_duration_may_be_a_text_or_a_whole_number_with_a_point(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    for content in (b'{"advance_ms": "2m"}', b'{"advance_ms": 60e3}', b'{"set_by_ms": "-1m"}'):
        assert (await client.post("/api/v1/clock", content=content)).status_code == 200
    assert cluster.env.clock.advanced_ms == 120_000
    assert type(cluster.env.clock.advanced_ms) is int


@within(run_story)
async def test_a_clock_is_set_without_time_passing(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    fired: list[int] = []
    clock = cluster.env.clock
    clock.call_at(clock.now_ms() + 60_000, lambda: fired.append(1))
    back = await client.post("/api/v1/clock", json={"set_by_ms": -3_600_000})
    assert back.json()["advanced_ms"] == -3_600_000
    one = await client.post("/api/v1/clock", json={"set_by_ms": 120_000, "broker": 2})
    assert one.json()["brokers"] == {"1": 0, "2": 120_000, "3": 0}
    assert one.json()["advanced_ms"] == -3_600_000
    assert not fired
    await client.post("/api/v1/clock", json={"advance_ms": 60_000})
    assert fired
