"""Producer ids for a coordinator: the shell around ``ProducerIdPool``, which asks the controller.

Counterpart in Kafka: RPCProducerIdManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from txnsim.errors import PeerError
from txnsim.interbroker.transactions import AllocateProducerIdsReply
from txnsim.runtime.env import Clock, Tasks
from txnsim.runtime.tasks import Pending
from txnsim.txn.producer_ids import ProducerIdPool
from txnsim.types import ProducerId

AllocateProducerIds = Callable[[], Awaitable[AllocateProducerIdsReply]]
"""Ask the controller for a block; raises PeerError where no answer came."""


class ProducerIdSource(msgspec.Struct, kw_only=True, eq=False):
    """Unused producer ids; the next block is fetched in the background."""

    clock: Clock
    tasks: Tasks
    allocate: AllocateProducerIds
    _pool: ProducerIdPool = msgspec.field(default_factory=ProducerIdPool)
    _waiting: list[Pending[None]] = []

    def take(self) -> ProducerId | None:
        """An unused producer id; None without a block, in which case a block is requested."""
        taken = self._pool.take()
        self._request()
        return taken

    async def ready(self) -> None:
        """Wait for the controller's answer where no id is at hand, as brokers did before
        KAFKA-14694.
        """
        if self._pool.has_id:
            return
        self._pool.want()
        self._request()
        if self._pool.is_asking:
            answered: Pending[None] = Pending(self.tasks)
            self._waiting.append(answered)
            await answered

    def _request(self) -> None:
        if self._pool.start_request(now_ms=self.clock.monotonic_ms()):
            self.tasks.drive(_await(self.allocate()), self._on_block, name="producer ids")

    def _on_block(
        self, reply: AllocateProducerIdsReply | None, error: BaseException | None
    ) -> None:
        self._pool.on_reply(reply, now_ms=self.clock.monotonic_ms())
        waiting, self._waiting = self._waiting, []
        for answered in waiting:
            answered.resolve(None)
        if error is not None and not isinstance(error, PeerError | asyncio.CancelledError):
            raise error


async def _await(answer: Awaitable[AllocateProducerIdsReply]) -> AllocateProducerIdsReply:
    return await answer
