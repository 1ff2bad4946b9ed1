"""What a broker forwards to the controller, and what happens while it can't.

Clients may ask any broker for what only the controller can do. A broker that is cut off from it
keeps trying for a while, then answers REQUEST_TIMED_OUT. Kafka's counterparts: ForwardingManager,
NodeToControllerChannelManager.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from txnsim.node.peers import CONTROLLER_ID
from txnsim.types import BrokerId

if TYPE_CHECKING:
    from txnsim.broker.broker import Broker
    from txnsim.server.listener import BrokerListener

DEVIATIONS: Final = (
    "Requests that brokers forward to the controller don't travel in an Envelope: fault points "
    "between brokers don't see them. While the link to the controller is cut they wait, and time "
    "out, as in Apache Kafka.",
)

RETRY_TIMEOUT_MS: Final = 60_000
"""How long a broker tries (the channel manager "forwarding" of BrokerServer)."""

FORWARDED: Final = frozenset(
    {
        19,  # CreateTopics
        20,  # DeleteTopics
        30,  # CreateAcls
        31,  # DeleteAcls
        33,  # AlterConfigs
        37,  # CreatePartitions
        43,  # ElectLeaders
        44,  # IncrementalAlterConfigs
        45,  # AlterPartitionReassignments
        46,  # ListPartitionReassignments
        51,  # AlterUserScramCredentials
        57,  # UpdateFeatures
    }
)
"""API keys that KafkaApis hands to ``forwardToController``, of those that are spoken here."""


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
