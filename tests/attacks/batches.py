"""Compressed batches that are small on the wire and large when unpacked."""

from __future__ import annotations

import contextlib
import gzip
import struct
import time
import zlib
from collections.abc import Sequence
from typing import Any, Final

import crc32c

from tests.attacks.patterns import WITH_ACLS
from tests.attacks.sending import exchange, request
from tests.attacks.target import Attack, AttackTarget
from txnsim.client.raw.connection import NoAnswer
from txnsim.errors import ErrorCode
from txnsim.wire.compression import GZIP, NONE, ZSTD, compress
from txnsim_lab.conformance._book.frame_player import produce

Configs = Sequence[dict[str, str]]
"""Configs of a topic in the form of CreateTopics."""

PRODUCE: Final = 0
LIST_OFFSETS: Final = 2
CREATE_TOPICS: Final = 19
VERSION: Final = 9
TOPIC: Final = "bombs"
TINY: Final = bytes.fromhex("0c000000010100")
"""The smallest possible record."""
PARTITIONS: Final = 100
CLEANED_S: Final = 25.0
"""The cleaner looks for work every 15 s."""
OLD_BYTES: Final = 50 << 20
ONE_BROKER: Final = ("--brokers", "1")
"""Options of a server of one broker, which leads every partition."""


def tiny_records_zstd(target: AttackTarget) -> int:
    """21 kB of zstd that hold 36 million tiny records."""
    return _produce(target, _encode_batch(ZSTD, compress(ZSTD, TINY * 36_000_000), 36_000_000))


def tiny_records_gzip(target: AttackTarget) -> int:
    """102 kB of gzip that hold 10 million tiny records."""
    return _produce(target, _encode_batch(GZIP, compress(GZIP, TINY * 10_000_000), 10_000_000))


def tiny_records_allowed(target: AttackTarget) -> int:
    """As many tiny records as a compressed batch may have, ten times."""
    batch = _encode_batch(ZSTD, compress(ZSTD, TINY * 250_000), 250_000)
    return sum(_produce(target, batch, expected_error=ErrorCode.none) for _ in range(10))


def other_codec(target: AttackTarget) -> int:
    """As many tiny records as a batch may have, for a topic of another codec, three times."""
    batch = _encode_batch(ZSTD, compress(ZSTD, TINY * 250_000), 250_000)
    configs = ({"name": "compression.type", "value": "gzip"},)
    return sum(
        _produce(target, batch, expected_error=ErrorCode.none, configs=configs) for _ in range(3)
    )


def other_codec_large(target: AttackTarget) -> int:
    """A record of 31 MiB, for a topic of another codec, three times."""
    batch = _encode_batch(ZSTD, compress(ZSTD, _encode_record(bytes(range(256)) * (31 << 12))), 1)
    configs = ({"name": "compression.type", "value": "gzip"},)
    return sum(
        _produce(target, batch, expected_error=ErrorCode.none, configs=configs) for _ in range(3)
    )


def without_keys(target: AttackTarget) -> int:
    """As many records without a key as a batch may have, for a compacted topic, three times."""
    batch = _encode_batch(ZSTD, compress(ZSTD, TINY * 250_000), 250_000)
    configs = ({"name": "cleanup.policy", "value": "compact"},)
    return sum(
        _produce(target, batch, expected_error=ErrorCode.invalid_record, configs=configs)
        for _ in range(3)
    )


def too_old(target: AttackTarget) -> int:
    """As many records as a batch may have, all of them older than the topic takes, three times."""
    batch = _encode_batch(ZSTD, compress(ZSTD, TINY * 250_000), 250_000)
    configs = ({"name": "message.timestamp.before.max.ms", "value": "1000"},)
    return sum(
        _produce(target, batch, expected_error=ErrorCode.invalid_timestamp, configs=configs)
        for _ in range(3)
    )


def many_headers(target: AttackTarget) -> int:
    """3 kB of zstd that hold one record of 16 million headers."""
    return _produce(target, _encode_batch(ZSTD, compress(ZSTD, _wide_record(16_000_000)), 1))


def headers_allowed(target: AttackTarget) -> int:
    """A record of 500,000 headers, not compressed, for a compacted topic, three times."""
    batch = _encode_batch(NONE, _wide_record(500_000, key=b"k"), 1)
    configs = ({"name": "cleanup.policy", "value": "compact"},)
    return sum(
        _produce(target, batch, expected_error=ErrorCode.none, configs=configs) for _ in range(3)
    )


def searched_by_time(target: AttackTarget) -> int:
    """ListOffsets for the last one of as many records as a batch may have, ten times."""
    now_ms = int(time.time() * 1000)  # retention does not delete it meanwhile
    last_record = bytes.fromhex("0c000200010100")  # a millisecond later
    batch = _encode_batch(ZSTD, compress(ZSTD, TINY * 249_999 + last_record), 250_000, at_ms=now_ms)
    sent_bytes = _produce(target, batch, expected_error=ErrorCode.none)
    topic = {"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": now_ms + 1}]}
    with target.connect() as connection:
        for _ in range(10):
            answer = connection.ask(
                LIST_OFFSETS, 3, replica_id=-1, isolation_level=0, topics=[topic]
            )
            assert not isinstance(answer, NoAnswer), answer
            assert answer.topics[0].partitions[0].timestamp == now_ms + 1, answer
    return sent_bytes


def cleaned_topic(target: AttackTarget) -> int:
    """As many keys as a batch may have, in a compacted topic of two short segments, cleaned."""
    records = bytearray()
    for number in range(250_000):
        body = b"\0\0\0\x06" + number.to_bytes(3, "big") + b"\x02v\0"
        records += _varint(len(body)) + body
    many_records = compress(ZSTD, bytes(records))
    settings = (
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0"),
        ("segment.ms", "1"),
    )
    configs = [{"name": name, "value": value} for name, value in settings]
    last_batch = _encode_batch(NONE, _wide_record(0, key=b"k"), 1, at_ms=3_000)
    sent_bytes = 0
    for data in (
        *(_encode_batch(ZSTD, many_records, 250_000, at_ms=at_ms) for at_ms in (1_000, 2_000)),
        last_batch,
    ):
        sent_bytes += _produce(target, data, expected_error=ErrorCode.none, configs=configs)
    time.sleep(CLEANED_S)
    return sent_bytes


def empty_members(target: AttackTarget) -> int:
    """52,000 empty gzip members in front of a record."""
    compressed_bytes = compress(GZIP, b"") * 52_000 + compress(GZIP, TINY)
    return _produce(target, _encode_batch(GZIP, compressed_bytes, 1), expected_error=None)


def large_record(target: AttackTarget) -> int:
    """One record of 255 MiB in gzip and in zstd."""
    zeros = bytes(255 << 20)
    record = _encode_record(zeros)
    # 255 MiB in snappy are 12 MiB, more than a batch may have.
    return sum(
        _produce(target, _encode_batch(codec, compress(codec, record), 1)) for codec in (GZIP, ZSTD)
    )


def many_partitions(target: AttackTarget) -> int:
    """A bomb of zstd for each of 100 partitions, in one request."""
    batch = _encode_batch(ZSTD, compress(ZSTD, _encode_record(bytes(31 << 20))), 1)
    values = produce((TOPIC, None), batch, VERSION)
    (topic,) = values["topic_data"]
    topic["partition_data"] = [
        {"index": partition_index, "records": batch} for partition_index in range(PARTITIONS)
    ]
    with target.connect() as connection:
        _create_topic(connection)
        answer = connection.ask(PRODUCE, VERSION, **values)
    assert not isinstance(answer, NoAnswer), answer
    return len(batch) * PARTITIONS


def _encode_record(record_value: bytes) -> bytes:
    body = b"\0\0\0\x01" + _varint(len(record_value)) + record_value + b"\0"
    return _varint(len(body)) + body


def _wide_record(header_count: int, *, key: bytes = b"") -> bytes:
    body = b"\0\0\0" + _varint(len(key)) + key + b"\x01" + _varint(header_count)
    body += b"\0\x01" * header_count  # without name or value
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    number <<= 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _encode_batch(codec: int, batch_data: bytes, count: int, *, at_ms: int = 1_000) -> bytes:
    covered_bytes = (
        struct.pack(">hiqqqhii", codec, count - 1, at_ms, at_ms, -1, -1, -1, count) + batch_data
    )
    return (
        struct.pack(">qiibI", 0, len(covered_bytes) + 9, -1, 2, crc32c.crc32c(covered_bytes))
        + covered_bytes
    )


def _create_topic(connection: Any, configs: Configs = ()) -> None:
    topic = {
        "name": TOPIC,
        "num_partitions": PARTITIONS,
        "replication_factor": 1,
        "configs": list(configs),
    }
    connection.ask(CREATE_TOPICS, 7, topics=[topic], timeout=10_000)


def _produce(
    target: AttackTarget,
    batch: bytes,
    *,
    expected_error: ErrorCode | None = ErrorCode.message_too_large,
    configs: Configs = (),
) -> int:
    """Send a Produce. Any answer is accepted, unless a certain error is expected."""
    with target.connect() as connection:
        _create_topic(connection, configs)
        answer = connection.ask(PRODUCE, VERSION, **produce((TOPIC, None), batch, VERSION))
    assert not isinstance(answer, NoAnswer), answer
    error = answer.responses[0].partition_responses[0].error_code
    if expected_error is not None and error is not expected_error:
        raise AssertionError(f"answered {error.name}, expected {expected_error.name}")
    return len(batch)


def old_messages(target: AttackTarget) -> int:
    """Message sets of the formats 0 and 1: 50 MiB of tiny messages, and one of gzip of 200 MiB."""
    bomb, most = gzip.compress(bytes(200 << 20)), 0
    with target.connect() as connection:
        connection.ask(CREATE_TOPICS, 7, topics=[_topic()], timeout=10_000)
    for magic in (0, 1):
        tiny = _old_message(magic)
        for records in (tiny * (OLD_BYTES // len(tiny)), _old_message(magic, 1, bomb)):
            for transactional_id in (None, "t"):
                partition_fields = {"index": 0, "records": records}
                values: dict[str, Any] = {"transactional_id": transactional_id, "acks": 1}
                values["topic_data"] = [{"name": TOPIC, "partition_data": [partition_fields]}]
                frame = request(PRODUCE, VERSION, timeout=30_000, **values)
                with target.socket() as connected:
                    connected.settimeout(60.0)
                    with contextlib.suppress(ConnectionError):
                        exchange(connected, frame, answer_count=1)
                most = max(most, len(frame))  # one is there at a time
    return most


def _old_message(magic: int, codec: int = 0, record_value: bytes | None = None) -> bytes:
    """A message of an old format without a key, encoded like ``LegacyRecord``."""
    length_and_value = struct.pack(">i", -1 if record_value is None else len(record_value)) + (
        record_value or b""
    )
    body = bytes((magic, codec)) + bytes(8 * magic) + struct.pack(">i", -1) + length_and_value
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def _topic() -> dict[str, Any]:
    return {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}


ATTACKS: Final = (
    Attack("batch-tiny-records-zstd", tiny_records_zstd, serve=ONE_BROKER),
    Attack("batch-tiny-records-gzip", tiny_records_gzip, serve=ONE_BROKER),
    Attack("batch-tiny-records-allowed", tiny_records_allowed, serve=ONE_BROKER),
    Attack("batch-many-headers", many_headers, serve=ONE_BROKER),
    Attack("batch-headers-allowed", headers_allowed, serve=ONE_BROKER),
    Attack("batch-searched-by-time", searched_by_time, serve=ONE_BROKER),
    Attack("batch-cleaned", cleaned_topic, serve=ONE_BROKER),
    Attack("batch-empty-gzip-members", empty_members, serve=ONE_BROKER),
    Attack("batch-large-record", large_record, serve=ONE_BROKER),
    Attack("batch-other-codec", other_codec, serve=ONE_BROKER),
    Attack("batch-other-codec-large", other_codec_large, serve=ONE_BROKER),
    Attack("batch-without-keys", without_keys, serve=ONE_BROKER),
    Attack("batch-too-old", too_old, serve=ONE_BROKER),
    Attack("batch-many-partitions", many_partitions, serve=ONE_BROKER),
    Attack("batch-old-messages", old_messages, serve=ONE_BROKER),
    Attack("batch-old-messages-acls", old_messages, serve=(*ONE_BROKER, *WITH_ACLS)),
)
