"""Links between brokers, on a real loop and on a virtual one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from structlog.testing import capture_logs

from tests.support.peer_network import future_of
from tests.support.within_environment import within
from txnsim.errors import ErrorCode, PeerAnsweredError, PeerDisconnectedError, PeerTimeoutError
from txnsim.faults.interception import Crossing, FaultEffect, SubmitOutcome
from txnsim.faults.subjects import Subject
from txnsim.interbroker.transactions import AllocateProducerIdsCommand
from txnsim.runtime._link_cuts import LinkCut
from txnsim.runtime.network import LoopNetwork
from txnsim.runtime.real_world import RealClock
from txnsim.runtime.tasks import LoopTasks
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual
from txnsim.types import BrokerId

T = TypeVar("T")
A, B, C = BrokerId(1), BrokerId(2), BrokerId(3)
COMMAND = AllocateProducerIdsCommand(broker_id=A, broker_epoch=7)


async def echo(_key: int, _version: int, command: object, _source_broker_id: BrokerId) -> object:
    return command


class LinkBench:
    """A network on the running loop, whose timers a test reads."""

    def __init__(self, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        self.clock = RealClock(loop)
        self.tasks = LoopTasks(loop)
        self.tracer = Tracer(self.clock.monotonic_us, level=TraceLevel.FULL, is_strict=True)
        self.network = LoopNetwork(
            loop, clock=self.clock, tasks=self.tasks, tracer=self.tracer, **options
        )

    def handled_by(
        self, target_broker_id: BrokerId, handled_before: list[object] | None = None
    ) -> list[object]:
        """Register a broker that answers None; return the list of the commands that it gets."""
        handled = [] if handled_before is None else handled_before

        async def handler(
            _key: int, _version: int, command: object, _source_broker_id: BrokerId
        ) -> object:
            handled.append(command)
            return None

        self.network.register(target_broker_id, handler)
        return handled

    def ask(
        self,
        command: object = "x",
        *,
        source: BrokerId = A,
        target: BrokerId = B,
        timeout_ms: int = 30_000,
    ) -> asyncio.Future[Any]:
        return future_of(self.network.ask(source, target, 27, 1, command, timeout_ms=timeout_ms))


class Script:
    """An interceptor that answers from a table and writes down what crossed."""

    is_armed = True

    def __init__(
        self, **verdicts: FaultEffect | Callable[[], Awaitable[FaultEffect] | FaultEffect]
    ) -> None:
        self._verdicts = verdicts
        self.crossings: list[Crossing] = []

    def cross(self, crossing_point: Crossing) -> FaultEffect | Awaitable[FaultEffect] | None:
        self.crossings.append(crossing_point)
        if crossing_point.is_copy:
            return None
        verdict = self._verdicts.get(crossing_point.point.replace(".", "_"))
        return verdict() if callable(verdict) else verdict


PASS = FaultEffect(outcome=SubmitOutcome.PASS)
DROP = FaultEffect(outcome=SubmitOutcome.DROP)
NOT_COORDINATOR = FaultEffect(outcome=SubmitOutcome.ERROR, error=int(ErrorCode.not_coordinator))


# Delivery


async def test_a_request_is_answered_by_its_target() -> None:
    link_bench = LinkBench()
    requests_handled: list[object] = []

    async def handler(
        key: int, version: int, command: object, source_broker_id: BrokerId
    ) -> object:
        requests_handled.append((key, version, command, source_broker_id))
        return "reply"

    link_bench.network.register(B, handler)
    assert await link_bench.ask(COMMAND) == "reply"
    assert requests_handled == [(27, 1, COMMAND, A)]
    assert link_bench.network.in_flight == 0


async def test_delivery_is_in_a_later_turn_also_to_oneself() -> None:
    link_bench = LinkBench()
    requests_handled = link_bench.handled_by(A)
    future = link_bench.ask(target=A)
    assert requests_handled == []
    await future
    assert requests_handled == ["x"]


async def test_requests_of_a_turn_are_delivered_in_order() -> None:
    link_bench = LinkBench()
    commands_handled: list[object] = []

    async def handler(
        _key: int, _version: int, command: object, _source_broker_id: BrokerId
    ) -> object:
        commands_handled.append(command)
        return command

    link_bench.network.register(B, handler)
    link_bench.network.register(C, handler)
    futures = [link_bench.ask(n, target=(B, C)[n % 2]) for n in range(10)]
    assert [await future for future in futures] == list(range(10))
    assert commands_handled == list(range(10))


async def test_a_handler_may_wait_and_others_pass_it() -> None:
    link_bench = LinkBench()
    gate_future = asyncio.get_running_loop().create_future()

    async def handler(
        _key: int, _version: int, command: object, _source_broker_id: BrokerId
    ) -> object:
        if command == "slow":
            await gate_future
        return command

    link_bench.network.register(B, handler)
    slow_request_future, quick_future = link_bench.ask("slow"), link_bench.ask("quick")
    assert await quick_future == "quick"
    assert not slow_request_future.done()
    gate_future.set_result(None)
    assert await slow_request_future == "slow"


async def test_a_handler_may_answer_with_any_awaitable() -> None:
    link_bench = LinkBench()
    future = asyncio.get_running_loop().create_future()
    future.set_result("ready")
    link_bench.network.register(B, lambda *_: future)
    assert await link_bench.ask() == "ready"


# Failure


async def test_a_missing_peer_is_a_disconnect() -> None:
    link_bench = LinkBench()
    with pytest.raises(PeerDisconnectedError, match="1 -> 2: no such broker"):
        await link_bench.ask()


async def test_a_broker_that_goes_away_fails_what_is_under_way_to_it() -> None:
    link_bench = LinkBench()
    never_future = asyncio.get_running_loop().create_future()

    async def handler(
        _key: int, _version: int, _command: object, _source_broker_id: BrokerId
    ) -> object:
        return await never_future

    link_bench.network.register(B, handler)
    link_bench.network.register(C, handler)
    handled_future, other_request_future = link_bench.ask(), link_bench.ask(target=C)
    await asyncio.sleep(0)
    queued_future = link_bench.ask()
    link_bench.network.unregister(B)
    link_bench.network.register(B, echo)
    for future in (handled_future, queued_future):
        with pytest.raises(PeerDisconnectedError, match="went away"):
            await future
    assert await link_bench.ask("after") == "after"
    assert not other_request_future.done()
    never_future.set_result("late")
    assert await other_request_future == "late"
    await link_bench.tasks.close()


async def test_a_cut_link_fails_one_direction_until_healed() -> None:
    link_bench = LinkBench()
    link_bench.network.register(A, echo)
    link_bench.network.register(B, silence)
    under_way_future = link_bench.ask()
    await asyncio.sleep(0)
    link_bench.network.cut(A, B, LinkCut.REFUSED)
    assert not link_bench.network.reaches(A, B)
    with pytest.raises(PeerDisconnectedError, match="cut"):
        await under_way_future
    with pytest.raises(PeerDisconnectedError, match="cut"):
        await link_bench.ask()
    assert await link_bench.ask("back", source=B, target=A) == "back"
    link_bench.network.heal(A, B)
    link_bench.network.register(B, echo)
    assert link_bench.network.reaches(A, B)
    assert await link_bench.ask("again") == "again"
    await link_bench.tasks.close()


async def test_a_swallowed_request_arrives_after_the_heal_while_its_caller_waits() -> None:
    link_bench = LinkBench()
    handled: list[object] = []
    answer_future = asyncio.get_running_loop().create_future()

    async def handler(
        _key: int, _version: int, command: object, _source_broker_id: BrokerId
    ) -> object:
        handled.append(command)
        return await answer_future if command == "under way" else command

    link_bench.network.register(B, handler)
    under_way_future = link_bench.ask("under way")
    await asyncio.sleep(0)
    link_bench.network.cut(A, B)
    answer_future.set_result("late")
    swallowed_request_future = link_bench.ask("swallowed")
    given_up_future = link_bench.ask("given up", timeout_ms=1)
    with pytest.raises(PeerTimeoutError):
        await given_up_future
    assert handled == ["under way"]
    assert not under_way_future.done(), "its answer is on the same link"
    link_bench.network.heal(A, B)
    assert (await under_way_future, await swallowed_request_future) == ("late", "swallowed")
    assert handled == ["under way", "swallowed"]
    link_bench.network.heal(A, B)
    assert link_bench.network.in_flight == 0


async def test_a_watcher_learns_only_of_links_that_heal() -> None:
    link_bench = LinkBench()
    healed_links: list[tuple[BrokerId, BrokerId]] = []
    link_bench.network.on_heal(lambda source, target: healed_links.append((source, target)))
    link_bench.network.heal(A, B)
    link_bench.network.cut(A, B)
    link_bench.network.cut(B, A, LinkCut.REFUSED)
    link_bench.network.heal(A, B)
    assert healed_links == [(A, B)]
    assert not link_bench.network.reaches(B, A)


async def test_requests_of_a_broker_that_went_away_fail_too() -> None:
    link_bench = LinkBench()
    link_bench.network.register(A, echo)
    link_bench.network.register(B, silence)
    request_future = link_bench.ask()
    await asyncio.sleep(0)
    link_bench.network.unregister(A)
    with pytest.raises(PeerDisconnectedError, match="went away"):
        await request_future
    await link_bench.tasks.close()


@pytest.mark.parametrize(
    ("error", "answer_error", "log_events"),
    [
        (ValueError("broken"), ErrorCode.unknown_server_error, ["peer.handler_failed"]),
        (
            PeerAnsweredError("no", error=int(ErrorCode.not_coordinator)),
            ErrorCode.not_coordinator,
            [],
        ),
    ],
    ids=["a bug", "an error alone"],
)
async def test_a_handler_that_fails_answers_with_an_error(
    error: Exception, answer_error: ErrorCode, log_events: list[str]
) -> None:
    async def handler(
        _key: int, _version: int, _command: object, _source_broker_id: BrokerId
    ) -> object:
        raise error

    link_bench = LinkBench()
    link_bench.network.register(B, handler)
    with capture_logs() as logs, pytest.raises(PeerAnsweredError) as error_info:
        await link_bench.ask()
    assert error_info.value.error == answer_error
    assert [entry["event"] for entry in logs] == log_events


async def test_a_failure_in_delivery_loses_no_other_request_of_its_turn() -> None:
    def handler(
        _key: int, _version: int, command: object, _source_broker_id: BrokerId
    ) -> Awaitable[object]:
        if command == "bad":
            raise ValueError("not even a coroutine")
        return echo(0, 0, command, A)

    link_bench = LinkBench()
    link_bench.network.register(B, handler)
    bad_request_future, good_request_future = link_bench.ask("bad"), link_bench.ask("good")
    with capture_logs() as logs:
        assert await good_request_future == "good"
    with pytest.raises(PeerAnsweredError):
        await bad_request_future
    assert [entry["event"] for entry in logs] == ["peer.delivery_failed"]


async def test_stopping_the_tasks_disconnects_a_caller_that_waits_for_a_handler() -> None:
    link_bench = LinkBench()

    async def handler(
        _key: int, _version: int, _command: object, _source_broker_id: BrokerId
    ) -> object:
        return await asyncio.get_running_loop().create_future()

    link_bench.network.register(B, handler)
    future = link_bench.ask()
    await asyncio.sleep(0)
    await link_bench.tasks.close()
    with pytest.raises(PeerDisconnectedError, match="stopped"):
        await future


async def test_a_caller_that_gave_up_is_not_answered() -> None:
    link_bench = LinkBench()
    link_bench.network.register(B, echo)
    future = link_bench.ask()
    future.cancel()
    assert await link_bench.ask("next") == "next"
    assert link_bench.network.in_flight == 0


# Deadlines, in virtual time


def in_virtual_time(main: Callable[[VirtualEnvironment, LoopNetwork], Awaitable[T]]) -> T:
    async def run_with_network(env: VirtualEnvironment) -> T:
        network = env.network
        assert isinstance(network, LoopNetwork)
        return await main(env, network)

    return run_virtual(run_with_network, seed=1)


async def silence(
    _key: int, _version: int, _command: object, _source_broker_id: BrokerId
) -> object:
    return await asyncio.get_running_loop().create_future()


@within(in_virtual_time)
async def test_no_answer_within_the_timeout_is_a_timeout_each_at_its_deadline(
    env: VirtualEnvironment, network: LoopNetwork, /
) -> None:
    network.register(B, silence)
    timeouts: list[tuple[int, int]] = []
    start_ms = env.clock.monotonic_ms()

    def note(timeout_ms: int) -> Callable[[asyncio.Future[Any]], None]:
        def note_timeout(future: asyncio.Future[Any]) -> None:
            assert isinstance(future.exception(), PeerTimeoutError)
            timeouts.append((timeout_ms, env.clock.monotonic_ms() - start_ms))

        return note_timeout

    for timeout_ms in (300, 100, 200, 100):
        answer_future = network.ask(A, B, 27, 1, "x", timeout_ms=timeout_ms)
        future_of(answer_future).add_done_callback(note(timeout_ms))
    await asyncio.sleep(1)
    assert timeouts == [(100, 100), (100, 100), (200, 200), (300, 300)]
    assert network.in_flight == 0


@within(in_virtual_time)
async def test_a_deadline_reads_the_monotonic_clock(
    env: VirtualEnvironment, network: LoopNetwork, /
) -> None:
    network.register(B, silence)
    future = future_of(network.ask(A, B, 27, 1, "x", timeout_ms=1_000))
    future.add_done_callback(lambda call: call.exception())
    env.clock.advance(3_600_000)
    await asyncio.sleep(0.9)
    assert not future.done()
    await asyncio.sleep(0.2)
    assert future.done()


def test_answered_requests_leave_one_timer_at_most() -> None:
    async def main(env: VirtualEnvironment, network: LoopNetwork) -> None:
        network.register(B, echo)
        armed: list[float] = []
        network._clock = CountingClock(env.clock, armed)  # type: ignore[assignment]  # counts timers
        for number in range(100):
            assert await network.ask(A, B, 27, 1, number, timeout_ms=30_000) == number
        assert [delay_ms for delay_ms in armed if delay_ms > 1_000] == [30_000]
        await asyncio.sleep(31)
        assert network._deadline_timer is None

    class CountingClock:
        def __init__(self, clock: Any, armed: list[float]) -> None:
            self.monotonic_ms = clock.monotonic_ms
            self.monotonic_us = clock.monotonic_us
            self.ms_of = clock.ms_of
            self._clock = clock
            self._armed = armed

        def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Any:
            self._armed.append(delay_ms)
            return self._clock.call_later(delay_ms, callback)

    in_virtual_time(main)


@within(in_virtual_time)
async def test_latency_keeps_the_order_of_a_link(
    env: VirtualEnvironment, network: LoopNetwork, /
) -> None:
    commands_and_times: list[tuple[object, int]] = []

    async def handler(
        _key: int, _version: int, command: object, _source_broker_id: BrokerId
    ) -> object:
        commands_and_times.append((command, env.clock.monotonic_us()))
        return command

    network.register(B, handler)
    futures = [network.ask(A, B, 27, 1, n, timeout_ms=1_000) for n in range(50)]
    assert [await future for future in futures] == list(range(50))
    assert [command for command, _ in commands_and_times] == list(range(50))
    assert all(50 <= elapsed_us <= 500 for _, elapsed_us in commands_and_times)


# Fault points


async def test_nothing_is_described_while_no_rule_is_armed() -> None:
    described_commands: list[object] = []

    def describe(command: object) -> Subject:
        described_commands.append(command)
        return Subject()

    link_bench = LinkBench(describe_command=describe)
    link_bench.network.register(B, echo)
    await link_bench.ask()
    assert described_commands == []


async def test_request_and_response_cross_their_points() -> None:
    script = Script()
    link_bench = LinkBench(interceptor=script)
    link_bench.network.register(B, echo)
    assert await link_bench.ask(COMMAND) == COMMAND
    expected: dict[str, Any] = {
        "source": "broker/1",
        "target": "broker/2",
        "api_key": 27,
        "api_version": 1,
        "correlation_id": 1,
        "subject": Subject(),
        "line": "broker/1 -> broker/2",
        "content": COMMAND,
    }
    assert script.crossings == [
        Crossing(point="peer.request", **expected),
        Crossing(point="peer.response", **expected),
    ]


@pytest.mark.parametrize("point_name", ["peer_request", "peer_response"])
async def test_an_error_is_the_answer(point_name: str) -> None:
    link_bench = LinkBench(interceptor=Script(**{point_name: NOT_COORDINATOR}))
    handled = link_bench.handled_by(B)
    with pytest.raises(PeerAnsweredError, match="not_coordinator") as error_info:
        await link_bench.ask()
    assert error_info.value.error == ErrorCode.not_coordinator
    assert handled == ([] if point_name == "peer_request" else ["x"])


@pytest.mark.parametrize("point_name", ["peer_request", "peer_response"])
async def test_a_drop_ends_in_a_timeout(point_name: str) -> None:
    link_bench = LinkBench(interceptor=Script(**{point_name: DROP}))
    handled = link_bench.handled_by(B)
    with pytest.raises(PeerTimeoutError, match="within 5 ms"):
        await link_bench.ask(timeout_ms=5)
    assert handled == ([] if point_name == "peer_request" else ["x"])
    kinds = [event.k for event in link_bench.tracer.events()]
    assert kinds.count("msg.drop") == 1


@pytest.mark.parametrize("outcome", [SubmitOutcome.DROP, SubmitOutcome.DROP_ANSWER])
async def test_what_is_lost_times_out_as_soon_as_the_clock_is_advanced_that_far(
    outcome: SubmitOutcome,
) -> None:
    link_bench = LinkBench(interceptor=Script(peer_request=FaultEffect(outcome=outcome)))
    link_bench.network.register(B, echo)
    lost_request_future = link_bench.ask(timeout_ms=30_000)
    await asyncio.sleep(0)
    assert [request.is_lost for request in link_bench.network.unanswered_requests()] == [True]
    link_bench.clock.advance(29_000)
    await asyncio.sleep(0)
    assert not lost_request_future.done()
    link_bench.clock.advance(2_000)
    with pytest.raises(PeerTimeoutError, match="within 30000 ms"):
        await lost_request_future
    assert link_bench.network.unanswered_requests() == []


async def test_a_copy_crosses_and_is_handled_and_its_answer_is_ignored() -> None:
    script = Script(peer_request=FaultEffect(outcome=SubmitOutcome.DUPLICATE, times=2))
    link_bench = LinkBench(interceptor=script)
    handled: list[object] = []

    async def handler(
        _key: int, _version: int, command: object, _source_broker_id: BrokerId
    ) -> object:
        handled.append(command)
        return f"answer {len(handled)}"

    link_bench.network.register(B, handler)
    assert await link_bench.ask() == "answer 1"
    assert handled == ["x"] * 3
    assert [
        (crossing_point.point, crossing_point.is_copy) for crossing_point in script.crossings
    ] == [
        ("peer.request", False),
        ("peer.response", False),
        ("peer.request", True),
        ("peer.request", True),
    ]


async def test_a_lost_answer_leaves_the_effect_and_a_timeout() -> None:
    link_bench = LinkBench(
        interceptor=Script(peer_request=FaultEffect(outcome=SubmitOutcome.DROP_ANSWER))
    )
    handled: list[object] = []

    async def handler(
        _key: int, _version: int, command: object, _source_broker_id: BrokerId
    ) -> object:
        handled.append(command)
        raise PeerAnsweredError("refused", error=1)

    link_bench.network.register(B, handler)
    with pytest.raises(PeerTimeoutError, match="within 5 ms"):
        await link_bench.ask(timeout_ms=5)
    assert handled == ["x"]


@pytest.mark.parametrize("point_name", ["peer_request", "peer_response"])
async def test_a_link_that_breaks_fails_all_that_is_under_way_on_it(point_name: str) -> None:
    gate_future: asyncio.Future[FaultEffect] = asyncio.get_running_loop().create_future()
    crossings_of_gate: list[int] = []

    def hold_then_break() -> Awaitable[FaultEffect] | FaultEffect:
        crossings_of_gate.append(1)
        return (
            gate_future
            if len(crossings_of_gate) == 1
            else FaultEffect(outcome=SubmitOutcome.DISCONNECT)
        )

    link_bench = LinkBench(interceptor=Script(**{point_name: hold_then_break}))
    handled = link_bench.handled_by(B)
    held_request_future, struck_request_future = link_bench.ask("held"), link_bench.ask("struck")
    for future in (held_request_future, struck_request_future):
        with pytest.raises(PeerDisconnectedError, match="the connection broke"):
            await future
    gate_future.set_result(PASS)
    await asyncio.sleep(0.01)
    assert handled == ([] if point_name == "peer_request" else ["held", "struck"])


@pytest.mark.parametrize("point_name", ["peer_request", "peer_response"])
async def test_a_held_crossing_waits_alone(point_name: str) -> None:
    gate_future: asyncio.Future[FaultEffect] = asyncio.get_running_loop().create_future()
    crossings_of_gate: list[int] = []

    def hold_first() -> Awaitable[FaultEffect]:
        crossings_of_gate.append(1)
        return gate_future if len(crossings_of_gate) == 1 else passes()

    async def passes() -> FaultEffect:
        return PASS

    link_bench = LinkBench(interceptor=Script(**{point_name: hold_first}))
    link_bench.network.register(B, echo)
    first_request_future, second_request_future = link_bench.ask("first"), link_bench.ask("second")
    assert await second_request_future == "second"
    assert not first_request_future.done()
    gate_future.set_result(PASS)
    assert await first_request_future == "first"


async def test_a_wait_may_end_in_an_error() -> None:
    async def refuse() -> FaultEffect:
        await asyncio.sleep(0)
        return NOT_COORDINATOR

    link_bench = LinkBench(interceptor=Script(peer_request=refuse))
    link_bench.network.register(B, echo)
    with pytest.raises(PeerAnsweredError):
        await link_bench.ask()


async def test_a_request_released_after_its_deadline_is_handled_and_its_answer_thrown_away() -> (
    None
):
    gate_future: asyncio.Future[FaultEffect] = asyncio.get_running_loop().create_future()
    handled_event = asyncio.Event()

    async def handler(
        _key: int, _version: int, command: object, _source_broker_id: BrokerId
    ) -> object:
        assert command == "late"
        handled_event.set()
        return None

    link_bench = LinkBench(interceptor=Script(peer_request=lambda: gate_future))
    link_bench.network.register(B, handler)
    future = link_bench.ask("late", timeout_ms=1)
    with pytest.raises(PeerTimeoutError):
        await future
    assert not handled_event.is_set()
    gate_future.set_result(PASS)
    await handled_event.wait()
    assert isinstance(future.exception(), PeerTimeoutError)


@pytest.mark.parametrize("way", ["cut", "gone"])
@pytest.mark.parametrize("timeout_ms", [1, 30_000])
async def test_a_held_request_is_lost_with_its_connection(way: str, timeout_ms: int) -> None:
    gate_future: asyncio.Future[FaultEffect] = asyncio.get_running_loop().create_future()
    script = Script(peer_request=lambda: gate_future)
    link_bench = LinkBench(interceptor=script)
    handled = link_bench.handled_by(B)
    held_request_future = link_bench.ask("held", timeout_ms=timeout_ms)
    if timeout_ms == 1:
        with pytest.raises(PeerTimeoutError):
            await held_request_future
    else:
        await asyncio.sleep(0)
        assert len(script.crossings) == 1
    if way == "cut":
        link_bench.network.cut(A, B, LinkCut.REFUSED)
        link_bench.network.heal(A, B)
    else:
        link_bench.network.unregister(B)
        link_bench.handled_by(B, handled)
    if timeout_ms != 1:
        with pytest.raises(PeerDisconnectedError):
            await held_request_future
    gate_future.set_result(PASS)
    assert await link_bench.ask("next") is None
    assert handled == ["next"]


async def test_stopping_ends_a_wait_with_a_disconnect() -> None:
    link_bench = LinkBench(
        interceptor=Script(peer_request=lambda: asyncio.get_running_loop().create_future())
    )
    link_bench.network.register(B, echo)
    future = link_bench.ask()
    await asyncio.sleep(0)
    await link_bench.tasks.close()
    with pytest.raises(PeerDisconnectedError, match="wait at"):
        await future


# Trace


async def test_messages_are_traced_with_their_causes() -> None:
    link_bench = LinkBench()

    async def handler(
        _key: int, _version: int, _command: object, _source_broker_id: BrokerId
    ) -> object:
        link_bench.tracer.emit("note", "broker/2", data={"text": "handled"})
        return None

    link_bench.network.register(B, handler)
    root = link_bench.tracer.emit("note", "broker/1")
    cause_before = link_bench.tracer.set_cause(root)
    future = link_bench.ask()
    link_bench.tracer.set_cause(cause_before)
    await future
    nodes = link_bench.tracer.nodes
    assert [(event.k, nodes[event.n], event.p) for event in link_bench.tracer.events()] == [
        ("note", "broker/1", ()),
        ("msg.send", "broker/1", (0,)),
        ("msg.recv", "broker/2", (1,)),
        ("note", "broker/2", (2,)),
        ("msg.send", "broker/2", (2,)),
        ("msg.recv", "broker/1", (4, 2)),
    ]


@pytest.mark.parametrize("api_key", [1, 24, 27, 63])
async def test_brief_joins_the_chain_through_routine_exchanges_of_brokers(api_key: int) -> None:
    link_bench = LinkBench()
    link_bench.tracer.level = TraceLevel.BRIEF

    async def handler(
        _key: int, _version: int, _command: object, _source_broker_id: BrokerId
    ) -> object:
        if api_key in (24, 27):
            link_bench.tracer.emit("note", "broker/2", data={"text": "handled"})
        return None

    link_bench.network.register(B, handler)
    root = link_bench.tracer.emit("note", "broker/1")
    cause_before = link_bench.tracer.set_cause(root)
    future = link_bench.network.ask(A, B, api_key, 1, "x", timeout_ms=30_000)
    link_bench.tracer.set_cause(cause_before)
    await future
    events = [(event.k, event.p) for event in link_bench.tracer.events()]
    assert events == [("note", ()), ("note", (root,))][: 1 + (api_key in (24, 27))]


async def test_brief_tells_of_other_exchanges_and_of_what_is_lost() -> None:
    link_bench = LinkBench(interceptor=Script(peer_request=DROP))
    link_bench.tracer.level = TraceLevel.BRIEF
    link_bench.network.register(B, echo)
    link_bench.network.ask(A, B, 67, 0, "x", timeout_ms=30_000)
    link_bench.ask()
    await asyncio.sleep(0)
    assert [event.k for event in link_bench.tracer.events()] == ["msg.send", "msg.drop", "msg.drop"]
    assert [event.d["api"] for event in link_bench.tracer.events()] == [  # type: ignore[index]
        "AllocateProducerIds",
        "AllocateProducerIds",
        "WriteTxnMarkers",
    ]


async def test_a_copy_is_traced_before_it_arrives() -> None:
    script = Script(peer_request=FaultEffect(outcome=SubmitOutcome.DUPLICATE, times=1))
    link_bench = LinkBench(interceptor=script)
    link_bench.tracer.level = TraceLevel.FULL
    link_bench.network.register(B, echo)
    await link_bench.ask()
    events = list(link_bench.tracer.events())
    (copy_event,) = [event for event in events if event.k == "msg.dup"]
    assert events[copy_event.p[0]].k == "msg.send"
    assert [event.k for event in events[copy_event.i + 1 :]] == ["msg.recv"]
