"""Batches that hold a lot: looked at in steps, with bounds, and with the same result as at once."""

from __future__ import annotations

import mmap

import msgspec
import pytest

from tests.support.logs import NOW, plain
from txnsim.errors import ErrorCode
from txnsim.log.answers import AppendRejection
from txnsim.log.unpacking import unpacked
from txnsim.log.validation import (
    UNPACKED_BYTES_MAX,
    UNPACKED_RECORDS_MAX,
    WALK_BYTES,
    is_heavy,
    newest_in_steps,
    newest_timestamp,
)
from txnsim.wire.batch import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    BatchHeader,
    read_batch_header,
)
from txnsim.wire.batch_header import pack_batch
from txnsim.wire.compression import AT_ONCE_MAX, Packed, compress
from txnsim.wire.record_walk import WALK_PIECES
from txnsim.wire.records import signed_varint


def spoilt(batch: bytes) -> bytes:
    """The batch with other bytes where its records begin."""
    return batch[:63] + b"\0\0" + batch[65:]


def zipped(codec: int, records: bytes, count: int) -> bytes:
    return pack_batch(
        compress(codec, records),
        base_offset=0,
        leader_epoch=-1,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp_ms=NOW,
        max_timestamp_ms=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=count,
    )


TINY = bytes.fromhex("0c000000010100")
"""The smallest record there is."""


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize(
    ("records", "count", "why"),
    [
        (bytes(UNPACKED_BYTES_MAX + 1), 1, f"more than {UNPACKED_BYTES_MAX} bytes"),
        (
            TINY * (UNPACKED_RECORDS_MAX + 1),
            UNPACKED_RECORDS_MAX + 1,
            f"{UNPACKED_RECORDS_MAX + 1} records in a compressed batch, at most",
        ),
    ],
    ids=["bytes", "records"],
)
def test_what_unpacks_to_too_much_is_too_large(
    codec: int, records: bytes, count: int, why: str
) -> None:
    batch = zipped(codec, records, count)
    header = read_batch_header(batch, 0)
    refused = newest_timestamp(header, batch, log_start_offset=7)
    assert isinstance(refused, AppendRejection)
    assert (refused.error, refused.log_start_offset) == (ErrorCode.message_too_large, -1)
    assert why in str(refused.reason)


def test_a_length_that_never_ends_is_refused_in_a_compressed_batch_too() -> None:
    batch = zipped(GZIP, b"\xff" * 12, 1)
    refused = newest_timestamp(read_batch_header(batch, 0), batch, log_start_offset=7)
    assert isinstance(refused, AppendRejection)
    assert (refused.error, refused.log_start_offset) == (ErrorCode.invalid_record, 7)


@pytest.mark.slow
def test_many_records_are_looked_at_in_steps_that_others_come_between() -> None:
    count = UNPACKED_RECORDS_MAX
    batch = zipped(ZSTD, TINY * count, count)
    header = read_batch_header(batch, 0)
    assert is_heavy([header])
    assert not is_heavy([])
    costs_ns, packed, found = in_steps(header, batch)
    assert len(packed) == 1
    assert len(costs_ns) >= count // WALK_PIECES
    assert max(costs_ns) <= 2_000_000
    assert found == newest_timestamp(header, batch, log_start_offset=5) == NOW


def test_steps_find_what_is_found_at_once() -> None:
    for one in (
        plain(),
        zipped(GZIP, TINY * 3, 3),
        zipped(GZIP, TINY * 3, 4),
        zipped(GZIP, b"\xff" * (2 * AT_ONCE_MAX), 3),
        zipped(ZSTD, bytes(UNPACKED_BYTES_MAX + 1), 3),
        spoilt(zipped(ZSTD, bytes(2 * AT_ONCE_MAX), 3)),
    ):
        header = read_batch_header(one, 0)
        _, _, found = in_steps(header, one)
        assert found == newest_timestamp(header, one, log_start_offset=5)


def in_steps(
    header: BatchHeader, batch: bytes
) -> tuple[list[int], list[Packed], AppendRejection | int]:
    steps = newest_in_steps(header, batch, log_start_offset=5)
    costs_ns, packed, answer = [], [], None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            return costs_ns, packed, end.value
        answer = None
        if isinstance(step, int):
            costs_ns.append(step)
        else:
            packed.append(step)
            answer = unpacked(step, mmap.mmap(-1, step.room_bytes))


def test_packed_batches_and_many_records_are_heavy() -> None:
    packed = read_batch_header(zipped(GZIP, TINY, 1), 0)
    bare = read_batch_header(plain(), 0)
    assert is_heavy([bare, packed])
    assert not is_heavy([bare] * (WALK_BYTES // bare.size))
    many = [msgspec.structs.replace(bare, records_count=WALK_PIECES)]
    assert not is_heavy(many)
    assert is_heavy([*many, bare])
    assert is_heavy([read_batch_header(plain(value=bytes(WALK_BYTES)), 0)])


WIDE = 60_000
"""Headers of one record."""


def wide(headers: int, codec: int) -> bytes:
    """A batch of one record with so many headers."""
    body = b"\0\0\0\x01\x01" + signed_varint(headers) + b"\0\x01" * headers
    return zipped(codec, signed_varint(len(body)) + body, 1)


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_many_headers_are_looked_at_in_steps(codec: int) -> None:
    batch = wide(WIDE, codec)
    header = read_batch_header(batch, 0)
    assert is_heavy([header])
    costs_ns, _, found = in_steps(header, batch)
    assert len(costs_ns) >= WIDE // WALK_PIECES
    assert max(costs_ns) <= 2_000_000
    assert found == newest_timestamp(header, batch) == NOW


def test_more_headers_than_are_unpacked_make_a_batch_too_large() -> None:
    batch, bare = wide(260_000, ZSTD), wide(260_000, NONE)
    refused = newest_timestamp(read_batch_header(batch, 0), batch)
    assert isinstance(refused, AppendRejection)
    assert refused.error is ErrorCode.message_too_large
    assert newest_timestamp(read_batch_header(bare, 0), bare) == NOW
