"""The handler fails once, and the order comes again."""

import asyncio
from uuid import uuid4

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from receipts import receipt_service

ORDERS = [f"order {order_number}" for order_number in range(20)]
PATIENCE_S = 60


def test_each_order_has_one_receipt_though_the_handler_fails(bootstrap: str) -> None:
    # Names of its own: tests share the cluster, and nothing else.
    run = uuid4()
    orders, receipts = f"orders-{run}", f"receipts-{run}"
    create_topics(bootstrap, orders, receipts)
    producer = Producer({"bootstrap.servers": bootstrap})
    for order in ORDERS:
        producer.produce(orders, order)
    producer.flush()
    tried_orders = []

    def notify(order: str) -> None:
        tried_orders.append(order)
        if order == "order 7" and tried_orders.count(order) == 1:
            raise ConnectionError("no network")

    async def serve() -> list[str]:
        service = receipt_service(
            bootstrap.split(","),
            name=f"shop-{run}",
            orders=orders,
            receipts=receipts,
            notify=notify,
        )
        async with service:
            await service.start()
            return await asyncio.to_thread(read, bootstrap, receipts, len(ORDERS))

    written_receipts = asyncio.run(asyncio.wait_for(serve(), PATIENCE_S))

    assert sorted(written_receipts) == sorted(f"receipt of {order}" for order in ORDERS)
    assert tried_orders.count("order 7") == 2


def create_topics(bootstrap: str, *topic_names: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(topic_name, 1, replication_factor=3) for topic_name in topic_names]
    for creation in admin.create_topics(topics).values():
        creation.result()


def read(bootstrap: str, topic: str, count: int) -> list[str]:
    """The first values of a topic."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"reader-{uuid4()}",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    values: list[str] = []
    while len(values) < count:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "not in time"
        if message.error() is None:
            values.append(message.value().decode())
    consumer.close()
    return values
