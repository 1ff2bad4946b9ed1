"""Tests of kafka-go: those of transactions and of groups.

Its transaction tests switch themselves off for Kafka 3.0 and later, so brokers are as in 2.8, which
its own CI asks as well.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.peers.go_tests import compiled, names_with, required, run_tests
from tests.peers.suite import Outcome, Suite, Target
from tests.peers.toxiproxy import proxies
from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer

_SOURCES: Final = Path(__file__).with_name("go_sources") / "segmentio"
"""A module that requires kafka-go, as its own go.mod is not tidy."""

MODULE: Final = required("github.com/segmentio/kafka-go", by=_SOURCES / "go.mod")

_FILES: Final = (
    "*txn_test.go",
    "initproducerid_test.go",
    "txnoffsetcommit_test.go",
    "*group*_test.go",
    "findcoordinator_test.go",
    "heartbeat_test.go",
    "offset*_test.go",
)

_MARKS: Final = ("newLocalClient", "localhost:9092", "testConsumerGroup", "makeGroupID")
"""What the text of a test has that talks to a broker."""

_PORT: Final = 9092
"""The tests know their broker's address."""

_SETTINGS: Final = {"auto.create.topics.enable": "true", "group.initial.rebalance.delay.ms": "0"}


def _kafka_go(target: Target, names: Sequence[str]) -> Iterator[Outcome]:
    directory = MODULE.directory()
    binary = compiled(MODULE.file_stem(), MODULE.path, directory=_SOURCES)
    known = {name for files in _FILES for name in names_with(directory, files, marks=_MARKS)}
    environment = {**os.environ, "KAFKA_VERSION": "2.8.1"}
    with _broker(target):
        yield from run_tests(
            binary, names or sorted(known), directory=directory, environment=environment, minutes=10
        )


@contextlib.contextmanager
def _broker(target: Target) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txnsim-peer-")))
        if target is Target.TXNSIM:
            config = work / "server.properties"
            config.write_text("".join(f"{name}={value}\n" for name, value in _SETTINGS.items()))
            where = ("--port", str(_PORT), "--advertised-host", "localhost")
            arguments = (*where, "--config", str(config), "--as-version", "2.8")
            server = TxnsimServer(brokers=1, transaction_version=0, arguments=arguments)
            stack.enter_context(server)
        else:
            settings = {**_SETTINGS, "advertised.listeners": f"PLAINTEXT://localhost:{_PORT}"}
            kafka = ApacheKafka(properties=settings, jvm_options=("-Xmx512m",))
            stack.enter_context(kafka)
            routes = {"kafka": (f"127.0.0.1:{_PORT}", kafka.bootstrap)}
            stack.enter_context(proxies(routes, work))
        yield


_REASONS: Final[Mapping[str, str]] = {
    "TestClientTxnOffsetCommit": "Its member joins without a group.instance.id and then commits "
    "with one: UNKNOWN_MEMBER_ID. Its authors switch it off from Kafka 3.0 on; `--as-version` "
    "follows older releases in transactions, not in groups.",
}

SUITE: Final = Suite(
    name="kafka-go",
    project="kafka-go",
    version=MODULE.version.removeprefix("v"),
    source="The module's tests of transactions and groups that talk to a broker, told that it is "
    "Kafka 2.8.1: those of transactions switch themselves off from 3.0 on.",
    cluster="One broker with `--as-version 2.8`; where a real Kafka was asked, it is 4.3.1 all the "
    "same.",
    ask=_kafka_go,
    reasons=_REASONS,
)
