"""Plays a campaign of the lab on the workers of Spark (``txnsim_lab.campaigns.CampaignEngine``)."""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from txnsim_spark.cli.logs.spark import add_master_argument, session
from txnsim_spark.tasks import run_on_workers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

T = TypeVar("T")

NAME: Final = "spark"
"""The value of ``--engine`` that chooses it."""
add_arguments: Callable[[argparse.ArgumentParser], None] = add_master_argument


@contextmanager
def engine(args: argparse.Namespace) -> Iterator[SparkEngine]:
    """Start a session, and yield an engine that uses it.

    Raises:
        MissingExtraError: PySpark or Java is missing.
    """
    with session(args.master) as spark:
        yield SparkEngine(spark)


class SparkEngine:
    """Plays the seeds of a campaign on the workers of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def rows(
        self,
        tasks: Sequence[T],
        task_type: type[T],
        read_task: Callable[[T], Iterator[pa.RecordBatch]],
        ddl: str,
    ) -> Iterator[Mapping[str, Any]]:
        yield from (
            run_on_workers(self._spark, tasks, task_type, read_task, ddl).toArrow().to_pylist()
        )

    def run_each(self, examine_seed: Callable[[int], T], seeds: Sequence[int]) -> Iterator[T]:
        def read(seed: int) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            yield pa.RecordBatch.from_pydict({"found": [pickle.dumps(examine_seed(seed))]})

        rows = run_on_workers(self._spark, seeds, int, read, "found binary").toLocalIterator()
        return (pickle.loads(row.found) for row in rows)
