"""Logs that are cut into segments, grow shorter and are cleaned: what readers see of it.

The brokers look after their logs often (``PROPERTIES``), so that a story need not wait long.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.real.stories.data import _patch
from txnsim.wire.batch import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    BatchHeader,
    Record,
    build_batch,
    iter_batches,
)
from txnsim.wire.varint import read_uvarint
from txnsim_lab.conformance._book.frame_player import STAMP_MS, FramePlayer, Topic, fetch, produce
from txnsim_lab.conformance._book.transcript import CLOCK_TIME_MIN_MS

PROPERTIES: Final = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
}
LASTING: Final = {"retention_ms": "-1", "segment_ms": "1000"}
"""Nothing is old; a second in the timestamps of records ends a segment."""
COMPACTED: Final = {
    "cleanup_policy": "compact",
    "segment_ms": "1000",
    "min_cleanable_dirty_ratio": "0.0",
}

CODEC_MASK: Final = 0b111
NOT_YET_COMPACTED: Final = {**LASTING, "min_cleanable_dirty_ratio": "0.0"}
"""Settings under which the cleaner waits until ``compact`` is set, so that one round sees all
records.
"""


def compact(player: FramePlayer, topic: Topic) -> None:
    """Set cleanup.policy=compact for the topic."""
    change = {"name": "cleanup.policy", "config_operation": 0, "value": "compact"}
    resource = {"resource_type": 2, "resource_name": topic[0], "configs": [change]}
    player.ask_unrecorded("IncrementalAlterConfigs", 1, resources=[resource])


def produce_batch(
    player: FramePlayer,
    topic: Topic,
    *pairs: tuple[str | None, str | None],
    offset_ms: int,
    codec: int = 0,
    partition: int = 0,
) -> None:
    """Produce pairs of key and value as one batch, stamped ``offset_ms`` after ``STAMP_MS``."""
    batch = build_batch(
        [Record(key=_bytes(key), value=_bytes(record_value)) for key, record_value in pairs],
        timestamp_ms=STAMP_MS + offset_ms,
        compression=codec,
    )
    player.ask_unrecorded("Produce", 8, **produce(topic, batch, 8, partition=partition))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def headers(answer: Any) -> list[BatchHeader]:
    """Return the headers of the batches in a Fetch answer."""
    record_bytes = answer.responses[0].partitions[0].records
    return [header for _, header in iter_batches(bytes(record_bytes or b""))]


def read_all(
    player: FramePlayer, topic: Topic, note: str, *, start: int = 0, isolation_level: int = 0
) -> None:
    """Fetch until nothing is left, and note the batches also byte by byte."""
    offset = start
    while True:
        answer = player.ask(
            "Fetch", 12, f"{note} from {offset}", **fetch(topic, offset, isolation=isolation_level)
        )
        batch_headers = headers(answer)
        if not batch_headers:
            return
        player.note(f"{note} from {offset}, bytes", comparable_bytes(answer))
        offset = batch_headers[-1].last_offset + 1


def comparable_bytes(answer: Any) -> list[list[str]]:
    """The uncompressed batches of a Fetch answer, in hexadecimal digits.

    Left out is what is one's own: the producer's id, times read from a clock, and the checksum.
    Where a batch counts from such a time (a marker, a horizon), so do its records.
    """
    batch_data = bytes(answer.responses[0].partitions[0].records or b"")
    batches = []
    for start, header in iter_batches(batch_data):
        if header.attributes & CODEC_MASK:
            continue
        batch = bytearray(batch_data[start : start + header.size])
        batch[17:21] = bytes(4)
        batch[43:51] = bytes(8)
        clock_positions = [
            position
            for position in (27, 35)
            if struct.unpack_from(">q", batch, position)[0] >= CLOCK_TIME_MIN_MS
        ]
        for position in clock_positions:
            batch[position : position + 8] = bytes(8)
        if 27 in clock_positions:
            batch[8:12] = bytes(4)
            batches.append([batch[:61].hex(), *_without_times(bytes(batch), header.records_count)])
        else:
            batches.append([batch.hex()])
    return batches


def _without_times(batch: bytes, count: int) -> Iterator[str]:
    """The records of a batch, each without its length and time."""
    position = 61
    for _ in range(count):
        length, position = read_uvarint(batch, position)
        end = position + (length >> 1)  # zig-zag, and not negative
        time_end = position + 1
        while batch[time_end] & 0x80:  # a time may take ten bytes
            time_end += 1
        yield (batch[position : position + 1] + batch[time_end + 1 : end]).hex()
        position = end


def until_read(
    player: FramePlayer, topic: Topic, is_ready: Callable[[list[BatchHeader]], bool], start: int = 0
) -> None:
    """Wait until the first Fetch shows the expected records."""
    player.ask_until(lambda answer: is_ready(headers(answer)), "Fetch", 12, **fetch(topic, start))


def list_offsets(player: FramePlayer, topic: Topic, note: str, stamps: tuple[int, ...]) -> None:
    for timestamp_ms in stamps:
        for isolation_level in (0, 1):
            player.ask(
                "ListOffsets",
                11,
                f"{note} {timestamp_ms} isolation {isolation_level}",
                replica_id=-1,
                isolation_level=isolation_level,
                topics=[
                    {
                        "name": topic[0],
                        "partitions": [
                            {
                                "partition_index": 0,
                                "current_leader_epoch": -1,
                                "timestamp": timestamp_ms
                                if timestamp_ms < 0
                                else STAMP_MS + timestamp_ms,
                            }
                        ],
                    }
                ],
            )


def end_of(topic: Topic) -> dict[str, Any]:
    """A ListOffsets request for the end."""
    partition_fields = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": topic[0], "partitions": [partition_fields]}]
    return {"replica_id": -1, "isolation_level": 0, "topics": topics}


ALL_STAMPS: Final = (-1, -2, -3, -4, -5, -6, 0, 500, 1_000, 1_500, 2_500, 9_000)


def segments(player: FramePlayer) -> None:
    """A read ends with its segment; searches by time look into one segment."""
    topic = player.create_plain_topic("t", 1, **LASTING)
    for stamp_ms in (0, 500, 1_000, 1_001, 1_500, 900, 2_002, 5_000, 5_001):
        produce_batch(player, topic, ("k", str(stamp_ms)), offset_ms=stamp_ms)
    read_all(player, topic, "all")
    read_all(player, topic, "from the middle", start=4)
    list_offsets(player, topic, "whole", ALL_STAMPS)
    size = "DescribeLogDirs"
    player.ask(size, 1, "whole", topics=[{"topic": topic[0], "partitions": [0]}])
    for upper in (1, 4):
        player.ask(
            "DeleteRecords",
            1,
            f"below {upper}",
            topics=[{"name": topic[0], "partitions": [{"partition_index": 0, "offset": upper}]}],
            timeout=1_000,
        )
        if upper == 4:
            # The first segment lies below, and goes.
            player.ask_until(
                lambda answer: answer.results[0].topics[0].partitions[0].partition_size < 500,
                size,
                1,
                topics=[{"topic": topic[0], "partitions": [0]}],
            )
        player.ask(size, 1, f"below {upper}", topics=[{"topic": topic[0], "partitions": [0]}])
        read_all(player, topic, f"below {upper}", start=upper)
        list_offsets(player, topic, f"below {upper}", ALL_STAMPS)


def segments_of_a_small_index(player: FramePlayer) -> None:
    """An index without room for an entry ends the segment."""
    tiny = player.create_plain_topic("tiny", segment_index_bytes="12", retention_ms="-1")
    for stamp_ms in range(3):
        produce_batch(player, tiny, ("k", str(stamp_ms)), offset_ms=stamp_ms)
    read_all(player, tiny, "tiny index")


def retention(player: FramePlayer) -> None:
    """Deletion by age and by size: open transactions stay open, and producers stay known."""
    aged = player.create_plain_topic("aged", segment_ms="1000", retention_ms="3600000")
    producer = player.init_producer()
    for sequence, stamp_ms in enumerate((0, 500, 2_000, 2_100)):
        batch = build_batch(
            [Record(key=b"k", value=b"v")],
            timestamp_ms=STAMP_MS + stamp_ms,
            producer_id=producer.producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        player.ask_unrecorded("Produce", 8, **produce(aged, batch, 8))
    player.ask_until(
        lambda answer: answer.topics[0].partitions[0].offset == 4,
        "ListOffsets",
        7,
        replica_id=-1,
        isolation_level=0,
        topics=[
            {
                "name": aged[0],
                "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}],
            }
        ],
    )
    list_offsets(player, aged, "aged", (-1, -2, -3, -4, 0))
    player.ask("Fetch", 12, "aged", **fetch(aged, 0))
    player.ask("Fetch", 12, "aged end", **fetch(aged, 4))
    player.ask("DescribeProducers", 0, "aged", topics=[{"name": aged[0], "partition_indexes": [0]}])
    player.ask("DescribeLogDirs", 1, "aged", topics=[{"topic": aged[0], "partitions": [0]}])
    large_topic = player.create_plain_topic(
        "large", segment_ms="1000", retention_ms="-1", retention_bytes="150"
    )
    for stamp_ms in (0, 2_000, 4_000, 6_000):
        produce_batch(player, large_topic, ("k", str(stamp_ms)), offset_ms=stamp_ms)
    player.ask_until(
        lambda answer: answer.results[0].topics[0].partitions[0].partition_size < 280,
        "DescribeLogDirs",
        1,
        topics=[{"topic": large_topic[0], "partitions": [0]}],
    )
    list_offsets(player, large_topic, "large", (-1, -2, -3, 0, 5_000))
    read_all(player, large_topic, "large", start=2)


def compaction(player: FramePlayer) -> None:
    """Compaction: the last value of each key, tombstones with their horizon, every codec."""
    topic = player.create_plain_topic("t", 1, **COMPACTED)
    produce_batch(player, topic, ("a", "1"), ("b", "1"), ("c", "1"), offset_ms=0)
    produce_batch(player, topic, ("a", "2"), offset_ms=10)
    produce_batch(player, topic, ("c", "2"), ("b", None), offset_ms=20)
    produce_batch(player, topic, ("d", "1"), offset_ms=2_000)
    until_read(
        player,
        topic,
        lambda batch_headers: (
            batch_headers[0].base_offset > 0 or batch_headers[0].records_count < 3
        ),
    )
    read_all(player, topic, "first round")
    list_offsets(player, topic, "first round", (-1, -2, -3, 0, 5, 15, 2_000))
    produce_batch(player, topic, ("a", "3"), ("c", "3"), offset_ms=4_000)
    produce_batch(player, topic, ("z", "1"), offset_ms=6_000)
    until_read(player, topic, lambda batch_headers: batch_headers[0].base_offset > 3)
    read_all(player, topic, "second round")
    read_all(player, topic, "into a gap", start=1)
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        packed_topic = player.create_plain_topic(f"codec-{codec}", 1, **COMPACTED)
        produce_batch(
            player, packed_topic, ("a", "1"), ("b", "1"), ("c", "1"), offset_ms=0, codec=codec
        )
        produce_batch(player, packed_topic, ("a", "2"), offset_ms=10, codec=codec)
        produce_batch(player, packed_topic, ("z", "1"), offset_ms=2_000, codec=codec)
        until_read(player, packed_topic, lambda batch_headers: batch_headers[0].records_count == 2)
        read_all(player, packed_topic, f"codec {codec}")


def end_of_a_round(player: FramePlayer) -> None:
    """A batch at the end of a cleaning round that leaves none of its records (KAFKA-20452)."""
    topic = player.create_plain_topic("t", 1, **NOT_YET_COMPACTED)
    produce_batch(player, topic, ("a", "1"), offset_ms=0)
    produce_batch(player, topic, (None, "1"), (None, "2"), offset_ms=10)  # of no use without a key
    produce_batch(player, topic, ("z", "1"), offset_ms=2_000)
    compact(player, topic)
    until_read(
        player,
        topic,
        lambda batch_headers: (
            not any(header.records_count for header in batch_headers if header.base_offset)
        ),
    )
    read_all(player, topic, "one round")


def compaction_of_transactions(player: FramePlayer) -> None:
    """Aborted records go, markers stay as long as they end something, producers stay known."""
    future = {"message_timestamp_after_max_ms": str(2**63 - 1)}
    lasting = {**NOT_YET_COMPACTED, **future, "delete_retention_ms": "0"}
    topic = player.create_plain_topic("t", 1, **lasting)
    partitions = [{"name": topic[0], "partitions": [0]}]
    tid = player.full_name("app")
    producer = player.init_producer(tid)
    values = {
        "transactional_id": tid,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
    }

    def transaction(sequence: int, key: str, *, committed: bool) -> None:
        player.ask_until(
            lambda answer: (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
                == 0
            ),
            "AddPartitionsToTxn",
            3,
            v3_and_below_transactional_id=tid,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=partitions,
        )
        batch = build_batch(
            [Record(key=key.encode(), value=b"%d" % sequence)],
            timestamp_ms=STAMP_MS,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        player.ask_unrecorded("Produce", 8, **produce(topic, batch, 8, transactional_id=tid))
        player.ask_until(
            lambda answer: answer.error_code == 0, "EndTxn", 3, committed=committed, **values
        )
        player.ask_until(
            lambda answer: answer.transaction_states[0].transaction_state.startswith("Complete"),
            "DescribeTransactions",
            0,
            transactional_ids=[tid],
        )

    transaction(0, "a", committed=False)
    transaction(1, "b", committed=True)
    transaction(2, "b", committed=False)
    transaction(3, "c", committed=True)
    produce_batch(player, topic, ("z", "1"), offset_ms=10**12)
    compact(player, topic)
    until_read(player, topic, lambda batch_headers: batch_headers[0].base_offset > 0)
    read_all(player, topic, "first round", isolation_level=1)
    player.ask("DescribeProducers", 0, topics=[{"name": topic[0], "partition_indexes": [0]}])
    produce_batch(player, topic, ("z", "3"), offset_ms=3 * 10**12)
    # The marker of the first transaction ends nothing any more: it gets its horizon, and goes.
    until_read(player, topic, lambda batch_headers: batch_headers[0].attributes & 0x40 != 0)
    read_all(player, topic, "second round", isolation_level=1)
    produce_batch(player, topic, ("z", "4"), offset_ms=4 * 10**12)
    until_read(player, topic, lambda batch_headers: batch_headers[0].base_offset > 1)
    read_all(player, topic, "third round", isolation_level=1)
    transaction(4, "d", committed=True)
    player.ask("DescribeProducers", 0, topics=[{"name": topic[0], "partition_indexes": [0]}])


def lies(player: FramePlayer) -> None:
    """Batches whose headers contradict their records."""
    topic = player.create_topic()
    good_batch = build_batch(
        [Record(key=b"k", value=b"v", timestamp_ms=STAMP_MS + stamp_ms) for stamp_ms in (5, 0)],
        timestamp_ms=STAMP_MS,
    )
    first_record = 61
    cases = (
        ("max timestamp below", _patch(good_batch, 35, struct.pack(">q", STAMP_MS))),
        ("max timestamp above", _patch(good_batch, 35, struct.pack(">q", STAMP_MS + 99))),
        ("offset delta 5", _patch(good_batch, first_record + 3, b"\x0a")),
        ("record too long", _patch(good_batch, first_record, b"\x7e")),
        ("record too short", _patch(good_batch, first_record, b"\x02")),
        ("key too long", _patch(good_batch, first_record + 4, b"\x60")),
        ("headers -1", _patch(good_batch, first_record + 8, b"\x01")),
        ("headers 9", _patch(good_batch, first_record + 8, b"\x12")),
        ("record attributes", _patch(good_batch, first_record + 1, b"\x07")),
    )
    for note, batch in cases:
        player.ask("Produce", 8, note, **produce(topic, batch, 8))
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        for note, batch in packed_lies(codec):
            player.ask("Produce", 8, f"codec {codec} {note}", **produce(topic, batch, 8))
    player.ask("ListOffsets", 7, "end", **end_of(topic))


def packed_lies(codec: int) -> list[tuple[str, bytes]]:
    records = [
        Record(key=b"k", value=b"v", timestamp_ms=STAMP_MS + stamp_ms) for stamp_ms in (5, 0)
    ]
    good_batch = build_batch(records, timestamp_ms=STAMP_MS, compression=codec)
    return [
        ("good", good_batch),
        ("max timestamp below", _patch(good_batch, 35, struct.pack(">q", STAMP_MS))),
        ("count 1", _patch(_patch(good_batch, 57, struct.pack(">i", 1)), 23, struct.pack(">i", 0))),
        ("count 3", _patch(_patch(good_batch, 57, struct.pack(">i", 3)), 23, struct.pack(">i", 2))),
    ]


def codecs_of_topics(player: FramePlayer) -> None:
    """A topic with its own codec recompresses batches of another one."""
    records = [
        Record(key=b"k", value=b"v" * 200, timestamp_ms=STAMP_MS + stamp_ms) for stamp_ms in (5, 0)
    ]
    for codec_name in ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"):
        topic = player.create_topic(codec_name, compression_type=codec_name)
        for codec in (0, GZIP, SNAPPY, LZ4, ZSTD):
            batch = build_batch(records, timestamp_ms=STAMP_MS, compression=codec)
            player.ask("Produce", 8, f"{codec} into {codec_name}", **produce(topic, batch, 8))
        read_all(player, topic, codec_name)
    stamped = player.create_topic(
        "stamped", compression_type="lz4", message_timestamp_type="LogAppendTime"
    )
    player.ask(
        "Produce",
        8,
        "stamped",
        **produce(stamped, build_batch(records, timestamp_ms=STAMP_MS), 8),
    )
    read_all(player, stamped, "stamped")
    small_topic = player.create_topic(
        "small", compression_type="uncompressed", max_message_bytes="200"
    )
    packed_batch = build_batch(records, timestamp_ms=STAMP_MS, compression=GZIP)
    player.ask("Produce", 8, "too large once unpacked", **produce(small_topic, packed_batch, 8))


STORIES: Final = (
    segments,
    segments_of_a_small_index,
    retention,
    compaction,
    end_of_a_round,
    compaction_of_transactions,
    lies,
    codecs_of_topics,
)
