"""A real cluster of two brokers that run two releases, and the simulator that plays it.

::

    python -m tests.real.two_releases 3.5.2+3.6.2 3.9.2+4.4.0 --keep
    python -m tests.real.two_releases 3.6.2+4.4.0

Broker 1, which is the controller too, runs the first release, broker 2 the second one. A client
plays a transaction for each pair of leader and coordinator, and sends a record of a transaction
that its partition was never added to. Then each broker follows the other one. What clients were
answered and in which versions brokers asked each other, by the brokers' own request logs, is kept
in ``two_releases.jsonl``. It needs Java 17 and Maven.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.support.apache_kafka import ApacheKafka
from tests.support.hanging_transaction import produce_without_adding
from tests.support.zookeeper_kafka import ZookeeperKafka
from txnsim.client import requests
from txnsim.client.admin import TOPIC_RESOURCE, Admin
from txnsim.client.backoff import pause
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.client.requests import NewTopic
from txnsim.client.txn_requests import TxnRequests
from txnsim.client.versions import VersionRange
from txnsim.errors import ErrorCode
from txnsim.runtime import real_world
from txnsim.types import BrokerId, TopicPartition
from txnsim.wire.batch import Record, build_batch

RECORDED: Final = Path(__file__).with_name("two_releases.jsonl")
KEPT: Final = (
    *("2.8.2+3.6.2", "3.6.2+2.8.2", "3.5.2+3.6.2", "3.9.2+4.4.0", "4.4.0+3.9.2"),
    *("3.6.2+3.9.2", "3.9.2+3.6.2", "3.6.2+4.4.0", "4.4.0+3.6.2"),
    *("4.2.0+4.1.2", "4.0.2+4.1.2", "4.1.2+4.2.2", "4.2.2+4.1.2", "4.3.1+4.4.0", "4.4.0+4.4.0"),
)
SETTINGS: Final = ClientSettings(
    retry_backoff_ms=5, retry_backoff_max_ms=100, api_timeout_ms=30_000
)
PROPERTIES: Final = {
    **{f"{name}.replication.factor": "1" for name in ("offsets.topic", "transaction.state.log")},
    "transaction.state.log.min.isr": "1",
    "auto.leader.rebalance.enable": "false",
}
"""Settings under which each internal partition is on one broker, so that an id's coordinator does
not change.
"""
BROKERS: Final = (BrokerId(1), BrokerId(2))
PRODUCE: Final = 9
"""A version of Produce that every release knows."""
_PASSING: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.concurrent_transactions,
    }
)
"""Errors of a broker that has not heard of a topic yet, or still ends the transaction before."""
_STEADY: Final = 3
"""A retriable error that comes this many times in a row is the producer's result."""

_LOG: Final = "org.slf4j.simpleLogger.log.kafka.request.logger"
_JVM_OPTIONS: Final = ("-Xmx512m", "-XX:TieredStopAtLevel=1", f"-D{_LOG}=debug")
_REQUEST: Final = re.compile(r"Completed request:\s*(\{.*\})")
_SENDER: Final = re.compile(
    r"(?:broker-)?(\d+)(?:-txn-marker-sender|-fetcher-\d+)?|AddPartitionsManager-client-(\d+)"
)
"""Client ids of brokers in requests to one another or to the controller."""
_BETWEEN_BROKERS: Final = {
    1: "Fetch",
    24: "AddPartitionsToTxn",
    27: "WriteTxnMarkers",
    56: "AlterPartition",
    62: "BrokerRegistration",
    63: "BrokerHeartbeat",
    67: "AllocateProducerIds",
}

ReleaseAnswers = dict[str, Any]


async def story(cluster: Cluster) -> ReleaseAnswers:
    """The answers to a client's requests, by the name of the request."""
    answers: ReleaseAnswers = {}
    admin = Admin(cluster)
    ids_by_broker_id = await _ids_by_coordinator(cluster)
    for leader in BROKERS:
        for coordinator in BROKERS:
            cell_text = f"leader {leader}, coordinator {coordinator}"
            topic = f"led-by-{leader}-for-{coordinator}"
            topic_partitions = [TopicPartition(f"{topic}-{kind}", 0) for kind in ("added", "ghost")]
            new_topics = [
                NewTopic(name=topic_partition.topic, assignments=((leader,),))
                for topic_partition in topic_partitions
            ]
            await admin.create_topics(new_topics)
            for new_topic in new_topics:
                await admin.wait_for_topic(new_topic.name)
            name, ghost = ids_by_broker_id[coordinator]
            answers[f"{cell_text}: a transaction"] = await _transaction(
                cluster, topic_partitions[0], name
            )
            error, _ = await produce_without_adding(
                admin, topic_partitions[1], ghost, age_ms=0, version=PRODUCE
            )
            answers[f"{cell_text}: a record without its transaction"] = error.name
    await _follow_each_other(cluster, admin)
    for broker in BROKERS:
        answers[f"broker {broker} lists"] = await _list_versions(cluster, broker)
        answers[f"broker {broker} has finalized"] = dict(
            sorted((await cluster.connection(broker)).features.levels)
        )
    return answers


async def _list_versions(cluster: Cluster, broker: BrokerId) -> Mapping[str, Sequence[int]]:
    """The API versions of a broker once it has reached the controller for a client. Before that it
    does not know the controller's versions.
    """
    config = requests.ConfigChange(
        resource_type=TOPIC_RESOURCE,
        resource_name=f"copied-from-{broker}",
        name="retention.ms",
        value="-1",
    )
    await cluster.ask(broker, requests.incremental_alter_configs((config,), validate_only=True))
    await cluster.disconnect()
    versions = (await cluster.connection(broker)).versions
    return {
        str(int(key)): [version_range.lowest, version_range.highest]
        for key, version_range in sorted(versions.items())
    }


async def _ids_by_coordinator(cluster: Cluster) -> Mapping[BrokerId, Sequence[str]]:
    """Two transactional ids that each broker coordinates."""
    ids_by_broker_id: dict[BrokerId, list[str]] = {broker: [] for broker in BROKERS}
    id_number = 0
    while any(len(names) < 2 for names in ids_by_broker_id.values()):
        name = f"id-{id_number}"
        ids_by_broker_id[BrokerId(await cluster.coordinator(name))].append(name)
        id_number += 1
    return {broker: names[:2] for broker, names in ids_by_broker_id.items()}


async def _transaction(
    cluster: Cluster, topic_partition: TopicPartition, transactional_id: str
) -> list[str]:
    """Write a record in a transaction, commit, and begin the next session, which waits for the
    markers.
    """
    async with Producer(cluster, transactional_id=transactional_id) as producer:
        producer_identity = await producer.init_transactions()
    identity_fields = {
        "producer_id": producer_identity.producer_id,
        "producer_epoch": producer_identity.producer_epoch,
    }
    add_request = TxnRequests(transactional_id, **identity_fields).add_partitions(
        partitions=(topic_partition,)
    )
    answered_error = await _ask_until_settled(cluster, transactional_id, add_request, _added_error)
    batch = build_batch(
        [Record(value=b"in it")],
        timestamp_ms=cluster.clock.now_ms(),
        base_sequence=0,
        is_transactional=True,
        producer_id=producer_identity.producer_id,
        producer_epoch=producer_identity.producer_epoch,
    )
    version_range = VersionRange(PRODUCE, PRODUCE)
    produce_request = requests.produce(
        {topic_partition: batch},
        id_by_topic={},
        transactional_id=transactional_id,
        accepted_versions=version_range,
    )
    produce_error, times = (
        await _produce_until_settled(cluster, topic_partition, produce_request),
        1,
    )
    while produce_error is ErrorCode.network_exception and times < _STEADY:
        produce_error, times = (
            await _produce_until_settled(cluster, topic_partition, produce_request),
            times + 1,
        )
    end_request = TxnRequests(transactional_id, **identity_fields).end(
        committed=True, accepted_versions=VersionRange(0, 4)
    )
    end_error = await _ask_until_settled(
        cluster, transactional_id, end_request, lambda reply: ErrorCode(reply.error_code)
    )
    outcome = "completed"
    async with Producer(cluster, transactional_id=transactional_id) as producer:
        try:
            await producer.init_transactions()
        except ClientError:
            outcome = "not completed"  # its markers do not arrive
    return [
        f"added: {answered_error.name}",
        f"produced: {produce_error.name}",
        f"ended: {end_error.name}",
        outcome,
    ]


def _added_error(answer: Any) -> ErrorCode:
    (topic,) = answer.results_by_topic_v3_and_below
    (result,) = topic.results_by_partition
    return ErrorCode(result.partition_error_code)


async def _ask_until_settled(cluster: Cluster, name: str, request: Any, error_of: Any) -> ErrorCode:
    """Repeat a request until the coordinator's answer is no passing error."""
    while True:
        answer = await cluster.ask(await cluster.coordinator(name), request)
        error: ErrorCode = error_of(answer)
        if error not in _PASSING:
            return error
        await pause(cluster.clock, 20)


async def _produce_until_settled(
    cluster: Cluster, topic_partition: TopicPartition, request: Any
) -> ErrorCode:
    while True:
        leader = await cluster.leader(topic_partition)
        answer = await cluster.ask(leader.leader_id, request)
        error = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if error not in _PASSING:
            return error
        await pause(cluster.clock, 20)


async def _follow_each_other(cluster: Cluster, admin: Admin) -> None:
    """Give each broker a replica of the other's partition, and wait until it is in the ISR."""
    leader_by_partition = {TopicPartition(f"copied-from-{broker}", 0): broker for broker in BROKERS}
    await admin.create_topics(
        [
            NewTopic(name=topic_partition.topic, assignments=((leader,),))
            for topic_partition, leader in leader_by_partition.items()
        ]
    )
    for topic_partition in leader_by_partition:
        await admin.wait_for_topic(topic_partition.topic)
    replicas_by_partition = {
        topic_partition: (
            leader,
            *(follower_id for follower_id in BROKERS if follower_id != leader),
        )
        for topic_partition, leader in leader_by_partition.items()
    }
    change_request = requests.alter_partition_reassignments(
        replicas_by_partition, timeout_ms=30_000
    )
    answer = await cluster.ask_any(change_request)
    assert answer.error_code == 0, answer
    for topic_partition in leader_by_partition:
        while len((await admin.describe_partition(topic_partition)).isr) < len(BROKERS):
            await pause(cluster.clock, 20)
    async with Producer(cluster) as producer:  # a Fetch that waits is logged when it is answered
        for topic_partition in leader_by_partition:
            await producer.send(topic_partition.topic, topic_partition.partition, b"copied")


# The real cluster


def play(pair_text: str) -> ReleaseAnswers:
    """Play a pair of releases on a real cluster, and return the answers to keep.

    Args:
        pair: ``3.9.2+4.4.0``: the release of broker 1, and that of broker 2.
    """
    with _cluster(*pair_text.split("+")) as (bootstrap, logs):
        answers = real_world.run(_play_story(bootstrap))
        versions_by_api: dict[str, set[str]] = {}
        for node_id, log in enumerate(logs, start=1):
            for name, line in requests_between_brokers(
                node_id, log.read_text(errors="replace").splitlines()
            ):
                versions_by_api.setdefault(name, set()).add(line)
    return {
        "releases": pair_text,
        "answers": answers,
        "asked": {name: sorted(versions) for name, versions in sorted(versions_by_api.items())},
    }


@contextlib.contextmanager
def _cluster(first_release: str, second_release: str) -> Iterator[tuple[str, Sequence[Path]]]:
    """Start two brokers of different releases; their address and their log directories."""
    options: dict[str, Any] = {"properties": PROPERTIES, "jvm_options": _JVM_OPTIONS}
    if min(first_release, second_release) < "3":
        with ZookeeperKafka(first_release, second_release, **options) as zookeeper_kafka:
            yield zookeeper_kafka.bootstrap, zookeeper_kafka.logs
        return
    with ApacheKafka(
        brokers=2, version=first_release, other_releases={2: second_release}, **options
    ) as kafka:
        yield kafka.bootstrap, [home / "broker.log" for home in kafka.homes]


async def _play_story(bootstrap: str) -> ReleaseAnswers:
    async with Cluster(bootstrap, settings=SETTINGS) as cluster:
        return await story(cluster)


def requests_between_brokers(node_id: int, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What brokers have asked of a node: (API, ``1 -> 2: v17``)."""
    for line in lines:
        match = _REQUEST.search(line)
        if match is None:
            continue
        request = json.loads(match[1])
        header = request["requestHeader"]
        name = _BETWEEN_BROKERS.get(header["requestApiKey"])
        sender = _SENDER.fullmatch(header["clientId"] or "")
        if name is not None and sender is not None:
            source = sender[1] or sender[2]
            yield name, f"{source} -> {node_id}: v{header['requestApiVersion']}"


def recorded_pairs() -> dict[str, ReleaseAnswers]:
    rows = map(json.loads, RECORDED.read_text("utf-8").splitlines())
    return {row["releases"]: row for row in rows}


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the story on each pair of releases."""
    parser = argparse.ArgumentParser(prog="python -m tests.real.two_releases", description=__doc__)
    parser.add_argument("pairs", nargs="*", default=KEPT, metavar="A.B.C+D.E.F")
    parser.add_argument("--keep", action="store_true", help="what is told is the recording")
    options = parser.parse_args(arguments)
    rows = recorded_pairs() if RECORDED.exists() else {}
    for pair in options.pairs:
        row = play(pair)
        sys.stdout.write(f"{json.dumps(row, indent=1)}\n")
        rows[pair] = row
    if options.keep:
        text = "".join(f"{json.dumps(rows[pair])}\n" for pair in sorted(rows))
        RECORDED.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
