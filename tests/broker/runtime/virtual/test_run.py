"""Whole runs in virtual time."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import os
import random
import subprocess
import sys
import threading
import time
import traceback
import uuid

import pytest

from txnsim.errors import DeadlockError, NotSimulatedError, SimulationError
from txnsim.runtime.env import Environment
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.runtime.virtual.run import START_MS, VirtualEnvironment, run_virtual
from txnsim.types import BrokerId

ONE, TWO = BrokerId(1), BrokerId(2)


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

    async def peer(_key: int, _version: int, command: object, _source: BrokerId) -> object:
        await asyncio.sleep(env.rng.stream("peer").random() / 1_000)
        return command

    server = await asyncio.start_server(serve, "localhost", 0)
    port = server.sockets[0].getsockname()[1]
    env.network.register(ONE, peer)
    env.network.register(TWO, peer)
    replies = [
        env.network.ask(source, target, 27, 1, number, timeout_ms=30_000)
        for number in range(20)
        for source, target in ((ONE, TWO), (TWO, ONE))
    ]
    clients = [env.tasks.spawn(client(name, port), name=name) for name in {"ada", "bob", "cyd"}]
    await asyncio.wait(clients)
    assert [await reply for reply in replies] == [n for n in range(20) for _ in range(2)]
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
        before = (env.clock.now_ms(), time.time(), time.monotonic())
        await asyncio.sleep(3_600)
        after = (env.clock.now_ms(), time.time(), time.monotonic())
        return after[0] - before[0], after[1] - before[1], after[2] - before[2]

    started = time.monotonic()
    assert run_virtual(main, seed=1) == (3_600_000, 3_600.0, 3_600.0)
    assert time.monotonic() - started < 5


def test_an_hour_of_ticks_is_quick() -> None:
    async def main(env: VirtualEnvironment) -> int:
        ticks = 0
        while env.clock.monotonic_us() < 3_600_000_000:
            await asyncio.sleep(0.5)
            ticks += 1
        return ticks

    started = time.monotonic()
    assert run_virtual(main, seed=1) == 7_200
    assert time.monotonic() - started < 5


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    hashes = [run_virtual(echo_and_peers, seed=seed) for seed in (1, 1, 2)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_cause_that_another_run_has_left_in_the_context_is_none_of_this_one() -> None:
    alone = run_virtual(echo_and_peers, seed=5)
    other = Tracer(lambda: 0, level=TraceLevel.FULL)
    other.caused_by(other.emit("note", "x"))
    assert run_virtual(echo_and_peers, seed=5) == alone


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

    with pytest.raises(ValueError, match="broken") as caught:
        run_virtual(main, seed=4711)
    assert "seed 4711" in "".join(traceback.format_exception(caught.value))


def test_a_deadlock_is_an_error_and_not_a_hang() -> None:
    async def main(env: VirtualEnvironment) -> None:
        await env.loop.create_future()

    with pytest.raises(DeadlockError):
        run_virtual(main, seed=1)


def test_threads_are_refused() -> None:
    async def main(_env: VirtualEnvironment) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(NotSimulatedError):
        run_virtual(main, seed=1)


def test_two_runs_at_once_are_refused_with_the_remedy() -> None:
    """Also from another thread; what is under way goes on."""
    refused: list[BaseException] = []

    async def idle(_env: VirtualEnvironment) -> None:
        pytest.fail("entered")

    def second() -> None:
        try:
            run_virtual(idle, seed=2)
        except SimulationError as error:
            refused.append(error)

    async def main(env: VirtualEnvironment) -> int:
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        second()
        await asyncio.sleep(1)
        return env.clock.now_ms()

    assert run_virtual(main, seed=1) == START_MS + 1_000
    assert len(refused) == 2
    for error in refused:
        assert "in a process of its own (pytest -n, multiprocessing)" in str(error)
    assert run_virtual(main, seed=1) == START_MS + 1_000


def test_a_run_beside_a_real_loop_of_another_thread_is_safe() -> None:
    """Time, timers and chance are each thread's own; the run is as it is alone."""
    alone = run_virtual(echo_and_peers, seed=5)
    stop, enough = threading.Event(), threading.Event()
    seen: list[tuple[float, float, datetime.datetime, uuid.UUID]] = []

    async def real() -> None:
        while not stop.is_set():
            before = time.monotonic()
            await asyncio.sleep(0.002)
            random.seed(7)
            now = datetime.datetime.now(datetime.UTC)
            seen.append((time.monotonic() - before, time.time(), now, uuid.uuid4()))
            if len(seen) > 5:
                enough.set()

    thread = threading.Thread(target=asyncio.run, args=(real(),))

    async def main(env: VirtualEnvironment) -> str:
        thread.start()
        found = await echo_and_peers(env)
        assert enough.wait(60), "the real loop stands still"
        return found

    started = time.time()
    try:
        assert run_virtual(main, seed=5) == alone
    finally:
        stop.set()
        thread.join()
    assert all(waited >= 0.001 for waited, _, _, _ in seen)
    assert all(started <= at <= time.time() for _, at, _, _ in seen)
    assert all(started - 1 <= date.timestamp() <= time.time() + 1 for _, _, date, _ in seen)
    assert len({drawn for *_, drawn in seen}) == len(seen)


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

    with pytest.raises(ExceptionGroup) as caught:
        run_virtual(main, seed=1)
    assert len(caught.value.exceptions) == 2


def test_background_tasks_are_ended_with_the_run() -> None:
    ended = []

    async def for_ever() -> None:
        try:
            for _ in itertools.count():
                await asyncio.sleep(1)
        finally:
            ended.append(True)

    async def main(env: VirtualEnvironment) -> None:
        env.tasks.spawn(for_ever(), name="for ever")
        await asyncio.sleep(10)

    run_virtual(main, seed=1)
    assert ended == [True]


def test_the_trace_is_strict_whole_and_may_be_off() -> None:
    async def main(env: VirtualEnvironment) -> tuple[bool, str]:
        env.tracer.emit("note", "a")
        return env.tracer.on, env.tracer.run.clock

    assert run_virtual(main, seed=1) == (True, "virtual")
    assert run_virtual(main, seed=1, trace_level=TraceLevel.OFF) == (False, "virtual")
