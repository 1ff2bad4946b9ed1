"""Trace events about positions of groups: pending in a transaction, then committed or dropped."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from txnsim.coordinators._ownership import Ownership
from txnsim.group.offset_commands import CommitOffsets, CommittingProducer, PartitionErrors
from txnsim.group.shard import GroupShard
from txnsim.interbroker.transactions import TxnMarker
from txnsim.runtime.trace import Tracer


class PositionNow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The current state of a position, for a reader that starts in the middle of the trace."""

    node: str
    group: str
    tp: str
    offset: int
    pid: int = -1
    """Producer id of the transaction it waits for; -1 if it is committed."""


class OffsetTrace(msgspec.Struct, eq=False):
    """Traces one broker's group coordinator."""

    tracer: Tracer
    ownership: Ownership[GroupShard]

    def trace_pending(
        self,
        shard: GroupShard,
        command: CommitOffsets,
        producer: CommittingProducer,
        reply: PartitionErrors,
    ) -> None:
        """Trace positions that a transaction has added and that wait for its marker."""
        txn_label = f"{producer.transactional_id}/{producer.producer_id}:{producer.producer_epoch}"
        accepted_partitions = {topic_partition for topic_partition, error in reply if not error}
        for position in command.positions:
            if position.topic_partition in accepted_partitions:
                event_data = {
                    "group": command.group_id,
                    "tp": str(position.topic_partition),
                    "offset": position.offset,
                    "pid": producer.producer_id,
                }
                self._emit("group.offset_pending", shard, event_data, txn_label=txn_label)

    def trace_decision(self, shard: GroupShard, marker: TxnMarker) -> None:
        """Trace a transaction's marker that is in the log but not applied yet."""
        if not self.tracer.on:
            return
        kind = "group.offset_commit" if marker.committed else "group.offset_abort"
        for group_id, topic_partition, offset in shard.offsets.pending_positions_of(
            marker.producer_id
        ):
            event_data = {
                "group": group_id,
                "tp": str(topic_partition),
                "offset": offset,
                "pid": marker.producer_id,
            }
            self._emit(kind, shard, event_data)

    def positions(self) -> Iterator[PositionNow]:
        """Every position, including pending ones, by group; each group is read when reached."""
        for shard in self.ownership:
            node, offsets = self.ownership.node_of(shard.partition), shard.offsets
            for group_id in offsets.group_ids():
                for position in tuple(offsets.committed_offsets(group_id)):
                    partition_text = str(position.topic_partition)
                    yield PositionNow(
                        node=node, group=group_id, tp=partition_text, offset=position.position
                    )
            for producer_id in offsets.pending_producers():
                for group_id, topic_partition, offset in offsets.pending_positions_of(producer_id):
                    yield PositionNow(
                        node=node,
                        group=group_id,
                        tp=str(topic_partition),
                        offset=offset,
                        pid=producer_id,
                    )

    def _emit(
        self,
        event_kind: str,
        shard: GroupShard,
        event_data: dict[str, object],
        *,
        txn_label: str = "",
    ) -> None:
        self.tracer.emit(
            event_kind, self.ownership.node_of(shard.partition), tx=txn_label, data=event_data
        )
