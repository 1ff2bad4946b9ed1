"""Spark jobs whose tasks are planned on the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from txnsim_spark.stores.mirror import mount_all, mounted_settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")


def on_workers(
    spark: SparkSession,
    tasks: Sequence[T],
    kind: type[T],
    read: Callable[[T], Iterator[pa.RecordBatch]],
    columns: str,
) -> DataFrame:
    """Runs tasks on workers; returns their rows as a DataFrame with these columns (Spark's DDL).
    All tasks are sent to every worker, so they should be small: names and sizes.
    """
    packed = [msgspec.msgpack.encode(task) for task in tasks]
    stores = mounted_settings()

    def work(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mount_all(stores)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read(msgspec.msgpack.decode(packed[number], type=kind))

    return spark.range(0, len(tasks), 1, max(len(tasks), 1)).mapInArrow(work, columns)


def shared_out(
    works: Iterable[T],
    task_bytes: float,
    *,
    size_of: Callable[[T], float],
    go_together: Callable[[T, T], bool] = lambda _before, _after: False,
) -> list[tuple[T, ...]]:
    """Divide works into tasks of about ``task_bytes``, in order. Neighbours that belong together
    stay together, and a larger work becomes a task of its own.
    """
    tasks: list[tuple[T, ...]] = []
    task: list[T] = []
    total = 0.0
    for work in works:
        size = size_of(work)
        if task and total + size > task_bytes and not go_together(task[-1], work):
            tasks.append(tuple(task))
            task, total = [], 0.0
        task.append(work)
        total += size
    if task:
        tasks.append(tuple(task))
    return tasks
