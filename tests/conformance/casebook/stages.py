"""Brokers to play cases to: the simulator, or a real Apache Kafka, in any configuration."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Protocol

import msgspec

from tests.conformance.casebook.model import BrokerConfig
from tests.support.apache_kafka import ApacheKafka
from tests.support.virtual_world import VirtualWorld
from tests.support.world import playing_in
from txnsim.config import load
from txnsim.releases import REFERENCE
from txnsim.server.options import ClusterOptions

JVM_OPTIONS: Final = ("-Xmx512m",)


class Life(Protocol):
    """Brokers by number: what ends them, and what brings them back."""

    def kill(self, broker_id: int) -> None:
        """End a broker at once, as ``kill -9`` does."""

    def stop_one(self, broker_id: int) -> None:
        """End a broker in order, and wait until it has ended."""

    def start_again(self, broker_id: int) -> None:
        """Start one again that was ended, and wait until it is one of the cluster."""


class Stage(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Brokers that run."""

    address: str
    life: Life


@contextlib.contextmanager
def virtual(config: BrokerConfig, level: int, release: str = REFERENCE.name) -> Iterator[Stage]:
    """The simulator as that release in virtual time; what is played here is played in its world."""
    options = _options(tuple(config.properties.items()), config.brokers)
    settings = msgspec.structs.replace(options.settings, transaction_version=level)
    options = msgspec.structs.replace(options, settings=settings, as_version=(release,))
    with VirtualWorld(options) as cluster, playing_in(cluster):
        yield Stage(address=cluster.bootstrap, life=cluster)


@cache
def _options(properties: tuple[tuple[str, str], ...], brokers: int) -> ClusterOptions:
    with _file(dict(properties)) as file:
        return load(file).onto(ClusterOptions(brokers=brokers, port=0))


@contextlib.contextmanager
def _file(properties: Mapping[str, str]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="txnsim-cases-") as directory:
        file = Path(directory, "server.properties")
        lines = [f"{name}={value}\n" for name, value in properties.items()]
        file.write_text("".join(lines), "utf-8")
        yield file


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
