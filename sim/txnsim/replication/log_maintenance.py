"""Deletes old segments of a broker's logs, and cleans compacted topics.

Three timers run on the cluster clock, so that advancing the clock shows the work of a day. One
looks for old segments of logs without compaction. One looks for compacted logs that have become
dirty, and deletes their old segments, too. The third notes the start offsets of logs. A round of
cleaning pauses again and again, so that requests never wait long for it.
``txnsim.log.partition_log`` and ``txnsim.log.cleaner`` decide what is deleted and cleaned. Kafka's
counterparts: LogManager.cleanupLogs and checkpointLogStartOffsets, LogCleaner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Final

import msgspec

from txnsim.errors import CorruptBatchError, MissingExtraError
from txnsim.log.cleaner import (
    CompressedRecords,
    DirtyPart,
    clean,
    dirty_part_of,
    measure_dirty_part,
)
from txnsim.log.partition_log import PartitionLog
from txnsim.loggers import Logger
from txnsim.node.broker_fault_points import TimerGate, run_when_due
from txnsim.node.log_events import LogEvents
from txnsim.runtime.environment import Clock, Tasks, TimerHandle
from txnsim.runtime.loop_turns import Pace
from txnsim.runtime.tasks import ignore_end
from txnsim.settings import Settings
from txnsim.types import TopicPartition

_logger: Final = Logger("txnsim.replication")

DEVIATIONS: Final = (
    "Between two looks for logs to clean the cleaner waits for at least 10 ms, however small "
    "log.cleaner.backoff.ms is: it has no thread of its own.",
)
SHORTEST_PAUSE_MS: Final = 10
"""Least time between two looks for logs to clean. A timer of 0 ms would always be due: the loop
would do nothing else, and an advance of the clock would never end.
"""


class LogMaintenance(msgspec.Struct, kw_only=True, eq=False):
    """Background work of one broker on its logs."""

    gate: TimerGate = run_when_due
    log_events: LogEvents
    clock: Clock
    tasks: Tasks
    settings: Callable[[], Settings]
    hosted: Mapping[TopicPartition, PartitionLog]
    _uncleanable: set[PartitionLog] = msgspec.field(default_factory=set)
    """Logs with a batch that can't be read (LogCleanerManager.markPartitionUncleanable)."""
    note_log_starts: Callable[[], object]
    _retention_timer: TimerHandle | None = None
    _log_starts_timer: TimerHandle | None = None
    _cleaner_timer: TimerHandle | None = None
    _cleaning_task: asyncio.Task[None] | None = None
    _is_stopped: bool = False

    # Life

    def start(self) -> None:
        self._arm_retention(self.settings().log_initial_task_delay_ms)
        self._arm_log_starts_timer(self.settings().log_initial_task_delay_ms)
        if self.settings().log_cleaner_enable:
            self._arm_cleaner()

    def stop(self) -> None:
        """Stop the timers and a round of cleaning that is under way."""
        self._is_stopped = True
        for timer in (self._retention_timer, self._log_starts_timer, self._cleaner_timer):
            if timer is not None:
                timer.cancel()
        if self._cleaning_task is not None:
            self._cleaning_task.cancel()

    @property
    def uncleanable_count(self) -> int:
        """Number of logs that can't be cleaned (Kafka's metric uncleanable-partitions-count)."""
        return len(self._uncleanable)

    # At once, without waiting for a timer

    def roll_segment_now(self, topic_partition: TopicPartition) -> None:
        """Close the active segment of a log; do nothing if this broker does not host it."""
        log = self.hosted.get(topic_partition)
        if log is not None:
            log.roll(self.clock.now_ms())

    def delete_old_segments_now(self, topic_partition: TopicPartition) -> None:
        """Delete the segments of a log whose retention is over."""
        log = self.hosted.get(topic_partition)
        if log is not None:
            self._delete_segments([log])

    def clean_now(self, topic_partition: TopicPartition) -> None:
        """Clean a compacted log, even if little of it is dirty.

        Raises:
            CorruptBatchError: A batch can't be read.
            MissingExtraError: Its codec needs a library that is not installed.
        """
        log = self.hosted.get(topic_partition)
        if log is None or not log.config.is_compacted or len(log.local.segments) == 1:
            return
        now_ms = self.clock.now_ms()
        for _ in clean(log, measure_dirty_part(log, now_ms), now_ms):
            pass  # in one go: the caller waits for it

    def clean_soon(self) -> None:
        """Look now for compacted logs that are dirty enough, instead of when the timer fires."""
        if self._cleaner_timer is not None and self._cleaning_task is None:
            self._cleaner_timer.cancel()
            self.gate("cleaner", self._look_for_dirt, self._arm_cleaner)

    # Retention

    def _arm_retention(self, delay_ms: int) -> None:
        self._retention_timer = self.clock.call_at(
            self.clock.now_ms() + delay_ms,
            lambda: self.gate("retention", self._delete_old_segments, self._arm_next_retention),
        )

    def _arm_next_retention(self) -> None:
        self._arm_retention(self.settings().log_retention_check_interval_ms)

    def _delete_old_segments(self) -> None:
        self._arm_next_retention()
        logs = [log for log in self.hosted.values() if not log.config.is_compacted]
        steps = self._delete_segments_in_steps(
            logs, timer_ms=self.settings().log_retention_check_interval_ms
        )
        pace = Pace(self.tasks.turns, self.clock.stopwatch_ns)
        self.tasks.drive(pace.run(steps), ignore_end, name="retention")

    def _delete_segments(
        self, logs: Iterable[PartitionLog], *, timer_ms: int | None = None
    ) -> None:
        for _ in self._delete_segments_in_steps(logs, timer_ms=timer_ms):
            pass

    def _delete_segments_in_steps(
        self, logs: Iterable[PartitionLog], *, timer_ms: int | None
    ) -> Generator[int, None, None]:
        now_ms = self.clock.now_ms()
        for log in logs:
            if self._is_stopped or self.hosted.get(log.topic_partition) is not log:
                continue
            start_before = log.log_start_offset
            log.delete_old_segments(now_ms)
            if self.log_events.tracer.on and log.log_start_offset != start_before:
                if timer_ms is not None:
                    self.log_events.trace_timer("retention", timer_ms)
                self.log_events.trace_start(log, "retention")
            yield 1

    # Starts of logs

    def _arm_log_starts_timer(self, delay_ms: int) -> None:
        self._log_starts_timer = self.clock.call_at(
            self.clock.now_ms() + delay_ms, self._note_log_starts_and_rearm
        )

    def _note_log_starts_and_rearm(self) -> None:
        interval_ms = self.settings().log_flush_start_offset_checkpoint_interval_ms
        if interval_ms:  # without one it is done once, as KafkaScheduler does it
            self._arm_log_starts_timer(interval_ms)
        self.note_log_starts()

    # Cleaning

    def _arm_cleaner(self) -> None:
        pause_ms = max(self.settings().log_cleaner_backoff_ms, SHORTEST_PAUSE_MS)
        self._cleaner_timer = self.clock.call_at(
            self.clock.now_ms() + pause_ms,
            lambda: self.gate("cleaner", self._look_for_dirt, self._arm_cleaner),
        )

    def _look_for_dirt(self) -> None:
        self._uncleanable.intersection_update(self.hosted.values())
        if self._dirtiest_log() is None:
            self._delete_segments(
                self._compacted_logs(), timer_ms=self.settings().log_cleaner_backoff_ms
            )
            self._arm_cleaner()
        else:
            self._cleaning_task = self.tasks.spawn(self._clean_dirty_logs(), name="log cleaner")

    async def _clean_dirty_logs(self) -> None:
        """Clean logs until none is dirty enough any more (LogCleaner.CleanerThread.doWork)."""
        while (dirtiest_log_and_part := self._dirtiest_log()) is not None:
            log, dirty_part = dirtiest_log_and_part
            try:
                for compressed_records in clean(log, dirty_part, self.clock.now_ms()):
                    if compressed_records is None:
                        await asyncio.sleep(0)
                    else:
                        await self._decompress_beside_loop(compressed_records)
                    if self.hosted.get(log.topic_partition) is not log:
                        break
            except (CorruptBatchError, MissingExtraError) as error:
                self._uncleanable.add(log)
                partition_name = str(log.topic_partition)
                _logger.warning("log.uncleanable", partition=partition_name, reason=str(error))
            self._delete_segments(
                self._compacted_logs(), timer_ms=self.settings().log_cleaner_backoff_ms
            )
            await asyncio.sleep(0)
            if log.local.cleaned_until == dirty_part.first_dirty_offset:
                break  # its memory has room for no key: the next try comes after a pause
        self._cleaning_task = None
        self._arm_cleaner()

    async def _decompress_beside_loop(self, compressed_records: CompressedRecords[Any]) -> None:
        unpacker = self.tasks.unpacker
        await unpacker.enter()
        try:
            await unpacker.do(compressed_records.compress_in_advance)
        finally:
            unpacker.leave()

    def _dirtiest_log(self) -> tuple[PartitionLog, DirtyPart] | None:
        """The log with the highest ratio of dirty records, among those that are due; None if none
        is.
        """
        now_ms = self.clock.now_ms()
        dirtiest_log_and_part: tuple[PartitionLog, DirtyPart] | None = None
        for log in self._compacted_logs():
            if len(log.local.segments) == 1 or log in self._uncleanable:
                continue
            dirty_part = dirty_part_of(log, now_ms)
            if dirty_part is not None and (
                dirtiest_log_and_part is None or dirty_part.ratio > dirtiest_log_and_part[1].ratio
            ):
                dirtiest_log_and_part = (log, dirty_part)
        return dirtiest_log_and_part

    def _compacted_logs(self) -> Iterable[PartitionLog]:
        return [log for log in self.hosted.values() if log.config.is_compacted]
