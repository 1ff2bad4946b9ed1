"""GetTelemetrySubscriptions: what a client is told, and refused."""

from __future__ import annotations

import uuid

from tests.support.handlers import Api, handlers
from txnsim.errors import ErrorCode

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
