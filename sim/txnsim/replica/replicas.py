"""The partition replicas that one broker hosts, and whether it may serve them.

Each replica has its own log. This module works out what a new image means for the replicas: which
partitions the broker leads, which it follows, and from which broker. The broker acts on it. Kafka's
counterpart: the partition map of ReplicaManager.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.log.config import LogConfig
from txnsim.log.partition_log import PartitionLog
from txnsim.metadata.configs import TopicLookup
from txnsim.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.replica.partition import LeaderPartition, effective_min_isr
from txnsim.settings import DEFAULTS, Settings
from txnsim.types import INTERNAL_TOPICS, BrokerId, LeaderEpoch, TopicPartition

REPLICAS_PER_STEP: Final = 16
"""Number of replicas between two breaks."""
ELEMENTS_PER_REPLICA: Final = 8
"""Work of hosting one replica, in elements of a request."""
ELEMENTS_PER_TOPIC: Final = 8
"""Work of a topic in addition to its replicas, in elements of a request: there may be thousands of
topics with one partition each.
"""


class FollowedReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A partition to fetch from its leader."""

    topic_id: uuid.UUID
    log: PartitionLog
    leader: BrokerId
    leader_epoch: LeaderEpoch


class LeadershipChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What a new image means for one broker; the lists are filled replica by replica."""

    led_partitions: list[tuple[TopicPartition, LeaderEpoch]] = []
    """Partitions that the broker leads from now on, or leads in a new epoch."""
    lost_partitions: list[tuple[TopicPartition, LeaderEpoch]] = []
    """Partitions that the broker no longer leads, with the epoch of the new leader."""
    deleted_partitions: list[TopicPartition] = []
    """Partitions that the broker no longer hosts: the topic was deleted, or the replica has moved
    to another broker.
    """
    regrouped_partitions: list[LeaderPartition] = []
    """Led partitions with followers whose ISR, epoch or minimum ISR may have changed: the high
    watermark may move.
    """
    followed_replicas: list[FollowedReplica] = []
    """Partitions to fetch from now on, or from another leader, or in another epoch."""
    unfollowed_partitions: list[TopicPartition] = []
    """Partitions that are no longer fetched: led here, without a leader, or deleted."""


def changed_roles(
    old_image: ClusterImage, new_image: ClusterImage, broker_id: BrokerId
) -> tuple[TopicPartition, ...]:
    """Partitions that a broker leads or follows in a new leader epoch, or no longer hosts."""
    changed_partitions: dict[TopicPartition, None] = {}
    for topic_name in new_image.changed_topics(old_image):
        topic_before, topic_after = (
            old_image.topics.get(topic_name),
            new_image.topics.get(topic_name),
        )
        roles_before, roles_after = (
            _roles_of_broker(topic_before, broker_id),
            _roles_of_broker(topic_after, broker_id),
        )
        for partition_index in sorted({*roles_before, *roles_after}):
            if roles_before.get(partition_index) != roles_after.get(partition_index):
                changed_partitions[TopicPartition(topic_name, partition_index)] = None
    return tuple(changed_partitions)


def _roles_of_broker(
    topic: TopicImage | None, broker_id: BrokerId
) -> dict[int, tuple[uuid.UUID, BrokerId, LeaderEpoch]]:
    if topic is None:
        return {}
    return {
        partition_index: (topic.topic_id, partition.leader, partition.leader_epoch)
        for partition_index, partition in enumerate(topic.partitions)
        if broker_id in partition.replicas
    }


class Replicas(msgspec.Struct, kw_only=True, eq=False):
    """The replicas of one broker."""

    broker_id: BrokerId
    logs: BrokerLogs
    settings: Settings
    image: ClusterImage
    dynamic_settings: Settings = DEFAULTS
    """Settings with the image's dynamic configs applied; the owner keeps them current."""
    hosted: dict[TopicPartition, PartitionLog] = {}
    led: dict[TopicPartition, PartitionLog] = {}
    """The hosted logs that this broker leads."""
    replicated: dict[TopicPartition, LeaderPartition] = {}
    """The led partitions that have followers."""
    offline: set[TopicPartition] = msgspec.field(default_factory=set)
    """Hosted partitions that can't be served because the log directory has failed
    (HostedPartition.Offline).
    """
    _led_offline: set[TopicPartition] = msgspec.field(default_factory=set)
    """Offline partitions that this broker led, while no other broker leads them."""
    _followed: dict[TopicPartition, tuple[BrokerId, LeaderEpoch]] = {}

    # Lookups

    def leader_log(
        self,
        topic_partition: TopicPartition,
        *,
        current_leader_epoch: int = -1,
    ) -> PartitionLog | Rejection:
        """The log, if this broker leads the partition, else the error
        (ReplicaManager.getPartitionOrError, Partition.checkCurrentLeaderEpoch).
        """
        log = self.led.get(topic_partition)
        if log is None or current_leader_epoch >= 0:
            return self._checked_leader(topic_partition, current_leader_epoch)
        return log

    def replica_log(
        self, topic_partition: TopicPartition, *, current_leader_epoch: int = -1
    ) -> PartitionLog | Rejection:
        """The log, if this broker hosts a replica of the partition, else the error."""
        log = self.hosted.get(topic_partition)
        if log is not None:
            return self._epoch_mismatch(log, current_leader_epoch) or log
        if topic_partition in self.offline:
            return Rejection(
                error=ErrorCode.kafka_storage_error,
                reason=f"{topic_partition} is in an offline log directory",
                rule="produce.offline",
            )
        if self.image.partition(topic_partition) is not None:
            return Rejection(
                error=ErrorCode.not_leader_or_follower,
                reason=f"broker {self.broker_id} has no replica of {topic_partition}",
                rule="fetch.not-hosted",
            )
        return Rejection(
            error=ErrorCode.unknown_topic_or_partition,
            reason=f"{topic_partition} does not exist",
            rule="fetch.unknown-partition",
        )

    def replica_count(self, topic_partition: TopicPartition) -> int:
        """Number of replicas of a led partition."""
        leader_partition = self.replicated.get(topic_partition)
        return 1 if leader_partition is None else len(leader_partition.replicas)

    def too_few_in_sync(self, topic_partition: TopicPartition) -> Rejection | None:
        """The error for acks=-1 if too few replicas are in sync, else None."""
        leader_partition = self.replicated.get(topic_partition)
        if leader_partition is None or not leader_partition.is_under_min_isr:
            return None
        return Rejection(
            error=ErrorCode.not_enough_replicas,
            reason=f"{len(leader_partition.isr)} replicas in sync,"
            f" {leader_partition.min_isr} demanded",
            rule="produce.too-few-in-sync",
        )

    # Changes

    def apply(self, new_image: ClusterImage, *, now_ms: int) -> LeadershipChanges:
        """Apply a new image in one step."""
        steps = self.apply_in_steps(new_image, now_ms=now_ms)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                leadership_changes: LeadershipChanges = end.value
                return leadership_changes

    def apply_in_steps(
        self, new_image: ClusterImage, *, now_ms: int
    ) -> Generator[int, None, LeadershipChanges]:
        """Apply a new image: host, lead, follow and delete replicas as it says. The image is
        the current one at once; its replicas follow one after the other (as in
        BrokerMetadataPublisher.onMetadataUpdate).

        Args:
            new_image: The metadata.
            now_ms: Monotonic time: followers get ``replica.lag.time.max.ms`` from now on.

        Yields:
            Amount of work since the last step, in elements of a request.
        """
        old_image, self.image = self.image, new_image
        leadership_changes = LeadershipChanges()
        settings_by_key: dict[tuple[object, ...], tuple[LogConfig, int]] = {}
        changed_names = new_image.changed_topics(old_image)
        for topic_name in changed_names:
            old_topic, new_topic = (
                old_image.topics.get(topic_name),
                new_image.topics.get(topic_name),
            )
            if old_topic is not None and (
                new_topic is None or new_topic.topic_id != old_topic.topic_id
            ):
                yield from self._forget_topic(old_topic, leadership_changes)
                yield ELEMENTS_PER_TOPIC
        for topic_name in (
            changed_names
            if new_image.broker_configs is old_image.broker_configs
            else new_image.topics
        ):
            topic = new_image.topics.get(topic_name)
            if topic is None:
                continue
            # Computing a topic's configs takes 100 µs, and most topics have the same ones.
            settings_key = (topic.name in INTERNAL_TOPICS and topic.name, *topic.configs.items())
            topic_settings = settings_by_key.get(settings_key)
            if topic_settings is None:
                log_config = self.logs.config_of(new_image, topic, self.broker_id)
                topic_settings = settings_by_key[settings_key] = log_config, self._min_isr(topic)
            log_config, min_isr = topic_settings
            yield from self._host_topic(topic, log_config, min_isr, leadership_changes, now_ms)
            yield from self.logs.configure_topic(topic, log_config)
            yield ELEMENTS_PER_TOPIC
        if self.logs.has_failed:  # while this loop ran
            for withdrawn_changes in (
                leadership_changes.led_partitions,
                leadership_changes.followed_replicas,
                leadership_changes.regrouped_partitions,
            ):
                withdrawn_changes.clear()
        return leadership_changes

    def take_offline(self) -> tuple[TopicPartition, ...]:
        """Stops serving all replicas (ReplicaManager.handleLogDirFailure).

        Returns:
            The followed partitions, which are no longer fetched.
        """
        self.offline.update(self.hosted)
        self._led_offline.update(self.led)
        unfollowed_partitions = tuple(self._followed)
        for value_by_partition in (self.hosted, self.led, self.replicated, self._followed):
            value_by_partition.clear()
        return unfollowed_partitions

    # Parts

    def _min_isr(self, topic: TopicImage) -> int:
        topic_configs = TopicLookup(
            topic=topic.configs,
            image=self.image,
            settings=self.settings,
            broker_id=self.broker_id,
        )
        return int(topic_configs.text("min.insync.replicas"))

    def _host_topic(
        self,
        topic: TopicImage,
        log_config: LogConfig,
        min_isr: int,
        leadership_changes: LeadershipChanges,
        now_ms: int,
    ) -> Generator[int, None, None]:
        dropped_indexes: list[int] = []
        for partition_index, partition in enumerate(topic.partitions):
            if partition_index % REPLICAS_PER_STEP == REPLICAS_PER_STEP - 1:
                yield REPLICAS_PER_STEP * ELEMENTS_PER_REPLICA
            topic_partition = TopicPartition(topic.name, partition_index)
            if self.broker_id not in partition.replicas:
                if topic_partition in self.hosted or topic_partition in self.offline:
                    self._drop_replica(topic_partition, leadership_changes)
                    dropped_indexes.append(partition_index)
                continue
            if self.logs.has_failed:
                self._leave_offline(topic_partition, partition, leadership_changes)
                continue
            log = self.hosted.get(topic_partition)
            if log is None:
                log = self.hosted[topic_partition] = self.logs.log(
                    topic, partition_index, log_config
                )
            if partition.leader == self.broker_id:
                self._lead_partition(log, partition, leadership_changes)
                # Requests may still wait for the partition's former followers.
                has_high_min_isr = (
                    min_isr > 1 and effective_min_isr(min_isr, partition, log_config.rules) > 1
                )
                is_replicated = len(partition.replicas) > 1 or topic_partition in self.replicated
                if is_replicated or has_high_min_isr:
                    self._update_followers(
                        log, topic, partition, leadership_changes, min_isr=min_isr, now_ms=now_ms
                    )
                else:
                    log.advance_high_watermark(log.log_end_offset)
            else:
                self._follow_leader(log, topic, partition, leadership_changes)
        self.logs.delete_replicas(topic, dropped_indexes)

    def _leave_offline(
        self,
        topic_partition: TopicPartition,
        partition: PartitionImage,
        leadership_changes: LeadershipChanges,
    ) -> None:
        """Note an offline partition. If another broker leads it now, this one's leadership counts
        as lost: coordinators follow the metadata alone (BrokerMetadataPublisher).
        """
        self.offline.add(topic_partition)
        if partition.leader != self.broker_id and topic_partition in self._led_offline:
            self._led_offline.discard(topic_partition)
            leadership_changes.lost_partitions.append((topic_partition, partition.leader_epoch))

    def _lead_partition(
        self, log: PartitionLog, partition: PartitionImage, leadership_changes: LeadershipChanges
    ) -> None:
        topic_partition = log.topic_partition
        if topic_partition in self.led and log.leader_epoch == partition.leader_epoch:
            return
        if self._followed.pop(topic_partition, None) is not None:
            leadership_changes.unfollowed_partitions.append(topic_partition)
        self.led[topic_partition] = log
        log.become_leader(partition.leader_epoch)
        leadership_changes.led_partitions.append((topic_partition, partition.leader_epoch))

    def _update_followers(
        self,
        log: PartitionLog,
        topic: TopicImage,
        partition_image: PartitionImage,
        leadership_changes: LeadershipChanges,
        *,
        min_isr: int,
        now_ms: int,
    ) -> None:
        topic_partition = log.topic_partition
        leader_partition = self.replicated.get(topic_partition)
        if leader_partition is None:
            log.local.keep_tail()
            leader_partition = self.replicated[topic_partition] = LeaderPartition(
                leader=self.broker_id,
                log=log,
                topic_id=topic.topic_id,
                may_join=self._may_join_isr,
            )
        leader_partition.apply_image(partition_image, min_isr=min_isr, now_ms=now_ms)
        leadership_changes.regrouped_partitions.append(leader_partition)

    def _follow_leader(
        self,
        log: PartitionLog,
        topic: TopicImage,
        partition: PartitionImage,
        leadership_changes: LeadershipChanges,
    ) -> None:
        topic_partition = log.topic_partition
        if self.led.pop(topic_partition, None) is not None:
            self.replicated.pop(topic_partition, None)
            leadership_changes.lost_partitions.append((topic_partition, partition.leader_epoch))
        leader_and_epoch = (partition.leader, partition.leader_epoch)
        if self._followed.get(topic_partition) == leader_and_epoch:
            return
        log.become_follower(partition.leader_epoch)
        if partition.leader == NO_LEADER:
            if self._followed.pop(topic_partition, None) is not None:
                leadership_changes.unfollowed_partitions.append(topic_partition)
            return
        self._followed[topic_partition] = leader_and_epoch
        leadership_changes.followed_replicas.append(
            FollowedReplica(
                topic_id=topic.topic_id,
                log=log,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
            )
        )

    def _forget_topic(
        self, topic: TopicImage, leadership_changes: LeadershipChanges
    ) -> Generator[int, None, None]:
        for partition_index in range(len(topic.partitions)):
            if partition_index % REPLICAS_PER_STEP == REPLICAS_PER_STEP - 1:
                yield REPLICAS_PER_STEP
            self._drop_replica(TopicPartition(topic.name, partition_index), leadership_changes)
        yield from self.logs.delete_topic(topic)

    def _drop_replica(
        self, topic_partition: TopicPartition, leadership_changes: LeadershipChanges
    ) -> None:
        """Stops hosting the partition."""
        self.led.pop(topic_partition, None)
        self.replicated.pop(topic_partition, None)
        if self._followed.pop(topic_partition, None) is not None:
            leadership_changes.unfollowed_partitions.append(topic_partition)
        is_offline = topic_partition in self.offline
        self.offline.discard(topic_partition)
        self._led_offline.discard(topic_partition)
        if self.hosted.pop(topic_partition, None) is not None or is_offline:
            leadership_changes.deleted_partitions.append(topic_partition)

    def _may_join_isr(self, broker_id: BrokerId, broker_epoch: int) -> bool:
        """Whether the broker may join an ISR (Partition.isReplicaIsrEligible)."""
        if not self.image.is_active(broker_id):
            return False
        return broker_epoch in (-1, self.image.brokers[broker_id].epoch)

    def _checked_leader(
        self, topic_partition: TopicPartition, current_leader_epoch: int
    ) -> PartitionLog | Rejection:
        log = self.replica_log(topic_partition, current_leader_epoch=current_leader_epoch)
        if isinstance(log, Rejection) or topic_partition in self.led:
            return log
        return Rejection(
            error=ErrorCode.not_leader_or_follower,
            reason=f"broker {self.broker_id} does not lead {topic_partition}",
            rule="produce.not-leader",
        )

    def _epoch_mismatch(self, log: PartitionLog, current_leader_epoch: int) -> Rejection | None:
        """The error for another leader epoch, which is checked before leadership
        (Partition.checkCurrentLeaderEpoch); None if the epochs match.
        """
        if current_leader_epoch < 0 or current_leader_epoch == log.leader_epoch:
            return None
        if current_leader_epoch < log.leader_epoch:
            return Rejection(
                error=ErrorCode.fenced_leader_epoch,
                reason=f"leader epoch {current_leader_epoch} is below {log.leader_epoch}",
                rule="fetch.fenced-epoch",
            )
        return Rejection(
            error=ErrorCode.unknown_leader_epoch,
            reason=f"leader epoch {current_leader_epoch} is above {log.leader_epoch}",
            rule="fetch.unknown-epoch",
        )
