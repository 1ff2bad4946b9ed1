"""Transactions of both flows on a running cluster, for the tests of ``decisions``: they commit and
abort on several partitions, and some send a group's offsets.
"""

from __future__ import annotations

import asyncio
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Producer as OldFlowProducer

from tests.support.slow_machine import SLOW_S
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.producer import Producer

TOPIC: Final = "audited"
PARTITIONS: Final = 4
_GROUP: Final = "audited-readers"


async def write_load(bootstrap: str, transaction_count: int, *, name: str = "load") -> None:
    """End some transactions: half of them in the old flow (librdkafka), half by transactions v2.

    Args:
        bootstrap: Of the cluster, which has ``TOPIC``.
        transaction_count: How many in all.
        name: Begins the transactional ids.
    """
    share = transaction_count // 4
    await asyncio.gather(
        *(asyncio.to_thread(_old_flow, bootstrap, f"{name}-old-{n}", share) for n in range(2)),
        *(_transactions_v2(bootstrap, f"{name}-v2-{n}", share) for n in range(2)),
    )


def _old_flow(bootstrap: str, transactional_id: str, transaction_count: int) -> None:
    producer = OldFlowProducer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
    )
    producer.init_transactions(SLOW_S)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": _GROUP})
    for number in range(transaction_count):
        producer.begin_transaction()
        for partition in range(1 + number % PARTITIONS):
            producer.produce(TOPIC, partition=partition, value=b"%d" % number)
        if number % 5 == 0:
            topic_partition = TopicPartition(TOPIC, 0, number)
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([topic_partition], metadata, SLOW_S)
        producer.flush(SLOW_S)
        if number % 3 == 2:
            producer.abort_transaction(SLOW_S)
        else:
            producer.commit_transaction(SLOW_S)
    consumer.close()


async def _transactions_v2(bootstrap: str, transactional_id: str, transaction_count: int) -> None:
    settings = ClientSettings(retry_backoff_ms=5, retry_backoff_max_ms=100)
    async with (
        Cluster(bootstrap, settings=settings) as cluster,
        Producer(cluster, transactional_id=transactional_id) as producer,
    ):
        await producer.init_transactions()
        for number in range(transaction_count):
            producer.begin()
            await asyncio.gather(
                *(
                    producer.send(TOPIC, partition, b"%d" % number)
                    for partition in range(1 + number % PARTITIONS)
                )
            )
            await (producer.abort() if number % 3 == 2 else producer.commit())
