"""Every metric once: name, kind, unit, labels, what it means, and Kafka's own name of it.

Values come as ``Reading``s from whoever can look at a cluster (``server.readings``); nothing here
does.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec


class Kind(Enum):
    """How a value moves."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader needs to know of one metric."""

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    meaning: str
    kafka: str | None = None
    """Kafka's JMX name where it has the same metric."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One value; ``labels`` in the order of the metric's."""

    metric: str
    labels: tuple[str, ...]
    value: float


LATE_TRANSACTIONS: Final = "txnsim_partitions_with_late_transactions"
LSO_LAG: Final = "txnsim_last_stable_offset_lag"
PRODUCER_IDS: Final = "txnsim_producer_ids"
TRANSACTIONS: Final = "txnsim_transactions"
MARKERS_PENDING: Final = "txnsim_markers_pending"
MARKERS_UNKNOWN: Final = "txnsim_markers_unknown_destination"
COMPLETIONS_WAITING: Final = "txnsim_log_append_retry_queue"
MARKERS_SENT: Final = "txnsim_markers_sent"
TIMEOUTS: Final = "txnsim_transaction_timeouts"
VERIFIED: Final = "txnsim_partitions_verified"
UNVERIFIED: Final = "txnsim_partition_verification_failures"
VERIFICATIONS: Final = "txnsim_verifications"
VERIFICATION_MS: Final = "txnsim_verification_milliseconds"
CONNECTIONS: Final = "txnsim_connections"
FAULTS_STRUCK: Final = "txnsim_faults_struck"

METRICS: Final = (
    Metric(
        name=LATE_TRANSACTIONS,
        kind=Kind.GAUGE,
        unit="partitions",
        labels=("broker",),
        meaning=(
            "led partitions whose oldest open transaction was last written to more than "
            "transaction.max.timeout.ms and five minutes ago (KIP-664)"
        ),
        kafka="kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount",
    ),
    Metric(
        name=LSO_LAG,
        kind=Kind.GAUGE,
        unit="offsets",
        labels=("topic", "partition"),
        meaning="high watermark minus last stable offset, of partitions where they differ",
        kafka="kafka.cluster:type=Partition,name=LastStableOffsetLag",
    ),
    Metric(
        name=PRODUCER_IDS,
        kind=Kind.GAUGE,
        unit="producers",
        labels=("broker",),
        meaning="producer ids that the led partitions know",
        kafka="kafka.server:type=ReplicaManager,name=ProducerIdCount",
    ),
    Metric(
        name=TRANSACTIONS,
        kind=Kind.GAUGE,
        unit="transactional ids",
        labels=("broker", "state"),
        meaning="transactional ids coordinated by the broker, by state",
    ),
    Metric(
        name=MARKERS_PENDING,
        kind=Kind.GAUGE,
        unit="transactions",
        labels=("broker",),
        meaning="transactions that still owe a marker to some partition",
    ),
    Metric(
        name=MARKERS_UNKNOWN,
        kind=Kind.GAUGE,
        unit="transactions",
        labels=("broker",),
        meaning="transactions with a marker for a partition whose leader is not known",
        kafka=(
            "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,"
            "name=UnknownDestinationQueueSize"
        ),
    ),
    Metric(
        name=COMPLETIONS_WAITING,
        kind=Kind.GAUGE,
        unit="transactions",
        labels=("broker",),
        meaning="completions that the transaction log could not take yet",
        kafka=(
            "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,"
            "name=LogAppendRetryQueueSize"
        ),
    ),
    Metric(
        name=MARKERS_SENT,
        kind=Kind.COUNTER,
        unit="markers",
        labels=("broker",),
        meaning="markers sent by the broker's coordinator, repeats included",
    ),
    Metric(
        name=TIMEOUTS,
        kind=Kind.COUNTER,
        unit="transactions",
        labels=("broker",),
        meaning="transactions that the coordinator aborted because they took too long",
    ),
    Metric(
        name=VERIFIED,
        kind=Kind.COUNTER,
        unit="partitions",
        labels=("broker",),
        meaning="partitions that a coordinator verified or added for this leader (KIP-890)",
    ),
    Metric(
        name=UNVERIFIED,
        kind=Kind.COUNTER,
        unit="partitions",
        labels=("broker",),
        meaning="partitions that it did not, or that got no answer",
        kafka="kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate",
    ),
    Metric(
        name=VERIFICATIONS,
        kind=Kind.COUNTER,
        unit="questions",
        labels=("broker",),
        meaning="transactions that this leader has asked coordinators about, answered or not",
    ),
    Metric(
        name=VERIFICATION_MS,
        kind=Kind.COUNTER,
        unit="ms",
        labels=("broker",),
        meaning="time that these questions took, waiting for their turn included",
        kafka="kafka.server:type=AddPartitionsToTxnManager,name=VerificationTimeMs",
    ),
    Metric(
        name=CONNECTIONS,
        kind=Kind.GAUGE,
        unit="connections",
        labels=("broker",),
        meaning="open client connections",
    ),
    Metric(
        name=FAULTS_STRUCK,
        kind=Kind.COUNTER,
        unit="crossings",
        labels=("rule",),
        meaning="crossings that an armed fault rule has struck",
    ),
)
