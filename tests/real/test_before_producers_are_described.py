"""An operator on a Kafka that has neither DescribeProducers nor ListTransactions: a real 2.7, the
last such line. Hanging transactions are found by the log alone, and ended by their identity.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from tests.real.conftest import SETTINGS
from tests.support.apache_kafka import ToolResult
from tests.support.hanging_transaction import produce_without_adding
from tests.support.zookeeper_kafka import ZookeeperKafka
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError, NotSupportedError
from txnsim.client.fetching import fetch
from txnsim.client.inspection.waiting_readers import explain
from txnsim.client.producer import Producer
from txnsim.client.versions import ClientApi
from txnsim.types import ProducerIdAndEpoch, TopicPartition
from txnsim.verdict.reader_standing import Cause

VERSION: Final = "2.7.2"

pytestmark = pytest.mark.real

HOUR_MS: Final = 3_600_000
OLD_PRODUCE: Final = 8
"""A version of Produce that Kafka 2.7 knows; it verifies nothing."""


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """Start a broker of 2.7.2; its bootstrap address."""
    with ZookeeperKafka(VERSION) as kafka:
        yield kafka.bootstrap


def txns(bootstrap: str, *args: str) -> ToolResult:
    command = [
        sys.executable,
        "-m",
        "txnsim.cli.main",
        "txns",
        "--bootstrap-server",
        bootstrap,
        *args,
    ]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return ToolResult(process.returncode, process.stdout, process.stderr)


async def haunt(admin: Admin, topic_partition: TopicPartition) -> ProducerIdAndEpoch:
    """Write a transaction that no producer will end, and a record behind it."""
    await admin.create_topic(topic_partition.topic, partitions=1)
    error, producer_identity = await produce_without_adding(
        admin,
        topic_partition,
        f"{topic_partition.topic}-ghost",
        age_ms=HOUR_MS,
        version=OLD_PRODUCE,
    )
    assert error == 0
    async with Producer(admin.cluster) as producer:
        await producer.send(topic_partition.topic, 0, b"behind it")
    return producer_identity


async def test_an_abort_by_identity_heals_what_the_log_has_told(bootstrap: str) -> None:
    topic_partition = TopicPartition("by-identity", 0)
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        admin = Admin(cluster)
        producer_identity = await haunt(admin, topic_partition)
        assert ClientApi.DESCRIBE_PRODUCERS not in (await cluster.any_connection()).versions

        why_result = txns(bootstrap, "why", topic_partition.topic, "0")
        assert why_result.code == 4
        producer_options = (
            f"--producer-id {producer_identity.producer_id}"
            f" --producer-epoch {producer_identity.producer_epoch}"
        )
        command = (
            f"abort --topic {topic_partition.topic} --partition 0 "
            f"{producer_options} --coordinator-epoch 0"
        )
        assert f"txnsim txns --bootstrap-server {bootstrap} {command}" in why_result.stdout
        assert (await explain(admin, topic_partition, now_ms=0)).cause is Cause.UNTOLD

        assert txns(bootstrap, *command.split()) == ToolResult(0, "", "")
        healed_fetch = await fetch(cluster, topic_partition.topic, 0, 0, max_wait_ms=0)
        assert [record.value for record in healed_fetch.records] == [b"behind it"]
        assert (await explain(admin, topic_partition, now_ms=0)).cause is Cause.NOTHING
        assert txns(bootstrap, "why", topic_partition.topic, "0").code == 0


async def test_what_can_not_be_told_is_not_taken_for_healthy(bootstrap: str) -> None:
    topic_partition = TopicPartition("not-told", 0)
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        admin = Admin(cluster)
        await haunt(admin, topic_partition)
        (outcome,) = (await admin.describe_producers((topic_partition,))).values()
        assert isinstance(outcome, NotSupportedError)
        for listing in (await admin.list_transactions()).values():
            assert isinstance(listing, ClientError)
            assert str(listing) == "The node does not support LIST_TRANSACTIONS"
        searched = txns(bootstrap, "find-hanging", "--all", "--topic", topic_partition.topic)
        assert searched.code == 4
        reason, advice = searched.stderr.splitlines()[1:]
        assert (
            reason
            == f"not searched: {topic_partition}: The node does not support DESCRIBE_PRODUCERS"
        )
        assert "txnsim txns why TOPIC PARTITION" in advice
        repaired = txns(bootstrap, "repair", "--yes", "--topic", topic_partition.topic)
        assert (repaired.code, len(repaired.stdout.splitlines())) == (4, 1)
