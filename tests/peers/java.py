"""Suites of Apache Kafka itself: the integration tests that it publishes as jars.

Their test kit starts brokers inside the JVM; in front of some of its classes stand ours, which
start txnsim (``java_sources``). Against a real Kafka the kit is as it is.
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

from tests.peers.suite import NO_REASONS, PeerError, PeerOutcome, PeerResult, PeerTarget, Suite
from tests.support.apache_kafka import (
    CACHE,
    KAFKA_VERSION,
    copy_by_maven,
    java_classes,
    java_command,
    kafka_libs,
    make_once,
)
from tests.support.txnsim_server import installed_txnsim

_INSIDE: Final = "It reaches for objects inside a broker, past the wire."

TRANSACTIONS_REASONS: Final[Mapping[str, str]] = {
    "ProducerIdExpirationTest.testDynamicProducerIdExpirationMs": _INSIDE,
    "ProducerIntegrationTest.testUniqueProducerIds": "It asks for a cluster whose metadata.version "
    "is 3.3; txnsim's brokers are of a release as a whole, and there is none of that one.",
    "TransactionsTest.testRecoveryFromEpochOverflow": _INSIDE,
}

_FEATURE: Final = (
    "It wants brokers whose `streams.version` is 0, which txnsim has in releases before 4.2."
)
GROUPS_REASONS: Final[Mapping[str, str]] = {
    "StreamsGroupDescribeRequestTest.testStreamsGroupDescribeWhenFeatureFlagNotEnabled": _FEATURE,
    "StreamsGroupHeartbeatRequestTest."
    "testStreamsGroupHeartbeatIsInaccessibleWhenDisabledByFeatureConfig": _FEATURE,
    "StreamsGroupHeartbeatRequestTest.testFencedMemberCanRejoinWithEpochZero": "It expects an "
    "answer of 4.3, without the recovery lag and the interval of task offsets; a real Kafka 4.4.0 "
    "sends both.",
    "StreamsGroupHeartbeatRequestTest."
    "testStreamsGroupHeartbeatIsInaccessibleWhenDisabledByStaticGroupCoordinatorProtocolConfig": (
        "It turns streams groups off by `group.coordinator.rebalance.protocols`, a setting that "
        "txnsim lacks."
    ),
    "ListGroupsRequestTest.testListGroupsWithNewConsumerGroupProtocol": "The groups are those that "
    "it expects, in another order: a real Kafka lists them as they lie in a hash table.",
}


STREAMS_REASONS: Final[Mapping[str, str]] = {
    "RestoreIntegrationTest.shouldRecycleStateFromStandbyTaskPromotedToActiveTaskAndNotRestore": (
        "It expects a store to be closed once more as a standby becomes active: Kafka 4.3.1 has "
        "the standby given up first. From 4.4 on a task changes its role in place (KAFKA-20665), "
        "as in txnsim unless it runs `--as-version 4.3`."
    ),
}

_VERSION: Final = "4.3.1"
"""The newest release with jars of tests: there were none of 4.4.0 and 4.2.2."""
_SOURCE_FOLDER: Final = Path(__file__).with_name("java_sources")
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
        *("OffsetCommit", "OffsetDelete", "StreamsGroupDescribe", "StreamsGroupHeartbeat"),
        "SyncGroup",
    )
)
_CONNECT: Final = "org.apache.kafka.connect"
_MIRROR: Final = f"{_CONNECT}.mirror.integration.MirrorConnectorsIntegration"
_MIRRORED: Final = (
    "testReplicateSourceDefault",
    "testReplication",
    "testReplicationWithEmptyPartition",
    "testReplicationWithoutOffsetSyncWillNotCreateOffsetSyncsTopic",
)
_STREAMS: Final = "org.apache.kafka.streams.integration"
_STREAMS_CLASSES: Final = tuple(
    f"{_STREAMS}.{name}"
    for name in (
        "AdjustStreamThreadCountTest",
        "AtLeastOnceDeliveryMessageLossIntegrationTest",
        "EOSUncleanShutdownIntegrationTest",
        "EosIntegrationTest",
        "GlobalKTableEOSIntegrationTest",
        "GlobalStateReprocessTest",
        "HandlingSourceTopicDeletionIntegrationTest",
        "IQv2EndpointToPartitionsIntegrationTest",
        "InternalTopicIntegrationTest",
        "JoinGracePeriodDurabilityIntegrationTest",
        "JoinWithIncompleteMetadataIntegrationTest",
        "KTableSourceTopicRestartIntegrationTest",
        "KafkaStreamsCloseOptionsIntegrationTest",
        "OuterJoinListValueStoreRestorationTest",
        "PauseResumeIntegrationTest",
        "PositionRestartIntegrationTest",
        "PurgeRepartitionTopicIntegrationTest",
        "RebalanceIntegrationTest",
        "RebalanceProtocolMigrationIntegrationTest",
        "RebalanceTaskClosureIntegrationTest",
        "RegexSourceIntegrationTest",
        "ResetPartitionTimeIntegrationTest",
        "RestoreIntegrationTest",
        "SmokeTestDriverIntegrationTest",
        "StandbyTaskCreationIntegrationTest",
        "StandbyTaskEOSIntegrationTest",
        "StandbyTaskEOSMultiRebalanceIntegrationTest",
        "StreamsUncaughtExceptionHandlerIntegrationTest",
        "SuppressionDurabilityIntegrationTest",
    )
)
_MARK: Final = "@\t"
_TAIL_MAX: Final = 2000
_TOLD_MAX: Final = 300


def _ask_classes(
    classes: Sequence[str],
    tests: Sequence[str],
    target: PeerTarget,
    test_names: Sequence[str],
    *,
    is_newest: bool = False,
) -> Iterator[PeerOutcome]:
    """Run tests one by one, each class in its own JVM, as some leave threads behind.

    Args:
        classes: Of the suite.
        tests: Of these classes, those that are meant; all if there are none.
        target: Whose brokers are asked.
        test_names: The tests that are wanted; all that are meant if there are none.
        is_newest: Whether libraries of the reference stand in front of those of the tests' release.
    """
    chosen_tests = test_names or tests
    failures = []
    for test_class in _classes_of(chosen_tests, classes):
        try:
            yield from _run_class(test_class, target, chosen_tests, is_newest=is_newest)
        except PeerError as failure:
            failures.append(f"{test_class}: {failure}")
    if failures:
        raise PeerError("\n".join(failures))


def _run_class(
    test_class: str, target: PeerTarget, test_names: Sequence[str], *, is_newest: bool
) -> Iterator[PeerOutcome]:
    ours, kafka = str(_classes()), f"{_libs()}/*"
    # What comes first wins: our brokers in the place of the kit's, or the kit's.
    class_path = [ours, kafka] if target is PeerTarget.TXNSIM else [kafka, ours]
    if is_newest:
        class_path = [*_newest(), *class_path]
    command = [
        *_java([*class_path, str(_SOURCE_FOLDER)]),
        "txnsim.peers.RunTests",
        test_class,
        *test_names,
    ]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    tail, outcome_count = "", 0
    assert process.stdout is not None
    with process:
        for printed_line in process.stdout:
            if printed_line.startswith(_MARK):
                outcome_count += 1
                _, result_text, test, message = printed_line.rstrip("\n").split("\t")
                yield PeerOutcome(test, PeerResult(result_text), message[:_TOLD_MAX])
            else:
                tail = (tail + printed_line)[-_TAIL_MAX:]
    if process.returncode != 0 or not outcome_count:
        raise PeerError(f"Java ended with {process.returncode}:\n{tail}")


def lasting_brokers(*options: str) -> list[str]:
    """Command line of a JVM that starts brokers as the kit does, prints their address, and lasts.

    Args:
        options: Of the JVM.

    Raises:
        PeerError: There is no JDK, or it failed.
    """
    return [*_java([str(_classes()), f"{_libs()}/*"], *options), "txnsim.peers.LastingBrokers"]


def _java(class_path: Sequence[str], *options: str) -> list[str]:
    java, *_ = java_command(_libs())
    return [
        *(java, "-XX:TieredStopAtLevel=1", "-Xmx1g"),
        "-Dhttp.keepAlive=false",  # a thread that would be taken for a leak
        f"-Dtxnsim.command={installed_txnsim()}",
        *(*options, "-cp", os.pathsep.join(class_path)),
    ]


def _classes_of(test_names: Sequence[str], classes: Sequence[str]) -> list[str]:
    """The classes of these tests; all classes if no names are given."""
    class_names = {name.partition(".")[0] for name in test_names}
    return [
        test_class
        for test_class in classes
        if not class_names or test_class.rpartition(".")[2] in class_names
    ]


def _newest() -> list[str]:
    """The part of the reference that an application would include.

    Classes that were moved in it, and that the tests name, are found behind.
    """
    names = ("kafka-clients", "kafka-streams")
    return [str(kafka_libs() / f"{name}-{KAFKA_VERSION}.jar") for name in names]


def _libs() -> Path:
    """Kafka's jars and its jars of tests, copied by Maven on first use."""
    pom_file = _SOURCE_FOLDER / "pom.xml"
    digest = hashlib.sha256(pom_file.read_bytes()).hexdigest()[:12]
    libs_directory = _PEERS / f"kafka-tests-{_VERSION}-{digest}"
    version = f"-Dkafka.version={_VERSION}"
    return make_once(
        libs_directory,
        lambda new_folder: copy_by_maven(
            pom_file, new_folder, version, description="Apache Kafka's jars of tests"
        ),
        lock_file=_PEERS / "kafka-tests.lock",
    )


def _classes() -> Path:
    """The folder of our classes, which precede the suite's classes; compiled on first use."""
    libs_directory, sources = _libs(), sorted(_SOURCE_FOLDER.rglob("*.java"))
    return java_classes(
        sources, name=libs_directory.name, libs_directory=libs_directory, error=PeerError
    )


_FROM_CLIENTS: Final = "`kafka_2.13`, `kafka-clients-integration-tests`"


def _suite(
    name: str,
    project: str,
    classes: Sequence[str],
    reasons: Mapping[str, str],
    *,
    jar_list: str = _FROM_CLIENTS,
    tests: Sequence[str] = (),
    besides: str = "",
    is_newest: bool = False,
) -> Suite:
    class_list = ", ".join(f"`{test_class.rpartition('.')[2]}`" for test_class in classes)
    return Suite(
        name=name,
        project=project,
        version=f"{KAFKA_VERSION}, tests of {_VERSION}" if is_newest else _VERSION,
        source=f"From Kafka's jars of tests ({jar_list}): {class_list}.{besides}",
        cluster="A cluster of its own for each test, with the settings that the test names. "
        "Kafka's test kit starts txnsim in the place of brokers in its JVM; on a real Kafka it is "
        "as it comes.",
        ask=partial(_ask_classes, classes, tests, is_newest=is_newest),
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
    _suite(
        "kafka-streams",
        "Kafka Streams",
        _STREAMS_CLASSES,
        STREAMS_REASONS,
        jar_list="`kafka-streams-integration-tests`",
    ),
    _suite(
        "kafka-streams-newest",
        "Kafka Streams, newest",
        _STREAMS_CLASSES,
        STREAMS_REASONS,
        jar_list="`kafka-streams-integration-tests`",
        besides=f" With kafka-streams and kafka-clients {KAFKA_VERSION}, whose own jar of tests "
        "could not be had.",
        is_newest=True,
    ),
    _suite(
        "kafka-connect",
        "Kafka Connect, exactly once",
        (f"{_CONNECT}.integration.ExactlyOnceSourceIntegrationTest",),
        NO_REASONS,
        jar_list="`connect-runtime`",
    ),
    _suite(
        "kafka-mirror",
        "MirrorMaker, exactly once",
        (f"{_MIRROR}ExactlyOnceTest",),
        NO_REASONS,
        jar_list="`connect-mirror`",
    ),
    _suite(
        "kafka-mirror-transactions",
        "MirrorMaker, transactions",
        (f"{_MIRROR}TransactionsTest",),
        NO_REASONS,
        jar_list="`connect-mirror`",
        tests=[f"MirrorConnectorsIntegrationTransactionsTest.{name}" for name in _MIRRORED],
        besides=" Four of its tests, which are those of exactly once again.",
    ),
)
