"""Records of a topic with what has become of them."""

from __future__ import annotations

import pytest

from tests.support.testing_plays import aborted, client, committed
from tests.support.within import within
from txnsim.client.errors import ClientError
from txnsim.client.inspection.reading import Fate
from txnsim.client.producer import Producer
from txnsim.testing._virtual import run_virtual
from txnsim.testing.cluster import AsyncSimulatedKafka


@within(run_virtual, topics=["orders"])
async def test_each_record_is_committed_aborted_or_open(kafka: AsyncSimulatedKafka) -> None:
    await committed(kafka, "orders", "a")
    await aborted(kafka, "orders", "b")
    async with client(kafka) as cluster, Producer(cluster, transactional_id="x") as producer:
        await producer.init_transactions()
        producer.begin()
        await producer.send("orders", 0, b"c")
        await committed(kafka, "orders", "d")  # behind the one that is open
        fates = {
            record.value: record.fate for record in await kafka.topics.read("orders", settle_ms=100)
        }
        await producer.commit()
    assert fates == {
        b"a": Fate.COMMITTED,
        b"b": Fate.ABORTED,
        b"c": Fate.OPEN,
        b"d": Fate.OPEN,
    }
    assert await kafka.topics.committed("orders") == [b"a", b"c", b"d"]


@within(run_virtual, topics=["orders"])
async def test_markers_that_are_late_are_waited_for(kafka: AsyncSimulatedKafka) -> None:
    await kafka.faults.arm(
        point="peer.request",
        api="WriteTxnMarkers",
        action={"do": "delay", "delay_ms": 700},
    )
    await committed(kafka, "orders", "a")
    assert [record.fate for record in await kafka.topics.read("orders", settle_ms=0)] == [Fate.OPEN]
    assert await kafka.topics.committed("orders") == [b"a"]


@within(run_virtual)
async def test_a_topic_that_is_not_there_is_refused(kafka: AsyncSimulatedKafka) -> None:
    with pytest.raises(ClientError, match="'orders' can't be read"):
        await kafka.topics.read("orders")
