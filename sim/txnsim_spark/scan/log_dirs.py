"""Reads the small files at the top of a log directory: they show its broker, whether that broker
stopped in order, and the offsets that it recorded for each replica.

A file that can't be read counts as missing here; the table ``errors`` reports it. Kafka's
counterparts: LogManager.loadLogs, MetaPropertiesEnsemble, OffsetCheckpointFile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from txnsim.errors import CorruptLogRecordError
from txnsim.storage import checkpoints, names
from txnsim.storage.metadata_files import MetaProperties, decode_partition_metadata
from txnsim.storage.regular_file import RegularFile
from txnsim.types import TopicPartition, uuid_text

T = TypeVar("T")
OnProblem = Callable[[str], object]
"""Called with each malformed file and its place."""


def ignore_problem(_problem: object) -> None:
    """Ignore a problem, which another reader reports, or which does not matter to the caller."""


class LogDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """The small files at the top of a log directory, without its replicas."""

    path: Path
    meta: MetaProperties | None
    is_clean: bool
    """Whether the broker was stopped in order, and not started since."""
    high_watermarks: Mapping[TopicPartition, int]
    log_starts: Mapping[TopicPartition, int]
    recovery_points: Mapping[TopicPartition, int] | None
    """None without a checkpoint file, as in a copy of replica folders only."""
    written_ms: tuple[tuple[str, int], ...] = ()
    """(file, modification time) of the files that show when the broker last ran."""

    @classmethod
    def read(cls, path: Path, on_problem: OnProblem = ignore_problem) -> LogDirectory:
        """Read the small files of a log directory.

        Args:
            path: The log directory.
            on_problem: Called with high watermarks and log starts that can't be read.
        """
        return cls(
            path=path,
            meta=meta_of(path),
            is_clean=(path / names.FileName.CLEAN_SHUTDOWN).is_file(),
            high_watermarks=_checkpoint_offsets(path / names.FileName.HIGH_WATERMARKS, on_problem)
            or {},
            log_starts=_checkpoint_offsets(path / names.FileName.LOG_STARTS, on_problem) or {},
            recovery_points=_checkpoint_offsets(
                path / names.FileName.RECOVERY_POINTS, ignore_problem
            ),
            written_ms=tuple(
                (str(checkpoint_file), modified_time_ms)
                for checkpoint_file in (path / file_name for file_name in _LAST_RUN_FILES)
                if (modified_time_ms := modified_ms(checkpoint_file)) >= 0
            ),
        )

    def recovered_from(
        self, topic_partition: TopicPartition, last_segment_offset: int
    ) -> int | None:
        """Offset from which a starting broker checks a replica; None where it does not.

        Args:
            topic_partition: The replica.
            last_segment_offset: The newest segment's number: used if no recovery point is recorded,
                since only the newest segment was being written.
        """
        if self.is_clean:
            return None
        if self.recovery_points is None:
            return last_segment_offset
        return self.recovery_points.get(topic_partition, 0)


_LAST_RUN_FILES: Final = (names.FileName.HIGH_WATERMARKS, names.FileName.CLEAN_SHUTDOWN)


def modified_ms(path: Path) -> int:
    """Modification time in milliseconds; -1 where unavailable."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return -1


def meta_of(path: Path) -> MetaProperties | None:
    """The content of meta.properties; None without a valid file."""
    file = path / names.FileName.META_PROPERTIES
    return read_small(file, MetaProperties.decode, ignore_problem)


def topic_id_of(folder: Path, on_problem: OnProblem = ignore_problem) -> str | None:
    """The id of a replica's topic in Kafka's form; None if no file of the folder has it."""
    directory = names.PartitionDirectory.parse(folder)
    if directory is not None and directory.topic_id is not None:
        return directory.topic_id
    file = folder / names.FileName.PARTITION_METADATA
    topic_id = read_small(file, decode_partition_metadata, on_problem)
    return None if topic_id is None else uuid_text(topic_id)


def _checkpoint_offsets(file: Path, on_problem: OnProblem) -> dict[TopicPartition, int] | None:
    return read_small(file, checkpoints.decode_offsets, on_problem)


def read_small(path: Path, decode: Callable[..., T], on_problem: OnProblem) -> T | None:
    """The decoded content of a file; None if it is missing, or malformed, which is reported."""
    try:
        file_text = RegularFile(path).read(is_small=True).decode(errors="replace")
        return decode(file_text, error_prefix=str(path))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, CorruptLogRecordError) as error:
        problem = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        on_problem(problem if problem.startswith(str(path)) else f"{path}: {problem}")
        return None
