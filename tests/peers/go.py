"""Suites of Go's Kafka clients: franz-go, the tests of its fake broker, and Sarama."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.peers.compose import write_docker
from tests.peers.go_tests import (
    PEERS,
    compiled,
    names_with,
    required,
    run_tests,
)
from tests.peers.suite import Outcome, Suite, Target
from tests.peers.toxiproxy import proxies
from tests.support.apache_kafka import REPOSITORY, ApacheKafka, free_ports, locked
from tests.support.txnsim_server import TxnsimServer

_SHIM: Final = Path(__file__).with_name("go_sources") / "kfake"

FRANZ_GO: Final = required("github.com/twmb/franz-go")
KFAKE: Final = required("github.com/twmb/franz-go/pkg/kfake", by=_SHIM / "origin.mod")
SARAMA: Final = required("github.com/IBM/sarama")

_SARAMA_PORT_FIRST: Final = 29091
"""Sarama's tests know their brokers' addresses: five ports from here."""

_SARAMA_BROKERS: Final = 5

_SARAMA_BROKERS_REAL: Final = 3
"""Enough for the tests' replication factors: fewer JVMs. The other proxies lead to the first."""

_SARAMA_SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "2",
}
"""As Sarama's own docker-compose.yml and the server.properties in its image have them."""

_RECORDS: Final = "20000"
"""Through each of franz-go's long chains of consumers and producers, which would take 500,000."""


_FRANZ_GO_MARKS: Final = (
    "adm()",
    "getSeedBrokers(",
    "newTestClient(",
    "newTestConsumer(",
    "scramSeeds",
    "tmpTopic",
)
"""What the text of a test has that talks to a broker."""


def _franz_go(target: Target, names: Sequence[str]) -> Iterator[Outcome]:
    package = FRANZ_GO.directory() / "pkg" / "kgo"
    binary = compiled(f"kgo-{FRANZ_GO.version}", "./pkg/kgo", directory=FRANZ_GO.directory())
    wanted = names or names_with(package, "*_test.go", marks=_FRANZ_GO_MARKS)
    with _three_brokers(target) as environment:
        environment |= {"KGO_TEST_RECORDS": _RECORDS, "KGO_LOG_LEVEL": "none"}
        yield from run_tests(binary, wanted, directory=package, environment=environment, minutes=20)


@contextlib.contextmanager
def _three_brokers(target: Target) -> Iterator[dict[str, str]]:
    """What franz-go's tests want to be told about a cluster, and one where SCRAM is asked for."""
    environment = {**os.environ, "KGO_TEST_RF": "3"}
    if target is Target.APACHE:
        with ApacheKafka(brokers=3, jvm_options=("-Xmx512m",)) as kafka:
            yield environment | {"KGO_SEEDS": kafka.bootstrap}
        return
    with TxnsimServer() as server, TxnsimServer(arguments=("--security", "demo")) as secured:
        scram = secured.ready["security"]["bootstrap"]["SASL_PLAINTEXT"]
        yield environment | {
            "KGO_SEEDS": server.bootstrap,
            "KGO_TEST_SCRAM_SEEDS": scram,
            "KGO_TEST_SCRAM": "scram-user:scram-user-secret:512",
        }


def _kfake(target: Target, names: Sequence[str]) -> Iterator[Outcome]:
    module = _with_shim()
    package = module / "kafka_tests"
    binary = compiled(module.name, "./kafka_tests", directory=module)
    broker = f"{sys.executable} -m tests.peers.broker --target {target}"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TXNSIM_PEER_BROKER": broker}
    yield from run_tests(
        binary,
        names or names_with(package, "*_test.go"),
        directory=package,
        environment=environment,
        minutes=20,
        parallel=2 if target is Target.TXNSIM else 1,
    )


def _with_shim() -> Path:
    """kfake's tests beside our package in the place of the fake broker: a module of its own."""
    ours = [file for file in sorted(_SHIM.iterdir()) if file.suffix in {".go", ".mod", ".sum"}]
    digest = hashlib.sha256(b"\0".join(file.read_bytes() for file in ours)).hexdigest()[:12]
    module = PEERS / f"{KFAKE.file_stem()}-{digest}"
    with locked(PEERS / "kfake.lock"):
        if not module.is_dir():
            fresh = module.with_name("kfake.partial")
            shutil.rmtree(fresh, ignore_errors=True)
            tests = fresh / "kafka_tests"
            tests.mkdir(parents=True)
            for file in (KFAKE.directory() / "kafka_tests").glob("*.go"):
                shutil.copyfile(file, tests / file.name)
            for file in ours:
                shutil.copyfile(file, fresh / file.name)
            fresh.rename(module)
    return module


def _sarama(target: Target, names: Sequence[str]) -> Iterator[Outcome]:
    directory = SARAMA.directory()
    binary = compiled(SARAMA.file_stem(), ".", directory=directory, tags="functional")
    wanted = names or names_with(directory, "functional_*_test.go")
    with _five_brokers(target) as environment:
        yield from run_tests(
            binary, wanted, directory=directory, environment=environment, minutes=30
        )


@contextlib.contextmanager
def _five_brokers(target: Target) -> Iterator[dict[str, str]]:
    """Five brokers, each behind a toxiproxy at the port that Sarama's tests know."""
    ports = range(_SARAMA_PORT_FIRST, _SARAMA_PORT_FIRST + _SARAMA_BROKERS)
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txnsim-peer-")))
        control = ""
        if target is Target.TXNSIM:
            server = stack.enter_context(_simulated(work))
            control = server.http or ""
            brokers = [f"127.0.0.2:{port}" for port in ports]
        else:
            kafka = stack.enter_context(
                _Advertised(
                    brokers=_SARAMA_BROKERS_REAL,
                    properties=_SARAMA_SETTINGS,
                    jvm_options=("-Xmx512m",),
                )
            )
            real = kafka.bootstrap.split(",")
            brokers = real + real[:1] * (_SARAMA_BROKERS - len(real))
        routes = {
            f"kafka{number}": (f"127.0.0.1:{port}", broker)
            for number, (port, broker) in enumerate(zip(ports, brokers, strict=True), start=1)
        }
        api = stack.enter_context(proxies(routes, work))
        write_docker(work)
        yield {
            **os.environ,
            "PATH": f"{work}{os.pathsep}{os.environ['PATH']}",
            "TOXIPROXY_ADDR": api,
            "KAFKA_VERSION": "4.3.1",
            "TXNSIM_PEER_HTTP": control,
        }


def _simulated(work: Path) -> TxnsimServer:
    config = work / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in _SARAMA_SETTINGS.items()))
    (control,) = free_ports(1)
    # Another address of this machine, so that proxies can listen at the ports that are advertised.
    where = ("--host", "127.0.0.2", "--advertised-host", "127.0.0.1")
    arguments = (*where, "--port", str(_SARAMA_PORT_FIRST), "--http", str(control))
    return TxnsimServer(brokers=_SARAMA_BROKERS, arguments=(*arguments, "--config", str(config)))


class _Advertised(ApacheKafka):
    """Real brokers whose clients are told the proxies' ports."""

    def _server_properties(
        self, node_id: int, port: int, controller_port: int, home: Path
    ) -> dict[str, str]:
        proxy = f"PLAINTEXT://127.0.0.1:{_SARAMA_PORT_FIRST + node_id - 1}"
        settings = super()._server_properties(node_id, port, controller_port, home)
        return settings | {"advertised.listeners": proxy}


_KFAKE_REASONS: Final[Mapping[str, str]] = {
    "Test848EmptyGroupDescribe": "It expects a fake's answer: while `__consumer_offsets` does not "
    "exist yet, a broker has no coordinator to answer DescribeGroups. The same on a real Kafka.",
    "TestCreateTopicsReplicaAssignment": "It places replicas on broker 0; ours are numbered from "
    "1. The same on a real Kafka whose brokers are.",
    "TestDescribeProducersAfterCommit": "It expects that a producer is forgotten with its commit; "
    "a broker lists it until it expires. The same on a real Kafka.",
    "TestFenceBeforeProducerCommit": "It expects InitProducerId to succeed at once while a "
    "transaction is open; a broker says CONCURRENT_TRANSACTIONS until that is aborted. The same on "
    "a real Kafka.",
    "TestGroupMaxSize848": "Its heartbeat leaves out the subscription, which is INVALID_REQUEST "
    "before the size of the group is looked at. The same on a real Kafka.",
}

_NO_CONTAINERS: Final = (
    "It runs Java's console clients inside the broker's container, and skips itself "
    "where the cluster is not one of containers."
)

_SARAMA_REASONS: Final[Mapping[str, str]] = {
    "TestFuncIdempotentBufferedSequence": "What it does with a producer succeeds; then it looks "
    "for the name of a Java exception in the log of the broker's container.",
    "TestFuncJavaInteropCooperativeRebalance": _NO_CONTAINERS,
    "TestJavaConsumerCompressionRoundTrip": _NO_CONTAINERS,
    "TestJavaMurmur2PartitionerInterop": _NO_CONTAINERS,
    "TestJavaProducerCompressionRoundTrip": _NO_CONTAINERS,
    "TestReadOnlyAndAllCommittedMessages": "Its authors have switched it off.",
}

_NO_SHARE_GROUPS: Final = "Share groups (KIP-932) are not part of txnsim; it skips itself."

_FRANZ_GO_REASONS: Final[Mapping[str, str]] = {
    "TestConsumeRegexShareSkipsInternal": _NO_SHARE_GROUPS,
    "TestIssueProduceBrokerTooOldFailsRecords": "It is about brokers before Kafka 0.10, and skips "
    "itself.",
    "TestShareGroup": _NO_SHARE_GROUPS,
    "TestShareGroupAckOnClose": _NO_SHARE_GROUPS,
    "TestShareGroupETL": _NO_SHARE_GROUPS,
    "TestShareGroupOffsetsAdmin": _NO_SHARE_GROUPS,
}

SUITES: Final[tuple[Suite, ...]] = (
    Suite(
        name="kfake",
        project="kfake, franz-go's fake broker",
        version=KFAKE.version.removeprefix("v"),
        source="`kafka_tests`, made after Apache Kafka's own integration tests of its clients.",
        cluster="A cluster of its own for each test, with the settings that the test names. The "
        "fake broker's package is replaced by one that starts it.",
        ask=_kfake,
        reasons=_KFAKE_REASONS,
    ),
)
