"""Which replicas and segments there are under the paths that were named, and how segments are
shared out to tasks: from names and sizes alone, so that the driver stays quick.

A path is a log directory, a folder of several, or the folder of one replica. Below a log directory
the folders of replicas that are going (``-delete``), coming (``-future``) or that nobody claims
(``-stray``) are left out, as a broker does not serve them; one of these is read where it is named
itself. Kafka's counterparts: LogManager.loadLogs, UnifiedLog.parseTopicPartitionName.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from sim.errors import BadInputError, CorruptLogRecordError
from sim.storage import names
from sim.storage.metadata_files import MetaProperties, decode_meta_properties
from sim.types import TopicPartition

UNKNOWN_BROKER: Final = -1
_GOING: Final = re.compile(r"(.+)\.[0-9a-f]{32}-(?:delete|future|stray)")


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """The folder of one replica, and whose it is."""

    log_dir: str
    broker: int
    """``UNKNOWN_BROKER`` where the log directory does not tell."""
    topic: str
    partition: int
    path: str

    @property
    def topic_partition(self) -> TopicPartition:
        """What it is a replica of."""
        return TopicPartition(self.topic, self.partition)


class SegmentFile(msgspec.Struct, frozen=True, kw_only=True):
    """One segment of one replica."""

    replica: Replica
    path: str
    base_offset: int
    size: int
    """What is read of the file: all that was there when the job was planned."""
    is_last: bool
    """The one that was written to; the others are closed."""

    # What rows are labelled with

    @property
    def log_dir(self) -> str:
        """Of the replica."""
        return self.replica.log_dir

    @property
    def broker(self) -> int:
        """Of the replica."""
        return self.replica.broker

    @property
    def topic(self) -> str:
        """Of the replica."""
        return self.replica.topic

    @property
    def partition(self) -> int:
        """Of the replica."""
        return self.replica.partition


def replicas_in(paths: Iterable[Path], topics: frozenset[str] = frozenset()) -> tuple[Replica, ...]:
    """The replicas under some paths, each once, by log directory, topic and partition.

    Args:
        paths: Log directories, folders of log directories, or replicas' folders.
        topics: Only these; all where empty.

    Raises:
        BadInputError: A path is no directory, or there is nothing of Kafka's in it.
    """
    found: dict[str, Replica] = {}
    for path in paths:
        if not path.is_dir():
            raise BadInputError(f"{path} is no directory")
        for replica in _replicas_under(path):
            if not topics or replica.topic in topics:
                found.setdefault(replica.path, replica)
    return tuple(found.values())


def log_dirs_in(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The log directories among ``paths``, right below them, and around replicas' folders.

    Raises:
        BadInputError: A path is no directory, or there is nothing of Kafka's in it.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            raise BadInputError(f"{path} is no directory")
        found.update(dict.fromkeys(_log_dirs_under(path)))
    return tuple(found)


def segments_of(replica: Replica) -> Iterator[SegmentFile]:
    """Its segments in order of offset.

    Raises:
        OSError: The folder can't be read.
    """
    files = names.numbered_files(Path(replica.path), names.LOG_SUFFIX)
    for number, (base_offset, path) in enumerate(files, 1):
        yield SegmentFile(
            replica=replica,
            path=str(path),
            base_offset=base_offset,
            size=path.stat().st_size,
            is_last=number == len(files),
        )


def meta_of(log_dir: Path) -> MetaProperties | None:
    """Whose directory it is; None where it does not tell."""
    path = log_dir / names.META_PROPERTIES_NAME
    try:
        return decode_meta_properties(path.read_text(), place=str(path))
    except (OSError, UnicodeDecodeError, CorruptLogRecordError):
        return None


def shared_out(segments: Iterable[SegmentFile], task_bytes: int) -> list[tuple[SegmentFile, ...]]:
    """Segments in tasks of about so many bytes; neighbours stay together."""
    tasks: list[tuple[SegmentFile, ...]] = []
    task: list[SegmentFile] = []
    size = 0
    for segment in segments:
        if task and size + segment.size > task_bytes:
            tasks.append(tuple(task))
            task, size = [], 0
        task.append(segment)
        size += segment.size
    if task:
        tasks.append(tuple(task))
    return tasks


def total_bytes(segments: Sequence[SegmentFile]) -> int:
    """Of all of them."""
    return sum(segment.size for segment in segments)


# Finding


def _log_dirs_under(path: Path) -> tuple[Path, ...]:
    if _named_replica(path) is not None:
        return (path.parent,)
    if _is_log_dir(path):
        return (path,)
    found = tuple(
        sorted(below for below in path.iterdir() if below.is_dir() and _is_log_dir(below))
    )
    if not found:
        raise BadInputError(
            f"{path} holds no log directory, and is none: expected {names.META_PROPERTIES_NAME} or "
            "folders named TOPIC-PARTITION"
        )
    return found


def _replicas_under(path: Path) -> Iterator[Replica]:
    named = _named_replica(path)
    if named is not None:
        yield _replica(path.parent, named, path)
        return
    for log_dir in _log_dirs_under(path):
        for found in names.partition_directories(log_dir):
            yield _replica(log_dir, found.topic_partition, found.path)


def _replica(log_dir: Path, whose: TopicPartition, path: Path) -> Replica:
    meta = meta_of(log_dir)
    return Replica(
        log_dir=str(log_dir),
        broker=UNKNOWN_BROKER if meta is None else meta.node_id,
        topic=whose.topic,
        partition=whose.partition,
        path=str(path),
    )


def _named_replica(path: Path) -> TopicPartition | None:
    """Whose folder it is, as a path that was named itself: one with segments, also of a replica
    that is going.
    """
    going = _GOING.fullmatch(path.name)
    whose = names.topic_partition_of(going[1] if going is not None else path.name)
    if whose is None or (path / names.META_PROPERTIES_NAME).is_file():
        return None
    holds_segments = any(
        names.offset_of(below.name, names.LOG_SUFFIX) is not None for below in path.iterdir()
    )
    return whose if holds_segments else None


def _is_log_dir(path: Path) -> bool:
    if (path / names.META_PROPERTIES_NAME).is_file():
        return True
    return any(
        below.is_dir() and names.topic_partition_of(below.name) is not None
        for below in path.iterdir()
    )
