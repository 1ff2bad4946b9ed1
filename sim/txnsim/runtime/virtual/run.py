"""A run in virtual time: ``run_virtual(main, seed=7)``.

Puts clock, tasks, network and trace, the same classes as in the real world, on a virtual loop, and
makes the functions that unmodified client libraries read (``time``, ``random``) follow the run in
its thread. A run depends only on its seed: every failure has the seed as a note. A process has one
run at a time; its other threads are not affected and don't count.
"""

from __future__ import annotations

import asyncio
import itertools
import selectors
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import closing
from contextvars import Context
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple

from txnsim.errors import DeadlockError, LivelockError, NotSimulatedError
from txnsim.runtime.clock import LoopClock
from txnsim.runtime.environment import Environment
from txnsim.runtime.network import LoopNetwork
from txnsim.runtime.rng import RandomStreams, derive
from txnsim.runtime.tasks import LoopTasks
from txnsim.runtime.trace import RunInfo, TraceLevel, Tracer
from txnsim.runtime.virtual._connection import VirtualTransport
from txnsim.runtime.virtual._process_clocks import ambient_virtual
from txnsim.runtime.virtual.net import HOST, LATENCY_US_DEFAULT, VirtualNet, VirtualServer
from txnsim.types import BrokerId

T = TypeVar("T")

START_MS: Final = 1_700_000_000_000
"""Cluster wall time at the start of a virtual run (14 November 2023), the same in every run."""

PEER_LATENCY_US_DEFAULT: Final = (50, 500)
"""Least and greatest latency of one way between brokers, drawn evenly."""


IDLE_TURNS_MAX: Final = 1_000_000
"""Turns of the loop without progress of time after which the run is called a livelock; an honest
burst takes some thousands.
"""

CLOSINGS_MAX: Final = 100
"""Number of awaits that a coroutine may make while it is closed."""


class VirtualEnvironment(Environment):
    """The environment of a virtual run, with its loop and its connections, on which faults act."""

    __slots__ = ("loop", "net", "seed")

    def __init__(
        self,
        loop: VirtualLoop,
        *,
        seed: int,
        latency_us: tuple[int, int],
        peer_latency_us: tuple[int, int] | None,
        trace_level: TraceLevel,
        read_wall_ns: Callable[[], int],
    ) -> None:
        clock = LoopClock(
            loop,
            read_wall_ns=read_wall_ns,
            read_monotonic_ns=loop.time_ns,
            monotonic_start_ms=loop.time_ns() // 1_000_000,
        )
        rng = RandomStreams(seed)
        tracer = Tracer(
            clock.monotonic_us,
            level=trace_level,
            run_info=RunInfo(seed=seed, clock="virtual"),
            is_strict=True,
        )
        clock.context_of = tracer.timer_context
        tasks = LoopTasks(loop, tracer=tracer, read_stopwatch_ns=clock.stopwatch_ns)
        network = LoopNetwork(
            loop,
            clock=clock,
            tasks=tasks,
            tracer=tracer,
            latency_ms_of=None if peer_latency_us is None else _peer_latency(rng, peer_latency_us),
        )
        super().__init__(
            clock=clock,
            rng=rng,
            network=network,
            tasks=tasks,
            tracer=tracer,
            clients_host=HOST,
        )
        self.seed = seed
        self.loop = loop
        self.net = VirtualNet(loop, rng=rng, latency_us=latency_us)
        loop.net = self.net


def run_virtual(
    main: Callable[[VirtualEnvironment], Awaitable[T]],
    *,
    seed: int,
    start_ms: int = START_MS,
    latency_us: tuple[int, int] = LATENCY_US_DEFAULT,
    peer_latency_us: tuple[int, int] | None = PEER_LATENCY_US_DEFAULT,
    trace_level: TraceLevel = TraceLevel.FULL,
    idle_turns_max: int = IDLE_TURNS_MAX,
) -> T:
    """Run ``main`` to its end in virtual time.

    Args:
        main: Called with the environment.
        seed: Seed of all random numbers in the run, also of ``random`` in its thread.
        start_ms: Wall time at the start.
        latency_us: Least and greatest latency of a connection, one way.
        peer_latency_us: Least and greatest latency of a link between brokers; None delivers at
            once, as ``serve``.
        trace_level: How much is recorded; nothing is dropped.
        idle_turns_max: Turns of the loop without time going on that are called a livelock.

    Returns:
        The result of ``main``.

    Raises:
        SimulationError: Deadlock, livelock, something that is not simulated, or another virtual run
            is under way in this process.
        BaseExceptionGroup: ``main`` came to its end, but background tasks or callbacks failed.
    """
    loop = VirtualLoop(idle_turns_max=idle_turns_max)
    read_wall_ns = _wall_ns(loop, start_ms)
    failures: list[BaseException] = []
    loop.set_exception_handler(_failure_collector(failures))
    try:
        with (
            closing(loop),
            ambient_virtual(
                read_monotonic_ns=loop.time_ns,
                read_wall_ns=read_wall_ns,
                seed=derive(seed, "ambient"),
            ) as libraries,
            asyncio.Runner(loop_factory=lambda: loop) as runner,
        ):
            loop.before_connect = libraries.lend
            environment = VirtualEnvironment(
                loop,
                seed=seed,
                latency_us=latency_us,
                peer_latency_us=peer_latency_us,
                trace_level=trace_level,
                read_wall_ns=read_wall_ns,
            )
            result = runner.run(_run_to_end(main, environment))
        if failures:
            raise BaseExceptionGroup("callbacks of the loop failed", failures)
    except BaseException as error:
        _close_unfinished_tasks(loop)
        error.add_note(f"virtual run with seed {seed}")
        raise
    return result


def _close_unfinished_tasks(loop: VirtualLoop) -> None:
    """Close the coroutines of tasks that cancelling could not end.

    A signal may interrupt the loop between taking a callback and calling it. The task behind that
    callback never wakes again, and what waits for it never ends. Python would report such a task
    as a failure when it collects it, which may be during another run.

    Args:
        loop: A loop that turns no more.
    """
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined] # as asyncio.gather does
        coroutine = task.get_coro()
        for _ in range(CLOSINGS_MAX):
            try:
                coroutine.close()
            except RuntimeError:
                continue  # it awaited once more
            except BaseException:  # noqa: BLE001 - the run has failed by an earlier error
                break
            break


async def _run_to_end(
    main: Callable[[VirtualEnvironment], Awaitable[T]], env: VirtualEnvironment
) -> T:
    try:
        return await main(env)
    finally:
        await env.tasks.close()


def _wall_ns(loop: VirtualLoop, start_ms: int) -> Callable[[], int]:
    offset_ns = start_ms * 1_000_000 - loop.time_ns()
    return lambda: loop.time_ns() + offset_ns


def _peer_latency(
    rng: RandomStreams, latency_us: tuple[int, int]
) -> Callable[[BrokerId, BrokerId], float]:
    def latency_ms(source: BrokerId, target: BrokerId) -> float:
        return rng.stream(f"link.b{source}-b{target}").randint(*latency_us) / 1_000

    return latency_ms


def _failure_collector(
    failures: list[BaseException],
) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]:
    """An exception handler of a loop that keeps failed callbacks as bugs; exceptions that a client
    library leaves unread in a future are only reported.
    """

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, asyncio.CancelledError):
            return  # asyncio's streams of Python 3.11 let it out of a callback when the run ends
        if error is not None and "future" not in context and "task" not in context:
            failures.append(error)
        else:
            loop.default_exception_handler(context)

    return handle


# An event loop whose clock jumps to the next deadline.
#
# asyncio's own loop with another selector: where it would wait, its clock moves on; where it would
# wait for ever, it raises. What
# is not simulated raises as well: threads, name resolution, subprocesses, signals, real sockets.
# Connections come from a ``net.VirtualNet``, so that unmodified asyncio clients run here.
#
# asyncio keeps callbacks in order, hence a run is a function of its seed: other orders are explored
# by drawing other latencies.

Ts = TypeVarTuple("Ts")


MONOTONIC_START_NS: Final = 1_000 * 1_000_000_000
"""Time at which the loop's clock starts: far from zero and from wall time, so that mixing clocks
shows.
"""

_RESOLUTION_S: Final = 1e-6
_REFUSED_METHODS: Final = (
    "add_reader",
    "add_writer",
    "add_signal_handler",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_datagram_endpoint",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "run_in_executor",
    "sendfile",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_sendall",
    "sock_sendfile",
    "start_tls",
    "subprocess_exec",
    "subprocess_shell",
)


class VirtualLoop(asyncio.SelectorEventLoop):
    """The event loop of one virtual run; everything happens in the thread that made it."""

    def __init__(self, *, idle_turns_max: int = IDLE_TURNS_MAX) -> None:
        self._now_ns = MONOTONIC_START_NS
        self._idle_turns = 0
        self._idle_turns_max = idle_turns_max
        self._thread = threading.get_ident()
        self.net: VirtualNet | None = None
        self.before_time_passes: Callable[[], bool] = _let_time_pass
        """Called when nothing is left to do at the present time; returns whether it has scheduled
        something that comes before.
        """
        self.before_connect: Callable[[], object] = _do_nothing
        """Called before a client connects: by then the client's library is loaded."""
        super().__init__(_JumpingSelector(self._wait))
        self._clock_resolution = _RESOLUTION_S
        self._numbers = Numbers()

    def create_task(
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], **options: Any
    ) -> asyncio.Task[T]:
        """A task whose hash is the same in every process, unless a task factory is set."""
        if self.is_closed() or self.get_task_factory() is not None:
            return super().create_task(coro, **options)
        return self._numbers.task(self, coro, **options)

    def create_future(self) -> asyncio.Future[Any]:
        """A future whose hash is the same in every process."""
        return self._numbers.future(self)

    # Time

    def time(self) -> float:
        """Virtual time in seconds."""
        return self._now_ns / 1e9

    def time_ns(self) -> int:
        """Virtual time in nanoseconds, exactly."""
        return self._now_ns

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """As in asyncio, but a positive delay always ends at a later time than now: a client that
        computes its next delay from the remaining time would meet a rounding error again and again
        (in the real world its own work takes time).
        """
        if 0 < delay < _RESOLUTION_S:
            delay = _RESOLUTION_S
        return super().call_later(delay, callback, *args, context=context)

    def _wait(self, timeout: float | None) -> None:
        """Called by the selector instead of waiting."""
        if (timeout is None or timeout > 0) and self.before_time_passes():
            return
        if timeout is None:
            raise DeadlockError(f"nothing is scheduled, but these wait: {self._waiting_tasks()}")
        if timeout > 0:
            self._now_ns += max(1, round(timeout * 1e9))
            self._idle_turns = 0
            return
        self._idle_turns += 1
        if self._idle_turns > self._idle_turns_max:
            raise LivelockError(
                f"{self._idle_turns} turns of the loop without time going on at {self.time()} s; "
                f"tasks: {self._waiting_tasks()}"
            )

    def _waiting_tasks(self) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())
        return ", ".join(f"{task.get_name()} ({task.get_coro()!r})" for task in tasks) or "no task"

    # Connections

    async def create_server(  # type: ignore[override]  # narrower than asyncio on purpose
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        start_serving: bool = True,
        **_options: object,
    ) -> VirtualServer:
        """Listen in memory.

        Raises:
            NotSimulatedError: TLS was asked for.
        """
        if ssl is not None:
            raise NotSimulatedError("TLS is not simulated in virtual time")
        server = self._net().listen(protocol_factory, host or "", port or 0)
        if not start_serving:
            server.close()  # no other process takes a port here
        return server

    async def create_connection(  # type: ignore[override]  # narrower than asyncio on purpose
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        **_options: object,
    ) -> tuple[VirtualTransport, asyncio.BaseProtocol]:
        """Connect in memory.

        Raises:
            NotSimulatedError: TLS was asked for.
        """
        if ssl is not None:
            raise NotSimulatedError("TLS is not simulated in virtual time")
        self.before_connect()
        return await self._net().connect(protocol_factory, host or "", port or 0)

    def _net(self) -> VirtualNet:
        if self.net is None:
            raise NotSimulatedError("this loop was given no virtual network")
        return self.net

    # Methods that are not simulated

    def call_soon_threadsafe(  # type: ignore[override]  # narrower than asyncio on purpose
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As in asyncio, but only from the loop's own thread: another one would call at an
        unrepeatable time.

        Raises:
            NotSimulatedError: Another thread called.
        """
        if threading.get_ident() != self._thread:
            raise NotSimulatedError("another thread called into a virtual loop")
        return self.call_soon(callback, *args, context=context)

    def _make_self_pipe(self) -> None:
        """Make no pipe to wake the loop by: nothing else may wake it."""

    def _close_self_pipe(self) -> None:
        """Do nothing: there is no pipe."""

    def _write_to_self(self) -> None:
        """Do nothing: there is no pipe."""


def _do_nothing() -> None: ...


def _let_time_pass() -> bool:
    return False


def _refuse(method_name: str) -> Callable[..., NoReturn]:
    def _raise_refusal(_self: VirtualLoop, *_args: object, **_options: object) -> NoReturn:
        raise NotSimulatedError(f"{method_name} is not simulated in virtual time")

    _raise_refusal.__name__ = method_name
    return _raise_refusal


for _name in _REFUSED_METHODS:
    setattr(VirtualLoop, _name, _refuse(_name))


class _JumpingSelector(selectors.BaseSelector):
    """A selector that never waits and has no files."""

    def __init__(self, wait: Callable[[float | None], None]) -> None:
        self._wait = wait

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._wait(timeout)
        return []

    def register(self, fileobj: object, *_more: object) -> NoReturn:
        """Refuse.

        Raises:
            NotSimulatedError: Always.
        """
        raise NotSimulatedError(f"{fileobj!r} can't be waited for in virtual time")

    def unregister(self, fileobj: object) -> NoReturn:
        raise KeyError(f"{fileobj!r} is not registered")

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


TASK_NAME: Final = "Task-{number}"
"""Name of a task that is given none, as in asyncio, whose numbers are those of the process."""


class NumberedFuture(asyncio.Future[Any]):
    """A future of a virtual loop. Its hash is its number in the run, as with tasks.

    asyncio's own hash is the address, which differs from process to process, and so does the order
    in which a library takes futures out of a set: ``asyncio.wait`` returns one.
    """

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class NumberedTask(asyncio.Task[Any]):
    """A task of a virtual loop, whose hash is its number in the run."""

    def __init__(
        self,
        number: int,
        coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **options: Any,
    ) -> None:
        self._number = number  # before asyncio puts it into its set of all tasks
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class Numbers:
    """Makes the tasks and futures of one loop."""

    def __init__(self) -> None:
        self._next: Callable[[], int] = itertools.count(1).__next__
        self._next_name: Callable[[], int] = itertools.count(1).__next__

    def future(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        return NumberedFuture(self._next(), loop=loop)

    def task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[Any]:
        """Make a task, as ``loop.create_task`` is called for it."""
        if name is None:
            name = TASK_NAME.format(number=self._next_name())
        return NumberedTask(
            self._next(), coroutine, loop=loop, name=name, context=context, **options
        )
