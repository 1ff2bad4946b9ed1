"""Whole runs in virtual time, their loop and their process."""

from __future__ import annotations

import asyncio
import datetime
import gc
import itertools
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from txnsim.errors import DeadlockError, LivelockError, NotSimulatedError, SimulationError
from txnsim.runtime.environment import Environment
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.runtime.virtual import reproducible_process
from txnsim.runtime.virtual.reproducible_process import (
    ADDRESSES,
    STRINGS,
    arrange_process,
    limits_of_process,
)
from txnsim.runtime.virtual.run import (
    MONOTONIC_START_NS,
    START_MS,
    VirtualEnvironment,
    VirtualLoop,
    run_virtual,
)
from txnsim.types import BrokerId

# Whole runs in virtual time.


B1, B2 = BrokerId(1), BrokerId(2)


async def echo_and_peers(env: VirtualEnvironment) -> str:
    """An echo server, two clients, two peers; answers the hash of the trace."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            env.tracer.emit("client.deliver", "server", data={"value": line.decode()})
            writer.write(line)
            await writer.drain()
        writer.close()

    async def client(name: str, port: int) -> None:
        reader, writer = await asyncio.open_connection("localhost", port)
        for number in range(20):
            writer.write(f"{name} {number} {random.random()}\n".encode())
            await reader.readline()
            await asyncio.sleep(random.random() / 1_000)
        writer.close()
        await writer.wait_closed()

    async def peer(
        _key: int, _version: int, command: object, _source_broker_id: BrokerId
    ) -> object:
        await asyncio.sleep(env.rng.stream("peer").random() / 1_000)
        return command

    server = await asyncio.start_server(serve, "localhost", 0)
    port = server.sockets[0].getsockname()[1]
    env.network.register(B1, peer)
    env.network.register(B2, peer)
    replies = [
        env.network.ask(source_broker_id, target_broker_id, 27, 1, reply_number, timeout_ms=30_000)
        for reply_number in range(20)
        for source_broker_id, target_broker_id in ((B1, B2), (B2, B1))
    ]
    clients = [env.tasks.spawn(client(name, port), name=name) for name in {"ada", "bob", "cyd"}]
    await asyncio.wait(clients)
    assert [await reply_future for reply_future in replies] == [
        n for n in range(20) for _ in range(2)
    ]
    await asyncio.sleep(3_600)
    server.close()
    return env.tracer.hash


def test_main_is_handed_an_environment_and_its_answer_comes_back() -> None:
    async def main(env: VirtualEnvironment) -> int:
        assert isinstance(env, Environment)
        assert env.seed == 7
        return env.clock.now_ms()

    assert run_virtual(main, seed=7) == START_MS
    assert run_virtual(main, seed=7, start_ms=5) == 5


def test_an_hour_takes_no_time() -> None:
    async def main(env: VirtualEnvironment) -> tuple[int, float, float]:
        times_before = (env.clock.now_ms(), time.time(), time.monotonic())
        await asyncio.sleep(3_600)
        times_after = (env.clock.now_ms(), time.time(), time.monotonic())
        return (
            times_after[0] - times_before[0],
            times_after[1] - times_before[1],
            times_after[2] - times_before[2],
        )

    started_s = time.monotonic()
    assert run_virtual(main, seed=1) == (3_600_000, 3_600.0, 3_600.0)
    assert time.monotonic() - started_s < 5


def test_an_hour_of_ticks_is_quick() -> None:
    async def main(env: VirtualEnvironment) -> int:
        tick_count = 0
        while env.clock.monotonic_us() < 3_600_000_000:
            await asyncio.sleep(0.5)
            tick_count += 1
        return tick_count

    started_s = time.monotonic()
    assert run_virtual(main, seed=1) == 7_200
    assert time.monotonic() - started_s < 5


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    hashes = [run_virtual(echo_and_peers, seed=seed) for seed in (1, 1, 2)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_cause_that_another_run_has_left_in_the_context_is_none_of_this_one() -> None:
    lone_result = run_virtual(echo_and_peers, seed=5)
    other_tracer = Tracer(lambda: 0, level=TraceLevel.FULL)
    other_tracer.set_cause(other_tracer.emit("note", "x"))
    assert run_virtual(echo_and_peers, seed=5) == lone_result


SCRIPT = """
import asyncio, random
from txnsim.runtime.virtual.run import run_virtual

async def main(env):
    async def serve(reader, writer):
        while line := await reader.readline():
            env.tracer.emit("client.deliver", "server", data={"value": line.decode()})
            writer.write(line)
        writer.close()

    async def client(name, port):
        reader, writer = await asyncio.open_connection("localhost", port)
        for number in range(10):
            writer.write(f"{name} {number} {random.random()}\\n".encode())
            await reader.readline()
        writer.close()

    server = await asyncio.start_server(serve, "localhost", 0)
    port = server.sockets[0].getsockname()[1]
    names = sorted({"ada", "bob", "cyd"})
    await asyncio.wait([env.tasks.spawn(client(name, port), name=name) for name in names])
    return env.tracer.hash

print(run_virtual(main, seed=3))
"""


@pytest.mark.costly
@pytest.mark.slow
def test_the_trace_does_not_depend_on_the_hash_seed() -> None:
    hashes = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert len(hashes) == 1
    assert next(iter(hashes)).startswith("sha256:")


def test_chance_of_third_parties_follows_the_seed() -> None:
    async def main(_env: VirtualEnvironment) -> float:
        return random.random()

    assert run_virtual(main, seed=1) == run_virtual(main, seed=1) != run_virtual(main, seed=2)


def test_a_failure_carries_its_seed() -> None:
    async def main(_env: VirtualEnvironment) -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken") as error_info:
        run_virtual(main, seed=4711)
    assert "seed 4711" in "".join(traceback.format_exception(error_info.value))


def test_a_deadlock_is_an_error_and_not_a_hang() -> None:
    async def main(env: VirtualEnvironment) -> None:
        await env.loop.create_future()

    with pytest.raises(DeadlockError):
        run_virtual(main, seed=1)


class OverLimitError(KeyboardInterrupt):
    """As the limit on processor time raises it."""


def test_a_task_that_lost_its_wakeup_is_closed_with_its_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A signal that strikes between taking a callback and calling it loses the callback."""
    ends: list[str] = []

    async def main(env: VirtualEnvironment) -> None:
        woken_future = env.loop.create_future()

        async def connect() -> None:
            try:
                await woken_future
            finally:
                try:
                    await env.loop.create_future()
                finally:
                    ends.append("connect")

        env.tasks.spawn(connect(), name="connect")
        await asyncio.sleep(1)
        woken_future.set_result(None)
        env.loop._ready.clear()  # type: ignore[attr-defined]
        raise OverLimitError

    with pytest.raises(BaseException, match=r"nothing is scheduled|^$"):
        run_virtual(main, seed=1)
    assert ends == ["connect"]
    gc.collect()
    assert not caplog.records


def test_threads_are_refused() -> None:
    async def main(_env: VirtualEnvironment) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(NotSimulatedError):
        run_virtual(main, seed=1)


def test_two_runs_at_once_are_refused_with_the_remedy() -> None:
    """The refusal comes also in another thread; the run in progress goes on."""
    refusals: list[BaseException] = []

    async def idle(_env: VirtualEnvironment) -> None:
        pytest.fail("entered")

    def second() -> None:
        try:
            run_virtual(idle, seed=2)
        except SimulationError as error:
            refusals.append(error)

    async def main(env: VirtualEnvironment) -> int:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        second()
        await asyncio.sleep(1)
        return env.clock.now_ms()

    assert run_virtual(main, seed=1) == START_MS + 1_000
    assert len(refusals) == 2
    for error in refusals:
        assert "in a process of its own (pytest -n, multiprocessing)" in str(error)
    assert run_virtual(main, seed=1) == START_MS + 1_000


def test_a_run_beside_a_real_loop_of_another_thread_is_safe() -> None:
    """Each thread has its own time, timers and chance; the other loop does not change the run."""
    lone_result = run_virtual(echo_and_peers, seed=5)
    stop_event, enough_event = threading.Event(), threading.Event()
    real_readings: list[tuple[float, float, datetime.datetime, uuid.UUID]] = []

    async def real() -> None:
        while not stop_event.is_set():
            monotonic_before = time.monotonic()
            await asyncio.sleep(0.002)
            random.seed(7)
            wall_clock = datetime.datetime.now(datetime.UTC)
            real_readings.append(
                (time.monotonic() - monotonic_before, time.time(), wall_clock, uuid.uuid4())
            )
            if len(real_readings) > 5:
                enough_event.set()

    thread = threading.Thread(target=asyncio.run, args=(real(),))

    async def main(env: VirtualEnvironment) -> str:
        thread.start()
        result_text = await echo_and_peers(env)
        assert enough_event.wait(60), "the real loop stands still"
        return result_text

    started_s = time.time()
    try:
        assert run_virtual(main, seed=5) == lone_result
    finally:
        stop_event.set()
        thread.join()
    assert all(waited_s >= 0.001 for waited_s, _, _, _ in real_readings)
    assert all(started_s <= wall_s <= time.time() for _, wall_s, _, _ in real_readings)
    assert all(
        started_s - 1 <= date.timestamp() <= time.time() + 1 for _, _, date, _ in real_readings
    )
    assert len({drawn_uuid for *_, drawn_uuid in real_readings}) == len(real_readings)


def test_a_failed_background_task_fails_the_run() -> None:
    async def fail() -> None:
        raise ValueError("in the background")

    async def main(env: VirtualEnvironment) -> None:
        env.tasks.spawn(fail(), name="fail")
        await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup):
        run_virtual(main, seed=1)


def test_a_failed_callback_fails_the_run() -> None:
    def fail() -> None:
        raise ValueError("in a timer")

    async def main(env: VirtualEnvironment) -> None:
        env.clock.call_at(START_MS + 10, fail)
        env.clock.call_later(20, fail)
        await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as error_info:
        run_virtual(main, seed=1)
    assert len(error_info.value.exceptions) == 2


def test_background_tasks_are_ended_with_the_run() -> None:
    ended_tasks = []

    async def for_ever() -> None:
        try:
            for _ in itertools.count():
                await asyncio.sleep(1)
        finally:
            ended_tasks.append(True)

    async def main(env: VirtualEnvironment) -> None:
        env.tasks.spawn(for_ever(), name="for ever")
        await asyncio.sleep(10)

    run_virtual(main, seed=1)
    assert ended_tasks == [True]


def test_the_trace_is_strict_whole_and_may_be_off() -> None:
    async def main(env: VirtualEnvironment) -> tuple[bool, str]:
        env.tracer.emit("note", "a")
        return env.tracer.on, env.tracer.run.clock

    assert run_virtual(main, seed=1) == (True, "virtual")
    assert run_virtual(main, seed=1, trace_level=TraceLevel.OFF) == (False, "virtual")


# An event loop whose clock jumps.


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop(idle_turns_max=10_000)
    yield loop
    loop.close()


def test_the_clock_jumps_exactly_to_deadlines(loop: VirtualLoop) -> None:
    times_ns = []

    async def main() -> None:
        for delay in (0.029, 0.001, 3_600, 0.000_001, 7 * 86_400):
            await asyncio.sleep(delay)
            times_ns.append(loop.time_ns() - MONOTONIC_START_NS)

    loop.run_until_complete(main())
    assert times_ns == [
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
    left_s, turn_count = 1e-13, 0
    deadline_s = loop.time() + left_s

    async def main() -> None:
        nonlocal turn_count
        while loop.time() <= deadline_s:
            turn_count += 1
            finish_future = loop.create_future()
            loop.call_later(left_s, finish_future.set_result, None)
            await finish_future

    loop.run_until_complete(main())
    assert turn_count == 1


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
    with socket.socket() as real_socket, pytest.raises(NotSimulatedError):
        loop.run_until_complete(loop.sock_connect(real_socket, ("127.0.0.1", 1)))


@pytest.mark.parametrize("kind", ["create_server", "create_connection"])
def test_tls_and_a_missing_network_are_refused(loop: VirtualLoop, kind: str) -> None:
    def ask(ssl: bool | None) -> Awaitable[object]:
        answer_awaitable: Awaitable[object] = getattr(loop, kind)(
            asyncio.Protocol, "localhost", 1, ssl=ssl
        )
        return answer_awaitable

    with pytest.raises(NotSimulatedError, match="TLS"):
        loop.run_until_complete(ask(ssl=True))
    with pytest.raises(NotSimulatedError, match="network"):
        loop.run_until_complete(ask(ssl=None))


def test_a_hook_is_called_before_a_client_connects(loop: VirtualLoop) -> None:
    """The hook runs late, when the client's library is loaded."""
    looks: list[str] = []
    loop.before_connect = lambda: looks.append("looked")
    with pytest.raises(NotSimulatedError, match="network"):
        loop.run_until_complete(loop.create_connection(asyncio.Protocol, "localhost", 1))
    assert looks == ["looked"]


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
    numbers: list[int] = []

    async def main() -> None:
        loop.call_soon_threadsafe(numbers.append, 1)
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    assert numbers == [1]


def run(main: Any) -> Any:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


def test_numbers_follow_the_order_of_making_in_each_loop() -> None:
    async def main() -> tuple[list[int], list[str]]:
        loop = asyncio.get_running_loop()

        async def nothing() -> None:
            """Return at once."""

        futures: list[asyncio.Future[Any]] = [loop.create_future(), loop.create_task(nothing())]
        futures += [asyncio.ensure_future(nothing()), loop.create_future()]
        tasks = [future for future in futures if isinstance(future, asyncio.Task)]
        await asyncio.wait(tasks)
        return [hash(future) - hash(futures[0]) for future in futures], [
            task.get_name() for task in tasks
        ]

    first_outcome = run(main)
    assert first_outcome == run(main)
    assert first_outcome == ([0, 1, 2, 3], ["Task-2", "Task-3"])  # the first one is main


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
        calls: list[str] = []

        def factory(loop: Any, coroutine: Any, **options: Any) -> Any:
            calls.append("asked")
            return asyncio.Task(coroutine, loop=loop, **options)

        async def nothing() -> None:
            """Return at once."""

        asyncio.get_running_loop().set_task_factory(factory)
        await asyncio.create_task(nothing())
        return list(calls)  # the loop's own end asks again

    assert run(main) == ["asked"]


def test_a_set_of_tasks_is_iterated_in_one_order() -> None:
    async def main() -> list[int]:
        async def number(value: int) -> int:
            await asyncio.sleep(1)
            return value

        finished_tasks, _ = await asyncio.wait([asyncio.create_task(number(i)) for i in range(50)])
        return [task.result() for task in finished_tasks]

    first_order = run(main)
    keep = [object() for _ in range(10_000)]  # other addresses
    assert run(main) == first_order
    assert keep


# What of a process decides the order of hashes.


PROGRAM = """
import json, os, sys
from txnsim.runtime.virtual.reproducible_process import arrange_process, limits_of_process
before = limits_of_process()
limits = arrange_process()
print(json.dumps([sys.argv[1:], hash("a"), hash(None), limits, limits_of_process()]))
"""

FIXED_SINCE_3_12 = sys.version_info >= (3, 12)


def program(*options: str, hash_seed: str) -> list[object]:
    """The values that the program prints when it starts under a hash seed."""
    environ = {
        name: variable_value
        for name, variable_value in os.environ.items()
        if name != reproducible_process.ARRANGED
    }
    finished_process = subprocess.run(
        [sys.executable, *options, "-c", PROGRAM, "an argument", "--more"],
        env={**environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    answers: list[object] = json.loads(finished_process.stdout)
    return answers


def refuses(monkeypatch: pytest.MonkeyPatch, answer: int | None) -> None:
    """Let the ``personality`` system call return ``answer``."""
    monkeypatch.setattr(reproducible_process, "_personality", lambda _persona: answer)


def test_an_arranged_process_hashes_alike_whatever_it_was_started_with() -> None:
    first_answers, second_answers = program(hash_seed="1"), program(hash_seed="random")
    assert first_answers == second_answers
    assert first_answers[0] == ["an argument", "--more"]
    assert first_answers[3:] == [[], []]


def test_where_variables_are_not_read_the_limit_is_named() -> None:
    environ = {
        name: variable_value
        for name, variable_value in os.environ.items()
        if name != reproducible_process.ARRANGED
    }
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from txnsim.runtime.virtual.reproducible_process import arrange_process\n"
        "print(*arrange_process())"
    )
    finished_process = subprocess.run(
        [sys.executable, "-E", "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert finished_process.stdout.strip() == STRINGS


@pytest.mark.skipif(FIXED_SINCE_3_12, reason="None hashes by a constant since Python 3.12")
def test_addresses_count_before_python_3_12(monkeypatch: pytest.MonkeyPatch) -> None:
    refuses(monkeypatch, 0)
    assert ADDRESSES in limits_of_process()
    refuses(monkeypatch, 0x0040000)
    assert ADDRESSES not in limits_of_process()
    refuses(monkeypatch, None)
    assert ADDRESSES in limits_of_process()


def test_a_program_is_started_again_at_most_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started_programs: list[tuple[list[str], dict[str, str]]] = []
    personas: list[int] = []

    def execve(_path: str, argv: list[str], env: dict[str, str]) -> None:
        started_programs.append((argv, env))
        raise SystemExit(0)

    monkeypatch.setattr(os, "execve", execve)

    def personality(persona: int) -> int:
        personas.append(persona)
        return 0

    monkeypatch.setattr(reproducible_process, "_personality", personality)
    monkeypatch.setattr(reproducible_process, "limits_of_process", lambda: (STRINGS,))
    monkeypatch.delenv(reproducible_process.ARRANGED, raising=False)
    with pytest.raises(SystemExit):
        arrange_process()
    argv, env = started_programs.pop()
    assert argv == [sys.executable, *sys.orig_argv[1:]]
    assert (env["PYTHONHASHSEED"], env[reproducible_process.ARRANGED]) == ("0", "1")
    assert personas == [0xFFFFFFFF, 0x0040000]
    monkeypatch.setenv(reproducible_process.ARRANGED, "1")
    assert arrange_process() == (STRINGS,)
    assert started_programs == []


def test_an_arranged_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproducible_process, "limits_of_process", tuple)
    assert arrange_process() == ()


def test_elsewhere_than_on_linux_there_is_no_such_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert reproducible_process._personality(0) is None
