"""What could only come back empty is refused, with the reason."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from tests.support.log_tables import broker_dir, busy_log, replica, segment
from tests.support.logs import plain
from txnsim.errors import BadInputError
from txnsim.storage.regular_file import RegularFile
from txnsim_spark import empty_reads
from txnsim_spark.file_faults import CorruptLogFileError, MissingLogFileError
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import KafkaLogError, KafkaLogOptions
from txnsim_spark.planning import FILES_OF_TABLE, shares_of
from txnsim_spark.schemas import TABLES
from txnsim_spark.source import KafkaLogDataSource, schema_of


def source(path: Path | str, **options: str) -> KafkaLogDataSource:
    return KafkaLogDataSource(CaseInsensitiveDict({"path": str(path), **options}))


def rows_of(path: Path | str, **options: str) -> int:
    reader: Any = source(path, **options).reader(schema_of(options.get("table", "batches")))
    return sum(
        record_batch.num_rows for task in reader.partitions() for record_batch in reader.read(task)
    )


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    log_dir = broker_dir(tmp_path / "broker-1")
    replica(log_dir, busy_log())
    segment(log_dir / "payments-3", [plain()])
    return log_dir


@pytest.mark.parametrize(
    ("options", "expected_words"),
    [
        ({"topics": "order"}, "option topics: no topic 'order'; did you mean orders?"),
        ({"topics": "orders,refunds"}, "option topics: no topic 'refunds'; there are: orders, pay"),
        ({"table": "findings", "topics": "x"}, "option topics: no topic 'x'"),
        ({"partitions": "0,7"}, "option partitions: no partition '7'; there are: 0, 3"),
        ({"topics": "orders", "partitions": "3"}, "option partitions: no partition '3'"),
        ({"startingOffsets": '{"orders": {"1": 0}}'}, "startingOffsets: no partition 'orders-1'"),
        ({"endingOffsets": '{"paymnts": {"3": 9}}'}, "endingOffsets: no partition 'paymnts-3'"),
        ({"table": "offsets", "topics": "orders"}, "table offsets has nothing of topic orders"),
        ({"startingOffsets": "latest"}, "only a stream begins at the latest offsets"),
    ],
)
def test_a_name_that_is_not_there_is_refused(
    logs: Path, options: dict[str, str], expected_words: str
) -> None:
    with pytest.raises(BadInputError, match="format kafka_log") as error_info:
        rows_of(logs, **options)
    assert expected_words in str(error_info.value)


@pytest.mark.parametrize(
    ("options", "expected_words"),
    [
        ({"topics": "order"}, "option topics: no topic 'order'; did you mean orders?"),
        ({"endTimestamp": "5"}, "a stream has no end, so no endingOffsets, endTimestamp"),
        ({"endingOffsets": '{"orders": {"0": 9}}'}, "a stream has no end"),
    ],
)
def test_a_stream_that_would_wait_in_vain_is_refused(
    logs: Path, options: dict[str, str], expected_words: str
) -> None:
    with pytest.raises(BadInputError, match="format kafka_log") as error_info:
        source(logs, **options).streamReader(schema_of("batches")).initialOffset()
    assert expected_words in str(error_info.value)


def test_a_folder_that_is_named_as_a_replica_s_is_no_log_directory(tmp_path: Path) -> None:
    (tmp_path / "project-2").mkdir()
    (tmp_path / "project-2" / "notes.txt").write_text("none of Kafka's")
    with pytest.raises(BadInputError, match="holds no log directory, and is none"):
        rows_of(tmp_path)
    segment(tmp_path / "orders-0", [plain()])
    assert rows_of(tmp_path) == 1


@pytest.mark.parametrize("table_name", TABLES)
def test_files_of_which_none_can_be_opened_are_refused(
    logs: Path, table_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_file: RegularFile, **_: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(RegularFile, "ranges", refuse)
    options = KafkaLogOptions.of({"path": str(logs), "table": table_name})
    if (
        FILES_OF_TABLE[table_name].is_whole
        or FILES_OF_TABLE[table_name].topic
        or table_name in empty_reads.TABLES_WITHOUT_CONTENT
    ):
        shares_of(options, RowScope(), FILES_OF_TABLE[table_name], is_user_read=True)
        return
    with pytest.raises(BadInputError, match="Permission denied; so are all other files"):
        shares_of(options, RowScope(), FILES_OF_TABLE[table_name], is_user_read=True)
    shares_of(options, RowScope(), FILES_OF_TABLE[table_name])


def test_one_file_that_can_be_opened_is_enough(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_ranges = RegularFile.ranges

    def refuse(file: RegularFile, **options: Any) -> Any:
        if file.path.parent.name == "orders-0":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file.path))
        return real_ranges(file, **options)

    monkeypatch.setattr(RegularFile, "ranges", refuse)
    assert rows_of(logs, topics="orders,payments", ignoreCorruptFiles="true")
    with pytest.raises(CorruptLogFileError, match=r"orders-0.*Permission denied"):
        rows_of(logs, topics="orders,payments")
    with pytest.raises(BadInputError, match="Permission denied"):
        rows_of(logs, topics="orders")


def test_folders_of_which_none_can_be_looked_into_are_refused(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original_iterdir = Path.iterdir

    def refuse(path: Path) -> Any:
        if path.parent == logs:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return original_iterdir(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(BadInputError, match="orders-0: Permission denied"):
        rows_of(logs)


def test_a_worker_that_does_not_see_the_directory_fails(logs: Path) -> None:
    reader = source(logs).reader(schema_of("batches"))
    task = reader.partitions()[0]
    logs.rename(logs.with_name("elsewhere"))
    with pytest.raises(BadInputError, match=r"broker-1 is no directory on .* under the same path"):
        list(reader.read(task))


def test_a_segment_that_retention_has_taken_meanwhile_is_refused_or_passed_over(
    logs: Path,
) -> None:
    def count(**options: str) -> int:
        reader: Any = source(logs, **options).reader(schema_of("batches"))
        tasks = reader.partitions()
        retained_log_file = logs / "payments-3" / "00000000000000000000.log"
        file_bytes = retained_log_file.read_bytes()
        retained_log_file.unlink()
        try:
            return sum(
                record_batch.num_rows for task in tasks for record_batch in reader.read(task)
            )
        finally:
            retained_log_file.write_bytes(file_bytes)

    with pytest.raises(MissingLogFileError, match=r"payments-3/0{20}\.log is gone.*load again"):
        count()
    assert count(ignoreMissingFiles="true") == 90


@pytest.mark.parametrize("uri", ["s3a://bucket/logs", "gs://bucket/logs"])
def test_a_store_of_an_unknown_session_is_refused_with_the_line_to_write(uri: str) -> None:
    data_source, schema = source(uri), schema_of("batches")
    for read in (
        lambda: data_source.reader(schema),
        lambda: data_source.streamReader(schema).initialOffset(),
    ):
        with pytest.raises(KafkaLogError, match=r"txnsim_spark import register; register\(s"):
            read()


def test_what_nobody_has_placed_is_never_planned() -> None:
    options = KafkaLogOptions.of({"path": "s3a://bucket/logs"})
    for table in ("batches", "findings", "replicas"):
        with pytest.raises(BadInputError, match="s3a://bucket/logs is not read here"):
            shares_of(options, RowScope(), FILES_OF_TABLE[table])
