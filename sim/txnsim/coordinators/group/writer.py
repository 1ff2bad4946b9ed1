"""How a group coordinator's records get into ``__consumer_offsets``, and when they are answered.

Records take effect when the local log has them; who asked is answered when they are replicated, so
that nobody has heard of a position that a failover can take back. Errors of the log are told in the
words of a coordinator.

Counterpart in Kafka: CoordinatorRuntime, CoordinatorPartitionWriter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final, Protocol

from txnsim.errors import ErrorCode, Rejection
from txnsim.group.log_format import encode_batch
from txnsim.group.offset_commands import CommittingProducer
from txnsim.group.records import GroupRecord
from txnsim.group.shard import GroupShard
from txnsim.log.answers import Appended
from txnsim.runtime.env import Clock

_NONE: Final = ErrorCode.none

NO_GUARD: Final = 0
"""Of a write that no transaction has to vouch for (``log.verification.SENTINEL``)."""

_WORDS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
    # Of a verification: older clients know how to retry that, and don't look for the coordinator.
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
}


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """What an error of the log, or of a verification, is called towards clients
    (CoordinatorOperationExceptionHelper).
    """
    return _WORDS.get(error, error)


class OffsetsLog(Protocol):
    """The partitions of ``__consumer_offsets`` that a broker leads."""

    def append(self, partition: int, batch: bytes, *, guard: int) -> Appended | Rejection:
        """Append a coordinator's batch to the local log."""

    def admit(
        self, partition: int, producer: CommittingProducer | None
    ) -> Awaitable[Rejection | None] | None:
        """Ask before positions are appended, as somebody may hold or refuse them; None where
        nobody wants to be asked.
        """

    def replicated(self, partition: int) -> int:
        """The high watermark."""

    def committed(self, partition: int, offset: int) -> Awaitable[ErrorCode] | None:
        """Whether everything up to ``offset``, itself included, is replicated: None where it is
        already, else an answer once it is, or why it will not be.
        """


class GroupWriter:
    """Appends and applies."""

    __slots__ = ("_clock", "_log")

    def __init__(self, *, log: OffsetsLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock

    def append(
        self,
        shard: GroupShard,
        records: Sequence[GroupRecord],
        *,
        producer: CommittingProducer | None = None,
        guard: int = NO_GUARD,
        takes_effect: bool = True,
    ) -> int | Rejection:
        """Append records and let them take effect.

        Args:
            shard: Whose records they are.
            records: At least one.
            producer: Where they are part of its transaction.
            guard: What its verification gave.
            takes_effect: False where the coordinator's memory is ahead of its log already, as with
                the members of classic groups.

        Returns:
            Offset of the last record; or why the log refused them, in a coordinator's words.
        """
        batch = encode_batch(
            records,
            now_ms=self._clock.now_ms(),
            producer_id=-1 if producer is None else producer.producer_id,
            producer_epoch=-1 if producer is None else producer.producer_epoch,
        )
        appended = self._log.append(shard.partition, batch, guard=guard)
        if isinstance(appended, Rejection):
            return Rejection(error=coordinator_error(appended.error), reason=appended.reason)
        if takes_effect:
            replicated = self._log.replicated(shard.partition)
            for index, record in enumerate(records):
                shard.apply(
                    record,
                    offset=appended.base_offset + index,
                    producer_id=None if producer is None else producer.producer_id,
                    replicated=replicated,
                )
        shard.end_offset = appended.last_offset + 1
        return appended.last_offset

    def admit(
        self, shard: GroupShard, producer: CommittingProducer | None
    ) -> Awaitable[Rejection | None] | None:
        """Ask whether positions may be appended; None where nobody has to be asked."""
        waiting = self._log.admit(shard.partition, producer)
        return None if waiting is None else _worded(waiting)

    def replicated(self, shard: GroupShard) -> int:
        """The high watermark of the shard's log."""
        return self._log.replicated(shard.partition)

    async def committed(self, shard: GroupShard, offset: int) -> ErrorCode:
        """Wait until everything up to ``offset`` is replicated; in a coordinator's words."""
        waiting = self._log.committed(shard.partition, offset)
        return _NONE if waiting is None else coordinator_error(await waiting)


async def _worded(waiting: Awaitable[Rejection | None]) -> Rejection | None:
    refused = await waiting
    if refused is None:
        return None
    return Rejection(error=coordinator_error(refused.error), reason=refused.reason)
