"""Placement of replicas of new partitions, and validation of replicas that a client names. Pure.

Kafka's counterparts: StripedReplicaPlacer, ClusterControlManager.usableBrokers,
ReplicationControlManager.validateManualPartitionAssignment.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import ClusterImage, PartitionImage
from txnsim.types import BrokerId, LeaderEpoch

_ASSIGNMENT_INCLUDES: Final = "The manual partition assignment includes"


def new_partition(replicas: tuple[BrokerId, ...], image: ClusterImage) -> PartitionImage:
    """A new partition led by its first active replica, which must exist."""
    isr = tuple(broker for broker in replicas if image.is_active(broker))
    return PartitionImage(
        leader=isr[0],
        leader_epoch=LeaderEpoch(0),
        partition_epoch=0,
        replicas=replicas,
        isr=isr,
    )


class UsableBrokers(msgspec.Struct, frozen=True, kw_only=True):
    """Brokers that may get replicas (ClusterControlManager.usableBrokers), each group sorted by
    id.
    """

    active: tuple[BrokerId, ...]
    fenced: tuple[BrokerId, ...]
    """Registered but not alive: they get a replica only if there are too few active brokers."""

    def choose_replicas(self, start_index: int, replication_factor: int) -> tuple[BrokerId, ...]:
        """Choose ``replication_factor`` brokers: active ones consecutively from ``start_index``,
        then fenced ones; the first one leads.
        """
        active_count = min(replication_factor, len(self.active))
        fenced_count = replication_factor - active_count
        active_broker_ids, fenced_broker_ids = self.active, self.fenced
        return (
            *(
                active_broker_ids[(start_index + step) % len(active_broker_ids)]
                for step in range(active_count)
            ),
            *(
                fenced_broker_ids[(start_index + step) % len(fenced_broker_ids)]
                for step in range(fenced_count)
            ),
        )


def usable_brokers(image: ClusterImage, replication_factor: int) -> UsableBrokers | Rejection:
    """Brokers that may get ``replication_factor`` replicas, or why there are too few
    (StripedReplicaPlacer).
    """
    brokers = UsableBrokers(
        active=tuple(
            sorted(broker_id for broker_id in image.brokers if image.is_active(broker_id))
        ),
        fenced=tuple(
            sorted(broker_id for broker_id, broker in image.brokers.items() if not broker.alive)
        ),
    )
    broker_total = len(brokers.active) + len(brokers.fenced)
    if not brokers.active:
        shortage = "All brokers are currently fenced, or have all their log directories cordoned."
    elif replication_factor > broker_total:
        shortage = (
            f"The target replication factor of {replication_factor} cannot be reached"
            f" because only {broker_total} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    else:
        return brokers
    return Rejection(
        error=ErrorCode.invalid_replication_factor,
        reason=f"Unable to replicate the partition {replication_factor} time(s): {shortage}",
    )


def assignment_refusal(
    image: ClusterImage, broker_ids: tuple[BrokerId, ...], replication_factor: int | None = None
) -> Rejection | None:
    """Why a partition can't have the replicas that a client names: there must be
    ``replication_factor`` of them, if given.
    """
    if not broker_ids:
        return bad_assignment(f"{_ASSIGNMENT_INCLUDES} an empty replica list.")
    previous_id: BrokerId | None = None
    for broker_id in sorted(broker_ids):
        if broker_id not in image.brokers:
            return bad_assignment(
                f"{_ASSIGNMENT_INCLUDES} broker {broker_id}, but no such broker is registered."
            )
        if broker_id == previous_id:
            return bad_assignment(f"{_ASSIGNMENT_INCLUDES} the broker {broker_id} more than once.")
        previous_id = broker_id
    if replication_factor is not None and len(broker_ids) != replication_factor:
        return bad_assignment(
            f"{_ASSIGNMENT_INCLUDES} a partition with {len(broker_ids)} replica(s), but"
            f" this is not consistent "
            f"with previous partitions, which have {replication_factor} replica(s)."
        )
    return None


def new_assignment_refusal(
    image: ClusterImage,
    broker_ids: tuple[BrokerId, ...],
    partition_index: int,
    replication_factor: int | None,
) -> Rejection | None:
    """``assignment_refusal`` for a new partition, which also needs a leader."""
    refusal = assignment_refusal(image, broker_ids, replication_factor)
    if refusal is not None or any(image.is_active(broker_id) for broker_id in broker_ids):
        return refusal
    return bad_assignment(
        f"All brokers specified in the manual partition assignment for partition {partition_index} "
        "are fenced or in controlled shutdown."
    )


def bad_assignment(reason: str) -> Rejection:
    """INVALID_REPLICA_ASSIGNMENT with this reason."""
    return Rejection(error=ErrorCode.invalid_replica_assignment, reason=reason)


class UsableByFactor(dict[int, UsableBrokers | Rejection]):
    """Replication factor -> usable brokers or the error; shared by a request's topics."""

    def __init__(self, image: ClusterImage) -> None:
        super().__init__()
        self._image = image
        self.fresh = _FreshPartitions(image)

    def __missing__(self, factor: int) -> UsableBrokers | Rejection:
        brokers = self[factor] = usable_brokers(self._image, factor)
        return brokers


class _FreshPartitions(dict[tuple[BrokerId, ...], PartitionImage]):
    """New partitions by their replicas, so that those on the same brokers share one value."""

    def __init__(self, image: ClusterImage) -> None:
        super().__init__()
        self._image = image

    def __missing__(self, replicas: tuple[BrokerId, ...]) -> PartitionImage:
        partition = self[replicas] = new_partition(replicas, self._image)
        return partition
