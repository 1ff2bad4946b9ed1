from __future__ import annotations

import json
from typing import Any

import pytest

from txnsim_lab.http._runs import scenarios
from txnsim_lab.http.site._backend import Backend


async def asked(backend: Backend, method: str, path: str, query: str = "", body: Any = None) -> Any:
    text = "" if body is None else json.dumps(body)
    status, media_type, content = await backend.answer(method, path, query, text)
    return status, json.loads(content) if media_type == "application/json" else content


async def test_a_run_is_driven_without_a_server_and_without_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scenarios, "HAS_FORK", False)
    backend, wait = Backend(), "wait_ms=60000"
    order = {"name": "z01", "runs": ["V-"], "paused": True}
    status, run = await asked(backend, "POST", "/runs", wait, order)
    assert (status, run["state"], run["at"]["back"]) == (200, "paused", 0)
    _, run = await asked(backend, "POST", "/runs/1/go", wait, {"steps": 2})
    assert run["at"]["next"]["number"] == 2
    _, run = await asked(backend, "POST", "/runs/1/back", wait, {"stops": 1})
    assert run["at"]["next"]["number"] == 0
    _, run = await asked(backend, "POST", "/runs/1/go", wait, {})
    assert run["runs"][0]["as_declared"]
    _, trace = await asked(backend, "GET", "/runs/1/trace", "run=V-&take=armed")
    newest = len(trace.splitlines()) - 3
    status, said = await asked(backend, "GET", "/explain", f"at={newest}&of=1&run=V-")
    assert (status, said["at"]) == (200, newest)


async def test_what_is_refused_says_why() -> None:
    backend = Backend()
    status, said = await asked(backend, "GET", "/faults")
    assert (status, said["error"]) == (404, "/faults is not known where no server is")
    status, said = await asked(backend, "POST", "/runs", "", {"name": "z999"})
    assert status == 404
    status, said = await asked(backend, "POST", "/runs", "", {"yaml": "name: x"})
    assert status == 422
    assert "posted.yaml:1: goal: is missing" in said["error"]
