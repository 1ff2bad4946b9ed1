"""Installs replicas in the log directory of a stopped broker, in place of its replicas of the same
name.

The broker accepts them as its own: it created the folder with the topic, and the folder's
``partition.metadata``, which has the topic id, stays. Leaders have other epochs there, so all
batches get leader epoch 0, which no later one contradicts; that field is the broker's own, and no
CRC covers it. The checkpoints of the directory are updated. Kafka's counterparts:
LogManager.loadLogs, DefaultRecordBatch.setPartitionLeaderEpoch.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.files import whole, working_in
from txnsim.storage import checkpoints, names
from txnsim.storage.disks import StoredFolder, find_disks
from txnsim.storage.lock import LOCK_NAME, is_in_use
from txnsim.storage.log_file import read_log_file
from txnsim.storage.metadata_files import MetaProperties
from txnsim.storage.metadata_log import StoredMetadata
from txnsim.storage.regular_file import RegularFile
from txnsim.types import TopicPartition
from txnsim.wire.batch import assign

EPOCH: Final = 0
"""Leader epoch of all installed batches."""
_NUMBERED: Final = re.compile(r"\d{20}\..+")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A replica's folder to install a replica in."""

    log_dir: Path
    replica: names.PartitionDirectory
    is_empty: bool

    @classmethod
    def found_in(cls, log_dirs: Sequence[Path], topics: Iterable[str]) -> tuple[Target, ...]:
        """The folders of these topics in the log directories of stopped brokers.

        Raises:
            ConfigError: A path is no log directory, a broker runs on it, or a topic or one of its
                replicas is missing: an empty replica might lead, and the others would follow it.
            OSError: A file can't be read.
        """
        targets = []
        topics_asked = frozenset(topics)
        for log_dir in log_dirs:
            if not (log_dir / names.FileName.META_PROPERTIES).is_file():
                raise ConfigError(f"{log_dir} is no log directory: meta.properties is missing")
            if is_in_use(log_dir):
                raise ConfigError(
                    f"{log_dir / LOCK_NAME}: a broker runs on that directory; stop it"
                )
            targets += [
                cls(log_dir=log_dir, replica=directory, is_empty=_is_empty(directory.path))
                for directory in names.PartitionDirectory.all_in(log_dir)
                if directory.topic_partition.topic in topics_asked
            ]
        for topic in sorted(
            topics_asked - {target.replica.topic_partition.topic for target in targets}
        ):
            raise ConfigError(
                f"{', '.join(map(str, log_dirs))}: no replica of topic {topic} is there; create it"
                " on that cluster first, with as many partitions"
            )
        _check_replicas(log_dirs, targets)
        return tuple(targets)


class InstalledReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that was installed in a folder."""

    directory: str
    files: int
    bytes: int
    """Size of its segments in bytes."""
    end_offset: int


def _check_replicas(log_dirs: Sequence[Path], targets: Sequence[Target]) -> None:
    """Checks that every replica that the metadata log knows is among the targets."""
    replicas_there = {
        (_meta(target.log_dir).node_id, target.replica.topic_partition) for target in targets
    }
    copies = (
        StoredMetadata.read(log_dir / StoredMetadata.FOLDER, cluster_id=_meta(log_dir).cluster_id)
        for log_dir in log_dirs
    )
    newest = max(
        (metadata for metadata in copies if metadata is not None),
        key=lambda metadata: metadata.age,
        default=None,
    )
    if newest is None:
        return
    for where in sorted({target.replica.topic_partition for target in targets}):
        partition = newest.image.partition(where)
        for broker_id in () if partition is None else partition.replicas:
            if (broker_id, where) not in replicas_there:
                raise ConfigError(
                    f"{where}: it has a replica on broker {broker_id}, too, of which no folder is "
                    "in the directories given; empty as it is it might lead, and the records "
                    "would be cut off. Name its directory, and let it make the folder first"
                )


def _meta(log_dir: Path) -> MetaProperties:
    path = log_dir / names.FileName.META_PROPERTIES
    return MetaProperties.decode(RegularFile(path).text(), place=str(path))


def install(
    sources: Mapping[Path, Iterable[Target]],
    *,
    on_folder: Callable[[Target], object] = lambda _: None,
) -> tuple[InstalledReplica, ...]:
    """Install the replicas of other log directories in the target folders.

    Everything that needs disk space is written before anything is replaced.

    Raises:
        ConfigError: A checkpoint can't be written.
        OSError: Another file can't be read or written.
    """
    with ExitStack() as ready:
        prepared = []
        for source, targets in sources.items():
            stored = {
                folder.replica.topic_partition: folder
                for _, folder in find_disks([source]).all_folders()
            }
            for target in targets:
                on_folder(target)
                # Next to the log directory: a folder in it that is not a replica keeps a broker
                # from starting.
                fresh = tempfile.TemporaryDirectory(dir=target.log_dir.parent, prefix="txnsim-")
                prepared.append(
                    (
                        target,
                        stored[target.replica.topic_partition],
                        Path(ready.enter_context(fresh)),
                    )
                )
                _make(*prepared[-1][1:])
        _note([(target, source) for target, source, _ in prepared], ready)
        return tuple(_move_into_place(*preparation) for preparation in prepared)


def _make(source: StoredFolder, fresh: Path) -> None:
    with working_in(fresh):
        for path in sorted(source.replica.path.iterdir()):
            if path.suffix == names.Suffix.LOG:
                _write(_of_epoch(path), fresh / path.name)
            elif _NUMBERED.fullmatch(path.name):
                _write([RegularFile(path).read()], fresh / path.name)
        first_base = names.Suffix.LOG.files_in(source.replica.path)[0][0]
        start = max(first_base, source.noted.log_start_offset)
        is_written = source.noted.recovery_point > start
        epochs = checkpoints.encode_leader_epochs([(EPOCH, start)] if is_written else [])
        _write([epochs.encode()], fresh / names.FileName.LEADER_EPOCHS)


def _move_into_place(target: Target, source: StoredFolder, fresh: Path) -> InstalledReplica:
    folder = target.replica.path
    for path in sorted(folder.iterdir()):
        if _NUMBERED.fullmatch(path.name):
            path.unlink()
    for path in sorted(fresh.iterdir()):
        shutil.move(path, folder / path.name)
    return InstalledReplica(
        directory=str(folder),
        files=sum(1 for path in folder.iterdir() if path.is_file()),
        bytes=source.size,
        end_offset=source.noted.recovery_point,
    )


def _of_epoch(segment: Path) -> Iterator[bytes]:
    for stored in read_log_file(segment, on_torn=lambda _: None, check_crc=False):
        yield assign(stored.data, base_offset=stored.header.base_offset, leader_epoch=EPOCH)


def _write(parts: Iterable[bytes], target: Path) -> None:
    with target.open("wb") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())


def _note(installed: Sequence[tuple[Target, StoredFolder]], ready: ExitStack) -> None:
    """Write the directories' checkpoints, which take effect when the stack ends: their old values
    belong to the replaced logs.
    """
    values: defaultdict[Path, dict[TopicPartition, int | None]] = defaultdict(dict)
    for target, source in installed:
        noted = source.noted
        for name, offset in (
            (names.FileName.HIGH_WATERMARKS, source.high_watermark),
            (names.FileName.RECOVERY_POINTS, noted.recovery_point),
            (names.FileName.LOG_STARTS, noted.log_start_offset or None),
            (names.FileName.CLEANER_OFFSETS, noted.cleaned_until),
        ):
            values[target.log_dir / name][target.replica.topic_partition] = offset
    for path, several in values.items():
        text = RegularFile(path).text() if path.exists() else ""
        offsets = {**checkpoints.decode_offsets(text, place=str(path)), **several}
        known_offsets = {target: offset for target, offset in offsets.items() if offset is not None}
        _write(
            [checkpoints.encode_offsets(known_offsets).encode()], ready.enter_context(whole(path))
        )


def _is_empty(folder: Path) -> bool:
    return not any(path.stat().st_size for _, path in names.Suffix.LOG.files_in(folder))
