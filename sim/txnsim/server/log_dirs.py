"""The log directory of a broker, as the files that Apache Kafka would have there.

Everything is in memory here, so this module makes the files: for ``kafka-dump-log``, for a real
broker, or for inspection.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator

from txnsim.server.cluster import SimCluster
from txnsim.storage.log_dir import StoredReplica, log_dir_files
from txnsim.storage.metadata_files import MetaProperties
from txnsim.storage.metadata_snapshot import metadata_files_in_steps
from txnsim.storage.stored_file import StoredFile
from txnsim.types import BrokerId


def log_dir_of(cluster: SimCluster, broker_id: BrokerId) -> list[StoredFile]:
    """The files of a broker's log directory, as a clean shutdown at this moment would leave it.

    Raises:
        ConfigError: There is no such broker.
    """
    steps = log_dir_in_steps(cluster, broker_id)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            files: list[StoredFile] = end.value
            return files


def log_dir_in_steps(
    cluster: SimCluster, broker_id: BrokerId
) -> Generator[None, None, list[StoredFile]]:
    """The files of ``log_dir_of``, made in steps. The first step takes all state that may change,
    so that all files are of one moment.

    Raises:
        ConfigError: There is no such broker.
    """
    member = cluster.member(broker_id)
    image = cluster.metadata.image
    features = cluster.fleet.release_of(broker_id).features
    metadata = metadata_files_in_steps(
        image,
        features={
            feature_name: (feature.min_level, feature.max_level)
            for feature_name, feature in features.items()
        },
        next_producer_id=cluster.controller.next_producer_id,
        now_ms=cluster.environment.clock.now_ms(),
    )
    replica_files = log_dir_files(
        (
            StoredReplica(log=log, topic_id=topic_id)
            for topic_id, log in member.disk.replicas()
            if image.topic_by_id(topic_id) is not None
        ),
        MetaProperties(
            cluster_id=image.cluster_id,
            node_id=broker_id,
            directory_id=_directory_id(image.cluster_id, broker_id),
        ),
        broker_epoch=image.brokers[broker_id].epoch,
    )
    files = list(replica_files)
    yield
    files += yield from metadata
    return files


def _directory_id(cluster_id: str, broker_id: BrokerId) -> uuid.UUID:
    """An id of the directory that is always the same for a broker, as on a disk (KIP-858)."""
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{cluster_id}/{broker_id}")
