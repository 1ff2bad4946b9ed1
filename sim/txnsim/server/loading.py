"""A cluster as its disks have been left: the metadata, and the logs of every broker.

It is as if every machine of the cluster had been started again at once: leaders are elected anew,
under the next epoch, and logs are made by each broker as ``storage.replica_loading`` does it. Where
the disks hold the metadata log, it says who has which replica and who is in sync; without one, as
with ZooKeeper, the folders have to say it. Kafka's counterparts: LogManager.loadLogs, the
controller's first steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from txnsim.log.partition_log import PartitionLog
from txnsim.metadata.configs import log_config
from txnsim.metadata.image import ClusterImage, TopicImage
from txnsim.releases import Fleet
from txnsim.releases.rules import LATEST
from txnsim.server._stored_image import LoadedLog, Logs, described, restarted
from txnsim.settings import Settings
from txnsim.storage.disks import Disks, StoredFolder
from txnsim.storage.replica_loading import Loss, load_replica
from txnsim.txn.log_reader import read_log
from txnsim.txn.producer_ids import BLOCK_LENGTH
from txnsim.types import TRANSACTION_STATE_TOPIC, BrokerId, ProducerId, TopicPartition

DEVIATIONS: Final = (
    "`serve --load`: all brokers start at once and are in sync as the metadata log says, those that"
    " had been killed, too; Apache Kafka takes these out of the ISR until they have caught up.",
    "`serve --load`: replicas on brokers whose directories are not given are left out, as if they"
    " had been reassigned.",
    "`serve --load`: users, ACLs, quotas and delegation tokens of the metadata log are not taken"
    " over.",
)


class LoadedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """State to start a cluster with, once only: the start writes to the logs."""

    image: ClusterImage
    """Without brokers: they have other addresses now."""
    logs: Mapping[BrokerId, tuple[LoadedLog, ...]]
    first_producer_id: ProducerId
    size: int
    """Bytes of the segments that were read."""
    losses: tuple[Loss, ...]
    """What the brokers have thrown away."""
    left_out: tuple[str, ...]
    """Folders that belong to no topic of this cluster, each with the reason."""

    @property
    def lacks_coordinators(self) -> bool:
        """Whether transactions are open without a transaction state topic to own them."""
        return TRANSACTION_STATE_TOPIC not in self.image.topics and any(
            one.log.producers.state.first_undecided_offset() is not None
            for own in self.logs.values()
            for one in own
        )


def load_cluster(
    disks: Disks,
    *,
    settings: Settings,
    fleet: Fleet,
    now_ms: int,
    on_replica: Callable[[StoredFolder], object] = lambda _: None,
) -> LoadedCluster:
    """Read all logs.

    Args:
        disks: What there is; of the topics in the metadata log, those without any folder here are
            left out.
        settings: Of the cluster: what no topic and no dynamic config says.
        fleet: Which broker runs which release.
        now_ms: The cluster's time.
        on_replica: Called with each folder before it is read.

    Raises:
        ConfigError: A partition can't be led by any of these brokers, or a file has an old format.
        OSError: A file can't be read.
    """
    image = described(disks, settings=settings, fleet=fleet)
    left_out: list[str] = []
    losses: list[Loss] = []
    logs: dict[BrokerId, dict[TopicPartition, LoadedLog]] = {one: {} for one in disks.folders}
    for broker_id, folder in disks.all_folders():
        topic_partition = folder.replica.topic_partition
        topic = image.topics.get(topic_partition.topic)
        stray = _why_stray(folder, topic, broker_id)
        if topic is None or stray:
            left_out.append(f"{folder.replica.path}: {stray}")
            continue
        on_replica(folder)
        loaded = load_replica(
            folder.replica,
            config=log_config(image, topic, settings, broker_id, rules=fleet.of(broker_id).rules),
            noted=folder.noted,
            was_clean=folder.was_clean,
            now_ms=now_ms,
        )
        losses += loaded.losses
        logs[broker_id][topic_partition] = LoadedLog(
            topic_id=topic.topic_id, log=loaded.log, high_watermark=folder.high_watermark
        )
    return LoadedCluster(
        image=restarted(image, logs, knows_isr=disks.metadata is not None),
        logs={broker_id: tuple(own.values()) for broker_id, own in logs.items()},
        first_producer_id=_first_producer_id(disks, logs),
        size=disks.size,
        losses=tuple(losses),
        left_out=tuple(left_out),
    )


def _why_stray(folder: StoredFolder, topic: TopicImage | None, broker_id: BrokerId) -> str:
    """Why a broker would not serve that folder (LogManager.isStrayReplica); empty where it does."""
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


def _first_producer_id(disks: Disks, logs: Logs) -> ProducerId:
    """First free id: the controller's, else the start of the block behind all ids seen."""
    stored = 0 if disks.metadata is None else disks.metadata.next_producer_id
    seen = max(_seen_ids(one.log for own in logs.values() for one in own.values()), default=-1)
    if seen < stored:
        return ProducerId(stored)
    return ProducerId((seen // BLOCK_LENGTH + 1) * BLOCK_LENGTH)


def _seen_ids(logs: Iterable[PartitionLog]) -> Iterator[int]:
    for log in logs:
        yield from (one.producer_id for one in log.producers.all())
        if log.topic_partition.topic == TRANSACTION_STATE_TOPIC:
            for entry in read_log(log.batches(), rules=LATEST).entries.values():
                yield max(entry.producer_id, entry.next_producer_id)
