"""The log directories of a cluster's brokers: their owners, contents and checkpoints. All
directories are checked before any data is read.

A broker may have several directories (JBOD); all directories of a cluster have the same cluster id.
Directories that can't belong together are refused, with the file that shows it. Kafka's
counterparts: LogManager.loadLogs, MetaPropertiesEnsemble.verify.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.errors import ConfigError, CorruptLogRecordError
from txnsim.files import problem_of
from txnsim.storage import checkpoints, names
from txnsim.storage.log_file import read_log_file
from txnsim.storage.metadata_files import MetaProperties, decode_partition_metadata
from txnsim.storage.metadata_log import StoredMetadata
from txnsim.storage.regular_file import RegularFile
from txnsim.storage.replica_files import replica_files
from txnsim.storage.replica_loading import CheckpointedOffsets
from txnsim.types import (
    INTERNAL_TOPICS,
    STORED_EPOCH_MAX,
    STORED_NUMBER_MAX,
    BrokerId,
    TopicPartition,
)

_METADATA_PARTITION: Final = names.topic_partition_of(StoredMetadata.FOLDER)


class StoredFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A replica's folder with its checkpoints."""

    replica: names.PartitionDirectory
    topic_id: uuid.UUID | None
    """None if there is no ``partition.metadata``, as before Kafka 2.8."""
    checkpointed: CheckpointedOffsets
    high_watermark: int
    was_clean: bool
    """Whether the broker's last shutdown was clean."""
    size_bytes: int
    """Size of its segments in bytes."""


class LogDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """One log directory of a broker."""

    path: Path
    meta: MetaProperties
    folders: tuple[StoredFolder, ...]
    """The replicas by topic and partition, without the metadata log."""
    passed_by: tuple[str, ...] = ()
    """What holds a replica by its name, or by a checkpoint, and is not read, with reasons."""


class Disks(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of all log directories of a cluster."""

    cluster_id: str
    folders: Mapping[BrokerId, tuple[StoredFolder, ...]]
    """Broker id -> its replicas, by topic and partition."""
    metadata: StoredMetadata | None
    """The metadata of the newest copy; None if there is no metadata log, as with ZooKeeper."""
    passed_by: tuple[str, ...] = ()
    """What the directories pass by."""

    @property
    def size_bytes(self) -> int:
        """Size of all segments in bytes."""
        return sum(folder.size_bytes for _, folder in self.all_folders())

    def all_folders(self) -> Iterator[tuple[BrokerId, StoredFolder]]:
        return (
            (broker_id, folder)
            for broker_id, folder_by_partition in self.folders.items()
            for folder in folder_by_partition
        )

    def only_topics(self, topics: Iterable[str]) -> Disks:
        topics_asked = frozenset(topics)
        return msgspec.structs.replace(
            self,
            folders={
                broker_id: tuple(
                    folder
                    for folder in folder_by_partition
                    if folder.replica.topic_partition.topic in topics_asked
                )
                for broker_id, folder_by_partition in self.folders.items()
            },
        )


def find_disks(paths: Sequence[Path]) -> Disks:
    """Read the log directories of a cluster, without their segments.

    Raises:
        ConfigError: The directories can't be loaded, or don't belong together; the message names
            the file.
        OSError: A file can't be read.
    """
    directories = [_read_directory(path) for path in paths]
    directories_by_id: dict[uuid.UUID, LogDirectory] = {}
    first_directory = directories[0]
    for directory in directories:
        if directory.meta.cluster_id != first_directory.meta.cluster_id:
            raise ConfigError(
                f"{directory.path / names.FileName.META_PROPERTIES}: cluster.id is "
                f"{directory.meta.cluster_id!r}, that of {first_directory.path} is"
                f" {first_directory.meta.cluster_id!r}"
            )
        directory_id = directory.meta.directory_id
        same_id_directory = (
            directory
            if directory_id is None
            else directories_by_id.setdefault(directory_id, directory)
        )
        if same_id_directory is not directory:
            raise ConfigError(
                f"{directory.path / names.FileName.META_PROPERTIES}: it is the same directory as "
                f"{same_id_directory.path}"
            )
    return Disks(
        cluster_id=first_directory.meta.cluster_id,
        folders=_folders_by_broker(directories, metadata := _newest_metadata(directories)),
        metadata=metadata,
        passed_by=tuple(text for directory in directories for text in directory.passed_by),
    )


def _read_directory(path: Path) -> LogDirectory:
    properties_path = path / names.FileName.META_PROPERTIES
    if not properties_path.is_file():
        raise ConfigError(
            f"{properties_path} is missing: {path} is no log directory of a broker (log.dirs), nor "
            "a copy of one"
        )
    try:
        meta = MetaProperties.decode(
            RegularFile(properties_path).text(), error_prefix=str(properties_path)
        )
        checkpoint_offsets: dict[str, dict[TopicPartition, int]] = {
            checkpoint_name: _read_offsets(path / checkpoint_name)
            for checkpoint_name in names.FileName.checkpoints()
        }
        return LogDirectory(
            path=path,
            meta=meta,
            folders=_stored_folders(path, checkpoint_offsets),
            passed_by=tuple(_passed_by(path, checkpoint_offsets[names.FileName.HIGH_WATERMARKS])),
        )
    except CorruptLogRecordError as error:
        raise ConfigError(str(error)) from error


def _read_offsets(path: Path) -> dict[TopicPartition, int]:
    if not path.exists():
        return {}
    return checkpoints.decode_offsets(RegularFile(path).text(), error_prefix=str(path))


def _stored_folders(
    path: Path, checkpoint_offsets: Mapping[str, Mapping[TopicPartition, int]]
) -> tuple[StoredFolder, ...]:
    was_clean = (path / names.FileName.CLEAN_SHUTDOWN).exists()
    for folder_path in sorted(path.iterdir()):
        if names.PartitionDirectory.is_foreign(folder_path):
            raise ConfigError(
                f"{folder_path}: {names.FOREIGN_FOLDER}; Kafka's broker does not start with it:"
                " rename it, or move it away"
            )
    return tuple(
        StoredFolder(
            replica=replica,
            topic_id=_topic_id(replica.path),
            checkpointed=CheckpointedOffsets(
                recovery_point=checkpoint_offsets[names.FileName.RECOVERY_POINTS].get(
                    replica.topic_partition, 0
                ),
                log_start_offset=checkpoint_offsets[names.FileName.LOG_STARTS].get(
                    replica.topic_partition, 0
                ),
                cleaned_until=checkpoint_offsets[names.FileName.CLEANER_OFFSETS].get(
                    replica.topic_partition
                ),
            ),
            high_watermark=checkpoint_offsets[names.FileName.HIGH_WATERMARKS].get(
                replica.topic_partition, 0
            ),
            was_clean=was_clean,
            size_bytes=sum(
                file.stat().st_size for _, file in names.Suffix.LOG.files_in(replica.path)
            ),
        )
        for replica in names.PartitionDirectory.all_in(path)
        if replica.topic_partition != _METADATA_PARTITION
    )


def _passed_by(path: Path, high_watermarks: Mapping[TopicPartition, int]) -> Iterator[str]:
    """What a broker passes by in silence as it starts (LogManager.loadLogs), with reasons: it lists
    folders, and a link that leads nowhere is none.
    """
    absent_partitions = {partition for partition, offset in high_watermarks.items() if offset > 0}
    for folder_path in sorted(path.iterdir()):
        unserved = names.UnservedFolder.parse(folder_path)
        partition = names.topic_partition_of(folder_path.name)
        if unserved is not None:
            absent_partitions.discard(unserved.topic_partition)
            yield f"{folder_path}: {unserved.meaning}; passed by"
        elif partition is not None:
            absent_partitions.discard(partition)
            if not folder_path.is_dir():
                yield f"{folder_path}: {_listing_error(folder_path)}; passed by"
    for partition in sorted(absent_partitions):
        checkpoint_path = path / names.FileName.HIGH_WATERMARKS
        yield f"{checkpoint_path}: it names {partition} with records, but its folder is not here"


def _listing_error(path: Path) -> str:
    """Why a path can't be listed."""
    try:
        next(path.iterdir(), None)
    except OSError as error:
        return problem_of(error)
    return "it is no folder"


def _topic_id(folder: Path) -> uuid.UUID | None:
    metadata_path = folder / names.FileName.PARTITION_METADATA
    if not metadata_path.exists():
        return None
    return decode_partition_metadata(
        RegularFile(metadata_path).text(), error_prefix=str(metadata_path)
    )


def _newest_metadata(directories: Iterable[LogDirectory]) -> StoredMetadata | None:
    """The metadata of the newest copy: the one with the latest controller epoch, then the
    longest.
    """
    readable_copies = []
    for directory in directories:
        try:
            metadata = StoredMetadata.read(
                directory.path / StoredMetadata.FOLDER, cluster_id=directory.meta.cluster_id
            )
        except CorruptLogRecordError as error:
            raise ConfigError(str(error)) from error
        if metadata is not None:
            _refuse_without_room(metadata, directory.path / StoredMetadata.FOLDER)
            readable_copies.append(metadata)
    return max(readable_copies, key=lambda metadata: metadata.age, default=None)


def _refuse_without_room(metadata: StoredMetadata, folder: Path) -> None:
    """Refuse metadata from which a controller could not go on: it raises these numbers."""
    partitions = [
        (TopicPartition(topic.name, index), partition)
        for topic in metadata.image.topics.values()
        for index, partition in enumerate(topic.partitions)
    ]
    for subject, number, limit in (
        ("it ends at offset", metadata.image.offset, STORED_NUMBER_MAX),
        ("the next producer id is", metadata.next_producer_id, STORED_NUMBER_MAX),
        *(
            (f"{name} has {epoch_name} epoch", epoch, STORED_EPOCH_MAX)
            for name, partition in partitions
            for epoch_name, epoch in (
                ("leader", partition.leader_epoch),
                ("partition", partition.partition_epoch),
            )
        ),
    ):
        if number > limit:
            raise ConfigError(
                f"{folder}: {subject} {number}, which leaves no room for the next ones"
            )


def _folders_by_broker(
    directories: Iterable[LogDirectory], metadata: StoredMetadata | None
) -> dict[BrokerId, tuple[StoredFolder, ...]]:
    """The replicas of each broker; the directory of a controller without the broker role is left
    out.

    Raises:
        ConfigError: Two directories of a broker hold the same replica, or none belongs to a broker.
    """
    folders_by_broker: dict[BrokerId, dict[TopicPartition, StoredFolder]] = {}
    for directory in directories:
        broker_id = BrokerId(directory.meta.node_id)
        is_of_broker = directory.folders or metadata is None or broker_id in metadata.broker_ids
        if not is_of_broker:
            continue
        folder_by_partition = folders_by_broker.setdefault(broker_id, {})
        for folder in directory.folders:
            same_replica_folder = folder_by_partition.setdefault(
                folder.replica.topic_partition, folder
            )
            if same_replica_folder is not folder:
                raise ConfigError(
                    f"{folder.replica.path}: node {broker_id} has that replica in "
                    f"{same_replica_folder.replica.path}, too; two brokers can't have one node.id"
                )
    if not folders_by_broker:
        first_path = next(iter(directories)).path
        raise ConfigError(f"{first_path}: no broker has left anything there")
    return {
        broker_id: tuple(folder for _, folder in sorted(folders_by_broker[broker_id].items()))
        for broker_id in sorted(folders_by_broker)
    }


def newest_timestamp(disks: Disks) -> int | None:
    """The newest timestamp on the disks, about the time when the cluster was stopped: milliseconds
    since the epoch; None if there is no record.

    Timestamps in coordinators' logs win, because they come from brokers' clocks; those of other
    records may come from any producer's clock.

    Raises:
        OSError: A file can't be read.
    """
    folders = [folder for _, folder in disks.all_folders()]
    internal_topic_folders = [
        folder for folder in folders if folder.replica.topic_partition.topic in INTERNAL_TOPICS
    ]
    return _newest_timestamp(internal_topic_folders) or _newest_timestamp(folders)


def _newest_timestamp(folders: Iterable[StoredFolder]) -> int | None:
    """The newest timestamp in the last segment of each folder."""
    newest_ms = 0
    for folder in folders:
        for segment in replica_files(folder.replica.path).segments[-1:]:
            for batch in read_log_file(segment.log, on_torn=lambda _: None, checks_crc=False):
                newest_ms = max(newest_ms, batch.header.max_timestamp_ms)
    return newest_ms or None
