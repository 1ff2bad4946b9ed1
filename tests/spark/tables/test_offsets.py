"""Tables of positions, transactions and findings, and errors in place of rows."""

from __future__ import annotations

import json
import struct
import uuid
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.broker_dirs import BrokerDir, move
from tests.support.log_tables import (
    PASSING_OVER,
    Row,
    broker_dir,
    busy_log,
    cut,
    logs_of,
    overwrite,
    replica,
    segment,
    table,
)
from tests.support.logs import NOW, PID, LogDriver, plain
from tests.support.old_messages import old_message
from txnsim.group.consumer_records import EpochStored, SubscriptionDeleted
from txnsim.group.log_format import encode_batch, encode_record
from txnsim.group.record_kinds import kinds
from txnsim.group.records import (
    ClassicGroupDeleted,
    ClassicGroupStored,
    GroupRecord,
    OffsetCommitted,
    OffsetDeleted,
    StoredMember,
)
from txnsim.group.streams._records import (
    StreamsCurrentAssignmentStored,
    StreamsMemberDeleted,
    StreamsTopologyStored,
)
from txnsim.group.streams.topology import Subtopology
from txnsim.storage import names
from txnsim.storage.txn_index import ENTRY_BYTES
from txnsim.types import TopicPartition
from txnsim.wire.batch import ZSTD, Record, build_batch, control_batch
from txnsim_spark.file_faults import CorruptLogFileError
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.scan import kernel
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.segments import replicas_in
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables._errors import read_replica
from txnsim_spark.tables._offsets import KINDS, row_of
from txnsim_spark.tables.findings import read
from txnsim_spark.tables.rows import TableJob

# The group coordinators' log, as rows.


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
    return table(tmp_path, "offsets", has_times=False)


def offsets_log_bytes(*records: GroupRecord, producer_id: int = -1) -> bytes:
    return encode_batch(records, now_ms=NOW, producer_id=producer_id, producer_epoch=0)


def batch_of(*, producer_id: int = -1) -> Ints:
    columns = np.zeros(kernel.BATCH_COLUMNS, dtype=np.int64)
    columns[kernel.PRODUCER_ID] = producer_id
    return columns


def test_a_commit_is_told_with_where_it_stands(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, offsets_log_bytes(COMMIT))
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
    offset_with_id = OffsetCommitted(
        group_id="g",
        topic_partition=ORDERS_1,
        position=1,
        commit_timestamp_ms=NOW,
        topic_id=uuid.UUID(int=1),
    )
    (row,) = rows_of(tmp_path, offsets_log_bytes(offset_with_id))
    assert row["committed_topic_id"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert row["committed_leader_epoch"] is None


def test_a_commit_inside_a_transaction_names_the_producer_and_a_marker_is_no_row(
    tmp_path: Path,
) -> None:
    marker = control_batch(
        producer_id=5, producer_epoch=0, is_commit=True, coordinator_epoch=0, base_offset=0,
        leader_epoch=0, timestamp_ms=NOW,
    )  # fmt: skip
    (row,) = rows_of(tmp_path, offsets_log_bytes(COMMIT, producer_id=5), marker)
    assert (row["producer_id"], row["producer_epoch"], row["is_transactional"]) == (5, 0, True)


def test_only_producers_that_are_wanted_have_rows(tmp_path: Path) -> None:
    segment(
        broker_dir(tmp_path) / FOLDER,
        [
            offsets_log_bytes(COMMIT, producer_id=5),
            offsets_log_bytes(COMMIT, producer_id=6),
            offsets_log_bytes(COMMIT),
        ],
    )
    rows = table(tmp_path, "offsets", options={"producerIds": "6"})
    assert [row["offset"] for row in rows] == [1]


def test_tombstones_say_what_is_gone(tmp_path: Path) -> None:
    offset, group, member = rows_of(
        tmp_path,
        offsets_log_bytes(
            OffsetDeleted(group_id="g", topic_partition=ORDERS_1),
            ClassicGroupDeleted(group_id="h"),
            SubscriptionDeleted(group_id="i", member_id="m-1"),
        ),
    )
    assert {row["is_tombstone"] for row in (offset, group, member)} == {True}
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
    stored_row, newer_row = rows_of(tmp_path, offsets_log_bytes(classic), offsets_log_bytes(epoch))
    assert (stored_row["kind"], stored_row["group_id"]) == ("group_metadata", "g")
    detail = json.loads(stored_row["detail"])
    assert detail["generation"] == 3
    assert detail["members"][0]["subscription"] == "AAE="
    assert newer_row["kind"] == "consumer_group_metadata"
    assert json.loads(newer_row["detail"]) == {"epoch": 6, "metadata_hash": 1}


def test_streams_groups_have_their_tasks_and_topology_as_json(tmp_path: Path) -> None:
    current = StreamsCurrentAssignmentStored(
        group_id="g", member_id="m", member_epoch=5, previous_member_epoch=4, state=1,
        active=(("0", 2, 5),), standby_revoked=(("1", 3),),
    )  # fmt: skip
    topology = StreamsTopologyStored(
        group_id="g",
        topology_epoch=2,
        subtopologies=(Subtopology(subtopology_id="0", source_topics=("orders",)),),
    )
    streams_member_deleted = StreamsMemberDeleted(group_id="g", member_id="m")
    has, reads, leaves = rows_of(
        tmp_path, offsets_log_bytes(current, topology, streams_member_deleted)
    )
    assert {(row["group_id"], row["problem"]) for row in (has, reads, leaves)} == {("g", None)}
    assert (has["key_version"], has["kind"]) == (22, "streams_group_current_member_assignment")
    tasks = json.loads(has["detail"])
    assert (tasks["member_id"], tasks["epoch"], tasks["previous_epoch"]) == ("m", 5, 4)
    assert (tasks["active"], tasks["standby_revoked"]) == ([["0", 2, 5]], [["1", 3]])
    assert (reads["key_version"], reads["kind"]) == (23, "streams_group_topology")
    (subtopology,) = json.loads(reads["detail"])["subtopologies"]
    assert subtopology["source_topics"] == ["orders"]
    assert (leaves["kind"], leaves["is_tombstone"]) == ("streams_group_member_metadata", True)


def test_each_kind_that_a_coordinator_writes_has_a_name() -> None:
    assert set(KINDS) == {0, 1, *kinds()}


def text(value: str) -> bytes:
    return struct.pack("!h", len(value)) + value.encode()


KEY_0 = struct.pack("!h", 0) + text("g") + text("orders") + struct.pack("!i", 1)


@pytest.mark.parametrize(
    ("version", "record_value", "expires"),
    [
        (0, struct.pack("!hq", 0, 9) + text("m") + struct.pack("!q", 8), None),
        (1, struct.pack("!hq", 1, 9) + text("m") + struct.pack("!qq", 8, 77), 77),
        (2, struct.pack("!hq", 2, 9) + text("m") + struct.pack("!q", 8), None),
        (3, struct.pack("!hqi", 3, 9, 5) + text("m") + struct.pack("!q", 8), None),
    ],
)
def test_older_versions_are_told(
    tmp_path: Path, version: int, record_value: bytes, expires: int | None
) -> None:
    pair_record = Record(key=KEY_0, value=record_value)
    batch_data = build_batch([pair_record], timestamp_ms=NOW, compression=ZSTD)
    (row,) = rows_of(tmp_path, batch_data)
    assert (row["kind"], row["key_version"], row["value_version"]) == ("offset_commit", 0, version)
    assert (row["committed_offset"], row["committed_metadata"]) == (9, "m")
    assert (row["commit_timestamp_ms"], row["expire_timestamp_ms"]) == (8, expires)
    assert row["committed_leader_epoch"] == (5 if version == 3 else None)
    assert row["problem"] is None


@pytest.mark.parametrize(
    ("key", "record_value", "kind", "expected_words"),
    [
        (b"\x00\x63g", b"\x00\x00", "unknown", "a key of version 99, which is no kind"),
        (b"\x00\x0bg", b"\x00\x00", "share_group_metadata", "unreadable record"),
        (KEY_0, b"\x00\x09", "offset_commit", "a value of version 9, which is not known"),
        (KEY_0, b"\x00\x03\x00", "offset_commit", "unreadable record"),
        (b"\x00", None, "unknown", "unreadable record"),
    ],
)
def test_what_can_t_be_read_is_a_row_that_says_so(
    key: bytes, record_value: bytes | None, kind: str, expected_words: str
) -> None:
    row = row_of(Record(key=key, value=record_value, offset=4), batch_of())
    assert row.problem is not None
    assert expected_words in row.problem
    assert (row.kind, row.group_id, row.offset) == (kind, None, 4)


@given(st.integers(0, 24), st.binary(max_size=40), st.none() | st.binary(max_size=60))
def test_any_bytes_make_a_row(kind: int, key: bytes, value: bytes | None) -> None:
    row = row_of(Record(key=struct.pack("!h", kind) + key, value=value), batch_of(producer_id=3))
    assert (row.problem is None) == (row.group_id is not None)
    assert row.producer_id == 3


@given(st.integers(0, 5), st.binary(max_size=60))
def test_any_value_of_a_sound_key_makes_a_row(version: int, value: bytes) -> None:
    for stored_record in (
        COMMIT,
        ClassicGroupStored(group_id="g"),
        EpochStored(group_id="g", group_epoch=1),
    ):
        key, _ = encode_record(stored_record)
        row_of(Record(key=key, value=struct.pack("!h", version) + value), batch_of())


def test_only_the_group_coordinators_log_is_read(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    assert table(tmp_path, "offsets") == []


# Damage of every kind of file: its place, its size, whether a broker would cut it off.


BATCH = len(plain())


def short(row: Row) -> tuple[str, str, int, int, bool]:
    """File, kind and place of an error row."""
    return (
        Path(row["file"]).name,
        row["kind"],
        row["position"],
        row["size_bytes"],
        row["is_cut"],
    )


def errors(path: Path, **options: str) -> list[tuple[str, str, int, int, bool]]:
    return [short(row) for row in table(path, "errors", options=options)]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_sound_directory_has_none(tmp_path: Path, is_clean: bool) -> None:
    replica(broker_dir(tmp_path, is_clean=is_clean), busy_log())
    assert errors(tmp_path, checkCrc="true", checkRecords="true") == []


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    ("damage", "kind", "position"),
    [
        (lambda path: cut(path, 2 * BATCH - 1), "torn", BATCH),
        (lambda path: cut(path, BATCH + 30), "torn", BATCH),
        (lambda path: overwrite(path, BATCH + 8, b"\x7f\xff\xff\xff"), "length", BATCH),
        (lambda path: overwrite(path, BATCH + 8, b"\xff\xff\xff\xff"), "length", BATCH),
        (lambda path: overwrite(path, BATCH + 16, b"\x07"), "format", BATCH),
        (lambda path: overwrite(path, BATCH, bytes(BATCH)), "length", BATCH),
    ],
)
def test_a_segment_that_stops_making_sense_is_told_with_its_place(
    tmp_path: Path, is_clean: bool, damage: object, kind: str, position: int
) -> None:
    path = segment(broker_dir(tmp_path, is_clean=is_clean) / "orders-0", [plain(), plain()])
    assert callable(damage)
    damage(path)
    remaining_bytes = path.stat().st_size - position
    assert errors(tmp_path) == [(path.name, kind, position, remaining_bytes, not is_clean)]
    (row,) = table(tmp_path, "errors")
    assert (row["topic"], row["partition"], row["segment_base_offset"]) == ("orders", 0, 0)
    assert row["reason"]
    is_end = not is_clean and (kind == "torn" or not any(path.read_bytes()[BATCH:]))
    if not is_end:
        with pytest.raises(CorruptLogFileError, match=f"byte {position}: {remaining_bytes} bytes"):
            table(tmp_path, "batches")
    assert len(table(tmp_path, "batches", options={} if is_end else PASSING_OVER)) == 1


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_told_and_not_cut(tmp_path: Path, magic: int) -> None:
    batch_data = old_message(magic, offset=3)
    path = segment(broker_dir(tmp_path, is_clean=False) / "orders-0", [])
    path.write_bytes(batch_data)
    assert errors(tmp_path) == [(path.name, "format", 0, len(batch_data), False)]


def test_what_lies_behind_a_cut_segment_goes_with_it(tmp_path: Path) -> None:
    broker_dir(tmp_path, is_clean=False)
    first_segment_file = segment(tmp_path / "orders-0", [plain(), plain()])
    second_segment_file = segment(tmp_path / "orders-0", [plain()], base_offset=2)
    overwrite(first_segment_file, BATCH + 40, b"!")
    assert errors(tmp_path) == [
        (first_segment_file.name, "crc", BATCH, BATCH, True),
        (second_segment_file.name, "behind", 0, BATCH, True),
    ]
    with pytest.raises(CorruptLogFileError, match="from offset 1 on; a starting broker cuts"):
        table(tmp_path, "batches")
    rows = table(tmp_path, "batches", options=PASSING_OVER)
    assert [row["base_offset"] for row in rows] == [0]
    assert errors(tmp_path, checkCrc="false") == []


def test_every_wrong_crc_is_told_where_all_are_computed(tmp_path: Path) -> None:
    path = segment(broker_dir(tmp_path) / "orders-0", [plain()] * 4)
    for number in (1, 3):
        overwrite(path, number * BATCH + 50, b"!")
    assert errors(tmp_path) == []
    assert errors(tmp_path, checkCrc="true") == [
        (path.name, "crc", BATCH, BATCH, False),
        (path.name, "crc", 3 * BATCH, BATCH, False),
    ]


def test_records_that_can_t_be_decoded_are_told_where_batches_are_looked_into(
    tmp_path: Path,
) -> None:
    damaged_batch = bytearray(plain(3))
    damaged_batch[60] = 9
    path = segment(broker_dir(tmp_path) / "orders-0", [plain(), bytes(damaged_batch), plain()])
    assert errors(tmp_path) == []
    assert errors(tmp_path, checkRecords="true") == [
        (path.name, "records", BATCH, len(damaged_batch), False)
    ]


def test_indexes_of_aborted_transactions_are_told_at_the_entry(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    index_file = folder / names.Suffix.TXN_INDEX.file_name(0)
    file_size = index_file.stat().st_size
    overwrite(index_file, ENTRY_BYTES, b"\x00\x09")
    remaining_bytes = file_size - ENTRY_BYTES
    assert errors(tmp_path) == [(index_file.name, "txn_index", ENTRY_BYTES, remaining_bytes, False)]
    cut(index_file, ENTRY_BYTES + 5)
    assert errors(tmp_path) == [(index_file.name, "txn_index", ENTRY_BYTES, 5, False)]


def test_snapshots_are_told(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    offset, path = names.Suffix.SNAPSHOT.files_in(folder)[0]
    file_size = path.stat().st_size
    overwrite(path, 20, b"!!!!")
    assert errors(tmp_path) == [(path.name, "snapshot", 0, file_size, False)]
    assert table(tmp_path, "errors")[0]["segment_base_offset"] == offset


@pytest.mark.parametrize(
    ("folder_path", "file_name", "log_bytes", "kind"),
    [
        ("orders-0", names.FileName.LEADER_EPOCHS, b"0\n2\n0 0\n", "checkpoint"),
        ("orders-0", names.FileName.LEADER_EPOCHS, b"\xff", "checkpoint"),
        ("orders-0", names.FileName.PARTITION_METADATA, b"version: 1\n", "metadata"),
        *(("", name, b"nonsense\n", "checkpoint") for name in names.FileName.checkpoints()),
        ("", names.FileName.META_PROPERTIES, b"nonsense\n", "metadata"),
    ],
)
def test_small_files_are_told_and_those_at_the_top_of_no_replica(
    tmp_path: Path, folder_path: str, file_name: str, log_bytes: bytes, kind: str
) -> None:
    replica(broker_dir(tmp_path), busy_log())
    (tmp_path / folder_path / file_name).write_bytes(log_bytes)
    assert errors(tmp_path) == [(file_name, kind, 0, len(log_bytes), False)]
    (row,) = table(tmp_path, "errors")
    topic_and_partition = ("orders", 0) if folder_path else (None, None)
    assert (row["topic"], row["partition"], row["segment_base_offset"]) == (
        *topic_and_partition,
        None,
    )
    assert row["log_dir"] == str(tmp_path)


def test_what_can_t_be_read_at_all_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    """A folder instead of a file stands for everything that the system refuses to open."""
    folder = replica(broker_dir(tmp_path), busy_log())
    logs = logs_of(folder)
    snapshot_file = names.Suffix.SNAPSHOT.files_in(folder)[0][1]
    index_file = folder / names.Suffix.TXN_INDEX.file_name(0)
    for path in (logs[1], snapshot_file, index_file):
        path.unlink()
        path.mkdir()
    problems = {(name, kind) for name, kind, *_ in errors(tmp_path)}
    assert problems == {(path.name, "unreadable") for path in (logs[1], snapshot_file, index_file)}
    rows = table(tmp_path, "batches", options=PASSING_OVER)
    bases = {row["segment_base_offset"] for row in rows}
    assert len(bases) == len(logs) - 1


def test_a_file_whose_size_can_t_be_had_is_told(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    loop = folder / names.Suffix.LOG.file_name(999)
    loop.symlink_to(loop)
    assert errors(tmp_path) == [(loop.name, "unreadable", 0, 0, False)]
    assert len(table(tmp_path, "batches", options=PASSING_OVER)) == 90


def test_a_folder_that_can_t_be_listed_is_told(tmp_path: Path) -> None:
    folder = replica(broker_dir(tmp_path), busy_log())
    (found_replica,) = replicas_in([tmp_path])
    folder.rename(tmp_path / "elsewhere")
    job = TableJob(
        options=KafkaLogOptions.of({"path": str(tmp_path), "table": "errors"}), columns=()
    )
    (rows,) = read_replica(found_replica, job)
    kinds = pa.schema([("kind", pa.string()), ("file", pa.string())])
    assert rows.in_schema(kinds).to_pylist() == [{"kind": "missing", "file": str(folder)}]


# Findings as rows, without Spark.


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """``orders`` and ``payments`` hang: their coordinator knows nothing of a transaction."""
    hanging_log_driver = LogDriver()
    hanging_log_driver.txn(0)
    broker_dir = BrokerDir(tmp_path / "broker-1", 1)
    broker_dir.coordinator(move("Empty"))
    broker_dir.replica(hanging_log_driver, "payments")
    broker_dir.replica(hanging_log_driver)
    return broker_dir.stop()


def test_a_row_per_open_transaction_topic_by_topic(log_dir: Path) -> None:
    schema = TABLES["findings"].arrow()
    options = KafkaLogOptions(paths=(log_dir,), table="findings")
    job = TableJob(options=options, columns=tuple(schema.names))
    batches = [rows.in_schema(schema) for rows in read(job)]
    assert [batch["topic"].to_pylist() for batch in batches] == [["orders"], ["payments"]]
    (row,) = batches[0].to_pylist()
    assert (row["log_dir"], row["broker"], row["producer_id"]) == (str(log_dir), 1, PID)
    assert (row["verdict"], row["rule"], row["transactional_id"]) == (
        "hanging",
        "not_listed",
        "app",
    )
    began = datetime.fromtimestamp(NOW / 1_000, UTC)
    assert (row["started_at"], row["last_written_at"]) == (began, began)
    assert (row["open_on"], row["behind"], row["evidence_reasons"]) == ([1], [], [])
    assert json.loads(row["evidence"])["status"] == row["evidence_status"] == "sound"
    assert row["command"].endswith(" repair --topic orders --partition 0 --yes")


def test_it_is_asked_about_a_time_and_a_timeout(log_dir: Path) -> None:
    def verdicts(**values: int) -> set[str]:
        log_options = KafkaLogOptions(paths=(log_dir,), table="findings")
        options = msgspec.structs.replace(log_options, **values)
        schema = TABLES["findings"].arrow(("verdict",))
        rows = read(TableJob(options=options, columns=("verdict",)))
        return {row for batch in rows for row in batch.in_schema(schema)["verdict"].to_pylist()}

    assert verdicts() == {"hanging"}
    assert verdicts(as_of_ms=NOW + 60_000) == {"recent"}
    assert verdicts(as_of_ms=NOW + 60_000, max_transaction_timeout_ms=59_000) == {"hanging"}
