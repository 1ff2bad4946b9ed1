"""Tables of ``kafka_log`` without Spark, and log directories to read them from, also damaged."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from struct import pack
from typing import Any, Final

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tests.support.log_dirs import write_partition
from tests.support.logs import NOW, LogDriver
from txnsim.log.config import LogConfig
from txnsim.releases.rules import LATEST_RULES
from txnsim.storage import names
from txnsim.storage.checkpoints import encode_offsets
from txnsim.storage.metadata_files import MetaProperties, encode_meta_properties
from txnsim.types import TopicPartition
from txnsim.wire.batch import Record, assign, build_batch, iter_batches, read_batch_header
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.planning import FILES_OF_TABLE, shares_of
from txnsim_spark.schemas import TABLES
from txnsim_spark.source import schema_of
from txnsim_spark.tables.row_sources import rows_of
from txnsim_spark.tables.rows import TableJob

Row = dict[str, Any]

SHARE_STATES: Final = (
    Path(__file__).parents[1] / "broker" / "codec" / "golden" / "share_state.jsonl"
)
"""Records of ``__share_group_state`` that Kafka's own classes wrote."""
PASSING_OVER: Final = {"ignoreCorruptFiles": "true", "ignoreMissingFiles": "true"}
"""Options with which a read returns the sound part of damaged directories."""
ORDERS: Final = TopicPartition("orders", 0)


def table(
    path: Path,
    name: str,
    *,
    columns: Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
    has_times: bool = True,
) -> list[Row]:
    """All rows of a table, made as Spark's workers make them.

    Args:
        path: The directory.
        name: Of the table.
        columns: Which; all unless given.
        options: Of the data source.
        has_times: With the columns of times beside those of milliseconds.
    """
    table_options = KafkaLogOptions.of({"path": str(path), "table": name, **(options or {})})
    spark_schema = schema_of(name)
    left_out = () if has_times else times_of(name)
    column_names = [column for column in columns or spark_schema.names if column not in left_out]
    spark_schema = StructType([spark_schema[column] for column in column_names])
    schema = to_arrow_schema(spark_schema, timezone="UTC")
    scope = RowScope.of(table_options)
    job = TableJob(
        options=table_options, columns=tuple(schema.names), producer_ids=scope.producer_ids
    )
    all_rows: list[Row] = []
    for share in shares_of(table_options, scope, FILES_OF_TABLE[name]):
        for rows in rows_of(share, job):
            arrow_rows = rows.in_schema(schema)
            arrow_rows.validate(full=True)  # arrays are made of buffers
            null_fields = {field.name for field in schema if arrow_rows[field.name].null_count}
            assert not null_fields & {field.name for field in schema if not field.nullable}
            all_rows += arrow_rows.to_pylist()
    return all_rows


def times_of(name: str) -> dict[str, str]:
    """Columns of a table that hold times -> the columns with the same times in milliseconds."""
    names = TABLES[name].names
    return {column: f"{column}_ms" for column in names if f"{column}_ms" in names}


def broker_dir(path: Path, *, broker: int = 1, is_clean: bool = True) -> Path:
    """A log directory without replicas; every segment would be recovered unless it is clean."""
    path.mkdir(parents=True, exist_ok=True)
    meta = MetaProperties(cluster_id="a-cluster", node_id=broker)
    (path / names.FileName.META_PROPERTIES).write_text(encode_meta_properties(meta))
    (path / names.FileName.RECOVERY_POINTS).write_text(encode_offsets({}))
    if is_clean:
        (path / names.FileName.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":1}')
    return path


def replica(log_dir: Path, driver: LogDriver, topic_partition: TopicPartition = ORDERS) -> Path:
    """Write a replica's folder from the current log."""
    folder = log_dir / names.directory_name(topic_partition)
    folder.mkdir()
    write_partition(folder, driver.log, topic_id=uuid.UUID(int=1))
    return folder


def segment(folder: Path, batches: Iterable[bytes], *, base_offset: int = 0) -> Path:
    """A segment of batches, which get their offsets in order; only its ``.log`` file."""
    folder.mkdir(parents=True, exist_ok=True)
    offset = base_offset
    placed = []
    for batch in batches:
        placed.append(assign(batch, base_offset=offset, leader_epoch=3))
        offset = read_batch_header(placed[-1]).last_offset + 1
    path = folder / names.Suffix.LOG.file_name(base_offset)
    path.write_bytes(b"".join(placed))
    return path


def write_dense_index(path: Path) -> None:
    """Write a segment's index with an entry for each batch but the first. A broker leaves
    some out.
    """
    base_offset = int(path.stem)
    path.with_suffix(names.Suffix.INDEX).write_bytes(
        b"".join(
            pack(">ii", header.last_offset - base_offset, position)
            for position, header in iter_batches(path.read_bytes())
            if position
        )
    )


def busy_log(*, roll_bytes: int = 2_000) -> LogDriver:
    """Sixty transactional batches of three producers, half of which end, in several segments."""
    driver = LogDriver(
        LogConfig(rules=LATEST_RULES, roll_bytes=roll_bytes, index_interval_bytes=300)
    )
    sequences: dict[int, int] = {}
    for number in range(60):
        producer_id = 7 + number % 3
        sequence = sequences.get(producer_id, 0)
        assert driver.txn(sequence, count=2, producer_id=producer_id) == 0
        sequences[producer_id] = sequence + 2
        if number % 2:
            assert driver.end(committed=number % 4 == 1, producer_id=producer_id) == 0
    return driver


def logs_of(folder: Path) -> list[Path]:
    """The ``.log`` files of a replica, in order."""
    return [path for _, path in names.Suffix.LOG.files_in(folder)]


def overwrite(path: Path, position: int, data: bytes) -> None:
    """Overwrite bytes of a file."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def cut(path: Path, size: int) -> None:
    """Cut a file to ``size`` bytes."""
    with path.open("r+b") as file:
        file.truncate(size)


def share_states() -> bytes:
    """A batch of what Kafka's classes wrote: a new state, an update of it, a snapshot and an update
    with batches, a tombstone.
    """
    lines = map(json.loads, SHARE_STATES.read_text().splitlines())
    return build_batch(
        [
            Record(
                key=bytes.fromhex(line["key"]),
                value=None if line["value"] is None else bytes.fromhex(line["value"]),
            )
            for line in lines
            if "record" in line
        ],
        timestamp_ms=NOW,
    )
