"""Brokers and leaders through the control port, over a cluster in virtual time."""

from __future__ import annotations

import asyncio

import httpx
import msgspec
import pytest

from tests.support.clusters import VirtualCluster
from tests.support.control_port import run_story
from tests.support.within import within
from txnsim.http.replies import BODY_BYTES_MAX

BROKERS = "/api/v1/brokers"


async def states(client: httpx.AsyncClient) -> list[tuple[str, bool]]:
    return [(one["state"], one["fenced"]) for one in (await client.get(BROKERS)).json()]


@within(run_story)
async def test_brokers_are_shown_as_they_run_and_as_the_controller_has_them(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    first = (await client.get(f"{BROKERS}/1")).json()
    known = cluster.sim.metadata.image.alive_brokers()[0]
    assert first == {
        "id": 1,
        "state": "running",
        "release": "4.4",
        "host": known.host,
        "port": known.port,
        "epoch": 1,
        "fenced": False,
        "in_controlled_shutdown": False,
        "isolated": False,
        "cut_off_from_clients": False,
        "leads": 1,
    }
    assert len((await client.get(BROKERS)).json()) == 3


@within(run_story)
async def test_a_broker_is_stopped_and_started(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    stopped = await client.post(f"{BROKERS}/1/stop")
    assert (stopped.status_code, stopped.json()["state"]) == (200, "down")
    assert stopped.json()["leads"] == 0
    started = await client.post(f"{BROKERS}/1/start")
    assert (started.status_code, started.json()["state"]) == (200, "running")
    assert started.json()["epoch"] > 3


@within(run_story)
async def test_who_does_not_want_to_wait_is_told_the_state_so_far(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    killed = await client.post(f"{BROKERS}/1/kill", json={"lose_unflushed": True})
    assert (killed.status_code, killed.json()["state"]) == (200, "down")
    assert not killed.json()["fenced"], "its session lasts"
    starting = await client.post(f"{BROKERS}/1/start?wait_ms=0")
    assert (starting.status_code, starting.json()["state"]) == (202, "starting")
    await asyncio.sleep(20)
    assert (await states(client))[0] == ("running", False)


@within(run_story)
async def test_a_broker_comes_back_as_another_release_if_the_features_allow_it(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post(f"{BROKERS}/1/stop")
    for release, why in (("3.9", "does not support finalized version"), ("5", "no release")):
        refused = await client.post(f"{BROKERS}/1/start", json={"as_version": release})
        assert refused.status_code == 409
        assert why in refused.json()["error"]
    started = await client.post(f"{BROKERS}/1/start", json={"as_version": "4.4"})
    assert (started.status_code, started.json()["release"]) == (200, "4.4")


@within(run_story)
async def test_an_isolated_broker_is_shown_as_one(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    cut = (await client.post(f"{BROKERS}/2/isolate", json={"from_clients": True})).json()
    assert (cut["isolated"], cut["cut_off_from_clients"]) == (True, True)
    await asyncio.sleep(15)
    assert (await states(client))[1] == ("running", True)
    healed = (await client.post(f"{BROKERS}/2/heal")).json()
    assert (healed["isolated"], healed["cut_off_from_clients"]) == (False, False)
    await asyncio.sleep(10)
    assert (await states(client))[1] == ("running", False)
    assert not (await client.post(f"{BROKERS}/2/isolate")).json()["cut_off_from_clients"]


@within(run_story)
async def test_a_start_that_is_cut_short_is_refused(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post(f"{BROKERS}/1/kill")
    starting = asyncio.get_running_loop().create_task(client.post(f"{BROKERS}/1/start"))
    await asyncio.sleep(1)
    await client.post(f"{BROKERS}/1/kill")
    answer = await starting
    assert answer.status_code == 409
    assert "killed while it started" in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "body", "status", "advice"),
    [
        ("brokers/9/stop", {}, 404, "only 1, 2, 3"),
        ("brokers/x/stop", None, 404, "it is a number"),
        ("brokers/1/start", None, 409, "stop or kill it first"),
        ("brokers/1/stop?wait_ms=-1", None, 422, "expected a whole number"),
        ("brokers/1/kill", {"lose": True}, 422, "lose"),
        ("leaders", {"topic": "nope", "partition": 0, "leader": 1}, 404, "GET /api/v1/topics"),
        ("leaders", {"topic": "orders", "partition": 9, "leader": 1}, 404, "partitions 0 to 2"),
        ("leaders", {"topic": "orders", "partition": 0, "leader": 9}, 409, "in sync are 1, 2, 3"),
        ("leaders", None, 422, ""),
        ("elections", {"topic": "orders", "partition": 0, "type": "x"}, 422, "preferred, unclean"),
        ("elections", {"topic": "orders", "partition": -1}, 404, "partitions 0 to 2"),
    ],
)
@within(run_story)
async def test_a_refusal_says_what_to_do(
    cluster: VirtualCluster,
    client: httpx.AsyncClient,
    /,
    path: str,
    body: dict[str, object] | None,
    status: int,
    advice: str,
) -> None:
    answer = await client.post(f"/api/v1/{path}", content=msgspec.json.encode(body))
    assert answer.status_code == status
    assert advice in answer.json()["error"]


@within(run_story)
async def test_one_that_is_down_can_be_neither_stopped_nor_killed(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post(f"{BROKERS}/1/kill")
    for way in ("stop", "kill"):
        answer = await client.post(f"{BROKERS}/1/{way}")
        assert answer.status_code == 409


@within(run_story)
async def test_leaders_are_shown_moved_and_elected(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    (topic,) = (await client.get("/api/v1/topics")).json()
    assert (topic["name"], topic["is_internal"]) == ("orders", False)
    assert topic["partitions"][0] == {
        "partition": 0,
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "replicas": [1, 2, 3],
        "isr": [1, 2, 3],
        "elr": [],
        "last_known_elr": [],
    }
    wanted = {"topic": "orders", "partition": 0}
    moved = (await client.post("/api/v1/leaders", json={**wanted, "leader": 3})).json()
    assert (moved["leader"], moved["leader_epoch"]) == (3, 1)
    elected = (await client.post("/api/v1/elections", json=wanted)).json()
    assert (elected["leader"], elected["leader_epoch"]) == (1, 2)
    again = await client.post("/api/v1/elections", json=wanted)
    assert (again.status_code, again.json()) == (200, elected), "it was not needed"


@within(run_story, brokers=1)
async def test_an_election_without_candidates_is_refused(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    await client.post(f"{BROKERS}/1/stop")
    wanted = {"topic": "orders", "partition": 0, "type": "unclean"}
    answer = await client.post("/api/v1/elections", json=wanted)
    assert answer.status_code == 409
    assert answer.json()["error"].startswith("ELIGIBLE_LEADERS_NOT_AVAILABLE")


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
