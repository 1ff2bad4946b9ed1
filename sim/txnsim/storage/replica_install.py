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
from txnsim.files import place_when_whole, working_in
from txnsim.storage import checkpoints, names
from txnsim.storage.disks import StoredFolder, find_disks
from txnsim.storage.lock import LOCK_NAME, is_in_use
from txnsim.storage.log_file import read_log_file
from txnsim.storage.metadata_files import MetaProperties
from txnsim.storage.metadata_log import StoredMetadata
from txnsim.storage.regular_file import RegularFile
from txnsim.types import TopicPartition
from txnsim.wire.batch import assign

INSTALLED_EPOCH: Final = 0
"""Leader epoch of all installed batches."""
_OFFSET_FILE_RE: Final = re.compile(r"\d{20}\..+")


class InstallTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A replica's folder to install a replica in."""

    log_dir: Path
    replica: names.PartitionDirectory
    is_empty: bool

    @classmethod
    def find_in(cls, log_dirs: Sequence[Path], topics: Iterable[str]) -> tuple[InstallTarget, ...]:
        """The folders of these topics in the log directories of stopped brokers.

        Raises:
            ConfigError: A path is no log directory, a broker runs on it, or a topic or one of its
                replicas is missing: an empty replica might lead, and the others would follow it.
            OSError: A file can't be read.
        """
        install_targets = []
        topics_asked = frozenset(topics)
        for log_dir in log_dirs:
            if not (log_dir / names.FileName.META_PROPERTIES).is_file():
                raise ConfigError(f"{log_dir} is no log directory: meta.properties is missing")
            if is_in_use(log_dir):
                raise ConfigError(
                    f"{log_dir / LOCK_NAME}: a broker runs on that directory; stop it"
                )
            install_targets += [
                cls(log_dir=log_dir, replica=directory, is_empty=_is_empty(directory.path))
                for directory in names.PartitionDirectory.all_in(log_dir)
                if directory.topic_partition.topic in topics_asked
            ]
        for topic in sorted(
            topics_asked - {target.replica.topic_partition.topic for target in install_targets}
        ):
            raise ConfigError(
                f"{', '.join(map(str, log_dirs))}: no replica of topic {topic} is there; create it"
                " on that cluster first, with as many partitions"
            )
        _check_replicas(log_dirs, install_targets)
        return tuple(install_targets)


class InstalledReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that was installed in a folder."""

    directory: str
    files: int
    bytes: int
    """Size of its segments in bytes."""
    end_offset: int


def _check_replicas(log_dirs: Sequence[Path], install_targets: Sequence[InstallTarget]) -> None:
    """Checks that every replica that the metadata log knows is among the targets."""
    target_replicas = {
        (_meta_properties(target.log_dir).node_id, target.replica.topic_partition)
        for target in install_targets
    }
    metadata_copies = (
        StoredMetadata.read(
            log_dir / StoredMetadata.FOLDER, cluster_id=_meta_properties(log_dir).cluster_id
        )
        for log_dir in log_dirs
    )
    newest_metadata = max(
        (metadata for metadata in metadata_copies if metadata is not None),
        key=lambda metadata: metadata.age,
        default=None,
    )
    if newest_metadata is None:
        return
    for topic_partition in sorted({target.replica.topic_partition for target in install_targets}):
        partition = newest_metadata.image.partition(topic_partition)
        for broker_id in () if partition is None else partition.replicas:
            if (broker_id, topic_partition) not in target_replicas:
                raise ConfigError(
                    f"{topic_partition}: it has a replica on broker {broker_id}, too, of which no "
                    "folder is in the directories given; empty as it is it might lead, and the "
                    "records would be cut off. Name its directory, and let it make the folder first"
                )


def _meta_properties(log_dir: Path) -> MetaProperties:
    properties_path = log_dir / names.FileName.META_PROPERTIES
    return MetaProperties.decode(
        RegularFile(properties_path).text(), error_prefix=str(properties_path)
    )


def install(
    targets_by_source: Mapping[Path, Iterable[InstallTarget]],
    *,
    on_folder: Callable[[InstallTarget], object] = lambda _: None,
) -> tuple[InstalledReplica, ...]:
    """Install the replicas of other log directories in the target folders.

    Everything that needs disk space is written before anything is replaced.

    Raises:
        ConfigError: A checkpoint can't be written.
        OSError: Another file can't be read or written.
    """
    with ExitStack() as cleanup_stack:
        prepared_replicas = []
        for source_dir, targets in targets_by_source.items():
            folders_by_partition = {
                folder.replica.topic_partition: folder
                for _, folder in find_disks([source_dir]).all_folders()
            }
            for target in targets:
                on_folder(target)
                # Next to the log directory: a folder in it that is not a replica keeps a broker
                # from starting.
                new_folder = tempfile.TemporaryDirectory(
                    dir=target.log_dir.parent, prefix="txnsim-"
                )
                prepared_replicas.append(
                    (
                        target,
                        folders_by_partition[target.replica.topic_partition],
                        Path(cleanup_stack.enter_context(new_folder)),
                    )
                )
                _write_replica(*prepared_replicas[-1][1:])
        _write_checkpoints(
            [(target, source_dir) for target, source_dir, _ in prepared_replicas], cleanup_stack
        )
        return tuple(_move_into_place(*prepared_replica) for prepared_replica in prepared_replicas)


def _write_replica(source: StoredFolder, new_folder: Path) -> None:
    with working_in(new_folder):
        for path in sorted(source.replica.path.iterdir()):
            if path.suffix == names.Suffix.LOG:
                _write_synced(_batches_with_epoch(path), new_folder / path.name)
            elif _OFFSET_FILE_RE.fullmatch(path.name):
                _write_synced([RegularFile(path).read()], new_folder / path.name)
        first_offset = names.Suffix.LOG.files_in(source.replica.path)[0][0]
        start_offset = max(first_offset, source.checkpointed.log_start_offset)
        has_records = source.checkpointed.recovery_point > start_offset
        epochs_text = checkpoints.encode_leader_epochs(
            [(INSTALLED_EPOCH, start_offset)] if has_records else []
        )
        _write_synced([epochs_text.encode()], new_folder / names.FileName.LEADER_EPOCHS)


def _move_into_place(
    target: InstallTarget, source: StoredFolder, new_folder: Path
) -> InstalledReplica:
    folder = target.replica.path
    for path in sorted(folder.iterdir()):
        if _OFFSET_FILE_RE.fullmatch(path.name):
            path.unlink()
    for path in sorted(new_folder.iterdir()):
        shutil.move(path, folder / path.name)
    return InstalledReplica(
        directory=str(folder),
        files=sum(1 for path in folder.iterdir() if path.is_file()),
        bytes=source.size_bytes,
        end_offset=source.checkpointed.recovery_point,
    )


def _batches_with_epoch(segment: Path) -> Iterator[bytes]:
    for stored_batch in read_log_file(segment, on_torn=lambda _: None, checks_crc=False):
        yield assign(
            stored_batch.batch_bytes,
            base_offset=stored_batch.header.base_offset,
            leader_epoch=INSTALLED_EPOCH,
        )


def _write_synced(content_parts: Iterable[bytes], path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(content_parts)
        file.flush()
        os.fsync(file.fileno())


def _write_checkpoints(
    installed: Sequence[tuple[InstallTarget, StoredFolder]], cleanup_stack: ExitStack
) -> None:
    """Write the directories' checkpoints, which take effect when the stack ends: their old values
    belong to the replaced logs.
    """
    offsets_by_file: defaultdict[Path, dict[TopicPartition, int | None]] = defaultdict(dict)
    for target, source in installed:
        checkpointed_offsets = source.checkpointed
        for checkpoint_name, offset in (
            (names.FileName.HIGH_WATERMARKS, source.high_watermark),
            (names.FileName.RECOVERY_POINTS, checkpointed_offsets.recovery_point),
            (names.FileName.LOG_STARTS, checkpointed_offsets.log_start_offset or None),
            (names.FileName.CLEANER_OFFSETS, checkpointed_offsets.cleaned_until),
        ):
            offsets_by_file[target.log_dir / checkpoint_name][target.replica.topic_partition] = (
                offset
            )
    for path, new_offsets in offsets_by_file.items():
        old_text = RegularFile(path).text() if path.exists() else ""
        offsets = {**checkpoints.decode_offsets(old_text, error_prefix=str(path)), **new_offsets}
        known_offsets = {target: offset for target, offset in offsets.items() if offset is not None}
        _write_synced(
            [checkpoints.encode_offsets(known_offsets).encode()],
            cleanup_stack.enter_context(place_when_whole(path)),
        )


def _is_empty(folder: Path) -> bool:
    return not any(path.stat().st_size for _, path in names.Suffix.LOG.files_in(folder))
