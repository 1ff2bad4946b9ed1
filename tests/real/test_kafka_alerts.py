"""The alerts for a real Apache Kafka, tried: a broker with Prometheus' exporter, a transaction that
hangs, and Prometheus itself.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time  # noqa: TID251 - a real broker's clock
import urllib.request
import uuid
from pathlib import Path
from typing import Any, Final

import pytest

from tests.docs import ROOT
from tests.real.conftest import SETTINGS
from tests.support.apache_kafka import POM, ApacheKafka, ApacheKafkaError, cached_jars, free_ports
from tests.support.hanging_transaction import make_hanging
from tests.support.kafka_monitoring import FOLDER, exported_name
from tests.support.promtool import is_to_be_had, promtool
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import or_raised
from txnsim.client.members.membership import MemberOptions
from txnsim.client.members.share import ShareMember
from txnsim.client.producer import Producer
from txnsim.client.requests import NewTopic
from txnsim.metrics.table import METRICS
from txnsim.types import TopicPartition

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not is_to_be_had(), reason="no Prometheus, and no apt to fetch it with"),
]
WITHIN_S: Final = 240.0
"""The alert waits for one minute; the rest is a busy machine."""
CONFIG: Final = """\
global: {scrape_interval: 10s, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs: [{job_name: kafka, static_configs: [{targets: ["127.0.0.1:%d"]}]}]
"""


def agent() -> Path:
    """Path of the jar of Prometheus' JMX exporter."""

    def check(jar_directory: Path) -> None:
        if not list(jar_directory.glob("jmx_prometheus_javaagent-*.jar")):
            raise ApacheKafkaError(f"no exporter in {jar_directory}")

    pom_file = POM.with_name("jmx") / "pom.xml"
    folder = cached_jars(
        pom_file, "jmx-exporter", "agent", description="Prometheus' exporter", check=check
    )
    (jar_file,) = folder.glob("jmx_prometheus_javaagent-*.jar")
    return jar_file


def read_url(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


async def hang(bootstrap: str, metrics_text: str) -> str:
    """A hanging transaction.

    Returns:
        The exporter's page while a share group has a member: with the last one its beans go.
    """
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        admin = Admin(cluster)
        await admin.create_topic("orders", partitions=1)
        await make_hanging(admin, TopicPartition("orders", 0), "ghost")
        return await sharing(cluster, admin, metrics_text)


async def sharing(cluster: Cluster, admin: Admin, metrics_text: str) -> str:
    """A share group whose members reject two records: one letter is written, one is too large."""
    topic_partition = TopicPartition("parcels", 0)
    await admin.create_topic(topic_partition.topic, partitions=1)
    await admin.set_group_config("packers", "share.auto.offset.reset", "earliest")
    member = ShareMember(
        cluster, MemberOptions(group_id="packers", member_id=str(uuid.UUID(int=7)))
    )
    await member.subscribe([topic_partition.topic], until=frozenset({topic_partition}))
    for letters, bytes_max in (("dlq.taken", "1000000"), ("dlq.small", "100")):
        configs = {"errors.deadletterqueue.group.enable": "true", "max.message.bytes": bytes_max}
        topic = NewTopic(name=letters, partitions=1, configs=tuple(configs.items()))
        or_raised((await admin.create_topics((topic,)))[letters])
        await admin.wait_for_topic(letters)
        await admin.set_group_config("packers", "errors.deadletterqueue.topic.name", letters)
        async with Producer(cluster) as producer:
            await producer.send(topic_partition.topic, topic_partition.partition, b"one")
        await reject_one(member, topic_partition)
    for _ in range(60):
        text = await asyncio.to_thread(read_url, metrics_text)
        if not unexported_metrics(text):
            break
        await member.poll(max_wait_ms=500)
    await member.close()
    return text


async def reject_one(member: ShareMember, topic_partition: TopicPartition) -> None:
    for _ in range(60):
        share_answers = await member.poll(max_wait_ms=500)
        offsets = [
            record.offset for acquired in share_answers.acquired for record, _ in acquired.records
        ]
        if offsets:
            member.acknowledge(topic_partition, offsets, "reject")
            await member.commit()
            return
    raise AssertionError("the share group got no record")


def unexported_metrics(text: str) -> list[str]:
    """Metrics that Kafka has by our table, and that the exporter's page lacks."""
    return [
        metric.name
        for metric in METRICS
        if metric.kafka and f"\n{exported_name(metric)}" not in text
    ]


def firing(port: int) -> dict[str, Any] | None:
    """The alert that fires; None if no alert fires."""
    alerts = json.loads(read_url(f"http://127.0.0.1:{port}/api/v1/alerts"))["data"]["alerts"]
    for alert in alerts:
        if alert["state"] == "firing" and alert["labels"]["alertname"] == "LateTransactions":
            return dict(alert)
    return None


def test_a_hanging_transaction_of_a_real_broker_fires_the_alert(tmp_path: Path) -> None:
    exporter_port, port = free_ports(2)
    option = f"-javaagent:{agent()}=127.0.0.1:{exporter_port}:{ROOT / FOLDER / 'jmx-exporter.yml'}"
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIG % (ROOT / FOLDER / "alerts-kafka.yml", exporter_port))
    with ApacheKafka(jvm_options=("-Xmx512m", option)) as kafka:
        text = asyncio.run(hang(kafka.bootstrap, f"http://127.0.0.1:{exporter_port}/metrics"))
        assert unexported_metrics(text) == []
        command = [str(promtool().with_name("prometheus")), f"--config.file={config}"]
        listen = f"--web.listen-address=127.0.0.1:{port}"
        with (tmp_path / "prometheus.log").open("wb") as log:
            prometheus = subprocess.Popen(
                [*command, f"--storage.tsdb.path={tmp_path / 'data'}", listen],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            alert = await_alert(port, prometheus)
        finally:
            prometheus.terminate()
            prometheus.wait(30)
    assert alert["labels"]["instance"] == f"127.0.0.1:{exporter_port}"
    assert alert["value"] == "1e+00"


def await_alert(port: int, prometheus: subprocess.Popen[bytes]) -> dict[str, Any]:
    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s:
        assert prometheus.poll() is None, "Prometheus has ended"
        try:
            alert = firing(port)
        except OSError:
            alert = None  # it starts
        if alert is not None:
            return alert
        time.sleep(0.5)
    raise AssertionError("the alert does not fire")
