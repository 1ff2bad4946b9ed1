"""The current metrics of a cluster (see ``metrics.table`` for their meaning)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from txnsim.broker.broker import Broker
from txnsim.errors import ErrorCode
from txnsim.log.cleaner import first_uncleanable_offset
from txnsim.metadata.image import NO_LEADER, ClusterImage
from txnsim.metrics import table
from txnsim.metrics.requests import ApiTotals
from txnsim.metrics.table import Reading
from txnsim.runtime.loop_turns import Pace, rest_where_due
from txnsim.server.cluster import SimCluster
from txnsim.share.commands import AcknowledgeType
from txnsim.txn.state import TransactionState, TxnMetadata
from txnsim.types import BrokerId
from txnsim.wire.apis import api_name

if TYPE_CHECKING:
    from txnsim.broker.share_fetch import ShareFetchPath
    from txnsim.coordinators.group.service import GroupCoordinator

_ERRORS: Final = {int(error): error.name.upper() for error in ErrorCode}
"""Kafka's names of error codes; a fault may answer with a code that has none."""


class IdCounts:
    """Counts of a coordinator's transactional ids: there may be a hundred thousand."""

    def __init__(self) -> None:
        self._count_by_state: Counter[int] = Counter()
        self._oldest_ms: int | None = None

    def add(self, txns: Collection[TxnMetadata]) -> None:
        # By identity: counting calls none of our functions.
        self._count_by_state.update(map(id, map(attrgetter("state"), txns)))
        start_times_ms = [
            txn.start_timestamp_ms for txn in txns if txn.state is TransactionState.ONGOING
        ]
        if start_times_ms:
            oldest_ms = min(start_times_ms)
            self._oldest_ms = min(oldest_ms, self._oldest_ms or oldest_ms)

    def by_state(self) -> list[tuple[str, int]]:
        """Number of transactions by the name of their state on the wire; zeros are omitted."""
        counts_by_name = (
            (state.wire_name, self._count_by_state[id(state)]) for state in TransactionState
        )
        return sorted((state_name, count) for state_name, count in counts_by_name if count)

    def longest_open_ms(self, now_ms: int) -> int:
        """Age of the oldest ongoing transaction in ms; 0 if there is none."""
        return 0 if self._oldest_ms is None else now_ms - self._oldest_ms


async def count_transactional_ids(cluster: SimCluster, pace: Pace) -> dict[BrokerId, IdCounts]:
    """Counts of the transactional ids of each broker, in slices."""
    counts_by_broker: dict[BrokerId, IdCounts] = {}
    for broker_id, broker in tuple(cluster.brokers.items()):
        id_counts = counts_by_broker[broker_id] = IdCounts()
        for owned_partition in broker.coordinator.owned_partitions():
            id_counts.add(tuple(owned_partition.entries.values()))
            await rest_where_due(pace, 1 + len(owned_partition.entries) // 10)
    return counts_by_broker


def readings(
    cluster: SimCluster, counts_by_broker: Mapping[BrokerId, IdCounts] = MappingProxyType({})
) -> Iterator[Reading]:
    """Every metric of the table that has a value now. The reader may take breaks: each mapping is
    copied when its turn comes.
    """
    for broker in tuple(cluster.brokers.values()):
        id_counts = counts_by_broker.get(broker.broker_id)
        if id_counts is None:
            id_counts = IdCounts()
            id_counts.add(broker.coordinator.entries())
        yield from _broker_readings(broker, id_counts, broker.environment.clock.now_ms())
    yield from _readings_of(
        (), (table.OFFLINE_PARTITIONS, _leaderless_count(cluster.metadata.image))
    )
    for listener in tuple(cluster.listeners):
        broker_id = str(listener.broker.broker_id)
        yield from _readings_of((broker_id,), (table.CONNECTIONS, len(listener.connections)))
        for api_totals in tuple(listener.meters.totals()):
            yield from _request_readings(broker_id, api_totals)
    for armed_rule in tuple(cluster.injector.rules()):
        yield Reading(
            metric=table.FAULTS_STRUCK, labels=(armed_rule.rule.id,), value=armed_rule.struck
        )


def count_late_transactions(cluster: SimCluster) -> int:
    """Number of partitions with late transactions on all brokers
    (PartitionsWithLateTransactionsCount), as in the metrics.
    """
    brokers = cluster.brokers.values()
    return sum(
        _late_partition_count(broker, broker.environment.clock.now_ms()) for broker in brokers
    )


def _request_readings(broker_label: str, api_totals: ApiTotals) -> Iterator[Reading]:
    api = api_name(api_totals.api_key)
    for version, request_count in tuple(api_totals.requests.items()):
        yield Reading(
            metric=table.REQUESTS, labels=(broker_label, api, str(version)), value=request_count
        )
    for error_code, request_count in tuple(api_totals.errors.items()):
        error_name = _ERRORS.get(error_code, str(error_code))
        yield Reading(
            metric=table.REQUEST_ERRORS, labels=(broker_label, api, error_name), value=request_count
        )
    for metric, time_counts, sum_ns in (
        (table.REQUEST_MS, api_totals.total_counts, api_totals.total_ns),
        (table.REQUEST_REMOTE_MS, api_totals.remote_counts, api_totals.remote_ns),
    ):
        cumulative_counts = (
            *(sum(time_counts[: bit_count + 1]) for bit_count in table.TIME_BITS),
            sum(time_counts),
        )
        yield Reading(
            metric=metric,
            labels=(broker_label, api),
            value=sum_ns / 1_000_000,
            counts=cumulative_counts,
        )
    yield from _readings_of(
        (broker_label, api),
        (table.REQUEST_LOCAL_MS, api_totals.local_ns / 1_000_000),
        (table.REQUEST_BYTES, api_totals.request_bytes),
        (table.RESPONSE_BYTES, api_totals.response_bytes),
    )


def _broker_readings(broker: Broker, id_counts: IdCounts, now_ms: int) -> Iterator[Reading]:
    labels = (str(broker.broker_id),)
    snapshot = broker.coordinator.snapshot()
    for state, txn_count in id_counts.by_state():
        yield Reading(metric=table.TRANSACTIONS, labels=(*labels, state), value=txn_count)
    yield from _readings_of(
        labels,
        (table.MARKERS_PENDING, snapshot.pending_marker_count),
        (table.MARKERS_UNKNOWN, snapshot.unknown_destination_count),
        (table.COMPLETIONS_WAITING, snapshot.completions_waiting),
        (table.MARKERS_SENT, snapshot.markers_sent_total),
        (table.TIMEOUTS, snapshot.timeouts_total),
        (table.VERIFIED, broker.verification.verified),
        (table.UNVERIFIED, broker.verification.failed),
        (table.VERIFICATIONS, broker.verification.answered),
        (table.VERIFICATION_MS, broker.verification.waited_us / 1_000),
        (table.ACTIVE_MS, id_counts.longest_open_ms(now_ms)),
        (table.LATE_TRANSACTIONS, _late_partition_count(broker, now_ms)),
        (table.UNDER_MIN_ISR, _under_min_isr_count(broker)),
        (table.OFFLINE_REPLICAS, len(broker.replicas.offline)),
        (table.UNCLEANABLE, broker.log_maintenance.uncleanable_count),
        # Followers too, and a producer once per partition (ReplicaManager.producerIdCount).
        (
            table.PRODUCER_IDS,
            sum(len(log.producers.state.by_id) for log in broker.replicas.hosted.values()),
        ),
    )
    if broker.made_share_fetching is not None:
        yield from _share_readings(labels, broker.made_share_fetching)
    if broker.group_host.made_coordinator is not None:
        yield from _streams_group_readings(labels, broker.group_host.made_coordinator)
    for topic_partition, log in tuple(broker.replicas.led.items()):
        partition_labels = (topic_partition.topic, str(topic_partition.partition))
        lag = log.high_watermark - log.last_stable_offset
        if lag:
            yield Reading(metric=table.LSO_LAG, labels=partition_labels, value=lag)
        if log.config.is_compacted:
            uncleanable_offset = first_uncleanable_offset(log, now_ms)
            yield Reading(
                metric=table.FIRST_UNCLEANABLE, labels=partition_labels, value=uncleanable_offset
            )


def _share_readings(labels: tuple[str, ...], share_fetching: ShareFetchPath) -> Iterator[Reading]:
    """Metrics of share groups. A share partition without records in flight has none."""
    meter = share_fetching.shares.meter
    yield from _readings_of(
        labels,
        (table.SHARE_SESSIONS, len(share_fetching.sessions)),
        (table.SHARE_SESSION_PARTITIONS, share_fetching.sessions.partition_count),
        (table.DEAD_LETTERS, meter.letters_written),
        (table.DEAD_LETTER_REQUESTS, meter.letters_sent),
        (table.DEAD_LETTERS_LOST, meter.letters_failed),
    )
    for acknowledge_type in AcknowledgeType:
        acknowledged_count = meter.acknowledged[acknowledge_type]
        yield Reading(
            metric=table.SHARE_ACKNOWLEDGEMENTS,
            labels=(*labels, acknowledge_type.name.title()),
            value=acknowledged_count,
        )
    yield meter.load_ms.reading(table.SHARE_LOAD_MS, labels)
    for group_id, group in tuple(meter.groups.items()):
        for metric, histogram in (
            (table.SHARE_FETCH_RATIO, group.fetch_ratio),
            (table.SHARE_ACQUIRE_MS, group.acquire_ms),
            (table.SHARE_BATCH_RECORDS, group.batch_records),
            (table.SHARE_FETCH_LOCK_MS, group.fetch_lock_ms),
            (table.SHARE_FETCH_LOCK_RATIO, group.fetch_lock_ratio),
        ):
            yield histogram.reading(metric, (*labels, group_id))
    for led_share in share_fetching.shares:
        partition_labels = (
            *labels,
            led_share.share_partition.key.group_id,
            led_share.topic_partition.topic,
            str(led_share.topic_partition.partition),
        )
        for metric, value in (
            (table.SHARE_IN_FLIGHT, led_share.share_partition.in_flight_count),
            (table.SHARE_IN_FLIGHT_BATCHES, led_share.share_partition.in_flight_batch_count),
            (table.SHARE_LOCK_TIMEOUTS, led_share.lock_timeout_count),
        ):
            if value:
                yield Reading(metric=metric, labels=partition_labels, value=value)


def _streams_group_readings(
    labels: tuple[str, ...], coordinator: GroupCoordinator
) -> Iterator[Reading]:
    from txnsim.group.state import GroupType  # already imported if there are groups

    group_count_by_state = Counter(
        group.state_name
        for shard in coordinator.shards()
        for group in tuple(shard.groups.values())
        if group.type is GroupType.STREAMS
    )
    for state, group_count in sorted(group_count_by_state.items()):
        yield Reading(metric=table.STREAMS_GROUPS, labels=(*labels, state), value=group_count)
    if group_count_by_state or coordinator.streams.rebalance_count:
        rebalances = coordinator.streams.rebalance_count
        yield Reading(metric=table.STREAMS_REBALANCES, labels=labels, value=rebalances)


def _readings_of(labels: tuple[str, ...], *values: tuple[str, float]) -> Iterator[Reading]:
    """Readings of several metrics with the same labels."""
    for metric, value in values:
        yield Reading(metric=metric, labels=labels, value=value)


def _late_partition_count(broker: Broker, now_ms: int) -> int:
    max_timeout_ms = broker.settings.transaction_max_timeout_ms
    return sum(
        log.has_late_transaction(now_ms, max_timeout_ms) for log in broker.replicas.led.values()
    )


def _under_min_isr_count(broker: Broker) -> int:
    # Partitions with one replica are left out: they are never below their minimum.
    return sum(
        leader_partition.is_under_min_isr
        for leader_partition in broker.replicas.replicated.values()
    )


def _leaderless_count(image: ClusterImage) -> int:
    return sum(
        partition.leader == NO_LEADER
        for topic in image.topics.values()
        for partition in topic.partitions
    )
