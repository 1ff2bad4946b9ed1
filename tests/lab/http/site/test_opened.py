from __future__ import annotations

import asyncio

from tests.lab.http.site.test_site import ask_backend
from tests.support.traces import trace_of_run
from txnsim_lab.http.site._backend import Backend


async def test_a_trace_from_a_file_is_explained() -> None:
    backend = Backend()
    content = (await asyncio.to_thread(trace_of_run)).decode()
    body = {"name": "run.jsonl", "trace": content}
    status, opened_trace = await ask_backend(backend, "POST", "/traces", "", body)
    assert (status, opened_trace["events"]) == (200, len(content.splitlines()) - 2)
    newest_index = opened_trace["events"] - 1
    status, answer = await ask_backend(
        backend, "GET", "/explain", f"at={newest_index}&of={opened_trace['id']}"
    )
    assert (status, answer["partitions"][0]["partition"]) == (200, "payments-0")
    status, _ = await ask_backend(backend, "GET", "/explain", "at=0&of=opened-2")
    assert status == 404
    status, answer = await ask_backend(
        backend, "POST", "/traces", "", {"name": "x.jsonl", "trace": "no trace"}
    )
    assert status == 422
    assert "x.jsonl" in answer["error"]
    lines = content.splitlines()
    odd_event = '{"i":0,"t":0,"n":0,"l":0,"p":[],"k":"marker.sent","d":{}}'
    status, answer = await ask_backend(
        backend, "POST", "/traces", "", {"name": "x.jsonl", "trace": f"{lines[0]}\n{odd_event}\n"}
    )
    assert status == 422
    assert "x.jsonl, event 0: no payload of marker.sent" in answer["error"]
