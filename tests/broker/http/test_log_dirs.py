"""Log directories through the control port."""

from __future__ import annotations

import io
import tarfile

import httpx

from tests.support.clusters import VirtualCluster
from tests.support.control_port import run_story
from tests.support.within import within


@within(run_story)
async def test_a_log_directory_comes_as_an_archive(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    answer = await client.get("/api/v1/brokers/2/log-dir")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-tar")
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        names = archive.getnames()
    assert "meta.properties" in names
    assert ".kafka_cleanshutdown" in names
    assert any(name.endswith("/00000000000000000000.log") for name in names)


@within(run_story)
async def test_there_is_none_of_a_broker_that_is_not_there(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    for broker in ("7", "x"):
        assert (await client.get(f"/api/v1/brokers/{broker}/log-dir")).status_code == 404
