"""Lists the replicas and segments under the given paths, from names and sizes only.

A path is a log directory, a folder with several of them, or the folder of one replica. In a log
directory the folders of replicas that are being deleted (``-delete``) or moved (``-future``), or
that are stray (``-stray``), are left out, because a broker does not serve them. Such a folder is
read if its own path is given. The folders of Kafka's LocalTieredStorage are read as replicas of an
unknown broker. Kafka's counterparts: LogManager.loadLogs, UnifiedLog.parseTopicPartitionName.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from txnsim.errors import BadInputError
from txnsim.storage import names
from txnsim.storage.names import PartitionDirectory, UnservedFolder
from txnsim.storage.replica_files import replica_files
from txnsim.types import TopicPartition
from txnsim_spark.scan.log_dirs import LogDirectory, OnProblem, ignore_problem, meta_of

T = TypeVar("T")
UNKNOWN_BROKER: Final = -1
_FOREIGN_FOLDER: Final = f": {names.FOREIGN_FOLDER}: rename it, or move it away; passed by"
"""What is said of a folder that is passed by for its name."""
_ABSENT_NAMES_MAX: Final = 5


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """The folder of one replica, with its broker and partition."""

    log_dir: str
    broker: int
    """Broker id; ``UNKNOWN_BROKER`` if the log directory does not have it."""
    topic: str
    partition: int
    path: str

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a segment that is read separately (``soundness.verify``)."""

    start: int
    """Position of its first batch."""
    first_offset: int
    """Base offset of that batch."""
    next_offset: int | None
    """Start of the next section or segment, above all own offsets; None if last."""
    has_followers: bool
    """Whether another section of the segment follows."""


class SegmentDamage(msgspec.Struct, frozen=True, kw_only=True):
    """The place where a segment becomes malformed, or is cut off."""

    position: int
    """Position of the first byte that belongs to no batch."""
    size: int
    """Bytes from there to the end of the file."""
    kind: str
    """``torn``, ``format`` or ``length`` if batches end; ``crc`` or ``records``; ``behind`` in
    segments after one that is cut.
    """
    reason: str
    offset: int | None = None
    """First record that a starting broker cuts off; None if it was not computed."""


class SegmentFile(msgspec.Struct, frozen=True, kw_only=True):
    """One segment of one replica."""

    replica: Replica
    path: str
    base_offset: int
    next_base_offset: int | None
    """Base offset of the next segment; all offsets of this one are below."""
    size: int
    """Position where reading ends: the size of the file when the read was planned."""
    is_recovered: bool = False
    """Whether a starting broker checks it, and cuts off what is not sound."""
    is_clean: bool = True
    """Whether the broker was stopped in order, and not started since."""
    is_cut_searched: bool = False
    """Whether ``cut_damage`` was searched for already."""
    cut_damage: SegmentDamage | None = None
    start: int = 0
    """Position where reading begins: that of a batch before all wanted ones."""
    sound_to: int = 0
    """Position up to which a stream has read without damage; this part is not checked again."""
    offset_span: tuple[int, int] | None = None
    """Range of offsets: only batches that begin in it become rows; None for all."""
    section: Section | None = None
    """The part to read, up to ``size``; None for all."""

    @property
    def topic(self) -> str:
        """Topic of the replica."""
        return self.replica.topic

    @property
    def partition(self) -> int:
        """Partition of the replica."""
        return self.replica.partition

    @property
    def unread_bytes(self) -> int:
        return self.size - (self.start if self.section is None else self.section.start)

    @property
    def may_be_cut(self) -> bool:
        """Whether a cut is possible here, and was not searched for yet; a cut ends later segments,
        too.
        """
        return self.is_recovered and not self.is_cut_searched

    @property
    def is_last(self) -> bool:
        """The active segment; the others are closed."""
        return self.next_base_offset is None


def replicas_in(
    paths: Iterable[Path],
    topics: frozenset[str] = frozenset(),
    on_problem: OnProblem = ignore_problem,
    on_foreign_folder: OnProblem | None = None,
) -> tuple[Replica, ...]:
    """The replicas under some paths, each once, by log directory, topic and partition. A folder
    with a replica's name that can't be listed is reported, and so is one that holds segments and
    has another name: as a problem, unless ``on_foreign_folder`` takes it. Where topics are given,
    only folders whose names begin with one of them are looked at.
    """
    replica_by_path: dict[str, Replica] = {}
    for path in paths:
        for replica in _replicas_under(path, topics, on_problem, on_foreign_folder or on_problem):
            if not topics or replica.topic in topics:
                replica_by_path.setdefault(replica.path, replica)
    return tuple(replica_by_path.values())


def absent_replicas(
    paths: Iterable[Path], topics: frozenset[str] = frozenset()
) -> Iterator[tuple[Path, str]]:
    """(file, sentence) for each log directory whose high watermarks name partitions that have
    records and no folder: they were not copied, or a broker was killed as it deleted them. Where
    the folder is one that no broker serves, the partition has to have another one in any of these
    directories. A path of one replica's folder asks for no other.
    """
    log_dirs = log_dirs_in(path for path in paths if _partition_of_folder(path) is None)
    served_by_log_dir = {
        log_dir: {
            directory.topic_partition
            for folder in log_dir.iterdir()
            if (directory := PartitionDirectory.parse(folder)) is not None
        }
        for log_dir in log_dirs
    }
    served_anywhere = {partition for served in served_by_log_dir.values() for partition in served}
    for log_dir, served_partitions in served_by_log_dir.items():
        unserved_by_partition = {
            folder.topic_partition: folder for folder in _unserved_folders_in(log_dir)
        }
        absent_names = []
        for partition, offset in sorted(LogDirectory.read(log_dir).high_watermarks.items()):
            is_asked = offset > 0 and (not topics or partition.topic in topics)
            if not is_asked or partition in served_partitions:
                continue
            unserved_folder = unserved_by_partition.get(partition)
            if unserved_folder is None:
                absent_names.append(str(partition))
            elif partition not in served_anywhere:
                yield (
                    log_dir / names.FileName.HIGH_WATERMARKS,
                    f"it names {partition} with records, and no folder here serves it; of"
                    f" {unserved_folder.path.name} {unserved_folder.meaning}: name that folder"
                    " itself to have it read",
                )
        if absent_names:
            more_count = len(absent_names) - _ABSENT_NAMES_MAX
            more_text = f" and {more_count} more" if more_count > 0 else ""
            yield (
                log_dir / names.FileName.HIGH_WATERMARKS,
                "it names partitions with records whose folders are not here:"
                f" {', '.join(absent_names[:_ABSENT_NAMES_MAX])}{more_text}",
            )


def unserved_folders(paths: Iterable[Path], topics: frozenset[str] = frozenset()) -> list[str]:
    """A sentence about each folder of a replica that no broker serves: on its way to deletion or
    from another directory, or stray. Those that are paths of their own are read.
    """
    return [
        f"{folder.path}: {folder.meaning}; not judged, as no broker serves it"
        for log_dir in log_dirs_in(path for path in paths if _partition_of_folder(path) is None)
        for folder in _unserved_folders_in(log_dir)
        if not topics or folder.topic_partition.topic in topics
    ]


def path_and_reason(problem: str) -> tuple[str, str]:
    """The folder and the reason of a problem that ``replicas_in`` reports."""
    path_text = problem.removesuffix(_FOREIGN_FOLDER)  # of which no colon says where it ends
    if path_text == problem:
        path_text, _, reason = problem.partition(": ")
        return path_text, reason
    return path_text, _FOREIGN_FOLDER.removeprefix(": ")


def log_dirs_in(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The log directories among ``paths``, directly below them, and above replicas' folders."""
    return tuple(dict.fromkeys(log_dir for path in paths for log_dir in _log_dirs_under(path)))


def segments_of(replica: Replica, directory: LogDirectory | None = None) -> Iterator[SegmentFile]:
    """The segments of a replica by offset. If compaction was interrupted, those that a starting
    broker would keep.

    Args:
        replica: The replica.
        directory: The small files of its log directory; read unless given.
    """
    directory = directory or LogDirectory.read(Path(replica.log_dir))
    offsets_and_logs = [
        (files_of_segment.base_offset, files_of_segment.log)
        for files_of_segment in replica_files(Path(replica.path)).segments
    ]
    if not offsets_and_logs:
        return
    next_base_offsets = [*(base_offset for base_offset, _ in offsets_and_logs[1:]), None]
    recovered_from = directory.recovered_from(replica.topic_partition, offsets_and_logs[-1][0])
    for (base_offset, path), next_base_offset in zip(
        offsets_and_logs, next_base_offsets, strict=True
    ):
        yield SegmentFile(
            replica=replica,
            path=str(path),
            base_offset=base_offset,
            next_base_offset=next_base_offset,
            size=size_of(path),
            is_clean=directory.is_clean,
            is_recovered=recovered_from is not None
            and (next_base_offset is None or recovered_from < next_base_offset),
        )


def size_of(path: Path) -> int:
    """Size of a file in bytes; 0 if it is unknown: opening the file then reports the error."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def broker_of(log_dir: Path) -> int:
    """The directory's broker; ``UNKNOWN_BROKER`` where unknown."""
    meta = meta_of(log_dir)
    return UNKNOWN_BROKER if meta is None else meta.node_id


def refuse_logs_of_two_clusters(log_dirs: Iterable[Path]) -> None:
    """Checks that log directories are of one cluster, before replicas are compared.

    Raises:
        BadInputError: They are of two clusters; the message names a directory of each.
    """
    log_dir_metas = ((str(log_dir), meta_of(log_dir)) for log_dir in log_dirs)
    refuse_two_clusters(
        (log_dir, "" if meta is None else meta.cluster_id) for log_dir, meta in log_dir_metas
    )


def refuse_two_clusters(places_and_clusters: Iterable[tuple[str, str]]) -> None:
    """Checks that (place, cluster id) pairs are of one cluster; a place without an id fits any
    cluster.

    Raises:
        BadInputError: They are of two clusters.
    """
    log_dir_by_cluster: dict[str, str] = {}
    for log_dir, cluster_id in places_and_clusters:
        if cluster_id:
            log_dir_by_cluster.setdefault(cluster_id, log_dir)
    if len(log_dir_by_cluster) > 1:
        (cluster, log_dir), (other_cluster, other_log_dir), *_ = log_dir_by_cluster.items()
        raise BadInputError(
            f"{log_dir} is of cluster {cluster}, {other_log_dir} of cluster {other_cluster}:"
            " replicas of two clusters can't be compared, name the directories of one"
        )


def group_by_topic_id(
    replicas: Sequence[T], topic_id_of: Callable[[T], str | None]
) -> tuple[tuple[T, ...], ...]:
    """Replicas grouped by topic id; those without an id join the group if there is only one."""
    topic_ids = {topic_id_of(replica) for replica in replicas}
    if len(topic_ids - {None}) <= 1:
        return (tuple(replicas),)
    ordered_ids = sorted(topic_ids, key=lambda topic_id: topic_id or "")
    return tuple(
        tuple(replica for replica in replicas if topic_id_of(replica) == group_id)
        for group_id in ordered_ids
    )


# Finding


def _log_dirs_under(path: Path) -> tuple[Path, ...]:
    if not path.is_dir():
        raise BadInputError(f"{path} is no directory")
    if _partition_of_folder(path) is not None:
        return (path.parent,)
    if _is_log_dir(path):
        return (path,)
    log_dirs = tuple(
        sorted(
            subfolder
            for subfolder in path.iterdir()
            if subfolder.is_dir() and _is_log_dir(subfolder)
        )
    )
    if not log_dirs:
        raise BadInputError(
            f"{path} holds no log directory, and is none: expected "
            f"{names.FileName.META_PROPERTIES} or folders named TOPIC-PARTITION with segments"
        )
    return log_dirs


def _replicas_under(
    path: Path, topics: frozenset[str], on_problem: OnProblem, on_foreign_folder: OnProblem
) -> Iterator[Replica]:
    log_dirs = _log_dirs_under(path)
    named_partition = _partition_of_folder(path)
    if named_partition is not None:
        yield _make_replica(path.parent, broker_of(path.parent), named_partition, path)
        return
    for log_dir in log_dirs:
        broker = broker_of(log_dir)
        for directory in _replica_folders(log_dir, topics, on_problem, on_foreign_folder):
            yield _make_replica(log_dir, broker, directory.topic_partition, directory.path)


def _replica_folders(
    log_dir: Path, topics: frozenset[str], on_problem: OnProblem, on_foreign_folder: OnProblem
) -> tuple[PartitionDirectory, ...]:
    """The folders of replicas that can be listed; of other topics some, too."""
    try:
        folder_paths = sorted(log_dir.iterdir())
    except OSError as error:
        on_problem(f"{log_dir}: {error.strerror}; passed by")
        return ()
    name_starts = tuple(f"{topic}-" for topic in topics)
    for path in folder_paths:
        if topics and not path.name.startswith(name_starts):
            continue
        if PartitionDirectory.parse(path) is None:
            if PartitionDirectory.is_foreign(path):
                # A name with a line break would forge a line of the output.
                path_text = str(path).replace("\n", "\\n")
                on_foreign_folder(f"{path_text}{_FOREIGN_FOLDER}")
            continue
        reason = _listing_error(path)
        if reason:
            on_problem(f"{path}: {reason}; passed by")
    return tuple(
        directory
        for directory in PartitionDirectory.all_in(log_dir, with_tiered=True)
        if not _listing_error(directory.path)
    )


def _listing_error(path: Path) -> str:
    """Why a folder can't be listed; empty if it can."""
    try:
        next(path.iterdir(), None)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _make_replica(
    log_dir: Path, broker_id: int, topic_partition: TopicPartition, path: Path
) -> Replica:
    return Replica(
        log_dir=str(log_dir),
        broker=broker_id,
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        path=str(path),
    )


def _partition_of_folder(path: Path) -> TopicPartition | None:
    """The partition of a replica's folder that was given as a path, even of one that is being
    deleted.
    """
    directory = _directory_by_name(path)
    if directory is None or (path / names.FileName.META_PROPERTIES).is_file():
        return None
    try:
        has_segments = bool(replica_files(path).segments)
    except names.FileNameError:
        has_segments = True  # told where it is read
    return directory.topic_partition if has_segments else None


def _directory_by_name(path: Path) -> PartitionDirectory | None:
    """The partition that a folder is named for, even if it is being deleted."""
    unserved_folder = UnservedFolder.parse(path)
    if unserved_folder is None:
        return PartitionDirectory.parse(path)
    return PartitionDirectory(topic_partition=unserved_folder.topic_partition, path=path)


def _unserved_folders_in(log_dir: Path) -> list[UnservedFolder]:
    return [
        folder
        for path in sorted(log_dir.iterdir())
        if (folder := UnservedFolder.parse(path)) is not None
    ]


def _is_log_dir(path: Path) -> bool:
    if (path / names.FileName.META_PROPERTIES).is_file():
        return True
    # A log directory called ``broker-1`` looks like a replica's folder from above.
    return any(
        subfolder.is_dir()
        and PartitionDirectory.parse(subfolder) is not None
        and not (subfolder / names.FileName.META_PROPERTIES).is_file()
        and _has_files_of_kafka(subfolder)
        for subfolder in path.iterdir()
    )


def _has_files_of_kafka(folder: Path) -> bool:
    """Whether a folder with a replica's name has files of Kafka; ``notes-2`` may be any folder."""
    try:
        return any(names.PartitionDirectory.has_files_named(path.name) for path in folder.iterdir())
    except OSError:
        return True  # told where it is read
