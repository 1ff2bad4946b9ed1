"""``find_hanging(spark, paths)``: a search for hanging transactions as one DataFrame, for notebooks
and jobs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from txnsim.client.inspection.hanging import MAX_TRANSACTION_TIMEOUT_MS
from txnsim.runtime.wall_clock import wall_ms
from txnsim_spark.forensics import find_hanging as searching
from txnsim_spark.options import time_ms_of
from txnsim_spark.session import register
from txnsim_spark.stores.uris import is_in_object_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def find_hanging(
    spark: SparkSession,
    paths: str | Path | Iterable[str | Path],
    *,
    as_of: datetime | int | str | None = None,
    topics: Iterable[str] = (),
    max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    since: str | Path | None = None,
) -> DataFrame:
    """Search log directories of stopped brokers, and judge every open transaction.

    Small directories are read by the driver; larger ones by the workers, which must see them under
    the same names. Directories in a store are read with the present settings of the session.

    Args:
        spark: Any session of Spark 4.
        paths: Log directories, folders of them, or replicas' folders; for a store, texts such as
            ``s3a://bucket/broker-*``.
        as_of: Ages are counted to this time: a datetime, milliseconds since 1970, or ISO 8601; by
            default the newest time in the directories.
        topics: Topics to search; empty for all.
        max_transaction_timeout_ms: Younger transactions are not called hanging.
        since: A file on this machine with the results of an earlier search; only newer data is
            read, and the answer is the same.

    Returns:
        The table ``findings`` (docs/kafka-log-tables.md), a row per open transaction and partition.
        Warns: UserWarning: Each replica or transaction that can't be read or judged, in a sentence.

    Raises:
        BadInputError: A path is no directory, it has no files of Kafka, or ``as_of`` is no time.
    """
    import pyarrow as pa

    from txnsim_spark.schemas import TABLES
    from txnsim_spark.source import schema_of
    from txnsim_spark.stores.reading import Stores
    from txnsim_spark.stores.settings import StoreSettings, own_root, settings_of
    from txnsim_spark.tables.findings import rows_of

    register(spark)
    given_paths = [paths] if isinstance(paths, str | Path) else list(paths)
    store_paths = [
        path for path in given_paths if isinstance(path, str) and is_in_object_store(path)
    ]
    spark_stores = None
    if store_paths:
        spark_stores = Stores(settings_of(spark) or StoreSettings(root=own_root()))
    local_paths = tuple(Path(path) for path in given_paths if path not in store_paths)
    search = searching.Search(
        paths=local_paths
        if spark_stores is None
        else local_paths + spark_stores.folders(store_paths),
        topics=frozenset(topics),
        as_of_ms=_time_ms(as_of),
        max_transaction_timeout_ms=max_transaction_timeout_ms,
        memory_file=None if since is None else Path(since),
        now_ms=wall_ms(),
    )
    report = searching.find_hanging(search, new_session=lambda: spark)
    for problem in report.source.problems:
        warnings.warn(problem, stacklevel=2)
    schema = TABLES["findings"].arrow()
    batches = [rows.in_schema(schema) for rows in rows_of(report)]
    batches = batches or [pa.RecordBatch.from_pylist([], schema)]
    if spark_stores is not None:
        batches = [spark_stores.with_store_names(batch) for batch in batches]
    table = pa.Table.from_batches(batches, schema)
    return spark.createDataFrame(table, schema_of("findings"))


def _time_ms(when: datetime | int | str | None) -> int | None:
    match when:
        case None | int():
            return when
        case datetime():
            return int(when.timestamp() * 1_000)
        case _:
            return time_ms_of(when)
