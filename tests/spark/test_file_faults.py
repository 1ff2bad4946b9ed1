"""What ``kafka_log`` does where files are not what was planned: each kind of loss is refused by
name, unless an option passes over it, and then a row of ``errors``. As Spark's own file sources.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from tests.support.log_tables import (
    PASSING_OVER,
    Row,
    broker_dir,
    busy_log,
    logs_of,
    overwrite,
    replica,
    segment,
    table,
)
from tests.support.logs import NOW, plain
from tests.support.old_messages import old_message
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.types import TopicPartition
from txnsim.wire.batch import GZIP, Record, build_batch
from txnsim_spark.file_faults import CorruptLogFileError, LogFileError, MissingLogFileError
from txnsim_spark.options import Division, FileTolerance, KafkaLogError
from txnsim_spark.schemas import TABLES
from txnsim_spark.source import KafkaLogDataSource, data_source_class, schema_of

OF_RECORDS = ("batches", "records", "fragments", "segments")
"""Tables with rows of every segment of ``orders``."""
VALUE = b"a value of some length, which no other has: "


def zipped_batch(record_number: int) -> bytes:
    value_records = [Record(value=VALUE + b"%d %d" % (record_number, index)) for index in range(2)]
    return build_batch(value_records, timestamp_ms=NOW, compression=GZIP)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A directory after a stop in order: two replicas, one of them in several segments."""
    log_dir = broker_dir(tmp_path / "broker-1")
    replica(log_dir, busy_log())
    segment(log_dir / "payments-0", [plain(), plain(), plain()])
    return log_dir


class PlannedRead:
    """A read that was planned, as a DataFrame keeps it."""

    def __init__(self, path: Path, name: str, **options: str) -> None:
        source = KafkaLogDataSource(
            CaseInsensitiveDict({"path": str(path), "table": name, **options})
        )
        self._reader: Any = source.reader(schema_of(name))
        self._tasks = self._reader.partitions()

    def rows(self) -> list[Row]:
        return list(self._rows())

    def _rows(self) -> Iterator[Row]:
        for task in self._tasks:
            for batch in self._reader.read(task):
                yield from batch.to_pylist()


# Files and folders that go between plan and read


@pytest.mark.parametrize("name", OF_RECORDS)
def test_a_segment_that_is_gone_is_refused_by_its_name(logs: Path, name: str) -> None:
    strict_read = PlannedRead(logs, name)
    lenient_read = PlannedRead(logs, name, ignoreMissingFiles="true")
    rows_before = strict_read.rows()
    deleted_log_file = logs_of(logs / "orders-0")[1]
    offset = int(deleted_log_file.stem)
    deleted_log_file.unlink()
    with pytest.raises(
        MissingLogFileError, match=f"{deleted_log_file} is gone since the read was planned"
    ):
        strict_read.rows()
    assert lenient_read.rows() == [
        row for row in rows_before if row["segment_base_offset"] != offset
    ]


@pytest.mark.parametrize("name", [*OF_RECORDS, "aborted", "leader_epochs", "producer_state"])
def test_a_replica_s_folder_that_is_gone_is_refused(logs: Path, name: str) -> None:
    strict_read = PlannedRead(logs, name)
    lenient_read = PlannedRead(logs, name, ignoreMissingFiles="true")
    shutil.rmtree(logs / "orders-0")
    with pytest.raises(MissingLogFileError, match=f"{logs}/orders-0.* is gone"):
        strict_read.rows()
    assert {row["topic"] for row in lenient_read.rows()} <= {"payments"}


def test_the_table_errors_has_a_row_of_each_file_that_is_gone(logs: Path) -> None:
    planned_read = PlannedRead(logs, "errors")
    first_log_file, second_log_file, *_ = logs_of(logs / "orders-0")
    first_log_file.unlink()
    os.truncate(second_log_file, 100)
    problems = {(row["file"], row["kind"]) for row in planned_read.rows()}
    assert {(str(first_log_file), "missing"), (str(second_log_file), "short")} <= problems


def test_the_table_errors_names_a_replica_that_its_broker_noted(logs: Path) -> None:
    noted_watermark_by_partition = {TopicPartition("orders", 0): 9, TopicPartition("orders", 2): 7}
    (logs / names.FileName.HIGH_WATERMARKS).write_text(encode_offsets(noted_watermark_by_partition))
    (row,) = table(logs, "errors")
    assert (row["file"], row["kind"]) == (str(logs / "orders-2"), "missing")


@pytest.mark.parametrize("size", [0, 100])
@pytest.mark.parametrize("name", OF_RECORDS)
def test_a_segment_shorter_than_planned_is_refused(logs: Path, name: str, size: int) -> None:
    strict_read = PlannedRead(logs, name)
    lenient_read = PlannedRead(logs, name, ignoreCorruptFiles="true")
    last_log_file = logs_of(logs / "orders-0")[-1]
    planned_size = last_log_file.stat().st_size
    os.truncate(last_log_file, size)
    with pytest.raises(
        CorruptLogFileError, match=f"{last_log_file}: {size} bytes, {planned_size - size} fewer"
    ):
        strict_read.rows()
    assert lenient_read.rows()


# Damage in what is there


def of_each_kind(log: Path) -> dict[str, Callable[[], object]]:
    """Damages of a closed segment, each of its second batch."""
    position = int.from_bytes(log.read_bytes()[8:12], "big") + 12
    return {
        "length": lambda: overwrite(log, position + 8, bytes(4)),
        "format": lambda: overwrite(log, position + 16, b"\x07"),
        "torn": lambda: os.truncate(log, position + 30),
    }


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("kind", ["length", "format", "torn"])
@pytest.mark.parametrize("name", [*OF_RECORDS, "endings"])
def test_a_closed_segment_that_stops_making_sense_is_refused(
    logs: Path, name: str, kind: str, is_clean: bool
) -> None:
    if not is_clean:
        (logs / names.FileName.CLEAN_SHUTDOWN).unlink()
    all_rows = table(logs, name)
    log = logs_of(logs / "orders-0")[1]
    of_each_kind(log)[kind]()
    with pytest.raises(CorruptLogFileError, match=f"{log}, byte [0-9]+: .*errors then names"):
        table(logs, name)
    remaining_rows = table(logs, name, options=PASSING_OVER)
    assert len(remaining_rows) < len(all_rows) or name == "segments"
    assert (log.name, kind) in {
        (Path(row["file"]).name, row["kind"]) for row in table(logs, "errors")
    }


@pytest.mark.parametrize("check_name", ["auto", "false"])
def test_a_changed_byte_of_a_compressed_batch_is_refused_wherever_it_lies(
    tmp_path: Path, check_name: str
) -> None:
    stored_batches = [zipped_batch(number) for number in range(3)]
    log = segment(broker_dir(tmp_path) / "orders-0", stored_batches)
    overwrite(log, len(stored_batches[0]) + 61 + 20, bytes([stored_batches[1][81] ^ 0xFF]))
    options = {"checkCrc": check_name}
    with pytest.raises(CorruptLogFileError, match="the batch at offset 2 has another CRC"):
        table(tmp_path, "records", options=options)
    rows = table(tmp_path, "records", options=PASSING_OVER | options)
    assert [row["offset"] for row in rows] == [0, 1, 4, 5]
    (row,) = table(tmp_path, "errors", options=options)
    assert (row["kind"], row["position"]) == ("crc", len(stored_batches[0]))


@pytest.mark.parametrize("is_behind_recovery_point", [True, False])
@pytest.mark.parametrize("name", OF_RECORDS)
def test_a_changed_bit_of_a_value_is_refused_where_no_broker_stopped_in_order(
    tmp_path: Path, name: str, is_behind_recovery_point: bool
) -> None:
    log_dir = broker_dir(tmp_path, is_clean=False)
    log = segment(log_dir / "orders-0", [plain(), plain(), plain()])
    if not is_behind_recovery_point:
        points = encode_offsets({TopicPartition("orders", 0): 3})
        (log_dir / names.FileName.RECOVERY_POINTS).write_text(points)
        segment(log_dir / "orders-0", [plain()], base_offset=3)
    overwrite(log, 2 * len(plain()) - 2, b"!")
    with pytest.raises(CorruptLogFileError, match="the batch at offset 1 has another CRC"):
        table(tmp_path, name)
    assert [row["kind"] for row in table(tmp_path, "errors")] == ["crc"]
    table(tmp_path, name, options={"checkCrc": "false"})
    (log_dir / names.FileName.CLEAN_SHUTDOWN).write_text("")
    table(tmp_path, name)


def test_records_that_a_batch_claims_and_has_not_are_refused(tmp_path: Path) -> None:
    damaged_batch = bytearray(plain(3))
    damaged_batch[60] = 9
    segment(broker_dir(tmp_path) / "orders-0", [plain(), bytes(damaged_batch), plain()])
    with pytest.raises(CorruptLogFileError, match="of the 9 records that the batch claims"):
        table(tmp_path, "records")
    assert len(table(tmp_path, "records", options=PASSING_OVER)) < 5


@pytest.mark.parametrize("name", ["batches", "records", "segments"])
def test_messages_of_old_formats_are_no_rows_and_refused(tmp_path: Path, name: str) -> None:
    log = segment(broker_dir(tmp_path) / "orders-0", [])
    log.write_bytes(old_message(1, offset=3))
    with pytest.raises(CorruptLogFileError, match="messages of format 0 or 1"):
        table(tmp_path, name)
    table(tmp_path, name, options=PASSING_OVER)
    table(tmp_path, "fragments")


def test_findings_are_refused_where_not_everything_can_be_judged(logs: Path) -> None:
    log = logs_of(logs / "orders-0")[1]
    for snapshot in names.Suffix.SNAPSHOT.files_in(logs / "orders-0"):
        snapshot[1].unlink()
    of_each_kind(log)["length"]()
    with pytest.raises(CorruptLogFileError, match="not everything can be judged"):
        table(logs, "findings")
    table(logs, "findings", options=PASSING_OVER)


# Who says what is passed over


def test_an_error_of_its_own_class_comes_to_spark(logs: Path) -> None:
    assert issubclass(MissingLogFileError, LogFileError)
    assert issubclass(CorruptLogFileError, LogFileError)
    assert issubclass(LogFileError, KafkaLogError)
    planned_read = PlannedRead(logs, "records")
    logs_of(logs / "orders-0")[0].unlink()
    with pytest.raises(MissingLogFileError) as error_info:
        planned_read.rows()
    assert error_info.value.__cause__ is None, "Spark shows the message alone"


@pytest.mark.parametrize("of_read", [None, "true", "false"])
@pytest.mark.parametrize("is_session_tolerant", [True, False])
def test_an_option_of_the_read_goes_before_the_session_s_setting(
    logs: Path, of_read: str | None, is_session_tolerant: bool
) -> None:
    tolerance = FileTolerance(
        ignore_corrupt_files=is_session_tolerant, ignore_missing_files=is_session_tolerant
    )
    registered = data_source_class(None, Division(), tolerance)
    read_options = {} if of_read is None else dict.fromkeys(PASSING_OVER, of_read)
    options = CaseInsensitiveDict({"path": str(logs), "table": "records", **read_options})
    reader: Any = registered(options).reader(schema_of("records"))
    tasks = reader.partitions()
    first_log_file, second_log_file, *_ = logs_of(logs / "orders-0")
    first_log_file.unlink()
    os.truncate(second_log_file, 5)
    read = [batch for task in tasks for batch in reader.read(task)] if (
        is_session_tolerant if of_read is None else of_read == "true"
    ) else None  # fmt: skip
    if read is None:
        with pytest.raises(LogFileError):
            [batch for task in tasks for batch in reader.read(task)]
    else:
        assert read


@pytest.mark.parametrize("name", TABLES)
def test_every_table_takes_both_options(logs: Path, name: str) -> None:
    table(logs, name, options=PASSING_OVER)
