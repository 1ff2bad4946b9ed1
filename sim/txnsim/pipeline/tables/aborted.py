"""The table ``aborted``: aborted transactions as the index of each segment has them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from txnsim.errors import CorruptLogRecordError
from txnsim.pipeline.scan.segments import Replica
from txnsim.pipeline.schemas import AbortedRow
from txnsim.pipeline.tables.rows import Job, Rows, of_file, of_structs
from txnsim.storage import names, txn_index
from txnsim.storage.regular_file import read_regular
from txnsim.storage.replica_files import replica_files


def read(replica: Replica, job: Job) -> Iterator[Rows]:
    """The rows of a replica: of all its ``.txnindex`` files, also where a segment is gone.

    Raises:
        OSError: The folder can't be read.
    """
    for base_offset, path in txn_indexes(Path(replica.path)):
        yield from of_structs(_rows(path, job), partial(of_file, replica, base_offset))


def txn_indexes(folder: Path) -> list[tuple[int, Path]]:
    """(base offset, path) of each index that counts, by offset.

    Raises:
        OSError: The folder can't be read.
    """
    alone = dict(names.numbered_files(folder, names.TXN_INDEX_SUFFIX))
    files = replica_files(folder).segments
    beside = {one.base_offset: one.txn_index for one in files if one.txn_index is not None}
    return sorted({**alone, **beside}.items())


def _rows(path: Path, job: Job) -> Iterator[AbortedRow]:
    try:
        for entry in txn_index.iter_entries(read_regular(path), place=str(path)):
            if job.producer_ids is None or entry.producer_id in job.producer_ids:
                yield AbortedRow(
                    producer_id=entry.producer_id,
                    first_offset=entry.first_offset,
                    marker_offset=entry.last_offset,
                    last_stable_offset=entry.last_stable_offset,
                )
    except (OSError, CorruptLogRecordError):
        return  # the table of errors tells of the rest
