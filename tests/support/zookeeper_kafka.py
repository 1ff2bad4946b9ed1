"""One broker of a Kafka that still needs ZooKeeper, with a ZooKeeper of its own, from Maven's jars.

For releases before ``kafka.tools.StorageTool`` (KRaft): 2.7 is the last without DescribeProducers.
Both run on Java 17. Kafka 4.0 has dropped ZooKeeper, so newer ones are ``apache_kafka``'s.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time  # noqa: TID251 - processes on the real machine
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import (
    ApacheKafkaError,
    brokers_listed,
    free_ports,
    java_command,
    kafka_libs,
)
from tests.support.lived import Lived

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
