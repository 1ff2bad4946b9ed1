"""What ``read_compiled`` reads in processes of this machine, read on Spark's workers: segments and
coordinators' logs, task by task. What was found in a replica comes together in one task, and only
what is open there and what came to light goes to the driver.

It does not use the data source. The tables ``fragments`` and ``errors`` would be two walks. And for
each read Spark starts Python processes that plan it; their imports take longer than the search
itself (``tasks``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa

from txnsim.pipeline.forensics.open_transactions import of_snapshot
from txnsim.pipeline.forensics.read_compiled import (
    LogRead,
    Piece,
    pack_log,
    read_of,
    unpack_log,
)
from txnsim.pipeline.forensics.read_here import ReadHere
from txnsim.pipeline.forensics.read_notes import Note
from txnsim.pipeline.forensics.replica_state import ReplicaState
from txnsim.pipeline.forensics.segment_reading import walked
from txnsim.pipeline.forensics.verdicts import OpenTxn
from txnsim.pipeline.planning import Share, in_tasks
from txnsim.pipeline.scan import kernel_fragments as fk
from txnsim.pipeline.scan.pieces import Ints
from txnsim.pipeline.stores.mirror import carried, carry
from txnsim.pipeline.tasks import arrow_schema, on_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECES: Final = "path string, fragments binary, note binary"
"""Of the replica with this path: rows of ``walk.fragment_rows``, or what came to light."""
READ: Final = "path string, data binary"


def read_replicas(
    spark: SparkSession, states: Sequence[ReplicaState]
) -> Iterator[tuple[ReplicaState, ReadHere]]:
    """Read what is left to read of replicas, in one job, as starting a second one costs more than
    what it would do. Large segments are read in sections.

    Args:
        spark: The session.
        states: With segments that are left to read.
    """
    cores = spark.sparkContext.defaultParallelism
    tasks = in_tasks([one.unread for one in states], cores=cores, are_cut=True)
    shares = [Share(segments=task) for task in tasks]
    packed = {one.replica.path: msgspec.msgpack.encode(_light(one)) for one in states}
    stores = carried()

    def put_together(rows: pa.Table) -> pa.Table:
        carry(stores)
        path = rows["path"][0].as_py()
        state = msgspec.msgpack.decode(packed[path], type=ReplicaState)
        read = read_of(state, [_piece(row) for row in rows.to_pylist()])
        return pa.Table.from_batches([_packed(path, msgspec.msgpack.encode(read))])

    pieces = on_workers(spark, shares, Share, _walk, PIECES)
    found = {
        row.path: msgspec.msgpack.decode(row.data, type=ReadHere)
        for row in pieces.groupBy("path").applyInArrow(put_together, READ).collect()
    }
    for state in states:
        read = found.get(state.replica.path) or read_of(state, ())
        yield state, _with_epochs(read, state)


def read_logs(
    spark: SparkSession, states: Sequence[ReplicaState], producer_ids: Set[int]
) -> Mapping[str, LogRead]:
    """Replay coordinators' logs, as far as some producers are concerned.

    Args:
        spark: The session.
        states: Replicas of ``__transaction_state``.
        producer_ids: Those with an open transaction.

    Returns:
        Path of a replica -> what was read there.
    """

    def replay(state: ReplicaState) -> Iterator[pa.RecordBatch]:
        yield _packed(state.replica.path, pack_log(state, producer_ids))

    read = on_workers(spark, states, ReplicaState, replay, READ)
    return {row.path: unpack_log(row.data) for row in read.collect()}


def _light(state: ReplicaState) -> ReplicaState:
    """With only what is needed to join the results."""
    seeds = {one: entry for one, entry in state.seeds.items() if entry.txn_first_offset >= 0}
    return msgspec.structs.replace(state, segments=(), seeds=seeds)


def _with_epochs(read: ReadHere, state: ReplicaState) -> ReadHere:
    """With the coordinator's epoch of those that only had a marker below the snapshot."""

    def dated(txn: OpenTxn) -> OpenTxn:
        seed = state.seeds.get(txn.producer_id)
        if txn.coordinator_epoch is not None or seed is None:
            return txn
        epoch = of_snapshot(seed).coordinator_epoch
        return msgspec.structs.replace(txn, coordinator_epoch=epoch)

    opened = {producer_id: dated(txn) for producer_id, txn in read.opened.items()}
    return msgspec.structs.replace(read, opened=opened)


def _walk(share: Share) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(PIECES)
    for segment, found in walked(share.segments):
        row: dict[str, str | bytes] = {"path": segment.replica.path}
        if isinstance(found, Note):
            row["note"] = msgspec.msgpack.encode(found)
        else:
            row["fragments"] = _that_matter(found).tobytes()
        yield pa.RecordBatch.from_pylist([row], schema=schema)


def _that_matter(table: Ints) -> Ints:
    """The producers that began or ended a transaction."""
    markers = table[:, fk.COMMITS] + table[:, fk.ABORTS]
    found: Ints = table[(table[:, fk.OPEN_OFFSET] >= 0) | (markers > 0)]
    return found


def _piece(row: Mapping[str, bytes | None]) -> Piece:
    note, fragments = row["note"], row["fragments"]
    if note is not None:
        return msgspec.msgpack.decode(note, type=Note)
    return np.frombuffer(fragments or b"", dtype=np.int64).reshape(-1, fk.FRAGMENT_COLUMNS)


def _packed(path: str, data: bytes) -> pa.RecordBatch:
    row = {"path": path, "data": data}
    return pa.RecordBatch.from_pylist([row], schema=arrow_schema(READ))
