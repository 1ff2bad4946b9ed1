"""What a user does to a cluster is the root of what follows."""

from __future__ import annotations

from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.server.inputs import advance, told


def test_an_input_is_the_cause_of_what_is_done_inside() -> None:
    async def main(env: VirtualEnvironment) -> None:
        with told(env, "kill", broker=2, lose_unflushed=False, as_version=None):
            env.tracer.emit("node.down", "broker/2")
        env.tracer.emit("note", "x")
        done, down, after = env.tracer.events()
        assert (done.k, done.p, env.tracer.nodes[done.n]) == ("input", (), "user")
        assert done.d == {"do": "kill", "args": {"broker": 2}, "at": env.clock.now_ms()}
        assert (down.p, after.p) == ((done.i,), ())

    run_virtual(main, seed=1)


def test_what_a_fault_does_is_no_input() -> None:
    async def main(env: VirtualEnvironment) -> None:
        hit = env.tracer.emit("fault.hit", "fault")
        env.tracer.caused_by(hit)
        with told(env, "kill", broker=2):
            env.tracer.emit("node.down", "broker/2")
        assert [event.p for event in env.tracer.events()] == [(), (hit,)]

    run_virtual(main, seed=1)


def test_time_that_is_let_go_on_is_told() -> None:
    async def main(env: VirtualEnvironment) -> None:
        advance(env, 5_000)
        (event,) = env.tracer.events()
        assert event.d == {
            "do": "advance", "args": {"ms": 5_000}, "at": env.clock.now_ms() - 5_000
        }  # fmt: skip

    run_virtual(main, seed=1)


def test_while_the_trace_is_off_only_the_deed_is_done() -> None:
    async def main(env: VirtualEnvironment) -> None:
        advance(env, 5_000)
        assert (env.clock.advanced_ms, len(env.tracer)) == (5_000, 0)

    run_virtual(main, seed=1, trace_level=TraceLevel.OFF)
