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


def run_on_workers(
    spark: SparkSession,
    tasks: Sequence[T],
    task_type: type[T],
    read_task: Callable[[T], Iterator[pa.RecordBatch]],
    ddl: str,
) -> DataFrame:
    """Runs tasks on workers; returns their rows as a DataFrame with these columns (Spark's DDL).
    All tasks are sent to every worker, so they should be small: names and sizes.
    """
    packed_tasks = [msgspec.msgpack.encode(task) for task in tasks]
    store_settings = mounted_settings()

    def work(task_numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mount_all(store_settings)
        for batch in task_numbers:
            for task_number in batch.column(0).to_pylist():
                yield from read_task(
                    msgspec.msgpack.decode(packed_tasks[task_number], type=task_type)
                )

    return spark.range(0, len(tasks), 1, max(len(tasks), 1)).mapInArrow(work, ddl)


def group_in_tasks(
    work_units: Iterable[T],
    task_bytes: float,
    *,
    size_of: Callable[[T], float],
    stay_together: Callable[[T, T], bool] = lambda _before, _after: False,
) -> list[tuple[T, ...]]:
    """Divide works into tasks of about ``task_bytes``, in order. Neighbours that belong together
    stay together, and a larger work becomes a task of its own.
    """
    tasks: list[tuple[T, ...]] = []
    task: list[T] = []
    task_size = 0.0
    for work_unit in work_units:
        unit_size = size_of(work_unit)
        if task and task_size + unit_size > task_bytes and not stay_together(task[-1], work_unit):
            tasks.append(tuple(task))
            task, task_size = [], 0.0
        task.append(work_unit)
        task_size += unit_size
    if task:
        tasks.append(tuple(task))
    return tasks
