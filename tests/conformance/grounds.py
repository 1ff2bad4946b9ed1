"""What a story is played on: one broker, unless it asks for more."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time  # noqa: TID251 - waits for processes on the real machine
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from tests.real.stories.player import Player
from tests.support.apache_kafka import ApacheKafka, brokers_listed
from tests.support.patience import until
from tests.support.raw_wire import RawConnection
from tests.support.txnsim_server import TxnsimServer
from tests.support.virtual_world import VirtualWorld
from tests.support.world import playing_in
from txnsim.config import load
from txnsim.server.options import ClusterOptions

_PATIENCE_S: Final = 30.0
_PAUSE_S: Final = 0.05
_METADATA: Final = 3


class Ground(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A cluster, as both sides can have it."""

    name: str
    properties: Mapping[str, str]
    """What both are started with."""
    brokers: int = 1
    down: tuple[int, ...] = ()
    """Brokers that are killed, and fenced, before the story begins."""
    takes_telemetry: bool = False
    """Clients may push their metrics (KIP-714)."""


@contextlib.contextmanager
def kafka_on(ground: Ground, level: int) -> Iterator[str]:
    """A real Apache Kafka; the address of its first broker."""
    with ApacheKafka(
        transaction_version=level,
        brokers=ground.brokers,
        properties=ground.properties,
        takes_telemetry=ground.takes_telemetry,
        jvm_options=("-Xmx512m",),
    ) as cluster:
        for broker_id in ground.down:
            cluster.kill(broker_id)
        yield _ready(cluster.bootstrap, ground)


@contextlib.contextmanager
def simulator_on(ground: Ground, level: int) -> Iterator[str]:
    """The simulator as a process, over TCP; the address of its first broker."""
    with (
        _config(ground) as file,
        TxnsimServer(
            transaction_version=level,
            brokers=ground.brokers,
            arguments=("--config", str(file), *(("--http", "0") if ground.down else ())),
        ) as server,
    ):
        for broker_id in ground.down:
            _post(f"{server.http}/api/v1/brokers/{broker_id}/kill")
        address = _ready(server.bootstrap, ground)
        _take_first_producer_id(address, level)
        yield address


@contextlib.contextmanager
def virtual_on(ground: Ground, level: int) -> Iterator[str]:
    """The simulator in virtual time; the address of its first broker. What is played here is played
    in its world.
    """
    with _config(ground) as file:
        options = load(file).onto(ClusterOptions(brokers=ground.brokers, port=0))
    settings = msgspec.structs.replace(options.settings, transaction_version=level)
    options = msgspec.structs.replace(options, settings=settings)
    with VirtualWorld(options) as cluster, playing_in(cluster):
        address = cluster.bootstrap.partition(",")[0]
        for broker_id in ground.down:
            cluster.kill(broker_id)
        if ground.down:
            with RawConnection(address) as connection:
                until(
                    lambda: len(connection.ask(_METADATA, 12, topics=[]).brokers),
                    lambda alive: alive == ground.brokers - len(ground.down),
                    f"brokers {ground.down} are down",
                )
        _take_first_producer_id(address, level)
        yield address


def _take_first_producer_id(address: str, level: int) -> None:
    """Rows of errors have 0 where they have no producer id; so no story shall be given that one."""
    with contextlib.closing(Player(address, scene="first", level=level)) as player:
        player.producer()


@contextlib.contextmanager
def _config(ground: Ground) -> Iterator[Path]:
    settings = {**ground.properties, "client_telemetry_enable": ground.takes_telemetry}
    with tempfile.TemporaryDirectory(prefix="txnsim-ground-") as directory:
        file = Path(directory, "cluster.yaml")
        typed = {name: _typed(value) for name, value in settings.items()}
        file.write_text(json.dumps({"settings": typed}))
        yield file


def _ready(bootstrap: str, ground: Ground) -> str:
    """The first address, once the first broker knows who is down."""
    address = bootstrap.partition(",")[0]
    port = int(address.rpartition(":")[2])
    deadline_s = time.monotonic() + _PATIENCE_S
    while brokers_listed(port) != ground.brokers - len(ground.down):
        assert time.monotonic() < deadline_s, f"{ground.name}: brokers {ground.down} stay"
        time.sleep(_PAUSE_S)
    return address


def _typed(value: object) -> object:
    """A property as YAML has it."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(str(value))
    return value


def _post(url: str) -> None:
    request = urllib.request.Request(
        url, data=json.dumps({}).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
        assert answer.status == 200, url
