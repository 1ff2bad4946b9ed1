"""A real Apache Kafka on this machine, from Maven's jars, without Docker.

The judge of every check that also runs against the simulator: what was only tried on ourselves may
be wrong on both sides. Node 1 is KRaft controller and broker, further nodes are brokers. Storage is
fresh in every run and formatted at the wanted level of ``transaction.version`` (KIP-890). The jars
are copied once into the ignored ``.cache/`` of the repository.

Only the standard library, so that it runs before any environment is built. As a command::

    python -m tests.support.apache_kafka start --transaction-version 2 --property k=v
    python -m tests.support.apache_kafka tool org.apache.kafka.tools.TransactionsCommand ARGS
    python -m tests.support.apache_kafka libs

``start`` runs until stdin closes, SIGINT or SIGTERM; ``libs`` prints the class path.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import secrets  # noqa: TID251 - ports of this machine
import shutil
import signal
import socket  # noqa: TID251 - a process on the real machine
import struct
import subprocess
import sys
import tempfile
import time  # noqa: TID251 - the same
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.lifetime import ManagedResource

KAFKA_VERSION: Final = "4.4.0"
"""The reference (``txnsim.releases.REFERENCE``; a test compares them)."""
REPOSITORY: Final = Path(__file__).resolve().parents[2]
CACHE: Final = REPOSITORY / ".cache"
POM: Final = Path(__file__).with_name("java") / "pom.xml"
TELEMETRY_SOURCES: Final = POM.with_name("telemetry")

_CLUSTER_ID: Final = "dHhuc2ltLXJlYWwta2Fma2E"
_CLUSTER_ID_3_X: Final = "dHhuc2ltLXJlYWxrYWZrYQ"
"""Sixteen bytes, on which older releases insist."""
PORTS_KEPT: Final = range(10_000, 32_768)
"""No system gives these to a connection or for port 0, so one that is free stays so until a broker
binds it, or somebody else who draws one here.
"""

_START_ATTEMPTS: Final = 3
"""How often a start is tried, each time at other ports."""
_START_TIMEOUT_S: Final = 240.0
"""Beside all of CI three brokers may take minutes; one that ends is noticed at once."""
_STOP_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.05
_LOG_TAIL_LINES: Final = 40


class ApacheKafkaError(Exception):
    """The real Kafka could not be fetched, started or queried; the message has the end of
    its log.
    """


class ToolResult(NamedTuple):
    """What one of Kafka's command-line tools answered."""

    code: int
    stdout: str
    stderr: str


def kafka_libs(version: str = KAFKA_VERSION) -> Path:
    """Directory with Kafka's jars, copied by Maven on first use.

    Safe against concurrent runs: one process copies while the others wait for its lock.

    Raises:
        ApacheKafkaError: Maven is missing or failed.
    """
    # The pom is part of the name, so that a changed dependency is never served from an old copy.
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    libs_directory = CACHE / "kafka" / f"{version}-{digest}" / "libs"
    option = f"-Dkafka.version={version}"
    return make_once(
        libs_directory,
        lambda new_folder: copy_by_maven(
            POM, new_folder, option, description="Apache Kafka's jars"
        ),
        lock_file=CACHE / "kafka" / "libs.lock",
    )


def telemetry_taker(libs_directory: Path) -> Path:
    """Directory with the class of a metrics reporter that takes client metrics.

    Raises:
        ApacheKafkaError: There is no JDK, or it failed.
    """
    (source_path,) = TELEMETRY_SOURCES.glob("*.java")
    return java_classes([source_path], name="telemetry", libs_directory=libs_directory)


def java_classes(
    sources: Sequence[Path],
    *,
    name: str,
    libs_directory: Path,
    error: type[Exception] = ApacheKafkaError,
) -> Path:
    """Directory with the classes of files that are compiled against Kafka's jars, once.

    Args:
        sources: Files.
        name: Of the directory, before the release and what the files say.
        libs: Kafka's jars.
        error: Raised where there is no JDK, or it failed.
    """

    def compile_all(new_folder: Path) -> None:
        javac = tool("javac", "these checks need a JDK 17", error)
        command = [javac, "-d", str(new_folder), "-cp", f"{libs_directory}/*", *map(str, sources)]
        output_of(command, "javac failed", error)

    class_directory = CACHE / "java" / f"{name}-{libs_directory.parent.name}-{digest_of(sources)}"
    return make_once(class_directory, compile_all, lock_file=CACHE / "java.lock")


def make_once(target_path: Path, make: Callable[[Path], object], *, lock_file: Path) -> Path:
    """Make a folder unless it exists. One process makes it while the others wait.

    Args:
        target: Named after what it is made of.
        make: Fills the folder that it is given, which is not there yet.
        lock: The file that is locked.
    """
    with hold_lock(lock_file):
        if not target_path.is_dir():
            partial_folder = target_path.with_name(f"{target_path.name}.partial")
            shutil.rmtree(partial_folder, ignore_errors=True)
            make(partial_folder)
            partial_folder.rename(
                target_path
            )  # in one move: half a folder is never taken for a whole one
    return target_path


def digest_of(files: Iterable[Path]) -> str:
    """A digest of the names and contents of these files."""
    running_hash = hashlib.sha256()
    for file in files:
        running_hash.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return running_hash.hexdigest()[:12]


def tool(command: str, reason: str, error: type[Exception] = ApacheKafkaError) -> str:
    """The path of a toolchain's command. Raises ``error`` with the reason if it is not
    installed.
    """
    path = shutil.which(command)
    if path is None:
        raise error(f"{command} not found: {reason}")
    return path


def output_of(
    command: Sequence[str],
    failure: str,
    error: type[Exception] = ApacheKafkaError,
    *,
    directory: Path | None = None,
) -> str:
    """What a command printed. If it fails, raises ``error`` with ``failure`` and its
    whole output.
    """
    process = subprocess.run(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if process.returncode != 0:
        raise error(f"{failure}:\n{process.stdout}{process.stderr}")
    return process.stdout


def copy_by_maven(pom_file: Path, new_folder: Path, *options: str, description: str) -> None:
    """Have Maven copy what a pom depends on into a new folder.

    Args:
        pom: Names the jars.
        new_folder: The folder.
        options: Of Maven.
        description: They are, in an error.

    Raises:
        ApacheKafkaError: Maven is missing or failed.
    """
    maven = tool("mvn", f"{description} are fetched with Maven")
    command = [maven, "-q", "-B", "-f", str(pom_file), "dependency:copy-dependencies"]
    output_of(
        [*command, *options, f"-DoutputDirectory={new_folder}"],
        f"Maven could not copy {description}",
    )


def cached_jars(
    pom_file: Path,
    family: str,
    name: str,
    *options: str,
    description: str,
    check: Callable[[Path], object],
) -> Path:
    """The folder with the jars that a pom names. One process copies them while the others wait.

    Args:
        pom: Names the jars.
        family: Folder below ``.cache/``.
        name: Within it.
        options: Of Maven.
        description: They are, in an error.
        check: Raises an error where the copied folder is not whole.

    Raises:
        ApacheKafkaError: Maven is missing or failed.
    """
    # The pom is part of the name, so that a changed dependency is never served from an old copy.
    digest = hashlib.sha256(pom_file.read_bytes()).hexdigest()[:12]
    jar_directory = CACHE / family / f"{name}-{digest}"

    def copy(new_folder: Path) -> None:
        copy_by_maven(pom_file, new_folder, *options, description=description)
        check(new_folder)

    return make_once(jar_directory, copy, lock_file=CACHE / family / f"{name}.lock")


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock between processes while the block runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def java_command(libs_directory: Path, *, options: Sequence[str] = ()) -> list[str]:
    """The start of a ``java`` command line with Kafka's jars.

    Raises:
        ApacheKafkaError: There is no Java.
    """
    return [tool("java", "Apache Kafka needs Java 17"), *options, "-cp", f"{libs_directory}/*"]


def run_kafka_tool(
    main_class: str, *args: str, timeout_s: float = 120.0, version: str = KAFKA_VERSION
) -> ToolResult:
    """Run one of Kafka's command-line tools against any address; its logging is off.

    Releases before 4.0 bring a second logger along; that SLF4J says so is left out.

    Raises:
        ApacheKafkaError: The tool did not end within ``timeout_s``.
    """
    options = ["-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    command = [*java_command(kafka_libs(version), options=options), main_class, *args]
    result = run_to_end(command, timeout_s=timeout_s)
    complaints = result.stderr.splitlines(keepends=True)
    stderr = "".join(
        complaint_line for complaint_line in complaints if not complaint_line.startswith("SLF4J: ")
    )
    return result._replace(stderr=stderr)


def run_to_end(
    command: Sequence[str], *, timeout_s: float, error: type[Exception] = ApacheKafkaError
) -> ToolResult:
    """Run a command to its end. Raises ``error``, with the output so far, if it takes too long."""
    try:
        process = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        output = expired.stdout or b""
        raise error(
            f"{' '.join(command[-4:])}: no end in {timeout_s} s; so far:\n"
            f"{output.decode(errors='replace') if isinstance(output, bytes) else output}"
        ) from expired
    return ToolResult(process.returncode, process.stdout, process.stderr)


class Listeners(NamedTuple):
    """Further listeners of the first node, beside the plain one."""

    protocols: Mapping[str, str]
    """Name → security protocol."""
    properties: Mapping[str, str]
    """What they need in ``server.properties``."""
    format_arguments: Sequence[str] = ()
    """What they need when storage is formatted: users of SCRAM."""


class _Node(NamedTuple):
    node_id: int
    port: int
    directory: Path
    process: subprocess.Popen[bytes]


class ApacheKafka(ManagedResource):
    """A cluster of one or more real brokers, as a context manager.

    Args:
        transaction_version: Finalized level of ``transaction.version``.
        brokers: How many; the first one is the controller, too.
        properties: Entries of ``server.properties`` that are added to ours or replace them.
        directory: Where storage and logs go; unless given, a temporary one that ``stop`` removes.
        jvm_options: Of each broker.
        version: An older release; before 4.0 there is no ``transaction.version`` to choose.
        others: Releases of single brokers, by node id, where they run another one: in the middle
            of a rolling upgrade. Then storage is formatted as the oldest of them does.
        racks: The rack of each broker (``broker.rack``); none has one unless given.
        listeners: Further ones; only where there is one broker.
        takes_telemetry: With a metrics reporter to which clients may push metrics (KIP-714).
        peer_port: Brokers reach broker N at this port plus N, where somebody leads them on to its
            listener ``INTERNAL`` (``peers``): a fault proxy.
    """

    def __init__(
        self,
        *,
        transaction_version: int = 2,
        brokers: int = 1,
        properties: Mapping[str, str] | None = None,
        directory: Path | None = None,
        jvm_options: Sequence[str] = ("-Xmx1g",),
        version: str = KAFKA_VERSION,
        other_releases: Mapping[int, str] | None = None,
        racks: Sequence[str] = (),
        listeners: Listeners | None = None,
        takes_telemetry: bool = False,
        peer_port: int | None = None,
    ) -> None:
        self._peer_port = peer_port
        self.peers: dict[int, int] = {}
        """Node → port of its listener for other brokers, if a proxy stands between the brokers."""
        self._listeners = listeners
        self._listener_ports: dict[str, int] = {}
        self.transaction_version = transaction_version
        self.version = version
        self._other_releases = dict(other_releases or {})
        self._racks = tuple(racks)
        self.libs = kafka_libs(version)
        self._brokers = brokers
        self._plugins = [telemetry_taker(self.libs)] if takes_telemetry else []
        self._properties = {
            **({"metric.reporters": "TelemetryTaker"} if takes_telemetry else {}),
            **(properties or {}),
        }
        self._jvm_options = tuple(jvm_options)
        self._given_directory = directory
        self._nodes: list[_Node] = []

    # Life

    def __enter__(self) -> ApacheKafka:
        self.start()
        return self

    def _on_exit(self, exc: BaseException | None) -> None:
        self.stop()

    def start(self) -> None:
        """Format, start, and wait until every broker lists every broker.

        Raises:
            ApacheKafkaError: A broker exited or was not ready in time; with the end of its log.
        """
        self.directory = self._given_directory or Path(tempfile.mkdtemp(prefix="txnsim-kafka-"))
        for attempt in range(1, _START_ATTEMPTS + 1):
            try:
                self._start_once(self.directory / f"attempt-{attempt}")
                return
            except ApacheKafkaError as failure:
                self._stop_processes()
                has_lost_port = "Address already in use" in str(failure)
                if not has_lost_port or attempt == _START_ATTEMPTS:
                    self.stop()
                    raise
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """Stop the brokers by their process ids and remove the temporary directory."""
        self._stop_processes()
        if self._given_directory is None:
            shutil.rmtree(self.directory, ignore_errors=True)

    # Queries

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, as clients want them."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self._nodes)

    @property
    def homes(self) -> tuple[Path, ...]:
        """A directory per broker with ``server.properties``, ``broker.log``, and ``data``."""
        return tuple(node.directory for node in self._nodes)

    def bootstrap_at(self, listener: str) -> str:
        """Address of one of the further listeners."""
        return f"127.0.0.1:{self._listener_ports[listener]}"

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the brokers, in order of their node ids."""
        return tuple(node.process.pid for node in self._nodes)

    def log_tail(self) -> str:
        """The last lines that each broker wrote."""
        return "\n".join(_tail(node.directory / "broker.log") for node in self._nodes)

    # Commands

    def kill(self, node_id: int) -> None:
        """Kill a broker. The controller fences it when its session times out."""
        (node,) = (node for node in self._nodes if node.node_id == node_id)
        node.process.kill()
        node.process.wait()

    def stop_broker(self, node_id: int) -> None:
        """Stop a broker by a controlled shutdown."""
        (node,) = (node for node in self._nodes if node.node_id == node_id)
        node.process.terminate()
        node.process.wait(timeout=_START_TIMEOUT_S)

    def start_again(self, *node_ids: int) -> None:
        """Start brokers that were stopped or killed, at their ports and with their disks, and wait
        until they list all brokers.

        Raises:
            ApacheKafkaError: One exited or was not ready in time; with the end of its log.
        """
        node_indexes = [
            node_index for node_index, node in enumerate(self._nodes) if node.node_id in node_ids
        ]
        for node_index in node_indexes:
            node = self._nodes[node_index]
            process = self._spawn_broker(node.node_id, node.directory)
            self._nodes[node_index] = node._replace(process=process)
        for node_index in node_indexes:
            self._await_ready(self._nodes[node_index], time.monotonic() + _START_TIMEOUT_S)

    def run_tool(self, main_class: str, *args: str, timeout_s: float = 120.0) -> ToolResult:
        """Run a tool of Kafka with ``--bootstrap-server`` of this cluster in front of ``args``."""
        return run_kafka_tool(
            main_class, "--bootstrap-server", self.bootstrap, *args, timeout_s=timeout_s
        )

    def set_transaction_version(self, transaction_version: int) -> None:
        """Change the finalized level of ``transaction.version`` (UpdateFeatures).

        Raises:
            ApacheKafkaError: Kafka refused.
        """
        verb = "upgrade" if transaction_version > self.transaction_version else "downgrade"
        feature = f"transaction.version={transaction_version}"
        self._tool_or_raise("org.apache.kafka.tools.FeatureCommand", verb, "--feature", feature)
        self.transaction_version = transaction_version

    def _tool_or_raise(self, main_class: str, *args: str) -> None:
        result = self.run_tool(main_class, *args)
        if result.code != 0:
            raise ApacheKafkaError(f"{main_class} {args}: {result.stdout}{result.stderr}")

    # Processes

    def _start_once(self, directory: Path) -> None:
        names = () if self._listeners is None else tuple(self._listeners.protocols)
        controller_port, *ports = free_ports(1 + self._brokers + len(names))
        self._listener_ports = dict(zip(names, ports[self._brokers :], strict=True))
        ports = ports[: self._brokers]
        self._nodes = []
        for node_id, port in enumerate(ports, start=1):
            home = directory / f"node-{node_id}"
            home.mkdir(parents=True)
            config = home / "server.properties"
            config.write_text(
                _as_text(self._server_properties(node_id, port, controller_port, home))
            )
            self._format(node_id, config)
            self._nodes.append(_Node(node_id, port, home, self._spawn_broker(node_id, home)))
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        for node in self._nodes:
            self._await_ready(node, deadline_s)

    def _server_properties(
        self, node_id: int, port: int, controller_port: int, home: Path
    ) -> dict[str, str]:
        is_first = node_id == 1
        listeners_text = f"PLAINTEXT://127.0.0.1:{port}"
        replicas = str(min(3, self._brokers))
        in_sync = str(min(2, self._brokers))
        return {
            "process.roles": "broker,controller" if is_first else "broker",
            "node.id": str(node_id),
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": listeners_text
            + (f",CONTROLLER://127.0.0.1:{controller_port}" if is_first else ""),
            "log.dirs": str(home / "data"),
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
            "group.initial.rebalance.delay.ms": "0",
            "controlled.shutdown.enable": "false",
            **self._security_properties(listeners_text, controller_port),
            **self._peer_listener_properties(node_id, port, controller_port),
            **({"broker.rack": self._racks[node_id - 1]} if self._racks else {}),
            **self._properties,
        }

    def _security_properties(self, listeners_text: str, controller_port: int) -> dict[str, str]:
        if self._listeners is None:
            return {}
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        own_listeners = (
            f"{listener_name}://127.0.0.1:{port}"
            for listener_name, port in self._listener_ports.items()
        )
        return {
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}"
                for name, protocol in {**protocols, **self._listeners.protocols}.items()
            ),
            "listeners": ",".join(
                [listeners_text, *own_listeners, f"CONTROLLER://127.0.0.1:{controller_port}"]
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            **self._listeners.properties,
        }

    def _peer_listener_properties(
        self, node_id: int, port: int, controller_port: int
    ) -> dict[str, str]:
        if self._peer_port is None:
            return {}
        (internal_port,) = free_ports(1)
        self.peers[node_id] = internal_port
        plain_listener, internal = (
            f"PLAINTEXT://127.0.0.1:{port}",
            f"INTERNAL://127.0.0.1:{internal_port}",
        )
        controller = f",CONTROLLER://127.0.0.1:{controller_port}" if node_id == 1 else ""
        peer_port = self._peer_port + node_id
        return {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "listeners": f"{plain_listener},{internal}{controller}",
            "advertised.listeners": f"{plain_listener},INTERNAL://127.0.0.1:{peer_port}",
        }

    def version_of(self, node_id: int) -> str:
        """The release that a broker runs."""
        return self._other_releases.get(node_id, self.version)

    def _format(self, node_id: int, config: Path) -> None:
        oldest_release = min((self.version, *self._other_releases.values()), key=_version_numbers)
        is_3_x = oldest_release.startswith("3.")
        cluster_id = _CLUSTER_ID_3_X if is_3_x else _CLUSTER_ID
        levels: tuple[str, ...] = ()
        if self._other_releases:
            levels = ("--release-version", oldest_release.rpartition(".")[0])
        elif not is_3_x:
            levels = ("--feature", f"transaction.version={self.transaction_version}")
        result = run_kafka_tool(
            "kafka.tools.StorageTool",
            *("format", "-t", cluster_id, "-c", str(config)),
            *levels,
            *(() if self._listeners is None else self._listeners.format_arguments),
            version=self.version_of(node_id),
        )
        if result.code != 0:
            raise ApacheKafkaError(f"formatting failed:\n{result.stdout}{result.stderr}")

    def _spawn_broker(self, node_id: int, home: Path) -> subprocess.Popen[bytes]:
        options = [*self._jvm_options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        libs_directory = kafka_libs(self.version_of(node_id))
        java, *_ = java_command(libs_directory)
        # In front: releases before 4.0 bring a second logger along, which writes nothing.
        first_jars = (*self._plugins, *libs_directory.glob("slf4j-simple-*.jar"))
        class_path = os.pathsep.join((*map(str, first_jars), f"{libs_directory}/*"))
        config = home / "server.properties"
        command = [java, *options, "-cp", class_path, "kafka.Kafka", str(config)]
        with (home / "broker.log").open("wb") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def _await_ready(self, node: _Node, deadline_s: float) -> None:
        while not self._is_ready(node):
            try:
                code = node.process.wait(timeout=_POLL_S)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline_s:
                    continue
                problem_text = f"not ready in {_START_TIMEOUT_S:.0f} s"
            else:
                problem_text = f"exited with {code}"
            raise ApacheKafkaError(f"broker {node.node_id} {problem_text}:\n{self.log_tail()}")

    def _is_ready(self, node: _Node) -> bool:
        """Whether a broker lists all brokers and every listener accepts connections. With an
        authorizer some listeners open later. A broker that has ended is not ready: another process
        may have its port.
        """
        return (
            node.process.poll() is None
            and brokers_listed(node.port) >= self._brokers
            and all(map(accepts, self._listener_ports.values()))
        )

    def _stop_processes(self) -> None:
        for node in self._nodes:
            node.process.terminate()
        for node in self._nodes:
            try:
                node.process.wait(timeout=_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                node.process.kill()
                node.process.wait()
        self._nodes = []


def free_ports(count: int) -> list[int]:
    """Different ports that no process listens on now."""
    ports: set[int] = set()
    while len(ports) < count:
        port = secrets.choice(PORTS_KEPT)
        # If the port is busy, another one is drawn.
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            ports.add(port)
    return list(ports)


def accepts(port: int) -> bool:
    """Whether a process listens at ``port``."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError:
        return False


def brokers_listed(port: int) -> int:
    """How many live brokers the broker at ``port`` lists; 0 while it does not answer.

    Metadata v1 for no topics, written by hand: a client library would retry and wait.
    """
    request = struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.makefile("rb").read(12)
    except OSError:
        return 0
    return int(struct.unpack(">iii", answer)[2]) if len(answer) == 12 else 0


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _as_text(properties: Mapping[str, str]) -> str:
    return "".join(
        f"{property_name}={property_value}\n"
        for property_name, property_value in properties.items()
    )


def _tail(log: Path) -> str:
    if not log.exists():
        return f"{log}: nothing written"
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])


# The command


def main(argv: Sequence[str] | None = None) -> int:
    """Start a cluster, run a tool, or print the class path."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.apache_kafka")
    commands = parser.add_subparsers(dest="command", required=True)
    start_parser = commands.add_parser(
        "start", help="run brokers until stdin closes, SIGINT or SIGTERM"
    )
    start_parser.add_argument("--transaction-version", type=int, choices=(0, 1, 2), default=2)
    start_parser.add_argument("--brokers", type=int, default=1)
    start_parser.add_argument("--property", action="append", default=[], metavar="NAME=VALUE")
    start_parser.add_argument(
        "--json", action="store_true", help="print bootstrap, pids and directory"
    )
    tool_parser = commands.add_parser("tool", help="run one of Kafka's command-line tools")
    tool_parser.add_argument("main_class")
    tool_parser.add_argument("args", nargs=argparse.REMAINDER)
    commands.add_parser("libs", help="print the class path")
    options = parser.parse_args(argv)
    try:
        match options.command:
            case "start":
                return _run_until_stopped(options)
            case "tool":
                result = run_kafka_tool(options.main_class, *options.args)
                sys.stdout.write(result.stdout)
                sys.stderr.write(result.stderr)
                return result.code
            case _:
                sys.stdout.write(f"{kafka_libs()}/*\n")
                return 0
    except ApacheKafkaError as failure:
        sys.stderr.write(f"{failure}\n")
        return 1


def _run_until_stopped(options: argparse.Namespace) -> int:
    # SIGTERM becomes an exception like SIGINT, so that `with` stops the brokers either way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    properties = dict(entry.split("=", 1) for entry in options.property)
    with (
        contextlib.suppress(KeyboardInterrupt),
        ApacheKafka(
            transaction_version=options.transaction_version,
            brokers=options.brokers,
            properties=properties,
        ) as kafka,
    ):
        facts = {
            "bootstrap": kafka.bootstrap,
            "pids": kafka.pids,
            "directory": str(kafka.directory),
        }
        sys.stdout.write((json.dumps(facts) if options.json else kafka.bootstrap) + "\n")
        sys.stdout.flush()
        while os.read(sys.stdin.fileno(), 4096):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
