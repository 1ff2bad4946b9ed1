"""GetTelemetrySubscriptions: what a client is told, and refused."""

from __future__ import annotations

import uuid
from typing import Any

from tests.support.clusters import VirtualCluster, run_cluster
from tests.support.handlers import KEYS, Api, handlers
from tests.support.raw_wire import message_from
from tests.support.wires import API_VERSIONS, Wire
from tests.support.within import within
from txnsim.api.nodes._get_telemetry_subscriptions import client_of
from txnsim.api.registry import SHIPPED
from txnsim.api.request import ClientLink
from txnsim.errors import ErrorCode
from txnsim.types import BrokerId
from txnsim.wire import codec

GET = "GetTelemetrySubscriptions"


async def test_a_new_client_gets_an_id_and_the_wanted_metrics(api: Api) -> None:
    metadata = api.broker.metadata
    metadata.publish(
        metadata.image.with_client_metrics("one", {"metrics": "a.", "interval.ms": "1000"})
    )
    answer = await api.ask(GET, 0, client_instance_id=uuid.UUID(int=0))
    assert answer.error_code is ErrorCode.none
    assert answer.client_instance_id.version == 4
    assert answer.requested_metrics == ("a.",)
    assert answer.push_interval.total_seconds() == 1
    assert answer.telemetry_max_bytes == 1_048_576
    assert answer.accepted_compression_types == (4, 3, 1, 2)
    assert answer.delta_temporality


async def test_a_client_that_asks_too_early_gets_an_error(api: Api) -> None:
    client = uuid.UUID(int=77)
    first = await api.ask(GET, 0, client_instance_id=client)
    assert (first.error_code, first.client_instance_id) == (ErrorCode.none, client)
    again = await api.ask(GET, 0, client_instance_id=client)
    assert again.error_code is ErrorCode.throttling_quota_exceeded
    assert again.client_instance_id is None
    assert (again.subscription_id, again.telemetry_max_bytes) == (0, 0)
    assert (again.requested_metrics, again.accepted_compression_types) == ((), ())


async def test_brokers_give_ids_of_their_own() -> None:
    async with handlers(brokers=2) as api:
        ids = {(await api.at(broker).ask(GET, 0)).client_instance_id for broker in (1, 2, 1)}
    assert len(ids) == 3


KEY = KEYS["GetTelemetrySubscriptions"]
SOFTWARE = {"client_software_name": "lib", "client_software_version": "1.2"}


async def test_a_client_is_known_by_header_connection_and_software(api: Api) -> None:
    request = api.request("GetTelemetrySubscriptions", 0, client_id="app")
    request.link = ClientLink("50000")
    request.link.software_name, request.link.software_version = "lib", "1.2"
    request.client_host = "/127.0.0.1"
    client = client_of(request)
    assert client.attributes(uuid.UUID(int=0)) == {
        "client_id": "app",
        "client_instance_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "client_software_name": "lib",
        "client_software_version": "1.2",
        "client_source_address": "127.0.0.1",
        "client_source_port": "50000",
    }
    assert client.connection is request.link


async def test_a_client_without_an_id_is_called_nothing(api: Api) -> None:
    request = api.request("GetTelemetrySubscriptions", 0)
    request.client_id = None
    assert client_of(request).client_id == ""


async def asked(wire: Wire, api_key: int, version: int, **values: Any) -> Any:
    message = message_from(codec.request_class(api_key, version), values)
    wire.send(wire.frame(api_key, version, message))
    return (await wire.answer())[1]


@within(run_cluster, client_telemetry_enable=True)
async def test_a_connection_tells_its_software_and_is_forgotten_when_it_ends(
    cluster: VirtualCluster,
) -> None:
    sim = cluster.sim
    metadata = sim.metadata
    match = {"match": "client_software_name=lib", "metrics": "yes"}
    metadata.publish(metadata.image.with_client_metrics("one", match))
    address = metadata.image.brokers[BrokerId(1)]
    for software, expected in ((SOFTWARE, ("yes",)), ({}, ())):
        wire = await Wire.open(address.host, address.port)
        if software:
            await asked(wire, API_VERSIONS, 3, **software)
        answer = await asked(wire, KEY, 0, client_instance_id=uuid.UUID(int=77))
        assert answer.error_code is ErrorCode.none, "the one before is forgotten"
        assert answer.requested_metrics == expected
        await wire.close()


@within(run_cluster)
async def test_without_anybody_who_takes_metrics_the_apis_are_unknown(
    cluster: VirtualCluster,
) -> None:
    address = cluster.sim.metadata.image.brokers[BrokerId(1)]
    wire = await Wire.open(address.host, address.port)
    assert KEY not in SHIPPED.advertised
    wire.send(wire.frame(KEY, 0, message_from(codec.request_class(KEY, 0), {})))
    assert await wire.closed()
    await wire.close()
