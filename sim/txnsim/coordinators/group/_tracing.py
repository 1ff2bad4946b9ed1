"""Positions of transactions in the trace: pending, then the group's or dropped."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from txnsim.coordinators._ownership import Ownership
from txnsim.group.offset_commands import (
    CommitOffsets,
    CommittingProducer,
    PartitionErrors,
)
from txnsim.group.shard import GroupShard
from txnsim.interbroker.transactions import TxnMarker
from txnsim.runtime.trace import Tracer


class PositionNow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A position as it is, for who begins to read in the middle."""

    node: str
    group: str
    tp: str
    offset: int
    pid: int = -1
    """Whose transaction it waits for; -1 where it is the group's."""


class OffsetTrace(msgspec.Struct, eq=False):
    """The trace events of one broker's group coordinator."""

    tracer: Tracer
    ownership: Ownership[GroupShard]

    def pending(
        self,
        shard: GroupShard,
        command: CommitOffsets,
        producer: CommittingProducer,
        reply: PartitionErrors,
    ) -> None:
        """A transaction has added positions; they wait for its marker."""
        tx = f"{producer.transactional_id}/{producer.producer_id}:{producer.producer_epoch}"
        taken = {where for where, error in reply if not error}
        for position in command.positions:
            if position.topic_partition in taken:
                data = {
                    "group": command.group_id,
                    "tp": str(position.topic_partition),
                    "offset": position.offset,
                    "pid": producer.producer_id,
                }
                self._emit("group.offset_pending", shard, data, tx=tx)

    def decided(self, shard: GroupShard, marker: TxnMarker) -> None:
        """Trace a transaction's marker that is in the log but not applied yet."""
        if not self.tracer.on:
            return
        kind = "group.offset_commit" if marker.committed else "group.offset_abort"
        for group_id, place, offset in shard.offsets.pending_of(marker.producer_id):
            data = {
                "group": group_id,
                "tp": str(place),
                "offset": offset,
                "pid": marker.producer_id,
            }
            self._emit(kind, shard, data)

    def positions(self) -> Iterator[PositionNow]:
        """Every position, also pending ones, by group; each group is read when reached."""
        for shard in self.ownership:
            node, offsets = self.ownership.node(shard.partition), shard.offsets
            for group_id in offsets.groups():
                for one in tuple(offsets.all_committed(group_id)):
                    place = str(one.topic_partition)
                    yield PositionNow(node=node, group=group_id, tp=place, offset=one.position)
            for pid in offsets.pending_producers():
                for group_id, where, offset in offsets.pending_of(pid):
                    yield PositionNow(
                        node=node, group=group_id, tp=str(where), offset=offset, pid=pid
                    )

    def _emit(self, kind: str, shard: GroupShard, data: dict[str, object], *, tx: str = "") -> None:
        self.tracer.emit(kind, self.ownership.node(shard.partition), tx=tx, data=data)
