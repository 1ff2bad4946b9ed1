"""The table of all metrics: name, kind, unit, labels, meaning, advice, and Kafka's own name.

Values come as ``Reading``s from ``server.views.metric_values``, which reads them from a cluster;
this package has no access to one.
"""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any, Final

import msgspec


class MetricKind(Enum):
    """How a metric's value behaves."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """The documentation of one metric."""

    name: str
    kind: MetricKind
    unit: str
    labels: tuple[str, ...]
    meaning: str
    advice: str
    """What an operator should do, and when."""
    kafka: str | None = None
    """Kafka's JMX name, if Kafka has the same metric."""
    draft: str | None = None
    """The name in the draft of a KIP, if Kafka never shipped the metric."""
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, in the unit of its readings."""
    divisor: int = 1
    """Factor by which readings are divided for Prometheus, which wants seconds and ratios."""
    old_name: str | None = None
    """A deprecated name that is also shown for one more release, in the unit of the readings."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a metric; ``labels`` are the values of the metric's labels, in their order."""

    metric: str
    labels: tuple[str, ...]
    value: float
    """The value; for a histogram, the sum. Times are in milliseconds, ratios in percent."""
    counts: tuple[int, ...] = ()
    """For a histogram: the number of values up to each bound, then the total."""


TIME_BITS: Final = range(16, 36)
TIME_BOUNDS_MS: Final = tuple((1 << bits) / 1_000_000 for bits in TIME_BITS)
"""Bounds from 66 µs to 34 s, in milliseconds. They double, as powers of two of nanoseconds."""

MS_BOUNDS: Final = tuple(float(1 << bits) for bits in range(16))
PERCENT_BOUNDS: Final = (0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 99.0, 100.0)
RECORD_BOUNDS: Final = tuple(float(1 << bits) for bits in range(15))

PER_BROKER: Final = ("broker",)
PER_GROUP: Final = ("broker", "group")
PER_SHARE_PARTITION: Final = ("broker", "group", "topic", "partition")

_metrics: Final[list[Metric]] = []


def _metric(
    kind: MetricKind, name: str, *, labels: tuple[str, ...] = PER_BROKER, **fields: Any
) -> str:
    """Add a metric to the table. Each broker has its own value unless ``labels`` say otherwise.

    Returns:
        The metric's name.
    """
    _metrics.append(Metric(kind=kind, name=name, labels=labels, **fields))
    return name


_gauge: Final = partial(_metric, MetricKind.GAUGE)
_counter: Final = partial(_metric, MetricKind.COUNTER)
_histogram: Final = partial(_metric, MetricKind.HISTOGRAM, bounds=TIME_BOUNDS_MS)
_SECONDS: Final[dict[str, Any]] = {"unit": "seconds", "divisor": 1_000}
_RATIO: Final[dict[str, Any]] = {"unit": "ratio", "divisor": 100}
_of_share_partitions: Final = (
    "kafka.server:type=SharePartitionMetrics,name={},group=*,topic=*,partition=*"
)

LATE_TRANSACTIONS: Final = _gauge(
    "txnsim_partitions_with_late_transactions",
    unit="partitions",
    meaning="led partitions whose oldest open transaction was last written to more than "
    "transaction.max.timeout.ms and five minutes ago (KIP-664)",
    advice="above 0, run `txnsim txns find-hanging --all`; what it names can be ended by "
    "`txnsim txns repair`, which says what it would write: an ABORT discards records",
    kafka="kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount",
)
LSO_LAG: Final = _gauge(
    "txnsim_last_stable_offset_lag",
    unit="offsets",
    labels=("topic", "partition"),
    meaning="high watermark minus last stable offset, of partitions where they differ",
    advice="where it stays or grows, ask `txnsim txns why TOPIC PARTITION` what read_committed "
    "consumers wait for",
    kafka="kafka.cluster:type=Partition,name=LastStableOffsetLag",
)
PRODUCER_IDS: Final = _gauge(
    "txnsim_producer_ids",
    unit="producers",
    meaning="producer ids that the hosted partitions know, leaders and followers, each once for "
    "every partition",
    advice="grows with each new producer and falls after producer.id.expiration.ms: if it only "
    "grows, look for clients that make a producer per message",
    kafka="kafka.server:type=ReplicaManager,name=ProducerIdCount",
)
TRANSACTIONS: Final = _gauge(
    "txnsim_transactions",
    unit="transactional ids",
    labels=("broker", "state"),
    meaning="transactional ids coordinated by the broker, by state",
    advice="many in PrepareCommit or PrepareAbort: markers do not arrive, see the marker gauges; "
    "`txnsim txns list` names the ids",
)
MARKERS_PENDING: Final = _gauge(
    "txnsim_markers_pending",
    unit="transactions",
    meaning="transactions that still owe a marker to some partition",
    advice="above 0 for long: a leader does not take its markers; see whether all brokers run "
    "and `txnsim txns describe --transactional-id ID` which partitions remain",
)
MARKERS_UNKNOWN: Final = _gauge(
    "txnsim_markers_unknown_destination",
    unit="transactions",
    meaning="transactions with a marker for a partition whose leader is not known",
    advice="above 0 for long: a partition's leader is gone and no other has taken over; start a "
    "broker that has a replica in sync",
    kafka="kafka.coordinator.transaction:type=TransactionMarkerChannelManager,"
    "name=UnknownDestinationQueueSize",
)
COMPLETIONS_WAITING: Final = _gauge(
    "txnsim_log_append_retry_queue",
    unit="transactions",
    meaning="completions that the transaction log could not take yet",
    advice="above 0: __transaction_state has too few replicas in sync; bring its brokers back",
    kafka="kafka.coordinator.transaction:type=TransactionMarkerChannelManager,"
    "name=LogAppendRetryQueueSize",
)
MARKERS_SENT: Final = _counter(
    "txnsim_markers_sent",
    unit="markers",
    meaning="markers sent by the broker's coordinator, repeats included",
    advice="compare its rate with that of transactions: far above the partitions they touch, "
    "markers are sent again and again",
)
TIMEOUTS: Final = _counter(
    "txnsim_transaction_timeouts",
    unit="transactions",
    meaning="transactions that the coordinator aborted because they took too long",
    advice="rising: producers die or stall in the middle of transactions; look at them, or raise "
    "their transaction.timeout.ms",
)
VERIFIED: Final = _counter(
    "txnsim_partitions_verified",
    unit="partitions",
    meaning="partitions that a coordinator verified or added for this leader (KIP-890)",
    advice="none: the number to compare verification failures with",
)
UNVERIFIED: Final = _counter(
    "txnsim_partition_verification_failures",
    unit="partitions",
    meaning="partitions that a coordinator refused to verify or to add, or that got no answer",
    advice="rising: late writes of transactions that have ended are refused, or the coordinator "
    "can't be reached; see the producers' errors and whether all brokers run",
    kafka="kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate",
)
VERIFICATIONS: Final = _counter(
    "txnsim_verifications",
    unit="questions",
    meaning="transactions that this leader has asked coordinators about, answered or not",
    advice="none: divides the time of verifications",
)
VERIFICATION_MS: Final = _counter(
    "txnsim_verification_seconds",
    **_SECONDS,
    old_name="txnsim_verification_milliseconds",
    meaning="time that these questions took, waiting for their turn included",
    advice="divided by txnsim_verifications it is the mean: high, first writes of transactions "
    "wait for a slow coordinator",
    kafka="kafka.server:type=AddPartitionsToTxnManager,name=VerificationTimeMs",
)
CONNECTIONS: Final = _gauge(
    "txnsim_connections",
    unit="connections",
    meaning="open client connections",
    advice="growing without end: some client does not close what it opens",
    kafka="kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*",
)
FAULTS_STRUCK: Final = _counter(
    "txnsim_faults_struck",
    unit="crossings",
    labels=("rule",),
    meaning="crossings that an armed fault rule has struck",
    advice="none: it is you who armed the rule; disarm it when it has done its work",
)
ACTIVE_MS: Final = _gauge(
    "txnsim_max_active_transaction_seconds",
    **_SECONDS,
    old_name="txnsim_max_active_transaction_milliseconds",
    meaning="time since the oldest Ongoing transaction that the broker coordinates began; 0 "
    "without any",
    advice="near transaction.max.timeout.ms it is about to be aborted: `txnsim txns list "
    "--duration-filter MS` names it",
    draft="MaxActiveTransactionDuration of KIP-664's first drafts",
)
UNDER_MIN_ISR: Final = _gauge(
    "txnsim_partitions_under_min_isr",
    unit="partitions",
    meaning="led partitions with fewer replicas in sync than min.insync.replicas",
    advice="above 0: acks=all and all transactions are refused there; bring brokers back",
    kafka="kafka.server:type=ReplicaManager,name=UnderMinIsrPartitionCount",
)
OFFLINE_PARTITIONS: Final = _gauge(
    "txnsim_offline_partitions",
    unit="partitions",
    labels=(),
    meaning="partitions of the whole cluster that have no leader",
    advice="above 0: clients can't write or read them; start a broker that has a replica in sync, "
    "then run `txnsim txns find-hanging --all`: Kafka 4.3 and 4.4 drop the markers of "
    "transactions that end meanwhile (KAFKA-20734)",
    kafka="kafka.controller:type=KafkaController,name=OfflinePartitionsCount",
)
OFFLINE_REPLICAS: Final = _gauge(
    "txnsim_offline_replicas",
    unit="replicas",
    meaning="replicas of the broker that are in a log directory that has failed",
    advice="above 0: the broker serves none of them and others lead; make room on its disk or "
    "replace it, then restart the broker: a failed directory is not tried again before",
    kafka="kafka.server:type=ReplicaManager,name=OfflineReplicaCount",
)
FIRST_UNCLEANABLE: Final = _gauge(
    "txnsim_first_uncleanable_offset",
    unit="offset",
    labels=("topic", "partition"),
    meaning="first offset that the cleaner may not pass, of compacted partitions: at most the "
    "last stable offset and the start of the active segment",
    advice="standing still while the log grows by whole segments: an open transaction keeps "
    "the log from being compacted; ask `txnsim txns why TOPIC PARTITION`",
)
UNCLEANABLE: Final = _gauge(
    "txnsim_uncleanable_partitions",
    unit="partitions",
    meaning="compacted replicas that the cleaner gave up, because a batch could not be read",
    advice="above 0: a log grows without end; a batch there is corrupt, or its codec is not "
    "installed",
    kafka="kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count,logDirectory=*",
)
REQUESTS: Final = _counter(
    "txnsim_requests",
    unit="requests",
    labels=("broker", "api", "version"),
    meaning="requests of clients that have been answered, by API and version; what brokers ask "
    "each other is not among them, unlike in Apache Kafka",
    advice="compare rates: many times more InitProducerId than producers, or FindCoordinator "
    "and Metadata far above their number, is a client that begins anew again and again; "
    "versions tell which clients still are old",
    kafka="kafka.network:type=RequestMetrics,name=RequestsPerSec,request=*,version=*",
)
REQUEST_ERRORS: Final = _counter(
    "txnsim_request_errors",
    unit="errors",
    labels=("broker", "api", "error"),
    meaning="errors in answers to clients, once for each element that has one; NONE is not "
    "counted, though Apache Kafka counts it",
    advice="INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH or PRODUCER_FENCED rising: producers are "
    "late or there are two of one transactional id; CONCURRENT_TRANSACTIONS: markers are "
    "slow; NOT_COORDINATOR and NOT_LEADER_OR_FOLLOWER pass after leaders have moved",
    kafka="kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=*,error=*",
)
REQUEST_MS: Final = _histogram(
    "txnsim_request_seconds",
    **_SECONDS,
    old_name="txnsim_request_milliseconds",
    labels=("broker", "api"),
    meaning="from taking up a request until its answer is handed over; it is written to the "
    "socket at the end of the same turn of the loop",
    advice="high: see which part it is, the broker's own work or waiting for others; a Fetch "
    "may wait as long as its client allows",
    kafka="kafka.network:type=RequestMetrics,name=TotalTimeMs,request=*",
)
REQUEST_LOCAL_MS: Final = _counter(
    "txnsim_request_local_seconds",
    **_SECONDS,
    old_name="txnsim_request_local_milliseconds",
    labels=("broker", "api"),
    meaning="the part of a request's time until its answer was there, or had to be waited for",
    advice="divided by the requests it is the mean: high, and the machine is busy, or requests "
    "name thousands of partitions",
    kafka="kafka.network:type=RequestMetrics,name=LocalTimeMs,request=*",
)
REQUEST_REMOTE_MS: Final = _histogram(
    "txnsim_request_remote_seconds",
    **_SECONDS,
    old_name="txnsim_request_remote_milliseconds",
    labels=("broker", "api"),
    meaning="the rest of a request's time: waiting for replicas, for a coordinator's log, for "
    "other brokers, for records to fetch, for members of a group; 0 where nothing was waited for",
    advice="high for Produce or EndTxn: replicas do not keep up, or verification is slow; see "
    "the metrics of both",
    kafka="kafka.network:type=RequestMetrics,name=RemoteTimeMs,request=*",
)
REQUEST_BYTES: Final = _counter(
    "txnsim_request_bytes",
    unit="bytes",
    labels=("broker", "api"),
    meaning="size of the bodies of requests, headers left out",
    advice="divided by the requests it is the mean: small for Produce, batching is off",
    kafka="kafka.network:type=RequestMetrics,name=RequestBytes,request=*",
)
RESPONSE_BYTES: Final = _counter(
    "txnsim_response_bytes",
    unit="bytes",
    labels=("broker", "api"),
    meaning="size of the bodies of answers, headers left out",
    advice="divided by the requests it is the mean: small for Fetch, consumers poll too often",
)
SHARE_ACKNOWLEDGEMENTS: Final = _counter(
    "txnsim_share_acknowledgements",
    unit="records",
    labels=("broker", "type"),
    meaning="records that members of share groups acknowledged, by acknowledge type, once that was "
    "persisted",
    advice="Reject rising: consumers meet records that they can't process; Release: they give them "
    "back, and each delivery counts towards the limit",
    kafka="kafka.server:type=ShareGroupMetrics,name=RecordAcknowledgementsPerSec,ackType=*",
)
DEAD_LETTERS: Final = _counter(
    "txnsim_share_dead_letters",
    unit="records",
    labels=("broker",),
    meaning="records of share groups that were written to a dead letter topic",
    advice="rising: consumers reject records, or never finish them",
    kafka="kafka.server:type=ShareGroupMetrics,name=DeadLetterQueueRecordCount,group=*",
)
DEAD_LETTER_REQUESTS: Final = _counter(
    "txnsim_share_dead_letter_requests",
    unit="requests",
    labels=("broker",),
    meaning="requests with dead letters to leaders of their topics",
    advice="many beside few dead letters: they are tried again",
    kafka="kafka.server:type=ShareGroupMetrics,"
    "name=DeadLetterQueueTotalProduceRequestsPerSec,group=*",
)
DEAD_LETTERS_LOST: Final = _counter(
    "txnsim_share_dead_letters_lost",
    unit="requests",
    labels=("broker",),
    meaning="requests with dead letters that failed for good: their records are in no topic",
    advice="look for a dead letter topic without leader, or with a small max.message.bytes",
    kafka="kafka.server:type=ShareGroupMetrics,"
    "name=DeadLetterQueueFailedProduceRequestsPerSec,group=*",
)
SHARE_LOAD_MS: Final = _histogram(
    "txnsim_share_partition_load_seconds",
    **_SECONDS,
    meaning="from the first fetch of a share partition until its state was read, or could not be",
    advice="high: the share coordinator is slow or moves; members get no records meanwhile",
    kafka="kafka.server:type=ShareGroupMetrics,name=PartitionLoadTimeMs",
    bounds=MS_BOUNDS,
)
SHARE_FETCH_RATIO: Final = _histogram(
    "txnsim_share_fetch_partitions_ratio",
    **_RATIO,
    labels=PER_GROUP,
    meaning="partitions of a ShareFetch that it could read, of those that it named",
    advice="low: members wait for one another's fetch locks, or all records are locked",
    kafka="kafka.server:type=ShareGroupMetrics,name=RequestTopicPartitionsFetchRatio,group=*",
    bounds=PERCENT_BOUNDS,
)
SHARE_ACQUIRE_MS: Final = _histogram(
    "txnsim_share_acquire_seconds",
    **_SECONDS,
    labels=PER_GROUP,
    meaning="from the arrival of a ShareFetch until it had the fetch locks that it read with",
    advice="high: there is nothing to acquire, as in a Fetch that waits; see the records in flight",
    kafka="kafka.server:type=ShareGroupMetrics,name=TopicPartitionsAcquireTimeMs,group=*",
    bounds=MS_BOUNDS,
)
SHARE_IN_FLIGHT: Final = _gauge(
    "txnsim_share_in_flight_records",
    unit="records",
    labels=PER_SHARE_PARTITION,
    meaning="offsets between start and end offset of a share partition: acquired, or acknowledged "
    "behind one that is not",
    advice="at the group's share.partition.max.record.locks nothing new is delivered: a member "
    "holds records, or an open transaction does not end",
    kafka=_of_share_partitions.format("InFlightMessageCount"),
)
SHARE_IN_FLIGHT_BATCHES: Final = _gauge(
    "txnsim_share_in_flight_batches",
    unit="batches",
    labels=PER_SHARE_PARTITION,
    meaning="batches in which these are kept",
    advice="none: the number to compare the records with",
    kafka=_of_share_partitions.format("InFlightBatchCount"),
)
SHARE_LOCK_TIMEOUTS: Final = _counter(
    "txnsim_share_lock_timeouts",
    unit="records",
    labels=PER_SHARE_PARTITION,
    meaning="records whose acquisition lock ran out",
    advice="rising: members die, or take longer than the group's share.record.lock.duration.ms",
    kafka=_of_share_partitions.format("AcquisitionLockTimeoutPerSec"),
)
SHARE_BATCH_RECORDS: Final = _histogram(
    "txnsim_share_in_flight_batch_records",
    unit="records",
    labels=PER_GROUP,
    meaning="records of each batch in flight, when it is made",
    advice="small: producers send small batches, so that a fetch acquires many",
    kafka=_of_share_partitions.format("InFlightBatchMessageCount"),
    bounds=RECORD_BOUNDS,
)
SHARE_FETCH_LOCK_MS: Final = _histogram(
    "txnsim_share_fetch_lock_seconds",
    **_SECONDS,
    labels=PER_GROUP,
    meaning="time for which a fetch had a share partition for itself",
    advice="high: reading is slow, and the other members wait",
    kafka=_of_share_partitions.format("FetchLockTimeMs"),
    bounds=MS_BOUNDS,
)
SHARE_FETCH_LOCK_RATIO: Final = _histogram(
    "txnsim_share_fetch_lock_ratio",
    **_RATIO,
    labels=PER_GROUP,
    meaning="that time, of the time since the lock was released before",
    advice="near 1: one member after the other reads, more members get no more",
    kafka=_of_share_partitions.format("FetchLockRatio"),
    bounds=PERCENT_BOUNDS,
)
SHARE_SESSIONS: Final = _gauge(
    "txnsim_share_sessions",
    unit="sessions",
    meaning="open share sessions, one for each member that fetches from this broker",
    advice="near group.share.max.share.sessions further members are refused",
    kafka="kafka.server:type=ShareSessionCache,name=ShareSessionsCount",
)
SHARE_SESSION_PARTITIONS: Final = _gauge(
    "txnsim_share_session_partitions",
    unit="partitions",
    meaning="partitions that these name, one that is in two sessions twice",
    advice="none: the number to compare the sessions with",
    kafka="kafka.server:type=ShareSessionCache,name=SharePartitionsCount",
)
STREAMS_GROUPS: Final = _gauge(
    "txnsim_streams_groups",
    unit="groups",
    labels=("broker", "state"),
    meaning="streams groups that this broker coordinates, by state",
    advice="NotReady: `txnsim groups describe` says which topics the application lacks; in "
    "Reconciling for long: a member does not give tasks up",
    kafka="kafka.server:type=group-coordinator-metrics,state=*",
)
STREAMS_REBALANCES: Final = _counter(
    "txnsim_streams_group_rebalances",
    unit="rebalances",
    meaning="how often the epoch of a streams group rose for another assignment",
    advice="rising without end: members come and go, or topics and configs change",
    kafka="kafka.server:type=group-coordinator-metrics",
)

METRICS: Final = tuple(_metrics)
