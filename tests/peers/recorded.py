"""Suites whose packages contain no tests. They were played from the sources of a tag, and the
results are kept.

They can't be asked from here. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from tests.peers.suite import PeerError, PeerOutcome, PeerTarget, Suite

_NOT_YET: Final = (
    "It asks for the metadata of a topic that this request creates; a broker does not know it yet."
)
_SYNC_AT_ONCE: Final = (
    "It joins with a rebalance timeout of 0: a broker removes it unless SyncGroup comes at once."
)
_GONE: Final = "It is about a version or a config that Kafka 4 does not have any more."
_EMPTY_TEXT: Final = (
    "It expects no text where a broker answers an empty one, as a real 4.4.0 does "
    "(`tests/conformance`); the real Kafka that was asked here had no authorizer."
)
_SKIPS_ITSELF: Final = "It is about brokers before Kafka 0.11, or switched off, and skips itself."
KAFKAJS_REASONS: Final[Mapping[str, str]] = {
    "admin/fetchTopicMetadata: creates a new topic if the topic does not exist and "
    '"allowAutoTopicCreation" is true': _NOT_YET,
    "broker/createAcls: request": _EMPTY_TEXT,
    "broker/describeAcls: request": _EMPTY_TEXT,
    "broker/describeConfigs: *": "It expects the configs and their sources of Kafka 2.4.",
    "broker/describeGroups: request": _NOT_YET,
    "broker/fetch: *": _SKIPS_ITSELF,
    "broker/heartbeat: request": _SYNC_AT_ONCE,
    "broker/listOffsets: request (2)": _GONE,
    "broker/listPartitionReassignments: request": "It looks while a reassignment goes on: of an "
    "empty topic it is over at once. (The real Kafka's brokers were numbered from 1: it named 0.)",
    "broker/offsetCommit: *": _SYNC_AT_ONCE,
    "broker/offsetFetch: request": f"{_SYNC_AT_ONCE} A race, which the real Kafka let it win here.",
    "broker/produce: request to a topic with max timestamp difference configured": _GONE,
    "broker/txnOffsetCommit: ignores invalid transaction fields": "It expects that brokers do not "
    "look at the producer; they ask the coordinator since KIP-890.",
    "cluster/brokerPool: *": _NOT_YET,
    "cluster/findGroupCoordinator: refresh *": "It counts how often the library looks for a "
    "coordinator, which a broker of today has not made at that moment.",
    "consumer/errorRecovery: recovers from offset out of range": _SYNC_AT_ONCE,
    "consumer/instrumentationEvents: emits request queue size events": _SKIPS_ITSELF,
    "consumer/rebalanceOnPartitionChange: *": "It runs a script of its authors' containers.",
    "network/connection: rejects the Promise in case of errors": "It looks for a host that does "
    "not exist; where it was played there was no name service at all.",
    "producer/index: emits the request timeout event": "It wants an answer that takes longer than "
    "1 ms.",
}


def _by_hand(project: str, _target: PeerTarget, _names: Sequence[str]) -> Iterable[PeerOutcome]:
    raise PeerError(f"{project}'s package holds no tests: its sources are needed")


RECORDED: Final[tuple[Suite, ...]] = (
    Suite(
        name="aiokafka",
        project="aiokafka",
        version="0.14.0",
        source="Its distribution holds no tests: `tests` of the sources at the tag v0.14.0, with "
        "the library from its package; the two files about transactions, and `test_admin`, "
        "`test_client`, `test_conn`, `test_consumer`, `test_coordinator`, `test_fetcher`, "
        "`test_pep492`, `test_producer`, `test_rack_awareness`, `test_sender`; without two tests "
        "that want the certificate of their authors' container. Played by hand in November 2026, "
        "and not by `tests.peers.run`.",
        cluster="One broker with the id 0, plain, two partitions per topic. A module `docker` that "
        "starts it is in the place of the one that starts a container.",
        ask=partial(_by_hand, "aiokafka"),
    ),
    Suite(
        name="kafkajs",
        project="kafkajs",
        version="2.2.4",
        source="Its package holds no tests: the 84 files of `src` at the tag v2.2.4 that use a "
        "broker. Played by hand in November 2026, and not by `tests.peers.run`.",
        cluster="Three brokers with the ids 0 to 2 at the ports that the tests know, with "
        "listeners for plain connections, TLS, and SASL over TLS, from a `server.properties`; the "
        "real Kafka, a 4.4.0, with plain listeners alone.",
        ask=partial(_by_hand, "kafkajs"),
        reasons=KAFKAJS_REASONS,
    ),
)
