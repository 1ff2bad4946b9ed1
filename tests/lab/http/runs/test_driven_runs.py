"""Runs that are driven through the control port: each in a process of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from tests.support.control_port import port
from tests.support.traces import told
from txnsim_lab.http._runs import scenarios

pytestmark = pytest.mark.slow  # the helper process imports and tells a story first

RUNS = "/api/v1/runs?wait_ms=120000"
Z01: dict[str, Any] = {"name": "z01", "runs": ["V-"], "paused": True}


@pytest.mark.costly
async def test_a_run_stops_takes_steps_goes_back_and_comes_to_the_same_end() -> None:
    async with port() as client:
        begun = (await client.post(RUNS, json=Z01)).json()
        at = f"/api/v1/runs/{begun['id']}"
        assert (begun["state"], begun["at"]["next"]["number"]) == ("paused", 0)
        stepped = (await client.post(f"{at}/go", json={"steps": 3})).json()
        assert (stepped["state"], stepped["at"]["next"]["number"]) == ("paused", 3)
        there = (await client.get(f"{at}/trace")).text
        assert "From now on every Produce" in there
        first = (await client.post(f"{at}/back", json={})).json()
        assert first["at"]["next"]["number"] == 0
        done = (await client.post(f"{at}/go?wait_ms=60000")).json()
        assert (done["state"], done["runs"][0]["as_declared"]) == ("done", True)
        assert (await client.get(f"{at}/trace?run=V-")).content == await aside()
        again = (await client.post(f"{at}/go", json={})).json()
        assert "step back first" in again["at"]["error"]
        assert (await client.post(f"{at}/back", json={})).json()["state"] == "paused"


async def aside() -> bytes:
    return await asyncio.to_thread(told)


@pytest.mark.costly
async def test_inputs_are_done_told_and_repeated_by_another_run() -> None:
    async with port() as client:
        begun = (await client.post(RUNS, json=Z01)).json()
        at = f"/api/v1/runs/{begun['id']}"
        await client.post(f"{at}/go", json={"steps": 10})
        asked = {"step": {"call": {"who": "operator", "do": "find-hanging"}}}
        one = (await client.post(f"{at}/inputs", json=asked)).json()
        assert one["at"]["inputs"] == [{"before": 10, **asked}]
        late = (await client.post(f"{at}/inputs", json={"step": {"advance": "30s"}})).json()
        assert len(late["at"]["inputs"]) == 2
        trace = (await client.get(f"{at}/trace")).text.splitlines()
        inputs = [event for event in map(msgspec.json.decode, trace) if event["k"] == "input"]
        assert [one["d"]["do"] for one in inputs[-2:]] == ["step", "advance"]
        done = (await client.post(f"{at}/go?wait_ms=60000")).json()
        mine = (await client.get(f"{at}/trace")).text
        other = {**Z01, "paused": False, "inputs": done["at"]["inputs"]}
        repeated = (await client.post(RUNS, json=other)).json()
        assert repeated["state"] == "done"
        assert (await client.get(f"/api/v1/runs/{repeated['id']}/trace")).text == mine


@pytest.mark.costly
async def test_an_input_that_can_not_be_done_leaves_the_run_as_it_was() -> None:
    async with port() as client:
        begun = (await client.post(RUNS, json=Z01)).json()
        at = f"/api/v1/runs/{begun['id']}"
        before = (await client.get(f"{at}/trace")).text
        for step, advice in (
            ({"release": "none"}, "was not armed in this run"),
            ({"nonsense": 1}, "no field 'nonsense'"),
        ):
            told_ = (await client.post(f"{at}/inputs", json={"step": step})).json()
            assert advice in told_["at"]["error"]
            assert (told_["state"], told_["at"]["inputs"]) == ("paused", [])
        assert (await client.get(f"{at}/trace")).text == before
        far = (await client.post(f"{at}/back", json={"stops": 5})).json()
        assert "0 moments are kept" in far["at"]["error"]


@pytest.mark.costly
async def test_a_step_that_an_input_blocks_is_taken_back_and_the_run_goes_on() -> None:
    """It ended at a timeout, and nothing could be done any more."""
    async with port() as client:
        wanted = {**Z01, "runs": ["TV2"], "takes": ["disarmed"]}
        begun = (await client.post(RUNS, json=wanted)).json()
        at = f"/api/v1/runs/{begun['id']}"
        rule = {"id": "mine", "point": "client.request", "api": "Produce", "action": {"do": "hold"}}
        await client.post(f"{at}/inputs", json={"step": {"arm": rule}})
        blocked = (await client.post(f"{at}/go?wait_ms=60000")).json()
        assert (blocked["state"], blocked["at"]["next"]["number"]) == ("paused", 0)
        assert "What was done to the run is in its way" in blocked["at"]["error"]
        await client.post(f"{at}/inputs", json={"step": {"disarm": "mine"}})
        done = (await client.post(f"{at}/go?wait_ms=60000")).json()
        assert (done["state"], done["runs"][0]["as_declared"]) == ("done", True)


@pytest.mark.costly
async def test_a_run_is_cancelled_and_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "DRIVEN_MAX", 1)
    async with port() as client:
        begun = (await client.post(RUNS, json=Z01)).json()
        full = await client.post(RUNS, json=Z01)
        assert (full.status_code, "DELETE" in full.json()["error"]) == (409, True)
        at = f"/api/v1/runs/{begun['id']}"
        assert (await client.delete(at)).status_code == 204
        assert (await client.get(at)).json()["state"] == "cancelled"
        assert (await client.post(f"{at}/go")).status_code == 409
        assert (await client.post(RUNS, json=Z01)).json()["state"] == "paused"


@pytest.mark.costly
async def test_a_run_that_stands_still_makes_no_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scenarios, "RUNS_KEPT_MAX", 1)
    async with port() as client:
        begun = (await client.post(RUNS, json=Z01)).json()
        full = await client.post(RUNS, json={"name": "z01", "runs": ["V-"]})
        assert (full.status_code, "wait for" in full.json()["error"]) == (409, True)
        at = f"/api/v1/runs/{begun['id']}"
        assert (await client.get(at)).json()["state"] == "paused"
        assert (await client.delete(at)).status_code == 204
        assert (await client.post(RUNS, json=Z01)).json()["state"] == "paused"
        assert (await client.get(at)).status_code == 404


async def test_one_run_and_one_take_are_driven() -> None:
    async with port() as client:
        many = await client.post(RUNS, json={"name": "z01", "paused": True})
        assert (many.status_code, "name them" in many.json()["error"]) == (422, True)
        whole = await client.post(RUNS, json={"name": "z01", "runs": ["V-"]})
        answer = await client.post(f"/api/v1/runs/{whole.json()['id']}/go", json={})
        assert (answer.status_code, "paused" in answer.json()["error"]) == (409, True)


@pytest.mark.costly
def test_the_helper_that_a_server_forks_logs_no_dates_of_virtual_time() -> None:
    """The server's set-up, which waits for the first line, came after the helper's own."""
    program = (
        "from txnsim.cli.event_log import set_up_logs; set_up_logs()\n"
        "from txnsim_lab.scenario import driven\n"
        "driven.serve = lambda make: None\n"
        "driven.main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout + ended.stderr == ""
