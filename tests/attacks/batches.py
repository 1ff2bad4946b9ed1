"""Compressed batches that are small on the wire and much when unpacked."""

from __future__ import annotations

import struct
from typing import Any, Final

import crc32c

from tests.attacks.target import Attack, Target
from tests.real.stories.player import produce
from tests.support.raw_wire import Outcome
from txnsim.errors import ErrorCode
from txnsim.wire.compression import GZIP, ZSTD, compress

PRODUCE: Final = 0
CREATE_TOPICS: Final = 19
VERSION: Final = 9
TOPIC: Final = "bombs"
TINY: Final = bytes.fromhex("0c000000010100")
"""The smallest record there is."""
PARTITIONS: Final = 100
ONE_BROKER: Final = ("--brokers", "1")
"""So that the first broker leads every partition."""


def tiny_records_zstd(target: Target) -> int:
    """21 kB of zstd that hold 36 million tiny records."""
    return _produce(target, _batch(ZSTD, compress(ZSTD, TINY * 36_000_000), 36_000_000))


def tiny_records_gzip(target: Target) -> int:
    """102 kB of gzip that hold 10 million tiny records."""
    return _produce(target, _batch(GZIP, compress(GZIP, TINY * 10_000_000), 10_000_000))


def tiny_records_allowed(target: Target) -> int:
    """As many tiny records as a compressed batch may have, ten times."""
    batch = _batch(ZSTD, compress(ZSTD, TINY * 250_000), 250_000)
    return sum(_produce(target, batch, expected=ErrorCode.none) for _ in range(10))


def empty_members(target: Target) -> int:
    """52,000 empty gzip members in front of a record."""
    data = compress(GZIP, b"") * 52_000 + compress(GZIP, TINY)
    return _produce(target, _batch(GZIP, data, 1), expected=None)


def large_record(target: Target) -> int:
    """One record of 255 MiB in gzip and in zstd."""
    zeros = bytes(255 << 20)
    record = _record(zeros)
    # 255 MiB in snappy are 12 MiB, more than a batch may have.
    return sum(
        _produce(target, _batch(codec, compress(codec, record), 1)) for codec in (GZIP, ZSTD)
    )


def many_partitions(target: Target) -> int:
    """A bomb of zstd for each of 100 partitions, in one request."""
    batch = _batch(ZSTD, compress(ZSTD, _record(bytes(31 << 20))), 1)
    values = produce((TOPIC, None), batch, VERSION)
    (topic,) = values["topic_data"]
    topic["partition_data"] = [{"index": at, "records": batch} for at in range(PARTITIONS)]
    with target.connect() as connection:
        _create_topic(connection)
        answer = connection.ask(PRODUCE, VERSION, **values)
    assert not isinstance(answer, Outcome), answer
    return len(batch) * PARTITIONS


def _record(value: bytes) -> bytes:
    body = b"\0\0\0\x01" + _varint(len(value)) + value + b"\0"
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    number <<= 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _batch(codec: int, data: bytes, count: int) -> bytes:
    covered = struct.pack(">hiqqqhii", codec, count - 1, 1_000, 1_000, -1, -1, -1, count) + data
    return struct.pack(">qiibI", 0, len(covered) + 9, -1, 2, crc32c.crc32c(covered)) + covered


def _create_topic(connection: Any) -> None:
    wanted = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1}
    connection.ask(CREATE_TOPICS, 7, topics=[wanted], timeout=10_000)


def _produce(
    target: Target, batch: bytes, *, expected: ErrorCode | None = ErrorCode.message_too_large
) -> int:
    """Send it; the answer must be an answer, and where one is expected, that."""
    with target.connect() as connection:
        _create_topic(connection)
        answer = connection.ask(PRODUCE, VERSION, **produce((TOPIC, None), batch, VERSION))
    assert not isinstance(answer, Outcome), answer
    error = answer.responses[0].partition_responses[0].error_code
    if expected is not None and error is not expected:
        raise AssertionError(f"answered {error.name}, expected {expected.name}")
    return len(batch)


ATTACKS: Final = (
    Attack("batch-tiny-records-zstd", tiny_records_zstd, serve=ONE_BROKER),
    Attack("batch-tiny-records-gzip", tiny_records_gzip, serve=ONE_BROKER),
    Attack("batch-tiny-records-allowed", tiny_records_allowed, serve=ONE_BROKER),
    Attack("batch-empty-gzip-members", empty_members, serve=ONE_BROKER),
    Attack("batch-large-record", large_record, serve=ONE_BROKER),
    Attack("batch-many-partitions", many_partitions, serve=ONE_BROKER),
)
