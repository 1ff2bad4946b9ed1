"""Every metric once: name, kind, unit, labels, what it means, what to do, Kafka's own name of it.

Values come as ``Reading``s from ``server.views.readings``, which can look at a cluster; this
package can't.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any, Final

import msgspec


class Kind(Enum):
    """How a value moves."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader needs to know of one metric."""

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    meaning: str
    advice: str
    """The advice to an operator."""
    kafka: str | None = None
    """Kafka's JMX name where it has the same metric."""
    draft: str | None = None
    """The name in a KIP's draft, where Kafka never shipped it."""
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One value; ``labels`` in the order of the metric's."""

    metric: str
    labels: tuple[str, ...]
    value: float
    """The value; of a histogram, the sum."""
    counts: tuple[int, ...] = ()
    """For a histogram: how many values are within each bound, and how many there are."""


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
ACTIVE_MS: Final = "txnsim_max_active_transaction_milliseconds"
UNDER_MIN_ISR: Final = "txnsim_partitions_under_min_isr"
OFFLINE_REPLICAS: Final = "txnsim_offline_replicas"
OFFLINE_PARTITIONS: Final = "txnsim_offline_partitions"
FIRST_UNCLEANABLE: Final = "txnsim_first_uncleanable_offset"
UNCLEANABLE: Final = "txnsim_uncleanable_partitions"
REQUESTS: Final = "txnsim_requests"
REQUEST_ERRORS: Final = "txnsim_request_errors"
REQUEST_MS: Final = "txnsim_request_milliseconds"
REQUEST_LOCAL_MS: Final = "txnsim_request_local_milliseconds"
REQUEST_REMOTE_MS: Final = "txnsim_request_remote_milliseconds"
REQUEST_BYTES: Final = "txnsim_request_bytes"
RESPONSE_BYTES: Final = "txnsim_response_bytes"

TIME_BITS: Final = range(16, 36)
TIME_BOUNDS_MS: Final = tuple((1 << bits) / 1_000_000 for bits in TIME_BITS)
"""From 66 µs to 34 s, each twice the one before: powers of two of nanoseconds."""

PER_BROKER: Final = ("broker",)


def _metric(kind: Kind, name: str, *, labels: tuple[str, ...] = PER_BROKER, **said: Any) -> Metric:
    """A metric; each broker has a value of its own unless ``labels`` say otherwise."""
    return Metric(kind=kind, name=name, labels=labels, **said)


_gauge: Final = partial(_metric, Kind.GAUGE)
_counter: Final = partial(_metric, Kind.COUNTER)
_histogram: Final = partial(_metric, Kind.HISTOGRAM, bounds=TIME_BOUNDS_MS)

METRICS: Final = (
    _gauge(
        LATE_TRANSACTIONS,
        unit="partitions",
        meaning=(
            "led partitions whose oldest open transaction was last written to more than "
            "transaction.max.timeout.ms and five minutes ago (KIP-664)"
        ),
        advice=(
            "above 0, run `txnsim txns find-hanging --all`; what it names can be ended by "
            "`txnsim txns repair`"
        ),
        kafka="kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount",
    ),
    _gauge(
        LSO_LAG,
        unit="offsets",
        labels=("topic", "partition"),
        meaning="high watermark minus last stable offset, of partitions where they differ",
        advice=(
            "where it stays or grows, ask `txnsim txns why TOPIC PARTITION` what read_committed "
            "consumers wait for"
        ),
        kafka="kafka.cluster:type=Partition,name=LastStableOffsetLag",
    ),
    _gauge(
        PRODUCER_IDS,
        unit="producers",
        meaning=(
            "producer ids that the hosted partitions know, leaders and followers, each once for "
            "every partition"
        ),
        advice=(
            "grows with each new producer and falls after producer.id.expiration.ms: if it only "
            "grows, look for clients that make a producer per message"
        ),
        kafka="kafka.server:type=ReplicaManager,name=ProducerIdCount",
    ),
    _gauge(
        TRANSACTIONS,
        unit="transactional ids",
        labels=("broker", "state"),
        meaning="transactional ids coordinated by the broker, by state",
        advice=(
            "many in PrepareCommit or PrepareAbort: markers do not arrive, see the marker gauges; "
            "`txnsim txns list` names the ids"
        ),
    ),
    _gauge(
        MARKERS_PENDING,
        unit="transactions",
        meaning="transactions that still owe a marker to some partition",
        advice=(
            "above 0 for long: a leader does not take its markers; see whether all brokers run "
            "and `txnsim txns describe --transactional-id ID` which partitions remain"
        ),
    ),
    _gauge(
        MARKERS_UNKNOWN,
        unit="transactions",
        meaning="transactions with a marker for a partition whose leader is not known",
        advice=(
            "above 0 for long: a partition's leader is gone and no other has taken over; start a "
            "broker that has a replica in sync"
        ),
        kafka=(
            "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,"
            "name=UnknownDestinationQueueSize"
        ),
    ),
    _gauge(
        COMPLETIONS_WAITING,
        unit="transactions",
        meaning="completions that the transaction log could not take yet",
        advice=(
            "above 0: __transaction_state has too few replicas in sync; bring its brokers back"
        ),
        kafka=(
            "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,"
            "name=LogAppendRetryQueueSize"
        ),
    ),
    _counter(
        MARKERS_SENT,
        unit="markers",
        meaning="markers sent by the broker's coordinator, repeats included",
        advice=(
            "compare its rate with that of transactions: far above the partitions they touch, "
            "markers are sent again and again"
        ),
    ),
    _counter(
        TIMEOUTS,
        unit="transactions",
        meaning="transactions that the coordinator aborted because they took too long",
        advice=(
            "rising: producers die or stall in the middle of transactions; look at them, or raise "
            "their transaction.timeout.ms"
        ),
    ),
    _counter(
        VERIFIED,
        unit="partitions",
        meaning="partitions that a coordinator verified or added for this leader (KIP-890)",
        advice="none: the number to compare verification failures with",
    ),
    _counter(
        UNVERIFIED,
        unit="partitions",
        meaning="partitions that it did not, or that got no answer",
        advice=(
            "rising: late writes of transactions that have ended are refused, or the coordinator "
            "can't be reached; see the producers' errors and whether all brokers run"
        ),
        kafka="kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate",
    ),
    _counter(
        VERIFICATIONS,
        unit="questions",
        meaning="transactions that this leader has asked coordinators about, answered or not",
        advice="none: divides the time of verifications",
    ),
    _counter(
        VERIFICATION_MS,
        unit="ms",
        meaning="time that these questions took, waiting for their turn included",
        advice=(
            "divided by txnsim_verifications it is the mean: high, first writes of transactions "
            "wait for a slow coordinator"
        ),
        kafka="kafka.server:type=AddPartitionsToTxnManager,name=VerificationTimeMs",
    ),
    _gauge(
        CONNECTIONS,
        unit="connections",
        meaning="open client connections",
        advice="growing without end: some client does not close what it opens",
        kafka="kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*",
    ),
    _counter(
        FAULTS_STRUCK,
        unit="crossings",
        labels=("rule",),
        meaning="crossings that an armed fault rule has struck",
        advice="none: it is you who armed the rule; disarm it when it has done its work",
    ),
    _gauge(
        ACTIVE_MS,
        unit="ms",
        meaning=(
            "time since the oldest Ongoing transaction that the broker coordinates began; 0 "
            "without any"
        ),
        advice=(
            "near transaction.max.timeout.ms it is about to be aborted: `txnsim txns list "
            "--duration-filter MS` names it"
        ),
        draft="MaxActiveTransactionDuration of KIP-664's first drafts",
    ),
    _gauge(
        UNDER_MIN_ISR,
        unit="partitions",
        meaning="led partitions with fewer replicas in sync than min.insync.replicas",
        advice="above 0: acks=all and all transactions are refused there; bring brokers back",
        kafka="kafka.server:type=ReplicaManager,name=UnderMinIsrPartitionCount",
    ),
    _gauge(
        OFFLINE_PARTITIONS,
        unit="partitions",
        labels=(),
        meaning="partitions of the whole cluster that have no leader",
        advice=(
            "above 0: clients can't write or read them; start a broker that has a replica in sync, "
            "then run `txnsim txns find-hanging --all`: Kafka 4.3 drops the markers of "
            "transactions that end meanwhile (KAFKA-20734)"
        ),
        kafka="kafka.controller:type=KafkaController,name=OfflinePartitionsCount",
    ),
    _gauge(
        OFFLINE_REPLICAS,
        unit="replicas",
        meaning="replicas of the broker that are in a log directory that has failed",
        advice=(
            "above 0: the broker serves none of them and others lead; make room on its disk or "
            "replace it, then restart the broker: a failed directory is not tried again before"
        ),
        kafka="kafka.server:type=ReplicaManager,name=OfflineReplicaCount",
    ),
    _gauge(
        FIRST_UNCLEANABLE,
        unit="offset",
        labels=("topic", "partition"),
        meaning=(
            "first offset that the cleaner may not pass, of compacted partitions: at most the "
            "last stable offset and the start of the active segment"
        ),
        advice=(
            "standing still while the log grows by whole segments: an open transaction keeps "
            "the log from being compacted; ask `txnsim txns why TOPIC PARTITION`"
        ),
    ),
    _gauge(
        UNCLEANABLE,
        unit="partitions",
        meaning="compacted replicas that the cleaner gave up, because a batch could not be read",
        advice=(
            "above 0: a log grows without end; a batch there is corrupt, or its codec is not "
            "installed"
        ),
        kafka="kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count,logDirectory=*",
    ),
    _counter(
        REQUESTS,
        unit="requests",
        labels=("broker", "api", "version"),
        meaning=(
            "requests of clients that have been answered, by API and version; what brokers ask "
            "each other is not among them, unlike in Apache Kafka"
        ),
        advice=(
            "compare rates: many times more InitProducerId than producers, or FindCoordinator "
            "and Metadata far above their number, is a client that begins anew again and again; "
            "versions tell which clients still are old"
        ),
        kafka="kafka.network:type=RequestMetrics,name=RequestsPerSec,request=*,version=*",
    ),
    _counter(
        REQUEST_ERRORS,
        unit="errors",
        labels=("broker", "api", "error"),
        meaning=(
            "errors in answers to clients, once for each element that tells of one; NONE is not "
            "counted, as Apache Kafka does"
        ),
        advice=(
            "INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH or PRODUCER_FENCED rising: producers are "
            "late or there are two of one transactional id; CONCURRENT_TRANSACTIONS: markers are "
            "slow; NOT_COORDINATOR and NOT_LEADER_OR_FOLLOWER pass after leaders have moved"
        ),
        kafka="kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=*,error=*",
    ),
    _histogram(
        REQUEST_MS,
        unit="ms",
        labels=("broker", "api"),
        meaning=(
            "from taking up a request until its answer is handed over; it is written to the "
            "socket at the end of the same turn of the loop"
        ),
        advice=(
            "high: see which part it is, the broker's own work or waiting for others; a Fetch "
            "may wait as long as its client allows"
        ),
        kafka="kafka.network:type=RequestMetrics,name=TotalTimeMs,request=*",
    ),
    _counter(
        REQUEST_LOCAL_MS,
        unit="ms",
        labels=("broker", "api"),
        meaning="the part of it until the answer was there, or had to be waited for",
        advice=(
            "divided by the requests it is the mean: high, and the machine is busy, or requests "
            "name thousands of partitions"
        ),
        kafka="kafka.network:type=RequestMetrics,name=LocalTimeMs,request=*",
    ),
    _histogram(
        REQUEST_REMOTE_MS,
        unit="ms",
        labels=("broker", "api"),
        meaning=(
            "the rest of it: waiting for replicas, for a coordinator's log, for other brokers, "
            "for records to fetch, for members of a group; 0 where nothing was waited for"
        ),
        advice=(
            "high for Produce or EndTxn: replicas do not keep up, or verification is slow; see "
            "the metrics of both"
        ),
        kafka="kafka.network:type=RequestMetrics,name=RemoteTimeMs,request=*",
    ),
    _counter(
        REQUEST_BYTES,
        unit="bytes",
        labels=("broker", "api"),
        meaning="size of the bodies of requests, headers left out",
        advice="divided by the requests it is the mean: small for Produce, batching is off",
        kafka="kafka.network:type=RequestMetrics,name=RequestBytes,request=*",
    ),
    _counter(
        RESPONSE_BYTES,
        unit="bytes",
        labels=("broker", "api"),
        meaning="size of the bodies of their answers",
        advice="divided by the requests it is the mean: small for Fetch, consumers poll too often",
    ),
)
