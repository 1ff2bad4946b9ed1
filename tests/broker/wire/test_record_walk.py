"""The walk over records by their lengths agrees with reading them, and with lies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnsim.errors import CorruptBatchError
from txnsim.wire.batch import BatchHeader, Record, build_batch
from txnsim.wire.record_walk import WALK_PIECES, WalkProgress, newest_delta_ms, walk, walk_in_steps
from txnsim.wire.records import signed_varint

BASE_MS = 1_700_000_000_000


def records_of(*deltas_ms: int, record_value: bytes = b"v") -> bytes:
    """The records of a batch, without its header."""
    batch = build_batch(
        [
            Record(key=b"k", value=record_value, timestamp_ms=BASE_MS + delta_ms)
            for delta_ms in (0, *deltas_ms)
        ],
        timestamp_ms=BASE_MS,
    )
    return batch[BatchHeader.SIZE :]


@given(
    deltas=st.lists(st.integers(-(2**40), 2**40) | st.integers(-200, 20_000), max_size=5),
    size=st.sampled_from((0, 1, 50, 60, 200, 8_150, 20_000)),
    ahead=st.integers(0, 3),
)
def test_the_newest_of_all_records_is_found(deltas: list[int], size: int, ahead: int) -> None:
    record_bytes = b"\xff" * ahead + records_of(*deltas, record_value=b"x" * size)
    assert newest_delta_ms(record_bytes, ahead, 1 + len(deltas)) == max(0, *deltas, 0)


def test_only_old_records_have_an_old_newest() -> None:
    first_records, second_records = records_of(), records_of(-5)
    assert newest_delta_ms(second_records[len(first_records) :], 0, 1) == -5


@pytest.mark.parametrize("count", [1, 3, 100])
def test_another_number_of_records_is_noticed(count: int) -> None:
    assert newest_delta_ms(records_of(7), 0, count) is None


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (b"\x0a", "five bytes are no record"),
        (b"\x0f", "a negative size"),
        (b"\x85\x01", "a negative size of two bytes"),
        (b"\x8a\x80\x00", "five bytes, said in three"),
        (b"\x7e", "longer than what is there"),
        (b"\x80", "a size that is cut off"),
    ],
)
def test_a_size_that_none_has_is_noticed(size: bytes, reason: str) -> None:
    assert newest_delta_ms(size + records_of()[1:], 0, 1) is None, reason


def test_a_varint_that_never_ends_is_corrupt() -> None:
    with pytest.raises(CorruptBatchError):
        newest_delta_ms(b"\x80" * 20, 0, 1)


def test_nothing_there_is_noticed() -> None:
    assert newest_delta_ms(b"", 0, 1) is None


@given(
    keys=st.lists(st.none() | st.binary(max_size=200), min_size=1, max_size=3),
    record_value=st.none() | st.binary(max_size=300),
    headers=st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=200))),
    delta_ms=st.integers(-(2**40), 2**40),
)
def test_records_of_any_kind_are_whole(
    keys: list[bytes | None],
    record_value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    delta_ms: int,
) -> None:
    batch = build_batch(
        [
            Record(
                key=key, value=record_value, headers=tuple(headers), timestamp_ms=number * delta_ms
            )
            for number, key in enumerate(keys)
        ],
        timestamp_ms=0,
    )
    deltas_ms = [record_index * delta_ms for record_index in range(len(keys))]
    assert newest_delta_ms(batch, BatchHeader.SIZE, len(keys)) == max(deltas_ms)


@pytest.mark.parametrize(
    ("position", "byte"),
    [(4, 0x60), (4, 0), (6, 0x60), (8, 0x04), (8, 0x60), (8, 0x01), (9, 0x01), (9, 4), (11, 0x60)],
)
def test_lengths_that_do_not_fill_a_record_are_noticed(position: int, byte: int) -> None:
    batch = build_batch([Record(key=b"k", value=b"v", headers=(("h", b"x"),))], timestamp_ms=0)
    record_bytes = bytearray(batch[BatchHeader.SIZE :])
    assert newest_delta_ms(bytes(record_bytes), 0, 1) == 0
    record_bytes[position] = byte
    assert newest_delta_ms(bytes(record_bytes), 0, 1) is None


def test_many_offsets_in_one_batch_are_read_over() -> None:
    batch = build_batch([Record(key=b"k")] * 100, timestamp_ms=0)
    assert newest_delta_ms(batch, BatchHeader.SIZE, 100) == 0


def test_long_keys_values_and_headers_are_read_over() -> None:
    batch = build_batch(
        [Record(key=b"k" * 20_000, value=b"v" * 20_000, headers=(("h" * 90, b"x" * 90),))],
        timestamp_ms=0,
    )
    assert newest_delta_ms(batch, BatchHeader.SIZE, 1) == 0


def test_a_null_key_said_in_two_bytes_is_one() -> None:
    # Size, attributes, the deltas of time and offset, key, value of one byte, no headers.
    record = b"\x00\x00\x00\x81\x00\x02v\x00"
    assert newest_delta_ms(bytes((len(record) << 1,)) + record, 0, 1) == 0


@pytest.mark.parametrize(("length", "is_whole"), [(5, True), (6, False)])
def test_an_offset_has_at_most_five_bytes(length: int, is_whole: bool) -> None:
    offset = b"\x80" * (length - 1) + b"\x00"
    record = b"\x00\x00" + offset + b"\x01\x02v\x00"
    newest_delta = newest_delta_ms(bytes((len(record) << 1,)) + record, 0, 1)
    assert newest_delta == (0 if is_whole else None)


def with_headers(*counts: int) -> bytes:
    """The records of a batch, with ``headers`` headers each."""
    records = [
        Record(value=b"v", headers=(("h", b"x"), ("", None)) * (count // 2), timestamp_ms=stamp_ms)
        for stamp_ms, count in enumerate(counts)
    ]
    return build_batch(records, timestamp_ms=0)[BatchHeader.SIZE :]


@pytest.mark.parametrize(
    "counts",
    [(2 * WALK_PIECES,), (0, 2, 3 * WALK_PIECES, 4), (400,) * 20, (WALK_PIECES + 2, 0)],
)
def test_many_headers_are_walked_over_with_breaks(counts: tuple[int, ...]) -> None:
    record_bytes = with_headers(*counts)
    step_lengths = list(walk_in_steps(record_bytes, 0, len(counts)))
    assert max(step_lengths) <= 2 * WALK_PIECES
    assert sum(counts) <= sum(step_lengths) <= sum(counts) + len(counts)
    assert newest_delta_ms(record_bytes, 0, len(counts)) == len(counts) - 1
    assert newest_delta_ms(record_bytes, 0, len(counts) + 1) is None
    assert newest_delta_ms(record_bytes[:-1], 0, len(counts)) is None


def test_a_walk_stops_where_there_are_too_many_headers() -> None:
    record_bytes = with_headers(0, WALK_PIECES + 2)
    walk_progress = walk(record_bytes, 0, 2)
    assert walk_progress is not None
    assert (
        walk_progress.newest_delta,
        walk_progress.records_left,
        walk_progress.broken_off_end,
    ) == (
        1,
        1,
        len(record_bytes),
    )
    assert walk(record_bytes, 0, 1) == WalkProgress(0, record_bytes.index(b"v") + 2, 0)


@pytest.mark.parametrize("byte", [0x01, 0x03])
def test_among_many_headers_one_without_a_key_is_noticed(byte: int) -> None:
    record_bytes = bytearray(with_headers(WALK_PIECES + 2))
    record_bytes[-2] = byte  # the length of the last key
    assert newest_delta_ms(bytes(record_bytes), 0, 1) is None


@pytest.mark.parametrize("claimed", [-1, 8 * WALK_PIECES])
def test_more_headers_than_fit_into_a_record_are_noticed(claimed: int) -> None:
    record_bytes = bytearray(with_headers(2 * WALK_PIECES))
    position = record_bytes.index(b"v") + 1
    claim, true_count = signed_varint(claimed), signed_varint(2 * WALK_PIECES)
    record_bytes[position : position + len(true_count)] = claim.ljust(len(true_count), b"\0")
    assert newest_delta_ms(bytes(record_bytes), 0, 1) is None
