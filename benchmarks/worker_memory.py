"""Memory of this process's Python workers, as Linux counts it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_WORKER_ARGUMENTS: Final = (b"-m\0pyspark.daemon\0", b"-m\0txnsim_spark.daemon\0")
"""What a worker's command line has: it is forked from this module. The JVM only has its name."""


def forget_peaks() -> None:
    """Reset the peak memory that the system reports for each worker."""
    for pid in _worker_pids():
        with contextlib.suppress(OSError):
            (_PROC / str(pid) / "clear_refs").write_text("5")


def largest_worker_mb() -> float:
    """Return the largest that any worker has become; 0 without workers."""
    return max((peak_memory_kb(pid) for pid in _worker_pids()), default=0) / 1_000


def _worker_pids() -> Iterator[int]:
    """Find the workers started by the JVM that this process has started."""
    parent_by_pid = dict(read_parent_pids())
    for pid in parent_by_pid:
        if _is_descendant(pid, os.getpid(), parent_by_pid) and _is_worker(pid):
            yield pid


def read_parent_pids() -> Iterator[tuple[int, int]]:
    """Read the id of each process, with the id of its parent."""
    for process_folder in _PROC.iterdir():
        if process_folder.name.isdigit():
            with contextlib.suppress(OSError):
                stat_text = (process_folder / "stat").read_text()
                yield int(process_folder.name), int(stat_text.rpartition(")")[2].split()[1])


def _is_descendant(pid: int, ancestor_pid: int, parent_by_pid: dict[int, int]) -> bool:
    while pid in parent_by_pid:
        pid = parent_by_pid[pid]
        if pid == ancestor_pid:
            return True
    return False


def _is_worker(pid: int) -> bool:
    try:
        command_line = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False
    return any(name in command_line for name in _WORKER_ARGUMENTS)


def peak_memory_kb(pid: int) -> int:
    """Read the most memory that a process has had; 0 where it is gone."""
    try:
        status_lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status_lines if line.startswith("VmHWM:")), 0)
