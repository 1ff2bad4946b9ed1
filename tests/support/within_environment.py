"""A test that is played inside of something: its first argument is what it gets there, or those
that are given by position alone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual

W = TypeVar("W")


def in_virtual_time(
    world: Callable[[VirtualEnvironment], W],
) -> Callable[[Callable[[W], Awaitable[None]]], None]:
    """What plays a test in a world that is made of a virtual environment; a ``run`` of
    ``within_environment``.
    """

    def run(main: Callable[[W], Awaitable[None]]) -> None:
        async def whole(env: VirtualEnvironment) -> None:
            await main(world(env))
            await env.tasks.close()

        run_virtual(whole, seed=1)

    return run


def within(
    run: Callable[..., object], /, **given: Any
) -> Callable[[Callable[..., Awaitable[object]]], Callable[..., None]]:
    """Let ``run``, with what is ``given``, play the test; pytest gives its other arguments."""

    def decorate(test: Callable[..., Awaitable[object]]) -> Callable[..., None]:
        @functools.wraps(test)
        def played(**arguments: Any) -> None:
            run(lambda *worlds: test(*worlds, **arguments), **given)

        first, *others = inspect.signature(test).parameters.values()
        if first.kind is first.POSITIONAL_ONLY:
            others = [one for one in others if one.kind is not one.POSITIONAL_ONLY]
        played.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
        return played

    return decorate
