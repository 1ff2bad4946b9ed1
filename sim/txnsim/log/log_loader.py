"""Loads a log from the files that a starting broker finds on its disk (Kafka's LogLoader).

Segments are added in their order. A trusted one is taken as it is, with the aborted transactions in
its index. One that may be incomplete is *recovered*: its batches are applied as if they were new,
which rebuilds leader epochs and aborted transactions. At the end the producers' state is loaded
from the newest snapshot and the batches after it. This module does not know the names of files, nor
which of them are trusted. Kafka's counterparts: LogLoader, LogSegment.recover,
ProducerStateManager.truncateAndReload.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from txnsim.log._segment import Segment
from txnsim.log.config import LogConfig
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state import PartitionProducers
from txnsim.log.producer_state_manager import OffsetSnapshot
from txnsim.log.replicated import describe_batch
from txnsim.log.txn_index import AbortedTxn
from txnsim.types import TopicPartition
from txnsim.wire.batch import BatchHeader

StoredBatches = Iterable[tuple[bytes, BatchHeader]]
"""Batches with their headers, by ascending offset."""


class LogLoader:
    """Loads a log: first the segments, then ``finish``.

    ``log`` is the log so far; it is complete after ``finish``.
    """

    __slots__ = ("_log_start_offset", "log")

    def __init__(
        self,
        *,
        topic_partition: TopicPartition,
        config: LogConfig,
        start_offset: int,
        log_start_offset: int,
        leader_epochs: Iterable[tuple[int, int]],
        snapshots: Iterable[OffsetSnapshot],
    ) -> None:
        """Begin with the contents of the files beside the segments."""
        self.log = PartitionLog(
            topic_partition=topic_partition,
            config=config,
            leader_epoch=-1,
            start_offset=start_offset,
        )
        self._log_start_offset = log_start_offset
        for epoch, first_offset in leader_epochs:
            self.log.epochs.assign(epoch, first_offset)
        for offset, snapshot_entries in snapshots:
            self.log.producers.snapshots.add(offset, snapshot_entries)

    @property
    def end_offset(self) -> int:
        """The log end so far."""
        return self.log.local.end_offset

    def load_segment(
        self,
        base_offset: int,
        batches: StoredBatches,
        *,
        aborted_txns: Sequence[AbortedTxn],
        modified_ms: int,
    ) -> None:
        """Add a trusted segment as it is (LogSegment.open)."""
        local_log = self.log.local
        segment = local_log.new_segment(base_offset, self.log.config, now_ms=modified_ms)
        for batch, header in batches:
            self._append_batch(segment, batch, header, modified_ms)
        local_log.segments.add(segment)
        for aborted_txn in aborted_txns:
            local_log.index.append(aborted_txn)
        local_log.end_offset = segment.next_offset

    def recover_segment(
        self, base_offset: int, batches: StoredBatches, *, modified_ms: int, now_ms: int
    ) -> None:
        """Add a segment's valid batches and rebuild the state that follows from them
        (LogLoader.recoverSegment).

        Drops the snapshots after its first offset, and takes one at its end.
        """
        local_log, producer_manager = self.log.local, self.log.producers
        producer_manager.reload(
            local_log.segments,
            start_offset=self._log_start_offset,
            end_offset=base_offset,
            now_ms=now_ms,
            expiration_ms=self.log.config.producer_id_expiration_ms,
        )
        segment = local_log.new_segment(base_offset, self.log.config, now_ms=modified_ms)
        for batch, header in batches:
            self._append_batch(segment, batch, header, modified_ms)
            aborted_txn = producer_manager.state.apply(describe_batch(batch, header))
            if aborted_txn is not None:
                local_log.index.append(aborted_txn)
        local_log.segments.add(segment)
        local_log.end_offset = segment.next_offset
        producer_manager.take_snapshot(local_log.end_offset)

    def finish(
        self, *, recovery_point: int, cleaned_until: int | None, was_clean: bool, now_ms: int
    ) -> bool:
        """Complete the log after its last segment.

        Args:
            recovery_point: Everything below it is certainly on disk.
            cleaned_until: Offset up to which the log was compacted; None before the first round.
            was_clean: Whether the broker had stopped cleanly.
            now_ms: The cluster's time: producers may have expired.

        Returns:
            Whether anything is left: a log that ends below its own start is emptied.
        """
        log, log_start_offset = self.log, self._log_start_offset
        local_log, producer_manager = log.local, log.producers
        end_offset = local_log.end_offset = local_log.segments.active.next_offset
        is_kept = end_offset >= log_start_offset
        if not is_kept:
            log.restart_at(log_start_offset, now_ms=now_ms)
            end_offset = log_start_offset
        local_log.recovery_point = (
            end_offset if was_clean and is_kept else min(recovery_point, end_offset)
        )
        local_log.cleaned_until = cleaned_until
        log.epochs.truncate_to(end_offset)
        log.epochs.drop_before(log_start_offset)
        producer_manager.snapshots.drop_stray(
            [segment.base_offset for segment in local_log.segments]
        )
        log.begin_at(log_start_offset)
        if producer_manager.snapshots.newest is None and was_clean:
            # Kafka takes it for a log of a time before there were snapshots, and reads nothing.
            producer_manager.state = PartitionProducers()
        else:
            log.reload_producers(now_ms)
        return is_kept

    def _append_batch(
        self, segment: Segment, batch: bytes, header: BatchHeader, modified_ms: int
    ) -> None:
        segment.append(
            batch,
            header.base_offset,
            header.last_offset,
            max_timestamp=header.max_timestamp_ms,
            now_ms=modified_ms,
        )
        if header.leader_epoch > self.log.epochs.latest:
            self.log.epochs.assign(header.leader_epoch, header.base_offset)
