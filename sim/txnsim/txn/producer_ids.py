"""Producer ids in blocks: how a broker uses its blocks and how the controller allocates them.

A broker never waits for a block. It asks for the next one when nine tenths of the present one are
used. When it has no ids left, it answers COORDINATOR_LOAD_IN_PROGRESS and asks (KAFKA-14694): the
first InitProducerId after a start usually gets that. The rest of a block is lost at a restart; ids
are never allocated twice.

Counterparts in Kafka: RPCProducerIdManager, ProducerIdControlManager.
"""

from __future__ import annotations

from typing import Final

import msgspec

from txnsim.errors import ErrorCode
from txnsim.interbroker.transactions import AllocateProducerIdsCommand, AllocateProducerIdsReply
from txnsim.types import ProducerId

BLOCK_LENGTH: Final = 1_000
RETRY_BACKOFF_MS: Final = 50
"""Pause after a failed request for a block (RPCProducerIdManager.RETRY_BACKOFF_MS)."""

FIRST_PRODUCER_ID: Final = ProducerId(0)
"""First id of a newly formatted cluster."""

_PREFETCH_NUMERATOR: Final = 9
_PREFETCH_DENOMINATOR: Final = 10
_INT64_MAX: Final = 2**63 - 1


class ProducerIdBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The ids from ``first_id`` to ``first_id + length - 1``."""

    first_id: int
    length: int

    @property
    def last_id(self) -> int:
        """Last id of the block; ``first_id - 1`` if it is empty."""
        return self.first_id + self.length - 1

    @property
    def prefetch_id(self) -> int:
        """The id at whose use the next block is requested."""
        return self.first_id + self.length * _PREFETCH_NUMERATOR // _PREFETCH_DENOMINATOR


_NO_BLOCK: Final = ProducerIdBlock(first_id=0, length=0)


class ProducerIdPool(msgspec.Struct, eq=False):
    """A broker's blocks: the one in use and perhaps the next."""

    _block: ProducerIdBlock = _NO_BLOCK
    _next_block: ProducerIdBlock | None = None
    _next_id: int = 0
    _needs_block: bool = False
    _is_request_in_flight: bool = False
    _retry_at_ms: int | None = None

    def take(self) -> ProducerId | None:
        """Take an unused id; None if there is none now. ``start_request`` may then have something
        to send.
        """
        if self._next_id > self._block.last_id:
            if self._next_block is None:
                self._needs_block = True
                return None
            self._block, self._next_block = self._next_block, None
            self._next_id = self._block.first_id
        producer_id = self._next_id
        self._next_id += 1
        if producer_id == self._block.prefetch_id:
            self._needs_block = True
        return ProducerId(producer_id)

    @property
    def has_id(self) -> bool:
        """Whether ``take`` would return an id."""
        return self._next_id <= self._block.last_id or self._next_block is not None

    @property
    def is_asking(self) -> bool:
        """Whether a request is in flight."""
        return self._is_request_in_flight

    def want_block(self) -> None:
        """Make the next ``start_request`` return True, even if ids are left."""
        self._needs_block = True

    def start_request(self, *, now_ms: int) -> bool:
        """Whether to send AllocateProducerIds now; its reply goes to ``on_reply``.

        A wish for a block during the pause after a failure is dropped; the next ``take`` renews it.
        """
        wants_block, self._needs_block = self._needs_block, False
        if not wants_block or self._is_request_in_flight or self._next_block is not None:
            return False
        if self._retry_at_ms is not None and now_ms < self._retry_at_ms:
            return False
        self._retry_at_ms = None
        self._is_request_in_flight = True
        return True

    def on_reply(self, reply: AllocateProducerIdsReply | None, *, now_ms: int) -> bool:
        """Take the reply, or None if there was none; returns whether it brought a block.

        A block that is not above the present one is refused (KAFKA-20031).
        """
        self._is_request_in_flight = False
        if (
            reply is None
            or reply.error != ErrorCode.none
            or reply.first_producer_id <= self._block.last_id
        ):
            self._retry_at_ms = now_ms + RETRY_BACKOFF_MS
            return False
        self._next_block = ProducerIdBlock(
            first_id=reply.first_producer_id, length=reply.producer_id_count
        )
        return True


class ProducerIdAllocator(msgspec.Struct, frozen=True, kw_only=True):
    """The controller's side: the next id that is in no block yet."""

    next_producer_id: int = FIRST_PRODUCER_ID

    def allocate(
        self, command: AllocateProducerIdsCommand, *, broker_epoch: int | None
    ) -> tuple[ProducerIdAllocator, AllocateProducerIdsReply]:
        """Allocate a block: (the new allocator, the reply)."""
        if broker_epoch is None:
            return self, _refusal(ErrorCode.broker_id_not_registered)
        if broker_epoch != command.broker_epoch:
            return self, _refusal(ErrorCode.stale_broker_epoch)
        first_id = self.next_producer_id
        if first_id > _INT64_MAX - BLOCK_LENGTH:
            return self, _refusal(ErrorCode.unknown_server_error)
        return (
            ProducerIdAllocator(next_producer_id=first_id + BLOCK_LENGTH),
            AllocateProducerIdsReply(first_producer_id=first_id, producer_id_count=BLOCK_LENGTH),
        )


def _refusal(error: ErrorCode) -> AllocateProducerIdsReply:
    return AllocateProducerIdsReply(error=error)
