"""The format ``kafka_log``: options, plans, filters, schemas."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from tests.support.log_tables import (
    broker_dir,
    busy_log,
    logs_of,
    overwrite,
    replica,
    segment,
    table,
    write_dense_index,
)
from tests.support.logs import NOW, LogDriver, plain
from txnsim.errors import BadInputError
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.types import TopicPartition
from txnsim_spark import planning
from txnsim_spark.file_faults import CorruptLogFileError
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import (
    BYTE_COSTS,
    HEADERS_BYTE_COST,
    OPTION_NAMES,
    CrcCheck,
    Division,
    KafkaLogError,
    KafkaLogOptions,
)
from txnsim_spark.planning import (
    FILES_OF_TABLE,
    REPLICAS_PER_TASK,
    NeededFiles,
    divide_in_tasks,
    group_segments,
    shares_of,
)
from txnsim_spark.scan.log_dirs import LogDirectory
from txnsim_spark.scan.segments import Replica, SegmentFile, replicas_in, segments_of
from txnsim_spark.schemas import DECODED_TABLES, TABLES
from txnsim_spark.source import KafkaLogDataSource, KafkaLogReader, Task, columns_of, schema_of
from txnsim_spark.tables.row_sources import rows_of
from txnsim_spark.tables.rows import TableJob

# How files are shared out.


SEGMENTS = NeededFiles(reads_segments=True)


def segments_of_sizes(
    *sizes: int, is_recovered: bool = False, partition: int = 0
) -> list[SegmentFile]:
    return [
        SegmentFile(
            replica=Replica(
                log_dir="/logs", broker=1, topic="orders", partition=partition, path="/logs/orders"
            ),
            path=f"/logs/orders/{base_offset}.log",
            base_offset=base_offset,
            next_base_offset=None,
            size=size,
            is_recovered=is_recovered,
        )
        for base_offset, size in enumerate(sizes)
    ]


def sizes_of(tasks: list[tuple[SegmentFile, ...]]) -> list[list[int]]:
    return [[segment.size for segment in task] for task in tasks]


def test_small_segments_share_a_task_and_large_ones_have_their_own() -> None:
    tasks = group_segments(segments_of_sizes(10, 20, 30, 50, 1, 200, 1), task_bytes=60)
    assert sizes_of(tasks) == [[10, 20, 30], [50, 1], [200], [1]]


def test_nothing_makes_no_task() -> None:
    assert group_segments([], task_bytes=60) == []


def test_what_is_gone_through_together_stays_together() -> None:
    segments = [
        *segments_of_sizes(50, 50, is_recovered=True),
        *segments_of_sizes(50, 50, is_recovered=True, partition=1),
    ]
    assert sizes_of(group_segments(segments, task_bytes=60)) == [[50, 50], [50, 50]]
    mixed = [*segments_of_sizes(50), *segments_of_sizes(50, is_recovered=True)]
    assert sizes_of(group_segments(mixed, task_bytes=60)) == [[50], [50]]


def options(path: Path, table_name: str = "batches", **settings: str) -> KafkaLogOptions:
    return KafkaLogOptions.of({"path": str(path), "table": table_name, **settings})


def tasks_of(segments: list[SegmentFile], table_name: str, **settings: int) -> list[list[int]]:
    table_options = options(Path("/logs"), table_name)
    table_options = msgspec.structs.replace(table_options, division=Division(**settings))
    return sizes_of(divide_in_tasks(segments, table_options))


def test_the_smallest_segments_cost_their_opening() -> None:
    tasks = tasks_of(segments_of_sizes(*[189] * 5_000), "fragments", parallelism=2)
    assert [len(task) for task in tasks] == [2_046, 2_046, 908], "2,048 openings are a task's bytes"


def test_no_core_is_without_work() -> None:
    large_bytes = 120 << 20
    assert tasks_of(segments_of_sizes(*[large_bytes] * 8), "fragments", parallelism=1) == [
        [large_bytes] * 4,
        [large_bytes] * 4,
    ]
    assert (
        tasks_of(segments_of_sizes(*[large_bytes] * 4), "fragments", parallelism=4)
        == [[large_bytes]] * 4
    )
    small_bytes = 1 << 10
    few_tasks = tasks_of(segments_of_sizes(*[small_bytes] * 4), "fragments", parallelism=4)
    assert few_tasks == [[small_bytes]] * 4, "an opening is the least that is worth a task"


def test_a_session_says_how_much_a_task_is() -> None:
    sizes = [1 << 20] * 8
    division = {"parallelism": 1, "open_cost_bytes": 1 << 16, "max_partition_bytes": 2 << 20}
    assert [len(task) for task in tasks_of(segments_of_sizes(*sizes), "batches", **division)] == [
        1
    ] * 8
    division["max_partition_bytes"] = 3 << 20
    assert [len(task) for task in tasks_of(segments_of_sizes(*sizes), "batches", **division)] == [
        2
    ] * 4


@pytest.mark.parametrize("name", DECODED_TABLES)
def test_a_large_segment_is_decoded_by_several_tasks(tmp_path: Path, name: str) -> None:
    topic_partition = TopicPartition(
        "orders" if name == "records" else FILES_OF_TABLE[name].topic or "", 0
    )
    folder = replica(broker_dir(tmp_path), busy_log(roll_bytes=1 << 20), topic_partition)
    (path,) = logs_of(folder)
    write_dense_index(path)
    small_division = Division(parallelism=1, open_cost_bytes=1, max_partition_bytes=4_000)
    cut_options = msgspec.structs.replace(options(tmp_path, name), division=small_division)
    parts = [
        segment
        for share in shares_of(cut_options, RowScope(), FILES_OF_TABLE[name])
        for segment in share.segments
    ]
    assert len(parts) > 2
    rows = table(tmp_path, name)
    assert rows
    job = TableJob(options=cut_options, columns=tuple(rows[0]))
    schema = TABLES[name].arrow(tuple(rows[0]))
    assert rows == [
        row
        for share in shares_of(cut_options, RowScope(), FILES_OF_TABLE[name])
        for row_part in rows_of(share, job)
        for row in row_part.in_schema(schema).to_pylist()
    ]
    index_file = path.with_suffix(".index")
    index_file.write_bytes(index_file.read_bytes()[::-1])
    assert [
        row
        for share in shares_of(cut_options, RowScope(), FILES_OF_TABLE[name])
        for row_part in rows_of(share, job)
        for row in row_part.in_schema(schema).to_pylist()
    ] == rows, "a wrong index parts it otherwise, and loses nothing"


def test_older_segments_are_left_out_by_their_time_index(tmp_path: Path) -> None:
    driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=1_000))
    for number in range(30):
        driver.txn(number, timestamp=NOW + number)
    folder = replica(broker_dir(tmp_path), driver)
    rows = table(tmp_path, "segments")
    assert len(rows) > 2
    greatest = [row["max_timestamp_ms"] for row in rows]

    def plan_reads(time_min_ms: int) -> list[int]:
        shares = shares_of(options(tmp_path), RowScope(time_min_ms=time_min_ms), SEGMENTS)
        return [segment.base_offset for share in shares for segment in share.segments]

    bases = plan_reads(0)
    for number, (newest_ms, base_offset) in enumerate(zip(greatest[:-1], bases, strict=False)):
        assert plan_reads(newest_ms)[0] == base_offset
        assert plan_reads(newest_ms + 1) == bases[number + 1 :]
    assert plan_reads(greatest[-1] + 1) == bases[-1:], "nothing is known of the active segment"

    first_index = logs_of(folder)[0].with_suffix(".timeindex")
    good_index = first_index.read_bytes()
    data_by_reason = {
        "none": b"",
        "torn": good_index[:-1],
        "outside of the segment": good_index[:-4] + b"\x7f\xff\xff\xff",
        "before its first entry": good_index + bytes(12),
    }
    for reason, data in data_by_reason.items():
        first_index.write_bytes(data)
        assert plan_reads(greatest[0] + 1) == bases, reason
    first_index.unlink()
    assert plan_reads(greatest[0] + 1) == bases
    first_index.write_bytes(good_index)
    (tmp_path / names.FileName.CLEAN_SHUTDOWN).unlink()
    assert plan_reads(greatest[0] + 1) == bases, "what is cut in it ends those behind"


def test_later_segments_are_left_out_where_records_come_late_by_a_bound(tmp_path: Path) -> None:
    driver = LogDriver(LogConfig(rules=LATEST_RULES, roll_bytes=1_000))
    for number in range(60):
        driver.txn(number, timestamp=NOW + number)
    replica(broker_dir(tmp_path), driver)
    rows = table(tmp_path, "segments")
    greatest = [row["max_timestamp_ms"] for row in rows]

    def plan_reads(time_max_ms: int, **settings: str) -> int:
        row_scope = RowScope(time_max_ms=time_max_ms)
        shares = shares_of(options(tmp_path, **settings), row_scope, SEGMENTS)
        return sum(len(share.segments) for share in shares)

    count = len(greatest)
    assert count > 3
    assert plan_reads(NOW) == count, "a late record may lie anywhere"
    assert plan_reads(NOW, lateByMaxMs="1") == 1
    assert plan_reads(greatest[1], lateByMaxMs="1") == 3
    late_ms = str(greatest[2] - greatest[0])
    assert plan_reads(greatest[0], lateByMaxMs=late_ms) == 4
    assert plan_reads(greatest[-1], lateByMaxMs="1") == count


def test_a_job_has_several_tasks_in_order_of_offset(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path), busy_log())
    shares = shares_of(options(tmp_path, taskBytes="2000"), RowScope(), SEGMENTS)
    assert len(shares) > 1
    bases = [segment.base_offset for share in shares for segment in share.segments]
    assert bases == sorted(set(bases))


@pytest.mark.parametrize("name", ["batches", "records", "errors", "fragments"])
def test_a_large_replica_without_a_checkpoint_is_several_tasks_with_the_rows_of_one(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = replica(broker_dir(tmp_path, is_clean=False), busy_log())
    (tmp_path / names.FileName.RECOVERY_POINTS).write_text(encode_offsets({}))
    damaged_log_file = logs_of(folder)[2]
    overwrite(damaged_log_file, damaged_log_file.stat().st_size - 5, b"!")
    table_options = options(tmp_path, name, taskBytes="1", ignoreCorruptFiles="true")
    schema = TABLES[name].arrow()
    job = TableJob(options=table_options, columns=tuple(schema.names))

    def plan_reads() -> tuple[int, list[dict[str, object]]]:
        shares = shares_of(table_options, RowScope(), FILES_OF_TABLE[name])
        row_parts = [row_part for share in shares for row_part in rows_of(share, job)]
        rows = [row for row_part in row_parts for row in row_part.in_schema(schema).to_pylist()]
        return sum(bool(share.segments) for share in shares), rows

    together, expected = plan_reads()
    monkeypatch.setattr(planning, "_UNDIVIDED_BYTES_MAX", 0)
    task_count, rows = plan_reads()
    assert (together, task_count) == (1, len(logs_of(folder)))
    assert rows == expected
    assert rows


def test_replicas_are_shared_out_by_their_number(tmp_path: Path) -> None:
    broker_dir(tmp_path)
    for partition in range(REPLICAS_PER_TASK + 1):
        (tmp_path / f"orders-{partition}").mkdir()
    shares = shares_of(options(tmp_path), RowScope(), NeededFiles(reads_replicas=True))
    assert [len(share.replicas) for share in shares] == [REPLICAS_PER_TASK, 1]


def test_what_is_not_wanted_is_not_planned(tmp_path: Path) -> None:
    broker_dir(tmp_path / "broker-1", broker=1)
    broker_dir(tmp_path / "broker-2", broker=2)
    for broker in (1, 2):
        for file_name in ("orders-0", "orders-1", "__transaction_state-0"):
            segment(tmp_path / f"broker-{broker}" / file_name, [plain()])

    def plan_reads(
        row_scope: RowScope, reads: NeededFiles = SEGMENTS, **settings: str
    ) -> list[tuple[int, str]]:
        return [
            (segment.replica.broker, f"{segment.topic}-{segment.partition}")
            for share in shares_of(options(tmp_path, **settings), row_scope, reads)
            for segment in share.segments
        ]

    assert plan_reads(RowScope(partitions=frozenset({1}))) == [(1, "orders-1"), (2, "orders-1")]
    needed_files = NeededFiles(reads_segments=True, topic="__transaction_state")
    state = "__transaction_state-0"
    assert plan_reads(RowScope(), needed_files) == [(1, state), (2, state)]
    assert plan_reads(RowScope(), topics="nowhere") == []


def test_the_top_of_log_directories_is_looked_at_where_no_replica_is_chosen(
    tmp_path: Path,
) -> None:
    broker_dir(tmp_path)
    needed_files = NeededFiles(reads_log_dirs=True)

    def plan_reads(row_scope: RowScope, **settings: str) -> list[str]:
        shares = shares_of(options(tmp_path, **settings), row_scope, needed_files)
        return [log_dir for share in shares for log_dir in share.log_dirs]

    assert plan_reads(RowScope()) == [str(tmp_path)]
    assert plan_reads(RowScope(partitions=frozenset({0}))) == []
    assert plan_reads(RowScope(), topics="orders") == []


def test_a_folder_that_can_t_be_read_ends_the_plan_unless_it_may_be_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker_dir(tmp_path)
    segment(tmp_path / "orders-0", [plain()])
    segment(tmp_path / "orders-1", [plain()])

    def refuse(replica: Replica, directory: LogDirectory) -> Iterator[SegmentFile]:
        if replica.partition == 0:
            raise PermissionError(replica.path)
        return segments_of(replica, directory)

    monkeypatch.setattr(planning, "segments_of", refuse)
    with pytest.raises(CorruptLogFileError, match=r"orders-0: .*ignoreCorruptFiles"):
        shares_of(options(tmp_path), RowScope(), SEGMENTS)
    error_shares = shares_of(options(tmp_path, "errors"), RowScope(), FILES_OF_TABLE["errors"])
    assert [
        problem_text.partition(": ")[0]
        for share in error_shares
        for problem_text in share.unreadable
    ] == [str(tmp_path / "orders-0")]
    shares = shares_of(options(tmp_path, ignoreCorruptFiles="true"), RowScope(), SEGMENTS)
    assert [segment.partition for share in shares for segment in share.segments] == [1]


@pytest.mark.parametrize("is_clean", [True, False])
def test_segments_that_end_before_a_start_are_left_out_unless_a_cut_in_them_counts(
    tmp_path: Path, is_clean: bool
) -> None:
    replica(broker_dir(tmp_path, is_clean=is_clean), busy_log())
    bases = [segment.base_offset for segment in segments_of(replicas_in([tmp_path])[0])]

    def plan_reads(start: int) -> list[int]:
        table_options = options(tmp_path, startingOffsets=json.dumps({"orders": {"0": start}}))
        shares = shares_of(table_options, RowScope.of(table_options), SEGMENTS)
        return [segment.base_offset for share in shares for segment in share.segments]

    assert plan_reads(0) == bases
    assert plan_reads(bases[2]) == (bases[2:] if is_clean else bases)
    assert plan_reads(bases[2] - 1) == (bases[1:] if is_clean else bases)
    assert plan_reads(10**9) == (bases[-1:] if is_clean else bases)


# The data source as Spark calls it, without Spark running.


def source(path: Path, **options: str) -> KafkaLogDataSource:
    return KafkaLogDataSource(CaseInsensitiveDict({"path": str(path), **options}))


def reader(path: Path, table_name: str, **options: str) -> KafkaLogReader:
    reader = source(path, table=table_name, **options).reader(schema_of(table_name))
    assert isinstance(reader, KafkaLogReader)
    return reader


def test_the_schema_is_the_table_s() -> None:
    assert KafkaLogDataSource.name() == "kafka_log"
    for name in TABLES:
        schema = source(Path("/logs"), table=name).schema()
        assert schema.names == list(TABLES[name].names)
        spark_columns = ", ".join(
            f"{field.name} {field.dataType.simpleString()}" for field in schema
        )
        assert re.sub(r",(\w+:)", r", \1", spark_columns).replace(":", ": ") == TABLES[name].ddl


def test_all_rows_are_those_of_all_tasks(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path), busy_log())
    all_rows = reader(tmp_path, "batches", taskBytes="1000")
    tasks = all_rows.partitions()
    assert len(tasks) > 1
    assert isinstance(tasks, list), "Spark insists"
    assert sum(batch.num_rows for task in tasks for batch in all_rows.read(task)) == 90


def test_a_task_and_a_reader_travel_to_workers(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path), busy_log())
    copied_reader = pickle.loads(pickle.dumps(reader(tmp_path, "batches")))
    tasks = pickle.loads(pickle.dumps(copied_reader.partitions()))
    assert sum(batch.num_rows for task in tasks for batch in copied_reader.read(task)) == 90


def test_a_job_without_work_has_a_task_without_work(tmp_path: Path) -> None:
    broker_dir(tmp_path)
    (task,) = reader(tmp_path, "batches").partitions()
    assert isinstance(task, Task)
    assert list(reader(tmp_path, "batches").read(task)) == []


def test_a_schema_of_some_columns_is_what_is_read(tmp_path: Path) -> None:
    replica(broker_dir(tmp_path), busy_log())
    schema = StructType(
        [StructField("last_offset", LongType()), StructField("topic", StringType())]
    )
    reader = source(tmp_path, table="batches").reader(schema)
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    assert batches
    for batch in batches:
        assert isinstance(batch, pa.RecordBatch)
        assert batch.schema.names == ["last_offset", "topic"]


@pytest.mark.parametrize(
    ("field", "expected_words"),
    [
        (StructField("offset", LongType()), "table batches has no column offset; it has log_dir"),
        (StructField("crc", IntegerType()), "column crc of table batches is bigint, not int"),
    ],
)
def test_a_schema_that_the_table_has_not_is_refused(
    field: StructField, expected_words: str
) -> None:
    with pytest.raises(BadInputError, match=expected_words):
        columns_of("batches", StructType([field]))


def test_a_table_of_the_catalog_keeps_its_options_with_its_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica(broker_dir(tmp_path), busy_log())
    monkeypatch.chdir(tmp_path.parent)
    of_catalog = {
        **{"provider": "kafka_log", "location": tmp_path.name, "owner": "somebody"},
        **{"path": tmp_path.name, "option.table": "records", "table": "records"},
        **{"producerids": "7", "fs.s3a.secret.key": "hidden"},
    }
    schema = KafkaLogDataSource(CaseInsensitiveDict(of_catalog)).schema()
    assert "hidden" not in schema.json()
    monkeypatch.chdir("/")
    stored_schema = StructType.fromJson(json.loads(schema.json()))

    def rows(**options: str) -> list[str]:
        reader = KafkaLogDataSource(CaseInsensitiveDict(options)).reader(stored_schema)
        return [topic for task in reader.partitions() for batch in reader.read(task)
                for topic in batch["topic"].to_pylist()]  # fmt: skip

    assert rows() == ["orders"] * 50
    assert len(rows(producerIds="7,8")) == 100
    (tmp_path / "empty").mkdir()
    with pytest.raises(KafkaLogError, match="empty"):
        rows(path=str(tmp_path / "empty"), table="records")


def test_columns_of_a_user_s_own_come_without_the_options_of_a_catalog() -> None:
    with pytest.raises(KafkaLogError, match="in CREATE TABLE name no columns"):
        KafkaLogDataSource(CaseInsensitiveDict({})).reader(schema_of("batches"))


def test_a_wrong_option_is_refused_before_anything_is_read() -> None:
    with pytest.raises(BadInputError, match="there is no option 'topic'; did you mean topics"):
        source(Path("/logs"), topic="orders").schema()


# What a user may give, and what is refused with which words.


def options_of(**options: str) -> KafkaLogOptions:
    return KafkaLogOptions.of({"path": "/logs", **options})


def test_only_a_path_is_needed() -> None:
    assert options_of() == KafkaLogOptions(
        paths=(Path("/logs"),),
        table="batches",
        topics=frozenset(),
        check_crc=CrcCheck.AUTO,
        checks_records=False,
    )


@pytest.mark.parametrize(
    ("options", "field_name", "value"),
    [
        ({"taskBytes": "5"}, "task_bytes", 5),
        ({"taskBytes": "200K"}, "task_bytes", 200 << 10),
        ({"maxBytesPerTrigger": "64m"}, "max_bytes_per_trigger", 64 << 20),
        ({"maxBytesPerTrigger": "1 gb"}, "max_bytes_per_trigger", 1 << 30),
        ({"maxBytesPerTrigger": "7b"}, "max_bytes_per_trigger", 7),
        ({"TASKBYTES": "5"}, "task_bytes", 5),
        ({"task_bytes": "5"}, "task_bytes", 5),
        ({"path": "/a, /b,"}, "paths", (Path("/a"), Path("/b"))),
        ({"path": "", "paths": '["/a", "/b"]'}, "paths", (Path("/a"), Path("/b"))),
        ({"path": "", "paths": '["/a,b"]'}, "paths", (Path("/a,b"),)),
        ({"path": "logs"}, "paths", (Path.cwd() / "logs",)),  # workers start elsewhere
        ({"path": "file:///a%20b"}, "paths", (Path("/a b"),)),
        ({"topics": "orders, payments,"}, "topics", {"orders", "payments"}),
        ({"path": "", "paths": '["/a", " "]'}, "paths", (Path("/a"),)),
        ({"partitions": "0, 12"}, "partitions", {0, 12}),
        ({"producerIds": "7,8"}, "producer_ids", {7, 8}),
        ({"startingOffsets": "earliest"}, "starting_offsets", {}),
        ({"startingOffsets": "latest"}, "starts_latest", True),
        (
            {"startingOffsets": '{"orders": {"0": 23, "1": -2}}'},
            "starting_offsets",
            {"orders": {0: 23}},
        ),
        ({"endingOffsets": "latest"}, "ending_offsets", {}),
        ({"endingOffsets": '{"a": {"0": 5, "1": -1}}'}, "ending_offsets", {"a": {0: 5}}),
        ({"startTimestamp": "1700000000000"}, "start_ms", 1_700_000_000_000),
        ({"endTimestamp": "2023-11-14T22:13:20"}, "end_ms", 1_700_000_000_000),
        ({"checkCrc": "auto"}, "check_crc", CrcCheck.AUTO),
        ({"checkCrc": "TRUE"}, "check_crc", CrcCheck.ALL),
        ({"checkCrc": "false"}, "check_crc", CrcCheck.NONE),
    ],
)
def test_an_option_is_read_as_it_is_meant(
    options: dict[str, str], field_name: str, value: object
) -> None:
    assert getattr(options_of(**options), field_name) == value


def test_each_table_has_a_cost() -> None:
    assert BYTE_COSTS.keys() <= TABLES.keys()
    assert min(BYTE_COSTS.values()) > HEADERS_BYTE_COST


@pytest.mark.parametrize(
    ("options", "expected_words"),
    [
        ({"tabel": "records"}, "there is no option 'tabel'; did you mean table?"),
        ({"zzz": "1"}, f"there is no option 'zzz'; there are {', '.join(OPTION_NAMES)}"),
        ({"table": "record"}, "option table: 'record', expected one of batches, fragments"),
        ({"checkCrc": "yes"}, "option checkCrc: 'yes', expected auto, true or false"),
        ({"checkRecords": "1"}, "option checkRecords: '1', expected true or false"),
        ({"taskBytes": "0"}, "option taskBytes: '0', expected a size such as"),
        ({"taskBytes": "1x"}, "option taskBytes: '1x', expected a size such as"),
        ({"taskBytes": "0m"}, "option taskBytes: '0m', expected a size such as"),
        ({"paths": "/a"}, "option paths: '/a', expected a JSON list"),
        ({"startOffsets": "5"}, "no option 'startoffsets'; did you mean startingOffsets?"),
        ({"startingOffsets": "5"}, "option startingOffsets: '5', expected earliest, or JSON such"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "option startingOffsets"),
        ({"startingOffsets": "{}"}, "option startingOffsets: '{}', expected"),
        ({"endingOffsets": "earliest"}, "option endingOffsets: 'earliest', expected latest"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "option endingOffsets"),
        ({"startTimestamp": "noon"}, "option startTimestamp: 'noon', expected milliseconds"),
        ({"topics": " ,"}, "option topics: ' ,', expected names, separated by commas"),
        ({"partitions": ""}, "option partitions: '', expected numbers, separated by commas"),
        ({"producerIds": "seven"}, "option producerIds: 'seven', expected numbers"),
        ({"table": "replicas", "endingOffsets": "latest"}, "endingOffsets: only of the tables"),
        ({"table": "errors", "startTimestamp": "1"}, "option startTimestamp: only of the tables"),
        ({"table": "transactions", "producerIds": "1"}, "producerIds: only of the tables aborted"),
        ({"table": "findings", "partitions": "1"}, "option partitions: only of the tables"),
        ({"path": "", "paths": '[""]'}, "option path is missing"),
        ({"path": " , "}, "option path is missing"),
        ({"asOf": "1"}, "option asOf: only of the table findings"),
        ({"table": "findings", "asOf": "noon"}, "expected milliseconds since 1970, or ISO 8601"),
        ({"table": "findings", "maxTransactionTimeoutMs": "0"}, "milliseconds, 1 or more"),
        ({"maxBytesPerTrigger": "9", "maxFilesPerTrigger": "9"}, "give one of them"),
    ],
)
def test_what_is_wrong_is_refused_by_name(options: dict[str, str], expected_words: str) -> None:
    with pytest.raises(BadInputError, match="format kafka_log") as error_info:
        options_of(**options)
    assert expected_words in str(error_info.value)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [("1700000000000", 1_700_000_000_000), ("2023-11-14T23:13:20+01:00", 1_700_000_000_000)],
)
def test_findings_are_asked_about_a_time(text: str, time_ms: int) -> None:
    log_options = options_of(table="findings", asOf=text, maxTransactionTimeoutMs="60000")
    assert (log_options.as_of_ms, log_options.max_transaction_timeout_ms) == (time_ms, 60_000)


# Where results are written.
