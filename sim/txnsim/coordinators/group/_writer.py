"""Writes a group coordinator's records to ``__consumer_offsets``, and tells when requests can be
answered.

Records take effect once the local log has them. The client gets its answer once they are
replicated, so that no client sees a position that a failover could undo. Errors of the log are
translated to a coordinator's errors.

Counterpart in Kafka: CoordinatorRuntime, CoordinatorPartitionWriter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from txnsim.coordinators._coordinator_log import NO_GUARD, CoordinatorLog, append_error
from txnsim.errors import ErrorCode, Rejection
from txnsim.group.log_format import (
    EncodedRecords,
    encode_batch,
    encode_in_batch,
    encode_in_slices,
    split_in_batches,
)
from txnsim.group.offset_commands import CommittingProducer
from txnsim.group.records import GroupRecord, OffsetCommitted, OffsetDeleted
from txnsim.group.shard import GroupShard
from txnsim.runtime.environment import Clock
from txnsim.settings import Settings
from txnsim.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_NO_ERROR: Final = ErrorCode.none
TOO_MUCH: Final = ErrorCode.unknown_server_error
"""Error code for records beyond ``max.message.bytes``."""
_EPOCH_MISSING: Final = ErrorCode.unknown_server_error
_COMMIT_TOO_LARGE: Final = ErrorCode.invalid_commit_offset_size
_TOO_LARGE_ERRORS: Final = frozenset(
    {
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.invalid_fetch_size,
    }
)

_COORDINATOR_ERRORS: Final = {
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
    # Of a verification: older clients know how to retry that, and don't look for the coordinator.
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
}
"""Errors of the log that only groups translate differently."""


_ELEMENT_BYTES: Final = 256
MANY_RECORDS: Final = 500
"""Above this number of records, encoding stops at ``max.message.bytes``."""


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """The coordinator's error for an error of the log or of a verification
    (CoordinatorOperationExceptionHelper).
    """
    return _COORDINATOR_ERRORS.get(error) or append_error(error)


class GroupWriter(msgspec.Struct, kw_only=True, eq=False):
    """Appends and applies a group coordinator's records."""

    log: CoordinatorLog
    clock: Clock
    dynamic_settings: Callable[[], Settings]
    shares_out: bool = True
    """Whether a cleanup may use several batches. Before 4.0 it writes one batch per group, and
    takes effect even if the log refuses it, also for deletions that a client requests.
    """

    def append(
        self,
        shard: GroupShard,
        records: Sequence[GroupRecord],
        *,
        producer: CommittingProducer | None = None,
        guard: int = NO_GUARD,
        takes_effect: bool = True,
    ) -> int | Rejection:
        """Append records and apply them.

        Args:
            shard: The shard of the records.
            records: At least one.
            producer: The producer whose transaction they belong to, if any.
            guard: The guard from the verification.
            takes_effect: Whether to apply them; False if memory already has their effect, as for
                members of classic groups.

        Returns:
            Offset of the last record; or the coordinator's error if the log refused them.
        """
        producer_id = NO_PRODUCER_ID if producer is None else producer.producer_id
        producer_epoch = NO_PRODUCER_EPOCH if producer is None else producer.producer_epoch
        if producer_id != NO_PRODUCER_ID and producer_epoch == NO_PRODUCER_EPOCH:
            return Rejection(
                error=_EPOCH_MISSING,
                reason="a batch of a producer needs its epoch, found -1 (MemoryRecordsBuilder)",
            )
        if len(records) > MANY_RECORDS and not isinstance(records, EncodedRecords):
            encoded_records = self._encode_within_limit(shard, records)
            if isinstance(encoded_records, Rejection):
                return encoded_records
            records = encoded_records
        batch = encode_batch(
            records,
            now_ms=self.clock.now_ms(),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        append_outcome = self.log.append(shard.partition, batch, guard=guard)
        if isinstance(append_outcome, Rejection):
            error = coordinator_error(append_outcome.error)
            if append_outcome.error in _TOO_LARGE_ERRORS:
                error = self._too_large_error(shard, records)
            return Rejection(error=error, reason=append_outcome.reason)
        if takes_effect:
            txn_producer_id = None if producer_id == NO_PRODUCER_ID else producer_id
            high_watermark = self.log.high_watermark_of(shard.partition)
            if isinstance(records[0], OffsetCommitted):
                shard.apply_commits(
                    records,  # type: ignore[arg-type] # nothing else is in a batch of commits
                    base_offset=append_outcome.base_offset,
                    producer_id=txn_producer_id,
                    high_watermark=high_watermark,
                )
            else:
                for record_offset, record in enumerate(records, append_outcome.base_offset):
                    shard.apply(
                        record,
                        record_offset=record_offset,
                        producer_id=txn_producer_id,
                        high_watermark=high_watermark,
                    )
        shard.end_offset = append_outcome.last_offset + 1
        return append_outcome.last_offset

    def _encode_within_limit(
        self, shard: GroupShard, records: Sequence[GroupRecord]
    ) -> EncodedRecords | Rejection:
        """Encode many records; stop at the first one beyond ``max.message.bytes``."""
        bytes_left = bytes_max = self.log.batch_bytes_max(shard.partition) or sys.maxsize
        if sum(map(_bytes_least, records)) > bytes_max:
            return self._too_large_rejection(shard, records, f"{len(records)} records", bytes_max)
        record_bytes: list[bytes] = []
        for record_index, record in enumerate(records):
            record_bytes.append(encode_in_batch(record, record_index))
            bytes_left -= len(record_bytes[-1])
            if bytes_left < 0:
                return self._too_large_rejection(
                    shard, records, f"{record_index + 1} records", bytes_max
                )
        encoded_records = EncodedRecords(records)
        encoded_records.record_bytes = record_bytes
        return encoded_records

    def refuse_many(
        self, shard: GroupShard, group_id: str, tombstone_count: int
    ) -> Rejection | None:
        """Refuse too many tombstones of a group before they are built; before 4.0 they take effect
        whatever the log says.
        """
        bytes_max = self.log.batch_bytes_max(shard.partition)
        if self.shares_out and tombstone_count * (17 + len(group_id)) > bytes_max > 0:
            return self._too_large_rejection(shard, (), f"{tombstone_count} tombstones", bytes_max)
        return None

    def _too_large_rejection(
        self,
        shard: GroupShard,
        records: Sequence[GroupRecord],
        counted_records: str,
        bytes_max: int,
    ) -> Rejection:
        reason = f"{counted_records} are larger than the {bytes_max} bytes of a batch"
        return Rejection(error=self._too_large_error(shard, records), reason=reason)

    @staticmethod
    def _too_large_error(shard: GroupShard, records: Sequence[GroupRecord]) -> ErrorCode:
        is_commit = bool(records) and isinstance(records[0], OffsetCommitted)
        has_own_error = is_commit and not shard.release_rules.large_positions_are_server_errors
        return _COMMIT_TOO_LARGE if has_own_error else TOO_MUCH

    def clean_up(self, shard: GroupShard, records: Sequence[GroupRecord]) -> Rejection | None:
        """Append records that need not be atomic; each batch takes effect as soon as the log has it
        (``isAtomic`` of CoordinatorResult, which is false for cleanups alone).

        Returns:
            The log's error, at which it stops; None on success.
        """
        if self.shares_out:
            bytes_max = self.log.batch_bytes_max(shard.partition)
            for batch_records in split_in_batches(records, batch_bytes_max=bytes_max):
                last_offset = self.append(shard, batch_records)
                if isinstance(last_offset, Rejection):
                    return last_offset
            return None
        return self._clean_up_by_group(shard, records)

    def _clean_up_by_group(
        self, shard: GroupShard, records: Sequence[GroupRecord]
    ) -> Rejection | None:
        """The cleanup before 4.0: one batch per group
        (GroupMetadataManager.cleanupGroupMetadata).
        """
        rejection: Rejection | None = None
        for _, one_group_records in groupby(records, lambda record: record.group_id):
            batch_records = tuple(one_group_records)
            last_offset = self.append(shard, batch_records)
            if isinstance(last_offset, Rejection):
                rejection = last_offset
                for record in batch_records:
                    shard.apply(record, record_offset=shard.end_offset - 1)
        return rejection

    def high_watermark_of(self, shard: GroupShard) -> int:
        """The high watermark of the shard's log."""
        return self.log.high_watermark_of(shard.partition)

    async def wait_for_commit(self, shard: GroupShard, offset: int) -> ErrorCode:
        """Wait until everything up to ``offset`` is replicated; returns the coordinator's error
        code.
        """
        timeout_ms = self.dynamic_settings().offsets_commit_timeout_ms
        pending_replication = self.log.wait_for_commit(
            shard.partition, offset, timeout_ms=timeout_ms
        )
        return (
            _NO_ERROR
            if pending_replication is None
            else coordinator_error(await pending_replication)
        )


def _bytes_least(record: GroupRecord) -> int:
    """A lower bound for the size of a record in a batch."""
    if isinstance(record, OffsetDeleted | OffsetCommitted):
        return 17 + len(record.group_id) + len(record.topic_partition.topic)
    return 17


def encode_records(records: Sequence[GroupRecord]) -> Generator[int, None, EncodedRecords]:
    """Encode records; yields after each."""
    record_bytes: list[bytes] = []
    for record_index, record in enumerate(records):
        encoded_record = yield from encode_in_slices(record, record_index)
        record_bytes.append(encoded_record)
        yield 1 + len(encoded_record) // _ELEMENT_BYTES
    encoded_records = EncodedRecords(records)
    encoded_records.record_bytes = record_bytes
    return encoded_records
