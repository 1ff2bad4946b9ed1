"""The type of a situation: what happens, the question, and the levels at which it exists."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Final, Literal

import msgspec

from txnsim_lab.exam._application import Application

SituationKind = Literal[
    "fenced", "end unknown", "middle", "readers", "groups", "share groups", "liveness"
]
PlaySituation = Callable[[Application], Awaitable[None]]
ALL_LEVELS: Final = (0, 1, 2)


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """One question of the exam."""

    name: str
    kind: SituationKind
    asks: str
    """The question, in words."""
    play: PlaySituation
    yardstick: str
    """The rule of Kafka, or what the Java client does."""
    levels: tuple[int, ...] = ALL_LEVELS
    """Levels of ``transaction.version`` at which it exists."""
    groups: tuple[str, ...] = ()
    """Groups whose positions are compared with the log."""
    about: tuple[str, ...] = ()
    """Known bugs that it shows."""
    needs_version_2: bool = False
    """Whether transactions v1 can't avoid a miss: then it counts as the protocol's."""
    core: bool = False
    """Whether ``--core`` includes it."""
    begins_as: str = ""
    """The release of Kafka at the beginning, if the situation needs a certain one."""


def situation(
    name: str,
    kind: SituationKind,
    asks: str,
    *,
    yardstick: str = "",
    levels: tuple[int, ...] = ALL_LEVELS,
    groups: tuple[str, ...] = (),
    about: tuple[str, ...] = (),
    needs_version_2: bool = False,
    is_core: bool = False,
    begins_as: str = "",
) -> Callable[[PlaySituation], Situation]:
    """Decorate a coroutine function that plays a situation.

    Args:
        name: The name for ``--only``.
        kind: The kind of the situation.
        asks: The question.
        yardstick: The rule to judge by; the function's docstring unless given.
        levels: Levels at which it exists.
        groups: Groups whose positions are judged.
        about: Known bugs that it shows.
        needs_version_2: Whether transactions v1 can't avoid a miss.
        is_core: Whether ``--core`` includes it.
        begins_as: The release of Kafka at the beginning.
    """
    return lambda play: Situation(
        name=name,
        kind=kind,
        asks=asks,
        play=play,
        yardstick=yardstick or " ".join((inspect.getdoc(play) or "").split()),
        levels=levels,
        groups=groups,
        about=about,
        needs_version_2=needs_version_2,
        core=is_core,
        begins_as=begins_as,
    )
