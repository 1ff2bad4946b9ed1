"""A result to come, without a turn of the loop between its arrival and its waiters."""

from __future__ import annotations

import asyncio

import pytest

from txnsim.runtime.pending import Pending
from txnsim.runtime.tasks import LoopTasks


@pytest.fixture
async def tasks() -> LoopTasks:
    return LoopTasks(asyncio.get_running_loop())


async def test_callbacks_run_at_once_in_order(tasks: LoopTasks) -> None:
    pending: Pending[int] = Pending(tasks)
    heard: list[int] = []
    pending.on_done(lambda done: heard.append(done.result()))
    pending.on_done(lambda done: heard.append(-done.result()))
    assert not pending.done()
    pending.resolve(7)
    assert heard == [7, -7]
    pending.on_done(lambda done: heard.append(0))
    assert heard == [7, -7, 0], "at once where the result is there already"


async def test_it_is_resolved_once(tasks: LoopTasks) -> None:
    pending: Pending[int] = Pending(tasks)
    pending.resolve(1)
    pending.resolve(2)
    pending.fail(ValueError("late"))
    assert (pending.result(), pending.exception()) == (1, None)


async def test_a_failure_is_raised_to_the_caller(tasks: LoopTasks) -> None:
    pending: Pending[int] = Pending(tasks)
    pending.fail(ValueError("broken"))
    pending.resolve(1)
    assert isinstance(pending.exception(), ValueError)
    with pytest.raises(ValueError, match="broken"):
        pending.result()
    with pytest.raises(ValueError, match="broken"):
        await pending


async def test_a_driven_coroutine_goes_on_without_a_turn_of_the_loop(tasks: LoopTasks) -> None:
    first: Pending[int] = Pending(tasks)
    second: Pending[int] = Pending(tasks)
    heard: list[object] = []

    async def add() -> int:
        return await first + await second

    tasks.drive(add(), lambda result, error: heard.append((result, error)), name="add")
    first.resolve(1)
    assert heard == []
    second.resolve(2)
    assert heard == [(3, None)], "in the same turn"
    assert not tasks.stepping


async def test_a_task_may_await_it_too_and_be_cancelled_meanwhile(tasks: LoopTasks) -> None:
    pending: Pending[int] = Pending(tasks)

    async def wait() -> int:
        return await pending

    waiting = tasks.spawn(wait(), name="waits")
    leaving = tasks.spawn(wait(), name="leaves")
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    pending.resolve(5)
    assert await waiting == 5
    assert leaving.cancelled()
    assert await pending == 5
