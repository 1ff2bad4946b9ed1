"""The metadata that a cluster starts with: freshly formatted, or as its disks have been left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from txnsim.controller import controller
from txnsim.metadata.image import CLIENT_LISTENER, BrokerImage, ClusterImage
from txnsim.releases import Fleet
from txnsim.runtime.real import host_name
from txnsim.security.acls import NO_ACLS
from txnsim.security.options import SecurityOptions
from txnsim.server._channel_builder import first_credentials
from txnsim.server._listener import Door
from txnsim.settings import Settings
from txnsim.text import EVERYWHERE

if TYPE_CHECKING:
    from txnsim.server.loading import LoadedCluster
    from txnsim.server.options import ClusterOptions


def first_image(
    brokers: Sequence[BrokerImage],
    *,
    settings: Settings,
    security: SecurityOptions,
    fleet: Fleet,
    salt: Callable[[int], bytes],
    loaded: LoadedCluster | None = None,
) -> ClusterImage:
    """The image with these brokers."""
    if loaded is None:
        image = controller.initial_image(
            cluster_id=settings.cluster_id,
            brokers=tuple(brokers),
            transaction_version=settings.transaction_version,
            min_insync_replicas=settings.min_insync_replicas,
            fleet=fleet,
        )
    else:
        image = loaded.image
        for broker in brokers:
            # A registration's epoch is its offset in the metadata log.
            image = image.with_broker(msgspec.structs.replace(broker, epoch=image.offset + 1))
    image = image.with_acls(NO_ACLS.plus(security.acls))
    if security.scram_users or security.scram_users_of:
        image = image.with_scram(first_credentials(security, salt))
    return image


def registered(options: ClusterOptions, doors: Sequence[tuple[Door, ...]]) -> list[BrokerImage]:
    """Each broker as clients see it."""
    return [
        BrokerImage(
            broker_id=broker_id,
            epoch=number,
            host=_told(options, own[0], number)[0],
            port=_told(options, own[0], number)[1],
            addresses={
                door.apis.listener: _told(options, door, number)
                for door in own
                if door.apis.listener != CLIENT_LISTENER
            },
        )
        for number, (broker_id, own) in enumerate(zip(options.broker_ids, doors, strict=True), 1)
    ]


def _told(options: ClusterOptions, door: Door, number: int) -> tuple[str, int]:
    """Host and port of a broker's listener, as clients get them."""
    if options.advertised and door.apis.listener == CLIENT_LISTENER:
        return options.advertised[number - 1]
    own = None if door.channel_builder is None else door.channel_builder.listener
    host, port = options.advertised_host or _reachable(door.host), options.advertised_port
    if own is not None:
        host, port = own.advertised_host or host, own.advertised_port
    return host, door.port if port is None or options.brokers > 1 else port


def _reachable(host: str) -> str:
    """What clients get for a listening address; for "everywhere" this machine's name, as Kafka's
    default is.
    """
    return host_name() if host in EVERYWHERE else host
