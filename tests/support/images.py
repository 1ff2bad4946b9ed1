"""Builders of cluster metadata."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from txnsim.types import BrokerId, LeaderEpoch

B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
TOPIC_ID: Final = uuid.UUID(int=0x1234)


def broker(
    broker_id: int, *, is_alive: bool = True, is_leaving: bool = False, port: int = 9092
) -> BrokerImage:
    return BrokerImage(
        broker_id=BrokerId(broker_id),
        epoch=broker_id,
        host="localhost",
        port=port,
        alive=is_alive,
        in_controlled_shutdown=is_leaving,
    )


def cluster(*brokers: BrokerImage) -> ClusterImage:
    """A cluster of these brokers, by default of three live ones."""
    image = ClusterImage(cluster_id="cluster")
    for broker_image in brokers or (broker(1), broker(2), broker(3)):
        image = image.with_broker(broker_image)
    return image


def partition(
    leader: int,
    *,
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] | None = None,
    epoch: int = 0,
    elr: tuple[int, ...] = (),
    last_known: tuple[int, ...] = (),
    is_recovering: bool = False,
    removing: tuple[int, ...] = (),
    adding: tuple[int, ...] = (),
) -> PartitionImage:
    return PartitionImage(
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=epoch,
        replicas=tuple(map(BrokerId, replicas)),
        isr=tuple(map(BrokerId, replicas if isr is None else isr)),
        elr=tuple(map(BrokerId, elr)),
        last_known_elr=tuple(map(BrokerId, last_known)),
        is_recovering=is_recovering,
        removing=tuple(map(BrokerId, removing)),
        adding=tuple(map(BrokerId, adding)),
    )


def topic(
    name: str = "orders",
    *partitions: PartitionImage,
    topic_id: uuid.UUID = TOPIC_ID,
    configs: Mapping[str, str] | None = None,
) -> TopicImage:
    """A topic of these partitions, by default of one that broker 1 leads."""
    return TopicImage(
        name=name,
        topic_id=topic_id,
        partitions=partitions or (partition(1),),
        configs=configs or {},
    )


def image_of(partition_image: PartitionImage, *, down: tuple[int, ...] = ()) -> ClusterImage:
    """A cluster of three brokers with one partition; some brokers are down."""
    image = cluster().with_topic(topic("orders", partition_image))
    for broker_id in down:
        image = image.with_broker(broker(broker_id, is_alive=False))
    return image


def error_of(answer: object) -> ErrorCode:
    """The error of a controller's rejection, which must also have a reason in words."""
    assert isinstance(answer, Rejection), answer
    assert answer.reason
    return answer.error
