"""Our own client as an application of a story."""

from __future__ import annotations

import asyncio

from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.producer import Producer, RecordMetadata
from txnsim.client.session import SessionState
from txnsim.types import TopicPartition
from txnsim_lab.scenario.players._base import (
    DELIVERY_TIMEOUT_MS,
    REQUEST_TIMEOUT_MS,
    Part,
    Player,
)


class OwnPlayer(Player):
    """``txnsim.client`` in this process, over real connections."""

    name = "own client"

    def __init__(self, part: Part) -> None:
        world = part.environment
        self._cluster = Cluster(
            part.bootstrap,
            settings=ClientSettings(client_id=part.client_id, security=part.security),
            clock=None if world is None else world.clock,
            tasks=None if world is None else world.tasks,
            tracer=None if world is None else world.tracer,
        )
        self._producer = Producer(
            self._cluster,
            transactional_id=part.transactional_id,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        self._sent: asyncio.Future[RecordMetadata] | None = None

    async def begin(self) -> None:
        if self._producer.session.state is SessionState.UNINITIALIZED:
            await self._cluster.connect()
            await self._producer.init_transactions()
        self._producer.begin()

    async def send(self, value: str, place: TopicPartition) -> None:
        """Send a record."""
        self._sent = self._producer.send(place.topic, place.partition, value.encode())

    async def await_ack(self) -> int:
        """Wait until the last record is acknowledged; returns its offset."""
        assert self._sent is not None
        return (await self._sent).offset

    async def commit(self) -> None:
        """Commit the transaction."""
        await self._producer.commit()

    async def abort(self) -> None:
        """Abort the transaction."""
        await self._producer.abort()

    async def close(self) -> None:
        """Leave."""
        await self._producer.close()
        await self._cluster.close()
