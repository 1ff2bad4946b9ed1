"""Tests of franz-go: its client's integration tests."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.peers.go_tests import compile_tests, names_with, required_module, run_tests
from tests.peers.suite import PeerOutcome, PeerTarget, Suite
from tests.support.apache_kafka import ApacheKafka
from tests.support.txnsim_server import TxnsimServer

MODULE: Final = required_module("github.com/twmb/franz-go")

_RECORDS: Final = "20000"
"""Records through each of the long chains of consumers and producers. The default is 500,000."""

_MARKS: Final = (
    "adm()",
    "getSeedBrokers(",
    "newTestClient(",
    "newTestConsumer(",
    "scramSeeds",
    "tmpTopic",
)
"""Marks in the text of tests that talk to a broker."""


def _franz_go(target: PeerTarget, test_names: Sequence[str]) -> Iterator[PeerOutcome]:
    package_folder = MODULE.directory() / "pkg" / "kgo"
    binary_file = compile_tests(f"kgo-{MODULE.version}", "./pkg/kgo", directory=MODULE.directory())
    chosen_tests = test_names or names_with(package_folder, "*_test.go", marks=_MARKS)
    with _three_brokers(target) as environment:
        environment |= {"KGO_TEST_RECORDS": _RECORDS, "KGO_LOG_LEVEL": "none"}
        # The next transaction begins while the markers of the last one are on their way.
        environment |= {"KGO_TEST_UNSAFE": "1"}
        yield from run_tests(
            binary_file, chosen_tests, directory=package_folder, environment=environment, minutes=20
        )


@contextlib.contextmanager
def _three_brokers(target: PeerTarget) -> Iterator[dict[str, str]]:
    """The environment for franz-go's tests with a cluster's addresses, including a cluster that
    requires SCRAM.
    """
    environment = {**os.environ, "KGO_TEST_RF": "3"}
    if target is PeerTarget.APACHE:
        with ApacheKafka(brokers=3, jvm_options=("-Xmx512m",)) as kafka:
            yield environment | {"KGO_SEEDS": kafka.bootstrap}
        return
    with TxnsimServer() as server, TxnsimServer(arguments=("--security", "demo")) as secured_server:
        scram = secured_server.ready["security"]["bootstrap"]["SASL_PLAINTEXT"]
        yield environment | {
            "KGO_SEEDS": server.bootstrap,
            "KGO_TEST_SCRAM_SEEDS": scram,
            "KGO_TEST_SCRAM": "scram-user:scram-user-secret:512",
        }


_REASONS: Final[Mapping[str, str]] = {
    "TestIssueProduceBrokerTooOldFailsRecords": "It is about brokers before Kafka 0.10, and skips "
    "itself.",
}

SUITE: Final = Suite(
    name="franz-go",
    project="franz-go",
    version=MODULE.version.removeprefix("v"),
    source="The module's `pkg/kgo`, all tests that talk to a broker; "
    f"{_RECORDS} records through each chain.",
    cluster="Three brokers, plain; for SCRAM a second cluster with `--security demo`.",
    ask=_franz_go,
    reasons=_REASONS,
)
