"""An operator on a Kafka that has neither DescribeProducers nor ListTransactions: a real 2.7, the
last such line. What hangs is told by the log alone, and ended by its identity.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time  # noqa: TID251 - processes on the real machine
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.real.conftest import SETTINGS
from tests.real.hang import produce_without_adding
from tests.support.apache_kafka import (
    ApacheKafkaError,
    ToolResult,
    brokers_listed,
    free_ports,
    java_command,
    kafka_libs,
)
from tests.support.lived import Lived
from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError, NotSupportedError
from txnsim.client.fetching import fetch
from txnsim.client.inspection.waiting_readers import explain
from txnsim.client.producer import Producer
from txnsim.client.versions import Api
from txnsim.txn.open_txn_verdict import Cause
from txnsim.types import ProducerIdAndEpoch, TopicPartition

VERSION: Final = "2.7.2"
_START_TIMEOUT_S: Final = 120.0
_STOP_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.1
_LOG_TAIL: Final = 4_000


class ZookeeperKafka(Lived):
    """The broker, as a context manager.

    Args:
        version: Its release.
    """

    def __init__(self, *, version: str = VERSION) -> None:
        self._libs = kafka_libs(version)
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> ZookeeperKafka:
        self.start()
        return self

    def _left(self, exc: BaseException | None) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """Its address."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start both and wait until the broker lists itself.

        Raises:
            ApacheKafkaError: One of them ended, or the broker was not ready in time.
        """
        self._home = Path(tempfile.mkdtemp(prefix="txnsim-zookeeper-"))
        zookeeper_port, self._port = free_ports(2)
        try:
            self._spawn(
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                {
                    "dataDir": str(self._home / "zookeeper"),
                    "clientPort": str(zookeeper_port),
                    "clientPortAddress": "127.0.0.1",
                    "admin.enableServer": "false",
                },
            )
            self._spawn(
                "kafka.Kafka",
                {
                    "broker.id": "1",
                    "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
                    "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
                    "zookeeper.connection.timeout.ms": "60000",
                    "log.dirs": str(self._home / "data"),
                    "offsets.topic.num.partitions": "4",
                    "offsets.topic.replication.factor": "1",
                    "transaction.state.log.num.partitions": "4",
                    "transaction.state.log.replication.factor": "1",
                    "transaction.state.log.min.isr": "1",
                    "controlled.shutdown.enable": "false",
                },
            )
            self._await_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both by their process ids, the broker first, and remove their directory."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(timeout=_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes = []
        shutil.rmtree(self._home, ignore_errors=True)

    def _spawn(self, main_class: str, properties: dict[str, str]) -> None:
        name = main_class.rpartition(".")[2]
        config = self._home / f"{name}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        options = ("-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        command = [*java_command(self._libs, options=options), main_class, str(config)]
        with (self._home / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
                )
            )

    def _await_ready(self) -> None:
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while brokers_listed(self._port) < 1:
            ended = [process for process in self._processes if process.poll() is not None]
            if ended or time.monotonic() > deadline_s:
                logs = "\n".join(
                    log.read_text(errors="replace")[-_LOG_TAIL:]
                    for log in sorted(self._home.glob("*.log"))
                )
                raise ApacheKafkaError(f"Kafka with ZooKeeper is not ready:\n{logs}")
            time.sleep(_POLL_S)


pytestmark = pytest.mark.real

HOUR_MS: Final = 3_600_000
OLD_PRODUCE: Final = 8
"""A version of Produce that Kafka 2.7 knows; it verifies nothing."""


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker of 2.7.2."""
    with ZookeeperKafka() as kafka:
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
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return ToolResult(done.returncode, done.stdout, done.stderr)


async def haunt(admin: Admin, where: TopicPartition) -> ProducerIdAndEpoch:
    """A transaction that nobody will end, and a record behind it."""
    await admin.create_topic(where.topic, partitions=1)
    error, identity = await produce_without_adding(
        admin, where, f"{where.topic}-ghost", age_ms=HOUR_MS, version=OLD_PRODUCE
    )
    assert error == 0
    async with Producer(admin.cluster) as producer:
        await producer.send(where.topic, 0, b"behind it")
    return identity


async def test_an_abort_by_identity_heals_what_the_log_has_told(bootstrap: str) -> None:
    where = TopicPartition("by-identity", 0)
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        admin = Admin(cluster)
        identity = await haunt(admin, where)
        assert Api.DESCRIBE_PRODUCERS not in (await cluster.any_connection()).versions

        stuck = txns(bootstrap, "why", where.topic, "0")
        assert stuck.code == 4
        whose = f"--producer-id {identity.producer_id} --producer-epoch {identity.producer_epoch}"
        command = f"abort --topic {where.topic} --partition 0 {whose} --coordinator-epoch 0"
        assert f"txnsim txns --bootstrap-server {bootstrap} {command}" in stuck.stdout
        assert (await explain(admin, where, now_ms=0)).cause is Cause.UNTOLD

        assert txns(bootstrap, *command.split()) == ToolResult(0, "", "")
        healed = await fetch(cluster, where.topic, 0, 0, max_wait_ms=0)
        assert [record.value for record in healed.records] == [b"behind it"]
        assert (await explain(admin, where, now_ms=0)).cause is Cause.NOTHING
        assert txns(bootstrap, "why", where.topic, "0").code == 0


async def test_what_can_not_be_told_is_not_taken_for_healthy(bootstrap: str) -> None:
    where = TopicPartition("not-told", 0)
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        admin = Admin(cluster)
        await haunt(admin, where)
        (outcome,) = (await admin.describe_producers((where,))).values()
        assert isinstance(outcome, NotSupportedError)
        for listed in (await admin.list_transactions()).values():
            assert isinstance(listed, ClientError)
            assert str(listed) == "The node does not support LIST_TRANSACTIONS"
        searched = txns(bootstrap, "find-hanging", "--all", "--topic", where.topic)
        assert searched.code == 4
        reason, advice = searched.stderr.splitlines()[1:]
        assert reason == f"not searched: {where}: The node does not support DESCRIBE_PRODUCERS"
        assert "txnsim txns why TOPIC PARTITION" in advice
        repaired = txns(bootstrap, "repair", "--yes", "--topic", where.topic)
        assert (repaired.code, len(repaired.stdout.splitlines())) == (4, 1)
