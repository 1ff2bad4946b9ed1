"""Our metrics and a real broker's JMX, in the same situation: one story on both, one table of
values.

Each metric of ours that names a bean of Kafka's is read there too, at each moment of the story.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import time  # noqa: TID251 - a real broker's clock
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.real.conftest import SETTINGS
from tests.support.apache_kafka import POM, ApacheKafka, ApacheKafkaError, tool
from tests.support.hanging_transaction import make_hanging, produce_without_adding
from tests.support.lifetime import ManagedResource
from tests.support.txnsim_server import TxnsimServer
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.fetching import fetch
from txnsim.client.inspection.repair import Outcome, repair
from txnsim.client.inspection.survey import survey
from txnsim.client.offsets import LATEST_TIMESTAMP
from txnsim.client.producer import Producer
from txnsim.errors import ErrorCode
from txnsim.metrics import table
from txnsim.metrics.table import METRICS
from txnsim.txn.open_txn_verdict import OpenTxnStatus
from txnsim.types import IsolationLevel, TopicPartition

READER: Final = POM.with_name("jmx") / "JmxReader.java"
_PROPERTY: Final = re.compile(r'(\w+)=("[^"]*"|[^,]*)')


class Bean(msgspec.Struct, frozen=True, kw_only=True):
    """The value of one attribute of a JMX bean."""

    name: str
    attribute: str
    value: float

    @property
    def properties(self) -> dict[str, str]:
        """The key properties of its name, such as ``request`` and ``version``."""
        _, _, key_text = self.name.partition(":")
        return {key: sample_value.strip('"') for key, sample_value in _PROPERTY.findall(key_text)}


class Jmx(ManagedResource):
    """A reader of one JVM's beans, as a context manager.

    Args:
        pid: Whose; a process of this user.
    """

    def __init__(self, process_id: int) -> None:
        java = tool("java", "JMX needs a JDK 17")
        self._process = subprocess.Popen(
            [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", str(READER), str(process_id)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _on_exit(self, exc: BaseException | None) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()  # it ends with its questions

    def read(self, pattern: str, *attributes: str) -> list[Bean]:
        """Read these attributes of the beans whose names match, where a bean has them."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("\t".join((pattern, *attributes)) + "\n")
        stdin.flush()
        beans: list[Bean] = []
        while True:
            printed_line = stdout.readline()
            if not printed_line:
                raise ApacheKafkaError(f"JMX: no answer to {pattern}")
            if printed_line == "\n":
                return beans
            name, attribute_name, sample_value = printed_line.rstrip("\n").split("\t")
            beans.append(Bean(name=name, attribute=attribute_name, value=float(sample_value)))


TOPIC: Final = "watched"
HOUR_MS: Final = 3_600_000
TIMEOUT_MS: Final = 600_000
"""No transaction is late before this timeout and five minutes are over. Records of an hour ago are
late.
"""
PROPERTIES: Final = {
    "transaction.max.timeout.ms": str(TIMEOUT_MS),
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
}
APART: Final = {table.CONNECTIONS: "a real broker has connections to itself"}
KAFKAS: Final = {
    metric.name: metric.kafka
    for metric in METRICS
    if metric.kafka is not None and metric.name not in APART
}
COUNTED: Final = frozenset({"EndTxn", "DescribeTransactions", "DescribeProducers", "Fetch"})
"""APIs that the story asks for a certain number of times, and nobody else."""
VERIFIED: Final = frozenset({table.UNVERIFIED, table.VERIFICATION_MS})
"""Metrics that are not compared, as it is by chance how soon a real broker hears that verification
is off.
"""
UNCERTAIN: Final = frozenset({"another one hangs", "it was aborted", "all have ended"})
WAITED_MS: Final = 400

Values = dict[str, Any]
"""By metric of ours: what is compared."""


# Reading


def of_kafka(jmx: Jmx) -> Values:
    """The values of a real broker by the simulator's metric names."""
    return {
        kafka_name: _comparable_value(
            kafka_name, jmx.read(_pattern(kafka), "Value", "Count", "Mean", "Max")
        )
        for kafka_name, kafka in KAFKAS.items()
    }


def _pattern(kafka: str) -> str:
    """The pattern for a metric's beans; each partition has a bean of its own."""
    return f"{kafka},*" if kafka == KAFKAS[table.LSO_LAG] else kafka


def _comparable_value(name: str, beans: list[Bean]) -> Any:
    rows = [(bean.properties, bean.attribute, bean.value) for bean in beans]
    if name == table.LSO_LAG:
        return {
            int(properties["partition"]): sample_value
            for properties, _, sample_value in rows
            if properties["topic"] == TOPIC and sample_value
        }
    if name == table.REQUESTS:
        return {
            (properties["request"], properties["version"]): sample_value
            for properties, attribute_name, sample_value in rows
            if attribute_name == "Count" and properties["request"] in COUNTED
        }
    if name == table.REQUEST_ERRORS:
        return {
            (properties["request"], properties["error"]): sample_value
            for properties, attribute_name, sample_value in rows
            if attribute_name == "Count"
            and properties["request"] in COUNTED
            and properties["error"] != "NONE"
        }
    if name in {table.REQUEST_MS, table.REQUEST_LOCAL_MS}:
        return _by_request(rows, "Count")
    if name == table.REQUEST_REMOTE_MS:
        has_waited = _by_request(rows, "Max").get("Fetch", 0) >= WAITED_MS / 2
        return _by_request(rows, "Count") | {"a Fetch has waited": has_waited}
    if name == table.REQUEST_BYTES:
        counts, means = _by_request(rows, "Count"), _by_request(rows, "Mean")
        return {api: round(counts[api] * means[api]) for api in counts}
    return sum(
        sample_value
        for _, attribute_name, sample_value in rows
        if attribute_name in {"Value", "Count"}
    )


def _by_request(
    rows: list[tuple[dict[str, str], str, float]], wanted_attribute: str
) -> dict[str, float]:
    return {
        properties["request"]: sample_value
        for properties, attribute_name, sample_value in rows
        if attribute_name == wanted_attribute and properties["request"] in COUNTED and sample_value
    }


def of_txnsim(url: str) -> Values:
    """The values of the simulator, from its control port."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for metric in text_string_to_metric_families(text):
        for sample in metric.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))

    def by_api(name: str) -> dict[str, float]:
        return {
            labels["api"]: sample_value
            for labels, sample_value in samples.get(name, ())
            if labels["api"] in COUNTED
        }

    def by_two(name: str, second_label: str) -> dict[tuple[str, str], float]:
        return {
            (labels["api"], labels[second_label]): record_value
            for labels, record_value in samples.get(f"{name}_total", ())
            if labels["api"] in COUNTED
        }

    special_values: Values = {
        table.LSO_LAG: {
            int(labels["partition"]): sample_value
            for labels, sample_value in samples.get(table.LSO_LAG, ())
            if labels["topic"] == TOPIC
        },
        table.REQUESTS: by_two(table.REQUESTS, "version"),
        table.REQUEST_ERRORS: by_two(table.REQUEST_ERRORS, "error"),
        table.REQUEST_MS: by_api(f"{table.REQUEST_MS}_count"),
        # One of Kafka's histograms is a sum here, whose number is that of the requests.
        table.REQUEST_LOCAL_MS: by_api(f"{table.REQUEST_MS}_count"),
        table.REQUEST_REMOTE_MS: by_api(f"{table.REQUEST_REMOTE_MS}_count")
        | {
            "a Fetch has waited": by_api(f"{table.REQUEST_REMOTE_MS}_sum").get("Fetch", 0)
            >= WAITED_MS / 2_000
        },
        table.REQUEST_BYTES: by_api(f"{table.REQUEST_BYTES}_total"),
        table.VERIFICATION_MS: _total(samples, table.VERIFICATIONS),
    }
    return {
        kafka_name: special_values[kafka_name]
        if kafka_name in special_values
        else _total(samples, kafka_name)
        for kafka_name in KAFKAS
    }


def _total(samples: dict[str, list[tuple[dict[str, str], float]]], name: str) -> float:
    family_samples = samples.get(name, samples.get(f"{name}_total", []))
    return sum(sample_value for _, sample_value in family_samples)


# The story


async def story(bootstrap: str, read: Callable[[], Values]) -> dict[str, Values]:
    """Play the story, and return the metrics at each moment."""
    moments: dict[str, Values] = {}
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        admin = Admin(cluster)
        await admin.create_topic(TOPIC, partitions=4)
        moments["nothing is open"] = read()
        living_producer = Producer(
            cluster, transactional_id="living", transaction_timeout_ms=TIMEOUT_MS
        )
        late_producer = Producer(
            cluster, transactional_id="late", transaction_timeout_ms=TIMEOUT_MS
        )
        async with living_producer, late_producer:
            await _write(living_producer, 0, 0)
            moments["a transaction is open"] = read()
            error, _ = await produce_without_adding(
                admin, TopicPartition(TOPIC, 3), "stray", age_ms=0, version=11
            )
            assert error is not ErrorCode.none
            moments["a stray write was refused"] = read()
            await _write(late_producer, 1, HOUR_MS)
            moments["a transaction is late"] = read()
            fetch_result = await fetch(cluster, TOPIC, 0, 0, max_wait_ms=WAITED_MS)
            assert not fetch_result.records
            await admin.describe_transactions(["nobody"])
            await admin.describe_producers([TopicPartition(TOPIC, 0)])
            moments["questions were asked"] = read()
            await make_hanging(admin, TopicPartition(TOPIC, 2), "ghost", age_ms=HOUR_MS)
            moments["another one hangs"] = read()
            await _heal(admin)
            moments["it was aborted"] = read()
            await late_producer.abort()
            await living_producer.commit()
        await _wait_until_ended(admin)
        moments["all have ended"] = read()
    return moments


async def _write(producer: Producer, partition: int, age_ms: int) -> None:
    """Begin a transaction with two records."""
    await producer.init_transactions()
    producer.begin()
    written_ms = int(time.time() * 1_000) - age_ms
    for record_value in (b"one", b"two"):
        await producer.send(TOPIC, partition, record_value, timestamp_ms=written_ms)


async def _heal(admin: Admin) -> None:
    """Abort the hanging transactions, and only these."""
    now_ms = admin.cluster.clock.now_ms()
    report = await survey(
        admin, now_ms=now_ms, partitions=[TopicPartition(TOPIC, 2)], older_than_ms=0
    )
    (judged_transaction,) = report.findings
    assert judged_transaction.verdict is OpenTxnStatus.HANGING
    assert (await repair(admin, judged_transaction, now_ms=now_ms)).outcome is Outcome.REPAIRED


async def _wait_until_ended(admin: Admin) -> None:
    """Wait until every marker is written."""
    for _ in range(600):
        ends = [
            [
                await admin.offset_of(
                    TopicPartition(TOPIC, partition_index), LATEST_TIMESTAMP, isolation
                )
                for partition_index in range(4)
            ]
            for isolation in IsolationLevel
        ]
        if ends[0] == ends[1]:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"open until the end: {ends}")


def played_by_us(directory: Path) -> dict[str, Values]:
    """The metrics of the simulator at each moment of the story."""
    file = directory / "server.properties"
    file.write_text(
        "".join(
            f"{property_name}={property_value}\n"
            for property_name, property_value in PROPERTIES.items()
        )
    )
    arguments = ("--config", str(file), "--http", "0")
    with TxnsimServer(brokers=1, arguments=arguments) as server:
        url = server.ready["http"]
        return asyncio.run(story(server.bootstrap, lambda: of_txnsim(url)))


def values_of(moments: dict[str, Values], metric: str) -> list[Any]:
    """The values of one metric at each moment of the story."""
    return [values[metric] for values in moments.values()]


@pytest.fixture(scope="module")
def theirs() -> dict[str, Values]:
    """The metrics of a real broker at each moment of the story."""
    with (
        ApacheKafka(properties=PROPERTIES, jvm_options=("-Xmx512m",)) as kafka,
        Jmx(kafka.pids[0]) as jmx,
    ):
        return asyncio.run(story(kafka.bootstrap, lambda: of_kafka(jmx)))


@pytest.mark.real
def test_a_real_broker_counts_late_transactions_and_lag_as_the_story_says(
    theirs: dict[str, Values],
) -> None:
    assert values_of(theirs, table.LATE_TRANSACTIONS) == [0, 0, 0, 1, 1, 2, 1, 0]
    assert values_of(theirs, table.LSO_LAG) == [
        {},
        {0: 2},
        {0: 2},
        {0: 2, 1: 2},
        {0: 2, 1: 2},
        {0: 2, 1: 2, 2: 1},
        {0: 2, 1: 2},
        {},
    ]


@pytest.mark.real
def test_our_metrics_are_those_of_a_real_broker_at_each_moment(
    theirs: dict[str, Values], tmp_path: Path
) -> None:
    ours = played_by_us(tmp_path)
    differences = {
        (moment, metric): (record_value, ours[moment][metric])
        for moment, values in theirs.items()
        for metric, record_value in values.items()
        if record_value != ours[moment][metric] and not (metric in VERIFIED and moment in UNCERTAIN)
    }
    assert not differences, "a real broker's and ours:\n" + "\n".join(map(str, differences.items()))
