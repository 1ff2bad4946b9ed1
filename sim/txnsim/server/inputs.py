"""What a user does to a cluster, told to the trace: with the seed, all that a replay needs.

An input is the root of what follows from it. Where a fault's rule or another input does the same,
that one is the cause already, and nothing is told twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from txnsim.runtime.env import Environment

USER_NODE: Final = "user"


@contextlib.contextmanager
def told(environment: Environment, do: str, **args: object) -> Iterator[None]:
    """What is done inside is due to an input of the user.

    Args:
        environment: The run's world.
        do: What, in the words of ``txnsim.scenario``.
        args: With which arguments; those that are None or False are left out.
    """
    tracer = environment.tracer
    if not tracer.on or tracer.cause >= 0:
        yield
        return
    given = {
        name: value for name, value in args.items() if value is not None and value is not False
    }
    data = {"do": do, "args": given, "at": environment.clock.now_ms()}
    before = tracer.caused_by(tracer.emit("input", USER_NODE, data=data))
    try:
        yield
    finally:
        tracer.caused_by(before)


def advance(environment: Environment, ms: int) -> None:
    """Let time go on."""
    with told(environment, "advance", ms=ms):
        environment.clock.advance(ms)
