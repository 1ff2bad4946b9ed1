"""What a user does to a cluster, told to the trace: with the seed, all that a replay needs.

An input is the root of what follows from it. Where a fault's rule or another input does the same,
that one is the cause already, and nothing is told twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.runtime.env import Environment
from txnsim.runtime.trace import RunInfo
from txnsim.settings import DEFAULTS, documentation

if TYPE_CHECKING:
    from txnsim.server.options import ClusterOptions

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


def described(known: RunInfo, options: ClusterOptions) -> RunInfo:
    """What a trace's header tells of a run, with what its cluster was started with: settings that
    differ from the defaults, behaviours that were switched by hand.
    """
    settings = options.settings
    names = documentation()
    told = {
        names[field].kafka or field: value
        for field in settings.__struct_fields__
        if (value := getattr(settings, field)) != getattr(DEFAULTS, field)
    }
    return msgspec.structs.replace(
        known,
        sim=version("txnsim"),
        settings=tuple((name, _plain(value)) for name, value in sorted(told.items())),
        brokers=options.brokers,
        releases=options.as_version,
        rules=tuple(sorted(options.rules.items())),
    )


def _plain(value: object) -> str | int | bool:
    return value if isinstance(value, str | int | bool) else str(value)


def advance(environment: Environment, ms: int) -> None:
    """Let time go on."""
    with told(environment, "advance", ms=ms):
        environment.clock.advance(ms)
