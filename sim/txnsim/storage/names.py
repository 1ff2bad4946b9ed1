"""What the names in a log directory say: partitions, segments, and the files beside them.

A broker's log directory has one folder per partition, named ``TOPIC-PARTITION``. In it each segment
has a ``.log`` file, named for its base offset in twenty digits, and files beside it of the same
number. Kafka's counterparts: LogFileUtils, UnifiedLog.parseTopicPartitionName.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from txnsim.types import TopicPartition

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
LEADER_EPOCHS_NAME: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_NAME: Final = "partition.metadata"
META_PROPERTIES_NAME: Final = "meta.properties"
CLEAN_SHUTDOWN_NAME: Final = ".kafka_cleanshutdown"
HIGH_WATERMARKS_NAME: Final = "replication-offset-checkpoint"
RECOVERY_POINTS_NAME: Final = "recovery-point-offset-checkpoint"
LOG_STARTS_NAME: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS_NAME: Final = "cleaner-offset-checkpoint"
CHECKPOINTS: Final = (
    *(HIGH_WATERMARKS_NAME, RECOVERY_POINTS_NAME),
    *(LOG_STARTS_NAME, CLEANER_OFFSETS_NAME),
)
"""Offsets of all replicas of a log directory."""

_DIRECTORY: Final = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")
_GOING: Final = re.compile(r".+\.[0-9a-f]{32}-(delete|future|stray)")
"""A replica that is being deleted, moved to another directory, or that is stray."""
_TIERED: Final = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)-([a-zA-Z0-9_-]{21}[AQgw])")
"""The folder of a partition in Kafka's LocalTieredStorage: topic, partition, topic id. An id's last
letter has two bits, so that such a name is never that of a replica's folder.
"""
_NUMBERED: Final = re.compile(r"(\d{20})(?:-[a-zA-Z0-9_-]{22}(?!\.snapshot))?(\.[a-z]+)")
"""Kafka's LocalTieredStorage has a segment's id behind the offset. Its snapshots are those of the
segment's end, under the offset of its beginning, so they are not taken for the others.
"""
OFFSET_DIGITS: Final = 20


class PartitionDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """The folder of one replica."""

    topic_partition: TopicPartition
    path: Path


def file_name(offset: int, suffix: str) -> str:
    """``42`` and ``.log`` as ``00000000000000000042.log``."""
    return f"{offset:0{OFFSET_DIGITS}d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """The number of a file with this suffix; None where it is another kind of file."""
    found = _NUMBERED.fullmatch(name)
    return int(found[1]) if found is not None and found[2] == suffix else None


def directory_name(topic_partition: TopicPartition) -> str:
    """The folder of a partition's replica."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def topic_partition_of(name: str) -> TopicPartition | None:
    """Partition of a replica's folder; None for other folders and for deleted replicas."""
    if _GOING.fullmatch(name):
        return None
    found = _DIRECTORY.fullmatch(name)
    return None if found is None else TopicPartition(found[1], int(found[2]))


def tiered_partition_of(name: str) -> tuple[TopicPartition, str] | None:
    """Whose segments a folder of Kafka's LocalTieredStorage has, and the topic's id; None where it
    is no such folder. Kafka's counterpart: RemoteTopicPartitionDirectory.
    """
    found = _TIERED.fullmatch(name)
    return None if found is None else (TopicPartition(found[1], int(found[2])), found[3])


def whose_folder(name: str) -> TopicPartition | None:
    """Whose segments a folder has, of a replica or in tiered storage; None of another one."""
    tiered = tiered_partition_of(name)
    return topic_partition_of(name) if tiered is None else tiered[0]


def partition_directories(
    log_dir: Path, whose_of: Callable[[str], TopicPartition | None] = topic_partition_of
) -> tuple[PartitionDirectory, ...]:
    """The replicas in a log directory, by topic and partition."""
    found = ((whose_of(path.name), path) for path in log_dir.iterdir() if path.is_dir())
    return tuple(
        PartitionDirectory(topic_partition=whose, path=path)
        for whose, path in sorted(
            ((whose, path) for whose, path in found if whose is not None), key=lambda one: one[0]
        )
    )


def is_of_replica(name: str) -> bool:
    """Whether a file of this name is one that a broker writes into a replica's folder."""
    return bool(_NUMBERED.match(name)) or name in (LEADER_EPOCHS_NAME, PARTITION_METADATA_NAME)


def numbered_files(directory: Path, suffix: str) -> tuple[tuple[int, Path], ...]:
    """(offset, path) of the files with this suffix, by offset."""
    found = ((offset_of(path.name, suffix), path) for path in directory.iterdir())
    return tuple(sorted((offset, path) for offset, path in found if offset is not None))
