"""Wait for a condition that a broker reports: poll it, and give up after a while.

Every look is a request to a broker, which is pause enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.support.slow_machine import SLOW_S
from txnsim.runtime.blocking_world import world

Answer = TypeVar("Answer")


def until(
    ask: Callable[[], Answer],
    is_so: Callable[[Answer], bool],
    expectation: str,
    *,
    patience_s: float = SLOW_S,
) -> Answer:
    """Ask until ``is_so`` accepts an answer, and return that answer.

    Raises:
        AssertionError: None was, for so long.
    """
    deadline_s = world().monotonic_s() + patience_s
    while True:
        answer = ask()
        if is_so(answer):
            return answer
        if world().monotonic_s() > deadline_s:
            raise AssertionError(f"never: {expectation}; at last {answer}")
