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

_INCLUDES: Final = "The manual partition assignment includes"


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

    def choose_replicas(self, start: int, factor: int) -> tuple[BrokerId, ...]:
        """Choose ``factor`` brokers: active ones consecutively from ``start``, then fenced ones;
        the first one leads.
        """
        near = min(factor, len(self.active))
        far = factor - near
        active, fenced = self.active, self.fenced
        return (
            *(active[(start + step) % len(active)] for step in range(near)),
            *(fenced[(start + step) % len(fenced)] for step in range(far)),
        )


def usable_brokers(image: ClusterImage, factor: int) -> UsableBrokers | Rejection:
    """Brokers that may get ``factor`` replicas, or why there are too few (StripedReplicaPlacer)."""
    usable = UsableBrokers(
        active=tuple(
            sorted(broker_id for broker_id in image.brokers if image.is_active(broker_id))
        ),
        fenced=tuple(
            sorted(broker_id for broker_id, broker in image.brokers.items() if not broker.alive)
        ),
    )
    total = len(usable.active) + len(usable.fenced)
    if not usable.active:
        why = "All brokers are currently fenced, or have all their log directories cordoned."
    elif factor > total:
        why = (
            f"The target replication factor of {factor} cannot be reached because only {total} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    else:
        return usable
    return Rejection(
        error=ErrorCode.invalid_replication_factor,
        reason=f"Unable to replicate the partition {factor} time(s): {why}",
    )


def assignment_refusal(
    image: ClusterImage, brokers: tuple[BrokerId, ...], factor: int | None = None
) -> Rejection | None:
    """Why a partition can't have the replicas that a client names: there must be ``factor`` of
    them, if given.
    """
    if not brokers:
        return bad_assignment(f"{_INCLUDES} an empty replica list.")
    previous: BrokerId | None = None
    for broker in sorted(brokers):
        if broker not in image.brokers:
            return bad_assignment(f"{_INCLUDES} broker {broker}, but no such broker is registered.")
        if broker == previous:
            return bad_assignment(f"{_INCLUDES} the broker {broker} more than once.")
        previous = broker
    if factor is not None and len(brokers) != factor:
        return bad_assignment(
            f"{_INCLUDES} a partition with {len(brokers)} replica(s), but this is not consistent "
            f"with previous partitions, which have {factor} replica(s)."
        )
    return None


def new_assignment_refusal(
    image: ClusterImage, brokers: tuple[BrokerId, ...], index: int, factor: int | None
) -> Rejection | None:
    """``assignment_refusal`` for a new partition, which also needs a leader."""
    refusal = assignment_refusal(image, brokers, factor)
    if refusal is not None or any(image.is_active(broker) for broker in brokers):
        return refusal
    return bad_assignment(
        f"All brokers specified in the manual partition assignment for partition {index} "
        "are fenced or in controlled shutdown."
    )


def bad_assignment(reason: str) -> Rejection:
    """INVALID_REPLICA_ASSIGNMENT with this reason."""
    return Rejection(error=ErrorCode.invalid_replica_assignment, reason=reason)


class Usable(dict[int, UsableBrokers | Rejection]):
    """Replication factor -> usable brokers or the error; shared by a request's topics."""

    def __init__(self, image: ClusterImage) -> None:
        super().__init__()
        self._image = image
        self.fresh = _Fresh(image)

    def __missing__(self, factor: int) -> UsableBrokers | Rejection:
        usable = self[factor] = usable_brokers(self._image, factor)
        return usable


class _Fresh(dict[tuple[BrokerId, ...], PartitionImage]):
    """New partitions by their replicas, so that those on the same brokers share one value."""

    def __init__(self, image: ClusterImage) -> None:
        super().__init__()
        self._image = image

    def __missing__(self, replicas: tuple[BrokerId, ...]) -> PartitionImage:
        partition = self[replicas] = new_partition(replicas, self._image)
        return partition
