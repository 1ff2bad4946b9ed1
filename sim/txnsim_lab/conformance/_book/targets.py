"""The cluster that cases are played to, as far as a player that waits for each act needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from txnsim_lab.target.cluster import THERE, Ability, need


class BlockingTarget(Protocol):
    """``Target``, as far as those need it who wait for each act."""

    @property
    def can(self) -> frozenset[Ability]:
        """Its abilities."""

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers."""

    def kill(self, broker: int) -> None:
        """End a broker at once, as ``kill -9`` does."""

    def stop(self, broker: int) -> None:
        """End a broker in order, and wait until it has ended."""

    def start(self, broker: int) -> None:
        """Start one again that was ended, and wait until it is one of the cluster."""


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of plays on a cluster of others."""

    prefix: str = ""
    """Of the names of all topics, ids and groups."""
    patience_s: float = 60.0
    offered: Mapping[str, tuple[int, int]] | None = None
    broker_id: int = 1
    """The number that recorded answers call 1."""

    def version(self, api: str, highest_wanted: int) -> int | None:
        if self.offered is None:
            return highest_wanted
        lowest, highest = self.offered.get(api, (1, 0))
        chosen = min(highest_wanted, highest)
        return chosen if chosen >= lowest else None


ALONE: Final = Around()
"""On a cluster that was started for the plays."""


class There:
    """A cluster that runs already.

    Args:
        bootstrap: Where.
    """

    can = THERE

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def kill(self, broker: int) -> None:
        need(self.can, Ability.BROKERS, f"kill broker {broker}")

    def stop(self, broker: int) -> None:
        need(self.can, Ability.BROKERS, f"stop broker {broker}")

    def start(self, broker: int) -> None:
        need(self.can, Ability.BROKERS, f"start broker {broker}")
