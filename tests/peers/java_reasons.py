"""Why tests of Apache Kafka do not pass against us, or are skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_INSIDE: Final = "It reaches for objects inside a broker, past the wire."

TRANSACTIONS_REASONS: Final[Mapping[str, str]] = {
    "ProducerIdExpirationTest.testDynamicProducerIdExpirationMs": _INSIDE,
    "ProducerIntegrationTest.testUniqueProducerIds": "It asks for a cluster whose metadata.version "
    "is 3.3; txnsim's brokers are of a release as a whole, and there is none of that one.",
    "TransactionsTest.testRecoveryFromEpochOverflow": _INSIDE,
}

GROUPS_REASONS: Final[Mapping[str, str]] = {
    "ListGroupsRequestTest.testListGroupsWithNewConsumerGroupProtocol": "The groups are those that "
    "it expects, in another order: a real Kafka lists them as they lie in a hash table.",
}

STREAMS_REASONS: Final[Mapping[str, str]] = {
    "RebalanceProtocolMigrationIntegrationTest.*": "It moves an application to groups of Kafka "
    "Streams' own (KIP-1071) and back; txnsim has none.",
}
