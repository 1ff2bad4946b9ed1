"""The control port as a server: on loopback, in the brokers' loop, closed with the cluster."""

from __future__ import annotations

import httpx
import pytest

from tests.support.clusters import real_cluster
from txnsim.http.server import ControlServer
from txnsim.runtime.trace import TraceLevel


async def test_it_answers_on_loopback_until_it_is_closed() -> None:
    async with real_cluster(brokers=1) as sim:
        async with ControlServer.of_simulated(sim, port=0) as server:
            assert server.url.startswith("http://127.0.0.1:")
            async with httpx.AsyncClient(timeout=60) as client:
                answer = await client.get(f"{server.url}/healthz")
                assert answer.json()["bootstrap"] == sim.bootstrap
        async with httpx.AsyncClient(timeout=60) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(f"{server.url}/healthz")


async def test_a_busy_port_is_named() -> None:
    async with real_cluster(brokers=1) as sim, ControlServer.of_simulated(sim, port=0) as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(OSError, match=str(port)):
            await ControlServer.of_simulated(sim, port=port).__aenter__()


async def test_elsewhere_than_on_loopback_it_has_any_name_and_wants_a_token() -> None:
    async with (
        real_cluster(brokers=1) as sim,
        ControlServer.of_simulated(sim, port=0) as near,
        ControlServer.of_simulated(sim, port=0, host="0.0.0.0") as everywhere,
        httpx.AsyncClient(headers={"host": "kafka.test"}, timeout=60) as client,
    ):
        assert near.token is None
        assert everywhere.token is not None
        assert len(everywhere.token) >= 32
        url = f"http://127.0.0.1:{everywhere.url.rpartition(':')[2]}"
        assert (await client.get(f"{url}/healthz")).status_code == 200
        assert (await client.get(f"{url}/api/v1/clock")).status_code == 401
        client.headers["authorization"] = f"Bearer {everywhere.token}"
        assert (await client.get(f"{url}/api/v1/clock")).status_code == 200
        assert (await client.get(f"{near.url}/healthz")).status_code == 400


async def test_a_token_that_is_given_is_wanted_on_loopback_too() -> None:
    async with (
        real_cluster(brokers=1) as sim,
        ControlServer.of_simulated(sim, port=0, token="a-token-of-enough-letters") as server,
        httpx.AsyncClient(timeout=60) as client,
    ):
        assert server.token == "a-token-of-enough-letters"
        assert (await client.post(f"{server.url}/api/v1/reset")).status_code == 401


async def test_a_stream_ends_when_the_port_is_closed() -> None:
    async with real_cluster(brokers=1, trace_level=TraceLevel.BRIEF) as sim:
        server = await ControlServer.of_simulated(sim, port=0).__aenter__()
        url = f"{server.url}/api/v1/events?kind=note"
        async with httpx.AsyncClient(timeout=30) as client, client.stream("GET", url) as answer:
            lines = answer.aiter_lines()
            assert await anext(lines) == ": connected"
            sim.environment.tracer.emit("note", "test", data={"text": "here"})
            heard = await anext(lines)
            while not heard.startswith("data: "):
                heard = await anext(lines)
            assert '"text":"here"' in heard
            await server.__aexit__(None, None, None)
            assert [line async for line in lines if line] == []
