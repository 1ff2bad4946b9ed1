"""The control port of a cluster in virtual time, asked as an HTTP client would."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.support.clusters import VirtualCluster, real_cluster, run_cluster
from txnsim.http._app import ControlApi

Story = Callable[[VirtualCluster, httpx.AsyncClient], Awaitable[None]]


def run_story(story: Story, **config_changes: Any) -> None:
    """Play a story beside a cluster; ``changes`` are those of ``clusters.options``."""

    async def main(cluster: VirtualCluster) -> None:
        transport = httpx.ASGITransport(app=ControlApi(cluster.sim).app())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await story(cluster, client)

    run_cluster(main, **config_changes)


@asynccontextmanager
async def port() -> AsyncIterator[httpx.AsyncClient]:
    """The control port of a cluster of one broker in real time, without a socket."""
    async with real_cluster(brokers=1) as sim:
        api = ControlApi(sim)
        transport = httpx.ASGITransport(app=api.app())
        try:
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost", timeout=120
            ) as client:
                yield client
        finally:
            api.close()
