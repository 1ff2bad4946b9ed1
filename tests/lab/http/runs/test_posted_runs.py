"""Stories that somebody has posted: each in a process of its own, which ends when it should."""

from __future__ import annotations

import pytest

from tests.lab.http.runs.test_runs import RUNS, SHORT, until_done
from tests.support.control_port import port
from txnsim_lab.http._runs import posted_runs, scenarios

LONG = SHORT.replace("{t: 1}", "{t: 100}").partition("steps:")[0] + "".join(
    ["steps:\n"]
    + [
        f"  - call: {{who: bystander, do: append, partition: t-{at}, count: 10000, keys: 5}}\n"
        for at in range(100)
    ]
)


@pytest.mark.costly
@pytest.mark.skipif(not scenarios.HAS_FORK, reason="a thread can't be ended")
async def test_delete_ends_a_story_that_is_being_told() -> None:
    async with port() as client:
        asked = {"yaml": LONG, "runs": ["V-"]}
        begun = (await client.post(f"{RUNS}?wait_ms=0", json=asked)).json()
        assert begun["state"] == "running"
        waiting = (await client.post(f"{RUNS}?wait_ms=0", json=asked)).json()
        for one in (waiting, begun):
            assert (await client.delete(f"{RUNS}/{one['id']}")).status_code == 204
        for one in (begun, waiting):
            ended = (await client.get(f"{RUNS}/{one['id']}?wait_ms=60000")).json()
            assert (ended["state"], ended["done"], ended["error"]) == ("cancelled", 0, None)
        told = await until_done(client, await client.post(RUNS, json={"yaml": SHORT}))
        assert told["state"] == "done"


@pytest.mark.costly
@pytest.mark.skipif(not scenarios.HAS_FORK, reason="a thread can't be ended")
async def test_a_story_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posted_runs, "RUN_MS_MAX", 1)
    async with port() as client:
        told = await until_done(client, await client.post(RUNS, json={"yaml": LONG}))
        assert told["state"] == "failed"
        assert "may take" in told["error"]
