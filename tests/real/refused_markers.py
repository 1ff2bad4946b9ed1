"""A marker that is refused for good, and the transactions behind it in its request: on a real Kafka
and on the simulator.

::

    python -m tests.real.refused_markers 3.9.2 4.4.0

A topic takes no marker: its ``max.message.bytes`` is 1. Twelve producers commit while the leader of
their partitions stands still, one of them in that topic. So their markers come in one request. The
coordinator reads the answer up to the refused marker. Whatever is behind it stays prepared, whose
ever it is, though the leader has written it (TransactionMarkerRequestCompletionHandler throws).
It needs Java 17 and Maven.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from tests.real.two_releases import PROPERTIES, SETTINGS
from tests.support.apache_kafka import ApacheKafka
from txnsim.client.admin import Admin
from txnsim.client.backoff import pause
from txnsim.client.cluster import Cluster
from txnsim.client.errors import ClientError
from txnsim.client.producer import Producer
from txnsim.client.requests import NewTopic
from txnsim.client.txn_requests import TxnRequests
from txnsim.client.versions import VersionRange
from txnsim.errors import ErrorCode
from txnsim.runtime import real_world
from txnsim.types import BrokerId, ProducerIdAndEpoch, TopicPartition

COORDINATOR, LEADER = BrokerId(1), BrokerId(2)
PRODUCERS: Final = 12
CULPRIT: Final = 4
"""The producer with a partition that accepts no marker."""
SOUND, REFUSING = TopicPartition("sound", 0), TopicPartition("refusing", 0)
WRITE_TXN_MARKERS: Final = 27
TIMEOUT_MS: Final = 3_000
"""request.timeout.ms: after this time markers that were sent one by one are sent again in one
request.
"""
_SETTLED_MS: Final = 5_000
_REQUEST: Final = re.compile(r"Completed request:\s*(\{.*\})")
_JVM_OPTIONS: Final = (
    *("-Xmx512m", "-XX:TieredStopAtLevel=1"),
    "-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug",
)


class MarkerOutcome(msgspec.Struct, frozen=True):
    """The producers that stay prepared, and the producer whose marker is refused."""

    prepared: frozenset[int]
    culprit: int
    names: tuple[str, ...]
    """All transactional ids."""


async def story(
    cluster: Cluster,
    *,
    stand_still: Callable[[], Awaitable[None]],
    go_on: Callable[[], Awaitable[None]],
) -> MarkerOutcome:
    """Let all producers commit.

    Args:
        cluster: Client of a cluster of two brokers.
        stand_still: From here on the leader takes no marker.
        go_on: It does again; markers that were not answered come once more, in one request.
    """
    admin = Admin(cluster)
    tiny = (("max.message.bytes", "1"),)
    await admin.create_topics(
        [
            NewTopic(name=SOUND.topic, assignments=((LEADER,),)),
            NewTopic(name=REFUSING.topic, assignments=((LEADER,),), configs=tiny),
        ]
    )
    for topic_partition in (SOUND, REFUSING):
        await admin.wait_for_topic(topic_partition.topic)
    identities = await _producers(cluster)
    transactional_ids = list(identities)
    for number, transactional_id in enumerate(transactional_ids):
        await _add(
            cluster,
            transactional_id,
            identities[transactional_id],
            REFUSING if number == CULPRIT else SOUND,
        )
    await stand_still()
    await asyncio.gather(
        *(
            _end_transaction(cluster, transactional_id, identities[transactional_id])
            for transactional_id in transactional_ids
        )
    )
    await go_on()
    prepared_before: frozenset[int] = frozenset()
    while True:
        await pause(cluster.clock, _SETTLED_MS)
        descriptions = await admin.describe_transactions(transactional_ids)
        prepared_ids = frozenset(
            identities[description_name].producer_id
            for description_name, description in descriptions.items()
            if not isinstance(description, ClientError) and description.state == "PrepareCommit"
        )
        if prepared_ids == prepared_before:
            culprit_id = identities[transactional_ids[CULPRIT]].producer_id
            return MarkerOutcome(
                prepared=prepared_ids, culprit=culprit_id, names=tuple(transactional_ids)
            )
        prepared_before = prepared_ids


async def _producers(cluster: Cluster) -> dict[str, ProducerIdAndEpoch]:
    """Return producers whose transactional ids one broker coordinates."""
    identities: dict[str, ProducerIdAndEpoch] = {}
    id_number = 0
    while len(identities) < PRODUCERS:
        transactional_id = f"id-{id_number}"
        id_number += 1
        if await cluster.coordinator(transactional_id) == COORDINATOR:
            async with Producer(cluster, transactional_id=transactional_id) as producer:
                identities[transactional_id] = await producer.init_transactions()
    return identities


async def _add(
    cluster: Cluster,
    transactional_id: str,
    producer_identity: ProducerIdAndEpoch,
    topic_partition: TopicPartition,
) -> None:
    request = TxnRequests(
        transactional_id,
        producer_id=producer_identity.producer_id,
        producer_epoch=producer_identity.producer_epoch,
    ).add_partitions(partitions=(topic_partition,))
    while True:
        (topic,) = (await cluster.ask(COORDINATOR, request)).results_by_topic_v3_and_below
        error = ErrorCode(topic.results_by_partition[0].partition_error_code)
        if error is ErrorCode.none:
            return
        assert error is ErrorCode.unknown_topic_or_partition, error  # it has not heard of it yet
        await pause(cluster.clock, 20)


async def _end_transaction(
    cluster: Cluster, transactional_id: str, producer_identity: ProducerIdAndEpoch
) -> None:
    request = TxnRequests(
        transactional_id,
        producer_id=producer_identity.producer_id,
        producer_epoch=producer_identity.producer_epoch,
    ).end(committed=True, accepted_versions=VersionRange(0, 4))
    answer = await cluster.ask(COORDINATOR, request)
    assert answer.error_code == ErrorCode.none


# The real cluster


def play(version: str) -> tuple[MarkerOutcome, list[list[int]]]:
    """The results on real brokers, and for each request with markers to the leader its producer ids
    in order.
    """
    properties = {
        **PROPERTIES,
        "request.timeout.ms": str(TIMEOUT_MS),
        "broker.session.timeout.ms": "60000",
    }
    with ApacheKafka(
        brokers=2, version=version, properties=properties, jvm_options=_JVM_OPTIONS
    ) as kafka:
        broker_pid = kafka.pids[LEADER - 1]

        async def play_story() -> MarkerOutcome:
            async def stand_still() -> None:
                os.kill(broker_pid, signal.SIGSTOP)

            async def go_on() -> None:
                # Until then the coordinator gives up its requests.
                await asyncio.sleep(1.5 * TIMEOUT_MS / 1_000)
                os.kill(broker_pid, signal.SIGCONT)

            async with Cluster(kafka.bootstrap, settings=SETTINGS) as cluster:
                return await story(cluster, stand_still=stand_still, go_on=go_on)

        try:
            outcome = real_world.run(play_story())
        finally:
            os.kill(broker_pid, signal.SIGCONT)
        log = (kafka.homes[LEADER - 1] / "broker.log").read_text(errors="replace")
        return outcome, list(_marker_requests(log.splitlines()))


def _marker_requests(lines: Sequence[str]) -> Iterator[list[int]]:
    for line in lines:
        match = _REQUEST.search(line)
        request: Any = json.loads(match[1]) if match else None
        if request and request["requestHeader"]["requestApiKey"] == WRITE_TXN_MARKERS:
            yield [marker["producerId"] for marker in request["request"]["markers"]]


def stuck_producers(outcome: MarkerOutcome, requests: Sequence[Sequence[int]]) -> frozenset[int]:
    """The producers that stay prepared: the culprit and all behind it in the largest request."""
    largest = max(requests, key=len)
    return frozenset(largest[largest.index(outcome.culprit) :])


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the story on each release that is named, and print the results."""
    failed_count = 0
    for version in arguments or sys.argv[1:]:
        outcome, sent_markers = play(version)
        expected = stuck_producers(outcome, sent_markers)
        failed_count += outcome.prepared != expected
        sys.stdout.write(
            f"{version}: producers {sorted(outcome.prepared)} stay prepared; the marker of "
            f"{outcome.culprit} was refused; the request: {max(sent_markers, key=len)}\n"
        )
    return 1 if failed_count else 0


if __name__ == "__main__":
    sys.exit(main())
