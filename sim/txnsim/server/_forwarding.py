"""What a broker forwards to the controller, and what happens while it can't.

Clients may ask any broker for what only the controller can do. A broker that is cut off from it
keeps trying for a while, then answers REQUEST_TIMED_OUT. Kafka's counterparts: ForwardingManager,
NodeToControllerChannelManager.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from txnsim.errors import UnsupportedRequestError
from txnsim.node.peers import CONTROLLER_ID
from txnsim.types import BrokerId

if TYPE_CHECKING:
    from txnsim.api.request import Request
    from txnsim.broker.broker import Broker
    from txnsim.server._listener import BrokerListener

DEVIATIONS: Final = (
    "Requests that brokers forward to the controller don't travel in an Envelope: fault points "
    "between brokers don't see them. While the link to the controller is cut they wait, and time "
    "out, as in Apache Kafka.",
)

RETRY_TIMEOUT_MS: Final = 60_000
"""How long a broker tries (the channel manager "forwarding" of BrokerServer)."""


def complaint(request: Request) -> UnsupportedRequestError | None:
    """Why a controller of another release can't read a request of a client; then the broker closes
    the client's connection (ForwardingManager, EnvelopeUtils.parseForwardedRequest).
    """
    controller = request.broker.metadata.fleet.controller
    if not controller.features or request.api_version <= controller.highest(request.api_key):
        return None
    return UnsupportedRequestError(
        f"the controller, which runs {controller.patch_release}, does not know version "
        f"{request.api_version} of API {request.api_key}"
    )


async def controller_reached(listener: BrokerListener, broker: Broker) -> bool:
    """Wait until the broker reaches the controller; False when it gives up."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle() -> None:
        if not done.done():
            done.set_result(None)

    def healed(source: BrokerId, target: BrokerId) -> None:
        if (source, target) == (broker.broker_id, CONTROLLER_ID):
            settle()

    leave = listener.network.on_heal(healed)
    timer = broker.environment.clock.call_later(RETRY_TIMEOUT_MS, settle)
    try:
        await done
        return broker.reaches_controller
    finally:
        timer.cancel()
        leave()
