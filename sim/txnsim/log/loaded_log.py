"""A log as a starting broker makes it from what lies on its disk.

Segments are added in their order. One that is trusted is taken as it is, with the aborted
transactions that its index names; one that may not be whole is *recovered*: its batches are gone
through as if they came anew, so that leader epochs and aborted transactions follow from them. At
the end the producers' state is loaded from the newest snapshot and what lies behind it. What the
files are called and when one is trusted is not known here. Kafka's counterparts: LogLoader,
LogSegment.recover, ProducerStateManager.truncateAndReload.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from txnsim.log.follower_log import FollowerLog
from txnsim.log.log_upkeep import apply_stored
from txnsim.log.producer_state import ProducerState
from txnsim.log.replicated import described
from txnsim.log.segment import Segment
from txnsim.log.snapshots import Snapshot
from txnsim.log.txn_index import AbortedTxn
from txnsim.wire.batch import BatchHeader

StoredBatches = Iterable[tuple[bytes, BatchHeader]]
"""Batches with their headers, by rising offsets."""


class LoadedLog(FollowerLog):
    """A log that can be made from stored pieces.

    First ``begin_loading``, then the segments, then ``finish_loading``.
    """

    __slots__ = ()

    def begin_loading(
        self,
        *,
        log_start_offset: int,
        epochs: Iterable[tuple[int, int]],
        snapshots: Iterable[Snapshot],
    ) -> None:
        """What is noted beside the segments.

        Args:
            log_start_offset: The checkpoint of it, 0 without one.
            epochs: (leader epoch, first offset), rising.
            snapshots: Of the producers' state, by offset.
        """
        self._log_start_offset = log_start_offset
        for epoch, start_offset in epochs:
            self._epochs.assign(epoch, start_offset)
        for offset, entries in snapshots:
            self._snapshots.take(offset, entries)

    def load_segment(
        self,
        base_offset: int,
        batches: StoredBatches,
        *,
        aborted: Sequence[AbortedTxn],
        modified_ms: int,
    ) -> None:
        """Take a segment as it is (LogSegment.open)."""
        segment = self._new_segment(base_offset, modified_ms)
        for batch, header in batches:
            self._take(segment, batch, header, modified_ms)
        self._segments.add(segment)
        for entry in aborted:
            self._index.append(entry)
        self._log_end_offset = segment.next_offset

    def recover_segment(
        self, base_offset: int, batches: StoredBatches, *, modified_ms: int, now_ms: int
    ) -> None:
        """Take a segment's sound batches and make anew what follows from them
        (LogLoader.recoverSegment).

        Snapshots behind its first offset are forgotten; there is one of its end then.
        """
        self._log_end_offset = base_offset
        self._reload_producers(now_ms)
        segment = self._new_segment(base_offset, modified_ms)
        for batch, header in batches:
            self._take(segment, batch, header, modified_ms)
            completed = apply_stored(self._producers, described(batch, header))
            if completed is not None:
                self._index_completed(completed)
        self._segments.add(segment)
        self._log_end_offset = segment.next_offset
        self._snapshots.take(self._log_end_offset, self._producers.to_snapshot())

    def finish_loading(
        self, *, recovery_point: int, cleaned_until: int | None, was_clean: bool, now_ms: int
    ) -> bool:
        """All segments are here.

        Args:
            recovery_point: All below is on disk for certain.
            cleaned_until: How far compaction has come; None before its first round.
            was_clean: The broker had stopped in order.
            now_ms: The cluster's time: producers may have expired.

        Returns:
            Whether anything is left: a log that ends below its own start is emptied.
        """
        wanted = self._log_start_offset
        end = self._log_end_offset = self._segments.active.next_offset
        is_kept = end >= wanted
        if not is_kept:
            self.restart_at(wanted, now_ms=now_ms)
            end = wanted
        self._recovery_point = end if was_clean and is_kept else min(recovery_point, end)
        self._cleaned_until = cleaned_until
        self._epochs.truncate_to(end)
        self._epochs.drop_before(wanted)
        self._log_start_offset = max(wanted, self._segments.first_base_offset)
        self._high_watermark = self._log_start_offset
        self._snapshots.drop_stray([segment.base_offset for segment in self._segments])
        if self._snapshots.newest is None and was_clean:
            # Kafka takes it for a log of a time before there were snapshots, and reads nothing.
            self._producers = ProducerState()
        else:
            self._reload_producers(now_ms)
        return is_kept

    def _take(self, segment: Segment, batch: bytes, header: BatchHeader, modified_ms: int) -> None:
        segment.append(
            batch,
            header.base_offset,
            header.last_offset,
            max_timestamp=header.max_timestamp_ms,
            now_ms=modified_ms,
        )
        if header.leader_epoch > self._epochs.latest:
            self._epochs.assign(header.leader_epoch, header.base_offset)
