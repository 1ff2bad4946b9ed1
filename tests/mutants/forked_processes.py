"""Forked processes that each do one job, write its result to a file, and end; those that hang are
killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from tests.support.shared_folder import FOLDER

MEMORY_MAX_BYTES: Final = 3 << 30
"""What a process may allocate beyond what its parent has."""
_LOOK_EVERY_S: Final = 1.0

Job = tuple[Callable[[Path], None], float]
"""What a process does with the file to write its result to, as JSON, and after how many seconds by
the clock it is killed.
"""


class ForkedProcesses:
    """Processes, some at the same time.

    Args:
        folder: Where their results are written.
        workers: How many run at the same time.
    """

    def __init__(self, folder: Path, *, worker_count: int) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        self._workers = worker_count

    def run(
        self, jobs: Sequence[Job], *, until_s: float | None = None
    ) -> Iterator[tuple[int, Any, bool]]:
        """Run each job in a process of its own.

        Args:
            jobs: What is done.
            until_s: Monotonic time after which no further job begins.

        Yields:
            The index of a job, its result, and whether a signal has ended its process; None as the
            result where the process has written none.
        """
        running_jobs: dict[int, tuple[int, int, float]] = {}
        waiting_jobs = list(range(len(jobs)))[::-1]
        try:
            while waiting_jobs or running_jobs:
                if until_s is not None and time.monotonic() > until_s:
                    waiting_jobs.clear()
                while waiting_jobs and len(running_jobs) < self._workers:
                    index = waiting_jobs.pop()
                    do_job, seconds_max = jobs[index]
                    process_id = self._fork(do_job, self._result_path(index))
                    kill_at_s = time.monotonic() + seconds_max
                    running_jobs[os.pidfd_open(process_id)] = (process_id, index, kill_at_s)
                ended_fds, _, _ = select.select(list(running_jobs), [], [], _LOOK_EVERY_S)
                for process_fd, (process_id, index, kill_at_s) in list(running_jobs.items()):
                    if process_fd in ended_fds or time.monotonic() > kill_at_s:
                        # What a test has started ends with it.
                        _kill_group(process_id)
                        del running_jobs[process_fd]
                        os.close(process_fd)
                        _, status = os.waitpid(process_id, 0)
                        yield index, self._take_result(index), os.WIFSIGNALED(status)
        finally:
            for process_fd, (process_id, _, _) in running_jobs.items():
                _kill_group(process_id)
                os.waitpid(process_id, 0)
                os.close(process_fd)

    def _result_path(self, index: int) -> Path:
        return self._folder / f"{index}.json"

    def _take_result(self, index: int) -> Any:
        path = self._result_path(index)
        if not path.exists():
            return None
        result = json.loads(path.read_text("utf-8"))
        path.unlink()
        return result

    def _fork(self, do_job: Callable[[Path], None], result_file: Path) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        process_id = os.fork()
        if process_id == 0:
            _do_and_end(do_job, result_file)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpgid(process_id, process_id)  # the child does so too, and either may be first
        return process_id


def _do_and_end(do_job: Callable[[Path], None], result_file: Path) -> NoReturn:
    """The life of a forked process. It never returns to what its parent was doing."""
    status = 1
    try:
        os.setpgid(0, 0)
        # What tests of one run of pytest share would be the play of a sound cluster.
        os.environ[FOLDER] = tempfile.mkdtemp(dir=result_file.parent)
        null_fd = os.open(os.devnull, os.O_RDWR)
        for standard_fd in (0, 1, 2):
            os.dup2(null_fd, standard_fd)
        used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used_bytes + MEMORY_MAX_BYTES, hard_limit))
        partial_result_file = result_file.with_suffix(".partial")
        do_job(partial_result_file)
        partial_result_file.rename(result_file)
        status = 0
    finally:
        os._exit(status)


def _kill_group(process_id: int) -> None:
    """Kill a process and its children; if the process has ended, only the children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process_id, signal.SIGKILL)
