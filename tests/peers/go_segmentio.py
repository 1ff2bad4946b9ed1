"""Tests of kafka-go.

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

from tests.peers.go_tests import compile_tests, names_with, required_module, run_tests
from tests.peers.suite import PeerOutcome, PeerTarget, Suite
from tests.peers.toxiproxy import proxies
from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer

_SOURCE_FOLDER: Final = Path(__file__).with_name("go_sources") / "segmentio"
"""A module that requires kafka-go, as its own go.mod is not tidy."""

MODULE: Final = required_module("github.com/segmentio/kafka-go", by_path=_SOURCE_FOLDER / "go.mod")

_PORT: Final = 9092
"""The tests know their broker's address."""

_SETTINGS: Final = {"auto.create.topics.enable": "true", "group.initial.rebalance.delay.ms": "0"}


def _kafka_go(target: PeerTarget, test_names: Sequence[str]) -> Iterator[PeerOutcome]:
    directory = MODULE.directory()
    binary_file = compile_tests(MODULE.file_stem(), MODULE.path, directory=_SOURCE_FOLDER)
    environment = {**os.environ, "KAFKA_VERSION": "2.8.1"}
    with _broker(target):
        yield from run_tests(
            binary_file,
            test_names or names_with(directory, "*_test.go"),
            directory=directory,
            environment=environment,
            minutes=20,
        )


@contextlib.contextmanager
def _broker(target: PeerTarget) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        work_folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txnsim-peer-")))
        if target is PeerTarget.TXNSIM:
            config = work_folder / "server.properties"
            config.write_text(
                "".join(
                    f"{setting_name}={setting_value}\n"
                    for setting_name, setting_value in _SETTINGS.items()
                )
            )
            address_options = ("--port", str(_PORT), "--advertised-host", "localhost")
            arguments = (*address_options, "--config", str(config), "--as-version", "2.8")
            server = TxnsimServer(brokers=1, transaction_version=0, arguments=arguments)
            stack.enter_context(server)
        else:
            settings = {**_SETTINGS, "advertised.listeners": f"PLAINTEXT://localhost:{_PORT}"}
            kafka = ApacheKafka(properties=settings, jvm_options=("-Xmx512m",))
            stack.enter_context(kafka)
            routes = {"kafka": (f"127.0.0.1:{_PORT}", kafka.bootstrap)}
            stack.enter_context(proxies(routes, work_folder))
        yield


_NO_AUTHORIZER: Final = "It wants a broker with an authorizer."

_REASONS: Final[Mapping[str, str]] = {
    "TestClientCreateACLs": _NO_AUTHORIZER,
    "TestClientDeleteACLs": _NO_AUTHORIZER,
    "TestClientDescribeACLs": _NO_AUTHORIZER,
    "TestClientTxnOffsetCommit": "Its member joins without a group.instance.id and then commits "
    "with one: UNKNOWN_MEMBER_ID. Its authors switch it off from Kafka 3.0 on; `--as-version` "
    "follows older releases in transactions, not in groups.",
    "TestConsumerGroupWithMissingTopic": "It is for a cluster that does not create topics by "
    "itself, and skips itself on others.",
    "TestReadTruncatedMessages": "Its authors have switched it off.",
    "TestReaderConsumerGroup": "It panics: a helper of its own calls a function that was not set.",
    "TestUnsupportedSASLMechanism": "It wants a second listener, with SASL, on port 9093.",
}

SUITE: Final = Suite(
    name="kafka-go",
    project="kafka-go",
    version=MODULE.version.removeprefix("v"),
    source="All tests of the module, told that it is Kafka 2.8.1: those of transactions switch "
    "themselves off from 3.0 on.",
    cluster="One broker with `--as-version 2.8`; where a real Kafka was asked, it is the newest "
    "all the same.",
    ask=_kafka_go,
    reasons=_REASONS,
)
