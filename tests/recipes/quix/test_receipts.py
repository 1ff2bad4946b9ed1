"""The service fails in the middle of a transaction, and is started again."""

from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from receipts import receipt_service

ORDERS = [f"order {order_number}" for order_number in range(20)]
PARTITIONS = 3
QUIET_S = 3.0


def test_each_order_has_one_receipt_though_the_service_fails(
    bootstrap: str, tmp_path: Path
) -> None:
    # Names of its own: tests share the cluster, and nothing else.
    run = uuid4()
    orders, receipts = f"orders-{run}", f"receipts-{run}"
    create_topics(bootstrap, orders, receipts)
    write(bootstrap, orders)
    failures = []

    def notify(receipt: str) -> None:
        # The receipt is on its way by now, and not committed.
        if receipt == "receipt of order 7" and not failures:
            failures.append(receipt)
            raise ConnectionError("no network")

    def serve() -> None:
        service = receipt_service(
            bootstrap,
            name=f"shop-{run}",
            orders=orders,
            receipts=receipts,
            state_dir=tmp_path,
            notify=notify,
        )
        service.run(timeout=QUIET_S)  # until no order has come for a while

    with pytest.raises(ConnectionError):
        serve()
    serve()

    assert sorted(read(bootstrap, receipts)) == sorted(f"receipt of {order}" for order in ORDERS)


def create_topics(bootstrap: str, *topic_names: str) -> None:
    topics = [NewTopic(topic_name, PARTITIONS, replication_factor=3) for topic_name in topic_names]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for creation in admin.create_topics(topics).values():
        creation.result()


def write(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for at, order in enumerate(ORDERS):
        producer.produce(topic, order, key=str(at), partition=at % PARTITIONS)
    producer.flush()


def read(bootstrap: str, topic: str) -> list[str]:
    """All that read_committed shows, up to the end of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",  # librdkafka insists on one
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    values, ends = [], set()
    while len(ends) < PARTITIONS:
        message = consumer.poll(30.0)
        assert message is not None, "not in time"
        if message.error() is None:
            values.append(message.value().decode())
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF
            ends.add(message.partition())
    consumer.close()
    return values
