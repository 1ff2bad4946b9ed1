"""The control port as a whole: who may ask it."""

from __future__ import annotations

import httpx
import pytest

from tests.support.clusters import VirtualCluster
from tests.support.control_port import run_story
from tests.support.within import within
from txnsim.http.app import INDEX_PATHS, OPERATIONS


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example"])
@within(run_story)
async def test_only_loopback_names_are_answered(
    cluster: VirtualCluster, client: httpx.AsyncClient, /, host: str
) -> None:
    assert (await client.get("/healthz", headers={"host": host})).status_code == 400


@pytest.mark.parametrize("path", INDEX_PATHS)
@within(run_story)
async def test_where_people_look_for_what_there_is_they_find_it(
    cluster: VirtualCluster, client: httpx.AsyncClient, /, path: str
) -> None:
    answer = await client.get(path)
    assert answer.status_code == 200
    operations = answer.json()["operations"]
    assert operations["GET /api/v1/faults"]
    assert len(operations) == len(OPERATIONS)


LONG = "9" * 5_000


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", f"/api/v1/brokers/{LONG}", {}),
        ("POST", f"/api/v1/brokers/{LONG}/kill", {}),
        ("GET", f"/api/v1/brokers/{LONG}/log-dir", {}),
        ("POST", f"/api/v1/brokers/1/stop?wait_ms={LONG}", {}),
        ("GET", f"/api/v1/producers?topic=t&partition={LONG}", {}),
        ("GET", f"/api/v1/events?from={LONG}", {}),
        ("GET", "/api/v1/events", {"last-event-id": LONG}),
    ],
)
@within(run_story)
async def test_a_number_of_thousands_of_digits_is_refused(
    cluster: VirtualCluster,
    client: httpx.AsyncClient,
    /,
    method: str,
    path: str,
    headers: dict[str, str],
) -> None:
    await client.post("/api/v1/trace", json={"level": "brief"})
    answer = await client.request(method, path, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"] == "a number of 5000 digits, at most 18 are read"


@within(run_story)
async def test_a_foreign_page_can_neither_reset_nor_kill(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        for path in ("/api/v1/reset", "/api/v1/brokers/1/kill"):
            answer = await client.post(path, headers=headers)
            assert answer.status_code == 403
    assert len(cluster.sim.brokers) == len(cluster.sim.members)


@within(run_story)
async def test_a_body_needs_no_content_type_but_must_be_json(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}  # as curl -d sends it
    answer = await client.post("/api/v1/topics", content=b'{"name": "t"}', headers=form)
    assert answer.status_code == 201
    answer = await client.post("/api/v1/reset", content=b"to=start", headers=form)
    assert answer.status_code == 422


@within(run_story)
async def test_a_path_names_all_of_its_methods(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    answer = await client.put("/api/v1/faults")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, POST")
    assert answer.json()["error"] == "/api/v1/faults knows DELETE, GET, HEAD, POST"
    answer = await client.put("/api/v1/faults/plan")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    nowhere = await client.get("/api/v1/nowhere")
    assert nowhere.status_code == 404
    assert "GET /openapi.json" in nowhere.json()["error"]
