"""An event loop whose clock jumps."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from txnsim.errors import DeadlockError, LivelockError, NotSimulatedError
from txnsim.runtime.virtual._loop import MONOTONIC_START_NS, VirtualLoop


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


def run(main: Any) -> Any:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


def test_numbers_follow_the_order_of_making_in_each_loop() -> None:
    async def main() -> tuple[list[int], list[str]]:
        loop = asyncio.get_running_loop()

        async def nothing() -> None:
            """Done at once."""

        made: list[asyncio.Future[Any]] = [loop.create_future(), loop.create_task(nothing())]
        made += [asyncio.ensure_future(nothing()), loop.create_future()]
        tasks = [one for one in made if isinstance(one, asyncio.Task)]
        await asyncio.wait(tasks)
        return [hash(one) - hash(made[0]) for one in made], [one.get_name() for one in tasks]

    first = run(main)
    assert first == run(main)
    assert first == ([0, 1, 2, 3], ["Task-2", "Task-3"])  # the first one is main


def test_equal_is_only_what_is_the_same() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        return len({loop.create_future() for _ in range(100)})

    assert run(main) == 100


def test_a_task_keeps_its_name_and_its_context() -> None:
    async def main() -> str:
        async def name() -> str:
            task = asyncio.current_task()
            assert task is not None
            return task.get_name()

        return await asyncio.create_task(name(), name="told")

    assert run(main) == "told"


def test_a_factory_that_was_set_is_asked() -> None:
    async def main() -> list[str]:
        asked: list[str] = []

        def factory(loop: Any, coroutine: Any, **options: Any) -> Any:
            asked.append("asked")
            return asyncio.Task(coroutine, loop=loop, **options)

        async def nothing() -> None:
            """Done at once."""

        asyncio.get_running_loop().set_task_factory(factory)
        await asyncio.create_task(nothing())
        return list(asked)  # the loop's own end asks again

    assert run(main) == ["asked"]


def test_a_set_of_tasks_is_iterated_in_one_order() -> None:
    async def main() -> list[int]:
        async def number(value: int) -> int:
            await asyncio.sleep(1)
            return value

        done, _ = await asyncio.wait([asyncio.create_task(number(i)) for i in range(50)])
        return [task.result() for task in done]

    first = run(main)
    keep = [object() for _ in range(10_000)]  # other addresses
    assert run(main) == first
    assert keep
