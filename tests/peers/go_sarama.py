"""Tests of Sarama: its functional tests, behind the proxies that they disturb connections with."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.peers.compose import write_docker
from tests.peers.go_tests import compile_tests, names_with, required_module, run_tests
from tests.peers.suite import PeerOutcome, PeerTarget, Suite
from tests.peers.toxiproxy import PORT as TOXIPROXY_PORT
from tests.peers.toxiproxy import proxies
from tests.support.apache_kafka import KAFKA_VERSION, ApacheKafka, free_ports
from tests.support.txnsim_server import TxnsimServer

MODULE: Final = required_module("github.com/IBM/sarama")

_PORT_FIRST: Final = 29091
"""Sarama's tests know their brokers' addresses: five ports from here."""

_BROKERS: Final = 5

_BROKERS_REAL: Final = 3
"""Enough for the tests' replication factors: fewer JVMs. The other proxies lead to the first."""

_SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "2",
}
"""As Sarama's own docker-compose.yml and the server.properties in its image have them."""


def _sarama(target: PeerTarget, test_names: Sequence[str]) -> Iterator[PeerOutcome]:
    directory = MODULE.directory()
    binary_file = compile_tests(MODULE.file_stem(), ".", directory=directory, tags="functional")
    chosen_tests = test_names or names_with(directory, "functional_*_test.go")
    with _five_brokers(target) as environment:
        yield from run_tests(
            binary_file, chosen_tests, directory=directory, environment=environment, minutes=30
        )


@contextlib.contextmanager
def _five_brokers(target: PeerTarget) -> Iterator[dict[str, str]]:
    """Five brokers, each behind a toxiproxy at the port that Sarama's tests know."""
    ports = range(_PORT_FIRST, _PORT_FIRST + _BROKERS)
    with contextlib.ExitStack() as stack:
        work_folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txnsim-peer-")))
        if target is PeerTarget.TXNSIM:
            server = stack.enter_context(_simulated_server(work_folder))
            existing = {
                "TXNSIM_PEER_HTTP": server.http or "",
                "TXNSIM_PEER_STARTED": datetime.now(UTC).isoformat(),
            }
            brokers = [f"127.0.0.2:{port}" for port in ports]
        else:
            kafka = stack.enter_context(
                _AdvertisedKafka(
                    brokers=_BROKERS_REAL,
                    properties=_SETTINGS,
                    jvm_options=("-Xmx512m",),
                )
            )
            # With this the tests go without their five "containers", and without tools inside one.
            existing = {"TOXIPROXY_ADDR": f"http://127.0.0.1:{TOXIPROXY_PORT}"}
            real_brokers = kafka.bootstrap.split(",")
            brokers = real_brokers + real_brokers[:1] * (_BROKERS - len(real_brokers))
        routes = {
            f"kafka{route_number}": (f"127.0.0.1:{port}", broker)
            for route_number, (port, broker) in enumerate(zip(ports, brokers, strict=True), start=1)
        }
        stack.enter_context(proxies(routes, work_folder))
        write_docker(work_folder)
        yield {
            **os.environ,
            **existing,
            "PATH": f"{work_folder}{os.pathsep}{os.environ['PATH']}",
            "KAFKA_VERSION": KAFKA_VERSION,
            "TXNSIM_PEER_BOOTSTRAP": brokers[0],
            "TXNSIM_PEER_TOOLS": str(work_folder),
        }


def _simulated_server(work_folder: Path) -> TxnsimServer:
    config = work_folder / "server.properties"
    config.write_text(
        "".join(
            f"{setting_name}={setting_value}\n" for setting_name, setting_value in _SETTINGS.items()
        )
    )
    (control,) = free_ports(1)
    # Another address of this machine, so that proxies can listen at the ports that are advertised.
    address_options = ("--host", "127.0.0.2", "--advertised-host", "127.0.0.1")
    arguments = (
        *address_options,
        "--port",
        str(_PORT_FIRST),
        "--http",
        str(control),
        "--trace",
        "brief",
    )
    return TxnsimServer(brokers=_BROKERS, arguments=(*arguments, "--config", str(config)))


class _AdvertisedKafka(ApacheKafka):
    """Real brokers that advertise the ports of proxies to clients."""

    def _server_properties(
        self, node_id: int, port: int, controller_port: int, home: Path
    ) -> dict[str, str]:
        proxy = f"PLAINTEXT://127.0.0.1:{_PORT_FIRST + node_id - 1}"
        settings = super()._server_properties(node_id, port, controller_port, home)
        return settings | {"advertised.listeners": proxy}


_REASONS: Final[Mapping[str, str]] = {
    "TestReadOnlyAndAllCommittedMessages": "Its authors have switched it off.",
}

SUITE: Final = Suite(
    name="sarama",
    project="Sarama",
    version=MODULE.version.removeprefix("v"),
    source="`functional_*_test.go` (build tag `functional`).",
    cluster="Five brokers behind toxiproxy. A command `docker` of ours is in the place of "
    "containers: `stop` and `start` of a broker go to the control port, `logs` tells refused "
    "batches, and Java's tools that would run inside a container run here.",
    ask=_sarama,
    reasons=_REASONS,
)
