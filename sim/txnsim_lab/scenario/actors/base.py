"""What all actors share: their interface, and the environment that they act in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from txnsim.client.authentication import ClientSecurity
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.group_requests import GroupMetadata
from txnsim.client.members.member import GroupMember
from txnsim.runtime.environment import Environment
from txnsim.types import ProducerIdAndEpoch, TopicPartition
from txnsim_lab.scenario.call_results import CallResult, StoryFailedError
from txnsim_lab.scenario.fields import RunSelection
from txnsim_lab.scenario.recorder import Recorder
from txnsim_lab.scenario.steps_model import Call

LEAVE_ANSWER_LIMIT_S: Final = 5
"""Time in which the coordinator must answer a member that leaves at the end of the story."""
RETRY_BACKOFF_MS: Final = 5
RETRY_BACKOFF_MAX_MS: Final = 100
"""Short: stories are short, and simulated brokers answer at once."""


class StoryActor(Protocol):
    """An actor of a story: it makes calls when steps say so."""

    async def call(
        self, call: Call, *, expected_code: str, on_sent: Callable[[], object]
    ) -> CallResult:
        """Make the call of a step.

        Args:
            call: The call.
            expected_code: The error that the step expects. After any other retriable error the
                actor retries.
            on_sent: Called when the first request has been sent.
        """

    async def give_up(self, call: Call) -> None:
        """Stops waiting for the answer to a call in the background."""

    async def close(self) -> None: ...


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What an actor knows of the run: the cluster, the clock, the trace, the other actors."""

    environment: Environment
    bootstrap: str
    run_selection: RunSelection
    recorder: Recorder
    tell: Callable[[str, str], None]
    """(who, text): puts a sentence of an actor into the trace."""
    has_transactions_v2: bool
    is_ours: Callable[[TopicPartition], bool]
    """Whether a partition belongs to the story; others may share the cluster."""
    first_identities: dict[str, ProducerIdAndEpoch] = msgspec.field(default_factory=dict)
    """First identity of each wire actor, by its name."""
    members: dict[str, GroupMember] = msgspec.field(default_factory=dict)
    """Each member that has subscribed, by its actor's name; includes members that have died."""
    generations: dict[str, int] = msgspec.field(default_factory=dict)
    member_ids: dict[str, str] = msgspec.field(default_factory=dict)
    """Member ids, by the name that a step has given to a generation of the member."""
    prefix: str = ""
    """Prefix of every transactional id of the story."""
    security: ClientSecurity = ClientSecurity()
    """How clients log in."""

    def member(self, actor_name: str) -> GroupMember:
        """The group member of an actor.

        Raises:
            StoryFailedError: It has not subscribed yet.
        """
        member = self.members.get(actor_name)
        if member is None:
            raise StoryFailedError(f"{actor_name} has not subscribed yet")
        return member

    def client(self, client_id: str, *, request_timeout_ms: int = 30_000) -> Cluster:
        """Make a client for one actor, with short backoffs; it opens no connection yet."""
        return Cluster(
            self.bootstrap,
            settings=ClientSettings(
                client_id=client_id,
                request_timeout_ms=request_timeout_ms,
                retry_backoff_ms=RETRY_BACKOFF_MS,
                retry_backoff_max_ms=RETRY_BACKOFF_MAX_MS,
                security=self.security,
            ),
            clock=self.environment.clock,
            tasks=self.environment.tasks,
            tracer=self.environment.tracer,
        )


class ClientActor:
    """An actor with connections of its own, which are opened when first needed."""

    def __init__(self, name: str, surroundings: Surroundings, client_id: str | None = None) -> None:
        self.name = name
        self._surroundings = surroundings
        self._client_id = client_id or name
        self._cluster: Cluster | None = None

    async def _ready(self) -> Cluster:
        if self._cluster is None:
            self._cluster = self._surroundings.client(self._client_id)
            await self._cluster.connect()
        return self._cluster

    async def give_up(self, call: Call) -> None:
        """Never called: most actors make no calls in the background."""

    async def close(self) -> None:
        if self._cluster is not None:
            await self._cluster.close()


def group_metadata(
    call: Call, member_metadata: GroupMetadata | None, surroundings: Surroundings
) -> GroupMetadata | None:
    """The member in whose name positions are committed: ``member_metadata``, with the fields that
    the step overrides; None for a producer that names no member.
    """
    if {"generation", "member_id", "instance_id"}.isdisjoint(call.given_fields):
        return member_metadata
    metadata = GroupMetadata() if member_metadata is None else member_metadata
    generation = call.generation
    if isinstance(generation, str):
        if generation not in surroundings.generations:
            raise StoryFailedError(f"no member has had the generation {generation} yet")
        generation = surroundings.generations[generation]
    return GroupMetadata(
        generation=metadata.generation if generation is None else generation,
        member_id=metadata.member_id
        if call.member_id is None
        else surroundings.member_ids.get(call.member_id, call.member_id),
        instance_id=metadata.instance_id if call.instance_id is None else call.instance_id,
    )
