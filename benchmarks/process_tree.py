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

from benchmarks.worker_memory import parents_now, peak_kb

_PAUSE_S: Final = 0.05
_TICKS: Final = os.sysconf("SC_CLK_TCK")
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
    command: Sequence[str], *, limit_s: float = 3_000.0, cwd: Path | None = None
) -> FinishedCommand:
    """Run a command to its end, in this folder or that of the caller."""
    load_average, began_s = os.getloadavg()[0], time.perf_counter()
    cpu_s_by_pid: dict[int, float] = {}
    own_kb = java_kb = 0
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while process.poll() is None:
            for pid, name, process_cpu_s in _processes_of_session(process.pid):
                cpu_s_by_pid[pid] = process_cpu_s
                if name == "java":
                    java_kb = max(java_kb, peak_kb(pid))
            own_kb = max(own_kb, peak_kb(process.pid))
            if time.perf_counter() - began_s > limit_s:
                process.kill()
            time.sleep(_PAUSE_S)
        output.seek(0)
        return FinishedCommand(
            seconds=time.perf_counter() - began_s,
            cpu_s=sum(cpu_s_by_pid.values()),
            own_mb=own_kb / 1_000,
            java_mb=java_kb / 1_000,
            load_average=load_average,
            status=process.returncode,
            stdout=output.read(),
        )


def cpu_s_of(pid: int) -> float:
    """Seconds of a process that runs."""
    return _name_session_and_cpu_s(pid)[2]


def cpu_s_below(pid: int, *, excluded: Collection[int] = ()) -> float:
    """Seconds of a process and of those below it that run, without some and those below them."""
    parent_by_pid = dict(parents_now())
    total_s = 0.0
    for candidate_pid in parent_by_pid:
        ancestor_pids = [candidate_pid]
        while ancestor_pids[-1] != pid and ancestor_pids[-1] in parent_by_pid:
            ancestor_pids.append(parent_by_pid[ancestor_pids[-1]])
        if ancestor_pids[-1] == pid and not any(ancestor in excluded for ancestor in ancestor_pids):
            with suppress(OSError):  # it has ended
                total_s += cpu_s_of(candidate_pid)
    return total_s


def _processes_of_session(wanted_session: int) -> Iterator[tuple[int, str, float]]:
    """(process, name, seconds of CPU) of those that a command has started, and its own."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, session_id, used_s = _name_session_and_cpu_s(int(entry.name))
            except OSError:
                continue  # it has ended
            if session_id == wanted_session:
                yield int(entry.name), name, used_s


def _name_session_and_cpu_s(pid: int) -> tuple[str, int, float]:
    """Name, session and CPU seconds of a process."""
    name, _, fields_text = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
    fields = fields_text.split()
    cpu_ticks = int(fields[_USER]) + int(fields[_SYSTEM])
    return name.partition("(")[2], int(fields[_SESSION]), cpu_ticks / _TICKS
