"""Metrics that clients push (KIP-714): which ones, how often, and the pushed data. Pure.

A client identifies itself by an instance id from the broker. The subscriptions that match the
client decide which metrics it has to push; both sides compare them by a subscription id. A client
that pushes too early, or for an old subscription, is refused. The broker forgets a client when its
connection ends or after a while. Pushed metrics are accepted and counted, but not stored. Kafka's
counterparts: ClientMetricsManager, ClientMetricsInstance.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Final

import msgspec

from txnsim.errors import CorruptBatchError, ErrorCode, PatternError, Rejection
from txnsim.metadata.client_metrics_configs import (
    CLIENT_METRICS_CONFIGS,
    MetricsSubscription,
    subscription,
)
from txnsim.metadata.config_keys import Configs, invalid_request
from txnsim.on_demand_imports import OnDemand
from txnsim.types import java_hash, uuid_text
from txnsim.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, decompress

crc32c: Final[Any] = OnDemand("crc32c")

ACCEPTED: Final = (ZSTD, LZ4, GZIP, SNAPPY)
"""Compression types, the best one first."""
INSTANCES_MAX: Final = 16_384
EXPIRY_MS: Final = 60_000
EXPIRY_INTERVALS: Final = 3
"""A client instance is forgotten after this number of push intervals, and not before ``EXPIRY_MS``.
"""
ALL: Final = "*"
NAMES_MAX: Final = 20_000
CHARACTERS_MAX: Final = 200_000
"""Limit on the total length of the metric names for one client; above it the client is asked for
all metrics.
"""
WEIGHT: Final = 64
"""Weight of matching a subscription against a client: up to six regular expressions may have to be
compiled.
"""

DEVIATIONS: Final = (
    "A client whose subscriptions name more than 20,000 metrics, or names of 200,000 characters in "
    "all, is asked for all metrics.",
)


_INTERVAL_MS: Final = int(CLIENT_METRICS_CONFIGS["interval.ms"].default_text)
_NEVER_MS: Final = -(2**62)
RESERVED_IDS: Final = frozenset({uuid.UUID(int=0), uuid.UUID(int=1)})
"""Ids that never identify a client (Uuid.RESERVED)."""
_FORGIVEN_ERRORS: Final = frozenset(
    {ErrorCode.unknown_subscription_id, ErrorCode.unsupported_compression_type}
)
"""Errors after which a client may fetch its subscription at once."""
_BUCKETS: Final = 16
_LOAD_FACTOR: Final = 0.75


class TelemetryClient(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes of a client, by which subscriptions select clients."""

    connection: object
    """Identifies its connection."""
    client_id: str
    software_name: str | None
    software_version: str | None
    address: str
    port: str

    def attributes(self, instance_id: uuid.UUID) -> dict[str, str | None]:
        """The client's attributes, by their names in ``match``."""
        return {
            "client_id": self.client_id,
            "client_instance_id": uuid_text(instance_id),
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.address,
            "client_source_port": self.port,
        }


class MetricsToPush(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics that a client instance has to push."""

    instance_id: uuid.UUID
    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


class MetricsPush(msgspec.Struct, frozen=True, kw_only=True):
    """A client's push of its metrics: identity of the client, and the metrics as it packed them."""

    instance_id: uuid.UUID | None
    subscription_id: int
    is_last: bool
    compression: int
    metrics: bytes


class _ClientInstance(msgspec.Struct, eq=False):
    """A client instance with its current set of subscriptions."""

    requested: MetricsToPush
    client: TelemetryClient
    subscriptions: Mapping[str, Configs]
    got_ms: int = _NEVER_MS
    pushed_ms: int = _NEVER_MS
    has_ended: bool = False
    last_error: ErrorCode = ErrorCode.none
    expires_ms: int = 0

    def may_get(self, now_ms: int) -> bool:
        """Whether the client may fetch its subscriptions again; records the fetch."""
        if now_ms - max(self.got_ms, self.pushed_ms) < self.requested.interval_ms:
            return False
        self.got_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Whether the client may push now; the first push after a fetch may come at any time,
        because clients spread theirs.
        """
        is_first_push = self.got_ms > self.pushed_ms
        if not is_first_push and now_ms - self.pushed_ms < self.requested.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


class ClientMetrics(msgspec.Struct, kw_only=True, eq=False):
    """The client instances of one broker."""

    max_bytes: int
    """Greatest size of a push in bytes, also after decompression (``telemetry.max.bytes``)."""
    new_id: Callable[[], uuid.UUID]
    """Returns a random id for a client instance."""
    _instances: OrderedDict[uuid.UUID, _ClientInstance] = msgspec.field(default_factory=OrderedDict)
    """Client instances, the least recently used first."""
    _by_connection: dict[object, uuid.UUID] = {}
    pushes: dict[ErrorCode, int] = {}
    """Number of pushes by their resulting error."""
    bytes_total: int = 0
    """Total size of all accepted metrics in bytes, decompressed."""

    @property
    def instance_count(self) -> int:
        """Number of known client instances."""
        return len(self._instances)

    # Requests

    def get(
        self,
        instance_id: uuid.UUID | None,
        client: TelemetryClient,
        subscriptions: Mapping[str, Configs],
        *,
        now_ms: int,
    ) -> Generator[int, None, MetricsToPush | Rejection]:
        """The metrics that a client has to push; a client without an id gets one. Each step yields
        its weight.
        """
        if instance_id is None or not instance_id.int:
            instance_id = self.new_id()
        instance = yield from self._instance(instance_id, client, subscriptions, now_ms)
        if not instance.may_get(now_ms) and instance.last_error not in _FORGIVEN_ERRORS:
            return _too_early(instance_id)
        instance.last_error = ErrorCode.none
        return instance.requested

    def push(
        self,
        metrics_push: MetricsPush,
        client: TelemetryClient,
        subscriptions: Mapping[str, Configs],
        *,
        now_ms: int,
    ) -> Generator[int, None, Rejection | None]:
        """Accept a client's push; the error if refused."""
        refusal = yield from self._take_push(metrics_push, client, subscriptions, now_ms)
        error = ErrorCode.none if refusal is None else refusal.error
        self.pushes[error] = self.pushes.get(error, 0) + 1
        return refusal

    def forget_connection(self, connection: object) -> None:
        """Forget the client whose connection has closed."""
        instance_id = self._by_connection.pop(connection, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    # Parts

    def _take_push(
        self,
        metrics_push: MetricsPush,
        client: TelemetryClient,
        subscriptions: Mapping[str, Configs],
        now_ms: int,
    ) -> Generator[int, None, Rejection | None]:
        instance_id = metrics_push.instance_id
        if instance_id is None or instance_id in RESERVED_IDS:
            return invalid_request(f"{instance_id} is no client instance")
        instance = yield from self._instance(instance_id, client, subscriptions, now_ms)
        refusal = self._refusal(instance, metrics_push, now_ms)
        instance.has_ended = metrics_push.is_last
        if refusal is None and metrics_push.metrics:
            refusal = self._count_metrics(metrics_push)
        instance.last_error = ErrorCode.none if refusal is None else refusal.error
        return refusal

    def _refusal(
        self, instance: _ClientInstance, metrics_push: MetricsPush, now_ms: int
    ) -> Rejection | None:
        """The error for a push that is refused (ClientMetricsManager.validatePushRequest)."""
        instance_id = instance.requested.instance_id
        if instance.has_ended:
            return invalid_request(f"{instance_id} has said before that it pushes nothing more")
        if not instance.may_push(now_ms) and not metrics_push.is_last:
            return _too_early(instance_id)
        if metrics_push.subscription_id != instance.requested.subscription_id:
            return Rejection(
                error=ErrorCode.unknown_subscription_id,
                reason=f"subscription {metrics_push.subscription_id}, not "
                f"{instance.requested.subscription_id}",
            )
        if metrics_push.compression not in (NONE, *ACCEPTED):
            return Rejection(
                error=ErrorCode.unsupported_compression_type,
                reason=f"compression type {metrics_push.compression}",
            )
        if len(metrics_push.metrics) > self.max_bytes:
            return Rejection(
                error=ErrorCode.telemetry_too_large,
                reason=f"{len(metrics_push.metrics)} bytes, at most {self.max_bytes} are taken",
            )
        return None

    def _count_metrics(self, metrics_push: MetricsPush) -> Rejection | None:
        metrics = metrics_push.metrics
        try:
            if metrics_push.compression != NONE:
                metrics = decompress(metrics_push.compression, metrics, self.max_bytes)
        except CorruptBatchError as error:
            return Rejection(error=ErrorCode.invalid_record, reason=str(error))
        self.bytes_total += len(metrics)
        return None

    def _instance(
        self,
        instance_id: uuid.UUID,
        client: TelemetryClient,
        subscriptions: Mapping[str, Configs],
        now_ms: int,
    ) -> Generator[int, None, _ClientInstance]:
        """The client instance; a new one if its subscriptions have changed."""
        instance = self._instances.get(instance_id)
        if instance is not None and instance.expires_ms <= now_ms:
            instance = None
        if instance is None or instance.subscriptions != subscriptions:
            # The first request of an instance settles its attributes.
            instance_client = client if instance is None else instance.client
            metrics_to_push = yield from requested_metrics(
                instance_id, instance_client, subscriptions
            )
            instance = _ClientInstance(metrics_to_push, instance_client, subscriptions)
            self._instances[instance_id] = instance
            self._by_connection[client.connection] = instance_id
        self._instances.move_to_end(instance_id)
        instance.expires_ms = now_ms + max(
            EXPIRY_MS, EXPIRY_INTERVALS * instance.requested.interval_ms
        )
        while len(self._instances) > INSTANCES_MAX:
            self._instances.popitem(last=False)
        return instance


def requested_metrics(
    instance_id: uuid.UUID, client: TelemetryClient, subscriptions: Mapping[str, Configs]
) -> Generator[int, None, MetricsToPush]:
    """The metrics that all matching subscriptions together request from a client; yields the weight
    of each subscription (ClientMetricsManager.createClientInstance).
    """
    value_by_attribute = client.attributes(instance_id)
    interval_ms = _INTERVAL_MS
    metric_names: dict[str, None] = {}
    character_count = 0
    for configs in subscriptions.values():
        metrics_subscription = subscription(configs)
        if _matches(metrics_subscription, value_by_attribute):
            interval_ms = min(interval_ms, metrics_subscription.interval_ms)
            for metric_name in (
                _java_hash_order(metrics_subscription.metrics) if ALL not in metric_names else ()
            ):
                if metric_name not in metric_names:
                    metric_names[metric_name] = None
                    character_count += len(metric_name)
            if len(metric_names) > NAMES_MAX or character_count > CHARACTERS_MAX:
                metric_names = {ALL: None}
        yield WEIGHT + len(metrics_subscription.metrics)
    metrics = (ALL,) if ALL in metric_names else tuple(_java_hash_order(metric_names))
    return MetricsToPush(
        instance_id=instance_id,
        subscription_id=_subscription_id(metrics, interval_ms, instance_id),
        metrics=metrics,
        interval_ms=interval_ms,
    )


def _matches(
    metrics_subscription: MetricsSubscription, value_by_attribute: Mapping[str, str | None]
) -> bool:
    try:
        return all(
            (attribute_value := value_by_attribute[attribute_name]) is not None
            and pattern.matches(attribute_value)
            for attribute_name, pattern in metrics_subscription.match.items()
        )
    except PatternError:
        return False  # a client whose name is thousands of letters long


def _subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: uuid.UUID) -> int:
    """A checksum of the requested metrics, mixed with the instance id
    (ClientMetricsManager.computeSubscriptionId).
    """
    checksum = crc32c.crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    mixed_id = (instance_id.int >> 64) ^ (instance_id.int & 0xFFFF_FFFF_FFFF_FFFF)
    unsigned_id = (checksum ^ (mixed_id >> 32) ^ mixed_id) & 0xFFFF_FFFF
    return int(unsigned_id - 0x1_0000_0000 if unsigned_id >= 0x8000_0000 else unsigned_id)


def _java_hash_order(names: Iterable[str]) -> list[str]:
    """The iteration order of a Java HashSet of these names, on which the subscription id
    depends.
    """
    distinct_names = list(dict.fromkeys(names))
    buckets = _BUCKETS
    while len(distinct_names) > buckets * _LOAD_FACTOR:
        buckets *= 2

    def bucket(name: str) -> int:
        spread_hash = java_hash(name) & 0xFFFF_FFFF
        return (spread_hash ^ spread_hash >> 16) & (buckets - 1)

    return sorted(distinct_names, key=bucket)


def _too_early(instance_id: uuid.UUID) -> Rejection:
    return Rejection(
        error=ErrorCode.throttling_quota_exceeded,
        reason=f"{instance_id} came before its push interval was over",
    )
