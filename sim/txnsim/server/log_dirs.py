"""The log directories of brokers, as the files that Apache Kafka would have there.

Everything is in memory here, so this module makes the files: for ``kafka-dump-log``, for a real
broker, or for inspection. Directories of several brokers are of one moment: all that may change is
taken in one step (``LogDirsCut``), and files are made of it in small steps.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable, Mapping

import msgspec

from txnsim.metadata.image import ClusterImage
from txnsim.server.cluster import SimCluster
from txnsim.storage.log_dir import ReplicaCut, log_dir_files_in_steps
from txnsim.storage.metadata_files import MetaProperties
from txnsim.storage.metadata_snapshot import metadata_files_in_steps
from txnsim.storage.stored_file import StoredFile
from txnsim.types import BrokerId
from txnsim.wire.codec import run_to_end


class LogDirsCut(msgspec.Struct, frozen=True, kw_only=True):
    """The log directories of some brokers at one moment."""

    replicas: Mapping[BrokerId, tuple[ReplicaCut, ...]]
    feature_ranges: Mapping[BrokerId, Mapping[str, tuple[int, int]]]
    """The smallest and the largest level of each feature that a broker supports."""
    image: ClusterImage
    next_producer_id: int
    at_ms: int
    """The cluster's time."""

    @classmethod
    def of_cluster(cls, cluster: SimCluster, broker_ids: Iterable[BrokerId]) -> LogDirsCut:
        """Take the state of these brokers, in one step.

        Raises:
            ConfigError: There is no such broker.
        """
        image = cluster.metadata.image
        member_by_broker = {broker_id: cluster.member(broker_id) for broker_id in broker_ids}
        return cls(
            replicas={
                broker_id: tuple(
                    [
                        ReplicaCut.of_log(log, topic_id=topic_id)
                        for topic_id, log in member.disk.replicas()
                        if image.topic_by_id(topic_id) is not None
                    ]
                )
                for broker_id, member in member_by_broker.items()
            },
            feature_ranges={
                broker_id: {
                    feature_name: (feature.min_level, feature.max_level)
                    for feature_name, feature in cluster.fleet.release_of(
                        broker_id
                    ).features.items()
                }
                for broker_id in member_by_broker
            },
            image=image,
            next_producer_id=cluster.controller.next_producer_id,
            at_ms=cluster.environment.clock.now_ms(),
        )

    def files_in_steps(self, broker_id: BrokerId) -> Generator[int, None, list[StoredFile]]:
        """Make the files of a broker's directory; other tasks may run between the steps."""
        image = self.image
        files = yield from log_dir_files_in_steps(
            self.replicas[broker_id],
            MetaProperties(
                cluster_id=image.cluster_id,
                node_id=broker_id,
                directory_id=_directory_id(image.cluster_id, broker_id),
            ),
            broker_epoch=image.brokers[broker_id].epoch,
        )
        metadata_files = yield from metadata_files_in_steps(
            image,
            features=self.feature_ranges[broker_id],
            next_producer_id=self.next_producer_id,
            now_ms=self.at_ms,
        )
        return [*files, *metadata_files]


def log_dir_of(cluster: SimCluster, broker_id: BrokerId) -> list[StoredFile]:
    """The files of a broker's log directory, as a clean shutdown at this moment would leave it.

    Raises:
        ConfigError: There is no such broker.
    """
    return run_to_end(LogDirsCut.of_cluster(cluster, [broker_id]).files_in_steps(broker_id))


def _directory_id(cluster_id: str, broker_id: BrokerId) -> uuid.UUID:
    """An id of the directory that is always the same for a broker, as on a disk (KIP-858)."""
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{cluster_id}/{broker_id}")
