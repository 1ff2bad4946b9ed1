"""What is told of places, sequences and epochs; all else that producers did is in test_walk."""

from __future__ import annotations

import numpy as np

from tests.support.fragment_model import Act, act, segment_of
from txnsim_spark.scan import kernel
from txnsim_spark.scan import kernel_fragments as fk


def folded(data: bytes, file_position: int = 0) -> list[int]:
    """The fragment of the only producer."""
    fragments = np.empty((1, fk.FRAGMENT_COLUMNS), dtype=np.int64)
    count, _, at, why = fk.scan_fragments(
        np.frombuffer(bytearray(data), dtype=np.uint8),
        0,
        len(data),
        len(data),
        np.full(2, -1, dtype=np.int64),
        fragments,
        0,
        np.empty((fk.ENDING_COLUMNS, 9), dtype=np.int64),
        np.array([file_position, -1], dtype=np.int64),
    )
    assert (count, at, why) == (1, len(data), kernel.AT_END)
    return fragments[0].tolist()  # type: ignore[no-any-return]


def test_the_place_of_an_open_transaction_is_told_where_a_search_would_end_there() -> None:
    first, second = segment_of([act()], base_offset=5), segment_of([act()], base_offset=3)
    before = segment_of([act(), act("commit")])
    assert folded(before + first, 1_000)[fk.OPEN_POSITION] == 1_000 + len(before)
    row = folded(first + segment_of([act("commit")], base_offset=7) + second)
    assert (row[fk.OPEN_OFFSET], row[fk.OPEN_POSITION]) == (3, -1)


def test_sequences_begin_anew_behind_the_largest() -> None:
    history = [
        Act(kind="data", producer=7, epoch=0, sequence=at, records=2, value_bytes=5, timestamp_ms=1)
        for at in ((1 << 31) - 2, 0)
    ]
    row = folded(segment_of(history))
    assert (row[fk.SEQUENCE_GAPS], row[fk.LAST_SEQUENCE]) == (0, 1)


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
        assert folded(segment_of(history(sequence)))[fk.SEQUENCE_GAPS] == gaps
