"""What kafka-python has of KIP-664: the only Python library that has any of it."""

from __future__ import annotations

from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin._transactions import AbortTransactionSpec

from tests.clients.drivers.base import Record
from tests.clients.python.lab import Lab, expect, until, values


def admin(lab: Lab) -> None:
    """List and describe transactions, describe producers, abort a transaction by its offset."""
    topic = lab.topic("admin")
    partition = TopicPartition(topic, 0)
    client: Any = KafkaAdminClient(bootstrap_servers=lab.bootstrap.split(","))
    try:
        with lab.driver.producer(lab.name) as producer, lab.driver.producer() as plain_producer:
            producer.init()
            plain_producer.send(topic, [Record(b"before")])
            producer.begin()
            producer.send(topic, [Record(b"open")])
            by_id = {
                transaction.transactional_id: transaction
                for listing in client.list_transactions().values()
                for transaction in listing
            }
            expect("listed as", "Ongoing", by_id[lab.name].state.value)
            description = client.describe_transactions([lab.name])[lab.name]
            expect("described as", "Ongoing", description.state.value)
            expect("partitions", {partition}, set(description.topic_partitions))
            states = client.describe_producers([partition])[partition].active_producers
            (producer_state,) = [
                transaction
                for transaction in states
                if transaction.current_transaction_start_offset >= 0
            ]
            expect("start offset", 1, producer_state.current_transaction_start_offset)
            expect("producer id", description.producer_id, producer_state.producer_id)
            expect("listed producer id", description.producer_id, by_id[lab.name].producer_id)
            spec = AbortTransactionSpec(
                partition,
                producer_state.producer_id,
                producer_state.producer_epoch,
                producer_state.coordinator_epoch,
            )
            client.abort_transaction(spec)
            plain_producer.send(topic, [Record(b"behind")])
            lab.until_read(topic, [b"before", b"behind"])
            producer.abort()
        until("it is over", lambda: _state(client, lab.name) == "CompleteAbort")
        all_values = values(lab.driver.read(topic, committed=False))
        expect("uncommitted", [b"before", b"open", b"behind"], all_values)
    finally:
        client.close()


def _state(client: Any, transactional_id: str) -> str:
    return str(client.describe_transactions([transactional_id])[transactional_id].state.value)
