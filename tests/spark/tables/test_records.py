"""Tables of records: rows, and how files become readings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.broker_dirs import move
from tests.support.log_tables import (
    ORDERS,
    PASSING_OVER,
    broker_dir,
    busy_log,
    overwrite,
    replica,
    segment,
    share_states,
    table,
)
from tests.support.logs import NOW, LogDriver, batch, plain
from txnsim.group.log_format import encode_batch as encode_group_batch
from txnsim.group.records import ClassicGroupStored, OffsetCommitted
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_leader_epochs, encode_offsets
from txnsim.storage.txn_index import ENTRY_BYTES
from txnsim.txn.log_format import encode_batch
from txnsim.types import TopicPartition, TransactionVersion
from txnsim.wire.batch import GZIP, LZ4, NONE, SNAPPY, ZSTD, Record, build_batch
from txnsim_spark.file_faults import CorruptLogFileError, LogFileError
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.planning import FILES_OF_TABLE, Share, shares_of
from txnsim_spark.scan.segments import Replica, SegmentFile
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables import _records as records
from txnsim_spark.tables import _segments as segments
from txnsim_spark.tables import rows as r
from txnsim_spark.tables._segments import WALK_COLUMNS
from txnsim_spark.tables.row_sources import (
    READER_OF_REPLICA,
    READER_OF_SEGMENT,
    READER_OF_SEGMENTS,
    rows_of,
)
from txnsim_spark.tables.rows import TableJob

# ``small_files``: Indexes of aborted transactions, leader epochs, snapshots and what a folder says,
# as rows.


def test_all_aborts_of_all_segments_are_told(tmp_path: Path) -> None:
    driver = busy_log()
    replica(broker_dir(tmp_path), driver)
    rows = table(tmp_path, "aborted")
    assert [
        (row["producer_id"], row["first_offset"], row["marker_offset"], row["last_stable_offset"])
        for row in rows
    ] == [
        (aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset)
        for aborted in driver.log.snapshot().aborted
    ]
    bases = {segment.base_offset for segment in driver.log.local.segments}
    assert {row["segment_base_offset"] for row in rows} <= bases
    assert all(row["segment_base_offset"] <= row["marker_offset"] for row in rows)


def test_an_index_without_its_segment_is_read(tmp_path: Path) -> None:
    """A broker leaves it in this form if the segment has moved to tiered storage."""
    folder = replica(broker_dir(tmp_path), busy_log())
    rows_before = table(tmp_path, "aborted")
    (folder / names.Suffix.LOG.file_name(0)).unlink()
    assert table(tmp_path, "aborted") == rows_before


def test_entries_in_front_of_damage_are_told(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    rows_before = table(tmp_path, "aborted")
    overwrite(folder / names.Suffix.TXN_INDEX.file_name(0), ENTRY_BYTES, b"\x00\x09")
    with pytest.raises(CorruptLogFileError, match=r"0{20}\.txnindex"):
        table(tmp_path, "aborted")
    rows_after = table(tmp_path, "aborted", options=PASSING_OVER)
    assert rows_after[0] == rows_before[0]
    assert {row["marker_offset"] for row in rows_after if row["segment_base_offset"] == 0} == {
        rows_before[0]["marker_offset"]
    }
    assert len(rows_after) < len(rows_before)


def test_epochs_are_rows_in_order(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    path = tmp_path / "orders-0" / names.FileName.LEADER_EPOCHS
    path.write_text(encode_leader_epochs([(0, 0), (3, 12)]))
    assert table(tmp_path, "leader_epochs") == [
        {
            "log_dir": str(tmp_path),
            "broker": 1,
            "topic": "orders",
            "partition": 0,
            "leader_epoch": epoch,
            "start_offset": offset,
        }
        for epoch, offset in ((0, 0), (3, 12))
    ]


def test_without_the_file_there_are_none_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    assert table(tmp_path, "leader_epochs") == []
    (tmp_path / "orders-0" / names.FileName.LEADER_EPOCHS).write_bytes(b"0\n1\n\xff")
    with pytest.raises(CorruptLogFileError, match="leader-epoch-checkpoint"):
        table(tmp_path, "leader_epochs")
    assert table(tmp_path, "leader_epochs", options=PASSING_OVER) == []


def test_the_snapshot_at_the_end_names_what_is_open(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0, producer_id=7, count=2)
    driver.end(committed=True, producer_id=8, coordinator_epoch=4)
    replica(broker_dir(tmp_path), driver)
    data, marker = sorted(
        table(tmp_path, "producer_state", has_times=False), key=lambda row: row["producer_id"]
    )
    assert data == {
        "log_dir": str(tmp_path),
        "broker": 1,
        "topic": "orders",
        "partition": 0,
        "snapshot_offset": 3,
        "is_last": True,
        "producer_id": 7,
        "producer_epoch": 0,
        "last_sequence": 1,
        "last_offset": 1,
        "offset_delta": 1,
        "last_timestamp_ms": NOW,
        "coordinator_epoch": None,
        "open_offset": 0,
    }
    assert (marker["coordinator_epoch"], marker["open_offset"]) == (4, None)
    assert (marker["last_sequence"], marker["last_offset"], marker["offset_delta"]) == (None,) * 3


def test_every_snapshot_is_told_and_the_newest_marked(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    offsets = [offset for offset, _ in names.Suffix.SNAPSHOT.files_in(folder)]
    rows = table(tmp_path, "producer_state")
    assert sorted({row["snapshot_offset"] for row in rows}) == offsets
    assert {row["snapshot_offset"] for row in rows if row["is_last"]} == {offsets[-1]}


def test_a_damaged_snapshot_has_no_rows(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    offset, path = names.Suffix.SNAPSHOT.files_in(folder)[0]
    overwrite(path, 30, b"\xff")
    with pytest.raises(CorruptLogFileError, match=path.name):
        table(tmp_path, "producer_state")
    rows = table(tmp_path, "producer_state", options=PASSING_OVER)
    assert offset not in {row["snapshot_offset"] for row in rows}


def test_a_row_tells_what_all_the_small_files_say(tmp_path: Path) -> None:
    driver = busy_log()
    folder = replica(broker_dir(tmp_path, broker=2), driver)
    for file_name, offset in (
        (names.FileName.HIGH_WATERMARKS, 30),
        (names.FileName.RECOVERY_POINTS, 20),
        (names.FileName.LOG_STARTS, 10),
    ):
        (tmp_path / file_name).write_text(encode_offsets({ORDERS: offset}))
    (row,) = table(tmp_path, "replicas")
    assert row == {
        "log_dir": str(tmp_path),
        "broker": 2,
        "topic": "orders",
        "partition": 0,
        "directory": str(folder),
        "cluster_id": "a-cluster",
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "segments": len(driver.log.local.segments),
        "size_bytes": driver.log.local.segments.size_bytes,
        "first_segment_offset": 0,
        "last_segment_offset": tuple(driver.log.local.segments)[-1].base_offset,
        "log_start_offset": 10,
        "high_watermark": 30,
        "recovery_point": 20,
        "last_snapshot_offset": driver.log.log_end_offset,
        "is_clean": True,
    }


def test_what_is_not_told_is_null(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / names.FileName.LEADER_EPOCHS).touch()
    (row,) = table(tmp_path, "replicas")
    del row["log_dir"], row["topic"], row["directory"]
    assert row == {
        "broker": -1,
        "partition": 0,
        "cluster_id": None,
        "topic_id": None,
        "segments": 0,
        "size_bytes": 0,
        "first_segment_offset": None,
        "last_segment_offset": None,
        "log_start_offset": None,
        "high_watermark": None,
        "recovery_point": None,
        "last_snapshot_offset": None,
        "is_clean": False,
    }


def test_a_damaged_topic_id_is_refused_or_null(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    (folder / names.FileName.PARTITION_METADATA).write_text("version: 9\n")
    with pytest.raises(CorruptLogFileError, match=r"partition\.metadata"):
        table(tmp_path, "replicas")
    assert table(tmp_path, "replicas", options=PASSING_OVER)[0]["topic_id"] is None


# Every table is made of something, and nothing ends a job.


def test_every_table_that_is_documented_can_be_read() -> None:
    other_tables = {"errors", "findings", "replicas"}
    assert {*READER_OF_SEGMENT, *READER_OF_SEGMENTS, *READER_OF_REPLICA, *other_tables} == {*TABLES}
    for name in TABLES:
        needed_files = FILES_OF_TABLE[name]
        assert needed_files.reads_segments or needed_files.reads_replicas or needed_files.is_whole
    assert {*FILES_OF_TABLE} == {*TABLES}
    assert FILES_OF_TABLE["errors"].reads_log_dirs
    assert FILES_OF_TABLE["transactions"].topic == "__transaction_state"


@pytest.mark.parametrize("name", [*READER_OF_SEGMENT, *READER_OF_SEGMENTS, *READER_OF_REPLICA])
def test_what_a_table_is_made_of_is_what_is_planned_for_it(name: str) -> None:
    assert FILES_OF_TABLE[name].reads_segments == (name not in READER_OF_REPLICA)
    assert FILES_OF_TABLE[name].reads_replicas == (name in READER_OF_REPLICA)


@pytest.mark.parametrize("check_name", ["auto", "true", "false"])
@pytest.mark.parametrize("name", READER_OF_SEGMENTS)
def test_small_segments_have_the_rows_together_that_each_has_alone(
    tmp_path: Path, name: str, check_name: str
) -> None:
    for broker, is_clean in ((1, True), (2, False)):
        replica(broker_dir(tmp_path / str(broker), broker=broker, is_clean=is_clean), busy_log())
    options = KafkaLogOptions.of({"path": str(tmp_path), "table": name, "checkCrc": check_name})
    shares = shares_of(options, RowScope(), FILES_OF_TABLE[name])
    segments = [segment for share in shares for segment in share.segments]
    schema = TABLES[name].arrow()

    def read(*segment_files: SegmentFile, by_replica: bool = False) -> list[pa.RecordBatch]:
        job = TableJob(options=options, columns=tuple(schema.names), separates_replicas=by_replica)
        return [rows.in_schema(schema) for rows in rows_of(Share(segments=segment_files), job)]

    (joined_batch,) = read(*segments)
    separate_batches = [batch for segment in segments for batch in read(segment)]
    assert len(separate_batches) > 4
    assert joined_batch.to_pylist() == pa.Table.from_batches(separate_batches).to_pylist()
    by_replica = read(*segments, by_replica=True)
    assert [len(set(record_batch["broker"].to_pylist())) for record_batch in by_replica] == [1, 1]
    assert pa.Table.from_batches(by_replica).to_pylist() == joined_batch.to_pylist()


@pytest.mark.parametrize("name", TABLES)
def test_a_file_that_vanishes_takes_only_its_own_rows(tmp_path: Path, name: str) -> None:
    """The file vanishes between planning and reading, as with a running broker."""
    broker_dir(tmp_path)
    vanished_path = segment(tmp_path / "orders-0", [plain()])
    segment(tmp_path / "orders-1", [plain()])
    rows_before = table(tmp_path, name)
    vanished_path.unlink()
    vanished_path.symlink_to(vanished_path)
    if name not in ("aborted", "errors", "leader_epochs", "producer_state", "replicas") and (
        rows_before or name in ("findings", "endings")
    ):
        with pytest.raises(CorruptLogFileError, match=f"orders-0/{vanished_path.name}"):
            table(tmp_path, name)
    rows_after = table(tmp_path, name, options=PASSING_OVER)
    if name == "replicas":
        assert [row["size_bytes"] > 0 for row in rows_after] == [False, True]
    elif name in ("batches", "records", "fragments", "segments"):
        assert [row["partition"] for row in rows_before] == [0, 1]
        assert [row["partition"] for row in rows_after] == [1]
    elif name == "errors":
        assert [row["kind"] for row in rows_after] == ["unreadable"]
    else:
        assert rows_before == rows_after == []


@pytest.mark.parametrize(
    "name", sorted({*TABLES} - {"errors", "findings", "offsets", "share_states", "transactions"})
)
def test_several_brokers_directories_are_read_at_once(tmp_path: Path, name: str) -> None:
    for broker in (1, 2):
        replica(broker_dir(tmp_path / str(broker), broker=broker), busy_log())
    rows = table(tmp_path, name)
    ones = [row for row in rows if row["broker"] == 1]
    assert ones
    assert len(rows) == 2 * len(ones)


@pytest.mark.parametrize(
    "name",
    ["aborted", "batches", "endings", "fragments", "producer_state", "records"],
)
def test_rows_of_other_producers_are_not_made(tmp_path: Path, name: str) -> None:
    replica(broker_dir(tmp_path), busy_log())
    all_rows = table(tmp_path, name)
    rows = table(tmp_path, name, options={"producerIds": "7,9"})
    assert {row["producer_id"] for row in rows} == {7, 9}
    assert rows == [row for row in all_rows if row["producer_id"] in (7, 9)]
    assert table(tmp_path, name, options={"producerIds": "99"}) == []


@pytest.mark.parametrize("name", sorted({*TABLES} - {"errors"}))
def test_empty_folders_have_no_rows_but_that_they_are_there(tmp_path: Path, name: str) -> None:
    (broker_dir(tmp_path) / "orders-0").mkdir()
    assert len(table(tmp_path, name)) == (1 if name == "replicas" else 0)


@pytest.mark.costly
@pytest.mark.slow
@settings(max_examples=20)
@given(st.data(), st.sampled_from(["auto", "true", "false"]), st.booleans())
def test_damage_of_any_file_is_refused_by_name_or_passed_over_where_that_is_allowed(
    data: st.DataObject, check_crc: str, is_clean: bool
) -> None:
    """Bytes that are overwritten, torn off or put behind, in any file of a log directory."""
    with TemporaryDirectory() as name:
        log_dir = broker_dir(Path(name), is_clean=is_clean)
        replica(log_dir, busy_log())
        segment(log_dir / "__transaction_state-0", [transactions()])
        segment(log_dir / "__consumer_offsets-0", [offsets()])
        segment(log_dir / "__share_group_state-0", [share_states()])
        files = sorted(path for path in log_dir.rglob("*") if path.is_file())
        for path in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=4)):
            damage(path, data)
        for table_name in TABLES:
            checks = {"checkCrc": check_crc, "checkRecords": str(table_name == "errors").lower()}
            with contextlib.suppress(LogFileError):
                table(log_dir, table_name, options=checks)
            allowed = {"ignoreCorruptFiles": "true", "ignoreMissingFiles": "true"}
            table(log_dir, table_name, options=checks | allowed)


def damage(path: Path, data: st.DataObject) -> None:
    sound_data = path.read_bytes()
    position = data.draw(st.integers(0, len(sound_data)))
    junk = data.draw(st.binary(min_size=1, max_size=8))
    match data.draw(st.sampled_from(["overwritten", "torn", "longer"])):
        case "overwritten":
            path.write_bytes(sound_data[:position] + junk + sound_data[position + len(junk) :])
        case "torn":
            path.write_bytes(sound_data[:position])
        case "longer":
            path.write_bytes(sound_data + junk * 20)


def transactions() -> bytes:
    transitions = [
        move(state, TopicPartition("orders", 0)) for state in ("Ongoing", "PrepareCommit")
    ]
    return encode_batch(
        transitions,
        finalized_version=TransactionVersion.TV_2,
        now_ms=NOW,
        release_rules=LATEST_RULES,
    )


def offsets() -> bytes:
    committed_offset = OffsetCommitted(
        group_id="g", topic_partition=TopicPartition("a", 0), position=4, commit_timestamp_ms=NOW
    )
    return encode_group_batch([committed_offset, ClassicGroupStored(group_id="g")], now_ms=NOW)


# Records as a consumer would be given them, and more.


FULL = [
    Record(key=b"k", value=b"v", timestamp_ms=NOW + 7, headers=(("h", b"1"), ("h", None))),
    Record(key=None, value=None, timestamp_ms=NOW - 3),
    Record(key=b"", value=b"\x00\xff"),
]


@pytest.mark.parametrize(
    ("codec", "name"),
    [(NONE, "none"), (GZIP, "gzip"), (SNAPPY, "snappy"), (LZ4, "lz4"), (ZSTD, "zstd")],
)
def test_keys_values_headers_and_times_are_exact(tmp_path: Path, codec: int, name: str) -> None:
    batch_data = build_batch(
        FULL,
        timestamp_ms=NOW,
        producer_id=7,
        producer_epoch=1,
        base_sequence=4,
        is_transactional=True,
        compression=codec,
    )
    segment(broker_dir(tmp_path) / "orders-0", [plain(), batch_data], base_offset=8)
    first_row, second_row, third_row = table(tmp_path, "records")[1:]
    assert set(first_row) == set(TABLES["records"].names)
    assert [row["offset"] for row in (first_row, second_row, third_row)] == [9, 10, 11]
    assert (first_row["key"], first_row["value"], first_row["timestamp_ms"]) == (
        b"k",
        b"v",
        NOW + 7,
    )
    assert first_row["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert (second_row["key"], second_row["value"], second_row["timestamp_ms"]) == (
        None,
        None,
        NOW - 3,
    )
    assert (third_row["key"], third_row["value"], third_row["timestamp_ms"]) == (
        b"",
        b"\x00\xff",
        NOW,
    )
    assert [row["sequence"] for row in (first_row, second_row, third_row)] == [4, 5, 6]
    assert (third_row["producer_id"], third_row["producer_epoch"]) == (7, 1)
    assert (third_row["codec"], third_row["is_transactional"], third_row["is_control"]) == (
        name,
        True,
        False,
    )
    assert (third_row["batch_base_offset"], third_row["batch_position"]) == (9, len(plain()))
    assert (third_row["leader_epoch"], third_row["timestamp_type"]) == (3, "CreateTime")


def test_batches_of_several_codecs_come_in_order_without_the_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "BYTES_MAX", 40)  # several groups
    codecs = [ZSTD, NONE, GZIP, ZSTD, NONE, SNAPPY]
    stored_batches = [
        build_batch(
            [Record(value=b"%d-%d" % (codec_number, index) * 9) for index in range(2)],
            timestamp_ms=NOW,
            compression=codec,
        )
        for codec_number, codec in enumerate(codecs)
    ]
    damaged_batch = bytearray(stored_batches[3])
    damaged_batch[61:65] = b"none"
    segment(
        broker_dir(tmp_path) / "orders-0",
        [*stored_batches[:3], bytes(damaged_batch), *stored_batches[4:]],
    )
    sound_numbers = [sound_number for sound_number in range(6) if sound_number != 3]
    with pytest.raises(CorruptLogFileError, match="the batch at offset 6 has another CRC"):
        table(tmp_path, "records")
    rows = table(tmp_path, "records", options=PASSING_OVER)
    assert [row["value"] for row in rows] == [
        b"%d-%d" % (sound_number, index) * 9 for sound_number in sound_numbers for index in range(2)
    ]
    assert [row["offset"] for row in rows] == [
        2 * sound_number + index for sound_number in sound_numbers for index in (0, 1)
    ]


def test_a_header_s_key_that_is_no_text_is_one_with_signs_for_it(tmp_path: Path) -> None:
    batch_data = build_batch(
        [Record(value=b"v", headers=(("h\N{LATIN SMALL LETTER E WITH ACUTE}", b"1"),))],
        timestamp_ms=NOW,
    )
    cut_off = batch_data.replace("\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), b"\xc3\xc3")
    segment(broker_dir(tmp_path) / "orders-0", [batch_data, cut_off])
    first_row, second_row = table(tmp_path, "records")
    assert first_row["headers"] == [{"key": "h\N{LATIN SMALL LETTER E WITH ACUTE}", "value": b"1"}]
    assert second_row["headers"] == [{"key": "h\ufffd\ufffd", "value": b"1"}]


def test_times_of_appending_are_the_batch_s(tmp_path: Path) -> None:
    batch_data = build_batch(
        [Record(value=b"v", timestamp_ms=1)], timestamp_ms=NOW, has_log_append_time=True
    )
    segment(broker_dir(tmp_path) / "orders-0", [batch_data])
    (row,) = table(tmp_path, "records")
    assert (row["timestamp_ms"], row["timestamp_type"]) == (NOW, "LogAppendTime")


def test_markers_are_records_with_their_type(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0)
    driver.end(committed=False, coordinator_epoch=5)
    replica(broker_dir(tmp_path), driver)
    data, marker = table(tmp_path, "records")
    assert (data["control_type"], data["coordinator_epoch"]) == (None, None)
    assert (marker["is_control"], marker["control_type"]) == (True, "abort")
    assert (marker["coordinator_epoch"], marker["sequence"], marker["offset"]) == (5, None, 1)


def test_sequences_begin_anew_behind_the_largest(tmp_path: Path) -> None:
    batch_data = batch(2**31 - 1, count=2)
    segment(broker_dir(tmp_path) / "orders-0", [batch_data])
    assert [row["sequence"] for row in table(tmp_path, "records")] == [2**31 - 1, 0]


def test_without_a_producer_there_is_no_sequence(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    (row,) = table(tmp_path, "records")
    assert (row["sequence"], row["producer_id"], row["producer_epoch"]) == (None, None, None)


def test_gaps_that_the_cleaner_left_stay_gaps(tmp_path: Path) -> None:
    whole_batch = bytearray(batch(0, count=3))
    cleaned_batch = build_batch(
        [Record(key=b"k", value=b"v")], timestamp_ms=NOW, producer_id=7, producer_epoch=0,
        base_sequence=0,
    )  # fmt: skip
    # The last offset stays.
    cleaned_batch = cleaned_batch[:23] + bytes(whole_batch[23:27]) + cleaned_batch[27:]
    segment(broker_dir(tmp_path) / "orders-0", [cleaned_batch, plain()])
    assert [row["offset"] for row in table(tmp_path, "records")] == [0, 3]


@pytest.mark.parametrize(("row_count", "size"), [(4, 1 << 20), (1 << 13, 10)])
def test_rows_are_handed_over_in_bounded_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_count: int, size: int
) -> None:
    monkeypatch.setattr(records, "ROWS_MAX", row_count)
    monkeypatch.setattr(records, "BYTES_MAX", size)
    segment(
        broker_dir(tmp_path) / "orders-0",
        [plain(5, record_value=b"four"), plain(6, record_value=b"four")],
    )
    all_rows = table(tmp_path, "records")
    assert [row["offset"] for row in all_rows] == list(range(11))
    assert [row["batch_base_offset"] for row in all_rows] == [0] * 5 + [5] * 6


def test_only_columns_that_are_wanted_are_made(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain(2)])
    assert table(tmp_path, "records", columns=["value", "offset"]) == [
        {"value": b"v", "offset": 0},
        {"value": b"v", "offset": 1},
    ]


# Columns that are made where they are asked for.


REPLICA = Replica(log_dir="/logs", broker=1, topic="orders", partition=2, path="/logs/orders-2")
SEGMENT = SegmentFile(replica=REPLICA, path="x", base_offset=7, next_base_offset=None, size=1)


class Pair(msgspec.Struct, frozen=True):
    """A row of a decoded table."""

    a: int
    b: str | None


def test_only_columns_of_the_schema_are_made() -> None:
    def never(arrow_type: pa.DataType) -> pa.Array:
        raise AssertionError(arrow_type)

    rows = r.Rows(2, {"a": r.constant_column(5, 2), "b": never})
    schema = pa.schema([pa.field("a", pa.int32())])
    assert rows.in_schema(schema).to_pylist() == [{"a": 5}, {"a": 5}]


def test_a_place_is_the_same_in_all_rows() -> None:
    rows = r.Rows(2, r.segment_columns(SEGMENT, 2))
    schema = pa.schema(
        [
            ("log_dir", pa.string()),
            ("broker", pa.int32()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("segment_base_offset", pa.int64()),
        ]
    )
    assert [tuple(row.values()) for row in rows.in_schema(schema).to_pylist()] == [
        ("/logs", 1, "orders", 2, 7)
    ] * 2


def test_numbers_words_and_nothing() -> None:
    numbers = np.array([3, -1, 9], dtype=np.int64)
    assert r.integer_column(numbers)(pa.int32()).to_pylist() == [3, -1, 9]
    assert r.integer_column(numbers, absent_value=numbers == 9)(pa.int64()).to_pylist() == [
        3,
        -1,
        None,
    ]
    assert r.nonnegative_column(numbers)(pa.int64()).to_pylist() == [3, None, 9]
    assert r.boolean_column(numbers > 0)(pa.bool_()).to_pylist() == [True, False, True]
    assert r.word_column(numbers, "abcd")(pa.string()).to_pylist() == ["d", None, None]
    for number, word in ((1, "b"), (-1, None), (4, None)):
        alike_numbers = np.full(2, number, dtype=np.int64)
        assert r.word_column(alike_numbers, "abcd")(pa.string()).to_pylist() == [word, word]
    assert r.word_column(numbers[:0], "abcd")(pa.string()).to_pylist() == []
    assert r.null_column(2)(pa.string()).to_pylist() == [None, None]
    assert r.constant_column(None, 2)(pa.int32()).to_pylist() == [None, None]
    assert r.value_column(lambda: [b"x", None])(pa.binary()).to_pylist() == [b"x", None]


def test_structs_come_in_pieces_of_bounded_size() -> None:
    count = r.ROWS_MAX + 3

    def all_pairs() -> Iterator[Pair]:
        for number in range(count):
            yield Pair(number, None if number % 2 else "x")

    row_pieces = list(
        r.rows_of_structs(all_pairs(), lambda size: {"topic": r.constant_column("t", size)})
    )
    assert [row_piece.count for row_piece in row_pieces] == [r.ROWS_MAX, 3]
    schema = pa.schema([("b", pa.string()), ("a", pa.int64()), ("topic", pa.string())])
    assert row_pieces[1].in_schema(schema).to_pylist()[0] == {
        "b": "x" if r.ROWS_MAX % 2 == 0 else None,
        "a": r.ROWS_MAX,
        "topic": "t",
    }
    assert list(r.rows_of_structs(iter(()), lambda _: {})) == []


def test_small_batches_are_put_together_up_to_a_bound() -> None:
    def batch_of_values(*values: bytes) -> pa.RecordBatch:
        return pa.record_batch({"value": pa.array(values, pa.binary())})

    many_batch, large_batch = (
        batch_of_values(*[b"m"] * r.ROWS_MAX),
        batch_of_values(b"l" * r.JOINED_BYTES_MAX),
    )
    small_batches = [
        batch_of_values(b"a"),
        batch_of_values(b"b", b"c"),
        many_batch,
        batch_of_values(b"d"),
        large_batch,
        batch_of_values(b"e"),
        batch_of_values(b"f"),
    ]
    joined_batches = list(r.join_batches(small_batches))
    assert [record_batch.num_rows for record_batch in joined_batches] == [3, r.ROWS_MAX, 1, 1, 2]
    assert pa.Table.from_batches(joined_batches) == pa.Table.from_batches(small_batches)
    assert list(r.join_batches(())) == []


# Segments as rows.


def test_a_row_tells_what_a_segment_spans(tmp_path: Path) -> None:
    path = segment(
        broker_dir(tmp_path) / "orders-0", [plain(2), plain(timestamp=NOW + 9)], base_offset=5
    )
    (row,) = table(tmp_path, "segments", has_times=False)
    file_size = path.stat().st_size
    del row["log_dir"], row["broker"], row["topic"], row["partition"]
    assert row == {
        "segment_base_offset": 5,
        "file": str(path),
        "size_bytes": file_size,
        "sound_bytes": file_size,
        "is_last": True,
        "batches": 2,
        "records": 3,
        "first_offset": 5,
        "last_offset": 7,
        "max_timestamp_ms": NOW + 9,
    }


def test_an_empty_segment_spans_nothing(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [])
    (row,) = table(tmp_path, "segments")
    assert (row["batches"], row["size_bytes"], row["sound_bytes"]) == (0, 0, 0)
    assert (row["first_offset"], row["last_offset"], row["max_timestamp_ms"]) == (None,) * 3


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_is_torn_is_not_sound(tmp_path: Path, is_clean: bool) -> None:
    path = segment(broker_dir(tmp_path, is_clean=is_clean) / "orders-0", [plain(), plain()])
    path.write_bytes(path.read_bytes()[:-1])
    if is_clean:
        with pytest.raises(CorruptLogFileError, match="byte 70: 69 bytes"):
            table(tmp_path, "segments")
    (row,) = table(tmp_path, "segments", options=PASSING_OVER if is_clean else {})
    assert row["sound_bytes"] == len(plain())
    assert row["size_bytes"] == 2 * len(plain()) - 1


def test_a_replica_has_a_row_per_segment(tmp_path: Path) -> None:
    driver = busy_log()
    replica(broker_dir(tmp_path), driver)
    rows = table(tmp_path, "segments", options={"taskBytes": "1"})
    assert [row["segment_base_offset"] for row in rows] == [
        segment.base_offset for segment in driver.log.local.segments
    ]
    assert sum(row["batches"] for row in rows) == 90
    assert [row["is_last"] for row in rows] == [False] * (len(rows) - 1) + [True]


def test_nobody_goes_through_segments_for_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica(broker_dir(tmp_path), busy_log())
    all_rows = table(tmp_path, "segments")
    cheap = [
        column_name for column_name in TABLES["segments"].names if column_name not in WALK_COLUMNS
    ]

    def never(*args: object, **keywords: object) -> None:
        raise AssertionError(args)

    monkeypatch.setattr(segments, "sound_rows", never)
    rows = table(tmp_path, "segments", columns=cheap)
    assert rows == [{name: row[name] for name in cheap} for row in all_rows]
