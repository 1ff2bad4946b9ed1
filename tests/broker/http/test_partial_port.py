"""A control port that can do a part of what a simulated cluster's can: what it has, and 501 with
the reason for the rest.
"""

from __future__ import annotations

import httpx
import pytest

from tests.support.clusters import real_cluster
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.faults.points import FaultPoint
from txnsim.http._app import OPERATIONS
from txnsim.http._guard import AccessRules
from txnsim.http.operation import ClusterNoun
from txnsim.http.partial_port import PartialApi
from txnsim.injection.injector import Injector
from txnsim.runtime.environment import Environment
from txnsim.server.cluster import SimCluster


class PartialPort:
    """The target of a control port that can do nothing but arm faults."""

    def __init__(self, cluster: SimCluster) -> None:
        self.environment: Environment = cluster.environment
        self.injector: Injector = cluster.injector
        self.bootstrap = cluster.bootstrap
        self._cluster = cluster

    def outside(self, settings: ClientSettings) -> Cluster:
        return ClusterNoun(self._cluster).outside(settings)


class Api(PartialApi):
    def brokers(self) -> int:
        return 7

    def why_not(self, path: str) -> str:
        return f"{path}: not here"


@pytest.mark.parametrize("method", ["get", "post"])
async def test_it_answers_what_it_can_and_says_why_it_can_t_do_the_rest(method: str) -> None:
    async with real_cluster(brokers=1, topics=(("orders", 1),)) as sim:
        api = Api(PartialPort(sim), FaultPoint.of_clients())
        transport = httpx.ASGITransport(api.app(AccessRules(is_loopback=False)))
        async with httpx.AsyncClient(transport=transport, base_url="http://port") as client:
            health_answer = await client.get("/healthz")
            assert (health_answer.json()["brokers"], health_answer.json()["bootstrap"]) == (
                7,
                sim.bootstrap,
            )
            assert (await client.get("/api/v1/topics/orders/committed")).json() == []
            missing = [
                operation for operation in OPERATIONS if operation not in api.every_operation()
            ]
            missing_operation = next(
                operation
                for operation in missing
                if operation.method == method and "{" not in operation.path
            )
            refusal_answer = await client.request(method, missing_operation.path)
            assert (refusal_answer.status_code, refusal_answer.json()["error"]) == (
                501,
                f"{missing_operation.path}: not here",
            )
        api.close()


async def test_its_document_has_its_operations_and_the_rules_that_can_strike_there() -> None:
    async with real_cluster(brokers=1) as sim:
        document = Api(PartialPort(sim), FaultPoint.of_clients()).document()
    assert "/api/v1/faults" in document["paths"]
    assert "/api/v1/clock" not in document["paths"]
    schemas = document["components"]["schemas"]
    assert schemas["FaultPoint"]["enum"] == sorted(FaultPoint.of_clients())
    assert "crash" not in schemas["FaultRule"]["properties"]["action"]["discriminator"]["mapping"]
