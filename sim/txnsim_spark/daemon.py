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


def load_kernels() -> None:
    """Compile the walks for the types that they are called with, or load them from numba's cache on
    the disk.
    """
    import numpy as np

    from txnsim_spark.scan import kernel, kernel_crc
    from txnsim_spark.scan import kernel_fragments as fk

    no_bytes = np.empty(0, dtype=np.uint8)
    no_integers = np.empty(0, dtype=np.int64)
    kernel.scan_batches(
        no_bytes, 0, 0, 0, 0, np.empty((kernel.BATCH_COLUMNS, 1), dtype=np.int64), 0
    )
    hash_slots = np.full(2, -1, dtype=np.int64)
    fragments = np.empty((1, fk.FRAGMENT_COLUMNS), dtype=np.int64)
    endings = np.empty((fk.ENDING_COLUMNS, 1), dtype=np.int64)
    file_state = np.full(2, -1, dtype=np.int64)
    fk.scan_fragments(no_bytes, 0, 0, 0, hash_slots, fragments, 0, endings, file_state)
    fk.enter_fragments(hash_slots, fragments, 0)
    kernel_crc.check_crcs(
        no_bytes, no_integers, no_integers, no_integers, np.empty(0, dtype=np.bool_)
    )


def main() -> None:
    """Load the walks, then run PySpark's daemon until Spark ends it."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's, which would start threads
    load_kernels()
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()
