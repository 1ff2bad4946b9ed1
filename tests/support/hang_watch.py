"""Ends a run of pytest whose test hangs. It goes by what the test's processes do, not by the clock
on the wall: on a busy machine a test that works takes any time.

A test hangs whose processes together have nearly stood still (``hang_idle_s``), or have used the
processors beyond all measure (``hang_busy_s``). Then every thread's stack is printed, the processes
that it has started are killed, and the run ends with status 1.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time  # noqa: TID251 - what real processes use
from collections import defaultdict, deque
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

IDLE_S: Final = 300.0
IDLE_SHARE: Final = 0.01
"""Share of one processor below which processes stand still, over that time. A test that waits for
its turn beside a load of 20 uses five times as much.
"""
BUSY_S: Final = 1_800.0
"""Seconds of processors that all processes of one test may use."""
LOOKS: Final = 20
"""How often the watch looks in ``hang_idle_s``."""
_PROC: Final = Path("/proc")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini options for the two limits."""
    parser.addini("hang_idle_s", "a test hangs that stands still for so long", default=str(IDLE_S))
    parser.addini("hang_busy_s", "a test hangs that uses so much", default=str(BUSY_S))


def pytest_configure(config: pytest.Config) -> None:
    """Register the watch if the system reports the use of processes (Linux)."""
    if (_PROC / "self" / "stat").exists():
        config.pluginmanager.register(HangWatch(config), "hang-watch")


class HangWatch:
    """A thread that watches the running test."""

    def __init__(self, config: pytest.Config) -> None:
        self._idle_s = float(config.getini("hang_idle_s"))
        self._busy_s = float(config.getini("hang_busy_s"))
        self._stderr = os.dup(2)  # what is captured later goes elsewhere
        self._name: str | None = None
        self._work = ProcessorUse()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="hang-watch", daemon=True)

    def pytest_sessionstart(self) -> None:
        """Start the thread."""
        self._thread.start()

    def pytest_unconfigure(self) -> None:
        """End the thread."""
        self._ended.set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Record which test is running."""
        self._work = ProcessorUse()
        self._name = item.nodeid
        try:
            return (yield)
        finally:
            self._name = None

    def _watch(self) -> None:
        while not self._ended.wait(self._idle_s / LOOKS):
            name, processor_use = self._name, self._work
            if name is None:
                continue
            processor_use.look()
            if processor_use.stood_still(self._idle_s):
                self._end(f"{name} hangs: its processes stood still for {self._idle_s:.0f} s")
            if processor_use.used_s > self._busy_s:
                self._end(f"{name} hangs: it used more than {self._busy_s:.0f} s of processors")

    def _end(self, reason: str) -> None:
        if self._name is None:
            return  # it has ended meanwhile
        faulthandler.dump_traceback(self._stderr, all_threads=True)
        lines = [f"{process}: {_command(process)}" for process in family()[1:]]
        # Last: of a long output the end is read.
        os.write(self._stderr, "\n".join(("", *lines, reason, "")).encode())
        for process in family()[1:]:
            kill_process(process)
        os._exit(1)


class ProcessorUse:
    """Processor time that the processes of one test use, from look to look."""

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}
        self._own_s = 0.0
        self._steps: deque[float] = deque(maxlen=LOOKS)
        self.used_s = 0.0
        """Processor seconds since the first look, as far as living processes report them."""
        self._first_s: float | None = None

    def look(self) -> None:
        """Record what each process has used since the last look. If a process leaves the family
        because its parent ended, its use is no longer counted; the others' still is.
        """
        used_s_by_process, own_s = used_by_process_s(), time.thread_time()
        total = sum(used_s_by_process.values())
        if self._first_s is None:
            self._first_s = total
        else:
            gained = sum(
                max(0.0, used_s - self._seen.get(process, 0.0))
                for process, used_s in used_s_by_process.items()
            )
            # The watch itself is no part of the test.
            self._steps.append(gained - (own_s - self._own_s))
        self._seen, self._own_s = used_s_by_process, own_s
        self.used_s = total - self._first_s

    def stood_still(self, idle_s: float) -> bool:
        """Whether the processes used next to nothing over ``idle_s``."""
        return len(self._steps) == LOOKS and sum(self._steps) < IDLE_SHARE * idle_s


def kill_process(process: int) -> None:
    """Kill a process, unless it has ended."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def used_by_process_s() -> dict[int, float]:
    """Processor seconds used by this process and each process of its family, including children
    that have ended.
    """
    processes = family()
    return {
        process: sum(map(int, stat[11:15])) / _TICKS_PER_S
        for process, stat in zip(processes, _stats(processes), strict=True)
        if stat
    }


def family() -> list[int]:
    """This process and all its living descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    everybody = [
        int(entry_path.name) for entry_path in _PROC.iterdir() if entry_path.name.isdigit()
    ]
    for process, stat in zip(everybody, _stats(everybody), strict=True):
        if stat:
            children[int(stat[1])].append(process)
    members = [os.getpid()]
    for process in members:
        members += children[process]
    return members


def _command(process: int) -> str:
    """The command line of a process, cut short."""
    try:
        return (_PROC / str(process) / "cmdline").read_text().replace("\0", " ")[:160]
    except (FileNotFoundError, ProcessLookupError):
        return "has ended"


def _stats(processes: list[int]) -> list[list[str]]:
    """For each process the fields of ``/proc/PID/stat`` after its name; an empty list if it has
    ended.
    """
    stats = []
    for process in processes:
        try:
            file_text = (_PROC / str(process) / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            file_text = ")"
        stats.append(file_text.rpartition(")")[2].split())
    return stats
