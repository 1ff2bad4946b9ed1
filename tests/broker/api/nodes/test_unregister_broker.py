"""UnregisterBroker: who is unknown can't be forgotten, and who is known stays."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api
from txnsim.errors import ErrorCode


@pytest.mark.parametrize(
    ("broker", "error"),
    [
        (1, ErrorCode.invalid_request),
        (4711, ErrorCode.broker_id_not_registered),
        (-1, ErrorCode.broker_id_not_registered),
    ],
)
async def test_no_broker_can_be_unregistered(api: Api, broker: int, error: ErrorCode) -> None:
    answer = await api.ask("UnregisterBroker", 0, broker_id=broker)
    assert answer.error_code is error
    assert str(broker) in answer.error_message
    assert 1 in api.broker.image.brokers
