"""The cluster that cases are played on, with blocking operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from txnsim_lab.target.cluster import RUNNING_ABILITIES, Ability, require_ability


class BlockingTarget(Protocol):
    """The part of ``txnsim_lab.target.cluster.Target`` that players of cases need."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What the test may do with the cluster, such as stop its brokers."""

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers."""

    def kill(self, broker_id: int) -> None:
        """Kill a broker, as ``kill -9`` does."""

    def stop(self, broker_id: int) -> None:
        """Stop a broker with a controlled shutdown, and wait for its end."""

    def start(self, broker_id: int) -> None:
        """Start a stopped or killed broker again, and wait until it has joined the cluster."""


def _is_never_stopping() -> bool:
    return False


class PlaySurroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What plays respect on a cluster that has other users: names, versions, time limits."""

    run_prefix: str = ""
    """Prefix of the names of all topics, ids and groups."""
    patience_s: float = 60.0
    offered_versions: Mapping[str, tuple[int, int]] | None = None
    broker_id: int = 1
    """Id of the broker, which has the id 1 in recorded answers."""
    is_stopping: Callable[[], bool] = _is_never_stopping
    """Whether plays shall end before their next step."""

    def chosen_version(self, api: str, highest_wanted_version: int) -> int | None:
        if self.offered_versions is None:
            return highest_wanted_version
        lowest_version, highest_version = self.offered_versions.get(api, (1, 0))
        version = min(highest_wanted_version, highest_version)
        return version if version >= lowest_version else None


NO_OTHER_USERS: Final = PlaySurroundings()
"""For plays on a cluster that was started for them."""


class RunningTarget:
    """A cluster that runs already; its brokers can't be stopped.

    Args:
        bootstrap: Addresses of its brokers.
    """

    abilities = RUNNING_ABILITIES

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def kill(self, broker_id: int) -> None:
        require_ability(self.abilities, Ability.BROKERS, f"kill broker {broker_id}")

    def stop(self, broker_id: int) -> None:
        require_ability(self.abilities, Ability.BROKERS, f"stop broker {broker_id}")

    def start(self, broker_id: int) -> None:
        require_ability(self.abilities, Ability.BROKERS, f"start broker {broker_id}")
