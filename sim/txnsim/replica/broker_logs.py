"""A broker's disk: its logs and its checkpoints. It outlives the broker.

A broker that restarts gets the logs from before, and the last checkpoints of their high watermarks
and log starts. Kafka's counterparts: LogManager, the checkpoint files of a log directory.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterable, Iterator

import msgspec

from txnsim.log.config import LogConfig
from txnsim.log.local_log import WriteAllowance
from txnsim.log.partition_log import PartitionLog
from txnsim.metadata.configs import log_config
from txnsim.metadata.image import ClusterImage, TopicImage
from txnsim.releases.rules import Rules
from txnsim.settings import Settings
from txnsim.types import BrokerId, TopicPartition
from txnsim.wire.codec import run_to_end

LogKey = tuple[uuid.UUID, int]
"""(topic id, partition): a topic that is deleted and created again has different logs."""


class BrokerLogs(msgspec.Struct, eq=False):
    """The logs that a broker keeps over restarts, and its checkpoints (LogManager)."""

    settings: Settings
    rules: Rules
    """Rules of the release that runs on this disk."""
    allowance: WriteAllowance | None = None
    """Bytes that all logs of the cluster may write until their size is checked."""
    _logs: dict[LogKey, PartitionLog] = {}
    _high_watermarks: dict[LogKey, int] = {}
    _log_starts: dict[LogKey, int] = {}
    """Checkpointed log starts, of logs that do not start with their first segment."""
    is_full: bool = False
    """Whether the disk is full: the next write fails and takes the log directory offline."""
    has_failed: bool = False
    """Whether the log directory is offline; only a restart of the broker brings it back, as in
    Kafka (LogDirFailureChannel).
    """

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(self._logs.values())

    def replicas(self) -> Iterator[tuple[uuid.UUID, PartitionLog]]:
        """(topic id, log) of each stored log."""
        return ((topic_id, log) for (topic_id, _), log in self._logs.items())

    def log(self, topic: TopicImage, partition_index: int, config: LogConfig) -> PartitionLog:
        """The log of a replica; it is created if it does not exist."""
        key = (topic.topic_id, partition_index)
        log = self._logs.get(key)
        if log is None:
            log = self._logs[key] = PartitionLog(
                topic_partition=TopicPartition(topic.name, partition_index),
                config=config,
                leader_epoch=-1,
            )
            log.allowance = self.allowance
        return log

    def config_of(self, image: ClusterImage, topic: TopicImage, broker_id: BrokerId) -> LogConfig:
        return log_config(image, topic, self.settings, broker_id, release_rules=self.rules)

    def adopt_log(self, topic_id: uuid.UUID, log: PartitionLog, *, high_watermark: int) -> None:
        """Add a log that was read from a real disk, with checkpoints of its start and its high
        watermark.
        """
        key = (topic_id, log.topic_partition.partition)
        log.allowance = self.allowance
        self._logs[key] = log
        self._high_watermarks[key] = high_watermark
        self._log_starts[key] = log.log_start_offset

    def configure_topic(self, topic: TopicImage, config: LogConfig) -> Generator[int, None, None]:
        """Update the config of the topic's logs; yields after each."""
        for partition in range(len(topic.partitions)):
            log = self._logs.get((topic.topic_id, partition))
            if log is not None:
                log.config = config
                yield 1

    def delete_topic(self, topic: TopicImage) -> Generator[int, None, None]:
        """Delete all logs of a deleted topic; yields after each."""
        yield from self._delete_logs(topic, range(len(topic.partitions)))

    def delete_replicas(self, topic: TopicImage, partitions: Iterable[int]) -> None:
        """Delete the logs of partitions that this broker no longer hosts. This also checkpoints the
        log starts of the other logs, once (LogManager.asyncDelete).
        """
        for _ in self._delete_logs(topic, partitions):
            pass

    def _delete_logs(
        self, topic: TopicImage, partitions: Iterable[int]
    ) -> Generator[int, None, None]:
        had_logs = False
        for partition in partitions:
            key = topic.topic_id, partition
            self._high_watermarks.pop(key, None)
            if self._logs.pop(key, None) is not None:
                had_logs = True
                yield 1
        if had_logs and not self.has_failed:
            self.checkpoint_log_starts()

    # Stops and starts

    def checkpoint_high_watermarks(
        self, is_stopped: Callable[[], bool] = lambda: False
    ) -> Generator[int, None, None]:
        """Checkpoints the high watermarks (ReplicaManager.checkpointHighWatermarks); yields after
        each, and ends early if the broker has stopped meanwhile.
        """
        for key, log in tuple(self._logs.items()):
            if is_stopped():
                return
            if key in self._logs:
                self._high_watermarks[key] = log.high_watermark
            yield 1

    def checkpoint_log_starts(self) -> None:
        """Checkpoints the log starts, of logs that do not start with their first segment
        (LogManager.checkpointLogStartOffsetsInDir).
        """
        self._log_starts = {
            key: log.log_start_offset
            for key, log in self._logs.items()
            if log.log_start_offset > log.local.segments.first_base_offset
        }

    def close(self) -> None:
        """Checkpoints and flushes everything at a clean shutdown, unless the directory has
        failed.
        """
        if self.has_failed:
            return
        run_to_end(self.checkpoint_high_watermarks())
        self.checkpoint_log_starts()
        for log in self._logs.values():
            log.local.flush()

    def lose_unflushed(self, *, now_ms: int) -> list[PartitionLog]:
        """Drop unflushed records, as a crash of the machine does; returns the logs
        that lost some.
        """
        shortened_logs = [
            log for log in self._logs.values() if log.local.recovery_point < log.log_end_offset
        ]
        for log in self._logs.values():
            log.truncate_to(log.local.recovery_point, now_ms=now_ms)
        return shortened_logs

    def reopen(self, image: ClusterImage, broker_id: BrokerId, *, now_ms: int) -> None:
        """Open the logs at a broker's start: delete those of replicas that it no longer has, and
        take high watermarks and log starts from the checkpoints.
        """
        self.has_failed = False
        for key in [key for key in self._logs if not _has_replica(key, image, broker_id)]:
            del self._logs[key]
        for key, log in self._logs.items():
            log.reopen(
                self._high_watermarks.get(key, 0),
                log_start_offset=self._log_starts.get(key, 0),
                now_ms=now_ms,
            )


def _has_replica(key: LogKey, image: ClusterImage, broker_id: BrokerId) -> bool:
    """Whether the broker has a replica of the partition (LogManager.isStrayReplica)."""
    topic_id, partition_index = key
    topic = image.topic_by_id(topic_id)
    if topic is None or partition_index >= len(topic.partitions):
        return False
    return broker_id in topic.partitions[partition_index].replicas
