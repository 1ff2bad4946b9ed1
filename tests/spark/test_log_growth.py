"""Directories that grow, and what is described of them."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.support.growing_dirs import GrowingDir
from tests.support.log_tables import Row, cut, logs_of, overwrite, table
from tests.support.logs import LogDriver
from tests.support.soundness import note_offset, write_log_dir
from txnsim.errors import BadInputError
from txnsim.storage import names
from txnsim.types import TopicPartition
from txnsim_spark.describe import ReplicaDescription, describe_replicas
from txnsim_spark.log_growth import (
    RECORD_TABLES,
    LogEnds,
    LogListing,
    StreamOffset,
    latest_offset,
    list_logs,
    updated_offset,
)
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import KafkaLogError, KafkaLogOptions
from txnsim_spark.planning import FILES_OF_TABLE, shares_of
from txnsim_spark.scan.segment_examination import _cut_of
from txnsim_spark.scan.segments import Replica, SegmentDamage, SegmentFile
from txnsim_spark.schemas import TABLES
from txnsim_spark.source import KafkaLogDataSource, KafkaLogStreamReader, schema_of

pytest.importorskip("duckdb", reason="the extra spark is not installed")

# ``readStream`` as Spark calls it, without Spark running: each table against a batch read.


STATES = sorted(set(TABLES) - RECORD_TABLES)


class Query:
    """Calls a reader as Spark does; offsets pass through JSON."""

    def __init__(self, path: Path, name: str, **options: str) -> None:
        source = KafkaLogDataSource(
            CaseInsensitiveDict({"path": str(path), "table": name, **options})
        )
        reader = source.streamReader(schema_of(name))
        assert isinstance(reader, KafkaLogStreamReader)
        self.reader = reader
        self.offset: Any = reader.initialOffset()

    def step(self) -> list[Row]:
        """The rows of the next batch."""
        limit = self.reader.getDefaultReadLimit()
        end = json.loads(json.dumps(self.reader.latestOffset(self.offset, limit)))
        rows = self.rows(self.offset, end)
        self.offset = end
        return rows

    def rows(self, start: Any, end: Any) -> list[Row]:
        """The rows between two stream offsets."""
        tasks = self.reader.partitions(start, end)
        assert isinstance(tasks, list), "Spark insists"
        return [row for task in tasks for batch in self.reader.read(task) for row in
                batch.to_pylist()]  # fmt: skip


def count_rows(rows: list[Row]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


@pytest.fixture
def growing_dir(tmp_path: Path) -> GrowingDir:
    growing_dir = GrowingDir(tmp_path / "broker-1")
    growing_dir.grow()
    return growing_dir


@pytest.mark.parametrize("name", sorted(RECORD_TABLES))
def test_a_growing_log_gives_each_row_once(growing_dir: GrowingDir, name: str) -> None:
    options = {"taskBytes": "1500", "checkCrc": "true"}  # is_valid tells what was checked
    query = Query(growing_dir.path, name, **options)
    step = query.step()
    assert step
    for _ in range(4):
        growing_dir.grow()
        has_more = query.step()
        assert has_more, "each growth has rows of every log"
        step += has_more
    assert query.step() == []
    assert count_rows(step) == count_rows(table(growing_dir.path, name, options=options))


@pytest.mark.parametrize("name", STATES)
def test_what_a_state_says_comes_whole_when_it_changes(growing_dir: GrowingDir, name: str) -> None:
    if name == "errors":
        (growing_dir.path / "orders-0" / "leader-epoch-checkpoint").write_text("?")
    query = Query(growing_dir.path, name)
    step = query.step()
    assert step
    assert count_rows(step) == count_rows(table(growing_dir.path, name))
    assert query.reader.latestOffset(query.offset, ReadAllAvailable()) == query.offset
    assert query.step() == []
    growing_dir.grow()
    assert count_rows(query.step()) == count_rows(table(growing_dir.path, name))


def test_a_batch_that_is_repeated_later_has_the_same_rows(growing_dir: GrowingDir) -> None:
    query = Query(growing_dir.path, "records")
    query.step()
    start = query.offset
    growing_dir.grow()
    rows = query.step()
    end = query.offset
    growing_dir.grow()
    second_query = Query(growing_dir.path, "records")
    assert count_rows(second_query.rows(start, end)) == count_rows(rows)


def test_half_a_batch_is_read_when_it_is_whole(growing_dir: GrowingDir) -> None:
    log = logs_of(growing_dir.path / "orders-0")[-1]
    whole_log = log.read_bytes()
    cut(log, len(whole_log) - 5)
    query = Query(growing_dir.path, "batches")
    step = query.step()
    log.write_bytes(whole_log)
    last_step = query.step()
    assert len(last_step) == 1
    assert count_rows(step + last_step) == count_rows(table(growing_dir.path, "batches"))


def test_what_is_there_and_no_more(growing_dir: GrowingDir) -> None:
    query = Query(growing_dir.path, "batches")
    query.reader.prepareForTriggerAvailableNow()
    growing_dir.grow()
    row_count = len(query.step())
    assert query.step() == []
    later_query = Query(growing_dir.path, "batches")
    later_query.offset = query.offset
    assert len(later_query.step()) + row_count == len(table(growing_dir.path, "batches"))


SEGMENTED = {"batches", "records", "endings"}
"""Of these logs some have segments and an index. Without those, and behind a recovery point, all
comes at once.
"""
SCAN_LIMITS = [{"maxBytesPerTrigger": "700"}, {"maxFilesPerTrigger": "1"}]


@pytest.mark.parametrize("name", sorted(RECORD_TABLES))
@pytest.mark.parametrize("bound", SCAN_LIMITS)
@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "killed"])
def test_a_bound_gives_the_same_rows_in_more_batches(
    growing_dir: GrowingDir, name: str, bound: dict[str, str], *, is_stopped: bool
) -> None:
    growing_dir.grow(20)
    if is_stopped:
        growing_dir.stop()
    all_rows = table(growing_dir.path, name)
    query = Query(growing_dir.path, name, **bound)
    query.reader.prepareForTriggerAvailableNow()
    batches = steps_of(query)
    assert count_rows([row for batch_rows in batches for row in batch_rows]) == count_rows(all_rows)
    if name in SEGMENTED:
        assert len(batches) > 2


def test_a_bound_of_bytes_cuts_a_segment_where_its_index_says(growing_dir: GrowingDir) -> None:
    growing_dir.grow(20)
    growing_dir.stop()
    bound = 900
    query = Query(growing_dir.path, "batches", topics="orders", maxBytesPerTrigger=str(bound))
    read = [sum(row["size_bytes"] for row in rows) for rows in steps_of(query)]
    entry_bytes = 600  # of the index: one per 300 bytes and a batch
    assert max(read) <= bound + entry_bytes
    assert len(read) > len(logs_of(growing_dir.path / "orders-0"))


def test_a_bound_of_segments_takes_what_was_written_first(growing_dir: GrowingDir) -> None:
    growing_dir.grow(20)
    growing_dir.stop()
    logs = [log for folder_path in ("orders-0", "__consumer_offsets-0")
            for log in logs_of(growing_dir.path / folder_path)]  # fmt: skip
    for seconds, log in enumerate(logs):
        os.utime(log, (seconds, seconds))
    query = Query(
        growing_dir.path, "batches", topics="orders,__consumer_offsets", maxFilesPerTrigger="1"
    )
    batches = steps_of(query)
    assert len(batches) == len(logs)
    assert [sum(row["size_bytes"] for row in batch_rows) for batch_rows in batches] == [
        log.stat().st_size for log in logs
    ]


def steps_of(query: Query) -> list[list[Row]]:
    """The rows of each batch, until there are no more."""
    batches: list[list[Row]] = []
    while True:
        offset_before = query.offset
        rows = query.step()
        if query.offset == offset_before:
            assert not rows
            return batches
        batches.append(rows)


def test_what_cannot_be_followed_is_said_by_the_reader() -> None:
    options = {"path": "there", "table": "errors", "maxFilesPerTrigger": "1"}
    reader = KafkaLogDataSource(CaseInsensitiveDict(options)).streamReader(schema_of("errors"))
    for ask in (reader.initialOffset, lambda: reader.latestOffset({}, ReadAllAvailable())):
        with pytest.raises(BadInputError, match="table errors comes"):
            ask()


def test_a_replica_that_comes_later_is_read_from_its_start(growing_dir: GrowingDir) -> None:
    query = Query(growing_dir.path, "batches", failOnDataLoss="false")
    step = query.step()
    (growing_dir.path / "orders-0").rename(growing_dir.path / "later-0")
    step += query.step()
    batches = Counter(row["topic"] for row in step)
    assert batches["later"] == batches["orders"] > 0


def test_a_replica_that_is_not_seen_now_keeps_its_place() -> None:
    reached_offset = StreamOffset(ends={"a-0": 9, "b-0": 4})
    assert updated_offset(reached_offset, StreamOffset(ends={"b-0": 6})) == StreamOffset(
        ends={"a-0": 9, "b-0": 6}
    )


# What is lost, and where a stream stands.


ORDERS_FOLDER = "orders-0"


def test_a_disk_that_is_mounted_elsewhere_is_the_same(
    growing_dir: GrowingDir, tmp_path: Path
) -> None:
    query = Query(growing_dir.path, "records")
    step = query.step()
    moved_path = growing_dir.path.rename(tmp_path / "elsewhere")
    second_query = Query(moved_path, "records")
    second_query.offset = query.offset
    assert second_query.step() == []
    assert len(step) == len(table(moved_path, "records"))


def test_a_topic_that_was_made_anew_is_another_one(growing_dir: GrowingDir) -> None:
    query = Query(growing_dir.path, "batches", topics="orders", failOnDataLoss="false")
    step_before = query.step()
    metadata_file = growing_dir.path / ORDERS_FOLDER / names.FileName.PARTITION_METADATA
    metadata_file.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n")
    assert count_rows(query.step()) == count_rows(step_before)
    strict_query = Query(growing_dir.path, "batches", topics="orders")
    strict_query.offset = {"ends": {"orders-0:BBBBBBBBBBBBBBBBBBBBBB@1": 4}, "state": ""}
    with pytest.raises(BadInputError, match=r"orders-0:BBBB.* is not there any more"):
        strict_query.step()


@pytest.mark.parametrize("is_repeated", [False, True], ids=["next", "repeated"])
def test_rows_that_retention_took_unread_end_a_stream(
    growing_dir: GrowingDir, *, is_repeated: bool
) -> None:
    growing_dir.grow(20)
    query = Query(growing_dir.path, "batches", topics="orders", maxFilesPerTrigger="1")
    query.step()
    start = query.offset
    query.step()
    logs = logs_of(growing_dir.path / ORDERS_FOLDER)
    for log in logs[:-1]:
        log.unlink()
    second_query = Query(growing_dir.path, "batches", topics="orders")
    with pytest.raises(BadInputError, match=r"are gone, and were not read.* failOnDataLoss=false"):
        second_query.rows(start, query.offset) if is_repeated else second_query.reader.latestOffset(
            start, ReadAllAvailable()
        )
    lenient_query = Query(growing_dir.path, "batches", topics="orders", failOnDataLoss="false")
    lenient_query.offset = start
    assert count_rows(lenient_query.step()) == count_rows(
        table(growing_dir.path, "batches", options={"topics": "orders"})
    )


@pytest.mark.parametrize("bound", [{}, {"maxFilesPerTrigger": "1"}])
def test_a_log_that_was_cut_back_ends_a_stream_or_goes_on_from_there(
    growing_dir: GrowingDir, bound: dict[str, str]
) -> None:
    options = {"topics": "orders", **bound}
    query = Query(growing_dir.path, "batches", **options, failOnDataLoss="false")
    steps_of(query)
    log = logs_of(growing_dir.path / ORDERS_FOLDER)[-1]
    whole_log = log.read_bytes()
    cut(log, len(whole_log) - 5)
    strict_query = Query(growing_dir.path, "batches", **options)
    strict_query.offset = query.offset
    with pytest.raises(BadInputError, match=r"it was read up to offset \d+, and ends at"):
        strict_query.step()
    assert query.step() == []
    log.write_bytes(whole_log)
    assert len(query.step()) == 1


def test_a_query_says_how_far_it_is_behind(growing_dir: GrowingDir) -> None:
    growing_dir.grow(20)
    query = Query(growing_dir.path, "batches", topics="orders", maxFilesPerTrigger="1")
    assert query.reader.reportLatestOffset() is not None
    progress = []
    while query.step():
        latest_one = query.reader.reportLatestOffset()
        assert latest_one is not None
        progress.append(latest_one["behind"])
    assert progress[-1] == 0
    assert progress == sorted(progress, reverse=True)
    assert progress[0] > 0


@pytest.mark.parametrize("name", ["batches", "records"])
def test_what_is_new_in_a_long_segment_is_sought_by_its_index(
    growing_dir: GrowingDir, name: str
) -> None:
    growing_dir.grow(20)
    growing_dir.stop()
    longest_log_file = max(
        logs_of(growing_dir.path / ORDERS_FOLDER), key=lambda log: log.stat().st_size
    )
    low_offset, high_offset = int(longest_log_file.stem) + 14, int(longest_log_file.stem) + 16
    options = {
        "topics": "orders",
        "startingOffsets": f'{{"orders": {{"0": {low_offset}}}}}',
        "endingOffsets": f'{{"orders": {{"0": {high_offset}}}}}',
    }
    first_column, end = (
        ("offset", "offset") if name == "records" else ("base_offset", "last_offset")
    )
    expected = [
        row
        for row in table(growing_dir.path, name, options={"topics": "orders"})
        if row[end] >= low_offset and row[first_column] < high_offset
    ]
    whole_reader = KafkaLogDataSource(
        CaseInsensitiveDict({"path": str(growing_dir.path), "table": name, **options})
    ).reader(schema_of(name))
    rows_found = [
        row
        for task in whole_reader.partitions()
        for batch in whole_reader.read(task)
        for row in batch.to_pylist()
    ]
    assert expected
    assert count_rows(rows_found) == count_rows(expected)
    log_options = KafkaLogOptions.of({"path": str(growing_dir.path), "table": name, **options})
    (share,) = shares_of(log_options, RowScope.of(log_options), FILES_OF_TABLE[name])
    (segment,) = share.segments
    assert 0 < segment.start < segment.size < longest_log_file.stat().st_size


@pytest.mark.parametrize("name", ["batches", "endings", "records"])
def test_a_living_broker_s_segment_is_read_from_where_the_last_batch_of_rows_ended(
    growing_dir: GrowingDir, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nothing of it is behind a recovery point, so CRCs are computed; those of what is new."""
    computed: list[int] = []

    def counted_cut(segment: SegmentFile) -> SegmentDamage | None:
        computed.append(segment.size - segment.sound_to)
        return _cut_of(segment)

    monkeypatch.setattr("txnsim_spark.scan.segment_examination._cut_of", counted_cut)
    growing_dir.grow(29)  # most of a segment
    query = Query(growing_dir.path, name, topics="orders", startingOffsets="latest")
    assert query.step() == []
    bytes_before = sum(log.stat().st_size for log in logs_of(growing_dir.path / ORDERS_FOLDER))
    computed.clear()
    growing_dir.grow(3)
    start = query.offset
    rows = query.step()
    logs = logs_of(growing_dir.path / ORDERS_FOLDER)
    new_bytes = sum(log.stat().st_size for log in logs) - bytes_before
    index_bytes = 600  # an entry per 300 bytes and a batch
    assert rows
    assert 0 < sum(computed) <= new_bytes + index_bytes < logs[-1].stat().st_size
    (first_end,) = start["ends"].values()
    column = {"batches": "base_offset", "endings": "marker_offset", "records": "offset"}[name]
    all_rows = table(growing_dir.path, name, options={"topics": "orders"})
    assert count_rows(rows) == count_rows([row for row in all_rows if row[column] >= first_end])


def test_damage_in_what_is_new_ends_a_stream_unless_it_may_be_missing(
    growing_dir: GrowingDir,
) -> None:
    options = {"topics": "orders", "startingOffsets": "latest"}
    query = Query(growing_dir.path, "batches", **options)
    lenient_query = Query(growing_dir.path, "batches", **options, failOnDataLoss="false")
    (first_end,) = query.offset["ends"].values()
    growing_dir.grow(27)
    log = logs_of(growing_dir.path / ORDERS_FOLDER)[-1]
    rows = table(log.parent, "batches", options={"checkCrc": "false"})
    segment_rows = [row for row in rows if row["segment_base_offset"] == int(log.stem)]
    broken_row = segment_rows[2]
    overwrite(log, broken_row["position"] + broken_row["size_bytes"] - 1, b"?")
    with pytest.raises(
        KafkaLogError, match=rf"may be missing.* byte {broken_row['position']}: .*CRC"
    ):
        query.step()
    base_offsets = [row["base_offset"] for row in lenient_query.step()]
    assert base_offsets == [
        row["base_offset"]
        for row in rows
        if first_end <= row["base_offset"] < broken_row["base_offset"]
    ]


def test_only_the_topics_that_were_named_are_followed(growing_dir: GrowingDir) -> None:
    options = KafkaLogOptions.of({"path": str(growing_dir.path), "topics": "orders"})
    newest_offset = latest_offset(list_logs(options), StreamOffset(), LogEnds())
    assert [end_key.partition("@")[0].partition(":")[0] for end_key in newest_offset.ends] == [
        ORDERS_FOLDER
    ]


def test_a_batch_of_rows_goes_by_one_look(
    growing_dir: GrowingDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[KafkaLogOptions] = []

    def counted_look(options: KafkaLogOptions) -> LogListing:
        looks.append(options)
        return list_logs(options)

    monkeypatch.setattr("txnsim_spark.source.list_logs", counted_look)
    query = Query(growing_dir.path, "batches", maxFilesPerTrigger="1")
    for _ in range(2):
        assert query.step()
        growing_dir.grow()
    assert len(looks) == 1 + 2  # as it begins, it looks whether anything can come


def test_an_offset_does_not_grow_with_closed_segments(growing_dir: GrowingDir) -> None:
    query = Query(growing_dir.path, "batches")
    query.step()
    offset_before = json.dumps(query.offset)
    growing_dir.grow(20)
    query.step()
    assert len(json.dumps(query.offset)) <= len(offset_before) + 9  # the digits of larger numbers


# What a replica's log and the notes about it come to.


ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    driver = LogDriver()
    driver.txn(0, count=5)
    driver.end(committed=True)
    driver.txn(5)
    driver.txn(0, producer_id=8)
    write_log_dir(tmp_path, 2, {"orders-0": driver})
    return tmp_path


def only_description(log_dir: Path) -> ReplicaDescription:
    warnings: list[str] = []
    (replica,) = describe_replicas([log_dir], progress=warnings.append)
    assert warnings == [f"reading {log_dir / 'orders-0'}"]
    return replica


def test_read_committed_comes_to_the_first_open_transaction(log_dir: Path) -> None:
    description = only_description(log_dir)
    assert (description.broker, description.is_clean, description.log_dir) == (
        2,
        True,
        str(log_dir),
    )
    assert (description.log_start_offset, description.high_watermark, description.end_offset) == (
        0,
        8,
        8,
    )
    assert (description.last_stable_offset, description.withheld) == (6, 2)


def test_a_high_watermark_may_be_lower(log_dir: Path) -> None:
    note_offset(log_dir, names.FileName.HIGH_WATERMARKS, ORDERS, 4)
    description = only_description(log_dir)
    assert (description.high_watermark, description.last_stable_offset, description.withheld) == (
        4,
        4,
        0,
    )


def test_a_high_watermark_that_nobody_noted_is_the_end(log_dir: Path) -> None:
    (log_dir / names.FileName.HIGH_WATERMARKS).unlink()
    note_offset(log_dir, names.FileName.LOG_STARTS, ORDERS, 3)
    description = only_description(log_dir)
    assert (description.high_watermark, description.last_stable_offset, description.withheld) == (
        None,
        6,
        2,
    )
    assert description.log_start_offset == 3


def test_a_note_behind_the_end_counts_as_the_end(log_dir: Path) -> None:
    note_offset(log_dir, names.FileName.HIGH_WATERMARKS, ORDERS, 99)
    assert only_description(log_dir).high_watermark == 8


# Which replicas and segments a query asks for.


REPLICA = Replica(log_dir="/b1", broker=1, topic="orders", partition=2, path="/b1/orders-2")
SEGMENT = SegmentFile(
    replica=REPLICA, path="/b1/orders-2/10.log", base_offset=10, next_base_offset=20, size=1
)


def test_a_replica_is_chosen_by_its_partition() -> None:
    assert RowScope().has_replica(REPLICA)
    assert RowScope(partitions=frozenset({2})).has_replica(REPLICA)
    assert not RowScope(partitions=frozenset({1})).has_replica(REPLICA)


def test_a_segment_is_left_out_only_where_it_can_not_hold_the_offset() -> None:
    assert RowScope(offset_max=10).has_segment(SEGMENT)
    assert not RowScope(offset_max=9).has_segment(SEGMENT)
    assert RowScope(offset_min=19).has_segment(SEGMENT)
    assert not RowScope(offset_min=20).has_segment(SEGMENT)
    last_segment = msgspec.structs.replace(SEGMENT, next_base_offset=None)
    recovered_segment = msgspec.structs.replace(SEGMENT, is_recovered=True)
    assert RowScope(offset_min=20).has_segment(last_segment)
    assert RowScope(offset_min=20).has_segment(recovered_segment)
