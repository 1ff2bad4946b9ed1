"""The two clocks over an event loop, real or virtual.

The cluster clock is a source of wall time plus the sum of all advances. Its timers are in one heap,
and a single handle at the loop stands for the earliest: an advance can then fire due timers in the
order of their deadlines, which a loop's own timers could not. The monotonic clock starts at an
offset, random where time is real, so that mixing the two clocks fails loudly.

Machines of a cluster need not agree on the time, and NTP sets a clock back while a process runs. So
each broker gets its own time as ``now_ms`` (``SkewedClock``): the cluster clock plus an offset that
a fault changes. The cores are handed a time in either case.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from typing import Final, Protocol

import msgspec

DEVIATIONS: Final = (
    "Where the whole process stands still for a second or more (a laptop sleeps, a debugger waits),"
    " sessions of brokers begin anew and no ISR shrinks: all brokers were silent together. On a"
    " cluster of machines, a broker whose machine stands still is fenced.",
)
STANDSTILL_MS: Final = 1_000
"""A timer that is this much too late was delayed by a standstill of the process."""

ARM_MS_MAX: Final = 60_000
"""Longest time between two wake-ups of the loop while timers are armed: wall time may jump (a
suspended laptop, NTP).
"""

_COMPACT_TIMERS_MIN: Final = 64
"""The heap is rebuilt when more than half of its timers are cancelled, and at least this many."""
SLICE_NS: Final = 5_000_000
"""Longest time for which due timers run in one slice."""


class TimerHandle(Protocol):
    """An armed timer."""

    def cancel(self) -> None:
        """Disarm the timer; does nothing if it has fired."""


class Clock(Protocol):
    """Time in integer milliseconds; in microseconds only for the trace."""

    @property
    def advanced_ms(self) -> int:
        """Sum of all advances of the cluster clock; negative if it was set back."""

    def now_ms(self) -> int:
        """Cluster wall time in ms since the epoch, including all advances."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start, without advances; never set back."""

    def elapsed_ms(self) -> int:
        """Milliseconds from an arbitrary start, including advances; never set back."""

    def monotonic_us(self) -> int:
        """Microseconds since the start of the run."""

    def ms_of(self, stopwatch_ns: int) -> int:
        """Convert a reading of ``stopwatch_ns`` to ``monotonic_ms``, for code that stores many
        times and converts few.
        """

    @property
    def wall_ns(self) -> Callable[[], int]:
        """The source of ``now_ms``, in nanoseconds, without advances."""

    @property
    def stopwatch_ns(self) -> Callable[[], int]:
        """The monotonic source in nanoseconds: the cheapest to read, for differences."""

    def call_at(self, deadline_ms: int, callback: Callable[[], object]) -> TimerHandle:
        """Call back once ``now_ms() >= deadline_ms``. An advance calls in the order of the
        deadlines.
        """

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> TimerHandle:
        """Call back after ``delay_ms`` of monotonic time, independent of the cluster clock."""

    def advance(self, ms: int) -> None:
        """Move the cluster clock ``ms`` forward and fire every ``call_at`` timer that is due then,
        earliest first.
        """

    async def advance_with_breaks(self, ms: int) -> None:
        """Advance the clock, in slices where many timers are due."""

    def shift(self, ms: int) -> None:
        """Set the cluster clock ``ms`` ahead, or back if negative, as an operator or NTP does; no
        time passes.

        Every ``call_at`` timer keeps the time that it has left: in Kafka, periodic work of a broker
        follows a monotonic clock (ScheduledThreadPoolExecutor).
        """


class _ClusterTimer(msgspec.Struct, eq=False):
    """A ``call_at`` timer. A cancelled one stays in the heap until it is the earliest, or the heap
    is rebuilt.
    """

    clock: LoopClock
    deadline_ms: int
    sequence: int
    callback: Callable[[], object] | None
    context: Context

    def __lt__(self, other: _ClusterTimer) -> bool:
        return (self.deadline_ms, self.sequence) < (other.deadline_ms, other.sequence)

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self.clock.forget_cancelled()


class LoopClock:
    """``Clock`` over an event loop and two sources of time in nanoseconds."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        read_wall_ns: Callable[[], int],
        read_monotonic_ns: Callable[[], int],
        monotonic_start_ms: int = 0,
    ) -> None:
        """Start the clocks of a run.

        Args:
            loop: Arms the timers; its ``call_later`` must go with ``read_monotonic_ns``.
            read_wall_ns: Nanoseconds since the epoch.
            read_monotonic_ns: Nanoseconds of the monotonic source.
            monotonic_start_ms: Value of ``monotonic_ms`` at the start of the run.
        """
        self._loop = loop
        self.wall_ns = read_wall_ns
        self._monotonic_ns = read_monotonic_ns
        self.start_ns = read_monotonic_ns()
        """Time by ``stopwatch_ns`` at which this clock was made."""
        self.stopwatch_ns = read_monotonic_ns
        self._monotonic_offset_ns = monotonic_start_ms * 1_000_000 - self.start_ns
        self.advanced_ms = 0
        """Sum of all advances and shifts."""
        self._passed_ms = 0
        self._timers: list[_ClusterTimer] = []
        self._sequence = 0
        self._cancelled_count = 0
        self._is_firing = False
        self._handle: asyncio.TimerHandle | None = None
        self._armed_ms = 0
        self.context_of: Callable[[], Context | None] = _no_context
        """Returns the context in which a timer that is armed now will run; None for a copy of the
        current one (``Tracer.timer_context``).
        """

    # Reading

    def now_ms(self) -> int:
        """Cluster wall time, including all advances."""
        return self.wall_ns() // 1_000_000 + self.advanced_ms

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start."""
        return (self._monotonic_ns() + self._monotonic_offset_ns) // 1_000_000

    def ms_of(self, stopwatch_ns: int) -> int:
        """Convert a reading of ``stopwatch_ns`` to ``monotonic_ms``."""
        return (stopwatch_ns + self._monotonic_offset_ns) // 1_000_000

    def elapsed_ms(self) -> int:
        """Milliseconds from an arbitrary start, including advances."""
        return self.monotonic_ms() + self._passed_ms

    def monotonic_us(self) -> int:
        """Microseconds since this clock was made."""
        return (self._monotonic_ns() - self.start_ns) // 1_000

    # Timers

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> TimerHandle:
        """Call back after ``delay_ms`` of monotonic time, in the context of the caller."""
        return self._loop.call_later(delay_ms / 1_000, callback, context=self.context_of())

    def call_at(self, deadline_ms: int, callback: Callable[[], object]) -> TimerHandle:
        """Call back once the cluster clock has reached the deadline, in the context of the caller.

        Timers with one deadline fire in the order in which they were armed.
        """
        self._sequence += 1
        context = self.context_of() or copy_context()
        timer = _ClusterTimer(self, deadline_ms, self._sequence, callback, context)
        heapq.heappush(self._timers, timer)
        if not self._is_firing and (self._handle is None or deadline_ms < self._armed_ms):
            self._arm_next_timer()
        return timer

    def advance(self, ms: int) -> None:
        """Move the cluster clock forward, then fire due timers, earliest deadline first.

        Raises:
            ValueError: ``ms`` is negative.
        """
        self._pass_time(ms)
        self._fire_due()

    async def advance_with_breaks(self, ms: int) -> None:
        """Move the cluster clock forward, then fire due timers in slices: ten thousand transactions
        may time out at once.

        Timers that wait for a later slice fire after their deadline, as on a busy machine.

        Raises:
            ValueError: ``ms`` is negative.
        """
        self._pass_time(ms)
        begun_ns = self._monotonic_ns()
        for _ in self._fire_due_timers():
            if self._monotonic_ns() - begun_ns >= SLICE_NS:
                await asyncio.sleep(0)
                begun_ns = self._monotonic_ns()

    def _pass_time(self, ms: int) -> None:
        if ms < 0:
            raise ValueError(f"time does not go back (asked for {ms} ms); shift() sets the clock")
        self.advanced_ms += ms
        self._passed_ms += ms

    def shift(self, ms: int) -> None:
        """Set the cluster clock ahead, or back if negative: no time passes, and ``call_at`` timers
        keep the time that they have left.
        """
        self.advanced_ms += ms
        # All deadlines move alike: the order of the heap and the loop's handle stay right.
        for timer in self._timers:
            timer.deadline_ms += ms
        self._armed_ms += ms

    def close(self) -> None:
        """Drop every ``call_at`` timer and cancel the handle at the loop."""
        self._timers.clear()
        self._cancelled_count = 0
        self._disarm()

    def forget_cancelled(self) -> None:
        """Count a cancelled timer of the heap; rebuild the heap once most timers are cancelled."""
        self._cancelled_count += 1
        timers = self._timers
        if len(timers) >= _COMPACT_TIMERS_MIN and self._cancelled_count * 2 > len(timers):
            timers[:] = [timer for timer in timers if timer.callback is not None]
            heapq.heapify(timers)
            self._cancelled_count = 0

    def _fire_due(self) -> None:
        """Fire due timers, also those that a fired timer arms for a past deadline; then arm the
        loop anew.
        """
        for _ in self._fire_due_timers():
            pass

    def _fire_due_timers(self) -> Iterator[None]:
        """Fire the due timers, with a yield after each."""
        if self._is_firing:
            return  # an advance from within a timer: the outer call goes on with the new time
        self._is_firing = True
        try:
            timers = self._timers
            while timers and (timers[0].callback is None or timers[0].deadline_ms <= self.now_ms()):
                self._run_callback(heapq.heappop(timers))
                yield
        finally:
            self._is_firing = False
            self._arm_next_timer()

    def _run_callback(self, timer: _ClusterTimer) -> None:
        callback, timer.callback = timer.callback, None
        if callback is None:
            self._cancelled_count = max(0, self._cancelled_count - 1)
            return
        try:
            timer.context.run(callback)
        except Exception as error:  # noqa: BLE001 - one timer's bug must not lose the others; the loop reports it
            self._loop.call_exception_handler(
                {"message": f"timer callback {callback!r} failed", "exception": error}
            )

    def _arm_next_timer(self) -> None:
        self._disarm()
        if self._timers:
            self._armed_ms = self._timers[0].deadline_ms
            delay_ms = min(max(self._armed_ms - self.now_ms(), 0), ARM_MS_MAX)
            self._handle = self._loop.call_later(delay_ms / 1_000, self._wake, context=Context())

    def _disarm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _wake(self) -> None:
        """Fire due timers; where that takes long, let the loop look at its sockets in between."""
        self._handle = None
        begun_ns = self._monotonic_ns()
        for _ in self._fire_due_timers():
            if self._monotonic_ns() - begun_ns >= SLICE_NS:
                break


def _no_context() -> Context | None:
    return None


class SkewedClock:
    """``Clock`` of one machine: the cluster clock, plus or minus an offset of its own.

    Setting it fires and postpones nothing: ``call_at`` timers keep the time that they have left, as
    in Kafka, where periodic work follows a monotonic clock (KafkaScheduler) and reads the wall
    clock only when it runs. The monotonic clock is the same for all machines.
    """

    __slots__ = (
        "_cluster",
        "_wall_ns",
        "call_later",
        "elapsed_ms",
        "monotonic_ms",
        "monotonic_us",
        "ms_of",
        "offset_ms",
    )

    def __init__(self, cluster: Clock) -> None:
        """Start without an offset.

        Args:
            cluster: The cluster clock.
        """
        self.offset_ms = 0
        """How far this clock is ahead of the cluster clock; negative if it is behind."""
        self._cluster = cluster
        self._wall_ns = cluster.wall_ns
        self.monotonic_ms: Callable[[], int] = cluster.monotonic_ms
        self.ms_of: Callable[[int], int] = cluster.ms_of
        self.elapsed_ms: Callable[[], int] = cluster.elapsed_ms
        self.monotonic_us: Callable[[], int] = cluster.monotonic_us
        self.call_later: Callable[[float, Callable[[], object]], TimerHandle] = cluster.call_later

    def shift(self, ms: int) -> None:
        """Set only this clock ``ms`` ahead, or back if negative."""
        self.offset_ms += ms

    def now_ms(self) -> int:
        """Wall time by the clock of this machine."""
        return self._wall_ns() // 1_000_000 + self._cluster.advanced_ms + self.offset_ms

    @property
    def wall_ns(self) -> Callable[[], int]:
        """The source of the cluster clock, without advances."""
        return self._cluster.wall_ns

    @property
    def stopwatch_ns(self) -> Callable[[], int]:
        """The monotonic source, shared by all machines."""
        return self._cluster.stopwatch_ns

    @property
    def advanced_ms(self) -> int:
        """Sum of all advances and shifts of the cluster clock, and of this machine's own shifts."""
        return self._cluster.advanced_ms + self.offset_ms

    def call_at(self, deadline_ms: int, callback: Callable[[], object]) -> TimerHandle:
        """Call back once this clock reaches the deadline; shifts meanwhile don't count."""
        return self._cluster.call_at(deadline_ms - self.offset_ms, callback)

    def advance(self, ms: int) -> None:
        """Move the cluster clock forward, for all machines."""
        self._cluster.advance(ms)

    async def advance_with_breaks(self, ms: int) -> None:
        await self._cluster.advance_with_breaks(ms)


def stood_still(due_ms: float, now_ms: int) -> bool:
    """Whether a timer is so late that the whole process must have stood still: it was stopped, a
    laptop slept, a debugger waits at a breakpoint.

    All brokers stand still together then, and none can be heard. That does not happen to a cluster
    of machines, so conclusions from a broker's silence wait until the process has run again for a
    while. In virtual time no timer is late.
    """
    return now_ms - due_ms >= STANDSTILL_MS
