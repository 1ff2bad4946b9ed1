"""LogValidator: what a client's batch must be, its times, and what errors say."""

from __future__ import annotations

import mmap
import struct
from sys import getsizeof
from typing import Any

import msgspec
import pytest

from tests.support.logs import NOW, batch, make_log, plain
from txnsim.errors import ErrorCode, MissingExtraError
from txnsim.log import unpacking, validation
from txnsim.log._segment import Segment
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.config import NEVER_MS, LogConfig, TimestampType
from txnsim.log.leader_append import append_client
from txnsim.log.partition_log import STEP_RECORDS, PartitionLog, first_at_or_after, first_of_max
from txnsim.log.unpacking import run_steps, unpack_records
from txnsim.log.validation import (
    REREAD_HOLDS_MS,
    UNPACKED_BYTES_MAX,
    UNPACKED_RECORDS_MAX,
    WALK_BYTES,
    RecordErrors,
    RecordRefusal,
    is_heavy_to_check,
    newest_in_steps,
    newest_timestamp,
    reread,
)
from txnsim.releases.rules import LATEST_RULES
from txnsim.settings import DEFAULTS
from txnsim.types import TopicPartition
from txnsim.wire.batch import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    BatchHeader,
    Record,
    assign,
    build_batch,
    control_batch,
    crc_of,
    read_batch_header,
    read_records,
)
from txnsim.wire.batch_header import pack_batch
from txnsim.wire.compression import AT_ONCE_MAX, PackedRecords, compress
from txnsim.wire.record_walk import WALK_PIECES
from txnsim.wire.records import payload_of, signed_varint

# LogValidator: what a client's batch must be, and which answers show the log start offset.


HOUR = 3_600_000
CREATE = LogConfig(rules=LATEST_RULES)
APPEND_TIME = LogConfig(rules=LATEST_RULES, timestamp_type=TimestampType.LOG_APPEND_TIME)
COMPACTED = LogConfig(rules=LATEST_RULES, is_compacted=True)
SMALL = LogConfig(rules=LATEST_RULES, max_message_bytes=500)
TINY = LogConfig(rules=LATEST_RULES, max_message_bytes=60)
SMALL_SEGMENT = LogConfig(rules=LATEST_RULES, segment_bytes=500)
TINY_COMPACTED = LogConfig(rules=LATEST_RULES, is_compacted=True, segment_bytes=9)
BOUNDED = LogConfig(rules=LATEST_RULES, timestamp_before_max_ms=1000)


def with_field(batch_data: bytes, position: int, layout: str, value: int) -> bytes:
    """The batch with one field of its header changed, its CRC right again."""
    buffer = bytearray(batch_data)
    struct.pack_into(layout, buffer, position, value)
    struct.pack_into(">I", buffer, 17, crc_of(buffer))
    return bytes(buffer)


def batch_at_times(*times: int, compression: int = 0, has_append_time: bool = False) -> bytes:
    return build_batch(
        [Record(key=b"k", value=b"v", timestamp_ms=time) for time in times],
        timestamp_ms=times[0],
        compression=compression,
        has_log_append_time=has_append_time,
    )


def log_with_start(config: LogConfig) -> PartitionLog:
    """A log whose start is 1, to tell a real log start from none."""
    log = make_log()
    append_client(log, plain(2), guard=0, now_ms=NOW)
    log.advance_high_watermark(2)
    log.delete_records_before(1)
    log.config = config
    return log


def refuse(batch_data: bytes, config: LogConfig = CREATE) -> AppendRejection:
    log = log_with_start(config)
    state_before = log.snapshot()
    answer = append_client(log, batch_data, guard=0, now_ms=NOW)
    assert isinstance(answer, AppendRejection)
    assert log.snapshot() == state_before
    return answer


def append_and_store(batch_data: bytes, config: LogConfig = CREATE) -> bytes:
    log = log_with_start(config)
    answer = append_client(log, batch_data, guard=0, now_ms=NOW)
    assert isinstance(answer, Appended), answer
    log.check_invariants()
    return list(log.batches())[-1]


FLIPPED = plain()[:-1] + b"\x7f"
MARKER = control_batch(
    producer_id=7,
    producer_epoch=0,
    is_commit=True,
    coordinator_epoch=0,
    base_offset=0,
    leader_epoch=-1,
    timestamp_ms=NOW,
)


@pytest.mark.parametrize(
    ("row", "batch_data", "config", "error", "log_start"),
    [
        ("4 base offset", assign(plain(), base_offset=3, leader_epoch=-1), CREATE, 87, 1),
        ("5 too large", plain(record_value=b"x" * 500), SMALL, 10, -1),
        ("5 before 6", FLIPPED, TINY, 10, -1),
        ("6 CRC", FLIPPED, CREATE, 2, -1),
        ("6 cut off", plain()[:-1], CREATE, 2, -1),
        ("6 no header", b"\0" * 30, CREATE, 2, -1),
        ("8 no record", with_field(plain(), 57, ">i", 0), CREATE, 87, 1),
        ("8 more offsets than records", with_field(plain(2), 57, ">i", 1), CREATE, 87, 1),
        ("8 negative offset delta", with_field(plain(), 23, ">i", -1), CREATE, 87, 1),
        ("9 control", MARKER, CREATE, 87, 1),
        ("10 no sequence", batch(-1, producer_id=7), CREATE, 87, 1),
        ("11 codec 5", with_field(plain(), 21, ">h", 5), CREATE, -1, 1),
        ("11 not gzip", with_field(plain(), 21, ">h", GZIP), CREATE, -1, 1),
        ("11b count", with_field(with_field(plain(2), 57, ">i", 1), 23, ">i", 0), COMPACTED, 87, 1),
        ("14 claims append time", batch_at_times(NOW, has_append_time=True), APPEND_TIME, 32, 1),
        ("16 above the segment", plain(record_value=b"x" * 500), SMALL_SEGMENT, 18, -1),
        ("12 before 16", batch(producer_id=-1, key=None), TINY_COMPACTED, 87, 1),
    ],
)  # fmt: skip
def test_refused(
    row: str, batch_data: bytes, config: LogConfig, error: int, log_start: int
) -> None:
    answer = refuse(batch_data, config)
    assert (answer.error, answer.log_start_offset) == (error, log_start), row


@pytest.mark.parametrize(
    ("batch_data", "config", "rule"),
    [
        (assign(plain(), base_offset=3, leader_epoch=-1), CREATE, "batch.base-offset"),
        (
            plain(record_value=b"x" * 500),
            SMALL,
            "batch.too-large",
        ),
        (
            plain(record_value=b"x" * 500),
            SMALL_SEGMENT,
            "batch.larger-than-segment",
        ),
        (FLIPPED, CREATE, "batch.checksum"),
        (with_field(plain(), 57, ">i", 0), CREATE, "batch.counts"),
        (MARKER, CREATE, "batch.control-flag"),
        (batch(-1, producer_id=7), CREATE, "batch.sequence-of-producer"),
        (with_field(plain(), 21, ">h", 5), CREATE, "batch.codec"),
        (
            with_field(with_field(plain(2), 57, ">i", 1), 23, ">i", 0),
            CREATE,
            "batch.inner-count",
        ),
        (
            with_field(plain()[:61] + b"\x80" * (len(plain()) - 61), 57, ">i", 1),
            CREATE,
            "batch.inner-count",
        ),
        (batch(producer_id=-1, key=None), COMPACTED, "batch.key-required"),
        (batch_at_times(NOW - 2_000), BOUNDED, "batch.timestamp-window"),
        (batch_at_times(NOW, has_append_time=True), APPEND_TIME, "batch.timestamp-type"),
        (
            build_batch(
                [
                    Record(key=None, value=b"v", timestamp_ms=NOW),
                    Record(key=b"k", value=b"v", timestamp_ms=NOW - 2_000),
                ],
                timestamp_ms=NOW,
            ),
            LogConfig(rules=LATEST_RULES, is_compacted=True, timestamp_before_max_ms=1000),
            "batch.worst-record",
        ),
    ],
    ids=lambda parameter: parameter if isinstance(parameter, str) else "",
)
def test_a_refusal_names_its_rule(batch_data: bytes, config: LogConfig, rule: str) -> None:
    assert refuse(batch_data, config).rule == rule


@pytest.mark.parametrize("config", [CREATE, COMPACTED])
def test_inner_offsets_are_not_checked(config: LogConfig) -> None:
    batch_data = bytearray(plain())
    position = batch_data.index(b"\0\0\0\x02k")
    batch_data[position + 2] = 2  # offset delta 1
    append_and_store(with_field(bytes(batch_data), 57, ">i", 1), config)


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("count", [1, 3])
def test_a_header_that_miscounts_its_records_is_refused(codec: int, count: int) -> None:
    batch_data = batch_at_times(NOW, NOW, compression=codec)
    answer = refuse(with_field(with_field(batch_data, 57, ">i", count), 23, ">i", count - 1))
    assert (answer.error, answer.log_start_offset) == (87, 1)
    assert f"the {count} that its header states" in answer.reason


def test_a_record_without_an_end_is_refused() -> None:
    batch_data = plain()
    assert (
        refuse(with_field(batch_data[:61] + b"\x80" * (len(batch_data) - 61), 57, ">i", 1)).error
        == 87
    )


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("claimed_ms", [NOW - 99, NOW + 99])
def test_the_newest_time_is_that_of_the_records(codec: int, claimed_ms: int) -> None:
    batch_data = batch_at_times(NOW - 5, NOW, NOW - 3, compression=codec)
    stored_batch = append_and_store(with_field(batch_data, 35, ">q", claimed_ms))
    assert read_batch_header(stored_batch).max_timestamp_ms == NOW


def test_a_newest_time_that_the_header_hides_is_found() -> None:
    batch_data = batch_at_times(NOW, NOW + 2 * CREATE.timestamp_after_max_ms)
    answer = refuse(with_field(batch_data, 35, ">q", NOW))
    assert answer.error == 32
    assert [index for index, _ in answer.record_errors] == [1]


@pytest.mark.parametrize("codec", [0, GZIP])
def test_each_record_of_a_very_large_batch_is_looked_at(codec: int) -> None:
    several_records = batch_at_times(*[NOW] * 2_000, compression=codec)
    stored_batch = append_and_store(with_field(several_records, 35, ">q", NOW + 7))
    assert read_batch_header(stored_batch).max_timestamp_ms == NOW
    # The value of the last record is longer than the record.
    plain_batch = batch_at_times(*[NOW] * 2_000)
    assert refuse(with_field(plain_batch, len(plain_batch) - 3, ">b", 0x60)).error == 87


@pytest.mark.parametrize(
    ("codec", "config", "form_name"),
    [
        (0, APPEND_TIME, "DefaultRecord(offset=0, timestamp=%d, key=0 bytes, value=0 bytes)"),
        (
            GZIP,
            APPEND_TIME,
            "PartialDefaultRecord(offset=0, timestamp=%d, key=-1 bytes, value=-1 bytes)",
        ),
    ],
)
def test_a_record_that_claims_append_time_is_shown(
    codec: int, config: LogConfig, form_name: str
) -> None:
    batch_data = build_batch(
        [Record(key=None, value=None)],
        timestamp_ms=NOW,
        compression=codec,
        has_log_append_time=True,
    )
    ((_, reason),) = refuse(batch_data, config).record_errors
    assert reason == (
        f"Invalid timestamp type in message {form_name % NOW}. Producer should not set timestamp"
        " type to LogAppendTime."
    )


def test_bytes_behind_the_batch_are_cut_off() -> None:
    assert append_and_store(plain() + b"rest") == assign(plain(), base_offset=2, leader_epoch=0)


def test_a_batch_keeps_all_but_its_place() -> None:
    batch_data = batch(5, count=3, producer_id=9)
    stored_batch = append_and_store(batch_data)
    assert stored_batch[12 + 4 :] == batch_data[16:]
    header = read_batch_header(stored_batch)
    assert (header.base_offset, header.leader_epoch) == (2, 0)


def test_keys_are_required_on_a_compacted_topic() -> None:
    records = [
        Record(key=b"k", value=b"v"),
        Record(key=None, value=b"v"),
        Record(key=None, value=b"v"),
    ]
    for compression in (0, GZIP):
        answer = refuse(build_batch(records, timestamp_ms=NOW, compression=compression), COMPACTED)
        assert (answer.error, answer.log_start_offset) == (87, 1)
        assert answer.record_errors == tuple(
            (
                index,
                "Compacted topic cannot accept message without key in topic partition orders-0",
            )
            for index in (1, 2)
        )
        assert "2 record errors in total" in answer.reason
    append_and_store(plain(), COMPACTED)


def test_a_refusal_shows_three_of_its_record_errors() -> None:
    records = [Record(key=None, value=b"v")] * 4
    answer = refuse(build_batch(records, timestamp_ms=NOW), COMPACTED)
    assert "4 record errors in total" in answer.reason
    assert [f"batchIndex={index}," in answer.reason for index in range(4)] == [True] * 3 + [False]


@pytest.mark.parametrize(
    ("row", "times", "config", "refused"),
    [
        ("now", (NOW,), CREATE, ()),
        ("an hour ahead", (NOW + HOUR,), CREATE, ()),
        ("more than an hour ahead", (NOW, NOW + HOUR + 1), CREATE, (1,)),
        ("ancient", (5, 3), CREATE, ()),
        ("no timestamp", (-1, -1), BOUNDED, ()),
        ("just young enough", (NOW - 1000, NOW), BOUNDED, ()),
        ("too old behind a young one", (NOW, NOW - 1001), BOUNDED, (1,)),
        ("all too old", (NOW - 1001, NOW - 2000), BOUNDED, (0, 1)),
        ("append time: whatever", (NOW + HOUR + 1,), APPEND_TIME, ()),
    ],
)
def test_timestamps(
    row: str, times: tuple[int, ...], config: LogConfig, refused: tuple[int, ...]
) -> None:
    for compression in (0, GZIP):
        batch_data = batch_at_times(*times, compression=compression)
        if not refused:
            append_and_store(batch_data, config)
            continue
        answer = refuse(batch_data, config)
        assert (answer.error, answer.log_start_offset) == (32, 1), row
        assert tuple(index for index, _ in answer.record_errors) == refused
        assert "Timestamp " in answer.record_errors[0][1]
        assert answer.reason == "One or more records have been rejected due to invalid timestamp"


@pytest.mark.parametrize("compression", [0, GZIP])
def test_a_timestamp_that_no_long_holds_is_what_java_makes_of_it(compression: int) -> None:
    batch_data = with_field(batch_at_times(5, 9, compression=compression), 27, ">q", NEVER_MS)
    rejection = refuse(batch_data, CREATE)
    shown_times = [text.split()[1] for _, text in rejection.record_errors]
    assert shown_times == [str(NEVER_MS), str(2 - NEVER_MS)]
    stored_batch = append_and_store(
        batch_data, msgspec.structs.replace(CREATE, timestamp_after_max_ms=NEVER_MS)
    )
    assert read_batch_header(stored_batch).max_timestamp_ms == NEVER_MS


def test_a_missing_key_counts_before_a_wrong_timestamp_of_the_same_record() -> None:
    late_timestamp_ms = NOW + HOUR + 1
    batch_data = build_batch(
        [
            Record(key=None, timestamp_ms=late_timestamp_ms),
            Record(key=b"k", timestamp_ms=late_timestamp_ms),
        ],
        timestamp_ms=late_timestamp_ms,
    )
    answer = refuse(batch_data, COMPACTED)
    assert answer.error == 32  # one record failed for its timestamp
    assert "without key" in answer.record_errors[0][1]
    assert "out of range" in answer.record_errors[1][1]


def test_a_wrong_maximum_is_put_right() -> None:
    """LogValidator writes the true maximum; seen here because it contradicts the base timestamp."""
    batch_data = with_field(batch_at_times(NOW, NOW + 5), 35, ">q", NOW - 1)
    header = read_batch_header(append_and_store(batch_data))
    assert header.max_timestamp_ms == NOW + 5
    assert [record.timestamp_ms for record in read_records(append_and_store(batch_data))] == [
        NOW,
        NOW + 5,
    ]


def test_append_time_topics_stamp_every_record_anew() -> None:
    log = make_log(APPEND_TIME)
    answer = append_client(log, batch_at_times(5, 6, 7), guard=0, now_ms=NOW)
    assert isinstance(answer, Appended)
    assert answer.log_append_time_ms == NOW
    (batch_data,) = log.batches()
    assert read_batch_header(batch_data).crc == crc_of(batch_data)
    assert read_batch_header(batch_data).base_timestamp_ms == 5
    assert [record.timestamp_ms for record in read_records(batch_data)] == [NOW] * 3


def test_append_time_claimed_on_a_create_time_topic() -> None:
    """Every record then reads as the maximum; only without a timestamp is the claim an error."""
    append_and_store(batch_at_times(NOW, has_append_time=True))
    answer = refuse(batch_at_times(-1, has_append_time=True))
    assert answer.error == 32
    assert "LogAppendTime" in answer.record_errors[0][1]


@pytest.fixture
def no_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> Any:
        raise MissingExtraError("no codec")

    monkeypatch.setattr(unpacking, "decompress_at_once", missing)
    monkeypatch.setattr(validation, "payload_of", missing)


@pytest.mark.usefixtures("no_codec")
def test_without_the_codec_the_header_decides_alone() -> None:
    closed_batch = with_field(plain(), 21, ">h", SNAPPY)
    assert append_and_store(closed_batch)
    assert append_and_store(closed_batch, COMPACTED)
    late_batch = with_field(batch_at_times(NOW, NOW + HOUR + 1), 21, ">h", SNAPPY)
    answer = refuse(late_batch)
    assert (answer.error, answer.log_start_offset, answer.record_errors) == (32, 1, ())


# Another codec


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("topic_codec", [NONE, GZIP, LZ4])
def test_a_topic_with_a_codec_packs_anew_what_comes_in_another(
    codec: int, topic_codec: int
) -> None:
    batch_data = batch(0, count=3, compression=codec)
    stored_batch = append_and_store(
        batch_data, LogConfig(rules=LATEST_RULES, codec=topic_codec, codec_level=1)
    )
    assert read_batch_header(stored_batch).compression == topic_codec
    assert read_batch_header(stored_batch).crc == crc_of(stored_batch)
    stored_records, sent_records = read_records(stored_batch), read_records(batch_data)
    assert [(record.key, record.value, record.timestamp_ms) for record in stored_records] == [
        (record.key, record.value, record.timestamp_ms) for record in sent_records
    ]
    assert (stored_batch[61:] == batch_data[61:]) == (codec == topic_codec)


def test_the_size_counts_once_it_is_packed_anew() -> None:
    batch_data = build_batch([Record(value=b"v" * 500)], timestamp_ms=NOW, compression=GZIP)
    answer = refuse(batch_data, LogConfig(rules=LATEST_RULES, codec=NONE, max_message_bytes=300))
    assert (answer.error, answer.rule) == (10, "batch.recompressed-too-large")


def test_what_can_not_be_read_can_not_be_packed_anew() -> None:
    batch_data = bytearray(batch(0, count=20))
    batch_data[65] = 0x08  # the length of the first key
    answer = refuse(
        with_field(bytes(batch_data), 21, ">h", 0), LogConfig(rules=LATEST_RULES, codec=GZIP)
    )
    assert answer.error == 87


@pytest.mark.usefixtures("no_codec")
def test_a_closed_batch_is_refused_by_the_rule_of_times() -> None:
    late_batch = with_field(batch_at_times(NOW - 2_000), 21, ">h", SNAPPY)
    assert refuse(late_batch, BOUNDED).rule == "batch.timestamp-window"


@pytest.mark.usefixtures("no_codec")
def test_without_the_codec_a_batch_stays_as_it_is() -> None:
    closed_batch = with_field(plain(), 21, ">h", SNAPPY)
    assert (
        read_batch_header(
            append_and_store(closed_batch, LogConfig(rules=LATEST_RULES, codec=GZIP))
        ).compression
        == SNAPPY
    )


def test_lengths_inside_of_few_records_are_looked_at() -> None:
    batch_data = bytearray(plain())
    batch_data[65] = 0x60
    assert refuse(with_field(bytes(batch_data), 21, ">h", 0)).error == 87


def test_lengths_inside_of_many_records_are_looked_at_where_keys_are_wanted() -> None:
    batch_data = bytearray(batch(0, count=20))
    batch_data[65] = 0x08
    assert refuse(with_field(bytes(batch_data), 21, ">h", 0), COMPACTED).error == 87


def compressed_batch(codec: int = ZSTD, *, key: bytes | None = b"k") -> bytes:
    records = [
        Record(key=key, value=b"v", timestamp_ms=NOW + record_number) for record_number in range(50)
    ]
    return build_batch(records, timestamp_ms=NOW, compression=codec)


@pytest.mark.parametrize("key", [b"k", None])
@pytest.mark.parametrize(
    "config",
    [
        CREATE,
        COMPACTED,
        BOUNDED,
        LogConfig(rules=LATEST_RULES, codec=GZIP),
        LogConfig(rules=LATEST_RULES, codec=NONE, is_compacted=True),
        LogConfig(rules=LATEST_RULES, codec=ZSTD),
        LogConfig(rules=LATEST_RULES, timestamp_after_max_ms=10),
        LogConfig(rules=LATEST_RULES, codec=LZ4, timestamp_type=TimestampType.LOG_APPEND_TIME),
    ],
)
def test_what_was_reread_beside_the_loop_is_appended_as_it_would_have_been(
    config: LogConfig, key: bytes | None
) -> None:
    batch_data = compressed_batch(key=key)
    header = read_batch_header(batch_data)
    newest_ms = newest_timestamp(header, batch_data)
    assert isinstance(newest_ms, int)
    log_at_once, later_log = (
        PartitionLog(topic_partition=TopicPartition("t", 0), config=config, leader_epoch=0)
        for _ in range(2)
    )
    reread_at_once, reread_from_payload = (
        reread(
            header,
            batch_data,
            newest_ms,
            topic_partition=TopicPartition("t", 0),
            config=config,
            now_ms=NOW,
            log_start_offset=0,
            payload=payload,
        )
        for payload in (None, payload_of(batch_data, header))
    )
    assert reread_from_payload == reread_at_once
    expected = append_client(log_at_once, batch_data, guard=0, now_ms=NOW)
    assert (
        append_client(
            later_log, batch_data, guard=0, now_ms=NOW, timestamp_check=reread_at_once or newest_ms
        )
        == expected
    )
    assert list(later_log.batches()) == list(log_at_once.batches())


def test_what_was_reread_is_used_once_and_under_the_same_rules_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = LogConfig(rules=LATEST_RULES, codec=GZIP, is_compacted=True)
    batch_data = compressed_batch()
    header = read_batch_header(batch_data)
    batch_reread = reread(
        header,
        batch_data,
        NOW,
        topic_partition=TopicPartition("t", 0),
        config=config,
        now_ms=NOW,
        log_start_offset=0,
    )
    assert batch_reread is not None
    assert batch_reread.is_valid(config, NOW + REREAD_HOLDS_MS)
    assert not batch_reread.is_valid(config, NOW + REREAD_HOLDS_MS + 1)
    assert not batch_reread.is_valid(LogConfig(rules=LATEST_RULES, codec=GZIP), NOW)
    monkeypatch.setattr(validation, "payload_of", lambda *_: pytest.fail("read again"))
    log = PartitionLog(topic_partition=TopicPartition("t", 0), config=config, leader_epoch=0)
    append_client(log, batch_data, guard=0, now_ms=NOW, timestamp_check=batch_reread)
    (stored_batch,) = log.batches()
    assert read_batch_header(stored_batch).compression == GZIP


# Batches that hold a lot: looked at in steps, with bounds, and with the same result as at once.


def spoilt(batch: bytes) -> bytes:
    """The batch with two bytes zeroed near the start of its records."""
    return batch[:63] + b"\0\0" + batch[65:]


def batch_of_payload(codec: int, records: bytes, record_count: int) -> bytes:
    return pack_batch(
        compress(codec, records),
        base_offset=0,
        leader_epoch=-1,
        attributes=codec,
        last_offset_delta=record_count - 1,
        base_timestamp_ms=NOW,
        max_timestamp_ms=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=record_count,
    )


UNPACKING_TINY = bytes.fromhex("0c000000010100")
"""The smallest record there is."""


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize(
    ("records", "count", "reason"),
    [
        (bytes(UNPACKED_BYTES_MAX + 1), 1, f"more than {UNPACKED_BYTES_MAX} bytes"),
        (
            UNPACKING_TINY * (UNPACKED_RECORDS_MAX + 1),
            UNPACKED_RECORDS_MAX + 1,
            f"{UNPACKED_RECORDS_MAX + 1} records in a compressed batch, at most",
        ),
    ],
    ids=["bytes", "records"],
)
def test_what_unpacks_to_too_much_is_too_large(
    codec: int, records: bytes, count: int, reason: str
) -> None:
    batch = batch_of_payload(codec, records, count)
    header = read_batch_header(batch, 0)
    rejection = newest_timestamp(header, batch)
    assert isinstance(rejection, AppendRejection)
    assert (rejection.error, rejection.log_start_offset) == (ErrorCode.message_too_large, -1)
    assert reason in str(rejection.reason)


def test_a_length_that_never_ends_is_refused_in_a_compressed_batch_too() -> None:
    batch = batch_of_payload(GZIP, b"\xff" * 12, 1)
    rejection = newest_timestamp(read_batch_header(batch, 0), batch)
    assert isinstance(rejection, AppendRejection)
    assert (rejection.error, rejection.log_start_offset) == (ErrorCode.invalid_record, -1)


@pytest.mark.slow
def test_many_records_are_looked_at_in_steps_that_others_come_between() -> None:
    count = UNPACKED_RECORDS_MAX
    batch = batch_of_payload(ZSTD, UNPACKING_TINY * count, count)
    header = read_batch_header(batch, 0)
    assert is_heavy_to_check([header])
    assert not is_heavy_to_check([])
    costs_ns, packed_records, newest_ms = in_steps(header, batch)
    assert len(packed_records) == 1
    assert len(costs_ns) >= count // WALK_PIECES
    assert max(costs_ns) <= 2_000_000
    assert newest_ms == newest_timestamp(header, batch) == NOW


def test_steps_find_what_is_found_at_once() -> None:
    for batch_data in (
        plain(),
        batch_of_payload(GZIP, UNPACKING_TINY * 3, 3),
        batch_of_payload(GZIP, UNPACKING_TINY * 3, 4),
        batch_of_payload(GZIP, b"\xff" * (2 * AT_ONCE_MAX), 3),
        batch_of_payload(ZSTD, bytes(UNPACKED_BYTES_MAX + 1), 3),
        spoilt(batch_of_payload(ZSTD, bytes(2 * AT_ONCE_MAX), 3)),
    ):
        header = read_batch_header(batch_data, 0)
        _, _, newest_ms = in_steps(header, batch_data)
        assert newest_ms == newest_timestamp(header, batch_data)


def in_steps(
    header: BatchHeader, batch: bytes
) -> tuple[list[int], list[PackedRecords], AppendRejection | int]:
    steps = newest_in_steps(header, batch)
    costs_ns, packed_records, answer = [], [], None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            return costs_ns, packed_records, end.value
        answer = None
        if isinstance(step, int):
            costs_ns.append(step)
        else:
            packed_records.append(step)
            answer = unpack_records(step, mmap.mmap(-1, step.room_bytes))


def test_packed_batches_and_many_records_are_heavy() -> None:
    packed_header = read_batch_header(batch_of_payload(GZIP, UNPACKING_TINY, 1), 0)
    bare_header = read_batch_header(plain(), 0)
    assert is_heavy_to_check([bare_header, packed_header])
    assert not is_heavy_to_check([bare_header] * (WALK_BYTES // bare_header.size))
    many_headers = [msgspec.structs.replace(bare_header, records_count=WALK_PIECES)]
    assert not is_heavy_to_check(many_headers)
    assert is_heavy_to_check([*many_headers, bare_header])
    assert is_heavy_to_check([read_batch_header(plain(record_value=bytes(WALK_BYTES)), 0)])


WIDE = 60_000
"""Headers of one record."""


def wide(header_count: int, codec: int) -> bytes:
    """A batch of one record that has ``headers`` headers."""
    body = b"\0\0\0\x01\x01" + signed_varint(header_count) + b"\0\x01" * header_count
    return batch_of_payload(codec, signed_varint(len(body)) + body, 1)


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_many_headers_are_looked_at_in_steps(codec: int) -> None:
    batch = wide(WIDE, codec)
    header = read_batch_header(batch, 0)
    assert is_heavy_to_check([header])
    costs_ns, _, newest_ms = in_steps(header, batch)
    assert len(costs_ns) >= WIDE // WALK_PIECES
    assert max(costs_ns) <= 2_000_000
    assert newest_ms == newest_timestamp(header, batch) == NOW


def test_more_headers_than_are_unpacked_make_a_batch_too_large() -> None:
    batch, bare_batch = wide(260_000, ZSTD), wide(260_000, NONE)
    rejection = newest_timestamp(read_batch_header(batch, 0), batch)
    assert isinstance(rejection, AppendRejection)
    assert rejection.error is ErrorCode.message_too_large
    assert newest_timestamp(read_batch_header(bare_batch, 0), bare_batch) == NOW


# Searches by time, inside batches too.


def segment(
    *batches: tuple[int, ...],
    base_offset: int = 0,
    compression: int = 0,
    has_append_time: bool = False,
) -> Segment:
    segment = Segment(base_offset)
    offset = base_offset
    for times in batches:
        batch_data = build_batch(
            [Record(value=b"v", timestamp_ms=time) for time in times],
            timestamp_ms=max(times),
            compression=compression,
            has_log_append_time=has_append_time,
            base_offset=offset,
            leader_epoch=0,
        )
        append_to_segment(segment, batch_data)
        offset += len(times)
    return segment


def append_to_segment(segment: Segment, batch_data: bytes) -> None:
    header = read_batch_header(batch_data)
    segment.append(
        batch_data,
        header.base_offset,
        header.last_offset,
        max_timestamp=header.max_timestamp_ms,
        now_ms=0,
    )


@pytest.mark.parametrize("compression", [0, GZIP])
@pytest.mark.parametrize(
    ("timestamp", "start", "expected"),
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
    compression: int, timestamp: int, start: int, expected: tuple[int, int] | None
) -> None:
    made_segment = segment((10, 30, 20), (25, 40), compression=compression)
    assert run_steps(first_at_or_after([made_segment], timestamp, start_offset=start)) == expected


def test_only_the_first_segment_that_reaches_the_time_is_asked() -> None:
    """This holds also if the record of that time is below the log start (UnifiedLog)."""
    first_segment, second_segment = segment((10, 30, 20)), segment((35,), base_offset=3)
    assert run_steps(first_at_or_after([first_segment, second_segment], 25, start_offset=0)) == (
        30,
        1,
    )
    assert run_steps(first_at_or_after([first_segment, second_segment], 31, start_offset=0)) == (
        35,
        3,
    )
    assert run_steps(first_at_or_after([first_segment, second_segment], 25, start_offset=2)) is None


def test_the_first_record_of_the_largest_time() -> None:
    assert run_steps(first_of_max([segment((10, 30, 20), (30, 25), (5,))])) == (30, 1)
    assert run_steps(first_of_max([segment()])) is None
    assert run_steps(first_of_max([segment((-1,))])) == (-1, 0)


def test_of_segments_with_one_largest_time_the_first_is_asked() -> None:
    assert run_steps(
        first_of_max([segment((5,)), segment((9,), base_offset=1), segment((9,), base_offset=2)])
    ) == (
        9,
        1,
    )


def test_with_append_time_every_record_has_the_batchs_time() -> None:
    made_segment = segment((10, 30), has_append_time=True)
    assert run_steps(first_at_or_after([made_segment], 20, start_offset=0)) == (30, 0)
    assert run_steps(first_of_max([made_segment])) == (30, 0)


def test_a_header_whose_maximum_no_record_has_finds_nothing() -> None:
    segment_bytes = bytearray(segment((10, 30)).batch(0))
    struct.pack_into(">q", segment_bytes, 35, 99)
    lying_segment = Segment(0)
    append_to_segment(lying_segment, bytes(segment_bytes))
    assert run_steps(first_of_max([lying_segment])) is None
    assert run_steps(first_at_or_after([lying_segment], 50, start_offset=0)) is None


def test_a_batch_without_codec_is_known_by_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> bytes:
        raise MissingExtraError("no codec")

    made_segment = segment((10, 20, 30), compression=GZIP)
    monkeypatch.setattr(unpacking, "decompress_at_once", missing)
    assert run_steps(first_at_or_after([made_segment], 10, start_offset=0)) == (10, 0)
    assert run_steps(first_at_or_after([made_segment], 15, start_offset=0)) == (30, 2)
    assert run_steps(first_of_max([made_segment])) == (30, 2)


@pytest.mark.parametrize("compression", [0, GZIP])
def test_a_large_batch_is_read_in_steps(compression: int) -> None:
    made_segment = segment(tuple(range(4 * STEP_RECORDS)), compression=compression)
    steps = first_at_or_after([made_segment], 3 * STEP_RECORDS, start_offset=0)
    for _ in range(2):
        assert isinstance(next(steps), int)
    assert run_steps(steps) == (3 * STEP_RECORDS, 3 * STEP_RECORDS)


def test_what_was_cut_off_between_two_steps_is_not_found() -> None:
    made_segment = segment(tuple(range(2 * STEP_RECORDS)), (9_000,), base_offset=10)
    steps = first_at_or_after([made_segment], STEP_RECORDS, start_offset=STEP_RECORDS + 10 + 1)
    next(steps)
    made_segment.truncate_to(10, now_ms=0)
    assert run_steps(steps) == (STEP_RECORDS + 1, STEP_RECORDS + 11)  # the batch that is being read


# What is told of a bad record is made when it is asked for.


def many_errors(count: int) -> RecordErrors:
    errors = RecordErrors(lambda refused: f"{refused.timestamp} {refused.key_size}")
    for index in range(count):
        errors.note(RecordRefusal(index * 2, 5 + index, -1, 3))
    return errors


def test_it_is_a_sequence_of_pairs() -> None:
    errors = many_errors(3)
    expected_errors = ((0, "5 -1"), (2, "6 -1"), (4, "7 -1"))
    assert errors == expected_errors
    assert errors == many_errors(3)
    assert errors != expected_errors[:2]
    assert errors != 3
    assert hash(errors) == hash(many_errors(3))
    assert (errors[-1], errors[:2], len(errors)) == (expected_errors[-1], expected_errors[:2], 3)
    with pytest.raises(IndexError):
        errors[3]
    assert not many_errors(0)


def test_a_bad_record_takes_few_bytes() -> None:
    errors = many_errors(100_000)
    arrays = (errors._indexes, errors._timestamps, errors._key_sizes, errors._value_sizes)
    assert sum(map(getsizeof, arrays)) < 100_000 * 24


# A log's configuration agrees with the cluster's settings by default.


def test_defaults_are_those_of_the_settings() -> None:
    config = LogConfig(rules=LATEST_RULES)
    assert config.max_message_bytes == DEFAULTS.message_max_bytes
    assert config.segment_bytes == DEFAULTS.segment_bytes
    assert config.timestamp_before_max_ms == DEFAULTS.message_timestamp_before_max_ms == NEVER_MS
    assert config.producer_id_expiration_ms == DEFAULTS.producer_id_expiration_ms
    assert config.needs_verification == DEFAULTS.transaction_partition_verification_enable
    assert config.timestamp_type is TimestampType.CREATE_TIME
    assert DEFAULTS.message_timestamp_type == "CreateTime"
    assert not config.is_compacted


def test_timestamp_types_are_attribute_bit_3() -> None:
    assert (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME) == (0, 1)
