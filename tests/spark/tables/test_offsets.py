"""The group coordinators' log, as rows."""

from __future__ import annotations

import json
import struct
import uuid
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import EqualTo

from tests.support.log_tables import Row, broker_dir, segment, table
from tests.support.logs import NOW, plain
from txnsim.group.consumer_records import EpochStored, SubscriptionDeleted
from txnsim.group.log_format import encode_batch, encode_record
from txnsim.group.records import (
    ClassicGroupDeleted,
    ClassicGroupStored,
    GroupRecord,
    OffsetCommitted,
    OffsetDeleted,
    StoredMember,
)
from txnsim.types import TopicPartition
from txnsim.wire.batch import ZSTD, Record, build_batch, control_batch
from txnsim_spark.scan import kernel
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.tables._offsets import row_of

FOLDER = "__consumer_offsets-7"
ORDERS_1 = TopicPartition("orders", 1)
COMMIT = OffsetCommitted(
    group_id="g",
    topic_partition=ORDERS_1,
    position=42,
    leader_epoch=3,
    metadata="m",
    commit_timestamp_ms=NOW,
)


def rows_of(tmp_path: Path, *batches: bytes) -> list[Row]:
    segment(broker_dir(tmp_path) / FOLDER, batches)
    return table(tmp_path, "offsets")


def written(*records: GroupRecord, producer_id: int = -1) -> bytes:
    return encode_batch(records, now_ms=NOW, producer_id=producer_id, producer_epoch=0)


def batch_of(*, producer_id: int = -1) -> Ints:
    columns = np.zeros(kernel.BATCH_COLUMNS, dtype=np.int64)
    columns[kernel.PRODUCER_ID] = producer_id
    return columns


def test_a_commit_is_told_with_where_it_stands(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, written(COMMIT))
    del row["log_dir"], row["broker"]
    assert row == {
        "topic": "__consumer_offsets",
        "partition": 7,
        "segment_base_offset": 0,
        "offset": 0,
        "timestamp_ms": NOW,
        "kind": "offset_commit",
        "key_version": 1,
        "value_version": 4,
        "is_tombstone": False,
        "group_id": "g",
        "committed_topic": "orders",
        "committed_partition": 1,
        "committed_topic_id": None,
        "committed_offset": 42,
        "committed_leader_epoch": 3,
        "committed_metadata": "m",
        "commit_timestamp_ms": NOW,
        "expire_timestamp_ms": None,
        "detail": None,
        "producer_id": None,
        "producer_epoch": None,
        "is_transactional": False,
        "problem": None,
    }


def test_a_commit_with_a_topic_id_names_it_as_kafka_does(tmp_path: Path) -> None:
    with_id = OffsetCommitted(
        group_id="g",
        topic_partition=ORDERS_1,
        position=1,
        commit_timestamp_ms=NOW,
        topic_id=uuid.UUID(int=1),
    )
    (row,) = rows_of(tmp_path, written(with_id))
    assert row["committed_topic_id"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert row["committed_leader_epoch"] is None


def test_a_commit_inside_a_transaction_names_the_producer_and_a_marker_is_no_row(
    tmp_path: Path,
) -> None:
    marker = control_batch(
        producer_id=5, producer_epoch=0, committed=True, coordinator_epoch=0, base_offset=0,
        leader_epoch=0, timestamp_ms=NOW,
    )  # fmt: skip
    (row,) = rows_of(tmp_path, written(COMMIT, producer_id=5), marker)
    assert (row["producer_id"], row["producer_epoch"], row["is_transactional"]) == (5, 0, True)


def test_only_producers_that_are_wanted_have_rows(tmp_path: Path) -> None:
    segment(
        broker_dir(tmp_path) / FOLDER,
        [written(COMMIT, producer_id=5), written(COMMIT, producer_id=6), written(COMMIT)],
    )
    rows = table(tmp_path, "offsets", where=[EqualTo(("producer_id",), 6)])
    assert [row["offset"] for row in rows] == [1]


def test_tombstones_say_what_is_gone(tmp_path: Path) -> None:
    offset, group, member = rows_of(
        tmp_path,
        written(
            OffsetDeleted(group_id="g", topic_partition=ORDERS_1),
            ClassicGroupDeleted(group_id="h"),
            SubscriptionDeleted(group_id="i", member_id="m-1"),
        ),
    )
    assert {one["is_tombstone"] for one in (offset, group, member)} == {True}
    assert (offset["committed_topic"], offset["committed_partition"]) == ("orders", 1)
    assert (offset["committed_offset"], offset["group_id"]) == (None, "g")
    assert (group["kind"], group["group_id"], group["detail"]) == ("group_metadata", "h", "{}")
    assert member["kind"] == "consumer_group_member_metadata"
    assert json.loads(member["detail"]) == {"member_id": "m-1"}


def test_groups_have_their_fields_as_json(tmp_path: Path) -> None:
    classic = ClassicGroupStored(
        group_id="g",
        protocol_type="consumer",
        generation=3,
        leader="m",
        members=(
            StoredMember(
                member_id="m", client_id="c", client_host="/h", session_timeout_ms=9,
                subscription=b"\x00\x01",
            ),
        ),
    )  # fmt: skip
    epoch = EpochStored(group_id="g", group_epoch=6, metadata_hash=1)
    stored, newer = rows_of(tmp_path, written(classic), written(epoch))
    assert (stored["kind"], stored["group_id"]) == ("group_metadata", "g")
    detail = json.loads(stored["detail"])
    assert detail["generation"] == 3
    assert detail["members"][0]["subscription"] == "AAE="
    assert newer["kind"] == "consumer_group_metadata"
    assert json.loads(newer["detail"]) == {"epoch": 6, "metadata_hash": 1}


def text(value: str) -> bytes:
    return struct.pack("!h", len(value)) + value.encode()


KEY_0 = struct.pack("!h", 0) + text("g") + text("orders") + struct.pack("!i", 1)


@pytest.mark.parametrize(
    ("version", "value", "expires"),
    [
        (0, struct.pack("!hq", 0, 9) + text("m") + struct.pack("!q", 8), None),
        (1, struct.pack("!hq", 1, 9) + text("m") + struct.pack("!qq", 8, 77), 77),
        (2, struct.pack("!hq", 2, 9) + text("m") + struct.pack("!q", 8), None),
        (3, struct.pack("!hqi", 3, 9, 5) + text("m") + struct.pack("!q", 8), None),
    ],
)
def test_older_versions_are_told(
    tmp_path: Path, version: int, value: bytes, expires: int | None
) -> None:
    pair = Record(key=KEY_0, value=value)
    data = build_batch([pair], timestamp_ms=NOW, compression=ZSTD)
    (row,) = rows_of(tmp_path, data)
    assert (row["kind"], row["key_version"], row["value_version"]) == ("offset_commit", 0, version)
    assert (row["committed_offset"], row["committed_metadata"]) == (9, "m")
    assert (row["commit_timestamp_ms"], row["expire_timestamp_ms"]) == (8, expires)
    assert row["committed_leader_epoch"] == (5 if version == 3 else None)
    assert row["problem"] is None


@pytest.mark.parametrize(
    ("key", "value", "kind", "words"),
    [
        (b"\x00\x63g", b"\x00\x00", "unknown", "a key of version 99, which is no kind"),
        (b"\x00\x0bg", b"\x00\x00", "share_group_metadata", "a kind that is not decoded"),
        (KEY_0, b"\x00\x09", "offset_commit", "a value of version 9, which is not known"),
        (KEY_0, b"\x00\x03\x00", "offset_commit", "unreadable record"),
        (b"\x00", None, "unknown", "unreadable record"),
    ],
)
def test_what_can_t_be_read_is_a_row_that_says_so(
    key: bytes, value: bytes | None, kind: str, words: str
) -> None:
    row = row_of(Record(key=key, value=value, offset=4), batch_of())
    assert row.problem is not None
    assert words in row.problem
    assert (row.kind, row.group_id, row.offset) == (kind, None, 4)


@given(st.integers(0, 24), st.binary(max_size=40), st.none() | st.binary(max_size=60))
def test_any_bytes_make_a_row(kind: int, key: bytes, value: bytes | None) -> None:
    row = row_of(Record(key=struct.pack("!h", kind) + key, value=value), batch_of(producer_id=3))
    assert (row.problem is None) == (row.group_id is not None)
    assert row.producer_id == 3


@given(st.integers(0, 5), st.binary(max_size=60))
def test_any_value_of_a_sound_key_makes_a_row(version: int, value: bytes) -> None:
    for one in (COMMIT, ClassicGroupStored(group_id="g"), EpochStored(group_id="g", group_epoch=1)):
        key, _ = encode_record(one)
        row_of(Record(key=key, value=struct.pack("!h", version) + value), batch_of())


def test_only_the_group_coordinators_log_is_read(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    assert table(tmp_path, "offsets") == []
