"""Brokers to play cases to: the simulator, or a real Apache Kafka, in any configuration."""

from __future__ import annotations

import contextlib
import json
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import msgspec

from tests.conformance.casebook.model import BrokerConfig
from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer

JVM_OPTIONS: Final = ("-Xmx512m",)
PATIENCE_S: Final = 60.0


class Life(Protocol):
    """Brokers by number: what ends them, and what brings them back."""

    def kill(self, broker_id: int) -> None:
        """End a broker at once, as ``kill -9`` does."""

    def start_again(self, broker_id: int) -> None:
        """Start one again that was killed, and wait until it is one of the cluster."""


class Stage(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Brokers that run."""

    address: str
    life: Life


class SimulatedLife:
    """By the control API of a server."""

    def __init__(self, server: TxnsimServer) -> None:
        self._server = server

    def kill(self, broker_id: int) -> None:
        """End a broker at once."""
        self._post(f"brokers/{broker_id}/kill")

    def start_again(self, broker_id: int) -> None:
        """Start it again."""
        self._post(f"brokers/{broker_id}/start")

    def _post(self, path: str) -> None:
        request = urllib.request.Request(
            f"{self._server.http}/api/v1/{path}",
            data=json.dumps({}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            assert answer.status == 200, path


@contextlib.contextmanager
def simulated(config: BrokerConfig, level: int) -> Iterator[Stage]:
    """The simulator."""
    with tempfile.TemporaryDirectory(prefix="txnsim-cases-") as directory:
        file = Path(directory, "server.properties")
        lines = [f"{name}={value}\n" for name, value in config.properties.items()]
        file.write_text("".join(lines), "utf-8")
        control = ("--http", "0") if config.brokers > 1 else ()
        with TxnsimServer(
            transaction_version=level,
            brokers=config.brokers,
            arguments=("--config", str(file), *control),
        ) as server:
            yield Stage(address=server.bootstrap, life=SimulatedLife(server))


@contextlib.contextmanager
def real(config: BrokerConfig, level: int) -> Iterator[Stage]:
    """A real Apache Kafka."""
    with ApacheKafka(
        transaction_version=level,
        brokers=config.brokers,
        properties={**config.properties, **config.kafka_only},
        jvm_options=JVM_OPTIONS,
    ) as kafka:
        yield Stage(address=kafka.bootstrap, life=kafka)
