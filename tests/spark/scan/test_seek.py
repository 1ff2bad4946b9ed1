"""The compiled walk of a search finds what a walk batch by batch finds, in damaged segments too."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fragment_model import Act, acts, on_file, segment_of
from tests.support.old_messages import old_message
from txnsim.wire.batch import BatchHeader
from txnsim_spark.scan import log_seek
from txnsim_spark.scan.log_seek import (
    Seen,
    Tail,
    batches_at,
    last_batch_of,
    markers_in,
    tail_of,
)
from txnsim_spark.scan.segments import Replica, SegmentFile

Told = tuple[dict[int, Seen], list[tuple[int, int]], BatchHeader | None, list[Tail]]


def told(path: Path) -> Told:
    """All that is ever looked for in a segment without an index."""
    replica = Replica(log_dir="b", broker=1, topic="orders", partition=0, path=str(path.parent))
    segment = SegmentFile(
        replica=replica,
        path=str(path),
        base_offset=0,
        next_base_offset=None,
        size=path.stat().st_size,
    )
    recovered = msgspec.structs.replace(segment, is_recovered=True)
    return (
        batches_at(segment, range(0, 40, 3)),
        list(markers_in(segment, 4)),
        last_batch_of(segment),
        [tail_of(segment), tail_of(recovered)],
    )


@pytest.mark.slow
@given(acts(), st.integers(0, 30), st.data())
def test_both_walks_find_the_same(history: list[Act], old_at: int, draw: st.DataObject) -> None:
    parts = segment_of(history[:old_at]), segment_of(history[old_at:], base_offset=50)
    old = old_message(0, offset=45) if draw.draw(st.booleans()) else b""
    data = bytearray(old.join(parts))
    for _ in range(draw.draw(st.integers(0, 2)) if data else 0):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))

    def check(path: Path) -> None:
        one_by_one = told(path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_seek, "INTERPRETED_BYTES_MAX", -1)
            assert told(path) == one_by_one

    on_file(bytes(data), check)
