"""Suites of Apache Kafka itself: the integration tests that it publishes as jars.

Their test kit starts brokers inside the JVM; in front of one of its classes stands one of ours,
which starts txnsim (``java_sources``). Against a real Kafka the kit is as it is. The integration
tests of Streams and Connect start clusters of server objects by themselves and are not asked.
Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.peers.java_reasons import GROUPS_REASONS, TRANSACTIONS_REASONS
from tests.peers.suite import Outcome, PeerError, Result, Suite, Target
from tests.support.apache_kafka import (
    CACHE,
    TOOLS_VERSION,
    copied_by_maven,
    java_classes,
    java_command,
    made_once,
)
from tests.support.txnsim_server import installed_txnsim

_SOURCES: Final = Path(__file__).with_name("java_sources")
_PEERS: Final = CACHE / "peers"

_CLIENTS: Final = "org.apache.kafka.clients"
_TRANSACTION_CLASSES: Final = (
    "kafka.api.TransactionsBounceTest",
    "kafka.api.TransactionsTest",
    "kafka.server.TxnOffsetCommitRequestTest",
    "kafka.server.WriteTxnMarkersRequestTest",
    f"{_CLIENTS}.TransactionsExpirationTest",
    f"{_CLIENTS}.TransactionsWithMaxInFlightOneTest",
    f"{_CLIENTS}.admin.AdminFenceProducersTest",
    f"{_CLIENTS}.admin.DescribeProducersWithBrokerIdTest",
    f"{_CLIENTS}.producer.ProducerIdExpirationTest",
    f"{_CLIENTS}.producer.ProducerIntegrationTest",
)
_GROUP_CLASSES: Final = tuple(
    f"kafka.server.{api}RequestTest"
    for api in (
        *("DeleteGroups", "DescribeGroups", "Heartbeat", "JoinGroup", "LeaveGroup", "ListGroups"),
        *("OffsetCommit", "OffsetDelete", "SyncGroup"),
    )
)
_MARK: Final = "@\t"
_TAIL_MAX: Final = 2000
_TOLD_MAX: Final = 300


def _ask(classes: Sequence[str], target: Target, names: Sequence[str]) -> Iterator[Outcome]:
    """Run them one after the other in one JVM."""
    ours, kafka = str(_classes()), f"{_libs()}/*"
    # What comes first wins: our brokers in the place of the kit's, or the kit's.
    places = (ours, kafka) if target is Target.TXNSIM else (kafka, ours)
    java, *_ = java_command(_libs())
    command = [
        *(java, "-XX:TieredStopAtLevel=1", "-Xmx1g"),
        "-Dhttp.keepAlive=false",  # a thread that would be taken for a leak
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
        f"-Dtxnsim.command={installed_txnsim()}",
        *("-cp", os.pathsep.join(places), "txnsim.peers.RunTests"),
        *(",".join(_classes_of(names, classes)), *names),
    ]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    tail, told = "", 0
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            if line.startswith(_MARK):
                told += 1
                _, result, test, said = line.rstrip("\n").split("\t")
                yield Outcome(test, Result(result), said[:_TOLD_MAX])
            else:
                tail = (tail + line)[-_TAIL_MAX:]
    if process.returncode != 0 or not told:
        raise PeerError(f"Java ended with {process.returncode}:\n{tail}")


def _classes_of(names: Sequence[str], classes: Sequence[str]) -> list[str]:
    """Those of the tests of these names; all if there are no names."""
    wanted = {name.partition(".")[0] for name in names}
    return [each for each in classes if not wanted or each.rpartition(".")[2] in wanted]


def _libs() -> Path:
    """Kafka's jars and its jars of tests, copied by Maven on first use."""
    pom = _SOURCES / "pom.xml"
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    libs = _PEERS / f"kafka-tests-{TOOLS_VERSION}-{digest}"
    version = f"-Dkafka.version={TOOLS_VERSION}"
    return made_once(
        libs,
        lambda fresh: copied_by_maven(pom, fresh, version, what="Apache Kafka's jars of tests"),
        lock=_PEERS / "kafka-tests.lock",
    )


def _classes() -> Path:
    """What we put beside and in front of them, compiled on first use."""
    libs, sources = _libs(), sorted(_SOURCES.rglob("*.java"))
    return java_classes(sources, name=libs.name, libs=libs, error=PeerError)


def _suite(name: str, project: str, classes: Sequence[str], reasons: Mapping[str, str]) -> Suite:
    listed = ", ".join(f"`{each.rpartition('.')[2]}`" for each in classes)
    return Suite(
        name=name,
        project=project,
        version=TOOLS_VERSION,
        source="From Kafka's jars of tests (`kafka_2.13`, `kafka-clients-integration-tests`): "
        f"{listed}.",
        cluster="A cluster of its own for each test, with the settings that the test names. "
        "Kafka's test kit starts txnsim in the place of brokers in its JVM; on a real Kafka it is "
        "as it comes.",
        ask=partial(_ask, classes),
        reasons=reasons,
    )


SUITES: Final[tuple[Suite, ...]] = (
    _suite(
        "kafka-transactions",
        "Apache Kafka, transactions",
        _TRANSACTION_CLASSES,
        TRANSACTIONS_REASONS,
    ),
    _suite("kafka-groups", "Apache Kafka, requests of groups", _GROUP_CLASSES, GROUPS_REASONS),
)
