"""The interface of all targets, and the abilities by which they differ.

What a target can do is known before anything starts: ``Target.can``. An act that it is not able to
do raises ``TargetError``, and has touched nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Final, Protocol

from txnsim.client.admin import Admin
from txnsim.client.authentication import ClientSecurity
from txnsim.client.backoff import Deadline, pause
from txnsim.controller.controller import TopicToCreate
from txnsim.errors import TxnsimError
from txnsim.injection.injector import Injector
from txnsim.runtime.environment import Clock, Environment
from txnsim.settings import Settings
from txnsim.types import BrokerId, TopicPartition

PATIENCE_MS: Final = 60_000
"""Until a cluster has followed an act: longer than brokers take until they repeat what was lost
(30 s).
"""
POLL_FIRST_MS: Final = 2
POLL_MAX_MS: Final = 250


class TargetError(TxnsimError):
    """A target can't do that, or did not follow in time."""


class Ability(StrEnum):
    """What some targets can do, and others can't."""

    BROKERS = "brokers end and start, and are known by their numbers"
    LOGS = "segments end, the cleaner and retention run on demand"
    WHOLE_CLUSTER = "leaders of internal topics move, and features change: no other client uses it"
    PEERS = "faults strike requests between brokers"
    CLOCK = "time is moved, not waited for"
    INSIDE = "faults strike inside of a broker, and its state is seen and changed"


THERE: Final[frozenset[Ability]] = frozenset()
"""Of a cluster that runs already, and belongs to others."""
STARTED: Final = frozenset({Ability.BROKERS, Ability.LOGS, Ability.WHOLE_CLUSTER, Ability.PEERS})
"""Of real brokers that were started for what is played."""
SIMULATED: Final = frozenset(Ability)
_WITHOUT: Final = {
    Ability.BROKERS: "these brokers are not ours",
    Ability.LOGS: "these brokers are not ours",
    Ability.WHOLE_CLUSTER: "others use this cluster",
}


class Operator(Protocol):
    """In whose name acts are done, where that shows in a trace."""

    async def admin(self) -> Admin:
        """The client with which it looks at the cluster."""
        ...

    def say(self, text: str) -> None:
        """Hears what was done."""


class Target(Protocol):
    """A cluster, simulated or real."""

    environment: Environment
    """Its clock is that of an outside observer; its trace has the faults."""

    @property
    def can(self) -> frozenset[Ability]:
        """Its abilities."""
        ...

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        ...

    @property
    def security(self) -> ClientSecurity:
        """How clients log in there."""
        ...

    @property
    def injector(self) -> Injector:
        """Makes faults happen."""
        ...

    @property
    def settings(self) -> Settings:
        """Of the brokers, as far as a story has to know them."""
        ...

    @property
    def brokers(self) -> int:
        """How many there are; an act names them 1, 2, 3, …"""
        ...

    def number_of(self, broker_id: int) -> int:
        """The number by which acts name a broker that clients know by this id."""
        ...

    @property
    def topics(self) -> Mapping[str, int]:
        """How many partitions each topic has that there is now, internal ones included."""
        ...

    @property
    def prefix(self) -> str:
        """What the names of all topics, ids and groups begin with; empty where the cluster is used
        for nothing else.
        """
        ...

    async def admin(self) -> Admin:
        """An operator's client, whom no fault strikes on a real cluster."""
        ...

    def acts_for(self, operator: Operator) -> None:
        """From now on acts are done in that operator's name."""

    # Topics

    async def create_topic(self, topic: TopicToCreate) -> None:
        """Create a topic; replicas are numbers of brokers."""

    async def grow_topic(self, name: str, count: int, leaders: tuple[int, ...]) -> None:
        """Give a topic ``count`` partitions; leaders of the new ones are chosen unless given."""

    async def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""

    async def configure(self, topic: str, name: str, value: str | None) -> None:
        """Set a config of a topic; None: as it was."""

    # Leaders

    async def home_of_id(self, transactional_id: str) -> TopicPartition:
        """The partition on which a transactional id lives."""
        ...

    async def move_leader(self, partition: TopicPartition, to: int) -> None:
        """Let a broker lead a partition, and wait until clients see it."""

    async def reload_coordinator(self, partition: TopicPartition) -> None:
        """Let a coordinator lose its partition and have it back, in a higher epoch."""

    async def reassign(self, partition: TopicPartition, replicas: tuple[int, ...]) -> None:
        """Give a partition to other replicas."""

    # Brokers

    async def kill(self, broker: int, *, lose_unflushed: bool = False) -> None:
        """End a broker at once; without what it had not flushed, as after a power cut."""

    async def stop(self, broker: int) -> None:
        """End a broker in order."""

    async def start(self, broker: int, *, as_version: str | None = None) -> None:
        """Start one that was ended, as another release if one is given."""

    async def isolate(self, broker: int, *, from_clients: bool = False) -> None:
        """Cut a broker off from the others."""

    async def heal(self, broker: int) -> None:
        """Undo ``isolate``."""

    async def age(self, transactional_id: str, epoch: int) -> None:
        """Let an idle transactional id go on at an epoch."""

    # Logs

    async def roll(self, partition: TopicPartition) -> None:
        """End the segment of a partition on every replica, with the next record at the latest."""

    async def clean(self, partition: TopicPartition) -> None:
        """Have the cleaner run."""

    async def delete_old(self, partition: TopicPartition) -> None:
        """Have retention run."""

    # Time

    async def advance(self, ms: int) -> None:
        """Let time pass."""

    async def wait_out(self, ms: int) -> None:
        """Let enough time pass that no timeout of so long is pending."""

    # Looks

    def late(self) -> int | None:
        """Partitions with late transactions, as brokers' metrics say; None where they were not
        asked.
        """

    def why_unfinished(self, transactional_id: str) -> list[str]:
        """Lines with the known causes of a transaction that does not finish."""
        ...

    def is_hidden(self, partition: TopicPartition) -> bool:
        """Whether a partition belongs to others who use the same cluster."""
        ...


def replicas_from(leader: int, replicas: int, *, brokers: int) -> tuple[BrokerId, ...]:
    """A partition's replicas: its leader first, the next brokers behind it."""
    return tuple(BrokerId((leader - 1 + away) % brokers + 1) for away in range(replicas))


def need(abilities: frozenset[Ability], ability: Ability, act: str) -> None:
    """Refuse an act that a target is not able to do.

    Raises:
        TargetError: It is not.
    """
    if ability not in abilities:
        why = _WITHOUT.get(ability)
        raise TargetError(
            f"a real cluster can't {act}: only a simulator can" if why is None else f"{act}: {why}"
        )


async def until(
    clock: Clock,
    holds: Callable[[], Awaitable[bool]],
    awaited_state: str,
    *,
    patience_ms: int = PATIENCE_MS,
) -> None:
    """Look until it holds, more and more seldom.

    Raises:
        TargetError: Patience has run out.
    """
    deadline = Deadline(clock, patience_ms)
    pause_ms: float = POLL_FIRST_MS
    while not await holds():
        if deadline.passed:
            raise TargetError(f"waited {patience_ms} ms in vain until {awaited_state}")
        await pause(clock, pause_ms)
        pause_ms = min(pause_ms * 1.5, POLL_MAX_MS)
