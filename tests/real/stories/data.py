"""Records in and out: Produce, Fetch, ListOffsets, DeleteRecords, OffsetForLeaderEpoch."""

from __future__ import annotations

import struct
from typing import Final

from txnsim.wire.batch import GZIP, LZ4, SNAPPY, ZSTD, control_batch, crc_of
from txnsim_lab.conformance._book.batches import STAMP_MS
from txnsim_lab.conformance._book.frame_player import (
    UNUSED_TOPIC_ID,
    FramePlayer,
    Story,
    Topic,
    fetch,
    produce,
    records,
)


def _patch(
    batch: bytes, position: int, new_bytes: bytes, *, with_correct_crc: bool = True
) -> bytes:
    """The batch with some bytes replaced, and with a correct checksum if ``with_correct_crc``."""
    batch_data = bytearray(batch)
    batch_data[position : position + len(new_bytes)] = new_bytes
    if with_correct_crc:
        batch_data[17:21] = struct.pack(">I", crc_of(batch_data))
    return bytes(batch_data)


def produce_versions(player: FramePlayer) -> None:
    """Every version of Produce, to known and unknown topics, with each value of acks."""
    topic = player.create_topic(partitions=2)
    missing: Topic = (player.full_name("missing"), UNUSED_TOPIC_ID)
    player.await_coordinator(player.full_name())
    for version in range(3, 14):
        player.ask("Produce", version, "one", **produce(topic, records("a", "b"), version))
        player.ask("Produce", version, "acks 1", **produce(topic, records("c"), version, acks=1))
        player.ask("Produce", version, "acks 2", **produce(topic, records("c"), version, acks=2))
        player.ask("Produce", version, "unknown topic", **produce(missing, records("c"), version))
        player.ask(
            "Produce",
            version,
            "unknown partition",
            **produce(topic, records("c"), version, partition=7),
        )
        player.ask(
            "Produce",
            version,
            "negative partition",
            **produce(topic, records("c"), version, partition=-1),
        )
        player.ask(
            "Produce",
            version,
            "no topics",
            topic_data=[],
            acks=-1,
            timeout=1000,
            transactional_id=None,
        )
        two_partitions = produce(topic, records("d"), version)
        two_partitions["topic_data"][0]["partition_data"] += [
            {"index": 9, "records": records("e")},
            {"index": 1, "records": records("f")},
        ]
        player.ask("Produce", version, "good, bad, good", **two_partitions)
        if version in (3, 8, 13):
            send_unanswered(player, version, topic, missing)
        player.ask(
            "Produce",
            version,
            "null topic of internals",
            **produce(("__transaction_state", UNUSED_TOPIC_ID), records("h"), version),
        )
    player.ask("Fetch", 12, "all", **fetch(topic))
    player.ask("Fetch", 12, "all of 1", **fetch(topic, partition=1))


def send_unanswered(player: FramePlayer, version: int, topic: Topic, missing: Topic) -> None:
    """Requests without an answer, and one whose own answer never comes."""
    for note, fields in (
        ("acks 0", produce(topic, records("g"), version, acks=0)),
        ("acks 0, unknown", produce(missing, records("g"), version, acks=0)),
        ("null records", produce(topic, None, version)),
    ):
        player.ask_unanswered("Produce", version, note, **fields)


GOOD: Final = records("a", "b")
BATCHES: Final[tuple[tuple[str, bytes], ...]] = (
    ("empty", b""),
    ("garbage", b"\1" * 40),
    ("short", GOOD[:30]),
    ("cut", GOOD[:-1]),
    ("trailing byte", GOOD + b"\0"),
    ("two batches", GOOD + GOOD),
    ("magic 1", _patch(GOOD, 16, b"\1", with_correct_crc=False)),
    ("magic 0", _patch(GOOD, 16, b"\0", with_correct_crc=False)),
    ("magic 3", _patch(GOOD, 16, b"\3", with_correct_crc=False)),
    ("magic -1", _patch(GOOD, 16, b"\xff", with_correct_crc=False)),
    ("bad checksum", _patch(GOOD, 17, b"\0\0\0\0", with_correct_crc=False)),
    ("base offset 5", _patch(GOOD, 0, struct.pack(">q", 5))),
    ("count 3", _patch(GOOD, 57, struct.pack(">i", 3))),
    ("count 1", _patch(GOOD, 57, struct.pack(">i", 1))),
    ("count 0", _patch(GOOD, 57, struct.pack(">i", 0))),
    ("count -1", _patch(GOOD, 57, struct.pack(">i", -1))),
    ("last offset 5", _patch(GOOD, 23, struct.pack(">i", 5))),
    ("last offset -1", _patch(GOOD, 23, struct.pack(">i", -1))),
    ("length 10", _patch(GOOD, 8, struct.pack(">i", 10), with_correct_crc=False)),
    ("length -1", _patch(GOOD, 8, struct.pack(">i", -1), with_correct_crc=False)),
    ("codec 5", _patch(GOOD, 21, struct.pack(">h", 5))),
    ("codec 7", _patch(GOOD, 21, struct.pack(">h", 7))),
    ("control flag", _patch(GOOD, 21, struct.pack(">h", 0x20))),
    ("transactional without id", _patch(GOOD, 21, struct.pack(">h", 0x10))),
    ("log append time", _patch(GOOD, 21, struct.pack(">h", 0x08))),
    ("delete horizon", _patch(GOOD, 21, struct.pack(">h", 0x40))),
    ("pid without sequence", records("a", producer_id=5, producer_epoch=0)),
    ("pid with epoch -1", records("a", producer_id=5, producer_epoch=-1, base_sequence=0)),
    ("sequence without pid", records("a", base_sequence=0)),
    ("max timestamp wrong", _patch(GOOD, 35, struct.pack(">q", STAMP_MS + 99))),
    ("timestamp -1", records("a", timestamp_ms=-1)),
    ("timestamp -2", records("a", timestamp_ms=-2)),
    ("timestamp of the far future", records("a", "b", timestamp_ms=STAMP_MS * 2)),
    ("too large", records("x" * 1_100_000)),
    ("leader epoch 7", _patch(GOOD, 12, struct.pack(">i", 7))),
)
"""Batches by their fault or oddity."""


def produce_batches(player: FramePlayer) -> None:
    """Batches that Produce refuses for their shape, checksum, counts or codec."""
    topic = player.create_topic()
    for version in (3, 7, 8, 13):
        for note, batch in BATCHES:
            player.ask("Produce", version, note, **produce(topic, batch, version))
        for codec in (GZIP, SNAPPY, LZ4, ZSTD):
            player.ask(
                "Produce",
                version,
                f"codec {codec}",
                **produce(topic, records("a", "b", compression=codec), version),
            )
        body = records("a" * 50, "b" * 50, compression=GZIP)
        player.ask(
            "Produce",
            version,
            "broken gzip",
            **produce(topic, _patch(body, 70, b"\xff\xff\xff\xff"), version),
        )
        player.ask(
            "Produce",
            version,
            "count 3 in gzip",
            **produce(topic, _patch(body, 57, struct.pack(">i", 3)), version),
        )
        linked = _patch(records("a", compression=LZ4), 65, b"\x40")
        player.ask("Produce", version, "linked lz4", **produce(topic, linked, version))
        marker = control_batch(
            producer_id=5,
            producer_epoch=0,
            is_commit=True,
            coordinator_epoch=0,
            base_offset=0,
            leader_epoch=-1,
            timestamp_ms=STAMP_MS,
        )
        player.ask("Produce", version, "a marker", **produce(topic, marker, version))
    player.ask("Fetch", 12, "all", **fetch(topic))


def fetch_versions(player: FramePlayer) -> None:
    """Fetch in every version: offsets in and out of range, epochs, isolation levels, sizes."""
    topic = player.create_topic(partitions=2)
    missing: Topic = (player.full_name("missing"), UNUSED_TOPIC_ID)
    for record_value in ("a", "b", "c"):
        player.ask_unrecorded(
            "Produce", 8, **produce(topic, records(record_value, record_value), 8)
        )
    for version in range(4, 19):
        for isolation_level in (0, 1):
            player.ask(
                "Fetch",
                version,
                f"isolation {isolation_level}",
                **fetch(topic, isolation=isolation_level),
            )
        for offset in (-1, 1, 5, 6, 7):
            player.ask("Fetch", version, f"offset {offset}", **fetch(topic, offset))
        player.ask("Fetch", version, "unknown topic", **fetch(missing))
        player.ask("Fetch", version, "unknown partition", **fetch(topic, partition=9))
        player.ask("Fetch", version, "negative partition", **fetch(topic, partition=-1))
        player.ask("Fetch", version, "empty partition", **fetch(topic, partition=1))
        player.ask("Fetch", version, "no topics", **{**fetch(topic), "topics": []})
        for epoch in (-1, 0, 1):
            player.ask(
                "Fetch", version, f"epoch {epoch}", **fetch(topic, current_leader_epoch=epoch)
            )
            player.ask(
                "Fetch",
                version,
                f"fetched epoch {epoch}",
                **fetch(topic, 4, last_fetched_epoch=epoch),
            )
        player.ask(
            "Fetch", version, "fetched epoch 0 beyond", **fetch(topic, 9, last_fetched_epoch=0)
        )
    tight = fetch(topic)
    tight["max_bytes"] = 1
    player.ask("Fetch", 12, "one byte", **tight)
    tight["topics"][0]["partitions"][0]["partition_max_bytes"] = 1
    player.ask("Fetch", 12, "one byte twice", **tight)
    tight["max_bytes"] = 0
    player.ask("Fetch", 12, "no bytes", **tight)
    small_fetch = fetch(topic, partition_max_bytes=150)
    player.ask("Fetch", 12, "two batches", **small_fetch)
    small_fetch["topics"][0]["partitions"].append(
        dict(small_fetch["topics"][0]["partitions"][0], partition_max_bytes=10)
    )
    player.ask("Fetch", 12, "same partition twice", **small_fetch)
    known_and_not = fetch(topic)
    known_and_not["topics"] += fetch(missing)["topics"]
    player.ask("Fetch", 12, "good and unknown", **known_and_not)
    player.ask("Fetch", 13, "good and unknown", **known_and_not)
    player.ask("Fetch", 12, "isolation 2", **fetch(topic, isolation=2))
    player.ask("Fetch", 12, "waits", **fetch(topic, 6, max_wait_ms=50))
    player.ask("Fetch", 12, "debugging consumer", **{**fetch(topic), "replica_id": -2})
    player.ask(
        "Fetch",
        12,
        "waits for more than there is",
        **{**fetch(topic, max_wait_ms=50), "min_bytes": 9999},
    )


def list_offsets(player: FramePlayer) -> None:
    """ListOffsets by every special timestamp in every version, by time, and with mistakes."""
    topic, _ = topic_and_id = player.create_topic(partitions=2)
    for index, timestamp_ms in enumerate((10, 30, 20, 40, 40)):
        batch = records(f"{index}", timestamp_ms=STAMP_MS + timestamp_ms)
        player.ask_unrecorded("Produce", 8, **produce(topic_and_id, batch, 8))

    def ask(
        note: str,
        version: int,
        *,
        partition: int = 0,
        timestamp: int = -1,
        replica: int = -1,
        isolation_level: int = 0,
        epoch: int = -1,
        name: str = topic,
    ) -> None:
        player.ask(
            "ListOffsets",
            version,
            note,
            replica_id=replica,
            isolation_level=isolation_level,
            timeout=1000,
            topics=[
                {
                    "name": name,
                    "partitions": [
                        {
                            "partition_index": partition,
                            "timestamp": timestamp,
                            "current_leader_epoch": epoch,
                        }
                    ],
                }
            ],
        )

    for version in range(1, 12):
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, -100):
            ask(f"{timestamp}", version, timestamp=timestamp)
            ask(f"{timestamp} empty", version, timestamp=timestamp, partition=1)
            ask(f"{timestamp} committed", version, timestamp=timestamp, isolation_level=1)
        for offset in (0, 10, 11, 25, 30, 31, 40, 41):
            ask(f"time {offset}", version, timestamp=STAMP_MS + offset)
        ask("unknown topic", version, name=player.full_name("missing"))
        ask("bad name", version, name="a b")
        ask("unknown partition", version, partition=9)
        ask("negative partition", version, partition=-1)
        for epoch in (0, 1, 5):
            ask(f"epoch {epoch}", version, epoch=epoch)
        ask("debugging", version, replica=-2)
        ask("follower", version, replica=5)
        ask("isolation 2", version, isolation_level=2)
        end_query = {"partition_index": 0, "timestamp": -1}
        player.ask(
            "ListOffsets",
            version,
            "twice",
            replica_id=-1,
            topics=[
                {
                    "name": topic,
                    "partitions": [end_query, end_query, {"partition_index": 1, "timestamp": -2}],
                }
            ],
        )
        player.ask("ListOffsets", version, "no topics", replica_id=-1, topics=[])


def delete(
    player: FramePlayer, name: str, note: str, offset: int, version: int = 2, *, partition: int = 0
) -> None:
    """Delete records of one partition."""
    player.ask(
        "DeleteRecords",
        version,
        note,
        timeout=1000,
        topics=[{"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}],
    )


def delete_records(player: FramePlayer) -> None:
    """Deletion of records, and the log's new start."""
    topic, _ = topic_and_id = player.create_topic()
    for record_value in ("a", "b", "c"):
        player.ask_unrecorded(
            "Produce", 8, **produce(topic_and_id, records(record_value, record_value), 8)
        )

    delete(player, topic, "3", 3)
    player.ask("Fetch", 12, "from 2", **fetch(topic_and_id, 2))
    player.ask("Fetch", 12, "from 3", **fetch(topic_and_id, 3))
    delete(player, topic, "back to 1", 1)
    player.ask(
        "ListOffsets",
        7,
        "earliest",
        replica_id=-1,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -2}]}],
    )
    player.ask("Produce", 8, "afterwards", **produce(topic_and_id, records("d"), 8))
    delete(player, topic, "high watermark", -1)
    player.ask("Fetch", 12, "from the end", **fetch(topic_and_id, 7))
    player.ask("Fetch", 12, "deleted", **fetch(topic_and_id, 6))
    for timestamp in (-1, -2, -3, -4, STAMP_MS):
        player.ask(
            "ListOffsets",
            8,
            f"{timestamp} of an emptied log",
            replica_id=-1,
            topics=[
                {"name": topic, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}
            ],
        )
    player.ask("DeleteRecords", 2, "none", timeout=1000)
    player.ask(
        "DeleteRecords",
        2,
        "twice",
        timeout=1000,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {"partition_index": 0, "offset": 7},
                    {"partition_index": 0, "offset": 99},
                ],
            }
        ],
    )


def offset_for_leader_epoch(player: FramePlayer) -> None:
    """Known, unknown and negative epochs."""
    topic, _ = topic_and_id = player.create_topic(partitions=2)
    player.ask_unrecorded("Produce", 8, **produce(topic_and_id, records("a", "b"), 8))

    def ask(
        note: str,
        version: int,
        *,
        epoch: int = 0,
        current: int = -1,
        partition: int = 0,
        topic: str = topic,
        replica: int = -1,
    ) -> None:
        player.ask(
            "OffsetForLeaderEpoch",
            version,
            note,
            replica_id=replica,
            topics=[
                {
                    "topic": topic,
                    "partitions": [
                        {
                            "partition": partition,
                            "current_leader_epoch": current,
                            "leader_epoch": epoch,
                        }
                    ],
                }
            ],
        )

    for version in (2, 3, 4):
        for epoch in (-2, -1, 0, 1, 9):
            ask(f"epoch {epoch}", version, epoch=epoch)
            ask(f"epoch {epoch} of nothing", version, epoch=epoch, partition=1)
            ask(f"epoch {epoch} debugging", version, epoch=epoch, replica=-2)
        for current in (0, 1):
            ask(f"current {current}", version, current=current)
        ask("unknown topic", version, topic=player.full_name("missing"))
        ask("bad name", version, topic="a b")
        ask("unknown partition", version, partition=9)
        player.ask("OffsetForLeaderEpoch", version, "none", replica_id=-1, topics=[])


STORIES: Final[tuple[Story, ...]] = (
    produce_versions,
    produce_batches,
    fetch_versions,
    list_offsets,
    delete_records,
    offset_for_leader_epoch,
)
