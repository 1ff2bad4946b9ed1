"""Registration, fencing and shutdown of brokers in the controller. Pure.

Each incarnation of a broker has an epoch of its own, the metadata offset of its registration:
requests of an older one get STALE_BROKER_EPOCH. It starts fenced. Each function returns the next
image, including leaders and ISRs. Kafka's counterparts: ClusterControlManager,
ReplicationControlManager.handleBrokerFenced and its neighbours.
"""

from __future__ import annotations

import msgspec

from txnsim.controller.leadership import (
    after_unclean_shutdown,
    has_elr,
    with_broker_back,
    without_broker,
)
from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.lifecycle import BrokerRegistrationCommand
from txnsim.metadata.image import BrokerImage, ClusterImage
from txnsim.settings import Settings
from txnsim.types import BrokerId


def register_broker(
    image: ClusterImage,
    command: BrokerRegistrationCommand,
    settings: Settings,
    *,
    has_session: bool,
) -> ClusterImage | Rejection:
    """The image with a new, fenced incarnation; its epoch is in its ``BrokerImage``."""
    if command.cluster_id != image.cluster_id:
        return Rejection(
            error=ErrorCode.inconsistent_cluster_id,
            reason=f"Expected cluster ID {image.cluster_id}, but got cluster ID "
            f"{command.cluster_id}",
        )
    known_broker = image.brokers.get(command.broker_id)
    is_known = known_broker is not None and known_broker.incarnation_id == command.incarnation_id
    if known_broker is not None and not is_known:
        if has_session:
            return Rejection(
                error=ErrorCode.duplicate_broker_registration,
                reason="Another broker is registered with that broker id. If the broker was "
                "recently restarted this should self-resolve once the heartbeat manager expires "
                "the broker's session.",
            )
        is_clean = command.previous_broker_epoch == known_broker.epoch
        clean_image = after_unclean_shutdown if has_elr(image) and not is_clean else without_broker
        image = clean_image(image, command.broker_id, settings)
    epoch = known_broker.epoch if known_broker is not None and is_known else image.offset + 1
    return image.with_broker(
        BrokerImage(
            broker_id=command.broker_id,
            epoch=epoch,
            host=command.host,
            port=command.port,
            rack=command.rack,
            addresses=command.addresses,
            alive=known_broker is not None and is_known and known_broker.alive,
            in_controlled_shutdown=known_broker is not None
            and is_known
            and known_broker.in_controlled_shutdown,
            incarnation_id=command.incarnation_id,
        )
    )


def has_stale_epoch(image: ClusterImage, broker_id: BrokerId, epoch: int) -> bool:
    """Whether no current incarnation has that epoch (ClusterControlManager.checkBrokerEpoch)."""
    broker = image.brokers.get(broker_id)
    return broker is None or broker.epoch != epoch


def fence_broker(image: ClusterImage, broker_id: BrokerId, settings: Settings) -> ClusterImage:
    """The image with the broker fenced: out of every ISR, its leaders moved to other brokers."""
    image = without_broker(image, broker_id, settings)
    return _with_broker_state(image, broker_id, is_alive=False, is_shutting_down=False)


def unfence_broker(image: ClusterImage, broker_id: BrokerId, settings: Settings) -> ClusterImage:
    """The image with the broker unfenced; it may become leader of leaderless partitions."""
    unfenced_image = with_broker_back(image, broker_id, settings)
    return _with_broker_state(unfenced_image, broker_id, is_alive=True, is_shutting_down=False)


def fail_directory(image: ClusterImage, broker_id: BrokerId, settings: Settings) -> ClusterImage:
    """The image after the broker's log directory went offline: it is out of every ISR and leads
    nothing until it registers again (ReplicationControlManager.handleDirectoriesOffline).
    """
    broker = image.brokers[broker_id]
    if broker.has_failed_directory:
        return image
    image = without_broker(image, broker_id, settings)
    return image.with_broker(msgspec.structs.replace(broker, has_failed_directory=True))


def begin_controlled_shutdown(
    image: ClusterImage, broker_id: BrokerId, settings: Settings
) -> ClusterImage:
    """The image at the start of a controlled shutdown: leaders move away while the broker still
    serves requests.
    """
    image = _with_broker_state(image, broker_id, is_alive=True, is_shutting_down=True)
    return without_broker(image, broker_id, settings)


def _with_broker_state(
    image: ClusterImage, broker_id: BrokerId, *, is_alive: bool, is_shutting_down: bool
) -> ClusterImage:
    broker = image.brokers[broker_id]
    changed_broker = msgspec.structs.replace(
        broker, alive=is_alive, in_controlled_shutdown=is_shutting_down
    )
    return image if changed_broker == broker else image.with_broker(changed_broker)
