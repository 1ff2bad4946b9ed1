"""A cluster loaded from the disks of stopped brokers: the metadata, and the logs of every broker.

It is as if every machine of the cluster had been started again at once: leaders are elected under
the next epoch, and each broker recovers its logs (``storage.replica_loading``). If the disks have
the metadata log, it tells which broker has which replica and who is in sync; without one, as with
ZooKeeper, the folders have to tell it. Kafka's counterparts: LogManager.loadLogs, the controller's
first steps.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.controller.controller import internal_topic
from txnsim.errors import ConfigError
from txnsim.log.partition_log import PartitionLog
from txnsim.metadata.configs import log_config
from txnsim.metadata.image import (
    KRAFT_VERSION,
    NO_LEADER,
    TRANSACTION_VERSION,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from txnsim.releases import Fleet
from txnsim.releases.rules import LATEST_RULES
from txnsim.settings import Settings
from txnsim.storage.disks import Disks, StoredFolder
from txnsim.storage.replica_loading import DataLoss, load_replica
from txnsim.txn.log_reader import read_log
from txnsim.txn.producer_ids import BLOCK_LENGTH
from txnsim.types import (
    INTERNAL_TOPICS,
    STORED_NUMBER_MAX,
    TRANSACTION_STATE_TOPIC,
    BrokerId,
    LeaderEpoch,
    ProducerId,
    TopicPartition,
)

DEVIATIONS: Final = (
    "`serve --load`: all brokers start at once and are in sync as the metadata log says, those that"
    " had been killed, too; Apache Kafka takes these out of the ISR until they have caught up.",
    "`serve --load`: replicas on brokers whose directories are not given are left out, as if they"
    " had been reassigned.",
    "`serve --load`: users, ACLs, quotas and delegation tokens of the metadata log are not taken"
    " over.",
)


class LoadedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """State to start a cluster with; usable only once, because the cluster writes to the logs."""

    image: ClusterImage
    """The metadata without brokers: they have other addresses now."""
    logs: Mapping[BrokerId, tuple[LoadedReplicaLog, ...]]
    first_producer_id: ProducerId
    size: int
    """Bytes of the segments that were read."""
    losses: tuple[DataLoss, ...]
    """Data that the brokers have thrown away during recovery."""
    left_out: tuple[str, ...]
    """Folders that no broker serves, or that are missing or unreadable, with reasons."""

    @property
    def lacks_coordinators(self) -> bool:
        """Whether transactions are open, but there is no transaction state topic."""
        return TRANSACTION_STATE_TOPIC not in self.image.topics and any(
            replica.log.producers.state.first_undecided_offset() is not None
            for broker_logs in self.logs.values()
            for replica in broker_logs
        )


def load_cluster(
    disks: Disks,
    *,
    settings: Settings,
    fleet: Fleet,
    now_ms: int,
    on_replica: Callable[[StoredFolder], object] = lambda _: None,
) -> LoadedCluster:
    """Load metadata and all logs.

    Args:
        disks: The disks; topics of the metadata log without any folder are left out.
        settings: Settings of the cluster, where neither a topic config nor a dynamic config
            overrides them.
        fleet: The release of each broker.
        now_ms: The cluster's time.
        on_replica: Called with each folder before it is read.

    Raises:
        ConfigError: A partition can't be led by any of these brokers, or a file has an old format.
        OSError: A file can't be read.
    """
    image = image_of_disks(disks, settings=settings, fleet=fleet)
    left_out_folders = list(disks.passed_by)
    losses: list[DataLoss] = []
    logs_by_broker: dict[BrokerId, dict[TopicPartition, LoadedReplicaLog]] = {
        disk_broker_id: {} for disk_broker_id in disks.folders
    }
    for broker_id, folder in disks.all_folders():
        topic_partition = folder.replica.topic_partition
        topic = image.topics.get(topic_partition.topic)
        stray_reason = _stray_reason(folder, topic, broker_id)
        if topic is None or stray_reason:
            left_out_folders.append(f"{folder.replica.path}: {stray_reason}")
            continue
        on_replica(folder)
        loaded_log = load_replica(
            folder.replica,
            config=log_config(
                image, topic, settings, broker_id, release_rules=fleet.release_of(broker_id).rules
            ),
            checkpointed_offsets=folder.checkpointed,
            was_clean=folder.was_clean,
            now_ms=now_ms,
        )
        losses += loaded_log.losses
        logs_by_broker[broker_id][topic_partition] = LoadedReplicaLog(
            topic_id=topic.topic_id, log=loaded_log.log, high_watermark=folder.high_watermark
        )
    return LoadedCluster(
        image=with_new_leaders(image, logs_by_broker, knows_isr=disks.metadata is not None),
        logs={
            broker_id: tuple(log_by_partition.values())
            for broker_id, log_by_partition in logs_by_broker.items()
        },
        first_producer_id=_first_producer_id(disks, logs_by_broker),
        size=disks.size_bytes,
        losses=tuple(losses),
        left_out=tuple(left_out_folders),
    )


def _stray_reason(folder: StoredFolder, topic: TopicImage | None, broker_id: BrokerId) -> str:
    """Why a broker would not serve that folder (LogManager.isStrayReplica); empty if it would."""
    partition = folder.replica.topic_partition.partition
    if topic is None:
        return "there is no such topic"
    if folder.topic_id is not None and folder.topic_id != topic.topic_id:
        return f"it is of an older topic of that name, whose id was {folder.topic_id}"
    if partition >= len(topic.partitions):
        return f"the topic has {len(topic.partitions)} partitions"
    if broker_id not in topic.partitions[partition].replicas:
        return f"broker {broker_id} has no replica of it any more"
    return ""


# Producer ids


def _first_producer_id(disks: Disks, logs_by_broker: Logs) -> ProducerId:
    """The first free producer id: the controller's, or the start of the block after all ids
    seen. Ids that no controller can have given out count for nothing: a client may write any.
    """
    stored_next_id = 0 if disks.metadata is None else disks.metadata.next_producer_id
    highest_id = max(
        (
            producer_id
            for producer_id in _seen_producer_ids(
                stored_replica.log
                for log_by_partition in logs_by_broker.values()
                for stored_replica in log_by_partition.values()
            )
            if producer_id <= STORED_NUMBER_MAX
        ),
        default=-1,
    )
    if highest_id < stored_next_id:
        return ProducerId(stored_next_id)
    return ProducerId((highest_id // BLOCK_LENGTH + 1) * BLOCK_LENGTH)


def _seen_producer_ids(logs: Iterable[PartitionLog]) -> Iterator[int]:
    for log in logs:
        yield from (producer.producer_id for producer in log.producers.all_producers())
        if log.topic_partition.topic == TRANSACTION_STATE_TOPIC:
            for txn_entry in read_log(log.batches(), release_rules=LATEST_RULES).entries.values():
                yield max(txn_entry.producer_id, txn_entry.next_producer_id)


# The metadata by the disks (pure functions)


class LoadedReplicaLog(msgspec.Struct, frozen=True, kw_only=True):
    """A replica on a broker's disk."""

    topic_id: uuid.UUID
    log: PartitionLog
    high_watermark: int
    """The last checkpointed high watermark."""


Logs = Mapping[BrokerId, Mapping[TopicPartition, LoadedReplicaLog]]
"""The loaded logs of each broker."""


def image_of_disks(disks: Disks, *, settings: Settings, fleet: Fleet) -> ClusterImage:
    """The metadata on the disks, with only the replicas whose brokers are among them.

    Raises:
        ConfigError: No broker could lead a partition, or a broker's release does not know a level
            of a feature.
    """
    if disks.metadata is None:
        return _image_from_folders(disks, settings=settings, fleet=fleet)
    image = disks.metadata.image
    for broker_id in disks.folders:
        complaint = fleet.complaint(fleet.release_of(broker_id), image.features)
        if complaint is not None:
            raise ConfigError(f"broker {broker_id}: {complaint}")
    topics_on_disks = {folder.replica.topic_partition.topic for _, folder in disks.all_folders()}
    topics = {
        topic_name: msgspec.structs.replace(
            topic,
            partitions=tuple(
                _without_absent_brokers(
                    partition, frozenset(disks.folders), TopicPartition(topic_name, partition_index)
                )
                for partition_index, partition in enumerate(topic.partitions)
            ),
        )
        for topic_name, topic in image.topics.items()
        if topic_name in topics_on_disks
    }
    return msgspec.structs.replace(
        image,
        topics=topics,
        topic_names={topic.topic_id: topic_name for topic_name, topic in topics.items()},
        # A feature at level 0 has no record in the log.
        features={**dict.fromkeys(fleet.new_cluster_levels(disks.folders), 0), **image.features},
    )


def _without_absent_brokers(
    partition: PartitionImage, present_ids: frozenset[BrokerId], topic_partition: TopicPartition
) -> PartitionImage:

    def present_among(ids: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        return tuple(broker_id for broker_id in ids if broker_id in present_ids)

    if not present_among(partition.isr) and not present_among(partition.elr):
        candidate_ids = partition.isr or partition.elr or partition.last_known_elr
        raise ConfigError(
            f"{topic_partition}: no directory of a broker that was in sync "
            f"({', '.join(map(str, candidate_ids))}) is among those to load; without one it is not"
            " known what was committed. Give it, too, or load other topics only (--load-topic)"
        )
    return msgspec.structs.replace(
        partition,
        replicas=present_among(partition.replicas),
        isr=present_among(partition.isr),
        elr=present_among(partition.elr),
        last_known_elr=present_among(partition.last_known_elr),
        removing=present_among(partition.removing),
        adding=present_among(partition.adding),
    )


def _image_from_folders(disks: Disks, *, settings: Settings, fleet: Fleet) -> ClusterImage:
    """Metadata made from the folders of topics; without leaders."""
    replicas: dict[str, dict[int, list[BrokerId]]] = {}
    id_by_topic: dict[str, uuid.UUID] = {}
    for broker_id, folder in disks.all_folders():
        topic_partition = folder.replica.topic_partition
        replicas.setdefault(topic_partition.topic, {}).setdefault(
            topic_partition.partition, []
        ).append(broker_id)
        if folder.topic_id is not None:
            topic_id = id_by_topic.setdefault(topic_partition.topic, folder.topic_id)
            if topic_id != folder.topic_id:
                raise ConfigError(
                    f"{folder.replica.path}: topic {topic_partition.topic} has the id "
                    f"{folder.topic_id} here "
                    f"and {topic_id} elsewhere; only a metadata log could tell which one is there"
                )
    image = ClusterImage(cluster_id=disks.cluster_id)
    chosen_levels = {TRANSACTION_VERSION: settings.transaction_version, KRAFT_VERSION: 0}
    for name, level in fleet.new_cluster_levels(disks.folders).items():
        image = image.with_feature(name, min(level, chosen_levels.get(name, level)))
    for name, replicas_by_partition in sorted(replicas.items()):
        internal_spec = internal_topic(
            name, image=image, settings=settings, broker_count=len(disks.folders)
        )
        image = image.with_topic(
            TopicImage(
                name=name,
                # Without a stored id, the same id at every load.
                topic_id=id_by_topic.get(name) or uuid.uuid5(uuid.NAMESPACE_OID, name),
                partitions=_leaderless_partitions(name, replicas_by_partition),
                configs={
                    config_name: config_value
                    for config_name, config_value in internal_spec.configs.items()
                    if config_value is not None
                },
                is_internal=name in INTERNAL_TOPICS,
            )
        )
    return image


def _leaderless_partitions(
    topic: str, replicas: Mapping[int, Sequence[BrokerId]]
) -> tuple[PartitionImage, ...]:
    missing_indexes = set(range(max(replicas) + 1)) - set(replicas)
    if missing_indexes:
        raise ConfigError(
            f"{TopicPartition(topic, min(missing_indexes))}: no directory to load holds a replica"
            " of it"
        )
    return tuple(
        PartitionImage(
            leader=NO_LEADER,
            leader_epoch=LeaderEpoch(0),
            partition_epoch=0,
            replicas=tuple(brokers),
            isr=tuple(brokers),
        )
        for _, brokers in sorted(replicas.items())
    )


# Leaders


def with_new_leaders(image: ClusterImage, logs_by_broker: Logs, *, knows_isr: bool) -> ClusterImage:
    """The metadata with a leader for every partition, under the next leader epoch.

    Args:
        image: The metadata as the disks describe it.
        logs_by_broker: The logs of each broker.
        knows_isr: Whether the ISRs in the image are from the controller.
    """
    changed_partitions: dict[TopicPartition, PartitionImage] = {}
    for topic_name, topic in image.topics.items():
        for partition_index, partition in enumerate(topic.partitions):
            topic_partition = TopicPartition(topic_name, partition_index)
            stored_replicas = {
                broker_id: logs_by_broker[broker_id][topic_partition]
                for broker_id in partition.replicas
                if topic_partition in logs_by_broker[broker_id]
            }
            latest_epoch = max(
                (
                    partition.leader_epoch,
                    *(broker_id.log.epochs.latest for broker_id in stored_replicas.values()),
                )
            )
            in_sync_ids = (
                partition.isr or partition.elr
                if knows_isr
                else _brokers_with_longest_logs(stored_replicas)
            )
            leader = partition.leader if partition.leader in in_sync_ids else in_sync_ids[0]
            changed_partitions[topic_partition] = msgspec.structs.replace(
                partition,
                leader=leader,
                leader_epoch=LeaderEpoch(latest_epoch + 1),
                partition_epoch=partition.partition_epoch + 1,
                isr=in_sync_ids,
                elr=tuple(broker_id for broker_id in partition.elr if broker_id not in in_sync_ids),
                last_known_elr=(),
                is_recovering=False,
            )
    return image.with_partitions(changed_partitions)


def _brokers_with_longest_logs(
    stored_replicas: Mapping[BrokerId, LoadedReplicaLog],
) -> tuple[BrokerId, ...]:
    """The brokers that may be in sync, longest log first: those whose newest epoch is the latest
    and whose log reaches the high watermark of the longest log.
    """

    def rank_key(broker_id: BrokerId) -> tuple[int, int, int]:
        log = stored_replicas[broker_id].log
        return log.epochs.latest, log.log_end_offset, -broker_id

    ranked_brokers = sorted(stored_replicas, key=rank_key, reverse=True)
    longest_log_high_watermark = stored_replicas[ranked_brokers[0]].high_watermark
    newest_epoch = stored_replicas[ranked_brokers[0]].log.epochs.latest
    return tuple(
        broker_id
        for broker_id in ranked_brokers
        if stored_replicas[broker_id].log.epochs.latest == newest_epoch
        and stored_replicas[broker_id].log.log_end_offset >= longest_log_high_watermark
    )
