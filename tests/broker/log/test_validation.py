"""LogValidator: what a client's batch must be, and which answers show the log start offset."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.support.logs import NOW, batch, make_log, plain
from txnsim.errors import MissingExtraError
from txnsim.log import unpacking, validation
from txnsim.log.answers import Appended, AppendRejection
from txnsim.log.config import LogConfig, TimestampType
from txnsim.log.leader_append import append_client
from txnsim.log.partition_log import PartitionLog
from txnsim.log.validation import (
    REREAD_HOLDS_MS,
    newest_timestamp,
    reread,
)
from txnsim.releases.rules import LATEST
from txnsim.types import TopicPartition
from txnsim.wire.batch import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    Record,
    assign,
    build_batch,
    control_batch,
    crc_of,
    read_batch_header,
    read_records,
)
from txnsim.wire.records import payload_of

HOUR = 3_600_000
CREATE = LogConfig(rules=LATEST)
APPEND_TIME = LogConfig(rules=LATEST, timestamp_type=TimestampType.LOG_APPEND_TIME)
COMPACTED = LogConfig(rules=LATEST, is_compacted=True)
SMALL = LogConfig(rules=LATEST, max_message_bytes=500)
TINY = LogConfig(rules=LATEST, max_message_bytes=60)
SMALL_SEGMENT = LogConfig(rules=LATEST, segment_bytes=500)
TINY_COMPACTED = LogConfig(rules=LATEST, is_compacted=True, segment_bytes=9)
BOUNDED = LogConfig(rules=LATEST, timestamp_before_max_ms=1000)


def patched(data: bytes, at: int, layout: str, value: int) -> bytes:
    """The batch with one field of its header changed, its CRC right again."""
    buffer = bytearray(data)
    struct.pack_into(layout, buffer, at, value)
    struct.pack_into(">I", buffer, 17, crc_of(buffer))
    return bytes(buffer)


def stamped(*times: int, compression: int = 0, log_append_time: bool = False) -> bytes:
    return build_batch(
        [Record(key=b"k", value=b"v", timestamp_ms=time) for time in times],
        timestamp_ms=times[0],
        compression=compression,
        log_append_time=log_append_time,
    )


def log_with_start(config: LogConfig) -> PartitionLog:
    """A log whose start is 1, to tell a real log start from none."""
    log = make_log()
    append_client(log, plain(2), guard=0, now_ms=NOW)
    log.advance_high_watermark(2)
    log.delete_records_before(1)
    log.config = config
    return log


def refuse(data: bytes, config: LogConfig = CREATE) -> AppendRejection:
    log = log_with_start(config)
    before = log.snapshot()
    answer = append_client(log, data, guard=0, now_ms=NOW)
    assert isinstance(answer, AppendRejection)
    assert log.snapshot() == before
    return answer


def stored(data: bytes, config: LogConfig = CREATE) -> bytes:
    log = log_with_start(config)
    answer = append_client(log, data, guard=0, now_ms=NOW)
    assert isinstance(answer, Appended), answer
    log.check_invariants()
    return list(log.batches())[-1]


FLIPPED = plain()[:-1] + b"\x7f"
MARKER = control_batch(
    producer_id=7,
    producer_epoch=0,
    committed=True,
    coordinator_epoch=0,
    base_offset=0,
    leader_epoch=-1,
    timestamp_ms=NOW,
)


@pytest.mark.parametrize(
    ("row", "data", "config", "error", "log_start"),
    [
        ("4 base offset", assign(plain(), base_offset=3, leader_epoch=-1), CREATE, 87, 1),
        ("5 too large", plain(value=b"x" * 500), SMALL, 10, -1),
        ("5 before 6", FLIPPED, TINY, 10, -1),
        ("6 CRC", FLIPPED, CREATE, 2, -1),
        ("6 cut off", plain()[:-1], CREATE, 2, -1),
        ("6 no header", b"\0" * 30, CREATE, 2, -1),
        ("8 no record", patched(plain(), 57, ">i", 0), CREATE, 87, 1),
        ("8 more offsets than records", patched(plain(2), 57, ">i", 1), CREATE, 87, 1),
        ("8 negative offset delta", patched(plain(), 23, ">i", -1), CREATE, 87, 1),
        ("9 control", MARKER, CREATE, 87, 1),
        ("10 no sequence", batch(-1, pid=7), CREATE, 87, 1),
        ("11 codec 5", patched(plain(), 21, ">h", 5), CREATE, -1, 1),
        ("11 not gzip", patched(plain(), 21, ">h", GZIP), CREATE, -1, 1),
        ("11b count", patched(patched(plain(2), 57, ">i", 1), 23, ">i", 0), COMPACTED, 87, 1),
        ("14 claims append time", stamped(NOW, log_append_time=True), APPEND_TIME, 32, 1),
        ("16 above the segment", plain(value=b"x" * 500), SMALL_SEGMENT, 18, -1),
        ("12 before 16", batch(pid=-1, key=None), TINY_COMPACTED, 87, 1),
    ],
)  # fmt: skip
def test_refused(row: str, data: bytes, config: LogConfig, error: int, log_start: int) -> None:
    answer = refuse(data, config)
    assert (answer.error, answer.log_start_offset) == (error, log_start), row


@pytest.mark.parametrize(
    ("data", "config", "rule"),
    [
        (assign(plain(), base_offset=3, leader_epoch=-1), CREATE, "batch.base-offset"),
        (
            plain(value=b"x" * 500),
            SMALL,
            "batch.too-large",
        ),
        (
            plain(value=b"x" * 500),
            SMALL_SEGMENT,
            "batch.larger-than-segment",
        ),
        (FLIPPED, CREATE, "batch.checksum"),
        (patched(plain(), 57, ">i", 0), CREATE, "batch.counts"),
        (MARKER, CREATE, "batch.control-flag"),
        (batch(-1, pid=7), CREATE, "batch.sequence-of-producer"),
        (patched(plain(), 21, ">h", 5), CREATE, "batch.codec"),
        (
            patched(patched(plain(2), 57, ">i", 1), 23, ">i", 0),
            CREATE,
            "batch.inner-count",
        ),
        (
            patched(plain()[:61] + b"\x80" * (len(plain()) - 61), 57, ">i", 1),
            CREATE,
            "batch.inner-count",
        ),
        (batch(pid=-1, key=None), COMPACTED, "batch.key-required"),
        (stamped(NOW - 2_000), BOUNDED, "batch.timestamp-window"),
        (stamped(NOW, log_append_time=True), APPEND_TIME, "batch.timestamp-type"),
        (
            build_batch(
                [
                    Record(key=None, value=b"v", timestamp_ms=NOW),
                    Record(key=b"k", value=b"v", timestamp_ms=NOW - 2_000),
                ],
                timestamp_ms=NOW,
            ),
            LogConfig(rules=LATEST, is_compacted=True, timestamp_before_max_ms=1000),
            "batch.worst-record",
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_refusal_names_its_rule(data: bytes, config: LogConfig, rule: str) -> None:
    assert refuse(data, config).rule == rule


@pytest.mark.parametrize("config", [CREATE, COMPACTED])
def test_inner_offsets_are_not_checked(config: LogConfig) -> None:
    data = bytearray(plain())
    at = data.index(b"\0\0\0\x02k")
    data[at + 2] = 2  # offset delta 1
    stored(patched(bytes(data), 57, ">i", 1), config)


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("count", [1, 3])
def test_a_header_that_miscounts_its_records_is_refused(codec: int, count: int) -> None:
    data = stamped(NOW, NOW, compression=codec)
    answer = refuse(patched(patched(data, 57, ">i", count), 23, ">i", count - 1))
    assert (answer.error, answer.log_start_offset) == (87, 1)
    assert f"the {count} that its header states" in answer.reason


def test_a_record_without_an_end_is_refused() -> None:
    data = plain()
    assert refuse(patched(data[:61] + b"\x80" * (len(data) - 61), 57, ">i", 1)).error == 87


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("told", [NOW - 99, NOW + 99])
def test_the_newest_time_is_that_of_the_records(codec: int, told: int) -> None:
    data = stamped(NOW - 5, NOW, NOW - 3, compression=codec)
    kept = stored(patched(data, 35, ">q", told))
    assert read_batch_header(kept).max_timestamp_ms == NOW


def test_a_newest_time_that_the_header_hides_is_found() -> None:
    data = stamped(NOW, NOW + 2 * CREATE.timestamp_after_max_ms)
    answer = refuse(patched(data, 35, ">q", NOW))
    assert answer.error == 32
    assert [index for index, _ in answer.record_errors] == [1]


@pytest.mark.parametrize("codec", [0, GZIP])
def test_each_record_of_a_very_large_batch_is_looked_at(codec: int) -> None:
    several = stamped(*[NOW] * 2_000, compression=codec)
    kept = stored(patched(several, 35, ">q", NOW + 7))
    assert read_batch_header(kept).max_timestamp_ms == NOW
    # The value of the last record is longer than the record.
    plain = stamped(*[NOW] * 2_000)
    assert refuse(patched(plain, len(plain) - 3, ">b", 0x60)).error == 87


@pytest.mark.parametrize(
    ("codec", "config", "shown"),
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
    codec: int, config: LogConfig, shown: str
) -> None:
    data = build_batch(
        [Record(key=None, value=None)], timestamp_ms=NOW, compression=codec, log_append_time=True
    )
    ((_, why),) = refuse(data, config).record_errors
    assert why == (
        f"Invalid timestamp type in message {shown % NOW}. Producer should not set timestamp type "
        "to LogAppendTime."
    )


def test_bytes_behind_the_batch_are_cut_off() -> None:
    assert stored(plain() + b"rest") == assign(plain(), base_offset=2, leader_epoch=0)


def test_a_batch_keeps_all_but_its_place() -> None:
    data = batch(5, count=3, pid=9)
    kept = stored(data)
    assert kept[12 + 4 :] == data[16:]
    header = read_batch_header(kept)
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
    stored(plain(), COMPACTED)


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
        data = stamped(*times, compression=compression)
        if not refused:
            stored(data, config)
            continue
        answer = refuse(data, config)
        assert (answer.error, answer.log_start_offset) == (32, 1), row
        assert tuple(index for index, _ in answer.record_errors) == refused
        assert "Timestamp " in answer.record_errors[0][1]
        assert answer.reason == "One or more records have been rejected due to invalid timestamp"


def test_a_missing_key_counts_before_a_wrong_timestamp_of_the_same_record() -> None:
    late = NOW + HOUR + 1
    data = build_batch(
        [Record(key=None, timestamp_ms=late), Record(key=b"k", timestamp_ms=late)],
        timestamp_ms=late,
    )
    answer = refuse(data, COMPACTED)
    assert answer.error == 32  # one record failed for its timestamp
    assert "without key" in answer.record_errors[0][1]
    assert "out of range" in answer.record_errors[1][1]


def test_a_wrong_maximum_is_put_right() -> None:
    """LogValidator writes the true maximum; seen here because it contradicts the base timestamp."""
    data = patched(stamped(NOW, NOW + 5), 35, ">q", NOW - 1)
    header = read_batch_header(stored(data))
    assert header.max_timestamp_ms == NOW + 5
    assert [record.timestamp_ms for record in read_records(stored(data))] == [NOW, NOW + 5]


def test_append_time_topics_stamp_every_record_anew() -> None:
    log = make_log(APPEND_TIME)
    answer = append_client(log, stamped(5, 6, 7), guard=0, now_ms=NOW)
    assert isinstance(answer, Appended)
    assert answer.log_append_time_ms == NOW
    (data,) = log.batches()
    assert read_batch_header(data).crc == crc_of(data)
    assert read_batch_header(data).base_timestamp_ms == 5
    assert [record.timestamp_ms for record in read_records(data)] == [NOW] * 3


def test_append_time_claimed_on_a_create_time_topic() -> None:
    """Every record then reads as the maximum; only without a timestamp is the claim an error."""
    stored(stamped(NOW, log_append_time=True))
    answer = refuse(stamped(-1, log_append_time=True))
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
    closed = patched(plain(), 21, ">h", SNAPPY)
    assert stored(closed)
    assert stored(closed, COMPACTED)
    late = patched(stamped(NOW, NOW + HOUR + 1), 21, ">h", SNAPPY)
    answer = refuse(late)
    assert (answer.error, answer.log_start_offset, answer.record_errors) == (32, 1, ())


# Another codec


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("wanted", [NONE, GZIP, LZ4])
def test_a_topic_with_a_codec_packs_anew_what_comes_in_another(codec: int, wanted: int) -> None:
    data = batch(0, count=3, compression=codec)
    kept = stored(data, LogConfig(rules=LATEST, codec=wanted, codec_level=1))
    assert read_batch_header(kept).compression == wanted
    assert read_batch_header(kept).crc == crc_of(kept)
    shown, sent = read_records(kept), read_records(data)
    assert [(one.key, one.value, one.timestamp_ms) for one in shown] == [
        (one.key, one.value, one.timestamp_ms) for one in sent
    ]
    assert (kept[61:] == data[61:]) == (codec == wanted)


def test_the_size_counts_once_it_is_packed_anew() -> None:
    data = build_batch([Record(value=b"v" * 500)], timestamp_ms=NOW, compression=GZIP)
    answer = refuse(data, LogConfig(rules=LATEST, codec=NONE, max_message_bytes=300))
    assert (answer.error, answer.rule) == (10, "batch.recompressed-too-large")


def test_what_can_not_be_read_can_not_be_packed_anew() -> None:
    data = bytearray(batch(0, count=20))
    data[65] = 0x08  # the length of the first key
    answer = refuse(patched(bytes(data), 21, ">h", 0), LogConfig(rules=LATEST, codec=GZIP))
    assert answer.error == 87


@pytest.mark.usefixtures("no_codec")
def test_a_closed_batch_is_refused_by_the_rule_of_times() -> None:
    late = patched(stamped(NOW - 2_000), 21, ">h", SNAPPY)
    assert refuse(late, BOUNDED).rule == "batch.timestamp-window"


@pytest.mark.usefixtures("no_codec")
def test_without_the_codec_a_batch_stays_as_it_is() -> None:
    closed = patched(plain(), 21, ">h", SNAPPY)
    assert (
        read_batch_header(stored(closed, LogConfig(rules=LATEST, codec=GZIP))).compression == SNAPPY
    )


def test_lengths_inside_of_few_records_are_looked_at() -> None:
    data = bytearray(plain())
    data[65] = 0x60
    assert refuse(patched(bytes(data), 21, ">h", 0)).error == 87


def test_lengths_inside_of_many_records_are_looked_at_where_keys_are_wanted() -> None:
    data = bytearray(batch(0, count=20))
    data[65] = 0x08
    assert refuse(patched(bytes(data), 21, ">h", 0), COMPACTED).error == 87


def compressed(codec: int = ZSTD, *, key: bytes | None = b"k") -> bytes:
    records = [Record(key=key, value=b"v", timestamp_ms=NOW + at) for at in range(50)]
    return build_batch(records, timestamp_ms=NOW, compression=codec)


@pytest.mark.parametrize("key", [b"k", None])
@pytest.mark.parametrize(
    "config",
    [
        CREATE,
        COMPACTED,
        BOUNDED,
        LogConfig(rules=LATEST, codec=GZIP),
        LogConfig(rules=LATEST, codec=NONE, is_compacted=True),
        LogConfig(rules=LATEST, codec=ZSTD),
        LogConfig(rules=LATEST, timestamp_after_max_ms=10),
        LogConfig(rules=LATEST, codec=LZ4, timestamp_type=TimestampType.LOG_APPEND_TIME),
    ],
)
def test_what_was_reread_beside_the_loop_is_appended_as_it_would_have_been(
    config: LogConfig, key: bytes | None
) -> None:
    data = compressed(key=key)
    header = read_batch_header(data)
    found = newest_timestamp(header, data)
    assert isinstance(found, int)
    at_once, later = (
        PartitionLog(topic_partition=TopicPartition("t", 0), config=config, leader_epoch=0)
        for _ in range(2)
    )
    known, from_payload = (
        reread(
            header,
            data,
            found,
            topic_partition=TopicPartition("t", 0),
            config=config,
            now_ms=NOW,
            log_start_offset=0,
            payload=payload,
        )
        for payload in (None, payload_of(data, header))
    )
    assert from_payload == known
    expected = append_client(at_once, data, guard=0, now_ms=NOW)
    assert append_client(later, data, guard=0, now_ms=NOW, newest=known or found) == expected
    assert list(later.batches()) == list(at_once.batches())


def test_what_was_reread_is_used_once_and_under_the_same_rules_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = LogConfig(rules=LATEST, codec=GZIP, is_compacted=True)
    data = compressed()
    header = read_batch_header(data)
    known = reread(
        header,
        data,
        NOW,
        topic_partition=TopicPartition("t", 0),
        config=config,
        now_ms=NOW,
        log_start_offset=0,
    )
    assert known is not None
    assert known.holds(config, NOW + REREAD_HOLDS_MS)
    assert not known.holds(config, NOW + REREAD_HOLDS_MS + 1)
    assert not known.holds(LogConfig(rules=LATEST, codec=GZIP), NOW)
    monkeypatch.setattr(validation, "payload_of", lambda *_: pytest.fail("read again"))
    log = PartitionLog(topic_partition=TopicPartition("t", 0), config=config, leader_epoch=0)
    append_client(log, data, guard=0, now_ms=NOW, newest=known)
    (stored,) = log.batches()
    assert read_batch_header(stored).compression == GZIP
