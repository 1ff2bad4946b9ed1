"""A replica read in this process by the compiled walk of Spark's workers (``segment_reading``):
what it has open at its end, and what came to light on the way.
"""

from __future__ import annotations

from collections.abc import Iterator

from txnsim.pipeline.forensics.open_transactions import Fragment, open_after
from txnsim.pipeline.forensics.read_here import ReadHere
from txnsim.pipeline.forensics.read_notes import Note, joined
from txnsim.pipeline.forensics.replica_state import ReplicaState
from txnsim.pipeline.forensics.segment_reading import walked
from txnsim.pipeline.scan import kernel_fragments as fk
from txnsim.pipeline.scan.pieces import Ints


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
