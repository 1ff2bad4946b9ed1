"""Memory of workers: which processes count, and what of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.worker_memory import forget_peaks, largest_worker_mb

GREEDY = """
import sys
data = bytearray(100_000_000)
del data
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def process(*arguments: str) -> Iterator[None]:
    """A child process that has allocated 100 MB and waits for the end of its input."""
    command = [sys.executable, "-c", GREEDY, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            child.stdin.close()


def test_other_processes_do_not_count() -> None:
    with process("--conf", "spark.python.daemon.module=txnsim_spark.daemon"):
        assert largest_worker_mb() == 0


def test_a_worker_counts_with_its_peak_until_that_is_forgotten() -> None:
    with process("-m", "txnsim_spark.daemon", "pyspark.worker"):
        assert largest_worker_mb() > 100
        forget_peaks()
        assert 0 < largest_worker_mb() < 100
