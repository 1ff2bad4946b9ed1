"""Jobs of an ``engine`` that read replicas with the compiled walk, and replay coordinators' logs.
They are the same in this process, in a process for each core, and on Spark's workers. The results
for a replica's segments are joined in one place, and only its open transactions and irregularities
are passed on. Every CRC is computed. A broker that starts cuts a log off at the first damaged batch
behind its recovery point, and does not look at batches before that point: there a batch with a
wrong CRC is reported, and it counts. Kafka's counterparts: LogLoader.recoverLog,
UnifiedLog.rebuildProducerState.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.storage.regular_file import MOUNTS
from txnsim_spark.engine import EngineJob
from txnsim_spark.forensics._coordinator_log import ReplayedLog, replay_log
from txnsim_spark.forensics._open_transactions import (
    Fragment,
    fragment_of_snapshot,
    open_transactions_after,
)
from txnsim_spark.forensics._read_notes import Note, NoteKind, ReadNotes, join_notes
from txnsim_spark.forensics.replica_state import ReplicaMemory, ReplicaState, SegmentMemory
from txnsim_spark.forensics.verdicts import OpenTxn
from txnsim_spark.planning import divide_evenly
from txnsim_spark.scan import kernel_fragments as fk
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.sections import stands_alone
from txnsim_spark.scan.segment_examination import Examiner, SegmentExamination
from txnsim_spark.scan.segments import Replica, Section, SegmentFile

RowsOrNote = Ints | Note
"""Rows of what producers did in a part of a log (``walk.fragment_rows``), or an irregularity
there.
"""
SegmentStart = tuple[int, int]
"""Base offset of the segment, and start position in it."""
ReadPiece = tuple[SegmentStart, RowsOrNote]


class ReplicaRead(msgspec.Struct, frozen=True, kw_only=True):
    """The open transactions of a replica, and irregularities of its segments."""

    open_txn_by_producer: Mapping[int, OpenTxn]
    """Producer id -> its open transaction."""
    notes: ReadNotes
    segment_memories: Mapping[int, SegmentMemory] = {}
    """Base offset -> result that the next search need not read again (``since``)."""


class CoordinatorLogRead(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading a replica of ``__transaction_state``."""

    replayed: ReplayedLog
    problems: tuple[str, ...]


def log_job(
    log_states: Iterable[ReplicaState], producer_ids: Set[int]
) -> EngineJob[ReplicaState, CoordinatorLogRead]:
    """A job that replays replicas of ``__transaction_state``, as far as some producers are
    concerned (``ReplayedLog.restricted_to``).
    """
    largest_first = sorted(
        log_states, key=lambda log: sum(segment.size for segment in log.segments)
    )[::-1]
    return EngineJob(
        tasks=largest_first,
        read_task=partial(_replay_log, frozenset(producer_ids)),
        join_pieces=_only_log_read,
    )


def _replay_log(
    producer_ids: Set[int], state: ReplicaState
) -> Iterator[tuple[str, CoordinatorLogRead]]:
    problems: list[str] = []
    replayed_log = replay_log(state, problems.append).restricted_to(producer_ids)
    yield state.replica.path, CoordinatorLogRead(replayed=replayed_log, problems=tuple(problems))


def _only_log_read(_path: str, log_reads: Sequence[CoordinatorLogRead]) -> CoordinatorLogRead:
    (single_read,) = log_reads
    return single_read


def replica_job(
    replica_states: Sequence[ReplicaState], *, core_count: int
) -> EngineJob[tuple[SegmentFile, ...], ReplicaRead]:
    """A job that reads the unread parts of replicas; large segments in sections if several cores
    share them.
    """
    return EngineJob(
        tasks=divide_evenly(
            [state.unread_parts for state in replica_states],
            core_count=core_count,
            may_divide=core_count > 1,
        ),
        read_task=_read_pieces,
        join_pieces=partial(
            _join_replica, {state.replica.path: _joining_state(state) for state in replica_states}
        ),
    )


def _read_pieces(task: Sequence[SegmentFile]) -> Iterator[tuple[str, ReadPiece]]:
    for segment, piece in walk_segments(task):
        relevant_piece = piece if isinstance(piece, Note) else rows_with_transactions(piece)
        yield segment.replica.path, (section_key(segment), relevant_piece)


def _join_replica(
    state_by_path: Mapping[str, ReplicaState], path: str, pieces: Sequence[ReadPiece]
) -> ReplicaRead:
    return replica_read_of(state_by_path[path], pieces)


def _joining_state(state: ReplicaState) -> ReplicaState:
    """The replica's state with only what joining the results needs."""
    seed_by_producer = {
        producer_id: entry
        for producer_id, entry in state.seed_by_producer.items()
        if entry.txn_first_offset >= 0
    }
    return msgspec.structs.replace(state, segments=(), seed_by_producer=seed_by_producer)


def with_coordinator_epochs(replica_read: ReplicaRead, state: ReplicaState) -> ReplicaRead:
    """The result with coordinator epochs from the snapshot, for producers without a
    later marker.
    """

    def date_txn(txn: OpenTxn) -> OpenTxn:
        snapshot_entry = state.seed_by_producer.get(txn.producer_id)
        if txn.coordinator_epoch is not None or snapshot_entry is None:
            return txn
        epoch = fragment_of_snapshot(snapshot_entry).coordinator_epoch
        return msgspec.structs.replace(txn, coordinator_epoch=epoch)

    dated_txns = {
        producer_id: date_txn(txn) for producer_id, txn in replica_read.open_txn_by_producer.items()
    }
    return msgspec.structs.replace(replica_read, open_txn_by_producer=dated_txns)


def section_key(segment: SegmentFile) -> SegmentStart:
    """(base offset, start position) of a segment or section in its replica."""
    return segment.base_offset, 0 if segment.section is None else segment.section.start


def replica_read_of(state: ReplicaState, pieces: Sequence[ReadPiece]) -> ReplicaRead:
    """Join the results for the parts of a replica, given in any order."""
    known_pieces = (
        [] if state.memory is None else list(_known_pieces(state.memory, state.unread_segments))
    )
    pieces_by_segment = list(_ordered_pieces(state.unread_segments, [*known_pieces, *pieces]))
    all_pieces = [piece for _, pieces in pieces_by_segment for piece in pieces]
    return ReplicaRead(
        open_txn_by_producer=_merge_open_transactions(
            state.seed_by_producer, [piece for piece in all_pieces if not isinstance(piece, Note)]
        ),
        notes=join_notes(
            state.unread_segments[0].base_offset,
            [piece for piece in all_pieces if isinstance(piece, Note)],
        ),
        segment_memories={} if state.memory is None else dict(_segment_memories(pieces_by_segment)),
    )


def _known_pieces(
    replica_memory: ReplicaMemory, unread_segments: Sequence[SegmentFile]
) -> Iterator[ReadPiece]:
    """The results of the previous search, in the form of results of this one."""
    for segment in unread_segments:
        segment_memory = replica_memory.memory_of_segment(segment)
        if segment_memory is None:
            continue
        segment_key = (segment.base_offset, 0)
        yield segment_key, unpack_fragments(segment_memory.fragments)
        for gap_start_offset, gap_end in segment_memory.gaps:
            gap_note = Note(
                kind=NoteKind.GAP,
                file=segment.path,
                from_offset=gap_start_offset,
                to_offset=gap_end,
            )
            yield segment_key, gap_note


def _segment_memories(
    pieces_by_segment: Sequence[tuple[SegmentFile, Sequence[RowsOrNote]]],
) -> Iterator[tuple[int, SegmentMemory]]:
    """What the next search need not read again: results of sound segments."""
    for segment, pieces in pieces_by_segment:
        notes = [piece for piece in pieces if isinstance(piece, Note)]
        if any(note.kind is not NoteKind.GAP for note in notes):
            continue
        row_tables = [
            rows_with_transactions(piece) for piece in pieces if not isinstance(piece, Note)
        ]
        yield (
            segment.base_offset,
            SegmentMemory(
                size=segment.size,
                next_base_offset=segment.next_base_offset,
                fragments=b"".join(table.tobytes() for table in row_tables),
                gaps=tuple((note.from_offset, note.to_offset) for note in notes),
            ),
        )


def unpack_fragments(fragments: bytes) -> Ints:
    """Unpack rows of ``walk.fragment_rows``."""
    return np.frombuffer(fragments, dtype=np.int64).reshape(-1, fk.FRAGMENT_COLUMNS)


def rows_with_transactions(table: Ints) -> Ints:
    """The rows of producers that began or ended a transaction."""
    marker_counts = table[:, fk.COMMITS] + table[:, fk.ABORTS]
    relevant_rows: Ints = table[(table[:, fk.OPEN_OFFSET] >= 0) | (marker_counts > 0)]
    return relevant_rows


def _ordered_pieces(
    unread_segments: Sequence[SegmentFile], pieces: Sequence[ReadPiece]
) -> Iterator[tuple[SegmentFile, list[RowsOrNote]]]:
    """The pieces in order, up to where a starting broker cuts the log off. A segment with a section
    that can't be judged apart is read again.
    """
    pieces_by_segment: defaultdict[int, list[tuple[int, RowsOrNote]]] = defaultdict(list)
    for (base_offset, piece_start), piece in pieces:
        pieces_by_segment[base_offset].append((piece_start, piece))
    for segment in unread_segments:
        starts_and_pieces = pieces_by_segment[segment.base_offset]
        if any(_is_note_of(piece, NoteKind.AGAIN) for _, piece in starts_and_pieces):
            starts_and_pieces = [(0, piece) for _, piece in walk_segments([segment])]
        starts_of_cuts = [
            piece_start
            for piece_start, piece in starts_and_pieces
            if _is_note_of(piece, NoteKind.CUT)
        ]
        yield (
            segment,
            [
                piece
                for piece_start, piece in starts_and_pieces
                if not starts_of_cuts or piece_start <= min(starts_of_cuts)
            ],
        )
        if starts_of_cuts:
            return


def _is_note_of(piece: RowsOrNote, kind: NoteKind) -> bool:
    return isinstance(piece, Note) and piece.kind is kind


def _merge_open_transactions(
    seed_by_producer: Mapping[int, SnapshotEntry], tables: Sequence[Ints]
) -> Mapping[int, OpenTxn]:
    """Transactions open at the end of a log, of the producers that have one open after a piece."""
    producer_ids = {
        entry.producer_id for entry in seed_by_producer.values() if entry.txn_first_offset >= 0
    }
    for table in tables:
        producer_ids.update(table[table[:, fk.OPEN_OFFSET] >= 0, fk.PRODUCER].tolist())
    if not producer_ids:
        return {}
    piece_producer_ids = np.array(list(producer_ids), dtype=np.int64)
    return open_transactions_after(
        {
            producer_id: entry
            for producer_id, entry in seed_by_producer.items()
            if producer_id in producer_ids
        },
        [
            {
                fragment.producer_id: fragment
                for fragment in fragments_of(
                    table[np.isin(table[:, fk.PRODUCER], piece_producer_ids)]
                )
            }
            for table in tables
        ],
    )


def fragments_of(table: Ints) -> Iterator[Fragment]:
    """The fragments in a table of ``walk.fragment_rows``. A time or an epoch may be negative, so
    only the offset tells whether a transaction is open.
    """
    for row in table.tolist():
        if row[fk.PRODUCER] >= 0:
            marker_count = row[fk.COMMITS] + row[fk.ABORTS]
            is_open = row[fk.OPEN_OFFSET] >= 0
            yield Fragment(
                producer_id=row[fk.PRODUCER],
                first_offset=row[fk.FIRST_OFFSET],
                markers=marker_count,
                coordinator_epoch=row[fk.COORDINATOR_EPOCH] if marker_count else None,
                open_offset=row[fk.OPEN_OFFSET] if is_open else None,
                open_position=row[fk.OPEN_POSITION] if row[fk.OPEN_POSITION] >= 0 else None,
                open_timestamp_ms=row[fk.OPEN_TIMESTAMP] if is_open else None,
                open_last_timestamp_ms=row[fk.OPEN_LAST_TIMESTAMP] if is_open else None,
                open_epoch=row[fk.OPEN_EPOCH] if is_open else None,
            )


# One pass over segments: what each producer did, and where a segment is malformed


def walk_segments(
    segments: Iterable[SegmentFile],
) -> Iterator[tuple[SegmentFile, Ints | Note]]:
    """Walk over segments in order; yields what each producer did (``walk.fragment_rows``), and
    notes on damage. A section that can't be judged on its own yields only ``NoteKind.AGAIN``.
    Sections after a cut are read as well: whether the cut is final is known only when the replica's
    parts are joined.

    Args:
        segments: They include all segments of a replica that recovery checks, whole or in sections.
    """
    cut_replica: Replica | None = None
    examiner = Examiner()
    segments = tuple(segments)
    MOUNTS.expect([segment.path for segment in segments if segment.section is None])
    for segment in segments:
        if segment.section is None and segment.is_recovered and segment.replica == cut_replica:
            continue  # it goes with what is cut off before it
        section = segment.section or _whole_section(segment)
        try:
            examination = examiner.examine(
                Path(segment.path),
                end_position=segment.size,
                base_offset=section.first_offset,
                start=section.start,
            )
            if segment.section is not None and not stands_alone(segment, section, examination):
                yield segment, Note(kind=NoteKind.AGAIN, file=segment.path)
                continue
            stops_at_damage = segment.is_recovered and examination.damage is not None
            cut_replica = segment.replica if stops_at_damage else cut_replica
            for note in _examination_notes(
                segment, section, examination, stops_at_damage=stops_at_damage
            ):
                yield segment, note
            for table in examiner.fragments(stops_at_damage=segment.is_recovered):
                yield segment, table
        except OSError as error:
            if segment.section is not None:  # the whole segment will say why
                yield segment, Note(kind=NoteKind.AGAIN, file=segment.path)
                continue
            problem = f"{error.strerror or error}; passed by"
            yield segment, Note(kind=NoteKind.DAMAGE, file=segment.path, text=problem)


def _whole_section(segment: SegmentFile) -> Section:
    return Section(
        start=0,
        first_offset=segment.base_offset,
        next_offset=segment.next_base_offset,
        has_followers=False,
    )


def _examination_notes(
    segment: SegmentFile,
    segment_section: Section,
    examination: SegmentExamination,
    *,
    stops_at_damage: bool,
) -> Iterator[Note]:
    file = segment.path
    gaps = [*examination.gaps]
    for position, control_type in examination.non_marker_controls:
        note_text = f"a control record of type {control_type}, no marker"
        yield Note(kind=NoteKind.DAMAGE, file=file, text=note_text, position=position)
    damage = examination.damage
    if damage is not None:
        yield Note(
            kind=NoteKind.CUT if stops_at_damage else NoteKind.DAMAGE,
            file=file,
            text=damage.reason,
            position=damage.position,
            from_offset=examination.damaged_offset,
        )
    section_end = segment_section.next_offset
    is_followed = damage is None or (examination.is_torn and not stops_at_damage)
    if is_followed and section_end is not None and section_end > examination.damaged_offset:
        gaps.append((examination.damaged_offset, section_end))
    for gap_begin, gap_end in gaps:
        yield Note(kind=NoteKind.GAP, file=file, from_offset=gap_begin, to_offset=gap_end)
