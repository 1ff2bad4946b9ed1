"""Tasks and futures of a virtual loop hash by their number."""

from __future__ import annotations

import asyncio
from typing import Any

from txnsim.runtime.virtual.loop import VirtualLoop


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
