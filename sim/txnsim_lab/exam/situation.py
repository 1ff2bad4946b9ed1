"""A situation: what happens, what is asked, at which levels it exists."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Final, Literal

import msgspec

from txnsim_lab.exam._application import Application

Kind = Literal["fenced", "end unknown", "middle", "readers", "groups", "share groups", "liveness"]
Play = Callable[[Application], Awaitable[None]]
ALL: Final = (0, 1, 2)


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """One question of the exam."""

    name: str
    kind: Kind
    asks: str
    """The question, for people."""
    play: Play
    yardstick: str
    """The rule of Kafka, or what the Java client does."""
    levels: tuple[int, ...] = ALL
    """Levels of ``transaction.version`` at which it exists."""
    groups: tuple[str, ...] = ()
    """Groups whose positions are judged."""
    about: tuple[str, ...] = ()
    """Known bugs that it shows."""
    needs_version_2: bool = False
    """Version 1 of transactions can't tell: a miss by it is the protocol's."""
    core: bool = False
    """Asked by ``--core``."""
    begins_as: str = ""
    """The release of Kafka at the beginning, where it wants a certain one."""


def situation(
    name: str,
    kind: Kind,
    asks: str,
    *,
    yardstick: str = "",
    levels: tuple[int, ...] = ALL,
    groups: tuple[str, ...] = (),
    about: tuple[str, ...] = (),
    needs_version_2: bool = False,
    core: bool = False,
    begins_as: str = "",
) -> Callable[[Play], Situation]:
    """Make a situation of a coroutine function.

    Args:
        name: As ``--only`` takes it.
        kind: Its class.
        asks: The question.
        yardstick: What it is judged by; what the function is documented with unless given.
        levels: Where it exists.
        groups: Whose positions are judged.
        about: Known bugs.
        needs_version_2: Version 1 of transactions can't tell.
        core: Asked by ``--core``.
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
        core=core,
        begins_as=begins_as,
    )
