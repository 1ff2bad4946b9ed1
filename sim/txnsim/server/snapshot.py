"""The state to which a cluster can be reset between tests, as one value.

It has what an operator has set: topics with their assignments and configs, features, dynamic
configs, quotas, ACLs, users, and the release of each broker. Records, transactions, producers and
groups are not part of it. Images are immutable, so taking a snapshot copies nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

import msgspec

from txnsim.controller.replica_placement import new_partition
from txnsim.metadata.image import ClusterImage, TopicImage
from txnsim.releases import Release
from txnsim.types import BrokerId


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a cluster at one moment."""

    image: ClusterImage
    releases: Mapping[BrokerId, Release]

    @property
    def topics(self) -> tuple[TopicImage, ...]:
        """The topics by name."""
        return tuple(topic for _, topic in sorted(self.image.topics.items()))


def restore_image(
    fresh_image: ClusterImage, snapshot: Snapshot, *, new_topic_id: Callable[[], uuid.UUID]
) -> ClusterImage:
    """A freshly formatted cluster with everything that the snapshot has.

    Topics get new ids, as if they had been deleted and created again: no client can take the new
    ones for the old. Each is led by its preferred replica.
    """
    image_before = snapshot.image
    image = msgspec.structs.replace(
        fresh_image,
        # Above all epochs that clients have seen: they may compare.
        offset=max(image_before.offset, fresh_image.offset),
        features=image_before.features,
        features_epoch=max(image_before.features_epoch, fresh_image.features_epoch),
        broker_configs=image_before.broker_configs,
        group_configs=image_before.group_configs,
        client_metrics=image_before.client_metrics,
        client_quotas=image_before.client_quotas,
        acls=image_before.acls,
        scram=image_before.scram,
    )
    for topic in snapshot.topics:
        image = image.with_topic(
            msgspec.structs.replace(
                topic,
                topic_id=new_topic_id(),
                partitions=tuple(
                    new_partition(
                        _without_added_replicas(partition.replicas, partition.adding), fresh_image
                    )
                    for partition in topic.partitions
                ),
            )
        )
    return image


def _without_added_replicas(
    replicas: tuple[BrokerId, ...], added_replicas: tuple[BrokerId, ...]
) -> tuple[BrokerId, ...]:
    """The replicas without those that a reassignment was adding."""
    return tuple(broker_id for broker_id in replicas if broker_id not in added_replicas) or replicas
