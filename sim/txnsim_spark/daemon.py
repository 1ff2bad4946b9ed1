"""The process from which Spark forks its Python workers: PySpark's daemon, with the compiled walks
loaded.

Spark starts one daemon per executor. The daemon forks a worker for each task that runs at a time. A
worker need not import what the daemon has imported, so numba and the kernels' machine code, half a
second of CPU, are loaded once. Nothing that starts a thread may be imported before a fork. So the
workers import pyarrow and pandas themselves. (PySpark plans a read in its own daemon in any case.
``source`` imports none of this there.)

A session gets this daemon by ``spark.python.daemon.module`` (``session``). Without it everything
works in the same way, and each worker loads for itself.
"""

from __future__ import annotations

import os
import sys
import traceback
from types import ModuleType
from typing import Any


def load_kernels() -> None:
    """Have the walks compiled, or read from where numba keeps them, for the types they are called
    with.
    """
    import numpy as np

    from txnsim_spark.scan import kernel, kernel_crc
    from txnsim_spark.scan import kernel_fragments as fk

    piece = np.empty(0, dtype=np.uint8)
    numbers = np.empty(0, dtype=np.int64)
    kernel.scan_batches(piece, 0, 0, 0, 0, np.empty((kernel.BATCH_COLUMNS, 1), dtype=np.int64), 0)
    slots = np.full(2, -1, dtype=np.int64)
    fragments = np.empty((1, fk.FRAGMENT_COLUMNS), dtype=np.int64)
    endings = np.empty((fk.ENDING_COLUMNS, 1), dtype=np.int64)
    place = np.full(2, -1, dtype=np.int64)
    fk.scan_fragments(piece, 0, 0, 0, slots, fragments, 0, endings, place)
    fk.enter_all(slots, fragments, 0)
    kernel_crc.check_crcs(piece, numbers, numbers, numbers, np.empty(0, dtype=np.bool_))


def end_quietly(daemon: ModuleType | None = None) -> None:
    """Have PySpark's daemon end without a word where Spark has closed its end of the pipe: Spark
    has what it wanted, and a worker on a busy machine may still say goodbye then. All other errors
    are printed.

    Args:
        daemon: The daemon's module. None: the program that runs, if that is PySpark's daemon. Spark
            plans a read in that one, whatever the session says.
    """
    if daemon is None:
        daemon = sys.modules["__main__"]
        if getattr(daemon.__spec__, "name", "") != "pyspark.daemon":
            return
    vars(daemon).update(print=_print, traceback=_Tracebacks())


def _print(*words: object, **options: Any) -> None:
    if not any(BrokenPipeError.__name__ in str(word) for word in words):
        print(*words, **options)  # noqa: T201 - as the daemon does


class _Tracebacks:
    """As far as the daemon needs the module."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        """The exception that is handled now."""
        if not isinstance(sys.exception(), BrokenPipeError):
            traceback.print_exc()


def main() -> None:
    """Load, then do as PySpark's daemon does until Spark ends it."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's, which would start threads
    load_kernels()
    from pyspark import daemon

    end_quietly(daemon)
    daemon.manager()


if __name__ == "__main__":
    main()
