"""Tests of confluent-kafka-go: its integration tests, through librdkafka's C code.

The newest module whose zip still has them; later ones leave them out.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.peers.go_tests import Module, compile_tests, methods, names_with, run_tests
from tests.peers.suite import PeerOutcome, PeerTarget, Suite
from tests.support.apache_kafka import ApacheKafka
from tests.support.apache_listeners import plain_users
from tests.support.txnsim_server import TxnsimServer

MODULE: Final = Module("github.com/confluentinc/confluent-kafka-go/v2", "v2.14.1")

_USER: Final = "testuser"
_PASSWORD: Final = "testpass"
_SETTINGS: Final = {
    "allow.everyone.if.no.acl.found": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "connections.max.reauth.ms": "10000",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "4",
    "super.users": "User:admin",
}
"""As the server.properties beside the tests have them."""


def _confluent(target: PeerTarget, test_names: Sequence[str]) -> Iterator[PeerOutcome]:
    module_file = MODULE.directory()
    binary_file = compile_tests(
        f"confluent-kafka-go-{MODULE.version}", "./kafka", directory=module_file
    )
    chosen_tests = test_names or [
        *names_with(module_file / "kafka", "txn_integration_test.go"),
        *methods(
            module_file / "kafka",
            "integration_test.go",
            "IntegrationTestSuite",
            parent="TestIntegration",
        ),
    ]
    with tempfile.TemporaryDirectory(prefix="txnsim-peer-") as directory:
        work_folder = Path(directory)
        with _broker(target, work_folder) as (plain_address, sasl_address):
            _write_config(work_folder, plain_address, sasl_address)
            yield from run_tests(
                binary_file, chosen_tests, directory=work_folder, environment=os.environ, minutes=20
            )


@contextlib.contextmanager
def _broker(target: PeerTarget, work_folder: Path) -> Iterator[tuple[str, str]]:
    """Run a broker. Yields its plain address, and the address that requires a password."""
    listeners = plain_users({_USER: _PASSWORD})
    properties = {**_SETTINGS, **listeners.properties}
    if target is PeerTarget.APACHE:
        with ApacheKafka(
            properties=_SETTINGS, listeners=listeners, jvm_options=("-Xmx512m",)
        ) as kafka:
            yield kafka.bootstrap, kafka.bootstrap_at("SASL")
        return
    protocols = {"PLAINTEXT": "PLAINTEXT", **listeners.protocols}
    properties["listeners"] = ",".join(
        f"{protocol_name}://127.0.0.1:0" for protocol_name in protocols
    )
    properties["listener.security.protocol.map"] = ",".join(
        f"{protocol_name}:{protocol}" for protocol_name, protocol in protocols.items()
    )
    config = work_folder / "server.properties"
    config.write_text(
        "".join(
            f"{property_name}={property_value}\n"
            for property_name, property_value in properties.items()
        )
    )
    with TxnsimServer(brokers=1, arguments=("--config", str(config))) as server:
        yield server.bootstrap, server.ready["security"]["bootstrap"]["SASL"]


def _write_config(work_folder: Path, plain_address: str, sasl_address: str) -> None:
    """Write the tests' config into their working directory, where they look for it."""
    config = {
        "Brokers": plain_address,
        "BrokersSasl": sasl_address,
        "SaslUsername": _USER,
        "SaslPassword": _PASSWORD,
        "SaslMechanism": "PLAIN",
        "TopicName": "test",
        "GroupID": "testgroup",
        "PerfMsgCount": 1000,
        "PerfMsgSize": 100,
        "Config": ["api.version.request=true"],
    }
    (work_folder / "testconf.json").write_text(json.dumps(config))


_REASONS: Final[Mapping[str, str]] = {
    "TestTransactionalProducer": "Its `Flush(-1)` does not wait, so it passes only where "
    "SendOffsetsToTransaction takes longer than the batch: a real broker's markers are late enough "
    "to make it ask twice. With WriteTxnMarkers delayed by 20 ms (docs/faults.md) it passes here.",
}

SUITE: Final = Suite(
    name="confluent-kafka-go",
    project="confluent-kafka-go",
    version=MODULE.version.removeprefix("v"),
    source="The module's `kafka`, `txn_integration_test.go` and the suite of "
    "`integration_test.go`; the newest release whose module has them.",
    cluster="One broker with an authorizer and a second listener for SASL, as the properties "
    "beside the tests have them.",
    ask=_confluent,
    reasons=_REASONS,
)
