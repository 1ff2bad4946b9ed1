"""What a story asks of an application, with any player."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from txnsim.client.authentication import ClientSecurity
from txnsim.errors import ClientError
from txnsim.runtime.environment import Environment
from txnsim.types import TopicPartition

PLAYERS: Final = ("own", "kafka-python")
"""Who can be named as a player of an application."""

REQUEST_TIMEOUT_MS: Final = 1_000
"""How long the producer waits for an answer. kafka-python gives its coordinator no longer either,
and does not forgive that one: a busy machine must be able to answer within it.
"""
DELIVERY_TIMEOUT_MS: Final = 1_200
"""Longer than one attempt, whose connection must be closed by then; short for the story."""


class PlayerPart(msgspec.Struct, frozen=True, kw_only=True):
    """The part to play."""

    bootstrap: str
    transactional_id: str
    client_id: str
    topic: str
    partition: int
    """Partition of a program's record; other players get one per record."""
    now_ms: int
    """The cluster clock, for players whose records carry a time they are given."""
    security: ClientSecurity = ClientSecurity()
    """How clients log in; only our own client can."""
    environment: Environment | None = None
    """The run's world, for players that live in it; the real one unless given."""


class ApplicationPlayer(Protocol):
    """A producer of records in a transaction. What goes wrong is raised as ``ClientError``."""

    name: str

    async def begin(self) -> None:
        """Initialize the producer if needed, and begin a transaction."""

    async def send(self, value: str, partition: TopicPartition) -> None:
        """Send a record; don't wait for its acknowledgement."""

    async def await_ack(self) -> int:
        """Wait until the last record is acknowledged; raises where it is not.

        Returns:
            Its offset; -1 where the client does not tell.
        """

    async def give_up(self) -> None:
        """Wait until the last record's delivery has timed out.

        Raises:
            ClientError: It was acknowledged instead.
        """
        try:
            await self.await_ack()
        except ClientError:
            return
        raise ClientError("the record was acknowledged though its request is held")

    async def commit(self) -> None:
        """Commit the transaction."""

    async def abort(self) -> None:
        """Abort the transaction."""

    async def close(self) -> None:
        """Leave; harmless at any time."""

    def remarks(self) -> tuple[str, ...]:
        """What the client said on its own (log lines), with an explanation where one is needed."""
        return ()
