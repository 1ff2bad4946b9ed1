"""Positions of transactions in the trace: pending, then the group's or dropped."""

from __future__ import annotations

from txnsim.group.offset_commands import (
    CommitOffsets,
    CommittingProducer,
    PartitionErrors,
)
from txnsim.group.shard import GroupShard
from txnsim.runtime.trace import Tracer
from txnsim.types import BrokerId, TxnMarker


class OffsetTrace:
    """What one broker's group coordinator tells."""

    __slots__ = ("_broker_id", "_tracer")

    def __init__(self, tracer: Tracer | None, broker_id: BrokerId) -> None:
        self._tracer = tracer
        self._broker_id = broker_id

    @property
    def on(self) -> bool:
        """Whether anybody listens."""
        return self._tracer is not None and self._tracer.on

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
        """The marker of a transaction is in the log, and has not been applied yet."""
        if not self.on:
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

    def _emit(self, kind: str, shard: GroupShard, data: dict[str, object], *, tx: str = "") -> None:
        assert self._tracer is not None, "asked for only while it is on"
        node = f"broker/{self._broker_id}/group/{shard.partition}"
        self._tracer.emit(kind, node, tx=tx, data=data)
