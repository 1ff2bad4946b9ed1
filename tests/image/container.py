"""What a container must do, whoever has started it."""

from __future__ import annotations

import httpx

from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.producer import Producer


async def commit_something(bootstrap: str) -> None:
    """A client commits a record to ``orders``, which has two partitions."""
    async with Cluster(bootstrap) as cluster:
        producer = Producer(cluster, transactional_id="image")
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 1, b"v")
        await producer.commit()
        (topic,) = await Admin(cluster).describe_topics(["orders"])
        assert len(topic.partitions) == 2


async def commit_in(bootstrap: str, control_url: str, token: str) -> None:
    """The same in a container of Testcontainers, whose brokers tell the ports that are published,
    and whose control port wants its token.
    """
    await commit_something(bootstrap)
    async with httpx.AsyncClient(base_url=control_url) as port:
        assert (await port.get("/healthz")).json()["bootstrap"] == bootstrap
        assert (await port.get("/api/v1/transactions")).status_code == 401
        headers = {"Authorization": f"Bearer {token}"}
        # From transactions v2 on a commit is answered before its markers are written (KIP-890).
        query = {"transactional_id": "image", "state": "CompleteCommit", "timeout_ms": "30000"}
        wait_answer = await port.get(
            "/api/v1/transaction-wait", params=query, headers=headers, timeout=60
        )
        assert wait_answer.status_code == 200, wait_answer.text
