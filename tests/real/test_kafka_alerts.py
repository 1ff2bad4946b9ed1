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
from tests.real.hang import make_hanging
from tests.support.apache_kafka import POM, ApacheKafka, ApacheKafkaError, free_ports, kept_jars
from tests.support.kafka_monitoring import FOLDER, exported
from tests.support.promtool import is_to_be_had, promtool
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.members.membership import MemberOptions
from txnsim.client.members.share import ShareMember
from txnsim.client.producer import Producer
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
    """The exporter's jar."""

    def check(jars: Path) -> None:
        if not list(jars.glob("jmx_prometheus_javaagent-*.jar")):
            raise ApacheKafkaError(f"no exporter in {jars}")

    pom = POM.with_name("jmx") / "pom.xml"
    folder = kept_jars(pom, "jmx-exporter", "agent", what="Prometheus' exporter", check=check)
    (jar,) = folder.glob("jmx_prometheus_javaagent-*.jar")
    return jar


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


async def hang(bootstrap: str, metrics: str) -> str:
    """A hanging transaction.

    Returns:
        The exporter's page while a share group has a member: with the last one its beans go.
    """
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        admin = Admin(cluster)
        await admin.create_topic("orders", partitions=1)
        await make_hanging(admin, TopicPartition("orders", 0), "ghost")
        return await sharing(cluster, admin, metrics)


async def sharing(cluster: Cluster, admin: Admin, metrics: str) -> str:
    place = TopicPartition("parcels", 0)
    await admin.create_topic(place.topic, partitions=1)
    await admin.set_group_config("packers", "share.auto.offset.reset", "earliest")
    async with Producer(cluster) as producer:
        await producer.send(place.topic, place.partition, b"one")
    member = ShareMember(
        cluster, MemberOptions(group_id="packers", member_id=str(uuid.UUID(int=7)))
    )
    await member.subscribe([place.topic], until=frozenset({place}))
    for _ in range(60):
        shared = await member.poll(max_wait_ms=500)
        if any(one.records for one in shared.acquired):
            break
    else:
        raise AssertionError("the share group got no record")
    text = await asyncio.to_thread(read, metrics)
    await member.close()
    return text


def firing(port: int) -> dict[str, Any] | None:
    """The alert, once it fires."""
    alerts = json.loads(read(f"http://127.0.0.1:{port}/api/v1/alerts"))["data"]["alerts"]
    for one in alerts:
        if one["state"] == "firing" and one["labels"]["alertname"] == "LateTransactions":
            return dict(one)
    return None


def test_a_hanging_transaction_of_a_real_broker_fires_the_alert(tmp_path: Path) -> None:
    at, port = free_ports(2)
    option = f"-javaagent:{agent()}=127.0.0.1:{at}:{ROOT / FOLDER / 'jmx-exporter.yml'}"
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIG % (ROOT / FOLDER / "alerts-kafka.yml", at))
    with ApacheKafka(jvm_options=("-Xmx512m", option)) as kafka:
        text = asyncio.run(hang(kafka.bootstrap, f"http://127.0.0.1:{at}/metrics"))
        missing = [one.name for one in METRICS if one.kafka and f"\n{exported(one)}" not in text]
        assert missing == []
        command = [str(promtool().with_name("prometheus")), f"--config.file={config}"]
        listen = f"--web.listen-address=127.0.0.1:{port}"
        with (tmp_path / "prometheus.log").open("wb") as log:
            prometheus = subprocess.Popen(
                [*command, f"--storage.tsdb.path={tmp_path / 'data'}", listen],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            alert = awaited(port, prometheus)
        finally:
            prometheus.terminate()
            prometheus.wait(30)
    assert alert["labels"]["instance"] == f"127.0.0.1:{at}"
    assert alert["value"] == "1e+00"


def awaited(port: int, prometheus: subprocess.Popen[bytes]) -> dict[str, Any]:
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
