"""Actions of a user on a cluster, as events of the trace: with the seed, they are enough for a
replay.

An input is the root of the events that follow from it. If a fault rule or another input does the
same action, that is its cause already, so the action gets no event of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim import VERSION
from txnsim.loggers import Logger
from txnsim.runtime.environment import Clock, Environment
from txnsim.runtime.trace import RunInfo
from txnsim.settings import DEFAULTS, documentation

if TYPE_CHECKING:
    from txnsim.server.options import ClusterOptions

_log: Final = Logger("txnsim.cluster")

USER_NODE: Final = "user"
_UNLOGGED_INPUTS: Final = ("create-topics", "stop-cluster")
"""Inputs that are part of every start and stop: they are not logged."""
LOGGED_CHARACTERS_MAX: Final = 500
"""Greatest length of an input's argument in the log."""
ADVANCE_MS_MAX: Final = 10 * 366 * 86_400_000
"""Ten years: enough for every expiry, and far from the end of the clock."""


@contextlib.contextmanager
def input_event(environment: Environment, input_name: str, **arguments: object) -> Iterator[None]:
    """Trace an input of the user, as the cause of everything that happens in the block.

    Args:
        environment: The environment of the run.
        input_name: Name of the input, as in ``txnsim_lab.scenario``.
        arguments: Arguments of the input; those that are None or False are left out.
    """
    tracer = environment.tracer
    if tracer.cause >= 0:
        yield
        return
    given_arguments = {
        argument_name: value
        for argument_name, value in arguments.items()
        if value is not None and value is not False
    }
    if input_name not in _UNLOGGED_INPUTS:
        _log.info(
            f"user.{input_name}",
            **{
                argument_name: _shorten_argument(value)
                for argument_name, value in given_arguments.items()
            },
        )
    cause_before = tracer.cause
    if tracer.on:
        data = {"do": input_name, "args": given_arguments, "at": environment.clock.now_ms()}
        tracer.set_cause(tracer.emit("input", USER_NODE, data=data))
    try:
        yield
    except Exception as error:
        _log.info("user.refused", do=input_name, why=str(error))
        raise
    finally:
        tracer.set_cause(cause_before)


def _shorten_argument(value: object) -> object:
    """The value; a long one as a text that is cut off."""
    if isinstance(value, int | float) or len(text := str(value)) <= LOGGED_CHARACTERS_MAX:
        return value
    return f"{text[:LOGGED_CHARACTERS_MAX]}…"


def describe_run(run_info: RunInfo, options: ClusterOptions) -> RunInfo:
    """Adds to the trace header's information how the cluster was started: settings that differ from
    the defaults, brokers, releases, and rules that were switched by hand.
    """
    settings = options.settings
    setting_docs = documentation()
    changed_settings = {
        setting_docs[setting].kafka or setting: value
        for setting in setting_docs
        if (value := getattr(settings, setting)) != getattr(DEFAULTS, setting)
    }
    return msgspec.structs.replace(
        run_info,
        sim=VERSION,
        settings=tuple(
            (setting_name, value if isinstance(value, str | int | bool) else str(value))
            for setting_name, value in sorted(changed_settings.items())
        ),
        brokers=options.brokers,
        releases=options.as_version,
        rules=tuple(sorted(options.rules.items())),
    )


def advance(environment: Environment, ms: int) -> None:
    """Advance the cluster clock.

    Raises:
        ValueError: It is negative, or more than ``ADVANCE_MS_MAX``.
    """
    _check_advance(ms)
    with input_event(environment, "advance", ms=ms):
        environment.clock.advance(ms)


async def advance_with_breaks(environment: Environment, ms: int) -> None:
    """Advance the cluster clock, in slices, so that clients have their turns.

    Raises:
        ValueError: It is negative, or more than ``ADVANCE_MS_MAX``.
    """
    _check_advance(ms)
    with input_event(environment, "advance", ms=ms):
        await environment.clock.advance_with_breaks(ms)


def _check_advance(ms: int) -> None:
    if not 0 <= ms <= ADVANCE_MS_MAX:
        raise ValueError(
            f"time can be advanced by 0 to {ADVANCE_MS_MAX} ms, asked for {ms}; "
            "to set a clock back is another thing (docs/time.md, Setting a clock)"
        )


def shift(clock: Clock, ms: int) -> None:
    """Set a clock ahead, or back if negative.

    Raises:
        ValueError: The shift is larger than ``ADVANCE_MS_MAX``.
    """
    if abs(ms) > ADVANCE_MS_MAX:
        raise ValueError(
            f"a clock can be set by {-ADVANCE_MS_MAX} to {ADVANCE_MS_MAX} ms, asked for {ms}"
        )
    clock.shift(ms)
