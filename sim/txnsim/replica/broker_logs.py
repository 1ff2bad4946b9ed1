"""A broker's disk: its logs and its notes about them. It outlives the broker.

A broker that starts again gets the logs of the one before, and the last checkpoints of their high
watermarks and log starts. Kafka's counterparts: LogManager, the checkpoint files of a log
directory.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterable, Iterator

import msgspec

from txnsim.log.config import LogConfig
from txnsim.log.local_log import Allowance
from txnsim.log.partition_log import PartitionLog
from txnsim.metadata.configs import log_config
from txnsim.metadata.image import ClusterImage, TopicImage
from txnsim.releases.rules import Rules
from txnsim.settings import Settings
from txnsim.types import BrokerId, TopicPartition
from txnsim.wire.codec import at_once

LogKey = tuple[uuid.UUID, int]
"""(topic id, partition): a topic that is deleted and created again has other logs."""


class BrokerLogs(msgspec.Struct, eq=False):
    """The logs of one broker."""

    settings: Settings
    rules: Rules
    """Rules of the release that runs on this disk."""
    allowance: Allowance | None = None
    """What all logs of the cluster may write until their sizes are looked at."""
    _logs: dict[LogKey, PartitionLog] = {}
    _high_watermarks: dict[LogKey, int] = {}
    _log_starts: dict[LogKey, int] = {}
    """Log starts, of logs that start behind the beginning of their first segment."""
    is_full: bool = False
    """There is no room: the next write fails, and the directory with it."""
    has_failed: bool = False
    """The log directory is offline; only a broker that starts anew brings it back, as in Kafka
    (LogDirFailureChannel).
    """

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(self._logs.values())

    def replicas(self) -> Iterator[tuple[uuid.UUID, PartitionLog]]:
        """(topic id, log) of everything that is stored."""
        return ((topic_id, log) for (topic_id, _), log in self._logs.items())

    def log(self, topic: TopicImage, partition: int, config: LogConfig) -> PartitionLog:
        """The log of a replica, made at first sight."""
        key = (topic.topic_id, partition)
        log = self._logs.get(key)
        if log is None:
            log = self._logs[key] = PartitionLog(
                topic_partition=TopicPartition(topic.name, partition),
                config=config,
                leader_epoch=-1,
            )
            log.allowance = self.allowance
        return log

    def config_of(self, image: ClusterImage, topic: TopicImage, broker_id: BrokerId) -> LogConfig:
        """The config of a topic's logs."""
        return log_config(image, topic, self.settings, broker_id, rules=self.rules)

    def adopt(self, topic_id: uuid.UUID, log: PartitionLog, *, high_watermark: int) -> None:
        """Take over a log that was on the disk before, with the checkpoints of its start and its
        high watermark.
        """
        key = (topic_id, log.topic_partition.partition)
        log.allowance = self.allowance
        self._logs[key] = log
        self._high_watermarks[key] = high_watermark
        self._log_starts[key] = log.log_start_offset

    def configure(self, topic: TopicImage, config: LogConfig) -> Generator[int, None, None]:
        """Bring the configs of the topic's logs up to date; yields after each."""
        for partition in range(len(topic.partitions)):
            log = self._logs.get((topic.topic_id, partition))
            if log is not None:
                log.config = config
                yield 1

    def forget(self, topic: TopicImage) -> Generator[int, None, None]:
        """The topic was deleted; yields after each replica that is gone."""
        yield from self._forget(topic, range(len(topic.partitions)))

    def forget_replicas(self, topic: TopicImage, partitions: Iterable[int]) -> None:
        """The replicas are at other brokers now, or gone. The delete also notes the log starts of
        the other replicas here, once (LogManager.asyncDelete).
        """
        for _ in self._forget(topic, partitions):
            pass

    def _forget(self, topic: TopicImage, partitions: Iterable[int]) -> Generator[int, None, None]:
        had_any = False
        for partition in partitions:
            key = topic.topic_id, partition
            self._high_watermarks.pop(key, None)
            if self._logs.pop(key, None) is not None:
                had_any = True
                yield 1
        if had_any and not self.has_failed:
            self.note_log_starts()

    # Stops and starts

    def checkpoint(self, is_over: Callable[[], bool] = lambda: False) -> Generator[int, None, None]:
        """Note the high watermarks (ReplicaManager.checkpointHighWatermarks); yields after each,
        and ends when the broker has stopped in a break.
        """
        for key, log in tuple(self._logs.items()):
            if is_over():
                return
            if key in self._logs:
                self._high_watermarks[key] = log.high_watermark
            yield 1

    def note_log_starts(self) -> None:
        """Note where logs start that don't start with their first segment
        (LogManager.checkpointLogStartOffsetsInDir).
        """
        self._log_starts = {
            key: log.log_start_offset
            for key, log in self._logs.items()
            if log.log_start_offset > log.local.segments.first_base_offset
        }

    def close(self) -> None:
        """The broker stops in good order: everything is on disk and noted, unless the directory has
        failed.
        """
        if self.has_failed:
            return
        at_once(self.checkpoint())
        self.note_log_starts()
        for log in self._logs.values():
            log.local.flush()

    def lose_unflushed(self, *, now_ms: int) -> list[PartitionLog]:
        """The machine broke down: drop unflushed records, return the logs that lost some."""
        losers = [
            log for log in self._logs.values() if log.local.recovery_point < log.log_end_offset
        ]
        for log in self._logs.values():
            log.truncate_to(log.local.recovery_point, now_ms=now_ms)
        return losers

    def reopen(self, image: ClusterImage, broker_id: BrokerId, *, now_ms: int) -> None:
        """A broker starts on this disk: delete logs of replicas that are gone, and take high
        watermarks and log starts from the checkpoints.
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
    """Whether a broker has a replica of the partition (LogManager.isStrayReplica)."""
    topic_id, index = key
    topic = image.topic_by_id(topic_id)
    if topic is None or index >= len(topic.partitions):
        return False
    return broker_id in topic.partitions[index].replicas
