"""Which partitions of its log a coordinator's broker leads, and under which epoch.

The leader of a partition of ``__transaction_state``, ``__consumer_offsets`` or
``__share_group_state`` coordinates the ids that map to it; its leader epoch is the coordinator
epoch. An owned partition object lives for one such epoch: code that has waited for the log checks
with ``is_current`` that its object is still valid before changing it. That is the whole protection
against a coordinator that has moved meanwhile.

Counterpart in Kafka: the coordinators of CoordinatorRuntime; transactionMetadataCache and
loadingPartitions of TransactionStateManager.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.txn.state import TxnMetadata, TxnTransition
from txnsim.types import BrokerId, CoordinatorEpoch, TransactionalId, partition_for


class CoordinatedPartition(Protocol):
    """A coordinator's state of one partition, under one coordinator epoch."""

    @property
    def partition(self) -> int:
        """Index of the owned partition of the coordinators' topic."""

    @property
    def coordinator_epoch(self) -> int:
        """Leader epoch of the owned partition."""


class OwnedPartition(msgspec.Struct, kw_only=True, eq=False):
    """The transactional ids of one partition."""

    partition: int
    coordinator_epoch: CoordinatorEpoch
    node: str
    """The coordinator's name in the trace."""
    entries: dict[TransactionalId, TxnMetadata]
    withdrawn_transitions: dict[TransactionalId, TxnTransition] = {}
    """Transitions that did not take effect although their records are in the log: they were not
    replicated in time, and the next coordinator will read them (as in TransactionStateManager).
    """


OwnedT = TypeVar("OwnedT", bound=CoordinatedPartition)


class Ownership(msgspec.Struct, Generic[OwnedT], kw_only=True, eq=False):
    """The partitions whose ids a broker coordinates, and those that it is loading."""

    topic: str
    kind: str
    """The coordinator's name in the trace."""
    broker_id: BrokerId
    partition_count: int
    calls_off_older: bool = True
    """Whether an unload cancels loads of all older epochs (KAFKA-18137), or only a load of its own
    epoch.
    """
    owned: dict[int, OwnedT] = {}
    loading: dict[int, CoordinatorEpoch] = {}

    def find(self, coordinated_id: str) -> OwnedT | Rejection:
        """The partition of an id; a rejection while it is loading or if another broker has it."""
        partition = partition_for(coordinated_id, self.partition_count)
        return self.owned.get(partition) or self.refuse(partition)

    def is_current(self, owned_partition: OwnedT) -> bool:
        """False as soon as the partition was unloaded or is being reloaded."""
        return self.owned.get(owned_partition.partition) is owned_partition

    def refuse_moved(self, owned_partition: OwnedT) -> Rejection | None:
        """The rejection for a partition that was owned; None if it still is."""
        if self.owned.get(owned_partition.partition) is owned_partition:
            return None
        return self.refuse(owned_partition.partition)

    def get(self, partition_index: int, coordinator_epoch: CoordinatorEpoch) -> OwnedT | None:
        """The partition, if it is still owned under this epoch."""
        owned_partition = self.owned.get(partition_index)
        return (
            owned_partition
            if owned_partition is not None
            and owned_partition.coordinator_epoch == coordinator_epoch
            else None
        )

    def refuse(self, partition_index: int) -> Rejection:
        """The rejection for a partition that is not owned."""
        if partition_index in self.loading:
            return Rejection(
                error=ErrorCode.coordinator_load_in_progress,
                reason=f"partition {partition_index} of {self.topic} is being loaded",
            )
        return Rejection(
            error=ErrorCode.not_coordinator,
            reason=(
                f"broker {self.broker_id} does not lead partition {partition_index} of {self.topic}"
            ),
        )

    def begin_load(
        self, partition_index: int, coordinator_epoch: CoordinatorEpoch
    ) -> OwnedT | None:
        """Mark the partition as loading. Return what was owned under an older epoch and is now
        dropped.
        """
        self.loading[partition_index] = coordinator_epoch
        return self.owned.pop(partition_index, None)

    def finish_load(self, loaded_partition: OwnedT) -> bool:
        """Own the partition; False if this load was cancelled meanwhile."""
        if self.loading.get(loaded_partition.partition) != loaded_partition.coordinator_epoch:
            return False
        del self.loading[loaded_partition.partition]
        self.owned[loaded_partition.partition] = loaded_partition
        return True

    def unload(self, partition_index: int, epoch: int | None) -> OwnedT | None:
        """Give up a partition; returns what was owned.

        Args:
            partition_index: The partition.
            epoch: Leader epoch under which this broker became a follower; a load of an older epoch
                is cancelled (KAFKA-18137). None if the replica was deleted.
        """
        loading_epoch = self.loading.get(partition_index)
        if loading_epoch is not None and (
            epoch is None
            or (loading_epoch < epoch if self.calls_off_older else loading_epoch == epoch)
        ):
            del self.loading[partition_index]
        return self.owned.pop(partition_index, None)

    def node_of(self, partition_index: int) -> str:
        """Name of the coordinator of a partition in the trace."""
        return f"broker/{self.broker_id}/{self.kind}/{partition_index}"

    def __iter__(self) -> Iterator[OwnedT]:
        """A snapshot of the owned partitions, so that the caller may load and unload meanwhile."""
        return iter(list(self.owned.values()))
