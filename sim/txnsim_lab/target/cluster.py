"""The interface of all targets, and the abilities by which they differ.

The abilities of a target are known before anything starts: ``Target.abilities``. An act that a
target is not able to do raises ``TargetError``, and changes nothing.
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
"""Limit of the wait until a cluster has followed an act: longer than the 30 s after which brokers
retry.
"""
POLL_FIRST_MS: Final = 2
POLL_MAX_MS: Final = 250


class TargetError(TxnsimError):
    """A target is not able to do an act, or did not follow in time."""


class Ability(StrEnum):
    """An ability that not every target has."""

    BROKERS = "brokers end and start, and are known by their numbers"
    LOGS = "segments end, the cleaner and retention run on demand"
    WHOLE_CLUSTER = "leaders of internal topics move, and features change: no other client uses it"
    PEERS = "faults strike requests between brokers"
    CLOCK = "time is moved, not waited for"
    INSIDE = "faults strike inside of a broker, and its state is seen and changed"


RUNNING_ABILITIES: Final[frozenset[Ability]] = frozenset()
"""Abilities of a cluster that ran before and belongs to others."""
STARTED_ABILITIES: Final = frozenset(
    {Ability.BROKERS, Ability.LOGS, Ability.WHOLE_CLUSTER, Ability.PEERS}
)
"""Abilities of real brokers that were started for a story or situation."""
SIMULATED_ABILITIES: Final = frozenset(Ability)
_LACK_REASONS: Final = {
    Ability.BROKERS: "these brokers are not ours",
    Ability.LOGS: "these brokers are not ours",
    Ability.WHOLE_CLUSTER: "others use this cluster",
}


class Operator(Protocol):
    """The operator in whose name acts are done and traced."""

    async def admin(self) -> Admin:
        """The operator's client."""
        ...

    def say(self, text: str) -> None:
        """Take a line about an act that was done."""


class Target(Protocol):
    """A cluster, simulated or real."""

    environment: Environment
    """Its clock is that of an outside observer; its trace contains the faults."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """The target's abilities."""
        ...

    @property
    def bootstrap(self) -> str:
        """Addresses for clients."""
        ...

    @property
    def security(self) -> ClientSecurity:
        """How clients log in."""
        ...

    @property
    def injector(self) -> Injector:
        """The injector of faults."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings of the brokers that stories depend on."""
        ...

    @property
    def brokers(self) -> int:
        """Number of brokers; acts number them 1, 2, 3, …"""
        ...

    def number_of(self, broker_id: int) -> int:
        """The number by which acts name the broker with this id."""
        ...

    @property
    def topics(self) -> Mapping[str, int]:
        """Number of partitions of each existing topic, internal topics included."""
        ...

    @property
    def prefix(self) -> str:
        """Prefix of the names of all topics, ids and groups; empty if the cluster is used for
        nothing else.
        """
        ...

    async def admin(self) -> Admin:
        """A client for operators; on a real cluster it is not affected by faults."""
        ...

    def acts_for(self, operator: Operator) -> None:
        """From now on acts are done in that operator's name."""

    # Topics

    async def create_topic(self, topic: TopicToCreate) -> None:
        """Create a topic; replicas are given as numbers of brokers."""

    async def grow_topic(self, name: str, partition_count: int, leaders: tuple[int, ...]) -> None:
        """Grow a topic to ``partition_count`` partitions; leaders of new ones are chosen unless
        given.
        """

    async def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""

    async def configure(self, topic: str, config_name: str, config_value: str | None) -> None:
        """Set a config of a topic; None restores the default."""

    # Leaders

    async def home_of_id(self, transactional_id: str) -> TopicPartition:
        """The partition of ``__transaction_state`` that keeps a transactional id."""
        ...

    async def move_leader(self, partition: TopicPartition, new_leader: int) -> None:
        """Move the leader of a partition to a broker, and wait until clients see it."""

    async def reload_coordinator(self, partition: TopicPartition) -> None:
        """Make a coordinator unload its partition and load it again, with a higher epoch."""

    async def reassign(self, partition: TopicPartition, replicas: tuple[int, ...]) -> None:
        """Reassign a partition to other replicas."""

    # Brokers

    async def kill(self, broker_id: int, *, lose_unflushed: bool = False) -> None:
        """Kill a broker; with ``lose_unflushed`` it loses unflushed data, as in a power failure."""

    async def stop(self, broker_id: int) -> None:
        """Stop a broker with a controlled shutdown."""

    async def start(self, broker_id: int, *, as_version: str | None = None) -> None:
        """Start a stopped or killed broker again, as another release if one is given."""

    async def isolate(self, broker_id: int, *, from_clients: bool = False) -> None:
        """Isolate a broker from the others."""

    async def heal(self, broker_id: int) -> None:
        """Undo ``isolate``."""

    async def age(self, transactional_id: str, epoch: int) -> None:
        """Let an idle transactional id continue at an epoch."""

    # Logs

    async def roll(self, partition: TopicPartition) -> None:
        """Roll the segment of a partition on every replica, at the latest with the next record."""

    async def clean(self, partition: TopicPartition) -> None:
        """Run the log cleaner on a partition."""

    async def delete_old(self, partition: TopicPartition) -> None:
        """Run retention on a partition."""

    # Time

    async def advance(self, ms: int) -> None:
        """Let time pass, in milliseconds."""

    async def wait_out(self, ms: int) -> None:
        """Let time pass until no timeout of this length is pending."""

    # Looks

    def late_partition_count(self) -> int | None:
        """Number of partitions with late transactions, from the brokers' metrics; None if they are
        unknown.
        """

    def why_unfinished(self, transactional_id: str) -> list[str]:
        """Lines with the known reasons why a transaction does not end."""
        ...

    def is_hidden(self, partition: TopicPartition) -> bool:
        """Whether a partition belongs to others who use the same cluster."""
        ...


def replicas_from(leader_id: int, replica_count: int, *, broker_count: int) -> tuple[BrokerId, ...]:
    """The replicas of a partition: its leader, then the brokers with the following numbers."""
    return tuple(
        BrokerId((leader_id - 1 + distance) % broker_count + 1) for distance in range(replica_count)
    )


def require_ability(abilities: frozenset[Ability], ability: Ability, act_text: str) -> None:
    """Check that a target has the ability for an act.

    Raises:
        TargetError: It does not.
    """
    if ability not in abilities:
        lack_reason = _LACK_REASONS.get(ability)
        raise TargetError(
            f"a real cluster can't {act_text}: only a simulator can"
            if lack_reason is None
            else f"{act_text}: {lack_reason}"
        )


async def poll_until(
    clock: Clock,
    condition: Callable[[], Awaitable[bool]],
    awaited_state: str,
    *,
    patience_ms: int = PATIENCE_MS,
) -> None:
    """Wait until a condition holds, polling with growing pauses.

    Raises:
        TargetError: The time limit has passed.
    """
    deadline = Deadline(clock, patience_ms)
    pause_ms: float = POLL_FIRST_MS
    while not await condition():
        if deadline.has_passed:
            raise TargetError(f"waited {patience_ms} ms in vain until {awaited_state}")
        await pause(clock, pause_ms)
        pause_ms = min(pause_ms * 1.5, POLL_MAX_MS)
