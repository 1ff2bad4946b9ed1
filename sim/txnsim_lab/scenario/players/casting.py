"""Who plays an application: decided before anything starts, so that a wish that can't be granted
costs nothing.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Final

import msgspec

from txnsim.errors import ConfigError, MissingExtraError, pip_line
from txnsim.text import unknown
from txnsim_lab.scenario.players._base import PLAYERS, Part, Player
from txnsim_lab.scenario.players._own import OwnPlayer
from txnsim_lab.scenario.players._program import ProgramPlayer, words

PIP_LINE: Final = pip_line("demo")


class Casting(msgspec.Struct, frozen=True, kw_only=True):
    """Who is wanted to play applications."""

    player: str | None = None
    """``own``, ``kafka-python``; the run's first one that is installed unless given."""
    program: str | None = None
    """A command that plays the part instead (see ``players.program``)."""
    make: Callable[[Part], Player] | None = None
    """Makes a player that is not listed here: another library in this process."""


class Cast(msgspec.Struct, frozen=True, kw_only=True):
    """Who plays it."""

    make: Callable[[Part], Player]
    program: bool = False
    remark: str = ""
    """Reason why the preferred player was not used."""


def cast(able: tuple[str, ...], casting: Casting, *, where: str) -> Cast:
    """Choose who plays an application.

    Raises:
        ConfigError: No such player or program, or it can't play in this run.
        MissingExtraError: Who was asked for is not installed.
    """
    if casting.make is not None:
        return Cast(make=casting.make)
    if casting.program is not None:
        command = words(casting.program)
        return Cast(make=functools.partial(ProgramPlayer, command=command), program=True)
    if casting.player is None:
        return _first_installed(able)
    if casting.player not in PLAYERS:
        raise ConfigError(unknown("player", casting.player, PLAYERS))
    if casting.player not in able:
        raise ConfigError(f"{casting.player} can't play in {where}; {', '.join(able)} can")
    found = _named(casting.player)
    if found is None:
        raise MissingExtraError(f"{casting.player} is not installed: {PIP_LINE}")
    return found


def _first_installed(able: tuple[str, ...]) -> Cast:
    missing: list[str] = []
    for name in able:
        found = _named(name)
        if found is None:
            missing.append(name)
        elif missing:
            remark = f"{', '.join(missing)} would play if installed: {PIP_LINE}"
            return msgspec.structs.replace(found, remark=remark)
        else:
            return found
    raise MissingExtraError(f"no client library that can play is installed: {PIP_LINE}")


def _named(name: str) -> Cast | None:
    """A player by name; None if its library is not installed."""
    if name == "own":
        return Cast(make=OwnPlayer)
    try:
        with warnings.catch_warnings():
            # kafka-python reads its own schemas in a way that newer Pythons deprecate.
            warnings.simplefilter("ignore", DeprecationWarning)
            from txnsim_lab.scenario.players._kafka_python import KafkaPythonPlayer
    except ImportError:
        return None
    return Cast(make=KafkaPythonPlayer)
