"""``readStream`` as Spark calls it, without Spark running: each table against a batch read."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.support.growing_dirs import GrowingDir
from tests.support.log_tables import Row, cut, logs_of, table
from txnsim.errors import BadInputError
from txnsim_spark.following import LOGS, Ends, Look, StreamOffset, later, latest, look_at
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.schemas import TABLES
from txnsim_spark.source import KafkaLogDataSource, KafkaLogStreamReader, schema_of

STATES = sorted(set(TABLES) - LOGS)


class Query:
    """What Spark does with a reader; its offsets travel as JSON."""

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
        """Those between two offsets."""
        tasks = self.reader.partitions(start, end)
        assert isinstance(tasks, list), "Spark insists"
        return [row for task in tasks for batch in self.reader.read(task) for row in
                batch.to_pylist()]  # fmt: skip


def counted(rows: list[Row]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


@pytest.fixture
def growing(tmp_path: Path) -> GrowingDir:
    made = GrowingDir(tmp_path / "broker-1")
    made.grow()
    return made


@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_growing_log_gives_each_row_once(growing: GrowingDir, name: str) -> None:
    options = {"taskBytes": "1500", "checkCrc": "true"}  # is_valid tells what was checked
    query = Query(growing.path, name, **options)
    found = query.step()
    assert found
    for _ in range(4):
        growing.grow()
        more = query.step()
        assert more, "each growth has rows of every log"
        found += more
    assert query.step() == []
    assert counted(found) == counted(table(growing.path, name, options=options))


@pytest.mark.parametrize("name", STATES)
def test_what_a_state_says_comes_whole_when_it_changes(growing: GrowingDir, name: str) -> None:
    if name == "errors":
        (growing.path / "orders-0" / "leader-epoch-checkpoint").write_text("?")
    query = Query(growing.path, name)
    found = query.step()
    assert found
    assert counted(found) == counted(table(growing.path, name))
    assert query.reader.latestOffset(query.offset, ReadAllAvailable()) == query.offset
    assert query.step() == []
    growing.grow()
    assert counted(query.step()) == counted(table(growing.path, name))


def test_a_batch_that_is_repeated_later_has_the_same_rows(growing: GrowingDir) -> None:
    query = Query(growing.path, "records")
    query.step()
    start = query.offset
    growing.grow()
    rows = query.step()
    end = query.offset
    growing.grow()
    again = Query(growing.path, "records")
    assert counted(again.rows(start, end)) == counted(rows)


def test_half_a_batch_is_read_when_it_is_whole(growing: GrowingDir) -> None:
    log = logs_of(growing.path / "orders-0")[-1]
    whole = log.read_bytes()
    cut(log, len(whole) - 5)
    query = Query(growing.path, "batches")
    found = query.step()
    log.write_bytes(whole)
    last = query.step()
    assert len(last) == 1
    assert counted(found + last) == counted(table(growing.path, "batches"))


def test_what_is_there_and_no_more(growing: GrowingDir) -> None:
    query = Query(growing.path, "batches")
    query.reader.prepareForTriggerAvailableNow()
    growing.grow()
    before = len(query.step())
    assert query.step() == []
    after = Query(growing.path, "batches")
    after.offset = query.offset
    assert len(after.step()) + before == len(table(growing.path, "batches"))


SEGMENTED = {"batches", "records", "endings"}
"""Of these logs some have segments and an index. Without those, and behind a recovery point, all
comes at once.
"""
BOUNDS = [{"maxBytesPerTrigger": "700"}, {"maxFilesPerTrigger": "1"}]


@pytest.mark.parametrize("name", sorted(LOGS))
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "killed"])
def test_a_bound_gives_the_same_rows_in_more_batches(
    growing: GrowingDir, name: str, bound: dict[str, str], *, is_stopped: bool
) -> None:
    growing.grow(20)
    if is_stopped:
        growing.stop()
    whole = table(growing.path, name)
    query = Query(growing.path, name, **bound)
    query.reader.prepareForTriggerAvailableNow()
    batches = steps_of(query)
    assert counted([row for rows in batches for row in rows]) == counted(whole)
    if is_stopped and name in SEGMENTED:
        assert len(batches) > 2


def test_a_bound_of_bytes_cuts_a_segment_where_its_index_says(growing: GrowingDir) -> None:
    growing.grow(20)
    growing.stop()
    bound = 900
    query = Query(growing.path, "batches", topics="orders", maxBytesPerTrigger=str(bound))
    read = [sum(row["size_bytes"] for row in rows) for rows in steps_of(query)]
    entry_bytes = 600  # of the index: one per 300 bytes and a batch
    assert max(read) <= bound + entry_bytes
    assert len(read) > len(logs_of(growing.path / "orders-0"))


def test_a_bound_of_segments_takes_what_was_written_first(growing: GrowingDir) -> None:
    growing.grow(20)
    growing.stop()
    logs = [log for folder in ("orders-0", "__consumer_offsets-0")
            for log in logs_of(growing.path / folder)]  # fmt: skip
    for seconds, log in enumerate(logs):
        os.utime(log, (seconds, seconds))
    query = Query(
        growing.path, "batches", topics="orders,__consumer_offsets", maxFilesPerTrigger="1"
    )
    batches = steps_of(query)
    assert len(batches) == len(logs)
    assert [sum(row["size_bytes"] for row in rows) for rows in batches] == [
        log.stat().st_size for log in logs
    ]


def steps_of(query: Query) -> list[list[Row]]:
    """The rows of each batch, until there are no more."""
    batches: list[list[Row]] = []
    while True:
        before = query.offset
        rows = query.step()
        if query.offset == before:
            assert not rows
            return batches
        batches.append(rows)


def test_what_cannot_be_followed_is_said_by_the_reader() -> None:
    options = {"path": "there", "table": "errors", "maxFilesPerTrigger": "1"}
    reader = KafkaLogDataSource(CaseInsensitiveDict(options)).streamReader(schema_of("errors"))
    for ask in (reader.initialOffset, lambda: reader.latestOffset({}, ReadAllAvailable())):
        with pytest.raises(BadInputError, match="table errors comes"):
            ask()


def test_a_replica_that_comes_later_is_read_from_its_start(growing: GrowingDir) -> None:
    query = Query(growing.path, "batches")
    found = query.step()
    (growing.path / "orders-0").rename(growing.path / "later-0")
    found += query.step()
    batches = Counter(row["topic"] for row in found)
    assert batches["later"] == batches["orders"] > 0


def test_a_log_that_was_cut_back_is_not_read_again() -> None:
    reached = StreamOffset(ends={"/a-0": 9, "/b-0": 4})
    assert later(reached, StreamOffset(ends={"/a-0": 5, "/b-0": 6})) == StreamOffset(
        ends={"/a-0": 9, "/b-0": 6}
    )


def test_only_the_topics_that_were_named_are_followed(growing: GrowingDir) -> None:
    options = KafkaLogOptions.of({"path": str(growing.path), "topics": "orders"})
    found = latest(look_at(options), StreamOffset(), Ends())
    assert [Path(path).name for path in found.ends] == ["orders-0"]


def test_a_batch_of_rows_goes_by_one_look(
    growing: GrowingDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[KafkaLogOptions] = []

    def counted_look(options: KafkaLogOptions) -> Look:
        looks.append(options)
        return look_at(options)

    monkeypatch.setattr("txnsim_spark.source.look_at", counted_look)
    query = Query(growing.path, "batches", maxFilesPerTrigger="1")
    for _ in range(2):
        assert query.step()
        growing.grow()
    assert len(looks) == 1 + 2  # as it begins, it looks whether anything can come


def test_an_offset_does_not_grow_with_closed_segments(growing: GrowingDir) -> None:
    query = Query(growing.path, "batches")
    query.step()
    before = json.dumps(query.offset)
    growing.grow(20)
    query.step()
    assert len(json.dumps(query.offset)) <= len(before) + 9  # the digits of larger numbers
