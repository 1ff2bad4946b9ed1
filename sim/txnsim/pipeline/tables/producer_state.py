"""The table ``producer_state``: the producers of a partition as each snapshot has them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from txnsim.errors import CorruptLogRecordError
from txnsim.log.producer_state import SnapshotEntry
from txnsim.pipeline.scan.segments import Replica
from txnsim.pipeline.schemas import ProducerRow
from txnsim.pipeline.tables.rows import Job, Rows, of_replica, of_structs, or_none
from txnsim.storage import producer_snapshot
from txnsim.storage.regular_file import read_regular
from txnsim.storage.replica_files import replica_files


def read(replica: Replica, job: Job) -> Iterator[Rows]:
    """The rows of a replica.

    Raises:
        OSError: The folder can't be read.
    """
    found = (
        row
        for row in _rows(Path(replica.path))
        if job.producer_ids is None or row.producer_id in job.producer_ids
    )
    return of_structs(found, partial(of_replica, replica))


def _rows(folder: Path) -> Iterator[ProducerRow]:
    snapshots = replica_files(folder).snapshots
    for offset, path in snapshots:
        try:
            entries = producer_snapshot.decode(read_regular(path))
        except (OSError, CorruptLogRecordError):
            continue  # the table of errors tells; a broker goes by an older one then
        for entry in entries:
            yield _row(entry, offset, is_last=offset == snapshots[-1][0])


def _row(entry: SnapshotEntry, offset: int, *, is_last: bool) -> ProducerRow:
    has_data = entry.last_offset >= 0
    return ProducerRow(
        snapshot_offset=offset,
        is_last=is_last,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence if has_data else None,
        last_offset=entry.last_offset if has_data else None,
        offset_delta=entry.offset_delta if has_data else None,
        last_timestamp_ms=or_none(entry.timestamp),
        coordinator_epoch=or_none(entry.coordinator_epoch),
        open_offset=or_none(entry.txn_first_offset),
    )
