"""What a user does to a cluster is the root of what follows."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.support.within import within
from txnsim.errors import ConfigError
from txnsim.runtime.trace import TraceLevel
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.server.inputs import LOGGED_CHARACTERS_MAX, advance, input_event


@within(run_virtual, seed=1)
async def test_an_input_is_the_cause_of_what_is_done_inside(env: VirtualEnvironment) -> None:
    with input_event(env, "kill", broker=2, lose_unflushed=False, as_version=None):
        env.tracer.emit("node.down", "broker/2")
    env.tracer.emit("note", "x")
    done, down, after = env.tracer.events()
    assert (done.k, done.p, env.tracer.nodes[done.n]) == ("input", (), "user")
    assert done.d == {"do": "kill", "args": {"broker": 2}, "at": env.clock.now_ms()}
    assert (down.p, after.p) == ((done.i,), ())


@within(run_virtual, seed=1)
async def test_what_a_fault_does_is_no_input(env: VirtualEnvironment) -> None:
    hit = env.tracer.emit("fault.hit", "fault")
    env.tracer.caused_by(hit)
    with input_event(env, "kill", broker=2):
        env.tracer.emit("node.down", "broker/2")
    assert [event.p for event in env.tracer.events()] == [(), (hit,)]


@within(run_virtual, seed=1)
async def test_time_that_is_let_go_on_is_told(env: VirtualEnvironment) -> None:
    advance(env, 5_000)
    (event,) = env.tracer.events()
    assert event.d == {
        "do": "advance", "args": {"ms": 5_000}, "at": env.clock.now_ms() - 5_000
    }  # fmt: skip


@within(run_virtual, seed=1, trace_level=TraceLevel.OFF)
async def test_while_the_trace_is_off_only_the_deed_is_done(env: VirtualEnvironment) -> None:
    advance(env, 5_000)
    assert (env.clock.advanced_ms, len(env.tracer)) == (5_000, 0)


@pytest.mark.usefixtures("all_levels")
def test_what_a_user_does_is_logged_also_without_a_trace() -> None:
    async def main(env: VirtualEnvironment) -> None:
        with input_event(env, "kill", broker=2, lose_unflushed=False):
            pass
        with input_event(env, "create-topic", configs={"k" * 2_000: "v"}):
            pass
        with input_event(env, "create-topics"):
            pass
        advance(env, 31_000)
        with pytest.raises(ConfigError), input_event(env, "stop", broker=9):
            raise ConfigError("there is no broker 9")

    with capture_logs() as logs:
        run_virtual(main, seed=1, trace_level=TraceLevel.OFF)
    said = [(one["event"], one["log_level"]) for one in logs]
    assert said == [
        ("user.kill", "info"),
        ("user.create-topic", "info"),
        ("user.advance", "info"),
        ("user.stop", "info"),
        ("user.refused", "info"),
    ]
    assert (logs[4]["do"], logs[4]["why"]) == ("stop", "there is no broker 9")
    assert (logs[0]["broker"], logs[2]["ms"]) == (2, 31_000)
    assert len(logs[1]["configs"]) == LOGGED_CHARACTERS_MAX + 1
    assert "lose_unflushed" not in logs[0]
