"""A command with all processes that it starts, Spark's among them: CPU and memory, as Linux counts
them for each. What lives shorter than a look at them is missing.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.worker_memory import peak_memory_kb, read_parent_pids

_PAUSE_S: Final = 0.05
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_SESSION, _USER, _SYSTEM = 3, 11, 12
"""Fields of ``/proc/PID/stat`` behind the name (proc(5))."""


class FinishedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Time and memory of a command that has ended."""

    seconds: float
    cpu_s: float
    own_mb: float
    """The most memory of its first process: of the driver in Python, where there is Spark."""
    java_mb: float
    """Of the largest one in Java."""
    load_average: float
    """One-minute average as it began."""
    status: int
    stdout: bytes


def run_command(
    command: Sequence[str], *, limit_s: float = 3_000.0, working_directory: Path | None = None
) -> FinishedCommand:
    """Run a command to its end, in this folder or that of the caller."""
    load_average, began_s = os.getloadavg()[0], time.perf_counter()
    cpu_s_by_pid: dict[int, float] = {}
    own_kb = java_kb = 0
    with tempfile.TemporaryFile() as stdout_file:
        process = subprocess.Popen(
            command,
            cwd=working_directory,
            stdin=subprocess.DEVNULL,
            stdout=stdout_file,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while process.poll() is None:
            for pid, process_name, process_cpu_s in _read_session_processes(process.pid):
                cpu_s_by_pid[pid] = process_cpu_s
                if process_name == "java":
                    java_kb = max(java_kb, peak_memory_kb(pid))
            own_kb = max(own_kb, peak_memory_kb(process.pid))
            if time.perf_counter() - began_s > limit_s:
                process.kill()
            time.sleep(_PAUSE_S)
        stdout_file.seek(0)
        return FinishedCommand(
            seconds=time.perf_counter() - began_s,
            cpu_s=sum(cpu_s_by_pid.values()),
            own_mb=own_kb / 1_000,
            java_mb=java_kb / 1_000,
            load_average=load_average,
            status=process.returncode,
            stdout=stdout_file.read(),
        )


def read_cpu_s(pid: int) -> float:
    """Read the CPU seconds of a process that runs."""
    return _read_process_stat(pid)[2]


def read_tree_cpu_s(pid: int, *, excluded_pids: Collection[int] = ()) -> float:
    """Sum the CPU seconds of a process and those below it, without some and those below them."""
    parent_by_pid = dict(read_parent_pids())
    total_cpu_s = 0.0
    for candidate_pid in parent_by_pid:
        ancestor_pids = [candidate_pid]
        while ancestor_pids[-1] != pid and ancestor_pids[-1] in parent_by_pid:
            ancestor_pids.append(parent_by_pid[ancestor_pids[-1]])
        if ancestor_pids[-1] == pid and not any(
            ancestor_pid in excluded_pids for ancestor_pid in ancestor_pids
        ):
            with suppress(OSError):  # it has ended
                total_cpu_s += read_cpu_s(candidate_pid)
    return total_cpu_s


def _read_session_processes(session_id: int) -> Iterator[tuple[int, str, float]]:
    """Yield (id, name, CPU seconds) of a command's process and of those that it has started."""
    for process_folder in Path("/proc").iterdir():
        if process_folder.name.isdigit():
            try:
                name, process_session_id, cpu_s = _read_process_stat(int(process_folder.name))
            except OSError:
                continue  # it has ended
            if process_session_id == session_id:
                yield int(process_folder.name), name, cpu_s


def _read_process_stat(pid: int) -> tuple[str, int, float]:
    """Read the name, session and CPU seconds of a process."""
    name, _, fields_text = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
    stat_fields = fields_text.split()
    cpu_ticks = int(stat_fields[_USER]) + int(stat_fields[_SYSTEM])
    return name.partition("(")[2], int(stat_fields[_SESSION]), cpu_ticks / _TICKS_PER_S
