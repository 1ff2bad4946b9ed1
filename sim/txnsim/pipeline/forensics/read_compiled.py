"""Replicas read on this machine by the compiled walk of Spark's workers (``segment_reading``): what
each has open at its end, and what came to light on the way.

Many are read in a process for each core: what Spark's workers do (``segment_job``), in processes
that take no time to start. Large segments are read in sections there. A replica of which a section
can't be judged apart is read again as a whole.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from txnsim.pipeline.forensics.open_transactions import Fragment, open_after
from txnsim.pipeline.forensics.read_here import ReadHere
from txnsim.pipeline.forensics.read_notes import Note, NoteKind, joined
from txnsim.pipeline.forensics.replica_state import ReplicaState
from txnsim.pipeline.forensics.segment_reading import walked
from txnsim.pipeline.planning import in_tasks
from txnsim.pipeline.scan import kernel_fragments as fk
from txnsim.pipeline.scan.pieces import Ints
from txnsim.pipeline.scan.segments import SegmentFile

PROCESSES_MIN_BYTES: Final = 64 << 20
"""Less is read in this process: others would take as long to load the compiled walk."""

Piece = dict[int, Fragment] | Note
"""What producers did in a stretch of a log, by their ids; or what came to light there."""


def read_compiled(state: ReplicaState) -> ReadHere:
    """Read what is left to read of a replica.

    Args:
        state: With segments that are left to read.
    """
    notes: list[Note] = []
    pieces: list[dict[int, Fragment]] = []
    for _, found in walked(state.unread):
        if isinstance(found, Note):
            notes.append(found)
        else:
            pieces.append({one.producer_id: one for one in fragments_of(found)})
    return ReadHere(
        opened=open_after(state.seeds, pieces),
        notes=joined(state.unread[0].base_offset, notes),
    )


def may_fork() -> bool:
    """Whether processes can be started that have all loaded: not beside other threads, as in
    a notebook, whose locks they would inherit, and not on macOS, whose libraries don't bear it.
    """
    has_fork = "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"
    return has_fork and threading.active_count() == 1


def read_in_processes(
    states: Sequence[ReplicaState], progress: Callable[[str], object]
) -> Iterator[tuple[ReplicaState, ReadHere]]:
    """Read what is left to read of replicas, where ``may_fork``.

    Args:
        states: With segments that are left to read.
        progress: Told how far it is.
    """
    cores = os.cpu_count() or 1
    tasks = in_tasks([one.unread for one in states], cores=cores, are_cut=True)
    pieces: dict[str, list[Piece]] = {one.replica.path: [] for one in states}
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("fork")) as pool:
        for number, found in enumerate(pool.map(_read, tasks), 1):
            progress(f"read part {number} of {len(tasks)}")
            for path, piece in found:
                pieces[path].append(piece)
    for state in states:
        yield state, _read_of(state, pieces.pop(state.replica.path))


def _read_of(state: ReplicaState, pieces: Sequence[Piece]) -> ReadHere:
    notes = [one for one in pieces if isinstance(one, Note)]
    if any(one.kind is NoteKind.AGAIN for one in notes):
        return read_compiled(state)
    fragments = [one for one in pieces if not isinstance(one, Note)]
    return ReadHere(
        opened=open_after(state.seeds, fragments),
        notes=joined(state.unread[0].base_offset, notes),
    )


def _read(segments: tuple[SegmentFile, ...]) -> list[tuple[str, Piece]]:
    """(path of the replica, what was found), in order."""
    return [
        (
            segment.replica.path,
            found
            if isinstance(found, Note)
            else {one.producer_id: one for one in fragments_of(found)},
        )
        for segment, found in walked(segments)
    ]


def fragments_of(table: Ints) -> Iterator[Fragment]:
    """What producers did, of the walk's table (``walk.fragment_rows``)."""
    for row in table.tolist():
        if row[fk.PRODUCER] >= 0:
            yield Fragment(
                producer_id=row[fk.PRODUCER],
                first_offset=row[fk.FIRST_OFFSET],
                markers=row[fk.COMMITS] + row[fk.ABORTS],
                coordinator_epoch=_or_none(row[fk.COORDINATOR_EPOCH]),
                open_offset=_or_none(row[fk.OPEN_OFFSET]),
                open_timestamp_ms=_or_none(row[fk.OPEN_TIMESTAMP]),
                open_last_timestamp_ms=_or_none(row[fk.OPEN_LAST_TIMESTAMP]),
                open_epoch=_or_none(row[fk.OPEN_EPOCH]),
            )


def _or_none(value: int) -> int | None:
    return value if value >= 0 else None
