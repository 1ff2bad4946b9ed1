"""The table ``leader_epochs``: where each leader began to write."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from txnsim.pipeline.scan.log_dirs import read_small, untold
from txnsim.pipeline.scan.segments import Replica
from txnsim.pipeline.schemas import LeaderEpochRow
from txnsim.pipeline.tables.rows import Job, Rows, of_replica, of_structs
from txnsim.storage import checkpoints, names


def read(replica: Replica, job: Job) -> Iterator[Rows]:
    """The rows of a replica."""
    del job
    return of_structs(_rows(Path(replica.path)), partial(of_replica, replica))


def _rows(folder: Path) -> Iterator[LeaderEpochRow]:
    path = folder / names.LEADER_EPOCHS_NAME
    # Of one that can't be read the table of errors tells.
    for epoch, start_offset in read_small(path, checkpoints.decode_leader_epochs, untold) or ():
        yield LeaderEpochRow(leader_epoch=epoch, start_offset=start_offset)
