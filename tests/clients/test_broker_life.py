"""Real clients go on while brokers are stopped, killed and started and coordinators move."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.drivers import aiokafka, confluent_kafka
from tests.clients.drivers.base import Driver, Record
from tests.clients.python.lab import until_read, values
from tests.support.txnsim_server import TxnsimServer
from txnsim.types import partition_for

pytestmark = pytest.mark.clients

CONFIG = """\
settings:
  broker_heartbeat_interval_ms: 200
  broker_session_timeout_ms: 1500
  transaction_state_log_num_partitions: 6
"""
DRIVERS = [aiokafka.Driver, confluent_kafka.Driver]


class LivingCluster:
    """A server whose brokers come and go quickly."""

    def __init__(self, process: TxnsimServer) -> None:
        self.process = process

    def post(self, path: str, **body: object) -> Any:
        """Send a POST request to the control port."""
        request = urllib.request.Request(
            f"{self.process.http}/api/v1/{path}", data=json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def partition(self, topic: str, partition_index: int) -> Any:
        """The state of a partition, by the control port."""
        with urllib.request.urlopen(f"{self.process.http}/api/v1/topics", timeout=10) as answer:
            topics = {topic_state["name"]: topic_state for topic_state in json.load(answer)}
        return topics[topic]["partitions"][partition_index]

    def move_coordinator(self, transactional_id: str) -> None:
        """Hand the coordination of an id to another replica in sync."""
        partition_index = partition_for(transactional_id, 6)
        partition = self.partition("__transaction_state", partition_index)
        successor = next(replica for replica in partition["isr"] if replica != partition["leader"])
        self.post(
            "leaders", topic="__transaction_state", partition=partition_index, leader=successor
        )


@pytest.fixture
def living(tmp_path: Path) -> Iterator[LivingCluster]:
    """A cluster of three brokers, for this test alone."""
    config = tmp_path / "cluster.yaml"
    config.write_text(CONFIG)
    with TxnsimServer(arguments=("--http", "0", "--config", str(config))) as process:
        yield LivingCluster(process)
        log_text = process.log_tail()
        assert "Traceback" not in log_text, log_text
        assert "failed by a bug" not in log_text, log_text


@pytest.mark.costly
@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.__module__.rpartition(".")[2])
def test_a_transactional_producer_outlives_brokers_and_coordinators(
    driver: type[Driver], living: LivingCluster
) -> None:
    client = driver(living.process.bootstrap)
    client.create_topic("orders", 1)
    sent_values: list[bytes] = []

    with client.producer("tx") as producer:
        producer.init()

        def transaction(name: str) -> None:
            producer.begin()
            record_values = [f"{name}-{value_number}".encode() for value_number in range(3)]
            producer.send("orders", [Record(record_value) for record_value in record_values])
            producer.commit()
            sent_values.extend(record_values)

        transaction("healthy")
        leader = living.partition("orders", 0)["leader"]
        living.post(f"brokers/{leader}/stop")
        transaction("one stopped")
        assert living.post(f"brokers/{leader}/start")["state"] == "running"
        transaction("all back")
        living.move_coordinator("tx")
        transaction("coordinator moved")
        producer.begin()
        producer.send("orders", [Record(b"in the middle")])
        living.move_coordinator("tx")
        producer.commit()
        sent_values.append(b"in the middle")
        victim = living.partition("orders", 0)["leader"]
        living.post(f"brokers/{victim}/kill")
        transaction("one killed")
        assert living.post(f"brokers/{victim}/start")["state"] == "running"
        transaction("the end")

    assert values(until_read(client, "orders", sent_values)) == sent_values
