"""Every table is made of something, and nothing ends a job."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import EqualTo, In

from tests.support.broker_dirs import move
from tests.support.log_tables import broker_dir, busy_log, replica, segment, table
from tests.support.logs import NOW, plain
from txnsim.group.log_format import encode_batch as encode_group_batch
from txnsim.group.records import ClassicGroupStored, OffsetCommitted
from txnsim.releases.rules import LATEST
from txnsim.txn.log_format import encode_batch
from txnsim.types import TopicPartition, TransactionVersion
from txnsim_spark.log_query import Wanted
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.planning import READS, Share, shares_of
from txnsim_spark.scan.segments import SegmentFile
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables.readings import OF_REPLICA, OF_SEGMENT, OF_SEGMENTS, rows_of
from txnsim_spark.tables.rows import Job


def test_every_table_that_is_documented_can_be_read() -> None:
    others = {"errors", "findings", "replicas"}
    assert {*OF_SEGMENT, *OF_SEGMENTS, *OF_REPLICA, *others} == {*TABLES}
    for name in TABLES:
        reads = READS[name]
        assert reads.segments or reads.replicas or reads.is_whole
    assert {*READS} == {*TABLES}
    assert READS["errors"].log_dirs
    assert READS["transactions"].topic == "__transaction_state"


@pytest.mark.parametrize("name", [*OF_SEGMENT, *OF_SEGMENTS, *OF_REPLICA])
def test_what_a_table_is_made_of_is_what_is_planned_for_it(name: str) -> None:
    assert READS[name].segments == (name not in OF_REPLICA)
    assert READS[name].replicas == (name in OF_REPLICA)


@pytest.mark.parametrize("check", ["auto", "true", "false"])
@pytest.mark.parametrize("name", OF_SEGMENTS)
def test_small_segments_have_the_rows_together_that_each_has_alone(
    tmp_path: Path, name: str, check: str
) -> None:
    for broker, is_clean in ((1, True), (2, False)):
        replica(broker_dir(tmp_path / str(broker), broker=broker, is_clean=is_clean), busy_log())
    options = KafkaLogOptions.of({"path": str(tmp_path), "table": name, "checkCrc": check})
    shares = shares_of(options, Wanted(), READS[name])
    segments = [one for share in shares for one in share.segments]
    schema = TABLES[name].arrow()

    def read(*some: SegmentFile, by_replica: bool = False) -> list[pa.RecordBatch]:
        job = Job(options=options, columns=tuple(schema.names), by_replica=by_replica)
        return [rows.in_schema(schema) for rows in rows_of(Share(segments=some), job)]

    (whole,) = read(*segments)
    alone = [batch for one in segments for batch in read(one)]
    assert len(alone) > 4
    assert whole.to_pylist() == pa.Table.from_batches(alone).to_pylist()
    each = read(*segments, by_replica=True)
    assert [len(set(one["broker"].to_pylist())) for one in each] == [1, 1]
    assert pa.Table.from_batches(each).to_pylist() == whole.to_pylist()


@pytest.mark.parametrize("name", TABLES)
def test_a_file_that_vanishes_takes_only_its_own_rows(tmp_path: Path, name: str) -> None:
    """Between the plan and the reading, as with a broker that is alive."""
    broker_dir(tmp_path)
    gone = segment(tmp_path / "orders-0", [plain()])
    segment(tmp_path / "orders-1", [plain()])
    before = table(tmp_path, name)
    gone.unlink()
    gone.symlink_to(gone)
    after = table(tmp_path, name)
    if name == "replicas":
        assert [row["size_bytes"] > 0 for row in after] == [False, True]
    elif name in ("batches", "records", "fragments", "segments"):
        assert [row["partition"] for row in before] == [0, 1]
        assert [row["partition"] for row in after] == [1]
    elif name == "errors":
        assert [row["kind"] for row in after] == ["unreadable"]
    else:
        assert before == after == []


@pytest.mark.parametrize(
    "name", sorted({*TABLES} - {"errors", "findings", "offsets", "transactions"})
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
    whole = table(tmp_path, name)
    rows = table(tmp_path, name, where=[In(("producer_id",), (7, 9))])
    assert {row["producer_id"] for row in rows} == {7, 9}
    assert rows == [row for row in whole if row["producer_id"] in (7, 9)]
    assert table(tmp_path, name, where=[EqualTo(("producer_id",), 99)]) == []


@pytest.mark.parametrize("name", sorted({*TABLES} - {"errors"}))
def test_empty_folders_have_no_rows_but_that_they_are_there(tmp_path: Path, name: str) -> None:
    (broker_dir(tmp_path) / "orders-0").mkdir()
    assert len(table(tmp_path, name)) == (1 if name == "replicas" else 0)


@pytest.mark.costly
@pytest.mark.slow
@settings(max_examples=20)
@given(st.data(), st.sampled_from(["auto", "true", "false"]), st.booleans())
def test_no_damage_of_any_file_ends_a_job(
    data: st.DataObject, check_crc: str, is_clean: bool
) -> None:
    """Bytes that are overwritten, torn off or put behind, in any file of a log directory."""
    with TemporaryDirectory() as name:
        log_dir = broker_dir(Path(name), is_clean=is_clean)
        replica(log_dir, busy_log())
        segment(log_dir / "__transaction_state-0", [transactions()])
        segment(log_dir / "__consumer_offsets-0", [offsets()])
        files = sorted(path for path in log_dir.rglob("*") if path.is_file())
        for path in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=4)):
            damage(path, data)
        for each in TABLES:
            checks = {"checkCrc": check_crc, "checkRecords": str(each == "errors").lower()}
            table(log_dir, each, options=checks)


def damage(path: Path, data: st.DataObject) -> None:
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole)))
    junk = data.draw(st.binary(min_size=1, max_size=8))
    match data.draw(st.sampled_from(["overwritten", "torn", "longer"])):
        case "overwritten":
            path.write_bytes(whole[:at] + junk + whole[at + len(junk) :])
        case "torn":
            path.write_bytes(whole[:at])
        case "longer":
            path.write_bytes(whole + junk * 20)


def transactions() -> bytes:
    moves = [move(state, TopicPartition("orders", 0)) for state in ("Ongoing", "PrepareCommit")]
    return encode_batch(moves, level=TransactionVersion.TV_2, now_ms=NOW, rules=LATEST)


def offsets() -> bytes:
    commit = OffsetCommitted(
        group_id="g", topic_partition=TopicPartition("a", 0), position=4, commit_timestamp_ms=NOW
    )
    return encode_group_batch([commit, ClassicGroupStored(group_id="g")], now_ms=NOW)
