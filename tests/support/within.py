"""A test that is played inside of something: its first argument is what it gets there, or those
that are given by position alone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any


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
