"""PushTelemetry: taken, or refused with an error and nothing else."""

from __future__ import annotations

import uuid
from typing import Any

from tests.support.handlers import Api
from txnsim.errors import ErrorCode

CLIENT = uuid.UUID(int=77)


async def pushed(api: Api, **values: Any) -> ErrorCode:
    answer = await api.ask("PushTelemetry", 0, **{"client_instance_id": CLIENT, **values})
    error: ErrorCode = answer.error_code
    return error


async def test_what_was_asked_for_is_taken(api: Api) -> None:
    wanted = await api.ask("GetTelemetrySubscriptions", 0, client_instance_id=CLIENT)
    error = await pushed(api, subscription_id=wanted.subscription_id, metrics=b"metrics")
    assert error is ErrorCode.none
    assert api.broker.client_metrics.bytes_total == len(b"metrics")


async def test_another_subscription_is_refused(api: Api) -> None:
    assert await pushed(api, subscription_id=1) is ErrorCode.unknown_subscription_id
