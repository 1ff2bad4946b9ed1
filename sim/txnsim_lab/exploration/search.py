"""Searches all ways of a run: where more than one thing may happen, the process forks, and each
child goes on with another choice. A state that was seen is not searched again.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final, NoReturn

import msgspec

from txnsim.errors import ConfigError
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.wall_clock import monotonic_ms
from txnsim_lab.exploration._conductor import Conductor
from txnsim_lab.exploration._contents import fingerprint_of
from txnsim_lab.exploration._shared import Counters, Lanes, SeenStates
from txnsim_lab.exploration.model import Exploration
from txnsim_lab.exploration.way import Choice, GivenWay, Way
from txnsim_lab.simulation.play import Finding, PlayedRun, play

TICK_S: Final = 0.05
CAPACITY_BITS: Final = 24
_LEFT_STATUS: Final = 87
"""Exit status of a process of a search that has done its part. It is not 0, with which another's
code may end the process.
"""


class FoundEnd(msgspec.Struct, frozen=True):
    """The end of a way that has an anomaly."""

    way: Way
    findings: tuple[Finding, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Each kind of finding once."""
        return tuple(sorted({finding.kind for finding in self.findings}))


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """How much a search has looked at, and the runs that ended with an anomaly."""

    states: int
    """States that were searched, each counted once: more than one thing could happen, or the run
    ended.
    """
    choices: int
    """Choices that were followed."""
    ends: int
    """Runs that were played to their end, and judged."""
    known: int
    """How often a state was met again."""
    cut: int
    """States in which the limit of deviations left something out."""
    broken: int
    """Processes that ended without a result."""
    is_stopped: bool
    """Whether its time was up."""
    seconds: float
    cpu_s: float
    """Seconds of processor time."""
    found_ends: tuple[FoundEnd, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every way within the bounds was followed."""
        return bool(self.ends) and not (self.is_stopped or self.cut or self.broken)


class _Forking:
    """The chooser of a search: forks for each option."""

    def __init__(
        self,
        states: SeenStates,
        counters: Counters,
        lanes: Lanes,
        result_fd: int,
        deviations_max: int | None,
    ) -> None:
        self._states, self._counters, self._lanes = states, counters, lanes
        self._result_fd = result_fd
        self._lane_number = 0
        self._owns_lane = False
        self._deviations_left = deviations_max
        self._child_pids: list[int] = []

    def pick(self, choice: Choice) -> int:
        """Search all options: the last in this process, each other in a child of it."""
        if self._counters.is_stopped:
            self.leave()
        fingerprint, deviations_left = choice.fingerprint, self._deviations_left
        if deviations_left is not None:
            # What may still deviate depends on what is late, and so on the order of the options.
            fingerprint = fingerprint_of(fingerprint, deviations_left, choice.keys)
        try:
            is_new = self._states.add(fingerprint)
        except MemoryError:  # no finding of the run: its ways are missing
            self._counters.count("broken", self._lane_number)
            self._counters.stop()
            self.leave()
        if not is_new:
            self._counters.count("known", self._lane_number)
            self.leave()
        self._counters.count("states", self._lane_number)
        last_index = len(choice.options) - 1
        if deviations_left == 0 and last_index > 0:
            self._counters.count("cut", self._lane_number)
            last_index = 0
        for index in range(last_index):
            if self._is_child(index):
                return index
            if self._counters.is_stopped:
                self.leave()
        self._go_on(last_index)
        return last_index

    def _is_child(self, index: int) -> bool:
        """Fork; returns True in the child. Where there is a lane for it, both go on at once."""
        loop, lane = asyncio.get_running_loop(), self._lanes.take()
        child_pid = os.fork()
        if child_pid == 0:
            asyncio._set_running_loop(loop)  # which asyncio keeps by process
            self._child_pids = []
            self._owns_lane = lane is not None
            if lane is not None:
                self._lane_number = lane
            self._go_on(index)
            return True
        if lane is None:
            self._reap(child_pid)
        else:
            self._child_pids.append(child_pid)
        return False

    def _go_on(self, index: int) -> None:
        self._counters.count("choices", self._lane_number)
        if self._deviations_left is not None and index:
            self._deviations_left -= 1

    def _reap(self, child_pid: int) -> None:
        _, status = os.waitpid(child_pid, 0)
        if os.waitstatus_to_exitcode(status) != _LEFT_STATUS:
            self._counters.count("broken", self._lane_number)

    def finish(self, way: Way, played_run: PlayedRun) -> NoReturn:
        """Note how a run has ended, and end this process."""
        self._counters.count("ends", self._lane_number)
        if played_run.findings:
            line = msgspec.json.encode(FoundEnd(way, played_run.findings)) + b"\n"
            os.write(self._result_fd, line)
        self.leave()

    def leave(self) -> NoReturn:
        """End this process when its children have ended."""
        for child_pid in self._child_pids:
            self._reap(child_pid)
        if self._owns_lane:
            self._lanes.give_back(self._lane_number)
        os._exit(_LEFT_STATUS)


def search(
    exploration: Exploration,
    *,
    lane_count: int = 1,
    seconds_max: float | None = None,
    deviations_max: int | None = None,
    progress: Callable[[dict[str, int], float], object] = lambda _counts, _seconds: None,
) -> SearchResult:
    """Search all ways of an exploration.

    Args:
        exploration: What is explored.
        lane_count: How many processes search at once.
        seconds_max: When to stop; None for never.
        deviations_max: How often something else may happen than on a quiet network; None for no
            limit.
        progress: Called with the counts and the seconds, twenty times a second.

    Raises:
        ConfigError: The run can't be played at all.
    """
    states, counters, lane_pool = SeenStates(CAPACITY_BITS), Counters(lane_count), Lanes(lane_count)
    start_s, cpu_start_s = monotonic_ms() / 1_000, _children_cpu_s()
    with (
        closing(lane_pool),
        tempfile.TemporaryFile() as results_file,
        tempfile.TemporaryFile() as failures_file,
    ):
        gc.collect()  # not in the child, which lacks the threads of what would be closed there
        root_process_id = os.fork()
        if root_process_id == 0:
            try:
                os.setpgid(0, 0)
                gc.freeze()
                gc.disable()
                forking = _Forking(
                    states, counters, lane_pool, results_file.fileno(), deviations_max
                )
                conductor = Conductor(exploration, forking)
                played_run = play(exploration.plan, director=conductor)
                forking.finish(tuple(conductor.way), played_run)
            except Exception as error:  # noqa: BLE001 - the process that waits raises it
                os.write(failures_file.fileno(), str(error).encode())
            finally:
                os._exit(1)
        try:
            is_cut = _wait(root_process_id, counters, start_s, seconds_max, progress)
        except BaseException:
            os.killpg(root_process_id, signal.SIGKILL)
            os.waitpid(root_process_id, 0)
            raise
        total_counts = counters.totals()
        failures_file.seek(0)
        if failure_text := failures_file.read().decode():
            raise ConfigError(f"{exploration.name}: {failure_text}")
        results_file.seek(0)
        found_ends = tuple(msgspec.json.decode(line, type=FoundEnd) for line in results_file)
    return SearchResult(
        **total_counts,
        is_stopped=is_cut,
        seconds=monotonic_ms() / 1_000 - start_s,
        cpu_s=_children_cpu_s() - cpu_start_s,
        found_ends=found_ends,
    )


def _children_cpu_s() -> float:
    resource_usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return resource_usage.ru_utime + resource_usage.ru_stime


def _wait(
    root_process_id: int,
    counters: Counters,
    start_s: float,
    seconds_max: float | None,
    progress: Callable[[dict[str, int], float], object],
) -> bool:
    """Wait for the end of a search; returns whether it was stopped. A root process that has not
    done its part is counted. What processes have left behind that ended early is ended.
    """
    is_cut, tick_event = False, threading.Event()
    while True:
        ended_pid, status = os.waitpid(root_process_id, os.WNOHANG)
        if ended_pid:
            if os.waitstatus_to_exitcode(status) != _LEFT_STATUS:
                counters.count("broken", 0)
            if counters.totals()["broken"]:
                with suppress(ProcessLookupError):  # nothing is left behind
                    os.killpg(root_process_id, signal.SIGKILL)
            return is_cut
        elapsed_s = monotonic_ms() / 1_000 - start_s
        if not is_cut and seconds_max is not None and elapsed_s >= seconds_max:
            is_cut = True
            counters.stop()
        progress(counters.totals(), elapsed_s)
        tick_event.wait(TICK_S)


class ReplayedWay(msgspec.Struct, frozen=True):
    """One way, played in this process."""

    way: Way
    """What came of it: a choice that did not fit is left out."""
    steps: tuple[str, ...]
    deviating_steps: tuple[int, ...]
    """Indexes of the steps that do not happen on a quiet network."""
    played_run: PlayedRun


def replay(
    exploration: Exploration, way: Way, *, trace_level: TraceLevel = TraceLevel.OFF
) -> ReplayedWay:
    """Play one way, as far as it fits."""
    conductor = Conductor(exploration, GivenWay(way))
    played_run = play(exploration.plan, trace_level=trace_level, director=conductor)
    return ReplayedWay(
        tuple(conductor.way), tuple(conductor.steps), tuple(conductor.deviating_steps), played_run
    )
