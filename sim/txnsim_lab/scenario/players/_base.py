"""The interface of players: what a story needs an application's client to do."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from txnsim.client.authentication import ClientSecurity
from txnsim.errors import ClientError
from txnsim.runtime.environment import Environment
from txnsim.types import TopicPartition

PLAYERS: Final = ("own", "kafka-python")
"""Names of the players of an application."""

REQUEST_TIMEOUT_MS: Final = 1_000
"""How long the producer waits for an answer. kafka-python waits as long for its coordinator, and
fails afterwards: a busy machine must be able to answer in this time.
"""
DELIVERY_TIMEOUT_MS: Final = 1_200
"""Longer than one attempt, whose connection must be closed by then, but short, for the story."""


class PlayerPart(msgspec.Struct, frozen=True, kw_only=True):
    """What a player needs to know of the application that it plays."""

    bootstrap: str
    transactional_id: str
    client_id: str
    topic: str
    partition: int
    """Partition of a program's record; other players get a partition with each record."""
    now_ms: int
    """The cluster's time, for players that set the timestamps of their records."""
    security: ClientSecurity = ClientSecurity()
    """How clients log in; only our own client supports it."""
    environment: Environment | None = None
    """The run's environment, for players that run in it; the real one unless given."""


class ApplicationPlayer(Protocol):
    """A transactional producer. Failures are raised as ``ClientError``."""

    name: str

    async def begin(self) -> None:
        """Initialize the producer if needed, and begin a transaction."""

    async def send(self, value: str, partition: TopicPartition) -> None:
        """Send a record without waiting for its acknowledgement."""

    async def await_ack(self) -> int:
        """Wait for the acknowledgement of the last record; raises if there is none.

        Returns:
            The record's offset; -1 if the client does not report it.
        """

    async def give_up(self) -> None:
        """Wait until the delivery of the last record has timed out.

        Raises:
            ClientError: The record was acknowledged instead.
        """
        try:
            await self.await_ack()
        except ClientError:
            return
        raise ClientError("the record was acknowledged though its request is held")

    async def commit(self) -> None: ...

    async def abort(self) -> None: ...

    async def close(self) -> None:
        """Close the producer; may be called at any time."""

    def remarks(self) -> tuple[str, ...]:
        """What the client logged on its own, with an explanation where one is needed."""
        return ()
