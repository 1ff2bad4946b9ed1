"""Runs that are driven through the control port: each in a process of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from tests.support.control_port import port
from tests.support.traces import trace_of_run
from txnsim_lab.http._runs import scenarios

pytestmark = pytest.mark.slow  # the helper process imports and tells a story first

RUNS = "/api/v1/runs?wait_ms=120000"
Z01: dict[str, Any] = {"name": "z01", "runs": ["V-"], "paused": True}


@pytest.mark.costly
async def test_a_run_stops_takes_steps_goes_back_and_comes_to_the_same_end() -> None:
    async with port() as client:
        begun_run = (await client.post(RUNS, json=Z01)).json()
        run_url = f"/api/v1/runs/{begun_run['id']}"
        assert (begun_run["state"], begun_run["at"]["next"]["number"]) == ("paused", 0)
        stepped = (await client.post(f"{run_url}/go", json={"steps": 3})).json()
        assert (stepped["state"], stepped["at"]["next"]["number"]) == ("paused", 3)
        trace_text = (await client.get(f"{run_url}/trace")).text
        assert "From now on every Produce" in trace_text
        first_stop = (await client.post(f"{run_url}/back", json={})).json()
        assert first_stop["at"]["next"]["number"] == 0
        run_state = (await client.post(f"{run_url}/go?wait_ms=60000")).json()
        assert (run_state["state"], run_state["runs"][0]["as_declared"]) == ("done", True)
        assert (await client.get(f"{run_url}/trace?run=V-")).content == await aside()
        refused_step = (await client.post(f"{run_url}/go", json={})).json()
        assert "step back first" in refused_step["at"]["error"]
        assert (await client.post(f"{run_url}/back", json={})).json()["state"] == "paused"


async def aside() -> bytes:
    return await asyncio.to_thread(trace_of_run)


@pytest.mark.costly
async def test_inputs_are_done_told_and_repeated_by_another_run() -> None:
    async with port() as client:
        begun_run = (await client.post(RUNS, json=Z01)).json()
        run_url = f"/api/v1/runs/{begun_run['id']}"
        await client.post(f"{run_url}/go", json={"steps": 10})
        input_body = {"step": {"call": {"who": "operator", "do": "find-hanging"}}}
        run_state = (await client.post(f"{run_url}/inputs", json=input_body)).json()
        assert run_state["at"]["inputs"] == [{"before": 10, **input_body}]
        late_run = (
            await client.post(f"{run_url}/inputs", json={"step": {"advance": "30s"}})
        ).json()
        assert len(late_run["at"]["inputs"]) == 2
        trace = (await client.get(f"{run_url}/trace")).text.splitlines()
        inputs = [event for event in map(msgspec.json.decode, trace) if event["k"] == "input"]
        assert [input_event["d"]["do"] for input_event in inputs[-2:]] == ["step", "advance"]
        finished_run = (await client.post(f"{run_url}/go?wait_ms=60000")).json()
        trace_text = (await client.get(f"{run_url}/trace")).text
        second_request = {**Z01, "paused": False, "inputs": finished_run["at"]["inputs"]}
        repeated_run = (await client.post(RUNS, json=second_request)).json()
        assert repeated_run["state"] == "done"
        assert (await client.get(f"/api/v1/runs/{repeated_run['id']}/trace")).text == trace_text


@pytest.mark.costly
async def test_an_input_that_can_not_be_done_leaves_the_run_as_it_was() -> None:
    async with port() as client:
        begun_run = (await client.post(RUNS, json=Z01)).json()
        run_url = f"/api/v1/runs/{begun_run['id']}"
        trace_before = (await client.get(f"{run_url}/trace")).text
        for step, advice in (
            ({"release": "none"}, "was not armed in this run"),
            ({"nonsense": 1}, "no field 'nonsense'"),
        ):
            run_state = (await client.post(f"{run_url}/inputs", json={"step": step})).json()
            assert advice in run_state["at"]["error"]
            assert (run_state["state"], run_state["at"]["inputs"]) == ("paused", [])
        assert (await client.get(f"{run_url}/trace")).text == trace_before
        back_answer = (await client.post(f"{run_url}/back", json={"stops": 5})).json()
        assert "0 moments are kept" in back_answer["at"]["error"]


@pytest.mark.costly
async def test_a_step_that_an_input_blocks_is_taken_back_and_the_run_goes_on() -> None:
    async with port() as client:
        run_request = {**Z01, "runs": ["TV2"], "takes": ["disarmed"]}
        begun_run = (await client.post(RUNS, json=run_request)).json()
        run_url = f"/api/v1/runs/{begun_run['id']}"
        fault_rule = {
            "id": "mine",
            "point": "client.request",
            "api": "Produce",
            "action": {"do": "hold"},
        }
        await client.post(f"{run_url}/inputs", json={"step": {"arm": fault_rule}})
        blocked = (await client.post(f"{run_url}/go?wait_ms=60000")).json()
        assert (blocked["state"], blocked["at"]["next"]["number"]) == ("paused", 0)
        assert "What was done to the run is in its way" in blocked["at"]["error"]
        await client.post(f"{run_url}/inputs", json={"step": {"disarm": "mine"}})
        run_state = (await client.post(f"{run_url}/go?wait_ms=60000")).json()
        assert (run_state["state"], run_state["runs"][0]["as_declared"]) == ("done", True)


@pytest.mark.costly
async def test_a_run_is_cancelled_and_only_so_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "DRIVEN_MAX", 1)
    async with port() as client:
        begun_run = (await client.post(RUNS, json=Z01)).json()
        full_answer = await client.post(RUNS, json=Z01)
        assert (full_answer.status_code, "DELETE" in full_answer.json()["error"]) == (409, True)
        run_url = f"/api/v1/runs/{begun_run['id']}"
        assert (await client.delete(run_url)).status_code == 204
        assert (await client.get(run_url)).json()["state"] == "cancelled"
        assert (await client.post(f"{run_url}/go")).status_code == 409
        assert (await client.post(RUNS, json=Z01)).json()["state"] == "paused"


@pytest.mark.costly
async def test_a_run_that_stands_still_makes_no_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scenarios, "RUNS_KEPT_MAX", 1)
    async with port() as client:
        begun_run = (await client.post(RUNS, json=Z01)).json()
        full_answer = await client.post(RUNS, json={"name": "z01", "runs": ["V-"]})
        assert (full_answer.status_code, "wait for" in full_answer.json()["error"]) == (409, True)
        run_url = f"/api/v1/runs/{begun_run['id']}"
        assert (await client.get(run_url)).json()["state"] == "paused"
        assert (await client.delete(run_url)).status_code == 204
        assert (await client.post(RUNS, json=Z01)).json()["state"] == "paused"
        assert (await client.get(run_url)).status_code == 404


async def test_one_run_and_one_take_are_driven() -> None:
    async with port() as client:
        many_answer = await client.post(RUNS, json={"name": "z01", "paused": True})
        assert (many_answer.status_code, "name them" in many_answer.json()["error"]) == (422, True)
        undriven_run_answer = await client.post(RUNS, json={"name": "z01", "runs": ["V-"]})
        answer = await client.post(f"/api/v1/runs/{undriven_run_answer.json()['id']}/go", json={})
        assert (answer.status_code, "paused" in answer.json()["error"]) == (409, True)


@pytest.mark.costly
def test_the_helper_that_a_server_forks_logs_no_dates_of_virtual_time() -> None:
    program = (
        "from txnsim.cli.event_log import set_up_logs; set_up_logs()\n"
        "from txnsim_lab.scenario import driven_run\n"
        "driven_run.serve = lambda make: None\n"
        "driven_run.main()"
    )
    finished_process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert finished_process.stdout + finished_process.stderr == ""
