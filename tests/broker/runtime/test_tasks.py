"""Background tasks, and coroutines that are driven by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextvars import ContextVar
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.within_environment import within
from txnsim.runtime.loop_turns import (
    LIMIT_NS_DEFAULT,
    LOOK_ELEMENTS,
    LOOKS,
    ROUND,
    SLICE_NS,
    Pace,
    TimeSlices,
    Turns,
)
from txnsim.runtime.tasks import DUE_UNTIMED, FAILURES_KEPT_MAX, OWED_PER_TURN, LoopTasks, Pending
from txnsim.runtime.trace import NO_CAUSE, TraceLevel
from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual


@pytest.fixture
async def tasks() -> AsyncIterator[LoopTasks]:
    tasks = LoopTasks(asyncio.get_running_loop())
    yield tasks
    await tasks.close()
    assert len(tasks) == 0


async def a_few_turns(turn_count: int = 5) -> None:
    for _ in range(turn_count):
        await asyncio.sleep(0)


# Drive


async def test_callbacks_run_at_once_in_order(tasks: LoopTasks) -> None:
    pending_future: Pending[int] = Pending(tasks)
    results: list[int] = []
    pending_future.on_done(lambda future: results.append(future.result()))
    pending_future.on_done(lambda future: results.append(-future.result()))
    assert not pending_future.done()
    pending_future.resolve(7)
    assert results == [7, -7]
    pending_future.on_done(lambda future: results.append(0))
    assert results == [7, -7, 0], "at once where the result is there already"


async def test_it_is_resolved_once(tasks: LoopTasks) -> None:
    pending_future: Pending[int] = Pending(tasks)
    pending_future.resolve(1)
    pending_future.resolve(2)
    pending_future.fail(ValueError("late"))
    assert (pending_future.result(), pending_future.exception()) == (1, None)


async def test_a_failure_is_raised_to_the_caller(tasks: LoopTasks) -> None:
    pending_future: Pending[int] = Pending(tasks)
    pending_future.fail(ValueError("broken"))
    pending_future.resolve(1)
    assert isinstance(pending_future.exception(), ValueError)
    with pytest.raises(ValueError, match="broken"):
        pending_future.result()
    with pytest.raises(ValueError, match="broken"):
        await pending_future


async def test_a_driven_coroutine_goes_on_without_a_turn_of_the_loop(tasks: LoopTasks) -> None:
    first_pending_future: Pending[int] = Pending(tasks)
    second_pending_future: Pending[int] = Pending(tasks)
    outcomes: list[object] = []

    async def add() -> int:
        return await first_pending_future + await second_pending_future

    tasks.drive(add(), lambda result, error: outcomes.append((result, error)), name="add")
    first_pending_future.resolve(1)
    assert outcomes == []
    second_pending_future.resolve(2)
    assert outcomes == [(3, None)], "in the same turn"
    assert not tasks.stepping


async def test_a_task_may_await_it_too_and_be_cancelled_meanwhile(tasks: LoopTasks) -> None:
    pending_future: Pending[int] = Pending(tasks)

    async def wait() -> int:
        return await pending_future

    wait_task = tasks.spawn(wait(), name="waits")
    leaving_task = tasks.spawn(wait(), name="leaves")
    await asyncio.sleep(0)
    leaving_task.cancel()
    await asyncio.sleep(0)
    pending_future.resolve(5)
    assert await wait_task == 5
    assert leaving_task.cancelled()
    assert await pending_future == 5


class Outcomes(list[tuple[Any, BaseException | None]]):
    """The arguments of every call of ``done``."""

    def done(self, result: Any, error: BaseException | None) -> None:
        self.append((result, error))

    @property
    def only(self) -> tuple[Any, BaseException | None]:
        assert len(self) == 1, f"done was called {len(self)} times"
        return self[0]


async def test_what_does_not_wait_is_done_before_drive_returns(tasks: LoopTasks) -> None:
    async def quick() -> str:
        return "reply"

    outcomes = Outcomes()
    tasks.drive(quick(), outcomes.done, name="quick")
    assert outcomes.only == ("reply", None)
    assert len(tasks) == 0


async def test_an_exception_of_the_first_step_is_the_outcome(tasks: LoopTasks) -> None:
    async def fail() -> None:
        raise ValueError("broken")

    outcomes = Outcomes()
    tasks.drive(fail(), outcomes.done, name="fail")
    result, error = outcomes.only
    assert result is None
    assert isinstance(error, ValueError)


async def test_a_cancelled_future_met_in_the_first_step_is_the_outcome(tasks: LoopTasks) -> None:
    cancelled_future = asyncio.get_running_loop().create_future()
    cancelled_future.cancel()

    async def wait() -> None:
        await cancelled_future

    outcomes = Outcomes()
    tasks.drive(wait(), outcomes.done, name="wait")
    assert isinstance(outcomes.only[1], asyncio.CancelledError)


async def test_what_waits_goes_on_as_a_task(tasks: LoopTasks) -> None:
    first_future = asyncio.get_running_loop().create_future()
    second_future = asyncio.get_running_loop().create_future()

    async def wait() -> tuple[int, int, str]:
        first_result = await first_future
        second_result = await second_future
        task = asyncio.current_task()
        assert task is not None
        return first_result, second_result, task.get_name()

    outcomes = Outcomes()
    tasks.drive(wait(), outcomes.done, name="waiter")
    assert outcomes == []
    assert len(tasks) == 1
    first_future.set_result(1)
    await a_few_turns()
    assert outcomes == []
    second_future.set_result(2)
    await a_few_turns()
    assert outcomes.only == ((1, 2, "waiter"), None)
    assert len(tasks) == 0


async def test_a_future_done_before_the_task_begins_is_not_missed(tasks: LoopTasks) -> None:
    future = asyncio.get_running_loop().create_future()

    async def wait() -> int:
        return int(await future)

    outcomes = Outcomes()
    tasks.drive(wait(), outcomes.done, name="wait")
    future.set_result(7)
    await a_few_turns()
    assert outcomes.only == (7, None)


async def test_several_may_wait_for_one_future(tasks: LoopTasks) -> None:
    future = asyncio.get_running_loop().create_future()

    async def wait() -> int:
        return int(await future)

    outcomes = Outcomes()
    for _ in range(3):
        tasks.drive(wait(), outcomes.done, name="wait")
    waits_future = asyncio.gather(wait(), wait())
    await a_few_turns()
    future.set_result(7)
    assert list(await waits_future) == [7, 7]
    await a_few_turns()
    assert outcomes == [(7, None)] * 3


async def test_a_bare_yield_is_only_a_turn(tasks: LoopTasks) -> None:
    async def pause() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "after"

    outcomes = Outcomes()
    tasks.drive(pause(), outcomes.done, name="pause")
    await a_few_turns()
    assert outcomes.only == ("after", None)


async def test_a_failed_future_reaches_the_coroutine_which_may_go_on(tasks: LoopTasks) -> None:
    first_future = asyncio.get_running_loop().create_future()
    second_future = asyncio.get_running_loop().create_future()

    async def wait() -> str:
        try:
            await first_future
        except ValueError:
            return f"recovered {await second_future}"
        return "never"

    outcomes = Outcomes()
    tasks.drive(wait(), outcomes.done, name="wait")
    first_future.set_exception(ValueError("broken"))
    await a_few_turns()
    second_future.set_result("here")
    await a_few_turns()
    assert outcomes.only == ("recovered here", None)


async def test_an_exception_after_a_wait_is_the_outcome_and_no_bug(tasks: LoopTasks) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    outcomes = Outcomes()
    with capture_logs() as logs:
        tasks.drive(fail(), outcomes.done, name="fail")
        await a_few_turns()
    assert isinstance(outcomes.only[1], ValueError)
    assert logs == []


@pytest.mark.parametrize("turn_count", [5, 0], ids=["waiting", "before its task began"])
async def test_cancelling_reaches_a_coroutine(tasks: LoopTasks, turn_count: int) -> None:
    cleanups = []

    async def wait() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cleanups.append("cleaned up")

    outcomes = Outcomes()
    tasks.drive(wait(), outcomes.done, name="wait")
    await a_few_turns(turn_count)
    await tasks.close()
    assert cleanups == ["cleaned up"]
    assert isinstance(outcomes.only[1], asyncio.CancelledError)


async def test_a_coroutine_that_swallows_its_cancellation_still_answers(tasks: LoopTasks) -> None:
    async def stubborn() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return "last word"
        return "never"

    outcomes = Outcomes()
    tasks.drive(stubborn(), outcomes.done, name="stubborn")
    await a_few_turns()
    await tasks.close()
    assert outcomes.only == ("last word", None)


async def test_done_that_fails_in_the_first_step_reaches_the_caller(tasks: LoopTasks) -> None:
    async def quick() -> None:
        return

    def fail_at_once(_result: object, _error: object) -> None:
        raise RuntimeError("bug in done")

    with pytest.raises(RuntimeError, match="bug in done"):
        tasks.drive(quick(), fail_at_once, name="quick")


async def test_done_that_fails_later_is_a_bug_of_the_task() -> None:
    tasks = LoopTasks(asyncio.get_running_loop())
    calls = []

    def fail_later(_result: object, _error: object) -> None:
        calls.append(1)
        raise RuntimeError("bug in done")

    with capture_logs() as logs:
        tasks.drive(asyncio.sleep(0), fail_later, name="pause")
        await a_few_turns()
    assert calls == [1]
    assert [entry["task"] for entry in logs] == ["pause"]
    with pytest.raises(BaseExceptionGroup):
        await tasks.close()


async def test_context_stays_the_same_across_the_wait_and_away_from_the_caller(
    tasks: LoopTasks,
) -> None:
    name: ContextVar[str] = ContextVar("name", default="none")
    names_seen = []

    async def handler() -> None:
        token = name.set("handler")
        await asyncio.sleep(0)
        names_seen.append(name.get())
        name.reset(token)  # fails in any other context
        names_seen.append(name.get())

    name.set("caller")
    outcomes = Outcomes()
    tasks.drive(handler(), outcomes.done, name="handler")
    assert name.get() == "caller"
    await a_few_turns()
    assert outcomes.only == (None, None)
    assert names_seen == ["handler", "caller"]


async def test_drives_may_be_nested(tasks: LoopTasks) -> None:
    outcomes = Outcomes()

    async def inner() -> str:
        return "inner"

    async def outer() -> str:
        tasks.drive(inner(), outcomes.done, name="inner")
        return "outer"

    tasks.drive(outer(), outcomes.done, name="outer")
    assert [result for result, _ in outcomes] == ["inner", "outer"]


# Spawn


async def test_a_spawned_task_is_owned_until_it_ends(tasks: LoopTasks) -> None:
    task = tasks.spawn(asyncio.sleep(0, "result"), name="pause")
    assert (len(tasks), task.get_name()) == (1, "pause")
    assert await task == "result"
    await asyncio.sleep(0)
    assert len(tasks) == 0


async def test_a_failed_task_is_logged_and_kept_for_close() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    tasks = LoopTasks(asyncio.get_running_loop())
    with capture_logs() as logs:
        for number in range(FAILURES_KEPT_MAX + 1):
            tasks.spawn(fail(), name=f"fail-{number}")
        await a_few_turns()
    assert len(logs) == FAILURES_KEPT_MAX + 1
    assert logs[0]["event"] == "task.failed"
    assert logs[0]["log_level"] == "error"
    with pytest.raises(ExceptionGroup) as error_info:
        await tasks.close()
    assert len(error_info.value.exceptions) == FAILURES_KEPT_MAX
    await tasks.close()


async def test_close_ends_also_what_is_spawned_while_closing(tasks: LoopTasks) -> None:
    ended_tasks = []

    async def end_last() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended_tasks.append("last")

    async def end_first() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            tasks.spawn(end_last(), name="last")
            await asyncio.sleep(0)
            ended_tasks.append("first")

    tasks.spawn(end_first(), name="first")
    await a_few_turns()
    await tasks.close()
    assert sorted(ended_tasks) == ["first", "last"]


# Turns


async def test_what_is_due_soon_runs_in_order_with_all_that_it_causes_in_one_turn(
    tasks: LoopTasks,
) -> None:
    run_names: list[str] = []

    def run_first() -> None:
        run_names.append("first")
        tasks.run_soon(lambda: run_names.append("caused"))

    asyncio.get_running_loop().call_soon(run_names.append, "loop")
    tasks.run_soon(run_first)
    tasks.run_soon(lambda: run_names.append("second"))
    assert run_names == []
    await asyncio.sleep(0)
    assert run_names == ["loop", "first", "second", "caused"]


async def test_what_is_kept_for_the_end_of_the_turn_runs_when_nothing_else_is_due(
    tasks: LoopTasks,
) -> None:
    run_names: list[str] = []
    tasks.run_at_turn_end(
        lambda: (run_names.append("answer"), tasks.run_soon(lambda: run_names.append("late")))
    )
    tasks.run_at_turn_end(lambda: run_names.append("other answer"))
    tasks.run_soon(lambda: tasks.run_soon(lambda: run_names.append("exchange")))
    await asyncio.sleep(0)
    assert run_names == ["exchange", "answer", "late", "other answer"]


async def test_a_bug_in_one_due_callback_does_not_lose_the_others() -> None:
    tasks = LoopTasks(asyncio.get_running_loop())
    run_names: list[str] = []

    def raise_broken() -> None:
        raise ValueError("broken")

    with capture_logs() as logs:
        tasks.run_soon(raise_broken)
        tasks.run_soon(lambda: run_names.append("next"))
        await asyncio.sleep(0)
    assert run_names == ["next"]
    assert [entry["event"] for entry in logs] == ["task.failed"]
    with pytest.raises(BaseExceptionGroup, match="background tasks failed"):
        await tasks.close()


async def test_more_than_a_turn_may_hold_lets_the_loop_breathe(
    tasks: LoopTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txnsim.runtime.tasks.DUE_PER_TURN_MAX", 3)
    run_names: list[int] = []
    for task_number in range(5):
        tasks.run_soon(lambda task_number=task_number: run_names.append(task_number))
    await asyncio.sleep(0)
    assert run_names == [0, 1, 2]
    await asyncio.sleep(0)
    assert run_names == [0, 1, 2, 3, 4]


async def test_answers_go_out_though_more_is_due_than_a_turn_bears() -> None:
    passed_ns = iter(range(0, 10**12, LIMIT_NS_DEFAULT))
    tasks = LoopTasks(asyncio.get_running_loop(), read_stopwatch_ns=lambda: next(passed_ns))
    run_names: list[str] = []

    def chain() -> None:
        run_names.append("request")
        tasks.run_soon(chain)

    tasks.run_soon(chain)
    tasks.run_at_turn_end(lambda: run_names.append("answer"))
    await asyncio.sleep(0)
    looks_at_clock = OWED_PER_TURN + 1
    assert run_names.index("answer") == run_names.count("request") == looks_at_clock * DUE_UNTIMED
    run_names.clear()
    await asyncio.sleep(0)
    assert run_names == [], "sockets are looked at"
    tasks.run_at_turn_end(lambda: run_names.append("answer"))
    await asyncio.sleep(0)
    assert (run_names[0], run_names[-1]) == ("answer", "request"), "of what was read then"
    await tasks.close()


async def test_what_brokers_owe_goes_before_new_requests_up_to_a_bound() -> None:
    now_ns = 0
    tasks = LoopTasks(asyncio.get_running_loop(), read_stopwatch_ns=lambda: now_ns)
    run_names: list[str] = []

    def owe(name: str, took_ns: int) -> None:
        def deliver() -> None:
            nonlocal now_ns
            now_ns += took_ns
            run_names.append(name)

        tasks.run_soon(deliver)

    def read_sockets() -> None:
        run_names.append("sockets")

    half_turn_ns = LIMIT_NS_DEFAULT // 2
    for _ in range(2 * OWED_PER_TURN):
        owe("marker", half_turn_ns)
    asyncio.get_running_loop().call_soon(read_sockets)
    await asyncio.sleep(0)
    assert run_names == ["marker"] * 2 * OWED_PER_TURN + ["sockets"]
    run_names.clear()
    for _ in range(4 * OWED_PER_TURN):
        owe("endless", half_turn_ns)
    asyncio.get_running_loop().call_soon(read_sockets)
    await asyncio.sleep(0)
    assert run_names.index("sockets") == 2 * OWED_PER_TURN + DUE_UNTIMED
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert run_names.count("endless") == 4 * OWED_PER_TURN, "the rest comes in the next turn"
    await tasks.close()


# Causes


def test_what_is_due_soon_has_the_cause_of_its_caller() -> None:
    async def main(env: VirtualEnvironment) -> list[int]:
        tracer = env.tracer
        causes = [tracer.emit("note", "x") for _ in range(2)]
        causes_seen: list[int] = []
        for cause_event_index in causes:
            tracer.set_cause(cause_event_index)
            env.tasks.run_soon(lambda: causes_seen.append(tracer.cause))
        tracer.set_cause(NO_CAUSE)
        await asyncio.sleep(0)
        assert causes_seen == causes
        return causes_seen

    assert run_virtual(main, seed=1)


@within(run_virtual, seed=1)
async def test_what_a_driven_coroutine_leaves_to_the_loop_keeps_its_cause(
    env: VirtualEnvironment,
) -> None:
    """A task that it becomes or starts, and a timer that it arms; a cause may be given, too."""
    tracer = env.tracer
    first_event, given_cause = tracer.emit("note", "x"), tracer.emit("note", "x")
    cause_by_name: dict[str, int] = {}

    def note(cause_name: str) -> None:
        cause_by_name[cause_name] = tracer.cause

    async def note_spawned() -> None:
        note("spawned")
        await asyncio.sleep(0.01)
        note("spawned, later")

    async def drive_and_note() -> None:
        note("given")
        tracer.set_cause(first_event)
        env.tasks.spawn(note_spawned(), name="spawned")
        env.clock.call_later(5, lambda: note("timer"))
        env.clock.call_at(env.clock.now_ms() + 5, lambda: note("deadline"))
        await asyncio.sleep(0.01)
        note("as a task")

    for runs_apart in (False, True):
        cause_by_name.clear()
        env.tasks.drive(
            drive_and_note(),
            lambda *_: note("done"),
            name="driven",
            cause=given_cause,
            has_own_context=runs_apart,
        )
        assert tracer.cause == NO_CAUSE
        await asyncio.sleep(1)
        assert cause_by_name.pop("given") == given_cause
        names = {"spawned", "spawned, later", "timer", "deadline", "as a task", "done"}
        assert cause_by_name == dict.fromkeys(names, first_event)


@within(run_virtual, seed=1)
async def test_what_is_switched_off_and_on_between_two_steps_has_no_cause_left_behind(
    env: VirtualEnvironment,
) -> None:
    tracer = env.tracer
    first_event = tracer.emit("note", "x")
    answers: list[Pending[None]] = [Pending(env.tasks) for _ in range(2)]
    causes_seen: list[int] = []

    async def drive_through_answers() -> None:
        tracer.set_cause(first_event)
        for answer_future in answers:
            await answer_future
            causes_seen.append(tracer.cause)

    env.tasks.drive(drive_through_answers(), lambda *_: None, name="driven")
    tracer.level = TraceLevel.OFF
    answers[0].resolve(None)
    tracer.level = TraceLevel.FULL
    answers[1].resolve(None)
    assert causes_seen == [NO_CAUSE, first_event]
    assert tracer.scope is None


@within(run_virtual, seed=1)
async def test_what_follows_from_a_driven_coroutine_is_due_to_what_it_came_to(
    env: VirtualEnvironment,
) -> None:
    tracer = env.tracer
    first_event, second_event = tracer.emit("note", "x"), tracer.emit("note", "x")
    answer_future: Pending[None] = Pending(env.tasks)
    causes_and_wakers: list[tuple[int, int]] = []

    async def take_first_cause() -> None:
        tracer.set_cause(first_event)

    async def later() -> None:
        tracer.set_cause(first_event)
        await answer_future
        causes_and_wakers.append((tracer.cause, tracer.waker))
        raise ValueError

    def note_cause(_result: object, _error: BaseException | None) -> None:
        causes_and_wakers.append((tracer.cause, tracer.waker))

    env.tasks.drive(take_first_cause(), note_cause, name="at once")
    env.tasks.drive(later(), note_cause, name="later")
    tracer.set_cause(second_event)
    answer_future.resolve(None)
    assert causes_and_wakers == [
        (first_event, NO_CAUSE),
        (first_event, second_event),
        (first_event, NO_CAUSE),
    ]
    assert tracer.cause == second_event


# Who waits for a turn goes on in order of what it has used and wants, and a turn has an end.


WORK_NS = 1_000_000
"""One piece of a worker's work."""


class Worker:
    """A user of turns that has ``pieces`` pieces of work."""

    def __init__(
        self, turns: Turns, log: list[str], name: str, piece_count: int, *, wanted_ns: int = 0
    ):
        self.turns, self.log, self.name = turns, log, name
        self.pieces, self.wanted_ns = piece_count, wanted_ns
        self.used_ns = self.busy_period = 0
        self.on_done: Callable[[], None] = lambda: None
        turns.wait(self, wanted_ns=wanted_ns)

    def work_until(self, limit_ns: int) -> None:
        while self.pieces:
            self.pieces -= 1
            self.log.append(self.name)
            self.turns.spent_ns += WORK_NS
            self.used_ns += WORK_NS
            if self.turns.spent_ns >= limit_ns:
                break
        if self.pieces:
            self.turns.wait(self, wanted_ns=self.wanted_ns)
        else:
            self.on_done()


async def turns_taken(log: list[str]) -> list[int]:
    """The amount of work in each turn of the loop."""
    pieces_by_turn = []
    pieces_done = 0
    for _ in range(1000):
        await asyncio.sleep(0)
        if len(log) > pieces_done:
            pieces_by_turn.append(len(log) - pieces_done)
        pieces_done = len(log)
    return pieces_by_turn


async def test_one_worker_alone_takes_its_limit_in_each_turn() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = 10 * WORK_NS
    Worker(turns, log, "a", 25)
    assert await turns_taken(log) == [10, 10, 5]


async def test_those_who_wait_share_a_turn() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = 4 * WORK_NS
    for name in "ab":
        Worker(turns, log, name, 6)
    await turns_taken(log)
    assert log[:4] in (list("aabb"), list("aaab"))
    assert log.count("a") == log.count("b") == 6
    assert max(log.index("b"), 12 - log[::-1].index("a")) > 4, "neither had to wait for all"


async def test_a_newcomer_waits_for_none_of_the_work_that_others_have_queued() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = WORK_NS
    for number in range(20):
        Worker(turns, log, f"old{number}", 50)
    for _ in range(40):
        await asyncio.sleep(0)
    pieces_before = len(log)
    Worker(turns, log, "new", 1)
    await turns_taken(log)
    assert log.index("new") - pieces_before <= 20, "at most one piece of each who is ahead"


async def test_a_small_request_goes_ahead_of_large_ones() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = WORK_NS
    for number in range(20):
        Worker(turns, log, f"large{number}", 2, wanted_ns=100 * WORK_NS)
    Worker(turns, log, "small", 1, wanted_ns=100)
    await turns_taken(log)
    assert log[0] == "small"
    assert len(log) == 41


async def test_what_was_used_before_a_contest_does_not_count_in_it() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = WORK_NS
    veteran_worker = Worker(turns, log, "veteran", 500)
    await turns_taken(log)
    veteran_worker.pieces = 3
    Worker(turns, log, "new", 3)
    turns.wait(veteran_worker, wanted_ns=0)
    await turns_taken(log)
    assert sorted(log[500:502]) == ["new", "veteran"]


async def test_work_that_is_caused_in_a_turn_waits_for_the_next_one() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = 10 * WORK_NS
    first_worker = Worker(turns, log, "a", 1)
    first_worker.on_done = lambda: Worker(turns, log, "b", 1) and None
    assert await turns_taken(log) == [1, 1]


async def slices_of(turns: Turns, log: list[str], name: str, count: int) -> None:
    """A large request that takes ``count`` slices."""
    slices = TimeSlices(turns)
    for _ in range(count):
        await slices.next()
        log.append(name)


async def test_a_turn_has_one_slice_however_many_requests_are_large() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    async with asyncio.TaskGroup() as tasks:
        for name in "abcdef":
            tasks.create_task(slices_of(turns, log, name, 5))
        assert set(await turns_taken(log)) == {1}
    assert "".join(log) == "".join(name * 5 for name in "abcdef"), "the oldest one first"


async def test_a_large_request_goes_to_the_end_of_the_line_after_a_round() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    async with asyncio.TaskGroup() as tasks:
        for name in "ab":
            tasks.create_task(slices_of(turns, log, name, ROUND + 1))
        for _ in range(ROUND * 3 // 2):
            await asyncio.sleep(0)
        tasks.create_task(slices_of(turns, log, "c", 1))
    assert "".join(log) == "a" * ROUND + "b" * ROUND + "acb"


async def test_a_client_has_as_much_of_the_loop_as_all_large_requests() -> None:
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = WORK_NS
    async with asyncio.TaskGroup() as tasks:
        for number in range(30):
            tasks.create_task(slices_of(turns, log, f"large{number}", 10))
        await asyncio.sleep(0)
        Worker(turns, log, "small", 20)
        await turns_taken(log)
    assert log[:45].count("small") == 20


async def test_a_small_request_waits_for_no_slice_of_a_large_one() -> None:
    """A small request goes before the slices of large requests that have just begun."""
    turns, log = Turns(asyncio.get_running_loop()), list[str]()
    turns.limit_ns = 2 * SLICE_NS

    async def work(name: str) -> None:
        await TimeSlices(turns).next()
        log.append(name)

    tasks = [
        asyncio.get_running_loop().create_task(work(f"large{task_number}"))
        for task_number in range(30)
    ]
    await asyncio.sleep(0)
    Worker(turns, log, "small", 1, wanted_ns=SLICE_NS // 20)
    await turns_taken(log)
    assert log[0] == "small"
    for task in tasks:
        await task


async def test_a_slice_that_is_not_waited_for_any_more_is_given_to_none() -> None:
    turns = Turns(asyncio.get_running_loop())
    slices = TimeSlices(turns)
    slice_task = asyncio.get_running_loop().create_task(slices.next())
    await asyncio.sleep(0)
    slice_task.cancel()
    await asyncio.sleep(0.01)
    assert slice_task.cancelled()
    await slices.next()


def test_a_large_request_rests_after_so_many_elements_where_no_time_passes() -> None:
    async def main() -> None:
        pace = Pace(Turns(asyncio.get_running_loop()), lambda: 0)
        elements_done = 0
        while not pace.has_done(1):
            elements_done += 1
        assert elements_done + 1 == LOOKS * LOOK_ELEMENTS
        assert not pace.has_rested
        await pace.yield_turn()
        assert pace.has_rested
        assert not pace.has_done(1), "a new slice"

    asyncio.run(main())


def test_it_rests_earlier_where_its_elements_take_long() -> None:
    async def main() -> None:
        now_ns = 0
        pace = Pace(Turns(asyncio.get_running_loop()), lambda: now_ns)
        assert not pace.has_done(LOOK_ELEMENTS)
        now_ns = SLICE_NS
        assert not pace.has_done(LOOK_ELEMENTS - 1), "the clock is looked at now and then"
        assert pace.has_done(1)

    asyncio.run(main())


def test_steps_are_gone_through_with_breaks() -> None:
    def steps() -> Generator[int, None, str]:
        for _ in range(10):
            yield LOOKS * LOOK_ELEMENTS // 4
        return "through"

    async def main() -> None:
        turns: list[int] = []
        loop = asyncio.get_running_loop()

        def turn() -> None:
            turns.append(1)
            loop.call_soon(turn)

        loop.call_soon(turn)
        assert await Pace(Turns(loop), lambda: 0).run(steps()) == "through"
        assert len(turns) >= 2

    asyncio.run(main())
