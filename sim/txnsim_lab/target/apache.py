"""Runs Apache Kafka on this machine, with jars from Maven: three brokers and a controller, each in
its own process, so that any broker can be killed.

Brokers reach each other through a fault proxy: their inter-broker listener advertises the proxy's
port.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from txnsim.errors import ConfigError
from txnsim.releases import Release
from txnsim.runtime import real_world
from txnsim.storage.checkpoints import decode_offsets
from txnsim.storage.names import FileName
from txnsim.types import TopicPartition
from txnsim_lab.proxy.addresses import NodeAddress
from txnsim_lab.target.jars import java

HOST: Final = "127.0.0.1"
CONTROLLER_ID: Final = 100
CLUSTER_ID: Final = "dHhuc2ltLXN0b3JpZXM0NQ"
SESSION_TIMEOUT_MS: Final = 4_000
"""Session timeout of brokers: a killed broker is fenced after this time; Kafka's default is 9 s."""
DATA_DIRECTORY: Final = "data"
"""Name of the log directory in the home of a process."""
FEATURE_SINCE: Final = (4, 0)
"""First release with the feature ``transaction.version``."""
_LOG_TAIL_LINES: Final = 30


class ApacheOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers to start."""

    version: str
    libs: Path
    """Directory with their jars."""
    brokers: int
    transaction_version: int
    properties: Mapping[str, str]
    """Further entries of ``server.properties``."""
    racks: tuple[str, ...] = ()
    """The rack of each broker; none has one unless given."""


class _Node(msgspec.Struct, kw_only=True):
    node_id: int
    home_folder: Path
    port: int
    """Client port; for the controller, its only port."""
    peer_port: int = 0
    process: asyncio.subprocess.Process | None = None


class ApacheBrokers:
    """A cluster of processes. ``plan`` it, ``start`` it, and ``stop`` it."""

    def __init__(self, options: ApacheOptions) -> None:
        """Start nothing yet, but choose the ports."""
        self._options = options
        self.home_folder = Path(tempfile.mkdtemp(prefix="txnsim-apache-"))
        """Settings, storage and logs of every process; ``stop`` removes it."""
        controller_port, *ports = real_world.free_ports(1 + 2 * options.brokers)
        self._controller = _Node(
            node_id=CONTROLLER_ID, home_folder=self.home_folder / "controller", port=controller_port
        )
        self._brokers = {
            broker_number: _Node(
                node_id=broker_number,
                home_folder=self.home_folder / f"broker-{broker_number}",
                port=ports[2 * broker_number - 2],
                peer_port=ports[2 * broker_number - 1],
            )
            for broker_number in range(1, options.brokers + 1)
        }

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers themselves, not of a proxy."""
        return ",".join(f"{HOST}:{node.port}" for node in self._brokers.values())

    @property
    def peers(self) -> tuple[NodeAddress, ...]:
        """Addresses of the brokers' inter-broker listeners themselves, not of the proxy."""
        return tuple(
            NodeAddress(node.node_id, HOST, node.peer_port) for node in self._brokers.values()
        )

    async def start(self, peer_port_by_node: Mapping[int, int]) -> None:
        """Format the storage and start every process, without waiting until they answer.

        Raises:
            ConfigError: There is no Java, or storage could not be formatted.
        """
        nodes = (self._controller, *self._brokers.values())
        for node in nodes:
            node.home_folder.mkdir(parents=True)
            properties = self._node_properties(node, peer_port_by_node)
            properties_text = "".join(f"{key}={value}\n" for key, value in properties.items())
            (node.home_folder / "server.properties").write_text(properties_text, encoding="utf-8")
        format_calls = (self._format_storage(node) for node in nodes)
        # All of them end before the first failure is raised, so that no process is left.
        for failure in await asyncio.gather(*format_calls, return_exceptions=True):
            if failure is not None:
                raise failure
        for node in nodes:
            await self._start_process(node)

    async def kill(self, broker_number: int) -> None:
        """Kill a broker, as ``kill -9`` does."""
        process = self._running_process(broker_number)
        process.kill()
        await process.wait()

    async def shut_down(self, broker_number: int) -> None:
        """Stop a broker with a controlled shutdown, which moves its leaders first."""
        process = self._running_process(broker_number)
        process.terminate()
        await process.wait()

    async def start_again(self, broker_number: int) -> None:
        """Start a stopped or killed broker again, with the same disk and ports."""
        await self._start_process(self._brokers[broker_number])

    def segments(self, broker_number: int, partition: TopicPartition) -> list[int]:
        """The base offset of each segment of a replica, in order."""
        log_paths = (self._data_directory(broker_number) / str(partition)).glob("*.log")
        return sorted(int(log_path.stem) for log_path in log_paths)

    def cleaned_until(self, broker_number: int, partition: TopicPartition) -> int:
        """Offset that a broker's cleaner has reached in a replica; -1 if it never ran."""
        checkpoint = self._data_directory(broker_number) / FileName.CLEANER_OFFSETS
        if not checkpoint.exists():
            return -1
        offsets = decode_offsets(checkpoint.read_text("utf-8"), error_prefix=str(checkpoint))
        return offsets.get(partition, -1)

    async def mend(self) -> None:
        """Start every broker that a story has left dead."""
        for broker_number, node in self._brokers.items():
            if node.process is not None and node.process.returncode is not None:
                await self.start_again(broker_number)

    def exit_report(self) -> str:
        """Log tail of a process that ended on its own; empty while all run."""
        for node in (self._controller, *self._brokers.values()):
            process = node.process
            if process is not None and process.returncode is not None:
                return (
                    f"{node.home_folder.name} exited with {process.returncode}:\n"
                    f"{_log_tail(node.home_folder)}"
                )
        return ""

    async def stop(self) -> None:
        """End every process and remove the directories."""
        for node in (*self._brokers.values(), self._controller):
            if node.process is not None and node.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    node.process.kill()
                await node.process.wait()
        shutil.rmtree(self.home_folder, ignore_errors=True)

    # Processes

    def _data_directory(self, broker_number: int) -> Path:
        return self._brokers[broker_number].home_folder / DATA_DIRECTORY

    def _running_process(self, broker_number: int) -> asyncio.subprocess.Process:
        node = self._brokers.get(broker_number)
        if node is None or node.process is None or node.process.returncode is not None:
            raise ConfigError(f"there is no broker {broker_number} that runs")
        return node.process

    async def _start_process(self, node: _Node) -> None:
        heap_option = "-Xmx256m" if node is self._controller else "-Xmx512m"
        with (node.home_folder / "broker.log").open("ab") as log_file:
            node.process = await asyncio.create_subprocess_exec(
                java(),
                heap_option,
                "-XX:TieredStopAtLevel=1",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-cp",
                f"{self._options.libs}/*",
                "kafka.Kafka",
                str(node.home_folder / "server.properties"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                start_new_session=True,  # Ctrl-C is for us: brokers are needed for cleaning up
            )

    async def _format_storage(self, node: _Node) -> None:
        options = self._options
        feature_option = ("--feature", f"transaction.version={options.transaction_version}")
        process = await asyncio.create_subprocess_exec(
            java(),
            "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
            "-cp",
            f"{options.libs}/*",
            "kafka.tools.StorageTool",
            *("format", "-t", CLUSTER_ID, "-c", str(node.home_folder / "server.properties")),
            *(feature_option if Release.line_of(options.version) >= FEATURE_SINCE else ()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        if process.returncode != 0:
            raise ConfigError(f"storage could not be formatted:\n{output.decode(errors='replace')}")

    def _node_properties(self, node: _Node, peer_port_by_node: Mapping[int, int]) -> dict[str, str]:
        replication_factor = min(3, self._options.brokers)
        is_controller = node is self._controller
        common_properties = {
            "process.roles": "controller" if is_controller else "broker",
            "node.id": str(node.node_id),
            "controller.quorum.voters": f"{CONTROLLER_ID}@{HOST}:{self._controller.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(node.home_folder / DATA_DIRECTORY),
            "broker.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "broker.heartbeat.interval.ms": "500",
            "unclean.leader.election.interval.ms": "1000",
            "transaction.state.log.replication.factor": str(replication_factor),
            "transaction.state.log.min.isr": str(min(2, replication_factor)),
            "offsets.topic.replication.factor": str(replication_factor),
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            **self._options.properties,
        }
        if is_controller:
            controller_listener = f"CONTROLLER://{HOST}:{node.port}"
            return {
                **common_properties,
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
                "listeners": controller_listener,
            }
        internal_listener = f"INTERNAL://{HOST}:{peer_port_by_node[node.node_id]}"
        racks = self._options.racks
        return {
            **common_properties,
            **({"broker.rack": racks[node.node_id - 1]} if racks else {}),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "listeners": f"PLAINTEXT://{HOST}:{node.port},INTERNAL://{HOST}:{node.peer_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{node.port},{internal_listener}",
        }


def _log_tail(home: Path) -> str:
    lines = (home / "broker.log").read_text("utf-8", errors="replace").splitlines()
    return "\n".join(lines[-_LOG_TAIL_LINES:])
