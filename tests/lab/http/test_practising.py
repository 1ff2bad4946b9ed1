"""A hang that is made on request, and its cure: who asks, and what is not known."""

from __future__ import annotations

from pathlib import Path

import httpx
import msgspec
import pytest

from tests.support.clusters import real_cluster
from txnsim.http.app import ControlApi
from txnsim.runtime.wall_clock import wall_ms
from txnsim.security.options import SecureListener, SecurityProtocol
from txnsim.server.security_demo import demo_security

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
