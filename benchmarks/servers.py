"""The servers that are measured, and how each is made ready to start.

``prepare`` does everything that users have behind them when they start a server: jars fetched,
storage formatted, wheel installed. ``launch`` gives each start a fresh home. What is timed comes
after both (``benchmarks.process``).
"""

from __future__ import annotations

import random
import shlex
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from benchmarks import build
from tests.support.apache_kafka import (
    KAFKA_VERSION,
    ApacheKafkaError,
    java_command,
    kafka_libs,
    run_kafka_tool,
)

BROKERS: Final = 3
READY_FILE: Final = "ready.json"
_PORT_RANGE: Final = range(20_000, 32_000)
"""Below the ephemeral range: who polls a port of that range may be given it by the kernel, be
connected to itself, and so keep the server from binding it."""


class ServerLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """How to start one process, in an empty directory of its own."""

    command: tuple[str, ...]
    bootstrap: str | None
    """Its address; None where the process chooses it and writes it to the ready file."""


class Server(Protocol):
    """A server that the benchmark measures."""

    name: str
    label: str

    def prepare(self) -> None:
        """Make everything that need not be made again for each start."""

    def launch(self, home_directory: Path) -> ServerLaunch:
        """Make a fresh ``home`` ready for one start; not timed."""


class ApacheKafka:
    """Nodes that are controller and broker each, at ``transaction.version`` 2.

    Args:
        node_count: One, without replication; or three, which replicate what coordinators write.
    """

    jvm_options: Final = ("-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
    properties: Final[Mapping[str, str]] = {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        # 4 instead of 50: a single node starts faster, which is in Kafka's favour.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
    }

    def __init__(self, *, node_count: int = 1) -> None:
        self._node_count = node_count
        self.name = "apache" if node_count == 1 else f"apache-{node_count}"
        self.label = f"Apache Kafka {KAFKA_VERSION}" + (
            "" if node_count == 1 else f", {node_count} nodes"
        )

    def prepare(self) -> None:
        """Fetch the jars and format storage once; each start gets a copy of it."""
        self._libs_directory = kafka_libs()
        self._formatted_home = build.CACHE / f"kafka-formatted-{self._node_count}"
        shutil.rmtree(self._formatted_home, ignore_errors=True)
        self._formatted_home.mkdir(parents=True)
        for config_file in self._write_configs(
            self._formatted_home, range(20_000, 20_000 + 2 * self._node_count)
        ):
            tool_run = run_kafka_tool(
                "kafka.tools.StorageTool",
                *("format", "-t", "dHhuc2ltLWJlbmNobWFyaw", "-c", str(config_file)),
                *("--feature", "transaction.version=2"),
            )
            if tool_run.code != 0:
                raise ApacheKafkaError(f"formatting failed:\n{tool_run.stdout}{tool_run.stderr}")

    def launch(self, home_directory: Path) -> ServerLaunch:
        """Copy the formatted storage; return the command that starts the brokers."""
        ports = _free_ports(2 * self._node_count)
        shutil.copytree(self._formatted_home, home_directory, dirs_exist_ok=True)
        java_arguments = (
            *java_command(self._libs_directory, options=self.jvm_options),
            "kafka.Kafka",
        )
        node_commands = [
            (*java_arguments, str(config_file))
            for config_file in self._write_configs(home_directory, ports)
        ]
        bootstrap = f"127.0.0.1:{ports[0]}"
        if self._node_count == 1:
            return ServerLaunch(command=node_commands[0], bootstrap=bootstrap)
        # The signal that ends it reaches the nodes as well: it waits for them.
        shell_script = " & ".join(["trap : TERM", *map(shlex.join, node_commands)]).replace(
            " & ", "; ", 1
        )
        return ServerLaunch(
            command=("sh", "-c", f"{shell_script} & wait; wait"), bootstrap=bootstrap
        )

    def _write_configs(self, home_directory: Path, ports: Sequence[int]) -> list[Path]:
        """Write the configuration of each node, which has two of the ports."""
        port_pairs = list(zip(ports[::2], ports[1::2], strict=True))
        voters_text = ",".join(
            f"{node_id}@127.0.0.1:{port}" for node_id, (_, port) in enumerate(port_pairs, 1)
        )
        replication_factor, in_sync_replicas_min = (
            str(self._node_count),
            str(self._node_count // 2 + 1),
        )
        config_files = []
        for node_id, (port, controller_port) in enumerate(port_pairs, 1):
            properties = {
                **self.properties,
                "node.id": str(node_id),
                "listeners": f"PLAINTEXT://127.0.0.1:{port},"
                f"CONTROLLER://127.0.0.1:{controller_port}",
                "controller.quorum.voters": voters_text,
                "log.dirs": str(home_directory / f"data-{node_id}"),
                "offsets.topic.replication.factor": replication_factor,
                "transaction.state.log.replication.factor": replication_factor,
                "transaction.state.log.min.isr": in_sync_replicas_min,
            }
            config_file = home_directory / f"server-{node_id}.properties"
            config_file.write_text(
                "".join(f"{name}={value}\n" for name, value in properties.items())
            )
            config_files.append(config_file)
        return config_files


class Txnsim:
    """The simulator as users install and start it: from its wheel, with its default settings.

    Args:
        wheel: A wheel that is built already; this tree's is built otherwise.
        broker_count: How many; each replicates what the others lead.
    """

    name = "txnsim"

    def __init__(self, wheel_file: Path | None = None, *, broker_count: int = BROKERS) -> None:
        self._wheel_file = wheel_file
        self._broker_count = broker_count
        self.label = f"txnsim with {broker_count} broker(s)"

    def prepare(self) -> None:
        """Build the wheel and install it with nothing but its runtime dependencies."""
        self._program_file = build.make_txnsim_environment(self._wheel_file or build.build_wheel())

    def launch(self, home_directory: Path) -> ServerLaunch:
        """Make the command that starts the brokers on free ports."""
        broker_count_text = str(self._broker_count)
        serve_options = (
            "--port",
            "0",
            "--brokers",
            broker_count_text,
            "--ready-file",
            str(home_directory / READY_FILE),
        )
        return ServerLaunch(
            command=(str(self._program_file), "serve", *serve_options), bootstrap=None
        )


class Kfake:
    """franz-go's in-memory Kafka, compiled into a program of its own."""

    name = "kfake"
    label = "kfake"

    def prepare(self) -> None:
        """Compile kfake."""
        self._program_file = build.build_go_program("kfake")

    def launch(self, home_directory: Path) -> ServerLaunch:
        """Make the command that starts three brokers on free ports."""
        serve_options = (
            "--brokers",
            str(BROKERS),
            "--ready-file",
            str(home_directory / READY_FILE),
        )
        return ServerLaunch(command=(str(self._program_file), *serve_options), bootstrap=None)


def _free_ports(port_count: int) -> list[int]:
    """Find ports that no process listens on, outside the range that the kernel gives to clients."""
    ports: list[int] = []
    for port in random.sample(_PORT_RANGE, k=len(_PORT_RANGE)):
        with socket.socket() as probe_socket:
            try:
                probe_socket.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == port_count:
            break
    return ports
