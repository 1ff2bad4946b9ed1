"""Stories that somebody has posted: each in a process of its own, which ends when it should."""

from __future__ import annotations

import pytest

from tests.lab.http.runs.test_runs import RUNS, SHORT, until_done
from tests.support.control_port import port
from txnsim_lab.http._runs import posted_runs, scenarios

LONG = SHORT.replace("{t: 1}", "{t: 100}").partition("steps:")[0] + "".join(
    ["steps:\n"]
    + [
        f"  - call: {{who: bystander, do: append, partition: t-{topic}, count: 10000, keys: 5}}\n"
        for topic in range(100)
    ]
)


@pytest.mark.costly
@pytest.mark.skipif(not scenarios.HAS_FORK, reason="a thread can't be ended")
async def test_delete_ends_a_story_that_is_being_told() -> None:
    async with port() as client:
        run_request = {"yaml": LONG, "runs": ["V-"]}
        begun_run = (await client.post(f"{RUNS}?wait_ms=0", json=run_request)).json()
        assert begun_run["state"] == "running"
        waiting_run = (await client.post(f"{RUNS}?wait_ms=0", json=run_request)).json()
        for posted_run in (waiting_run, begun_run):
            assert (await client.delete(f"{RUNS}/{posted_run['id']}")).status_code == 204
        for posted_run in (begun_run, waiting_run):
            ended_run = (await client.get(f"{RUNS}/{posted_run['id']}?wait_ms=60000")).json()
            assert (ended_run["state"], ended_run["done"], ended_run["error"]) == (
                "cancelled",
                0,
                None,
            )
        run_state = await until_done(client, await client.post(RUNS, json={"yaml": SHORT}))
        assert run_state["state"] == "done"


@pytest.mark.costly
@pytest.mark.skipif(not scenarios.HAS_FORK, reason="a thread can't be ended")
async def test_a_story_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posted_runs, "RUN_MS_MAX", 1)
    async with port() as client:
        run_state = await until_done(client, await client.post(RUNS, json={"yaml": LONG}))
        assert run_state["state"] == "failed"
        assert "may take" in run_state["error"]
