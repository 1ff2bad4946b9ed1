"""A transactional producer of our own, which writes what a library is to read: transactions without
a record, and compressed ones, whatever the library itself would write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from txnsim.client import requests
from txnsim.client.cluster import Cluster
from txnsim.client.coordinated import worst_partition_error
from txnsim.client.errors import ErrorCode, RetriableError
from txnsim.client.reactions import Operation, Reaction, react
from txnsim.client.versions import Request, VersionRange
from txnsim.testing.topics import AsyncTransactions
from txnsim.types import TopicPartition
from txnsim.wire.compression import NONE
from txnsim.wire.records import Record, build_batch

VERSION_1: Final = VersionRange(0, 4)
"""Versions of EndTxn that keep the epoch."""
PRODUCE: Final = VersionRange(3, 11)
"""Versions that add no partition by themselves."""


class Neighbour(msgspec.Struct, kw_only=True):
    """It speaks version 1 of transactions, and must not be disturbed."""

    cluster: Cluster
    transactions: AsyncTransactions
    transactional_id: str
    _identity: tuple[int, int] = (-1, -1)
    _sequences: dict[TopicPartition, int] = {}

    async def init(self) -> None:
        """Get a producer id."""
        request = requests.init_producer_id(self.transactional_id, timeout_ms=60_000)
        answer = await self._ask(Operation.INIT_PRODUCER_ID, request)
        self._identity = (answer.producer_id, answer.producer_epoch)

    async def transact(
        self, to: TopicPartition, values: Sequence[str], *, committed: bool, compression: int = NONE
    ) -> None:
        """A whole transaction, its marker included.

        Args:
            to: The partition that is added to it.
            values: One batch of records; none where empty.
            committed: Or aborted.
            compression: The codec's number.
        """
        producer_id, epoch = self._identity
        who = {"producer_id": producer_id, "producer_epoch": epoch}
        added = requests.add_partitions_to_txn(self.transactional_id, **who, partitions=[to])
        await self._ask(Operation.ADD_PARTITIONS, added, worst_partition_error)
        if values:
            await self._produce(to, values, compression)
        ended = requests.end_txn(
            self.transactional_id, **who, committed=committed, within=VERSION_1
        )
        await self._ask(Operation.COMMIT if committed else Operation.ABORT, ended)
        state = "CompleteCommit" if committed else "CompleteAbort"
        await self.transactions.wait_for_state(self.transactional_id, state)

    async def _ask(
        self,
        operation: Operation,
        request: Request,
        error_of: Callable[[Any], ErrorCode] = lambda answer: ErrorCode(answer.error_code),
    ) -> Any:
        """Ask the coordinator, which a busy machine may make move, until it decides.

        Raises:
            RetriableError: It refuses.
        """
        deadline, backoff = self.cluster.deadline(), self.cluster.backoff()
        while True:
            home = await self.cluster.coordinator(self.transactional_id, deadline=deadline)
            answer = await self.cluster.ask(home, request)
            error = error_of(answer)
            reaction = react(operation, error)
            if reaction is Reaction.DONE:
                return answer
            if deadline.passed or reaction not in (Reaction.RETRY, Reaction.LOOK_UP):
                raise RetriableError(f"{request.api.name}: {error.name.upper()}", error=error)
            self.cluster.forget_coordinator(self.transactional_id)
            await backoff.wait(deadline)

    async def _produce(self, to: TopicPartition, values: Sequence[str], compression: int) -> None:
        producer_id, epoch = self._identity
        first = self._sequences.get(to, 0)
        self._sequences[to] = first + len(values)
        now_ms = self.cluster.clock.now_ms()
        batch = build_batch(
            [Record(timestamp_ms=now_ms, key=None, value=one.encode()) for one in values],
            timestamp_ms=now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=first,
            transactional=True,
            compression=compression,
        )
        leader = await self.cluster.leader(to)
        request = requests.produce(
            {to: batch},
            topic_ids={},
            transactional_id=self.transactional_id,
            within=PRODUCE,
        )
        answer = await self.cluster.ask(leader.leader_id, request)
        assert not answer.responses[0].partition_responses[0].error_code, answer
