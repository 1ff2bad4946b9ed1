"""Real brokers of Apache Kafka that need ZooKeeper: of releases before 3.0, and in the middle of an
upgrade from one. From Maven's jars, as ``apache_kafka``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time  # noqa: TID251 - processes on the real machine
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import (
    ApacheKafkaError,
    brokers_listed,
    free_ports,
    java_command,
    kafka_libs,
)
from tests.support.lifetime import ManagedResource

_START_TIMEOUT_S: Final = 120.0
_STOP_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.1
_LOG_TAIL: Final = 4_000


class ZookeeperKafka(ManagedResource):
    """The brokers and their ZooKeeper, as a context manager.

    Args:
        versions: The release of each broker, from id 1 on; they talk as the oldest of them.
        properties: Entries of ``server.properties`` that are added to ours or replace them.
        jvm_options: Of each broker.
    """

    def __init__(
        self,
        *versions: str,
        properties: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = ("-Xmx512m",),
    ) -> None:
        self._versions = versions
        self._properties = dict(properties or {})
        self._jvm_options = tuple(jvm_options)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ports: list[int] = []

    def __enter__(self) -> ZookeeperKafka:
        self.start()
        return self

    def _on_exit(self, exc: BaseException | None) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    @property
    def logs(self) -> tuple[Path, ...]:
        """The log files of the brokers."""
        count = len(self._versions)
        return tuple(
            self._home / f"broker-{broker_number}.log" for broker_number in range(1, count + 1)
        )

    def start(self) -> None:
        """Start all and wait until every broker lists every broker.

        Raises:
            ApacheKafkaError: One of them ended, or a broker was not ready in time.
        """
        self._home = Path(tempfile.mkdtemp(prefix="txnsim-zookeeper-"))
        zookeeper_port, *self._ports = free_ports(1 + len(self._versions))
        try:
            self._spawn_process(
                "zookeeper",
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                self._versions[0],
                {
                    "dataDir": str(self._home / "zookeeper"),
                    "clientPort": str(zookeeper_port),
                    "clientPortAddress": "127.0.0.1",
                    "admin.enableServer": "false",
                },
            )
            oldest_release = min(self._versions).rpartition(".")[0]
            for broker_id, (version, port) in enumerate(
                zip(self._versions, self._ports, strict=True), start=1
            ):
                self._spawn_process(
                    f"broker-{broker_id}",
                    "kafka.Kafka",
                    version,
                    {
                        "broker.id": str(broker_id),
                        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                        "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
                        "zookeeper.connection.timeout.ms": "60000",
                        "inter.broker.protocol.version": oldest_release,
                        "log.dirs": str(self._home / f"data-{broker_id}"),
                        "offsets.topic.num.partitions": "4",
                        "offsets.topic.replication.factor": "1",
                        "transaction.state.log.num.partitions": "4",
                        "transaction.state.log.replication.factor": "1",
                        "transaction.state.log.min.isr": "1",
                        "controlled.shutdown.enable": "false",
                        **self._properties,
                    },
                )
                self._await_ready(port, broker_id)
            for port in self._ports:
                self._await_ready(port, len(self._ports))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all by their process ids, ZooKeeper last, and remove their directory."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(timeout=_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes = []
        shutil.rmtree(self._home, ignore_errors=True)

    def _spawn_process(
        self, name: str, main_class: str, version: str, properties: Mapping[str, str]
    ) -> None:
        config = self._home / f"{name}.properties"
        config.write_text(
            "".join(
                f"{property_name}={property_value}\n"
                for property_name, property_value in properties.items()
            )
        )
        libs_directory = kafka_libs(version)
        java, *_ = java_command(libs_directory)
        # In front: these releases bring a second logger along, which writes nothing.
        class_path = os.pathsep.join(
            (*map(str, libs_directory.glob("slf4j-simple-*.jar")), f"{libs_directory}/*")
        )
        options = (*self._jvm_options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        command = [java, *options, "-cp", class_path, main_class, str(config)]
        with (self._home / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
                )
            )

    def _await_ready(self, port: int, brokers: int) -> None:
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while brokers_listed(port) < brokers:
            ended_processes = [process for process in self._processes if process.poll() is not None]
            if ended_processes or time.monotonic() > deadline_s:
                logs = "\n".join(
                    log.read_text(errors="replace")[-_LOG_TAIL:]
                    for log in sorted(self._home.glob("*.log"))
                )
                raise ApacheKafkaError(f"Kafka with ZooKeeper is not ready:\n{logs}")
            time.sleep(_POLL_S)
