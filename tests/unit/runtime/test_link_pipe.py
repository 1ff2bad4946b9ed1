"""Latency with order."""

from __future__ import annotations

from txnsim.runtime.link_pipe import Pipe
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual


def test_a_quick_message_does_not_overtake_a_slow_one() -> None:
    arrived: list[tuple[str, int]] = []

    async def main(env: VirtualEnvironment) -> None:
        start_ms = env.clock.monotonic_ms()
        pipe = Pipe(env.clock)
        done = env.loop.create_future()
        for name, latency_ms in (("slow", 30.0), ("quick", 5.0)):
            pipe.send(
                latency_ms,
                lambda name=name: arrived.append((name, env.clock.monotonic_ms() - start_ms)),
            )
        pipe.send(40.0, lambda: done.set_result(None))
        await done

    run_virtual(main, seed=1)
    assert arrived == [("slow", 30), ("quick", 30)]
