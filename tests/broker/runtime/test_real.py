"""The real world: system clocks and event loops."""

from __future__ import annotations

import asyncio
import builtins
import time
from collections.abc import Callable

import pytest

from tests.support.slow_machine import SLOW_S
from txnsim.runtime import real
from txnsim.runtime.real import (
    RealClock,
    free_ports,
    new_event_loop,
    real_environment,
    run,
    tcp_socket,
)
from txnsim.runtime.trace import TraceLevel
from txnsim.types import BrokerId


async def test_cluster_time_is_wall_time() -> None:
    before = time.time_ns() // 1_000_000
    now = RealClock(asyncio.get_running_loop()).now_ms()
    assert before <= now <= time.time_ns() // 1_000_000


async def test_the_monotonic_clock_starts_anywhere_so_that_clocks_can_not_be_mixed() -> None:
    loop = asyncio.get_running_loop()
    starts = {RealClock(loop).monotonic_ms() for _ in range(8)}
    assert len(starts) == 8


async def test_timers_fire_on_a_real_loop() -> None:
    clock = RealClock(asyncio.get_running_loop())
    fired: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    deadline_ms = clock.now_ms() + 20
    clock.call_at(deadline_ms, lambda: fired.set_result(clock.now_ms()))
    assert await asyncio.wait_for(fired, SLOW_S) >= deadline_ms


async def test_the_environment_is_whole() -> None:
    env = real_environment(seed=7, trace_level=TraceLevel.FULL)

    async def echo(_key: int, _version: int, command: object, _source: BrokerId) -> object:
        return command

    env.network.register(BrokerId(1), echo)
    reply = env.network.ask(BrokerId(1), BrokerId(1), 27, 1, "x", timeout_ms=10_000)
    assert await reply == "x"
    assert env.rng.stream("a").random() == real_environment(seed=7).rng.stream("a").random()
    assert [event.k for event in env.tracer.events()] == ["msg.send", "msg.recv"] * 2
    await env.tasks.close()


def test_run_answers_and_raises_what_main_does() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 7

    async def fail() -> None:
        raise ValueError("broken")

    assert run(answer()) == 7
    with pytest.raises(ValueError, match="broken"):
        run(fail())


def test_uvloop_is_taken_where_it_is_and_asyncio_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uvloop = pytest.importorskip("uvloop", reason="no uvloop on this platform")
    loop = new_event_loop()
    assert isinstance(loop, uvloop.Loop)
    loop.close()

    original: Callable[..., object] = builtins.__import__

    def without_uvloop(name: str, *args: object, **options: object) -> object:
        if name == "uvloop":
            raise ImportError(name)
        return original(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without_uvloop)
    loop = real.new_event_loop()
    assert isinstance(loop, asyncio.SelectorEventLoop)
    loop.close()


def test_peers_timers_and_sockets_work_on_uvloop_too() -> None:
    async def main() -> list[object]:
        env = real_environment(latency_ms=lambda _source, _target: 1.0)
        gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def handler(_key: int, _version: int, _command: object, _source: BrokerId) -> object:
            return await gate

        env.network.register(BrokerId(1), handler)
        reply = env.network.ask(BrokerId(2), BrokerId(1), 27, 1, "x", timeout_ms=10_000)
        env.clock.call_at(env.clock.now_ms() + 3_600_000, lambda: gate.set_result("advanced"))
        env.clock.advance(3_600_000)
        listener = await env.network.listen("127.0.0.1", 0, asyncio.Protocol)
        transport = await env.network.connect(*listener.address, asyncio.Protocol)
        transport.close()
        await listener.close()
        answer = await reply
        await env.tasks.close()
        return [answer]

    assert run(main()) == ["advanced"]


def test_free_ports_are_those_that_no_system_gives_away(monkeypatch: pytest.MonkeyPatch) -> None:
    found = free_ports(20)
    assert len(set(found)) == 20
    assert all(10_000 <= port < 32_768 for port in found)
    (taken,) = free_ports(1)
    with tcp_socket("127.0.0.1", taken) as busy:
        busy.listen()
        monkeypatch.setattr(real, "_PORTS_KEPT", range(taken, taken + 1))
        with pytest.raises(OSError, match="1 free ports are wanted"):
            free_ports(1)
