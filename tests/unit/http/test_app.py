"""The control port as a whole: who may ask it."""

from __future__ import annotations

import httpx
import pytest

from tests.support.clusters import VirtualCluster
from tests.support.control_port import run_story


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example"])
def test_only_loopback_names_are_answered(host: str) -> None:
    async def story(_cluster: VirtualCluster, client: httpx.AsyncClient) -> None:
        assert (await client.get("/healthz", headers={"host": host})).status_code == 400

    run_story(story)
