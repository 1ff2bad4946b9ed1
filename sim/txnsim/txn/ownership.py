"""Which partitions of ``__transaction_state`` a broker coordinates, and under which epoch.

The leader of a partition coordinates its transactional ids; its leader epoch is the coordinator
epoch. An ``OwnedPartition`` lives for one such epoch: code that has waited for the log keeps the
one that it started with and checks ``is_current`` before touching it again. That is the whole
protection against a coordinator that moved meanwhile.

Counterpart in Kafka: transactionMetadataCache and loadingPartitions of TransactionStateManager.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.placement import partition_for
from txnsim.releases.rules import Rules
from txnsim.txn.state import TxnMetadata
from txnsim.types import BrokerId, CoordinatorEpoch, TransactionalId


class OwnedPartition(msgspec.Struct, kw_only=True, eq=False):
    """One partition's transactional ids, under one coordinator epoch."""

    partition: int
    coordinator_epoch: CoordinatorEpoch
    node: str
    """Name in the trace."""
    entries: dict[TransactionalId, TxnMetadata]


class Ownership(msgspec.Struct, kw_only=True, eq=False):
    """The partitions that a broker owns, and those it is about to own."""

    rules: Rules
    broker_id: BrokerId
    partitions: int
    _owned: dict[int, OwnedPartition] = {}
    _loading: dict[int, CoordinatorEpoch] = {}

    def find(self, transactional_id: TransactionalId) -> OwnedPartition | Rejection:
        """The partition of a transactional id; refused while it is loading or elsewhere."""
        partition = partition_for(transactional_id, self.partitions)
        return self._owned.get(partition) or self.refuse(partition)

    def is_current(self, owned: OwnedPartition) -> bool:
        """False as soon as the partition was released or is being loaded again."""
        return self._owned.get(owned.partition) is owned

    def get(self, partition: int, coordinator_epoch: CoordinatorEpoch) -> OwnedPartition | None:
        """The partition, where it is still owned under this epoch."""
        owned = self._owned.get(partition)
        return owned if owned is not None and owned.coordinator_epoch == coordinator_epoch else None

    def refuse(self, partition: int) -> Rejection:
        """Why a partition that is not owned can't be asked."""
        if partition in self._loading:
            return Rejection(
                error=ErrorCode.coordinator_load_in_progress,
                reason=f"partition {partition} of __transaction_state is being loaded",
            )
        return Rejection(
            error=ErrorCode.not_coordinator,
            reason=f"broker {self.broker_id} does not lead partition {partition} "
            "of __transaction_state",
        )

    def begin_load(self, partition: int, coordinator_epoch: CoordinatorEpoch) -> None:
        """Mark the partition as loading, and drop the one owned under an older epoch."""
        self._owned.pop(partition, None)
        self._loading[partition] = coordinator_epoch

    def finish_load(
        self,
        partition: int,
        coordinator_epoch: CoordinatorEpoch,
        entries: dict[TransactionalId, TxnMetadata],
    ) -> OwnedPartition | None:
        """Own the partition; None where this load was called off meanwhile."""
        if self._loading.get(partition) != coordinator_epoch:
            return None
        del self._loading[partition]
        owned = OwnedPartition(
            partition=partition,
            coordinator_epoch=coordinator_epoch,
            node=self.node(partition),
            entries=entries,
        )
        self._owned[partition] = owned
        return owned

    def unload(self, partition: int, epoch: int | None) -> bool:
        """Let a partition go; True where it was owned.

        Args:
            partition: The partition.
            epoch: Leader epoch under which this broker became a follower; a load of an older
                epoch is called off (KAFKA-18137). None where the replica is deleted.
        """
        loading = self._loading.get(partition)
        if loading is not None and (
            epoch is None
            or (loading < epoch if self.rules.unload_calls_off_load else loading == epoch)
        ):
            del self._loading[partition]
        return self._owned.pop(partition, None) is not None

    def node(self, partition: int) -> str:
        """Name of the coordinator of a partition in the trace."""
        return f"broker/{self.broker_id}/txn/{partition}"

    @property
    def is_loading(self) -> bool:
        """Some partition is being loaded."""
        return bool(self._loading)

    @property
    def loading_count(self) -> int:
        """Partitions that are being loaded."""
        return len(self._loading)

    @property
    def owned_count(self) -> int:
        """Partitions that are owned."""
        return len(self._owned)

    def __iter__(self) -> Iterator[OwnedPartition]:
        """The owned partitions; a snapshot, so that the caller may load and unload meanwhile."""
        return iter(list(self._owned.values()))

    def all_entries(self) -> Iterator[TxnMetadata]:
        """Every entry of every owned partition."""
        for owned in self._owned.values():
            yield from owned.entries.values()
