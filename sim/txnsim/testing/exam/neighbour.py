"""A transactional producer of our own, which writes what a library is to read: transactions without
a record, and compressed ones, whatever the library itself would write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from txnsim.client import requests
from txnsim.client.cluster import Cluster
from txnsim.client.versions import Request, VersionRange
from txnsim.testing.topics import AsyncTransactions
from txnsim.types import TopicPartition
from txnsim.wire.compression import NONE
from txnsim.wire.records import Record, build_batch

VERSION_1: Final = VersionRange(0, 4)
"""Of EndTxn: the same epoch goes on."""
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
        answer = await self._ask(request)
        assert not answer.error_code, answer
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
        await self._ask(added)
        if values:
            await self._produce(to, values, compression)
        ended = await self._ask(
            requests.end_txn(self.transactional_id, **who, committed=committed, within=VERSION_1)
        )
        assert not ended.error_code, ended
        state = "CompleteCommit" if committed else "CompleteAbort"
        await self.transactions.wait_for_state(self.transactional_id, state)

    async def _ask(self, request: Request) -> Any:
        return await self.cluster.ask(
            await self.cluster.coordinator(self.transactional_id), request
        )

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
