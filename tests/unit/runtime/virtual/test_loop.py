"""An event loop whose clock jumps."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest

from txnsim.errors import DeadlockError, LivelockError, NotSimulatedError
from txnsim.runtime.virtual.loop import MONOTONIC_START_NS, VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop(idle_turns_max=10_000)
    yield loop
    loop.close()


def test_the_clock_jumps_exactly_to_deadlines(loop: VirtualLoop) -> None:
    seen = []

    async def main() -> None:
        for delay in (0.029, 0.001, 3_600, 0.000_001, 7 * 86_400):
            await asyncio.sleep(delay)
            seen.append(loop.time_ns() - MONOTONIC_START_NS)

    loop.run_until_complete(main())
    assert seen == [
        29_000_000,
        30_000_000,
        3_600_030_000_000,
        3_600_030_001_000,
        3_600_030_001_000 + 7 * 86_400 * 1_000_000_000,
    ]


def test_timers_fire_in_order_of_deadlines(loop: VirtualLoop) -> None:
    fired: list[int] = []

    async def main() -> None:
        for delay in (5, 1, 3):
            loop.call_later(delay, fired.append, delay)
        await asyncio.sleep(10)

    loop.run_until_complete(main())
    assert fired == [1, 3, 5]


def test_years_pass_without_the_clock_standing_still(loop: VirtualLoop) -> None:
    async def main() -> None:
        for _ in range(40):
            await asyncio.sleep(86_400 * 30 + 0.1)

    loop.run_until_complete(main())
    assert loop.time() > 40 * 86_400 * 30


def test_a_client_that_waits_for_a_rounding_error_gets_on(loop: VirtualLoop) -> None:
    """aiokafka's idle check asks for what is left until it is nothing, as time does go on."""
    left_s, turns = 1e-13, 0
    deadline_s = loop.time() + left_s

    async def main() -> None:
        nonlocal turns
        while loop.time() <= deadline_s:
            turns += 1
            over = loop.create_future()
            loop.call_later(left_s, over.set_result, None)
            await over

    loop.run_until_complete(main())
    assert turns == 1


def test_waiting_with_nothing_scheduled_names_the_waiting_tasks(loop: VirtualLoop) -> None:
    async def wait() -> None:
        await loop.create_future()

    task = loop.create_task(wait(), name="the-waiter")
    with pytest.raises(DeadlockError, match="the-waiter"):
        loop.run_until_complete(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)


def test_turning_without_time_going_on_is_a_livelock(loop: VirtualLoop) -> None:
    async def spin() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    task = loop.create_task(spin(), name="the-spinner")
    with pytest.raises(LivelockError, match="the-spinner"):
        loop.run_until_complete(task)
    task.cancel()
    loop._idle_turns = 0
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)


def test_turns_are_counted_anew_when_time_goes_on(loop: VirtualLoop) -> None:
    async def main() -> None:
        for _ in range(15):
            for _ in range(1_000):
                await asyncio.sleep(0)
            await asyncio.sleep(0.001)

    loop.run_until_complete(main())


REFUSED: list[Callable[[VirtualLoop], object]] = [
    lambda loop: loop.run_in_executor(None, print),
    lambda loop: loop.getaddrinfo("localhost", 1),
    lambda loop: loop.getnameinfo(("127.0.0.1", 1)),
    lambda loop: loop.subprocess_shell(asyncio.SubprocessProtocol, "true"),
    lambda loop: loop.subprocess_exec(asyncio.SubprocessProtocol, "true"),
    lambda loop: loop.create_datagram_endpoint(asyncio.DatagramProtocol),
    lambda loop: loop.add_reader(0, print),
    lambda loop: loop.add_signal_handler(1, print),
    lambda loop: loop.create_unix_server(asyncio.Protocol, "x"),
]


@pytest.mark.parametrize("ask", REFUSED)
def test_what_is_not_simulated_raises(
    loop: VirtualLoop, ask: Callable[[VirtualLoop], object]
) -> None:
    with pytest.raises(NotSimulatedError, match="not simulated"):
        ask(loop)


def test_real_sockets_are_refused(loop: VirtualLoop) -> None:
    with socket.socket() as real, pytest.raises(NotSimulatedError):
        loop.run_until_complete(loop.sock_connect(real, ("127.0.0.1", 1)))


@pytest.mark.parametrize("kind", ["create_server", "create_connection"])
def test_tls_and_a_missing_network_are_refused(loop: VirtualLoop, kind: str) -> None:
    def ask(ssl: bool | None) -> Awaitable[object]:
        answer: Awaitable[object] = getattr(loop, kind)(asyncio.Protocol, "localhost", 1, ssl=ssl)
        return answer

    with pytest.raises(NotSimulatedError, match="TLS"):
        loop.run_until_complete(ask(ssl=True))
    with pytest.raises(NotSimulatedError, match="network"):
        loop.run_until_complete(ask(ssl=None))


def test_a_hook_is_called_before_a_client_connects(loop: VirtualLoop) -> None:
    """By then its library is loaded."""
    looked: list[str] = []
    loop.before_connect = lambda: looked.append("looked")
    with pytest.raises(NotSimulatedError, match="network"):
        loop.run_until_complete(loop.create_connection(asyncio.Protocol, "localhost", 1))
    assert looked == ["looked"]


def test_another_thread_can_not_come_in(loop: VirtualLoop) -> None:
    caught: list[BaseException] = []

    def call() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except NotSimulatedError as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(caught) == 1


def test_the_own_thread_may_call_threadsafe(loop: VirtualLoop) -> None:
    seen: list[int] = []

    async def main() -> None:
        loop.call_soon_threadsafe(seen.append, 1)
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    assert seen == [1]
