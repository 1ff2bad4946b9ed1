"""Fragments and endings of the compiled walk, held against their definitions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fragment_model import Act, act, acts, events_of, fragments_of, segment_of
from txnsim.pipeline.scan import kernel
from txnsim.pipeline.scan import kernel_fragments as fk

ROOM = 64


class Table:
    """The arrays that the walk fills."""

    def __init__(self, producers: int = ROOM, endings: int = ROOM) -> None:
        self.slots = np.full(2 * ROOM, -1, dtype=np.int64)
        self.fragments = np.empty((producers, fk.FRAGMENT_COLUMNS), dtype=np.int64)
        self.endings = np.empty((fk.ENDING_COLUMNS, endings), dtype=np.int64)
        self.place = np.array([0, -1], dtype=np.int64)
        self.count = 0
        self.told: list[list[int]] = []

    def fold(self, data: bytes, start: int = 0, end: int | None = None) -> tuple[int, int]:
        self.count, ended, at, why = fk.scan_fragments(
            np.frombuffer(bytearray(data), dtype=np.uint8),
            start,
            len(data) if end is None else end,
            len(data),
            self.slots,
            self.fragments,
            self.count,
            self.endings,
            self.place,
        )
        self.told += self.endings[:, :ended].T.tolist()
        return at, why

    @property
    def rows(self) -> list[list[int]]:
        return self.fragments[: self.count].tolist()  # type: ignore[no-any-return]


def expected_endings(data: bytes) -> list[list[int]]:
    """A row per marker, in order of offset."""
    made = []
    for producer, events in events_of(data).items():
        since: list[int] = []
        for at, event in enumerate(events):
            if event.opens:
                since.append(at)
            if not event.is_marker:
                continue
            first = events[since[0]].header if since else None
            made.append(
                [
                    producer,
                    event.header.producer_epoch,
                    first.base_offset if first else -1,
                    event.header.base_offset,
                    event.control,
                    event.coordinator_epoch,
                    first.max_timestamp_ms if first else -1,
                    event.header.max_timestamp_ms,
                    sum(events[one].header.records_count for one in since),
                ]
            )
            since = []
    return sorted(made, key=lambda row: row[fk.ENDED_MARKER])


@given(acts())
def test_a_fragment_is_what_its_definition_says(history: list[Act]) -> None:
    data = segment_of(history)
    table = Table()
    assert table.fold(data) == (len(data), kernel.AT_END)
    assert table.rows == fragments_of(data)


@given(acts())
def test_every_marker_is_told_with_the_transaction_that_it_ended(history: list[Act]) -> None:
    data = segment_of(history)
    table = Table()
    table.fold(data)
    assert table.told == expected_endings(data)


@given(acts(), st.data())
def test_any_cut_into_pieces_folds_to_the_same(history: list[Act], draw: st.DataObject) -> None:
    data = segment_of(history)
    table = Table()
    at = 0
    while at < len(data):
        end = draw.draw(st.integers(min(at + kernel.CONTROL_BYTES, len(data)), len(data)))
        at, why = table.fold(data, at, end)
        assert why == kernel.AT_END
    assert table.rows == fragments_of(data)
    assert table.told == expected_endings(data)


@given(acts(), st.integers(1, 3))
def test_where_there_is_no_room_for_an_ending_the_walk_waits(history: list[Act], room: int) -> None:
    data = segment_of(history)
    table = Table(endings=room)
    at, why = table.fold(data)
    while why == kernel.FULL:
        at, why = table.fold(data, at)
    assert (at, why) == (len(data), kernel.AT_END)
    assert table.told == expected_endings(data)
    assert table.rows == fragments_of(data)


@given(acts())
def test_where_there_is_no_room_for_a_producer_the_walk_waits(history: list[Act]) -> None:
    data = segment_of(history)
    whole = fragments_of(data)
    table = Table(producers=1)
    at, why = table.fold(data)
    if len(whole) <= 1:
        assert (at, why) == (len(data), kernel.AT_END)
        return
    assert why == kernel.FULL
    larger = Table()
    larger.fragments[: table.count] = table.fragments[: table.count]
    larger.count = table.count
    fk.enter_all(larger.slots, larger.fragments, larger.count)
    assert larger.fold(data, at) == (len(data), kernel.AT_END)
    assert larger.rows == whole


def test_the_place_of_an_open_transaction_is_told_where_a_search_would_end_there() -> None:
    first, second = segment_of([act()], base_offset=5), segment_of([act()], base_offset=3)
    table = Table()
    table.place[fk.FILE_POSITION] = 1_000
    table.fold(segment_of([act(), act("commit")]) + first)
    open_at = len(segment_of([act(), act("commit")]))
    assert table.rows[0][fk.OPEN_POSITION] == 1_000 + open_at
    table = Table()
    table.fold(first + segment_of([act("commit")], base_offset=7) + second)
    assert table.rows[0][fk.OPEN_OFFSET] == 3
    assert table.rows[0][fk.OPEN_POSITION] == -1


def test_damage_ends_the_walk_and_keeps_what_came_before() -> None:
    sound = segment_of(
        [
            Act(
                kind="data",
                producer=7,
                epoch=0,
                sequence=0,
                records=1,
                value_bytes=5,
                timestamp_ms=1,
            )
        ]
    )
    table = Table()
    assert table.fold(sound + bytes(200)) == (len(sound), kernel.BAD_LENGTH)
    assert table.rows == fragments_of(sound)


def test_sequences_begin_anew_behind_the_largest() -> None:
    history = [
        Act(kind="data", producer=7, epoch=0, sequence=at, records=2, value_bytes=5, timestamp_ms=1)
        for at in ((1 << 31) - 2, 0)
    ]
    table = Table()
    table.fold(segment_of(history))
    assert table.rows[0][fk.SEQUENCE_GAPS] == 0
    assert table.rows[0][fk.LAST_SEQUENCE] == 1


def test_an_epoch_that_a_marker_has_begun_begins_with_sequence_0() -> None:
    """So does a producer under transactions v2 after each transaction (KIP-890)."""

    def history(sequence: int) -> list[Act]:
        return [
            Act(
                kind=kind,
                producer=7,
                epoch=epoch,
                sequence=at,
                records=1,
                value_bytes=1,
                timestamp_ms=1,
            )
            for kind, epoch, at in [("data", 0, 5), ("commit", 1, 9), ("data", 1, sequence)]
        ]

    for sequence, gaps in ((0, 0), (6, 1)):
        table = Table()
        table.fold(segment_of(history(sequence)))
        assert table.rows[0][fk.SEQUENCE_GAPS] == gaps
