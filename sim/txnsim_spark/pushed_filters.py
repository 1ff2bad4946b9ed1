"""Whether Spark keeps the filters that a source in Python takes over to the query that they are of.

Spark 4.1 to 4.3 don't: a filter of one query stays with the DataFrame or view, and the next query
over it has only the rows of the first (docs/contributing/spark-pushed-filters.md). So it is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def stay_apart(spark: SparkSession) -> bool:
    """Whether a query has no filters but its own. False where the session hands none over."""
    if spark.conf.get(PUSHDOWN, "false") != "true":
        return False
    spark.dataSource.register(OneRow)
    row = spark.read.format(OneRow.name()).load()
    none = row.where("n = 1")
    return none.union(row).count() == 1 and none.count() == 0 and row.count() == 1


class OneRow(DataSource):
    """A row whose ``n`` is 0."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return "txnsim_one_row"

    def schema(self) -> str:
        """Of the row."""
        return "n int"

    def reader(self, schema: object) -> DataSourceReader:  # noqa: ARG002 - Spark's
        """Reads it."""
        return OneRowReader()


class OneRowReader(DataSourceReader):
    """Takes over a condition on ``n``."""

    def __init__(self) -> None:
        self._is_wanted = True

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Spark keeps what is no such condition."""
        for one in filters:
            if isinstance(one, EqualTo):
                self._is_wanted = one.value == 0
            else:
                yield one

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:  # noqa: ARG002 - Spark's
        """The row."""
        if self._is_wanted:
            yield (0,)
