"""Clusters to play stories and cases to: the simulator in virtual time or as a process, and a real
Apache Kafka, each in any configuration.

Each is a ``Target`` (``txnsim_lab.target``) for players that block: acts have the same names, and
what tells clusters apart is the same set of abilities. Those of the simulator are done by
``SimulatedTarget``. A real one is reached without the fault proxy of ``RealTarget``, as what it
answers is recorded byte by byte; and it is started by ``support/apache_kafka.py``, which has
releases, listeners and a layout that recordings were made with, and needs no package of ours.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import time  # noqa: TID251 - waits for processes on the real machine
import urllib.request
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from tests.support.apache_kafka import KAFKA_VERSION, ApacheKafka, brokers_listed
from tests.support.patience import until
from tests.support.txnsim_server import TxnsimServer
from tests.support.virtual_world import VirtualWorld
from txnsim.client.raw.connection import RawConnection
from txnsim.config import load
from txnsim.releases import REFERENCE
from txnsim.runtime.blocking_world import playing_in
from txnsim.runtime.trace import TraceLevel
from txnsim.server.options import ClusterOptions
from txnsim_lab.conformance._book.frame_player import FramePlayer
from txnsim_lab.conformance._book.model import TXN_LEVELS, BrokerConfig
from txnsim_lab.conformance._book.targets import BlockingTarget, RunningTarget
from txnsim_lab.target.cluster import Ability

_PATIENCE_S: Final = 30.0
_PAUSE_S: Final = 0.05
_METADATA: Final = 3


class ClusterSetup(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The set-up of a cluster that a real Kafka and the simulator can both have."""

    name: str
    properties: Mapping[str, str]
    """What both are started with."""
    kafka_only: Mapping[str, str] = {}
    """What the real one needs besides."""
    brokers: int = 1
    down: tuple[int, ...] = ()
    """Brokers that are killed, and fenced, before a story begins."""
    takes_telemetry: bool = False
    """Clients may push their metrics (KIP-714)."""


def setup_of(config: BrokerConfig) -> ClusterSetup:
    """The setup of cases that want this configuration."""
    return ClusterSetup(
        name=config.about,
        properties=config.properties,
        kafka_only=config.kafka_only,
        brokers=config.brokers,
    )


class _StartedKafka:
    """A real broker that this process has started and can stop."""

    abilities: Final = frozenset({Ability.BROKERS})

    def __init__(self, kafka: ApacheKafka) -> None:
        self.bootstrap: Final = kafka.bootstrap
        self._kafka = kafka

    def kill(self, broker: int) -> None:
        self._kafka.kill(broker)

    def stop(self, broker: int) -> None:
        self._kafka.stop_broker(broker)

    def start(self, broker: int) -> None:
        self._kafka.start_again(broker)


@contextlib.contextmanager
def kafka_on(
    setup: ClusterSetup, transaction_version: int, version: str = KAFKA_VERSION
) -> Iterator[BlockingTarget]:
    """A real Apache Kafka."""
    with ApacheKafka(
        transaction_version=transaction_version,
        brokers=setup.brokers,
        properties={**setup.properties, **setup.kafka_only},
        takes_telemetry=setup.takes_telemetry,
        jvm_options=("-Xmx512m",),
        version=version,
    ) as kafka:
        for broker in setup.down:
            kafka.kill(broker)
        _await_brokers(kafka.bootstrap, setup)
        yield _StartedKafka(kafka)


@contextlib.contextmanager
def simulator_on(
    setup: ClusterSetup, transaction_version: int, release: str = REFERENCE.name
) -> Iterator[BlockingTarget]:
    """The simulator as a process that plays that release, over TCP."""
    http = ("--http", "0") if setup.down else ()
    with (
        _config(setup) as file,
        TxnsimServer(
            transaction_version=transaction_version,
            brokers=setup.brokers,
            arguments=("--config", str(file), "--as-version", release, *http),
        ) as server,
    ):
        for broker in setup.down:
            _post(f"{server.http}/api/v1/brokers/{broker}/kill")
        _await_brokers(server.bootstrap, setup)
        yield RunningTarget(server.bootstrap)


def trace_level_at(transaction_version: int) -> TraceLevel:
    """How much is traced while recordings of that level are compared: all at the newest level,
    nothing below it, as no answer may depend on it.
    """
    return TraceLevel.FULL if transaction_version == TXN_LEVELS[-1] else TraceLevel.OFF


@contextlib.contextmanager
def virtual_on(
    setup: ClusterSetup,
    transaction_version: int,
    release: str = REFERENCE.name,
    *,
    trace_level: TraceLevel = TraceLevel.OFF,
) -> Iterator[VirtualWorld]:
    """The simulator as that release in virtual time. What is played here is played in its world."""
    options = _options(setup)
    settings = msgspec.structs.replace(options.settings, transaction_version=transaction_version)
    options = msgspec.structs.replace(options, settings=settings, as_version=(release,))
    with (
        VirtualWorld(options, trace_level=trace_level) as cluster,
        playing_in(cluster),
    ):
        for broker in setup.down:
            cluster.kill(broker)
        if setup.down:
            with RawConnection(first_address(cluster)) as connection:
                until(
                    lambda: len(connection.ask(_METADATA, 12, topics=[]).brokers),
                    lambda alive: alive == setup.brokers - len(setup.down),
                    f"brokers {setup.down} are down",
                )
        yield cluster


def first_address(target: BlockingTarget) -> str:
    """The bootstrap address of the first broker."""
    return target.bootstrap.partition(",")[0]


def take_first_producer_id(target: BlockingTarget, transaction_version: int) -> None:
    """Rows of errors have 0 where they have no producer id; so no story shall be given that one."""
    with contextlib.closing(
        FramePlayer(first_address(target), play_prefix="first", level=transaction_version)
    ) as player:
        player.init_producer()


@cache
def _options(setup: ClusterSetup) -> ClusterOptions:
    with _config(setup) as file:
        return load(file).onto(ClusterOptions(brokers=setup.brokers, port=0))


@contextlib.contextmanager
def _config(setup: ClusterSetup) -> Iterator[Path]:
    """Kafka's own file; who takes telemetry is said in ours, as Kafka needs a plugin for it."""
    lines = [
        f"{property_name}={property_value}\n"
        for property_name, property_value in setup.properties.items()
    ]
    with tempfile.TemporaryDirectory(prefix="txnsim-setup-") as directory:
        properties_file, cluster_file = (
            Path(directory, "server.properties"),
            Path(directory, "cluster.yaml"),
        )
        properties_file.write_text("".join(lines), "utf-8")
        settings = {**setup.properties, "client_telemetry_enable": True}
        cluster_file.write_text(
            "settings:\n"
            + "".join(
                f"  {setting_name}: {setting_value}\n"
                for setting_name, setting_value in settings.items()
            )
        )
        yield cluster_file if setup.takes_telemetry else properties_file


def _await_brokers(bootstrap: str, setup: ClusterSetup) -> None:
    port = int(bootstrap.partition(",")[0].rpartition(":")[2])
    deadline_s = time.monotonic() + _PATIENCE_S
    while brokers_listed(port) != setup.brokers - len(setup.down):
        assert time.monotonic() < deadline_s, f"{setup.name}: brokers {setup.down} stay"
        time.sleep(_PAUSE_S)


def _post(url: str) -> None:
    request = urllib.request.Request(
        url, data=json.dumps({}).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
        assert answer.status == 200, url
