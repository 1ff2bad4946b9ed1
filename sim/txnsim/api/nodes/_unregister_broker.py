"""UnregisterBroker (key 64): remove the registration of a broker that will not come back.

Only version 0. Kafka's counterpart: ClusterControlManager.unregisterBroker.
"""

from __future__ import annotations

from typing import Final

from txnsim.api.request import Reply, Request, refuse_at_top_level
from txnsim.errors import ErrorCode
from txnsim.types import BrokerId

API_KEY: Final = 64

refuse = refuse_at_top_level(error_message=None)

DEVIATIONS: Final = (
    "A broker that is registered can't be unregistered: UnregisterBroker answers INVALID_REQUEST, "
    "where Apache Kafka forgets it, alive or not. The brokers of a cluster are those it was "
    "started with.",
)


async def handle(request: Request) -> Reply:
    """Refuse: a registered broker stays, and an unknown one can't be removed."""
    broker_id = request.message.broker_id
    if BrokerId(broker_id) in request.broker.image.brokers:
        return request.answer(
            error_code=ErrorCode.invalid_request,
            error_message=f"Broker {broker_id} belongs to this cluster and stays registered.",
        )
    return request.answer(
        error_code=ErrorCode.broker_id_not_registered,
        error_message=f"Broker ID {broker_id} is not currently registered",
    )
