"""The partition replicas that one broker hosts, and whether it may serve them.

Replication in its first form: all replicas of a partition share one ``PartitionLog``
(``SharedLogs``), so the high watermark follows the log end at once and moving leadership hands the
log over. Everything else asks only this broker's ``Replicas``, so that a log of its own per replica
changes nothing above. Kafka's counterpart: the partition map of ReplicaManager.
"""

from __future__ import annotations

import uuid

import msgspec

from sim.cluster.configs import log_config, topic_text
from sim.cluster.image import ClusterImage, TopicImage
from sim.errors import ErrorCode, Rejection
from sim.log.partition_log import PartitionLog
from sim.settings import Settings
from sim.types import BrokerId, LeaderEpoch, TopicPartition

DEVIATIONS = (
    "Replicas of a partition share one log: followers never lag, the high watermark follows the "
    "log end at once, "
    "every replica is always in the ISR.",
)


class LeadershipChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What a new image means for one broker."""

    led: tuple[tuple[TopicPartition, LeaderEpoch], ...] = ()
    """Partitions led from now on, or led under a new epoch."""
    lost: tuple[tuple[TopicPartition, LeaderEpoch], ...] = ()
    """Partitions led until now, with the epoch of the new leader."""
    deleted: tuple[TopicPartition, ...] = ()


class SharedLogs:
    """One log per partition of the cluster, handed to every broker that has a replica."""

    __slots__ = ("_logs", "_settings")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._logs: dict[tuple[uuid.UUID, int], PartitionLog] = {}

    def log(self, image: ClusterImage, topic: TopicImage, partition: int) -> PartitionLog:
        """The partition's log, made at first sight, its config brought up to date."""
        key = (topic.topic_id, partition)
        log = self._logs.get(key)
        if log is None:
            log = PartitionLog(
                topic_partition=TopicPartition(topic.name, partition),
                config=log_config(image, topic, self._settings),
                leader_epoch=topic.partitions[partition].leader_epoch,
            )
            self._logs[key] = log
        return log

    def configure(self, image: ClusterImage, topic: TopicImage) -> None:
        """Bring the configs of the topic's logs up to date."""
        config = log_config(image, topic, self._settings)
        for partition in range(len(topic.partitions)):
            log = self._logs.get((topic.topic_id, partition))
            if log is not None:
                log.config = config

    def min_insync_replicas(self, image: ClusterImage, topic: str) -> int:
        """The topic's ``min.insync.replicas``."""
        value = topic_text(
            "min.insync.replicas",
            topic=image.topics[topic].configs,
            image=image,
            settings=self._settings,
        )
        return int(value)

    def forget(self, topic: TopicImage) -> None:
        """The topic was deleted."""
        for partition in range(len(topic.partitions)):
            self._logs.pop((topic.topic_id, partition), None)


class Replicas:
    """The replicas of one broker."""

    __slots__ = ("_broker_id", "_shared", "_under_replicated", "hosted", "image", "led")

    def __init__(self, *, broker_id: BrokerId, shared: SharedLogs, image: ClusterImage) -> None:
        self._broker_id = broker_id
        self._shared = shared
        self.image = image
        self._under_replicated: set[TopicPartition] = set()
        self.hosted: dict[TopicPartition, PartitionLog] = {}
        self.led: dict[TopicPartition, PartitionLog] = {}
        """The hosted logs that this broker leads."""

    # Lookups

    def leader(
        self,
        topic_partition: TopicPartition,
        *,
        current_leader_epoch: int = -1,
    ) -> PartitionLog | Rejection:
        """The log, if this broker leads the partition (ReplicaManager.getPartitionOrError,
        Partition.checkCurrentLeaderEpoch).
        """
        log = self.led.get(topic_partition)
        if log is None or current_leader_epoch >= 0:
            return self._checked_leader(topic_partition, current_leader_epoch)
        return log

    def replica(
        self, topic_partition: TopicPartition, *, current_leader_epoch: int = -1
    ) -> PartitionLog | Rejection:
        """The log, if this broker hosts any replica of the partition."""
        log = self.hosted.get(topic_partition)
        if log is not None:
            return self._epoch_mismatch(log, current_leader_epoch) or log
        if self.image.partition(topic_partition) is not None:
            return Rejection(
                error=ErrorCode.not_leader_or_follower,
                reason=f"broker {self._broker_id} has no replica of {topic_partition}",
            )
        return Rejection(
            error=ErrorCode.unknown_topic_or_partition,
            reason=f"{topic_partition} does not exist",
        )

    def too_few_in_sync(self, topic_partition: TopicPartition) -> Rejection | None:
        """A rejection where too few replicas are in sync for acks=-1; the demand is capped by the
        replication factor.
        """
        if topic_partition not in self._under_replicated:
            return None
        partition = self.image.partition(topic_partition)
        assert partition is not None
        demanded = self._shared.min_insync_replicas(self.image, topic_partition.topic)
        if len(partition.isr) >= min(demanded, len(partition.replicas)):
            return None
        return Rejection(
            error=ErrorCode.not_enough_replicas,
            reason=f"{len(partition.isr)} replicas in sync, {demanded} demanded",
        )

    # Changes

    def apply(self, new: ClusterImage) -> LeadershipChanges:
        """Take over a new image: host, lead and forget what it says."""
        old, self.image = self.image, new
        led: list[tuple[TopicPartition, LeaderEpoch]] = []
        lost: list[tuple[TopicPartition, LeaderEpoch]] = []
        deleted: list[TopicPartition] = []
        for name, topic in old.topics.items():
            current = new.topics.get(name)
            if current is None or current.topic_id != topic.topic_id:
                deleted.extend(self._forget(topic))
        for name, topic in new.topics.items():
            before = old.topics.get(name)
            if before is topic and new.broker_configs is old.broker_configs:
                continue
            self._shared.configure(new, topic)
            self._host(topic, led, lost)
        return LeadershipChanges(led=tuple(led), lost=tuple(lost), deleted=tuple(deleted))

    # Parts

    def _host(
        self,
        topic: TopicImage,
        led: list[tuple[TopicPartition, LeaderEpoch]],
        lost: list[tuple[TopicPartition, LeaderEpoch]],
    ) -> None:
        for index, partition in enumerate(topic.partitions):
            topic_partition = TopicPartition(topic.name, index)
            if self._broker_id not in partition.replicas:
                continue
            log = self._shared.log(self.image, topic, index)
            self.hosted[topic_partition] = log
            if len(partition.isr) < len(partition.replicas):
                self._under_replicated.add(topic_partition)
            else:
                self._under_replicated.discard(topic_partition)
            if partition.leader == self._broker_id:
                if topic_partition in self.led and log.leader_epoch == partition.leader_epoch:
                    continue
                self.led[topic_partition] = log
                log.become_leader(partition.leader_epoch)
                led.append((topic_partition, partition.leader_epoch))
            elif self.led.pop(topic_partition, None) is not None:
                lost.append((topic_partition, partition.leader_epoch))

    def _forget(self, topic: TopicImage) -> list[TopicPartition]:
        deleted = []
        for index in range(len(topic.partitions)):
            topic_partition = TopicPartition(topic.name, index)
            self.led.pop(topic_partition, None)
            self._under_replicated.discard(topic_partition)
            if self.hosted.pop(topic_partition, None) is not None:
                deleted.append(topic_partition)
        self._shared.forget(topic)
        return deleted

    def _checked_leader(
        self, topic_partition: TopicPartition, current_leader_epoch: int
    ) -> PartitionLog | Rejection:
        log = self.replica(topic_partition, current_leader_epoch=current_leader_epoch)
        if isinstance(log, Rejection) or topic_partition in self.led:
            return log
        return Rejection(
            error=ErrorCode.not_leader_or_follower,
            reason=f"broker {self._broker_id} does not lead {topic_partition}",
        )

    def _epoch_mismatch(self, log: PartitionLog, current_leader_epoch: int) -> Rejection | None:
        """Judged before leadership is (Partition.checkCurrentLeaderEpoch)."""
        if current_leader_epoch < 0 or current_leader_epoch == log.leader_epoch:
            return None
        if current_leader_epoch < log.leader_epoch:
            return Rejection(
                error=ErrorCode.fenced_leader_epoch,
                reason=f"leader epoch {current_leader_epoch} is below {log.leader_epoch}",
            )
        return Rejection(
            error=ErrorCode.unknown_leader_epoch,
            reason=f"leader epoch {current_leader_epoch} is above {log.leader_epoch}",
        )
