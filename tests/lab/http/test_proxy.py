"""The control port of a proxy: what it can do by the same requests, and 501 with the reason for the
rest.
"""

from __future__ import annotations

from typing import Any

import httpx
import jsonschema
import pytest

from tests.support.clusters import real_cluster
from tests.support.wires import Wire
from txnsim.http import app, openapi
from txnsim.http.guard import AccessRules
from txnsim_lab.http import proxy
from txnsim_lab.http.proxy import ProxyApi
from txnsim_lab.proxy.addresses import Endpoint
from txnsim_lab.proxy.fault_proxy import FaultProxy
from txnsim_lab.proxy.options import ProxyOptions

HOLD = {"id": "late", "point": "client.request", "api": "Metadata", "action": {"do": "hold"}}


def test_what_a_proxy_can_not_do_is_not_in_its_document() -> None:
    document = proxy.document(has_peers=False)
    assert set(document["paths"]) < set(openapi.document(app.OPERATIONS)["paths"]) | {
        "/api/v1/cluster"
    }
    assert not any("clock" in path or "brokers" in path for path in document["paths"])
    schemas = document["components"]["schemas"]
    assert schemas["FaultPoint"]["enum"] == ["client.request", "client.response", "connection.open"]
    assert "crash" not in schemas["FaultRule"]["properties"]["action"]["discriminator"]["mapping"]
    with_peers = proxy.document(has_peers=True)["components"]["schemas"]["FaultPoint"]["enum"]
    assert {"peer.request", "peer.response"} < set(with_peers)
    rule = {"$ref": "#/components/schemas/FaultRule", "components": document["components"]}
    jsonschema.validate(HOLD, rule)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**HOLD, "action": {"do": "crash"}}, rule)


def test_every_other_operation_has_a_reason() -> None:
    """And no path of a proxy's own is taken by one of them."""
    missing = [one for one in app.OPERATIONS if one not in proxy.OPERATIONS]
    assert len(missing) > 20
    assert {one.path for one in missing} & {one.path for one in proxy.OPERATIONS} == {
        "/api/v1/cluster"
    }, "only the proxy's own view of it is another one"


async def test_faults_health_looks_and_refusals() -> None:
    async with real_cluster(brokers=1, topics=(("orders", 1),)) as sim:
        (broker,) = sim.metadata.image.brokers.values()
        peers = (Endpoint(1, broker.host, broker.port),)
        front = FaultProxy(
            sim.environment,
            ProxyOptions(bootstrap=sim.bootstrap, port=0, peer_port=0, peers=peers),
        )
        await front.start()
        api = ProxyApi(front)
        transport = httpx.ASGITransport(api.app(AccessRules(is_loopback=False)))
        async with httpx.AsyncClient(transport=transport, base_url="http://proxy") as client:

            async def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
                answer = await client.request(method, path, json=body)
                return answer.status_code, answer.json()

            assert (await ask("get", "/healthz"))[1]["bootstrap"] == front.bootstrap
            status, view = await ask("get", "/api/v1/cluster")
            assert (status, view["upstream"]) == (200, sim.bootstrap)
            assert [door["side"] for door in view["doors"]] == ["client", "peer"]
            assert (await ask("get", "/openapi.json"))[1]["info"]["title"].endswith("control port")

            assert (await ask("post", "/api/v1/faults", HOLD))[0] == 201
            wire = await Wire.open(*front.clients.address(1))
            wire.send(wire.metadata())
            assert (await ask("get", "/api/v1/faults/late/wait"))[1]["held"] == 1
            assert (await ask("post", "/api/v1/faults/late/release"))[1] == {"released": 1}
            assert (await wire.answer())[0] == 1
            assert (await ask("delete", "/api/v1/faults"))[0] == 200
            await wire.close()

            status, seen = await ask("post", "/api/v1/looks", {"topic": "orders", "partition": 0})
            assert status == 200, seen
            assert (await ask("post", "/api/v1/verdicts", seen))[1]["healthy"]
            assert (await ask("post", "/api/v1/trace", {"level": "brief"}))[0] == 200

            for method, path, body in (
                ("get", "/api/v1/clock", None),
                ("post", "/api/v1/brokers/1/kill", {}),
                ("get", "/api/v1/transactions/a/b", None),
                ("post", "/api/v1/reset", None),
                ("get", "/metrics", None),
                ("get", "/api/v1/report", None),
            ):
                status, problem = await ask(method, path, body)
                assert (status, "a fault proxy can't do this" in problem["error"]) == (501, True)
            late = {"id": "x", "point": "log.append", "action": {"do": "hold"}}
            status, problem = await ask("post", "/api/v1/faults", late)
            assert (status, "only the simulator" in problem["error"]) == (501, True)
            assert (await ask("get", "/api/v1/nothing"))[0] == 404
        api.close()
        await front.stop()
