"""Plays a test inside an environment, which passes it its first argument, or all positional-only
ones.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from txnsim.runtime.virtual.run import VirtualEnvironment, run_virtual

W = TypeVar("W")


def in_virtual_time(
    make_bench: Callable[[VirtualEnvironment], W],
) -> Callable[[Callable[[W], Awaitable[None]]], None]:
    """A ``run`` for ``within`` that builds a bench from a virtual environment and plays the test in
    it.
    """

    def run(main: Callable[[W], Awaitable[None]]) -> None:
        async def run_test(env: VirtualEnvironment) -> None:
            await main(make_bench(env))
            await env.tasks.close()

        run_virtual(run_test, seed=1)

    return run


def within(
    run: Callable[..., object], /, **run_arguments: Any
) -> Callable[[Callable[..., Awaitable[object]]], Callable[..., None]]:
    """Let ``run`` play the test, with ``run_arguments``; pytest gives its other arguments."""

    def decorate(run_test: Callable[..., Awaitable[object]]) -> Callable[..., None]:
        @functools.wraps(run_test)
        def play_test(**arguments: Any) -> None:
            run(lambda *benches: run_test(*benches, **arguments), **run_arguments)

        first_parameter, *other_parameters = inspect.signature(run_test).parameters.values()
        if first_parameter.kind is first_parameter.POSITIONAL_ONLY:
            other_parameters = [
                parameter
                for parameter in other_parameters
                if parameter.kind is not parameter.POSITIONAL_ONLY
            ]
        play_test.__signature__ = inspect.Signature(other_parameters)  # type: ignore[attr-defined]
        return play_test

    return decorate
