"""The verdict after an event of a recording, which the lab reads from the trace."""

from __future__ import annotations

import asyncio

from tests.broker.http.test_verdict import verdict
from tests.support.control_port import port


def test_a_recording_has_a_position() -> None:
    asyncio.run(ask_of_a_recording())


async def ask_of_a_recording() -> None:
    async with port() as client:
        assert (await verdict(client))["position"] is None
        await client.post("/api/v1/trace", json={"level": "brief"})
        described = await verdict(client)
        assert (described["position"] >= 0, described["is_recording"]) == (True, True)
        at = await client.get("/api/v1/verdict", params={"at": described["position"]})
        assert at.status_code == 200, at.text
        assert (at.json()["state"], at.json()["position"]) == ("healthy", described["position"])
        assert (await client.get("/api/v1/verdict?at=1000000")).status_code == 404
        await client.post("/api/v1/trace", json={"level": "off"})
        stopped = await verdict(client)
        assert (stopped["state"], stopped["is_recording"]) == ("healthy", False)
        at = await client.get("/api/v1/verdict", params={"at": stopped["position"]})
        assert at.json()["headline"] == (
            f"What is so now is not known: recording stopped at #{stopped['position']}"
        )
