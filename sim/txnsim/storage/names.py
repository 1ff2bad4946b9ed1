"""The names of files and folders in a log directory: partitions, segments, and other files.

A broker's log directory has one folder per partition, named ``TOPIC-PARTITION``. In it each segment
has a ``.log`` file, named for its base offset in twenty digits, and other files with the same
number. Kafka's counterparts: LogFileUtils, UnifiedLog.parseTopicPartitionName.
"""

from __future__ import annotations

import errno
import re
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from txnsim.types import TopicPartition


class FileName(StrEnum):
    """A file that has the same name in every directory."""

    LEADER_EPOCHS = "leader-epoch-checkpoint"
    PARTITION_METADATA = "partition.metadata"
    META_PROPERTIES = "meta.properties"
    CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
    HIGH_WATERMARKS = "replication-offset-checkpoint"
    RECOVERY_POINTS = "recovery-point-offset-checkpoint"
    LOG_STARTS = "log-start-offset-checkpoint"
    CLEANER_OFFSETS = "cleaner-offset-checkpoint"

    @staticmethod
    def checkpoints() -> tuple[FileName, ...]:
        """The checkpoint files with an offset of each replica of a log directory."""
        return (
            *(FileName.HIGH_WATERMARKS, FileName.RECOVERY_POINTS),
            *(FileName.LOG_STARTS, FileName.CLEANER_OFFSETS),
        )


class Suffix(StrEnum):
    """A kind of file that is named for an offset."""

    LOG = ".log"
    INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TXN_INDEX = ".txnindex"
    SNAPSHOT = ".snapshot"

    def file_name(self, offset: int) -> str:
        """``42`` and ``.log`` as ``00000000000000000042.log``."""
        return f"{offset:0{OFFSET_DIGITS}d}{self}"

    def offset_of(self, file_name: str) -> int | None:
        """The offset in a file name; None for names with another suffix."""
        match = _OFFSET_FILE_RE.fullmatch(file_name)
        return int(match[1]) if match is not None and match[2] == self else None

    def files_in(self, directory: Path) -> tuple[tuple[int, Path], ...]:
        """(offset, path) of the files of this kind, by offset.

        Raises:
            FileNameError: A file is named for an offset that no log has.
            OSError: The directory can't be listed.
        """
        offset_and_path = ((self.offset_of(path.name), path) for path in directory.iterdir())
        return tuple(
            sorted(
                (checked_offset(offset, path), path)
                for offset, path in offset_and_path
                if offset is not None
            )
        )


class FileNameError(OSError):
    """A file is named for an offset that no log has; a broker does not start with it."""


def checked_offset(offset: int, path: Path) -> int:
    """The offset in a file's name.

    Raises:
        FileNameError: It is no int64.
    """
    if offset > _OFFSET_MAX:
        reason = f"{path.name} is named for an offset above {_OFFSET_MAX}: move the file away"
        raise FileNameError(errno.EINVAL, reason, str(path))
    return offset


_FOLDER_RE: Final = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]+)")
FOREIGN_FOLDER: Final = "it holds segments, and its name is none that Kafka gives, TOPIC-PARTITION"
"""What is wrong with a folder that is foreign (``PartitionDirectory.is_foreign``)."""
_UNSERVED_FOLDER_RE: Final = re.compile(r"(.+)\.[0-9a-f]{32}-(delete|future|stray)")
"""Name of a folder that is being deleted or moved to another directory, or that is stray."""
_UNSERVED_MEANINGS: Final = {
    "delete": "a broker was deleting it",
    "future": "a broker was moving it here from another directory",
    "stray": "a broker found that it has no such replica any more",
}
_TIERED_FOLDER_RE: Final = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]+)-([a-zA-Z0-9_-]{21}[AQgw])")
"""Name of a partition's folder in Kafka's LocalTieredStorage: topic, partition, topic id. An id's
last letter stands for two bits only, so that such a name is never that of a replica's folder.
"""
_OFFSET_FILE_RE: Final = re.compile(r"([0-9]{20})(?:-[a-zA-Z0-9_-]{22}(?!\.snapshot))?(\.[a-z]+)")
"""Name of a file with an offset. In Kafka's LocalTieredStorage a segment's id follows the offset.
Snapshots with an id do not match: they are those of the segment's end, under its base offset.
"""
OFFSET_DIGITS: Final = 20
_OFFSET_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1


class PartitionDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """The folder of one replica, or of a partition in tiered storage."""

    topic_partition: TopicPartition
    path: Path
    topic_id: str | None = None
    """The topic id, if the folder's name has it, as in Kafka's LocalTieredStorage
    (RemoteTopicPartitionDirectory).
    """

    @classmethod
    def parse(cls, path: Path) -> PartitionDirectory | None:
        """The partition folder at a path, by its name; None for another folder."""
        tiered_match = _TIERED_FOLDER_RE.fullmatch(path.name)
        if tiered_match is not None:
            topic_partition = _topic_partition(tiered_match)
            topic_id = tiered_match[3]
        else:
            topic_partition, topic_id = topic_partition_of(path.name), None
        if topic_partition is None:
            return None
        return cls(topic_partition=topic_partition, path=path, topic_id=topic_id)

    @staticmethod
    def has_files_named(file_name: str) -> bool:
        """Whether a broker writes files with this name into a replica's folder."""
        return bool(_OFFSET_FILE_RE.match(file_name)) or file_name in (
            FileName.LEADER_EPOCHS,
            FileName.PARTITION_METADATA,
        )

    @classmethod
    def is_foreign(cls, path: Path) -> bool:
        """Whether a folder holds segments and has no name that a broker gives, as a copy by hand
        has (``orders-0.copy``).
        """
        if cls.parse(path) is not None or _UNSERVED_FOLDER_RE.fullmatch(path.name):
            return False
        try:
            return path.is_dir() and any(
                (match := _OFFSET_FILE_RE.fullmatch(file.name)) and match[2] == Suffix.LOG
                for file in path.iterdir()
            )
        except OSError:
            return False  # any folder of another owner, such as lost+found

    @classmethod
    def all_in(cls, log_dir: Path, *, with_tiered: bool = False) -> tuple[PartitionDirectory, ...]:
        """The partition folders in a log directory, by topic and partition."""
        directories = [
            directory
            for path in log_dir.iterdir()
            if path.is_dir() and (directory := cls.parse(path))
        ]
        return tuple(
            sorted(
                (
                    directory
                    for directory in directories
                    if with_tiered or directory.topic_id is None
                ),
                key=lambda directory: directory.topic_partition,
            )
        )


class UnservedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that held a replica, by its name, and that no broker serves."""

    topic_partition: TopicPartition
    path: Path
    meaning: str
    """What its name says, as a clause."""

    @classmethod
    def parse(cls, path: Path) -> UnservedFolder | None:
        """The folder at a path, by its name; None for another one."""
        match = _UNSERVED_FOLDER_RE.fullmatch(path.name)
        topic_partition = None if match is None else topic_partition_of(match[1])
        if match is None or topic_partition is None:
            return None
        return cls(topic_partition=topic_partition, path=path, meaning=_UNSERVED_MEANINGS[match[2]])


def directory_name(topic_partition: TopicPartition) -> str:
    """Name of the folder of a partition's replica."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def topic_partition_of(folder_name: str) -> TopicPartition | None:
    """The partition from the name of a replica's folder; None for other folders and deleted
    replicas.
    """
    if _UNSERVED_FOLDER_RE.fullmatch(folder_name):
        return None
    match = _FOLDER_RE.fullmatch(folder_name)
    return None if match is None else _topic_partition(match)


def _topic_partition(folder_match: re.Match[str]) -> TopicPartition | None:
    """The partition of a matched folder name; None where its number is no int32."""
    partition = int(folder_match[2])
    return None if partition > _PARTITION_MAX else TopicPartition(folder_match[1], partition)
