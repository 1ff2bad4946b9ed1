"""Tables of batches: columns, bounds, fragments."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from tests.support.log_tables import (
    ORDERS,
    PASSING_OVER,
    broker_dir,
    busy_log,
    overwrite,
    replica,
    segment,
    table,
    times_of,
)
from tests.support.logs import NOW, LogDriver, batch, plain
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.types import TopicPartition
from txnsim.wire.batch import GZIP, LZ4, SNAPPY, ZSTD, Record, build_batch, control_batch
from txnsim_spark.scan import kernel_fragments as fk
from txnsim_spark.schemas import DECODED_TABLES, OFFSET_COLUMNS, TABLES, TIME_COLUMNS
from txnsim_spark.source import KafkaLogDataSource, schema_of
from txnsim_spark.tables import arrays

# ``fragments``: What each producer did, and a row per marker, as columns with nulls.


FRAGMENTS = {
    "producer_id": fk.PRODUCER,
    "first_offset": fk.FIRST_OFFSET,
    "last_offset": fk.LAST_OFFSET,
    "batches": fk.BATCHES,
    "records": fk.RECORDS,
    "bytes": fk.BYTES,
    "first_epoch": fk.FIRST_EPOCH,
    "first_sequence": fk.FIRST_SEQUENCE,
    "last_epoch": fk.LAST_EPOCH,
    "last_sequence": fk.LAST_SEQUENCE,
    "last_timestamp_ms": fk.LAST_TIMESTAMP,
    "commits": fk.COMMITS,
    "aborts": fk.ABORTS,
    "coordinator_epoch": fk.COORDINATOR_EPOCH,
    "head_offset": fk.HEAD_OFFSET,
    "head_marker_offset": fk.HEAD_MARKER,
    "open_offset": fk.OPEN_OFFSET,
    "open_timestamp_ms": fk.OPEN_TIMESTAMP,
    "open_last_timestamp_ms": fk.OPEN_LAST_TIMESTAMP,
    "open_epoch": fk.OPEN_EPOCH,
    "open_records": fk.OPEN_RECORDS,
    "sequence_gaps": fk.SEQUENCE_GAPS,
    "epochs_back": fk.EPOCHS_BACK,
    "idle_markers": fk.IDLE_MARKERS,
    "head_is_commit": fk.HEAD_IS_COMMIT,
}


ENDINGS = {
    "producer_id": fk.ENDED_PRODUCER,
    "producer_epoch": fk.ENDED_EPOCH,
    "first_offset": fk.ENDED_FIRST_OFFSET,
    "marker_offset": fk.ENDED_MARKER,
    "coordinator_epoch": fk.ENDED_COORDINATOR_EPOCH,
    "first_timestamp_ms": fk.ENDED_FIRST_TIMESTAMP,
    "timestamp_ms": fk.ENDED_TIMESTAMP,
    "records": fk.ENDED_RECORDS,
    "is_commit": fk.ENDED_COMMITTED,
}


@pytest.mark.parametrize(
    ("name", "columns", "column_count"),
    [("fragments", FRAGMENTS, fk.TABLE_COLUMNS), ("endings", ENDINGS, fk.ENDING_COLUMNS)],
)
def test_the_columns_behind_the_place_are_those_of_the_kernel_in_its_order(
    name: str, columns: dict[str, int], column_count: int
) -> None:
    names = [column for column in TABLES[name].names[5:] if column not in times_of(name)]
    assert names == sorted(columns, key=columns.__getitem__)
    assert sorted(columns.values()) == list(range(column_count))


def test_an_open_transaction_is_told_with_where_it_began(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0, producer_id=7)
    driver.end(committed=True, producer_id=7, coordinator_epoch=3)
    driver.txn(1, producer_id=7, count=2)
    driver.data(0, producer_id=0)
    replica(broker_dir(tmp_path), driver)
    idempotent, row = sorted(
        table(tmp_path, "fragments", has_times=False), key=lambda row: row["producer_id"]
    )
    assert idempotent["producer_id"] == 0
    assert idempotent["open_offset"] is None
    assert row["open_offset"] == 2
    del row["log_dir"], row["bytes"]
    assert row == {
        "broker": 1,
        "topic": "orders",
        "partition": 0,
        "segment_base_offset": 0,
        "producer_id": 7,
        "first_offset": 0,
        "last_offset": 3,
        "batches": 2,
        "records": 3,
        "first_epoch": 0,
        "first_sequence": 0,
        "last_epoch": 0,
        "last_sequence": 2,
        "last_timestamp_ms": NOW,
        "commits": 1,
        "aborts": 0,
        "coordinator_epoch": 3,
        "head_offset": 0,
        "head_marker_offset": 1,
        "head_is_commit": True,
        "open_offset": 2,
        "open_timestamp_ms": NOW,
        "open_last_timestamp_ms": NOW,
        "open_epoch": 0,
        "open_records": 2,
        "sequence_gaps": 0,
        "epochs_back": 0,
        "idle_markers": 0,
    }


def test_a_transaction_without_marker_has_no_head_marker(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [batch(0, is_transactional=True)])
    (row,) = table(tmp_path, "fragments")
    assert (row["head_offset"], row["open_offset"]) == (0, 0)
    assert (row["head_marker_offset"], row["head_is_commit"]) == (None, None)


def test_batches_without_producer_are_one_fragment(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain(), plain(2)])
    (row,) = table(tmp_path, "fragments")
    assert (row["producer_id"], row["batches"], row["records"]) == (None, 2, 3)
    assert (row["first_epoch"], row["last_sequence"], row["open_offset"]) == (None, None, None)


# Endings


def test_a_marker_tells_of_the_transaction_that_it_ends(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0, producer_id=7, count=2)
    driver.txn(2, producer_id=7)
    driver.end(committed=False, producer_id=7, coordinator_epoch=3)
    driver.end(committed=True, producer_id=7, coordinator_epoch=4)
    replica(broker_dir(tmp_path), driver)
    first_ending, second_ending = table(tmp_path, "endings", has_times=False)
    del first_ending["log_dir"]
    assert first_ending == {
        "broker": 1,
        "topic": "orders",
        "partition": 0,
        "segment_base_offset": 0,
        "producer_id": 7,
        "producer_epoch": 0,
        "first_offset": 0,
        "marker_offset": 3,
        "is_commit": False,
        "coordinator_epoch": 3,
        "first_timestamp_ms": NOW,
        "timestamp_ms": NOW,
        "records": 3,
    }
    assert (
        second_ending["is_commit"],
        second_ending["first_offset"],
        second_ending["records"],
    ) == (True, None, 0)


def test_one_that_began_in_an_older_segment_has_no_beginning_here(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path), busy_log())
    rows = table(tmp_path, "endings")
    assert len(rows) == 30
    assert any(row["first_offset"] is None for row in rows)
    assert all((row["first_offset"] or 0) < row["marker_offset"] for row in rows)


# Arrays made of their buffers are those that pyarrow makes of the values.


INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=5)
TIMES = pa.timestamp("us", tz="UTC")
PLACES = pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())]))
PLACE = st.fixed_dictionaries({"topic": st.none() | TEXT, "partition": st.none() | INT32})
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int32(), INT32),
    (pa.int64(), INT64),
    (TIMES, st.integers(0, 2**50)),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXT),
    (pa.binary(), st.binary(max_size=5)),
    (pa.list_(pa.string()), st.lists(TEXT, max_size=3)),
    (pa.list_(pa.int32()), st.lists(st.none() | INT32, max_size=3)),
    (PLACES, st.lists(st.none() | PLACE, max_size=3)),
]


@given(st.data())
def test_values_are_those_of_pyarrow(data: st.DataObject) -> None:
    kind, strategy = data.draw(st.sampled_from(KINDS))
    values = data.draw(st.lists(st.none() | strategy, max_size=20))
    array = arrays.value_array(values, kind)
    array.validate(full=True)
    expected = pa.array(values, kind)
    assert array.equals(expected)
    assert array.null_count == expected.null_count


@given(st.lists(st.tuples(INT32, st.booleans()), max_size=20))
def test_numbers_and_truths_are_those_of_pyarrow(rows: list[tuple[int, bool]]) -> None:
    # As the walk has them: every second number of a larger table.
    table = np.array([[number, 0] for number, _ in rows], dtype=np.int64).reshape(-1, 2)
    null_mask = np.array([flag for _, flag in rows], dtype=np.bool_)
    for arrow_type in (pa.int32(), pa.int64()):
        expected = pa.array(
            table[:, 0].astype(arrow_type.to_pandas_dtype()), arrow_type, mask=null_mask
        )
        assert arrays.number_array(table[:, 0], arrow_type, absent_value=null_mask).equals(expected)
    assert arrays.boolean_array(null_mask, pa.bool_()).equals(pa.array(null_mask))
    assert arrays.boolean_array(~null_mask, pa.bool_(), absent_value=null_mask).equals(
        pa.array(~null_mask, mask=null_mask)
    )


@given(st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=3)), max_size=9))
def test_pieces_are_those_of_the_buffer(rows: list[tuple[bytes, bytes | None]]) -> None:
    buffer, begins = b"", []
    for between, piece in rows:
        begins.append(len(buffer + between))
        buffer += between + (piece or b"")
    sizes = np.array([-1 if piece is None else len(piece) for _, piece in rows], dtype=np.int64)
    data_array, positions = np.frombuffer(buffer, dtype=np.uint8), np.array(begins, dtype=np.int64)
    expected = [piece for _, piece in rows]
    array = arrays.piece_array(data_array, positions, sizes, pa.binary())
    array.validate(full=True)
    assert array.to_pylist() == expected
    texts = [None if piece is None else piece.decode("utf-8", "replace") for piece in expected]
    assert arrays.piece_array(data_array, positions, sizes, pa.string()).to_pylist() == texts


@pytest.mark.parametrize("value", [5, None])
def test_one_value_stands_in_all_rows(value: int | None) -> None:
    assert arrays.repeat_value(value, 3, pa.int32()).equals(pa.array([value] * 3, pa.int32()))


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OverflowError):
        arrays.value_array([2**31], pa.int32())
    with pytest.raises(OverflowError):
        arrays.value_array([2**63], pa.int64())
    with pytest.raises(TypeError):
        arrays.value_array([7], pa.string())
    with pytest.raises(TypeError, match="no array of double"):
        arrays.value_array([0.5], pa.float64())
    monkeypatch.setattr(arrays, "_BYTES_MAX", 3)
    with pytest.raises(OverflowError, match="4 bytes"):
        arrays.value_array(["ab", "cd"], pa.string())
    with pytest.raises(OverflowError, match="4 bytes"):
        arrays.piece_array(np.zeros(4, np.uint8), np.zeros(1), np.ones(1), pa.binary())


WITHOUT_PANDAS = """
import sys
import numpy as np
import pyarrow as pa
from txnsim_spark.tables import arrays
arrays.value_array([[{"a": "x"}], None], pa.list_(pa.struct([("a", pa.string())])))
arrays.repeat_value(5, 2, pa.int64())
arrays.number_array(np.arange(3), pa.int32())
arrays.piece_array(np.frombuffer(b"abc", np.uint8), np.arange(2), np.array([1, -1]), pa.string())
assert "pandas" not in sys.modules
pa.array([1])
assert "pandas" in sys.modules, "then arrays may be made by pyarrow again"
"""


@pytest.mark.slow
def test_pandas_is_not_loaded() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], check=True)


# A row per batch: what its header says, and what of that is absent.


def marker(*, committed: bool, coordinator_epoch: int = 4) -> bytes:
    return control_batch(
        producer_id=7,
        producer_epoch=2,
        is_commit=committed,
        coordinator_epoch=coordinator_epoch,
        base_offset=0,
        leader_epoch=0,
        timestamp_ms=NOW,
    )


def test_a_row_has_what_its_header_says(tmp_path: Path) -> None:
    batch_data = batch(5, count=3, producer_id=9, epoch=2, is_transactional=True, compression=ZSTD)
    path = segment(broker_dir(tmp_path) / "orders-0", [plain(), batch_data], base_offset=40)
    row = table(tmp_path, "batches", has_times=False)[1]
    assert row == {
        "log_dir": str(tmp_path),
        "broker": 1,
        "topic": "orders",
        "partition": 0,
        "segment_base_offset": 40,
        "position": len(plain()),
        "size_bytes": len(batch_data),
        "base_offset": 41,
        "last_offset": 43,
        "leader_epoch": 3,
        "crc": int.from_bytes(path.read_bytes()[len(plain()) + 17 :][:4], "big"),
        "codec": "zstd",
        "timestamp_type": "CreateTime",
        "is_transactional": True,
        "is_control": False,
        "has_delete_horizon": False,
        "base_timestamp_ms": NOW,
        "max_timestamp_ms": NOW,
        "producer_id": 9,
        "producer_epoch": 2,
        "base_sequence": 5,
        "records": 3,
        "control_type": None,
        "coordinator_epoch": None,
        "is_valid": None,
    }


def test_what_a_batch_without_producer_has_not_is_null(tmp_path: Path) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    (row,) = table(tmp_path, "batches")
    assert (row["producer_id"], row["producer_epoch"], row["base_sequence"]) == (None,) * 3


def test_markers_say_which_and_whose(tmp_path: Path) -> None:
    segment(
        broker_dir(tmp_path) / "orders-0",
        [marker(committed=True), marker(committed=False, coordinator_epoch=9)],
    )
    assert [
        (row["is_control"], row["control_type"], row["coordinator_epoch"], row["base_sequence"])
        for row in table(tmp_path, "batches")
    ] == [(True, "commit", 4, None), (True, "abort", 9, None)]


@pytest.mark.parametrize(
    ("codec", "name"), [(GZIP, "gzip"), (SNAPPY, "snappy"), (LZ4, "lz4"), (ZSTD, "zstd"), (7, None)]
)
def test_codecs_have_their_names(tmp_path: Path, codec: int, name: str | None) -> None:
    batch_data = bytearray(plain())
    batch_data[22] |= codec
    segment(broker_dir(tmp_path) / "orders-0", [bytes(batch_data)])
    assert [row["codec"] for row in table(tmp_path, "batches")] == [name]


def test_times_of_appending_are_told(tmp_path: Path) -> None:
    batch_data = build_batch([Record(value=b"v")], timestamp_ms=NOW, has_log_append_time=True)
    segment(broker_dir(tmp_path) / "orders-0", [batch_data])
    assert table(tmp_path, "batches")[0]["timestamp_type"] == "LogAppendTime"


def test_what_the_cleaner_has_left_are_rows_too(tmp_path: Path) -> None:
    """Gaps of offsets, a batch without records, a delete horizon."""
    emptied_batch = bytearray(marker(committed=True))
    emptied_batch[57:61] = bytes(4)
    emptied_batch[22] |= 0x40
    segment(broker_dir(tmp_path) / "orders-0", [plain()])
    segment(tmp_path / "orders-0", [bytes(emptied_batch)], base_offset=50)
    last_row = table(tmp_path, "batches")[-1]
    assert (last_row["base_offset"], last_row["records"], last_row["control_type"]) == (50, 0, None)
    assert (last_row["has_delete_horizon"], last_row["is_control"]) == (True, True)


def test_all_segments_of_a_replica_make_all_its_batches(tmp_path: Path) -> None:
    driver = busy_log()
    replica(broker_dir(tmp_path), driver)
    rows = table(tmp_path, "batches", options={"taskBytes": "100"})
    assert len(rows) == 90
    assert rows[-1]["last_offset"] == driver.log.log_end_offset - 1


def test_crcs_are_judged_where_they_are_computed(tmp_path: Path) -> None:
    path = segment(broker_dir(tmp_path) / "orders-0", [plain(), plain(), plain()])
    overwrite(path, 2 * len(plain()) - 3, b"!")

    def judge_crcs(**options: str) -> list[bool | None]:
        rows = table(tmp_path, "batches", options=PASSING_OVER | options)
        return [row["is_valid"] for row in rows]

    assert judge_crcs() == [None, None, None]
    assert judge_crcs(checkCrc="true") == [True, False, True]
    (tmp_path / ".kafka_cleanshutdown").unlink()
    assert judge_crcs() == [True]
    assert judge_crcs(checkCrc="false") == [None, None, None]
    points = encode_offsets({ORDERS: 3})
    (tmp_path / names.FileName.RECOVERY_POINTS).write_text(points)
    segment(tmp_path / "orders-0", [], base_offset=3)
    assert judge_crcs() == [True, False, True], "no starting broker would go through it"


# ``bounds``: Rows between offsets and times: the same as somebody would choose by hand.


Row = dict[str, Any]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions; in one of them a transaction of two records each second."""
    log_dir = broker_dir(tmp_path_factory.mktemp("bounds"))
    replica(log_dir, busy_log())
    driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=1_000, index_interval_bytes=300))
    for number in range(40):
        driver.now = NOW + 1_000 * number
        assert driver.txn(2 * number, count=2, producer_id=5, timestamp=driver.now) == 0
        assert driver.end(committed=True, producer_id=5) == 0
    replica(log_dir, driver, TopicPartition("payments", 1))
    return log_dir


def rows(logs: Path, table_name: str, *columns: str, **options: str) -> list[Row]:
    source = KafkaLogDataSource(
        CaseInsensitiveDict({"path": str(logs), "table": table_name, **options})
    )
    schema = schema_of(table_name)
    read_schema = StructType([schema[column] for column in columns]) if columns else schema
    reader: Any = source.reader(read_schema)
    all_rows = [row for task in reader.partitions() for batch in reader.read(task)
             for row in batch.to_pylist()]  # fmt: skip
    assert all(list(row) == read_schema.names for row in all_rows)
    return all_rows


def rows_of_topic(topic: str) -> Callable[[Row], bool]:
    return lambda row: bool(row["topic"] == topic)


COORDINATORS = {*DECODED_TABLES} - {"records"}


@pytest.mark.parametrize(
    "table_name", [name for name in OFFSET_COLUMNS if name not in COORDINATORS]
)
def test_offsets_bound_the_partitions_that_they_name(logs: Path, table_name: str) -> None:
    first_column, last_column = OFFSET_COLUMNS[table_name]
    all_rows = rows(logs, table_name)
    bounded_rows = rows(
        logs,
        table_name,
        startingOffsets=json.dumps({"orders": {"0": 31}, "payments": {"1": -2}}),
        endingOffsets=json.dumps({"orders": {"0": 90}, "payments": {"1": 12}}),
    )
    expected = [
        row
        for row in all_rows
        if (row["topic"] == "orders" and row[last_column] >= 31 and row[first_column] < 90)
        or (row["topic"] == "payments" and row[first_column] < 12)
    ]
    assert bounded_rows == expected
    assert any(map(rows_of_topic("orders"), bounded_rows))
    assert len(bounded_rows) < len(all_rows)


@pytest.mark.parametrize("table_name", [name for name in TIME_COLUMNS if name not in COORDINATORS])
def test_times_bound_all_partitions(logs: Path, table_name: str) -> None:
    column = TIME_COLUMNS[table_name]
    all_rows = rows(logs, table_name)
    times = sorted(row[column] for row in all_rows)
    start_time, end = times[len(times) // 3], times[2 * len(times) // 3] + 1
    bounded_rows = rows(logs, table_name, startTimestamp=str(start_time), endTimestamp=str(end))
    assert bounded_rows == [row for row in all_rows if start_time <= row[column] < end]
    assert bounded_rows


def test_a_bound_goes_by_columns_that_nobody_asks_for(logs: Path) -> None:
    ending = json.dumps({"payments": {"1": 3}})
    bounded_rows = rows(logs, "records", "value", topics="payments", endingOffsets=ending)
    assert len(bounded_rows) == 3


def test_segments_out_of_bounds_are_not_read(logs: Path) -> None:
    def segments(**options: str) -> int:
        source = KafkaLogDataSource(
            CaseInsensitiveDict({"path": str(logs), "topics": "payments", **options})
        )
        tasks: Any = source.reader(schema_of("batches")).partitions()
        return sum(len(task.share_and_listed_ms[0].segments) for task in tasks)

    segment_count = segments()
    late_segments = segments(startTimestamp=str(NOW + 39_000))
    assert (
        late_segments
        == segments(startingOffsets=json.dumps({"payments": {"1": 119}}))
        == 1
        < segment_count
    )
    assert segments(endingOffsets=json.dumps({"payments": {"1": 1}})) == 1


def test_producers_and_partitions_are_chosen(logs: Path) -> None:
    assert {row["producer_id"] for row in rows(logs, "batches", producerIds="7, 9")} == {7, 9}
    assert {row["partition"] for row in rows(logs, "records", partitions="1")} == {1}
    assert all(name in TABLES for name in {*OFFSET_COLUMNS, *TIME_COLUMNS})


@pytest.mark.parametrize(
    ("time_ms", "time"),
    [
        (NOW, datetime.fromtimestamp(NOW / 1_000, UTC)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (253_402_300_799_999, datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
        (253_402_300_800_000, None),
        (2**63 - 1, None),
        (-1, None),
    ],
)
def test_beside_milliseconds_stands_the_time(
    tmp_path: Path, time_ms: int, time: datetime | None
) -> None:
    segment(broker_dir(tmp_path) / "orders-0", [batch(0, timestamp=time_ms), plain()])
    for name, column in (("batches", "max_timestamp"), ("records", "timestamp")):
        for columns in ((column, f"{column}_ms"), (f"{column}_ms", column), (column,)):
            row, other_row = table(tmp_path, name, columns=columns)
            assert row.get(f"{column}_ms", time_ms) == time_ms
            assert (row[column], other_row[column]) == (
                time,
                datetime.fromtimestamp(NOW / 1_000, UTC),
            )


def test_a_time_that_may_be_missing_is_null_where_its_milliseconds_are(tmp_path: Path) -> None:
    driver = LogDriver()
    driver.txn(0, producer_id=7)
    driver.end(committed=True, producer_id=7)
    driver.end(committed=False, producer_id=7)
    replica(broker_dir(tmp_path), driver)
    rows = table(tmp_path, "endings", columns=("first_timestamp_ms", "first_timestamp"))
    assert [row["first_timestamp"] for row in rows] == [
        None if number is None else datetime.fromtimestamp(number / 1_000, UTC)
        for number in (row["first_timestamp_ms"] for row in rows)
    ]
    assert {row["first_timestamp_ms"] for row in rows} == {NOW, None}
