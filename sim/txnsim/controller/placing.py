"""Where the replicas of new partitions go. Kafka's counterparts: StripedReplicaPlacer,
ClusterControlManager.usableBrokers.
"""

from __future__ import annotations

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import ClusterImage, PartitionImage
from txnsim.types import BrokerId, LeaderEpoch


def new_partition(replicas: tuple[BrokerId, ...], image: ClusterImage) -> PartitionImage:
    """A fresh partition led by its first active replica; there is one."""
    isr = tuple(broker for broker in replicas if image.is_active(broker))
    return PartitionImage(
        leader=isr[0],
        leader_epoch=LeaderEpoch(0),
        partition_epoch=0,
        replicas=replicas,
        isr=isr,
    )


class UsableBrokers(msgspec.Struct, frozen=True, kw_only=True):
    """Brokers that may get replicas (ClusterControlManager.usableBrokers), each part by id."""

    active: tuple[BrokerId, ...]
    fenced: tuple[BrokerId, ...]
    """Registered but away: they get a replica where there are not enough active ones."""

    def place(self, start: int, factor: int) -> tuple[BrokerId, ...]:
        """``factor`` brokers, active ones in a row from ``start`` first; the first one leads."""
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
        active=tuple(sorted(one for one in image.brokers if image.is_active(one))),
        fenced=tuple(sorted(one for one, broker in image.brokers.items() if not broker.alive)),
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


class Usable(dict[int, UsableBrokers | Rejection]):
    """Who may get so many replicas, for all topics of a request."""

    def __init__(self, image: ClusterImage) -> None:
        super().__init__()
        self._image = image
        self.fresh = _Fresh(image)

    def __missing__(self, factor: int) -> UsableBrokers | Rejection:
        found = self[factor] = usable_brokers(self._image, factor)
        return found


class _Fresh(dict[tuple[BrokerId, ...], PartitionImage]):
    """New partitions by their replicas: those on the same brokers are the same value."""

    def __init__(self, image: ClusterImage) -> None:
        super().__init__()
        self._image = image

    def __missing__(self, replicas: tuple[BrokerId, ...]) -> PartitionImage:
        made = self[replicas] = new_partition(replicas, self._image)
        return made
