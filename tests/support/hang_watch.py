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
"""Of a processor, in that time: less is standing still. A test that waits for its turn beside a
load of 20 has five times as much.
"""
BUSY_S: Final = 1_800.0
"""Seconds of processors that all processes of one test may use."""
_LOOKS: Final = 20
"""In ``hang_idle_s``."""
_PROC: Final = Path("/proc")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two limits."""
    parser.addini("hang_idle_s", "a test hangs that stands still for so long", default=str(IDLE_S))
    parser.addini("hang_busy_s", "a test hangs that uses so much", default=str(BUSY_S))


def pytest_configure(config: pytest.Config) -> None:
    """Watch, where the system tells what processes use (Linux)."""
    if (_PROC / "self" / "stat").exists():
        config.pluginmanager.register(HangWatch(config), "hang-watch")


class HangWatch:
    """A thread beside the tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._idle_s = float(config.getini("hang_idle_s"))
        self._busy_s = float(config.getini("hang_busy_s"))
        self._stderr = os.dup(2)  # what is captured later goes elsewhere
        self._name: str | None = None
        self._used: deque[float] = deque(maxlen=_LOOKS + 1)
        """By the processes, at the looks since the test began."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="hang-watch", daemon=True)

    def pytest_sessionstart(self) -> None:
        """Begin."""
        self._thread.start()

    def pytest_unconfigure(self) -> None:
        """End."""
        self._ended.set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note which test it is."""
        self._used = deque(maxlen=_LOOKS + 1)
        self._began: float | None = None
        self._name = item.nodeid
        try:
            return (yield)
        finally:
            self._name = None

    def _watch(self) -> None:
        while not self._ended.wait(self._idle_s / _LOOKS):
            name, looks = self._name, self._used
            if name is None:
                continue
            looks.append(used_s() - time.thread_time())  # the watch itself is no part of the test
            if self._began is None:
                self._began = looks[0]
            if len(looks) > _LOOKS and looks[-1] - looks[0] < IDLE_SHARE * self._idle_s:
                self._end(f"{name} hangs: its processes stood still for {self._idle_s:.0f} s")
            if looks[-1] - self._began > self._busy_s:
                self._end(f"{name} hangs: it used more than {self._busy_s:.0f} s of processors")

    def _end(self, why: str) -> None:
        if self._name is None:
            return  # it has ended meanwhile
        os.write(self._stderr, f"\n{why}\n".encode())
        faulthandler.dump_traceback(self._stderr, all_threads=True)
        for process in family()[1:]:
            with_signal(process)
        os._exit(1)


def with_signal(process: int) -> None:
    """Kill it, unless it has ended."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def used_s() -> float:
    """Seconds of processors that this process, those that it has started, and those that have ended
    have used.
    """
    return sum(sum(map(int, stat[11:15])) for stat in _stats(family())) / _TICKS_PER_S


def family() -> list[int]:
    """This process, and all that it and they have started and that live."""
    children: dict[int, list[int]] = defaultdict(list)
    everybody = [int(one.name) for one in _PROC.iterdir() if one.name.isdigit()]
    for process, stat in zip(everybody, _stats(everybody), strict=True):
        if stat:
            children[int(stat[1])].append(process)
    found = [os.getpid()]
    for process in found:
        found += children[process]
    return found


def _stats(processes: list[int]) -> list[list[str]]:
    """The fields of each behind its name (proc(5)); none of one that has ended."""
    found = []
    for process in processes:
        try:
            text = (_PROC / str(process) / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            text = ")"
        found.append(text.rpartition(")")[2].split())
    return found
