"""A hang that is made on request, and its cure: who asks, and what is not known."""

from __future__ import annotations

from pathlib import Path

import httpx
import msgspec
import pytest

from tests.support.clusters import VirtualCluster, real_cluster, values
from tests.support.control_port import run_story
from tests.support.within import within
from txnsim.client.requests import produce
from txnsim.client.versions import VersionRange
from txnsim.http.app import ControlApi
from txnsim.runtime.wall_clock import wall_ms
from txnsim.security.options import SecureListener, SecurityProtocol
from txnsim.server.security_demo import demo_security
from txnsim.types import TopicPartition
from txnsim.wire.batch import Record, build_batch

TLS_LISTENER = SecureListener(name="SASL_SSL", protocol=SecurityProtocol.SASL_SSL)


@pytest.mark.parametrize("listeners", [None, (TLS_LISTENER,)])
async def test_a_hang_is_made_and_ended_where_the_listener_in_clear_has_no_rights(
    tmp_path: Path, listeners: tuple[SecureListener, ...] | None
) -> None:
    """It was 503: the control port asked as everybody."""
    hosts = ("localhost", "127.0.0.1")
    demo = demo_security(tmp_path, port=0, hosts=hosts, now_ms=wall_ms())[0]
    if listeners is not None:
        demo = msgspec.structs.replace(demo, listeners=listeners)
    async with real_cluster(security=demo, brokers=1) as sim:
        api = ControlApi(sim)
        transport = httpx.ASGITransport(app=api.app())
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=60
        ) as ask:
            made = await ask.post("/api/v1/practise")
            assert (made.status_code, made.json().get("hangs")) == (200, "orders-0"), made.text
            where = {"topic": "orders", "partition": 0}
            assert len((await ask.post("/api/v1/repairs", json=where)).json()) == 1
        api.close()


@within(run_story, level=0, transaction_partition_verification_enable=False)
async def test_where_the_decision_is_unknown_a_repair_wants_to_be_told(
    cluster: VirtualCluster, client: httpx.AsyncClient, /
) -> None:
    batch = build_batch(
        [Record(value=b"of nobody")],
        timestamp_ms=0,
        producer_id=999,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    where = {"topic": "orders", "partition": 0}
    async with cluster.client() as app:
        leader = await app.leader(TopicPartition("orders", 0))
        sent = produce(
            {TopicPartition("orders", 0): batch},
            topic_ids={},
            transactional_id="nobody",
            within=VersionRange(11, 11),
        )
        await app.ask(leader.leader_id, sent)
        asked = (await client.post("/api/v1/repairs", json=where)).json()
        assert [(one["outcome"], one["marker"]) for one in asked] == [("needs a guess", "")]
        assert await values(app, "orders") == []
        wrong = await client.post("/api/v1/repairs", json={**where, "guess": "rollback"})
        assert wrong.status_code == 422
        done = (await client.post("/api/v1/repairs", json={**where, "guess": "commit"})).json()
        assert [(one["outcome"], one["marker"]) for one in done] == [("repaired", "COMMIT")]
        assert await values(app, "orders") == [b"of nobody"]
