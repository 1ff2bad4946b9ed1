"""Replicas read on this machine by the compiled walk of Spark's workers (``segment_reading``): what
each has open at its end, and what came to light on the way.

Many are read in a process for each core: what Spark's workers do (``read_by_spark``), in processes
that take no time to start. Large segments are read in sections there. A replica of which a section
can't be judged apart is read again as a whole. The coordinators' logs are read beside them, as
their records are decoded one by one, which takes longest.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ProcessPoolExecutor
from typing import Final

import msgspec
import numpy as np

from txnsim.log.producer_state import SnapshotEntry
from txnsim.pipeline.forensics.coordinator_entries import Entry, TxnRecord
from txnsim.pipeline.forensics.coordinator_log import Replayed, replayed
from txnsim.pipeline.forensics.open_transactions import Fragment, open_after
from txnsim.pipeline.forensics.read_here import ReadHere
from txnsim.pipeline.forensics.read_notes import Note, NoteKind, joined
from txnsim.pipeline.forensics.replica_state import ReplicaState
from txnsim.pipeline.forensics.segment_reading import walked
from txnsim.pipeline.forensics.verdicts import OpenTxn
from txnsim.pipeline.planning import in_tasks
from txnsim.pipeline.scan import kernel_fragments as fk
from txnsim.pipeline.scan.examining import Examiner
from txnsim.pipeline.scan.pieces import Ints
from txnsim.pipeline.scan.segments import SegmentFile

PROCESSES_MIN_BYTES: Final = 64 << 20
"""Less is read in this process: others would take as long to load the compiled walk."""

Piece = Ints | Note
"""What producers did in a stretch of a log (``walk.fragment_rows``), or what came to light there.
"""


class LogRead(msgspec.Struct, frozen=True, kw_only=True):
    """A replica of ``__transaction_state`` that was read."""

    replayed: Replayed
    problems: tuple[str, ...]


class _PackedLog(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The same on its way between processes: each decision once."""

    entries: tuple[tuple[TxnRecord, int], ...]
    """(newest record, offset of the decision or -1)."""
    rest: Replayed
    """Without entries."""
    problems: tuple[str, ...]


def pack_log(state: ReplicaState, producer_ids: Set[int] | None = None) -> bytes:
    """Replay a replica of ``__transaction_state`` for another process, which unpacks it.

    Args:
        state: The replica.
        producer_ids: What concerns these is enough (``Replayed.concerning``); None: all.
    """
    problems: list[str] = []
    found = replayed(state, problems.append)
    if producer_ids is not None:
        found = found.concerning(producer_ids)
    packed = _PackedLog(
        entries=tuple(
            (one.newest, -1 if one.decision is None else one.decision.offset)
            for one in found.entries
        ),
        rest=msgspec.structs.replace(found, entries=()),
        problems=tuple(problems),
    )
    return msgspec.msgpack.encode(packed)


def unpack_log(data: bytes) -> LogRead:
    """What ``pack_log`` has packed."""
    packed = msgspec.msgpack.decode(data, type=_PackedLog)
    made = {one.offset: one for many in packed.rest.decisions.values() for one in many}
    entries = tuple(
        Entry(newest=newest, decision=made.get(offset)) for newest, offset in packed.entries
    )
    found = msgspec.structs.replace(packed.rest, entries=entries)
    return LogRead(replayed=found, problems=packed.problems)


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """What processes have read."""

    replicas: tuple[tuple[ReplicaState, ReadHere], ...]
    logs: Mapping[str, LogRead]
    """Path of a replica of ``__transaction_state`` -> what was read there."""


def read_compiled(state: ReplicaState, examiner: Examiner | None = None) -> ReadHere:
    """Read what is left to read of a replica.

    Args:
        state: With segments that are left to read.
        examiner: A walk that has read other segments; its memory is used again.
    """
    return read_of(state, [found for _, found in walked(state.unread, examiner)])


def may_fork() -> bool:
    """Whether processes can be started that have all loaded: not beside other threads, as in
    a notebook, whose locks they would inherit, and not on macOS, whose libraries don't bear it.
    """
    has_fork = "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"
    return has_fork and threading.active_count() == 1


def read_in_processes(
    states: Sequence[ReplicaState],
    progress: Callable[[str], object],
    logs: Sequence[ReplicaState] = (),
) -> Read:
    """Read what is left to read of replicas, and coordinators' logs, where ``may_fork``.

    Args:
        states: With segments that are left to read.
        progress: Told how far it is.
        logs: Replicas of ``__transaction_state``.
    """
    cores = os.cpu_count() or 1
    largest_first = sorted(logs, key=_size_of, reverse=True)
    shares = in_tasks([one.unread for one in states], cores=cores, are_cut=True)
    tasks: tuple[Task, ...] = (*largest_first, *shares)
    pieces: dict[str, list[Piece]] = {one.replica.path: [] for one in states}
    logs_read: dict[str, LogRead] = {}
    with ProcessPoolExecutor(
        cores,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_begin,
        initargs=(tasks,),  # inherited: nothing of it is written and read
    ) as pool:
        for number, found in enumerate(pool.map(_done, range(len(tasks)))):
            progress(f"read part {number + 1} of {len(tasks)}")
            if isinstance(found, bytes):
                path = largest_first[number].replica.path
                logs_read[path] = unpack_log(found)
                continue
            for path, piece in found:
                pieces[path].append(piece)
    read = tuple((state, read_of(state, pieces.pop(state.replica.path))) for state in states)
    return Read(replicas=read, logs=logs_read)


Task = ReplicaState | tuple[SegmentFile, ...]
"""A replica of ``__transaction_state`` to be replayed, or segments to be walked over."""


class _Worker:
    """What a process has to do, and the memory that it uses again."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._examiner = Examiner()

    def done(self, number: int) -> bytes | list[tuple[str, Piece]]:
        """What came of a task: a log that was read, packed; or (path of the replica, what was
        found) in order.
        """
        task = self._tasks[number]
        if isinstance(task, ReplicaState):
            return pack_log(task)
        return [(segment.replica.path, found) for segment, found in walked(task, self._examiner)]


_worker: _Worker
"""Of this process."""


def _begin(tasks: Sequence[Task]) -> None:
    global _worker
    gc.freeze()  # the collector would touch, and so copy, all that this process shares
    _worker = _Worker(tasks)


def _done(number: int) -> bytes | list[tuple[str, Piece]]:
    return _worker.done(number)


def _size_of(log: ReplicaState) -> int:
    return sum(segment.size for segment in log.segments)


def read_of(state: ReplicaState, pieces: Sequence[Piece]) -> ReadHere:
    """What was read of a replica, put together; read again where a section can't be judged apart.

    Args:
        state: The replica.
        pieces: What was found in all that was left to read, in any order.
    """
    notes = [one for one in pieces if isinstance(one, Note)]
    if any(one.kind is NoteKind.AGAIN for one in notes):
        return read_compiled(state)
    tables = [one for one in pieces if not isinstance(one, Note)]
    return ReadHere(
        opened=_opened(state.seeds, tables),
        notes=joined(state.unread[0].base_offset, notes),
    )


def _opened(seeds: Mapping[int, SnapshotEntry], tables: Sequence[Ints]) -> Mapping[int, OpenTxn]:
    """What is open at the end of a log (``open_after``): asked of those alone that had something
    open at the end of a piece.
    """
    asked = {entry.producer_id for entry in seeds.values() if entry.txn_first_offset >= 0}
    for table in tables:
        asked.update(table[table[:, fk.OPEN_OFFSET] >= 0, fk.PRODUCER].tolist())
    if not asked:
        return {}
    ids = np.array(list(asked), dtype=np.int64)
    return open_after(
        {one: entry for one, entry in seeds.items() if one in asked},
        [
            {
                one.producer_id: one
                for one in fragments_of(table[np.isin(table[:, fk.PRODUCER], ids)])
            }
            for table in tables
        ],
    )


def fragments_of(table: Ints) -> Iterator[Fragment]:
    """What producers did, of the walk's table (``walk.fragment_rows``). A time or an epoch may be
    negative, so only the offset tells whether a transaction is open.
    """
    for row in table.tolist():
        if row[fk.PRODUCER] >= 0:
            markers = row[fk.COMMITS] + row[fk.ABORTS]
            is_open = row[fk.OPEN_OFFSET] >= 0
            yield Fragment(
                producer_id=row[fk.PRODUCER],
                first_offset=row[fk.FIRST_OFFSET],
                markers=markers,
                coordinator_epoch=row[fk.COORDINATOR_EPOCH] if markers else None,
                open_offset=row[fk.OPEN_OFFSET] if is_open else None,
                open_timestamp_ms=row[fk.OPEN_TIMESTAMP] if is_open else None,
                open_last_timestamp_ms=row[fk.OPEN_LAST_TIMESTAMP] if is_open else None,
                open_epoch=row[fk.OPEN_EPOCH] if is_open else None,
            )
