"""Replicas' folders of tests, unpacked from the archive that users are sent."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from txnsim.log.partition_log import PartitionLog
from txnsim.storage.lock import LOCK_NAME
from txnsim.storage.log_dir import ReplicaCut, log_dir_files_in_steps, replica_files_in_steps
from txnsim.storage.log_file import TornTail, read_log_file
from txnsim.storage.metadata_files import MetaProperties
from txnsim.storage.stored_file import tar_of
from txnsim.types import TopicPartition
from txnsim.wire.codec import run_to_end


def write_partition(directory: Path, log: PartitionLog, *, topic_id: uuid.UUID) -> None:
    """Write a replica's folder from the current log."""
    replica_files = run_to_end(replica_files_in_steps(ReplicaCut.of_log(log, topic_id=topic_id)))
    archive = b"".join(tar_of(replica_files, modified_ms=0))
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(directory, filter="data")


def sound_batches(path: Path) -> tuple[list[bytes], TornTail | None]:
    """All sound batches of a segment, and the torn tail that a broker would cut off."""
    torn_tails: list[TornTail] = []
    batches = [batch.batch_bytes for batch in read_log_file(path, on_torn=torn_tails.append)]
    return batches, torn_tails[0] if torn_tails else None


def write_disk(
    directory: Path,
    logs: Mapping[tuple[str, int], PartitionLog],
    *,
    node_id: int = 1,
    cluster_id: str = "abc",
    topic_ids: Mapping[str, uuid.UUID] | None = None,
) -> None:
    """A broker's log directory with these logs, as a stop in order leaves it."""
    known_ids = topic_ids or {}
    replicas = []
    for (topic, partition), log in logs.items():
        log.topic_partition = TopicPartition(topic, partition)
        replicas.append(
            ReplicaCut.of_log(
                log, topic_id=known_ids.get(topic, uuid.uuid5(uuid.NAMESPACE_OID, topic))
            )
        )
    meta = MetaProperties(
        cluster_id=cluster_id,
        node_id=node_id,
        directory_id=uuid.uuid5(uuid.NAMESPACE_OID, str(directory)),
    )
    directory.mkdir(parents=True, exist_ok=True)
    files = run_to_end(log_dir_files_in_steps(replicas, meta, broker_epoch=1))
    archive = b"".join(tar_of(files, modified_ms=0))
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar_file:
        tar_file.extractall(directory, filter="data")


@contextmanager
def hold_directory(directory: Path) -> Iterator[None]:
    """Hold a log directory's lock in another process while the block runs, as a running broker
    does.
    """
    program = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(directory / LOCK_NAME)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate()
