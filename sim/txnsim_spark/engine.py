"""Reads files for a command: in this process, in one process per core, or on Spark's workers. A job
has tasks, a function that reads one task, and a function that joins the results of a key. These are
the same wherever they run. The engine is chosen by the cost of the job: the bytes of its files, and
their number. Starting Spark costs seconds of two cores, and a process half a second; a cluster of
Spark has more cores than this machine.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from txnsim.runtime.process_pool import interrupts_kept_back, process_pool
from txnsim_spark.scan.log_dirs import ignore_problem
from txnsim_spark.stores.mirror import mount_all, mounted_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
NewSession = Callable[[], "SparkSession"]
"""Starts a Spark session; called only if it is needed."""
Progress = Callable[[str], object]
KeyedPiece = tuple[str, Any]
"""(key, value) from one task; a key is for example the path of a replica."""

OPEN_BYTES: Final = 256 << 10
"""Opening a file counts as much as reading this number of bytes."""
DECODED_COST: Final = 16
"""Decoding a record costs this many times what reading a header costs."""
PROCESSES_COST_MIN: Final = 64 << 20
"""Below this cost one process reads: others would take as long to load the compiled walk."""
SPARK_COST_MIN: Final = 4 << 30
"""Up to this cost the cores of this machine read; above, Spark does. On the same cores Spark is
slower, but it may have more of them.
"""


class EngineJob(msgspec.Struct, Generic[T, R], frozen=True, kw_only=True):
    """A job: its tasks, and the functions for them. It is sent between processes, so it holds
    values and functions of modules only.
    """

    tasks: Sequence[T]
    """Each task names files and their sizes."""
    read_task: Callable[[T], Iterable[KeyedPiece]]
    join_pieces: Callable[[str, Sequence[Any]], R]
    """Joins the values of one key, which arrive in any order."""


class EngineKind(Enum):
    """Where the tasks of a job run: in this process, in other ones, or on Spark's workers."""

    HERE = "here"
    PROCESSES = "processes"
    SPARK = "Spark"


def cost_of(file_sizes: Iterable[int], *, is_decoded: bool = False) -> int:
    """The cost of reading files of these sizes, in bytes; higher if their records are decoded."""
    cost_factor = DECODED_COST if is_decoded else 1
    return sum(size * cost_factor + OPEN_BYTES for size in file_sizes if size)


class Engine:
    """Runs jobs, each on the engine that finishes it soonest.

    Args:
        new_session: Called at most once; None if Spark is never needed.
        progress: Called with a line about the present activity.
        with_spark: Whether Spark also runs small jobs.
        is_alone: Whether everything is done in this process: in a task of Spark, which has one
            core, and on a running broker.
    """

    def __init__(
        self,
        new_session: NewSession | None = None,
        progress: Progress = ignore_problem,
        *,
        with_spark: bool = False,
        is_alone: bool = False,
    ) -> None:
        self._new_session = new_session
        self._progress = progress
        self._with_spark = with_spark
        self._is_alone = is_alone
        self._session: SparkSession | None = None

    @property
    def has_used_spark(self) -> bool:
        """Whether Spark carried out a job."""
        return self._session is not None

    def kind_for(self, cost: int) -> EngineKind:
        """The engine for a job of this cost (``cost_of`` its files)."""
        if self._is_alone or not cost:
            return EngineKind.HERE
        if self._with_spark or cost > SPARK_COST_MIN:
            return EngineKind.SPARK
        if cost < PROCESSES_COST_MIN:
            return EngineKind.HERE
        if can_fork():
            return EngineKind.PROCESSES
        return EngineKind.HERE if self._session is None else EngineKind.SPARK

    def core_count(self, engine_kind: EngineKind) -> int:
        """Number of tasks that run at the same time."""
        match engine_kind:
            case EngineKind.HERE:
                return 1
            case EngineKind.PROCESSES:
                return os.cpu_count() or 1
            case EngineKind.SPARK:
                return parallelism_of(self.spark())

    def results_of(self, job: EngineJob[T, R], engine_kind: EngineKind) -> dict[str, R]:
        match engine_kind:
            case EngineKind.HERE:
                return self._join_pieces(job, map(job.read_task, job.tasks))
            case EngineKind.PROCESSES:
                return self._results_by_processes(job)
            case EngineKind.SPARK:
                self._progress(f"Spark reads {len(job.tasks)} parts")
                return dict(_results_by_spark(self.spark(), job))

    def spark(self) -> SparkSession:
        """The session; it is started at the first call."""
        if self._session is None:
            self._progress("starting Spark")
            assert self._new_session is not None, "this process does everything"
            self._session = self._new_session()
        return self._session

    def _results_by_processes(self, job: EngineJob[T, R]) -> dict[str, R]:
        with process_pool(
            self.core_count(EngineKind.PROCESSES),
            context=multiprocessing.get_context("fork"),
            initializer=_begin_worker,
            initargs=(job,),  # inherited: nothing of it is written and read
        ) as pool:
            with interrupts_kept_back():
                task_results = pool.map(_read_task, range(len(job.tasks)))
            return self._join_pieces(job, task_results)

    def _join_pieces(
        self, job: EngineJob[T, R], pieces_by_task: Iterable[Iterable[KeyedPiece]]
    ) -> dict[str, R]:
        pieces_by_key: dict[str, list[Any]] = {}
        for part_number, pieces in enumerate(pieces_by_task, 1):
            for key, piece in pieces:
                pieces_by_key.setdefault(key, []).append(piece)
            self._progress(f"read part {part_number} of {len(job.tasks)}")
        return {key: job.join_pieces(key, pieces_by_key.pop(key)) for key in list(pieces_by_key)}


def lone_engine() -> Engine:
    return Engine(is_alone=True)


def can_fork() -> bool:
    """Whether this process may fork workers that have everything loaded. It may not if it has other
    threads, as in a notebook, because the children would inherit their locks; nor while an object
    store is read, because connections can't be inherited; nor on macOS, whose libraries don't allow
    it.
    """
    has_fork = "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"
    return has_fork and threading.active_count() == 1 and not mounted_settings()


# In a process of the pool

_job: EngineJob[Any, Any]
"""The job that this process of the pool works on."""


def _begin_worker(job: EngineJob[Any, Any]) -> None:
    global _job
    gc.freeze()  # the collector would touch, and so copy, all that this process shares
    _job = job


def _read_task(task_number: int) -> list[KeyedPiece]:
    return list(_job.read_task(_job.tasks[task_number]))


# On Spark


def pack_task(task: object) -> bytes:
    """The compressed task for a worker; similar paths compress well."""
    return zlib.compress(pickle.dumps(task), level=1)


def _results_by_spark(spark: SparkSession, job: EngineJob[T, R]) -> list[tuple[str, R]]:
    """Run a job by functions over Arrow, which a session of Spark Connect has, too. The data source
    is not used: Spark starts Python processes to plan each read, and their imports take longer than
    a search.
    """
    import pyarrow as pa

    read_task, join_pieces, store_settings = job.read_task, job.join_pieces, mounted_settings()
    tasks = [*map(pack_task, job.tasks)]

    def piece_row(key: str, value: object) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"key": [key], "found": [pickle.dumps(value)]})

    def read_tasks(task_numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mount_all(store_settings)
        for batch in task_numbers:
            for task_number in batch.column(0).to_pylist():
                for key, piece in read_task(pickle.loads(zlib.decompress(tasks[task_number]))):
                    yield piece_row(key, piece)

    def join_pieces_of_key(group_key: tuple[pa.Scalar, ...], pieces: pa.Table) -> pa.Table:
        mount_all(store_settings)
        key_text = group_key[0].as_py()
        joined_result = join_pieces(
            key_text, [pickle.loads(piece) for piece in pieces["found"].to_pylist()]
        )
        return pa.Table.from_batches([piece_row(key_text, joined_result)])

    numbered_tasks = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    pieces = numbered_tasks.mapInArrow(read_tasks, _PIECE_DDL)
    rows = pieces.groupBy("key").applyInArrow(join_pieces_of_key, _PIECE_DDL).collect()
    return [(row.key, pickle.loads(row.found)) for row in rows]


_PIECE_DDL: Final = "key string, found binary"


def parallelism_of(spark: SparkSession) -> int:
    """Number of tasks that a session runs at a time; with Spark Connect the number of its shuffle
    partitions.
    """
    from pyspark.sql.utils import is_remote

    if is_remote():
        return int(spark.conf.get("spark.sql.shuffle.partitions", "8") or 8)
    return spark.sparkContext.defaultParallelism
