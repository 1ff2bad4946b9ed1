"""Brokers to play cases to: the simulator, or a real Apache Kafka, in any configuration."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.conformance.casebook.model import BrokerConfig
from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer

JVM_OPTIONS: Final = ("-Xmx512m",)


@contextlib.contextmanager
def simulated(config: BrokerConfig, level: int) -> Iterator[str]:
    """The simulator; its address."""
    with tempfile.TemporaryDirectory(prefix="txnsim-cases-") as directory:
        file = Path(directory, "server.properties")
        lines = [f"{name}={value}\n" for name, value in config.properties.items()]
        file.write_text("".join(lines), "utf-8")
        with TxnsimServer(
            transaction_version=level, brokers=config.brokers, arguments=("--config", str(file))
        ) as server:
            yield server.bootstrap


@contextlib.contextmanager
def real(config: BrokerConfig, level: int) -> Iterator[str]:
    """A real Apache Kafka; its address."""
    with ApacheKafka(
        transaction_version=level,
        brokers=config.brokers,
        properties={**config.properties, **config.kafka_only},
        jvm_options=JVM_OPTIONS,
    ) as kafka:
        yield kafka.bootstrap
