"""What some producers wrote, in DuckDB: the views of ``views`` over the tables of log directories,
read in this process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from txnsim.files import whole
from txnsim_spark.embedded import Embedded
from txnsim_spark.engine import Engine, alone
from txnsim_spark.log_query import Wanted
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables.read_here import Asked, read_by_replica, read_here, reader_of
from txnsim_spark.views import VIEWS

if TYPE_CHECKING:
    import pyarrow as pa

_STAYS: Final = """
SELECT * FROM kafka_partition_transactions
ORDER BY log_dir, topic, partition, producer_id, coalesce(first_offset, marker_offset)
"""
_LOTS: Final = """
SELECT
  topic, partition, producer_id, outcome,
  min(`offset`) AS first_offset, max(`offset`) AS last_offset, count(*) AS records,
  cast(sum(coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0)) AS bigint) AS bytes,
  count(DISTINCT key) AS keys
FROM asked
GROUP BY topic, partition, producer_id, outcome, transaction_offset
ORDER BY topic, partition, first_offset
"""


class Written:
    """What producers wrote, by the headers of their batches; records are read when they are asked
    for.

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        producer_ids: Whose.
        topics: Only these; all where empty.
        engine: Reads; this process unless given.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        producer_ids: Sequence[int],
        topics: frozenset[str] = frozenset(),
        *,
        engine: Engine | None = None,
    ) -> None:
        import pyarrow as pa

        self._paths, self._topics = paths, topics
        self._wanted = Wanted(producer_ids=frozenset(producer_ids))
        self._database = Embedded()
        batches: list[pa.RecordBatch] = []
        if producer_ids:
            asked = Asked.of("batches", paths, topics=topics, wanted=self._wanted)
            found = read_by_replica(engine or alone(), asked, _all_of, _listed)
            batches = [batch for several in found.values() for batch in several]
        rows = pa.Table.from_batches(batches, TABLES["batches"].arrow())
        self._database.register("kafka_batches", rows)
        self._has_views = False

    def transactions(self) -> list[dict[str, Any]]:
        """A row per transaction on each replica."""
        self._prepare()
        return self._database.rows(_STAYS)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """What a query over the views finds that asks for no records."""
        self._prepare()
        return self._database.rows(query)

    def lots(self, target: Path | None, *, outcomes: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Records counted by transaction; the same records as Parquet, if a target is given.

        Args:
            target: A folder, which is there when it is whole.
            outcomes: Only these; all where empty.
        """
        self._prepare()
        words = ", ".join(f"'{one}'" for one in outcomes)
        query = "SELECT * FROM kafka_outcomes" + (f" WHERE outcome IN ({words})" if words else "")
        if target is None:
            self._database.create("asked", query)
            return self._database.rows(_LOTS)
        with whole(target) as part:
            part.mkdir(parents=True)
            ordered = f"{_named(query)} ORDER BY topic, partition, `offset`"
            self._database.copy(ordered, part, by="topic")
        if not any(target.rglob("*.parquet")):
            return []
        files = f"{target}/**/*.parquet".replace("'", "''")
        self._database.create("asked", f"SELECT * FROM read_parquet('{files}')")
        return self._database.rows(_LOTS)

    def _prepare(self) -> None:
        """Have the views. A reader of records is used up by the first query for them."""
        if self._has_views:
            return
        self._database.register("kafka_records", reader_of("records", self._records()))
        for name, query in VIEWS.items():
            self._database.create(name, query)
        self._has_views = True

    def _records(self) -> Iterator[pa.RecordBatch]:
        if self._wanted.producer_ids:
            yield from read_here("records", self._paths, topics=self._topics, wanted=self._wanted)


def _named(query: str) -> str:
    """With the names that stores have for their directories."""
    from txnsim_spark.stores.mirror import carried

    for one in carried():
        root = re.escape(one.root).replace("'", "''")
        named = f"regexp_replace(log_dir, '^{root}/([^/]+)/', '\\1://') AS log_dir"
        query = f"SELECT * REPLACE ({named}) FROM ({query})"
    return query


def _all_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _listed(_replica: str, batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return list(batches)
