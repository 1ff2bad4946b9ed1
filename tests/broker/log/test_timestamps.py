"""Searches by time, inside batches too."""

from __future__ import annotations

import struct

import pytest

from txnsim.errors import MissingExtraError
from txnsim.log import unpacking
from txnsim.log.partition_log import STEP_RECORDS, first_at_or_after, first_of_max
from txnsim.log.segment import Segment
from txnsim.log.unpacking import at_once
from txnsim.wire.batch import GZIP, Record, build_batch, read_batch_header


def segment(
    *batches: tuple[int, ...], base: int = 0, compression: int = 0, append_time: bool = False
) -> Segment:
    made = Segment(base)
    offset = base
    for times in batches:
        data = build_batch(
            [Record(value=b"v", timestamp_ms=time) for time in times],
            timestamp_ms=max(times),
            compression=compression,
            log_append_time=append_time,
            base_offset=offset,
            leader_epoch=0,
        )
        put(made, data)
        offset += len(times)
    return made


def put(made: Segment, data: bytes) -> None:
    header = read_batch_header(data)
    made.append(
        data,
        header.base_offset,
        header.last_offset,
        max_timestamp=header.max_timestamp_ms,
        now_ms=0,
    )


@pytest.mark.parametrize("compression", [0, GZIP])
@pytest.mark.parametrize(
    ("timestamp", "start", "found"),
    [
        (0, 0, (10, 0)),
        (10, 0, (10, 0)),
        (11, 0, (30, 1)),
        (31, 0, (40, 4)),
        (41, 0, None),
        (0, 1, (30, 1)),
        (0, 2, (20, 2)),
        (30, 2, (40, 4)),
    ],
)
def test_the_first_record_of_at_least_a_time(
    compression: int, timestamp: int, start: int, found: tuple[int, int] | None
) -> None:
    made = segment((10, 30, 20), (25, 40), compression=compression)
    assert at_once(first_at_or_after([made], timestamp, start=start)) == found


def test_only_the_first_segment_that_reaches_the_time_is_asked() -> None:
    """Also where its record of that time lies below the log start (UnifiedLog)."""
    first, second = segment((10, 30, 20)), segment((35,), base=3)
    assert at_once(first_at_or_after([first, second], 25, start=0)) == (30, 1)
    assert at_once(first_at_or_after([first, second], 31, start=0)) == (35, 3)
    assert at_once(first_at_or_after([first, second], 25, start=2)) is None


def test_the_first_record_of_the_largest_time() -> None:
    assert at_once(first_of_max([segment((10, 30, 20), (30, 25), (5,))])) == (30, 1)
    assert at_once(first_of_max([segment()])) is None
    assert at_once(first_of_max([segment((-1,))])) == (-1, 0)


def test_of_segments_with_one_largest_time_the_first_is_asked() -> None:
    assert at_once(first_of_max([segment((5,)), segment((9,), base=1), segment((9,), base=2)])) == (
        9,
        1,
    )


def test_with_append_time_every_record_has_the_batchs_time() -> None:
    made = segment((10, 30), append_time=True)
    assert at_once(first_at_or_after([made], 20, start=0)) == (30, 0)
    assert at_once(first_of_max([made])) == (30, 0)


def test_a_header_whose_maximum_no_record_has_finds_nothing() -> None:
    data = bytearray(segment((10, 30)).batch(0))
    struct.pack_into(">q", data, 35, 99)
    lying = Segment(0)
    put(lying, bytes(data))
    assert at_once(first_of_max([lying])) is None
    assert at_once(first_at_or_after([lying], 50, start=0)) is None


def test_a_batch_without_codec_is_known_by_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> bytes:
        raise MissingExtraError("no codec")

    made = segment((10, 20, 30), compression=GZIP)
    monkeypatch.setattr(unpacking, "decompress_at_once", missing)
    assert at_once(first_at_or_after([made], 10, start=0)) == (10, 0)
    assert at_once(first_at_or_after([made], 15, start=0)) == (30, 2)
    assert at_once(first_of_max([made])) == (30, 2)


@pytest.mark.parametrize("compression", [0, GZIP])
def test_a_large_batch_is_read_in_steps(compression: int) -> None:
    made = segment(tuple(range(4 * STEP_RECORDS)), compression=compression)
    steps = first_at_or_after([made], 3 * STEP_RECORDS, start=0)
    for _ in range(2):
        assert isinstance(next(steps), int)
    assert at_once(steps) == (3 * STEP_RECORDS, 3 * STEP_RECORDS)


def test_what_was_cut_off_between_two_steps_is_not_found() -> None:
    made = segment(tuple(range(2 * STEP_RECORDS)), (9_000,), base=10)
    steps = first_at_or_after([made], STEP_RECORDS, start=STEP_RECORDS + 10 + 1)
    next(steps)
    made.truncate_to(10, now_ms=0)
    assert at_once(steps) == (STEP_RECORDS + 1, STEP_RECORDS + 11)  # the batch that is being read
