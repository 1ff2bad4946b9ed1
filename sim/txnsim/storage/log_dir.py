"""The log directory of a broker, as it leaves it when it stops in order: a folder per replica,
checkpoints of their offsets, whose directory it is.

Kafka's counterparts: LogManager.shutdown, CleanShutdownFileHandler, MetaPropertiesEnsemble.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from txnsim.log.partition_log import PartitionLog
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.storage.metadata_files import MetaProperties, encode_meta_properties
from txnsim.storage.partition_dir import partition_files
from txnsim.storage.stored_file import StoredFile

CLEAN_SHUTDOWN_VERSION: Final = 0


class StoredReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A replica in the directory."""

    log: PartitionLog
    topic_id: uuid.UUID


def log_dir_files(
    replicas: Iterable[StoredReplica], meta: MetaProperties, *, broker_epoch: int
) -> Iterator[StoredFile]:
    """The files of a log directory, with the logs as they are now.

    Args:
        replicas: The replicas in it.
        meta: Whose it is.
        broker_epoch: Epoch of the broker's life that ends here: the mark of a clean shutdown.
    """
    stored = sorted(replicas, key=lambda one: one.log.topic_partition)
    for one in stored:
        folder = names.directory_name(one.log.topic_partition)
        for file in partition_files(one.log, topic_id=one.topic_id):
            yield file.below(folder)
    logs = [one.log for one in stored]
    offsets = {
        names.HIGH_WATERMARKS_NAME: {log.topic_partition: log.high_watermark for log in logs},
        names.RECOVERY_POINTS_NAME: {log.topic_partition: log.log_end_offset for log in logs},
        # Only where it says more than the name of the oldest segment
        # (LogManager.checkpointLogStartOffsetsInDir).
        names.LOG_STARTS_NAME: {
            log.topic_partition: log.log_start_offset
            for log in logs
            if log.log_start_offset > log.local.segments.first_base_offset
        },
        names.CLEANER_OFFSETS_NAME: {
            log.topic_partition: log.local.cleaned_until
            for log in logs
            if log.local.cleaned_until is not None
        },
    }
    for name, noted in offsets.items():
        yield StoredFile.of(name, encode_offsets(noted).encode())
    yield StoredFile.of(names.META_PROPERTIES_NAME, encode_meta_properties(meta).encode())
    mark = {"version": CLEAN_SHUTDOWN_VERSION, "brokerEpoch": broker_epoch}
    yield StoredFile.of(names.CLEAN_SHUTDOWN_NAME, msgspec.json.encode(mark))
