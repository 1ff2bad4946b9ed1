"""A stream on the checkpoint of another one: refused by what differs, as rows would be passed
over.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.test_log_growth import Query
from tests.support.growing_dirs import GrowingDir
from txnsim_spark.log_growth import RECORD_TABLES
from txnsim_spark.options import KafkaLogError, KafkaLogOptions
from txnsim_spark.schemas import TABLES
from txnsim_spark.stream_scope import (
    CheckpointMismatchError,
    StreamScope,
    refuse_mismatch,
    refuse_other_logs,
)


@pytest.fixture
def growing_dir(tmp_path: Path) -> GrowingDir:
    growing_dir = GrowingDir(tmp_path / "broker-1")
    growing_dir.grow()
    return growing_dir


def resume_stream(path: Path, offset: object, name: str, **options: str) -> Query:
    """A stream that goes on from an offset, as from its checkpoint."""
    query = Query(path, name, **options)
    query.offset = json.loads(json.dumps(offset))
    return query


def used(path: Path, name: str, **options: str) -> object:
    """The offset of a stream that has read everything."""
    query = Query(path, name, **options)
    query.step()
    return query.offset


@pytest.mark.parametrize("name", ["batches", "endings", "transactions", "segments", "findings"])
def test_a_stream_of_another_table_is_refused_by_its_name(
    growing_dir: GrowingDir, name: str
) -> None:
    offset = used(growing_dir.path, "records")
    growing_dir.grow()
    with pytest.raises(CheckpointMismatchError, match=f"table records, not {name}.*its own"):
        resume_stream(growing_dir.path, offset, name, failOnDataLoss="false").step()


@pytest.mark.parametrize("name", sorted(TABLES))
def test_the_same_stream_goes_on(growing_dir: GrowingDir, name: str) -> None:
    offset = used(growing_dir.path, name)
    assert resume_stream(growing_dir.path, offset, name).step() == []
    growing_dir.grow()
    resume_stream(growing_dir.path, offset, name).step()


def test_a_batch_that_is_repeated_is_refused_as_well(growing_dir: GrowingDir) -> None:
    query = Query(growing_dir.path, "records")
    start = query.offset
    query.step()
    with pytest.raises(CheckpointMismatchError, match="table records, not batches"):
        Query(growing_dir.path, "batches").rows(start, query.offset)


@pytest.mark.parametrize("name", sorted(RECORD_TABLES))
def test_a_checkpoint_of_an_older_release_still_works(growing_dir: GrowingDir, name: str) -> None:
    offset = used(growing_dir.path, name)
    assert isinstance(offset, dict)
    del offset["scope"]
    query = resume_stream(growing_dir.path, offset, name)
    assert query.step() == []
    growing_dir.grow()
    expected = resume_stream(growing_dir.path, used(growing_dir.path, name), name).step()
    assert expected == []
    assert query.step()
    assert query.offset["scope"]["table"] == name, "from now on it is remembered"


def test_directories_without_any_of_its_partitions_are_refused(
    growing_dir: GrowingDir, tmp_path: Path
) -> None:
    offset = used(growing_dir.path, "batches", topics="orders")
    with pytest.raises(CheckpointMismatchError, match=r"it has read orders-0.*these hold __"):
        resume_stream(
            growing_dir.path,
            offset,
            "batches",
            topics="__transaction_state",
            failOnDataLoss="false",
        ).step()


RECORDS = StreamScope(table="records", clusters=("one",))


@pytest.mark.parametrize(
    ("remembered", "options", "message"),
    [
        ({}, {}, ""),
        ({"clusters": ("two",)}, {}, "cluster two, not one"),
        ({"clusters": ("one", "two")}, {}, ""),
        ({"clusters": ()}, {}, ""),
        ({"producer_ids": (5, 6)}, {"producer_ids": (5,)}, ""),
        ({"producer_ids": (5, 6)}, {"producer_ids": (5, 7)}, "producerIds 5,6, not 5,7"),
        ({"producer_ids": (5,)}, {}, "producerIds 5, not all"),
        ({}, {"producer_ids": (5,)}, ""),
        ({"start_ms": 9}, {"start_ms": 10}, ""),
        ({"start_ms": 9}, {"start_ms": 8}, "startTimestamp 9, not 8"),
        ({"start_ms": 9}, {}, "startTimestamp 9, not the earliest"),
        ({}, {"start_ms": 8}, ""),
        ({"starting_offsets": {"a-0": 7}}, {"starting_offsets": {"a-0": 8}}, ""),
        ({"starting_offsets": {"a-0": 7}}, {}, "startingOffsets 7 of a-0, not 0"),
        ({}, {"starting_offsets": {"a-0": 8}}, ""),
    ],
)
def test_only_what_would_be_passed_over_is_refused(
    remembered: dict[str, object], options: dict[str, object], message: str
) -> None:
    def scope(fields: dict[str, object]) -> StreamScope:
        return StreamScope(**{"table": "records", "clusters": ("one",), **fields})  # type: ignore[arg-type]

    if not message:
        refuse_mismatch(scope(remembered), scope(options))
        return
    with pytest.raises(KafkaLogError, match=f"of another stream: {message}\\. Rows would"):
        refuse_mismatch(scope(remembered), scope(options))


def test_nothing_is_known_of_an_older_release_s_and_of_directories_that_are_empty() -> None:
    refuse_mismatch(None, RECORDS)
    refuse_other_logs({}, {"a-0": ()})
    refuse_other_logs({"a-0": 1}, {})
    refuse_other_logs({"a-0:ID@1": 1}, {"a-0:NEW@1": ()})


def test_a_scope_is_made_of_options() -> None:
    options = KafkaLogOptions.of(
        {
            "path": "/logs",
            "table": "records",
            "producerIds": "9,5",
            "startTimestamp": "8",
            "startingOffsets": '{"orders": {"1": 4, "0": -2}}',
        }
    )
    assert StreamScope.of(options, frozenset({"two", "one"})) == StreamScope(
        table="records",
        clusters=("one", "two"),
        producer_ids=(5, 9),
        start_ms=8,
        starting_offsets={"orders-1": 4},
    )
