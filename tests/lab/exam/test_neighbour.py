"""The exam's own producer writes what it says, at each level of ``transaction.version``."""

from __future__ import annotations

import asyncio

import pytest

from txnsim.testing.cluster import AsyncSimulatedKafka
from txnsim.types import TopicPartition
from txnsim.wire.compression import GZIP
from txnsim_lab.exam._neighbour import Neighbour

AT = TopicPartition("t", 1)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_transactions_without_a_record_and_compressed_ones(level: int) -> None:
    async def written() -> tuple[list[tuple[bytes | None, str]], int]:
        async with AsyncSimulatedKafka(topics={"t": 2}, transaction_version=level) as kafka:
            cluster = await kafka.rebuilt.client("neighbour")
            kafka.rebuilt.guests.append(cluster.close)
            neighbour = Neighbour(
                cluster=cluster, transactions=kafka.transactions, transactional_id="neighbour"
            )
            await neighbour.init()
            await neighbour.transact(AT, (), committed=False)
            await neighbour.transact(AT, ("a", "b"), committed=True, compression=GZIP)
            await neighbour.transact(AT, ("c",), committed=False)
            records = await kafka.topics.read("t")
            end = (await kafka.topics.offsets("t", 1)).high_watermark
            return [(one.value, str(one.fate)) for one in records], end

    records, end = asyncio.run(written())
    assert records == [(b"a", "committed"), (b"b", "committed"), (b"c", "aborted")]
    assert end == 3 + 3  # three records and three markers
