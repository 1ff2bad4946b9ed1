"""The requests of this client, each made from plain values for whatever version is negotiated.

One function per API, named as Kafka names it. Fields that a version lacks are left out
(``codec.build``), so a function says once what it wants. Scenarios that must send something no
honest client would send call these with ``within``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final
from uuid import UUID

import msgspec

from txnsim.client.errors import ErrorCode, NotSupportedError
from txnsim.client.versions import ANY, Api, Request, VersionRange
from txnsim.types import TopicPartition
from txnsim.wire.codec import build
from txnsim.wire.messages import write_txn_markers_kip_664 as kip_664

COORDINATOR_TRANSACTION = 1
"""KeyType of FindCoordinator."""


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions grouped by topic, in order of first appearance."""
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return topics


def metadata(topics: Sequence[str] | None, *, create: bool = False) -> Request:
    """Ask for brokers and topics; None: all topics, empty: none."""

    def make(schema: ModuleType) -> Any:
        wanted = None
        if topics is not None:
            rows = schema.MetadataRequestTopic
            wanted = tuple(build(rows, topic_id=None, name=name) for name in topics)
        return build(
            schema.MetadataRequest,
            topics=wanted,
            allow_auto_topic_creation=create,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )

    return Request(api=Api.METADATA, build=make)


def find_coordinator(transactional_ids: Sequence[str], *, within: VersionRange = ANY) -> Request:
    """Ask for transaction coordinators; below version 4 only for the first id."""
    return Request(
        api=Api.FIND_COORDINATOR,
        within=within,
        build=lambda schema: build(
            schema.FindCoordinatorRequest,
            key=transactional_ids[0],
            key_type=COORDINATOR_TRANSACTION,
            coordinator_keys=tuple(transactional_ids),
        ),
    )


# Transactions


def init_producer_id(
    transactional_id: str | None,
    *,
    timeout_ms: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    within: VersionRange = ANY,
) -> Request:
    """Ask for an identity; with an expected one (KIP-360) version 3 is the least that can say
    it."""
    if producer_id >= 0 and within.lowest < 3:
        within = VersionRange(3, within.highest)
    return Request(
        api=Api.INIT_PRODUCER_ID,
        within=within,
        build=lambda schema: build(
            schema.InitProducerIdRequest,
            transactional_id=transactional_id,
            transaction_timeout=timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        ),
    )


def add_partitions_to_txn(
    transactional_id: str,
    *,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
) -> Request:
    """Add partitions to a transaction, as clients do up to version 3."""
    topics = by_topic(partitions)

    def make(schema: ModuleType) -> Any:
        row = schema.AddPartitionsToTxnTopic
        rows = tuple(build(row, name=t, partitions=tuple(p)) for t, p in topics.items())
        return build(
            schema.AddPartitionsToTxnRequest,
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=producer_epoch,
            v3_and_below_topics=rows,
        )

    return Request(api=Api.ADD_PARTITIONS_TO_TXN, build=make)


def end_txn(
    transactional_id: str,
    *,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    within: VersionRange = ANY,
) -> Request:
    """Commit or abort; version 5 and above is the protocol of transactions v2 (KIP-890)."""
    return Request(
        api=Api.END_TXN,
        within=within,
        build=lambda schema: build(
            schema.EndTxnRequest,
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=committed,
        ),
    )


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """One marker of WriteTxnMarkers; ``transaction_version`` is dropped below version 2."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]
    transaction_version: int = 0
    start_offset: int | None = None
    """Where the transaction that is to end must have begun: for ``named_txn_markers`` only."""


def named_txn_markers(markers: Sequence[Marker]) -> Request:
    """End the transactions that began at given offsets, by the text of KIP-664.

    For the listener of ``--kip-text``: every other one takes this layout for a broken request.
    """
    message = kip_664.WriteTxnMarkersRequest(
        markers=tuple(
            build(
                kip_664.WritableTxnMarker,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.committed,
                coordinator_epoch=marker.coordinator_epoch,
                topics=tuple(
                    build(
                        kip_664.WritableTxnMarkerTopic,
                        name=name,
                        partitions=tuple(
                            build(
                                kip_664.WritableTxnMarkerPartition,
                                partition_index=index,
                                txn_start_offset=-1
                                if marker.start_offset is None
                                else marker.start_offset,
                            )
                            for index in indexes
                        ),
                    )
                    for name, indexes in by_topic(marker.partitions).items()
                ),
            )
            for marker in markers
        )
    )
    return Request(
        api=Api.WRITE_TXN_MARKERS, within=VersionRange(1, 1), build=lambda _schema: message
    )


def write_txn_markers(markers: Sequence[Marker]) -> Request:
    """End transactions on partitions, past their coordinator."""

    def make(schema: ModuleType) -> Any:
        topic = schema.WritableTxnMarkerTopic
        return build(
            schema.WriteTxnMarkersRequest,
            markers=tuple(
                build(
                    schema.WritableTxnMarker,
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    transaction_result=marker.committed,
                    coordinator_epoch=marker.coordinator_epoch,
                    transaction_version=marker.transaction_version,
                    topics=tuple(
                        build(topic, name=name, partition_indexes=tuple(indexes))
                        for name, indexes in by_topic(marker.partitions).items()
                    ),
                )
                for marker in markers
            ),
        )

    return Request(api=Api.WRITE_TXN_MARKERS, build=make)


def describe_producers(partitions: Iterable[TopicPartition]) -> Request:
    """Ask a replica for the active producers of its partitions."""
    topics = by_topic(partitions)
    return Request(
        api=Api.DESCRIBE_PRODUCERS,
        build=lambda schema: build(
            schema.DescribeProducersRequest,
            topics=tuple(
                build(schema.TopicRequest, name=name, partition_indexes=tuple(indexes))
                for name, indexes in topics.items()
            ),
        ),
    )


def describe_transactions(transactional_ids: Sequence[str]) -> Request:
    """Ask a coordinator for the state of transactions."""
    return Request(
        api=Api.DESCRIBE_TRANSACTIONS,
        build=lambda schema: build(
            schema.DescribeTransactionsRequest, transactional_ids=tuple(transactional_ids)
        ),
    )


def list_transactions(
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> Request:
    """Ask one broker for the transactions it coordinates.

    A filter that the version chosen can't say is refused when the message is made, with a
    NotSupportedError in the words of Java's ``ListTransactionsRequest.Builder``.
    """

    def make(schema: ModuleType) -> Any:
        version = schema.ListTransactionsRequest.__version__
        if duration_ms >= 0 and version < 1:
            raise NotSupportedError(_NO_DURATION, error=ErrorCode.unsupported_version)
        if pattern and version < 2:
            raise NotSupportedError(_NO_PATTERN, error=ErrorCode.unsupported_version)
        return build(
            schema.ListTransactionsRequest,
            state_filters=tuple(states),
            producer_id_filters=tuple(producer_ids),
            duration_filter=duration_ms,
            transactional_id_pattern=pattern or None,
        )

    return Request(api=Api.LIST_TRANSACTIONS, build=make)


_NO_DURATION: Final = (
    "Duration filter can be set only when using API version 1 or higher. If client is connected to"
    " an older broker, do not specify duration filter or set duration filter to -1."
)
_NO_PATTERN: Final = (
    "Transactional ID pattern filter can be set only when using API version 2 or higher. If client"
    " is connected to an older broker, do not specify the pattern filter."
)


# Records


def produce(
    batches: Mapping[TopicPartition, bytes],
    *,
    topic_ids: Mapping[str, UUID | None],
    transactional_id: str | None = None,
    acks: int = -1,
    timeout_ms: int = 30_000,
    request_timeout_ms: float | None = None,
    within: VersionRange = ANY,
) -> Request:
    """Append batches, one per partition. Version 13 names topics by id, so every id must be given
    for it."""
    topics = by_topic(batches)
    if any(topic_ids.get(name) is None for name in topics):
        within = VersionRange(within.lowest, min(within.highest, 12))

    def make(schema: ModuleType) -> Any:
        row = schema.PartitionProduceData
        rows = tuple(
            build(
                schema.TopicProduceData,
                name=name,
                topic_id=topic_ids.get(name),
                partition_data=tuple(
                    build(row, index=index, records=batches[TopicPartition(name, index)])
                    for index in indexes
                ),
            )
            for name, indexes in topics.items()
        )
        return build(
            schema.ProduceRequest,
            transactional_id=transactional_id,
            acks=acks,
            timeout=timeout_ms,
            topic_data=rows,
        )

    return Request(
        api=Api.PRODUCE,
        within=within,
        build=make,
        timeout_ms=request_timeout_ms,
        answered=acks != 0,
    )


def fetch(
    positions: Mapping[TopicPartition, int],
    *,
    topic_ids: Mapping[str, UUID | None],
    isolation_level: int,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    partition_max_bytes: int,
    leader_epochs: Mapping[TopicPartition, int] | None = None,
    timeout_ms: float | None = None,
) -> Request:
    """Read from offsets, without a fetch session. From version 13 on topics go by id."""
    topics = by_topic(positions)
    epochs = leader_epochs or {}
    highest = 12 if any(topic_ids.get(name) is None for name in topics) else ANY.highest

    def make(schema: ModuleType) -> Any:
        def row(partition: TopicPartition) -> Any:
            return build(
                schema.FetchPartition,
                partition=partition.partition,
                current_leader_epoch=epochs.get(partition, -1),
                fetch_offset=positions[partition],
                partition_max_bytes=partition_max_bytes,
            )

        rows = tuple(
            build(
                schema.FetchTopic,
                topic=name,
                topic_id=topic_ids.get(name),
                partitions=tuple(row(TopicPartition(name, index)) for index in indexes),
            )
            for name, indexes in topics.items()
        )
        return build(
            schema.FetchRequest,
            max_wait=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            topics=rows,
            forgotten_topics_data=(),
            replica_id=-1,
        )

    return Request(
        api=Api.FETCH, within=VersionRange(0, highest), build=make, timeout_ms=timeout_ms
    )


def list_offsets(
    timestamps: Mapping[TopicPartition, int], *, isolation_level: int, timeout_ms: int
) -> Request:
    """Ask a leader for offsets by timestamp; -1 latest, -2 earliest, -3 largest timestamp."""
    topics = by_topic(timestamps)

    def make(schema: ModuleType) -> Any:
        row = schema.ListOffsetsPartition
        return build(
            schema.ListOffsetsRequest,
            replica_id=-1,
            isolation_level=isolation_level,
            timeout=timeout_ms,
            topics=tuple(
                build(
                    schema.ListOffsetsTopic,
                    name=name,
                    partitions=tuple(
                        build(
                            row,
                            partition_index=index,
                            timestamp=timestamps[TopicPartition(name, index)],
                        )
                        for index in indexes
                    ),
                )
                for name, indexes in topics.items()
            ),
        )

    least = 7 if any(t == -3 for t in timestamps.values()) else 2 if isolation_level else 1
    return Request(api=Api.LIST_OFFSETS, within=VersionRange(least, ANY.highest), build=make)


# Topics, configuration, cluster


class NewTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to create; -1 asks for the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()
    assignments: tuple[tuple[int, ...], ...] = ()
    """Replicas of each partition; then ``partitions`` and ``replication_factor`` stay -1."""


def create_topics(topics: Sequence[NewTopic], *, timeout_ms: int, validate_only: bool) -> Request:
    """Create topics; defaults of the broker need version 4."""
    least = 4 if any(-1 in (t.partitions, t.replication_factor) for t in topics) else 2

    def make(schema: ModuleType) -> Any:
        def row(topic: NewTopic) -> Any:
            return build(
                schema.CreatableTopic,
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                assignments=tuple(
                    build(schema.CreatableReplicaAssignment, partition_index=i, broker_ids=ids)
                    for i, ids in enumerate(topic.assignments)
                ),
                configs=tuple(
                    build(schema.CreatableTopicConfig, name=name, value=value)
                    for name, value in topic.configs
                ),
            )

        return build(
            schema.CreateTopicsRequest,
            topics=tuple(row(topic) for topic in topics),
            timeout=timeout_ms,
            validate_only=validate_only,
        )

    return Request(api=Api.CREATE_TOPICS, within=VersionRange(least, ANY.highest), build=make)


def delete_topics(names: Sequence[str], *, timeout_ms: int) -> Request:
    """Delete topics by name."""

    def make(schema: ModuleType) -> Any:
        rows: tuple[Any, ...] = ()
        if hasattr(schema, "DeleteTopicState"):
            rows = tuple(build(schema.DeleteTopicState, name=name, topic_id=None) for name in names)
        return build(
            schema.DeleteTopicsRequest, topics=rows, topic_names=tuple(names), timeout=timeout_ms
        )

    return Request(api=Api.DELETE_TOPICS, build=make)


def describe_cluster() -> Request:
    """Ask for the brokers, the cluster's id and who answers for its controller."""
    return Request(
        api=Api.DESCRIBE_CLUSTER,
        build=lambda schema: build(
            schema.DescribeClusterRequest,
            include_cluster_authorized_operations=False,
            include_fenced_brokers=False,
        ),
    )


def update_features(
    levels: Mapping[str, int], *, upgrade_type: int, validate_only: bool, timeout_ms: int
) -> Request:
    """Change finalized feature levels; upgrade type 1 upgrade, 2 safe, 3 unsafe downgrade."""
    return Request(
        api=Api.UPDATE_FEATURES,
        # Version 0 can neither only validate nor tell a safe downgrade from an unsafe one.
        within=VersionRange(1 if validate_only or upgrade_type == 3 else 0, ANY.highest),
        build=lambda schema: build(
            schema.UpdateFeaturesRequest,
            timeout=timeout_ms,
            feature_updates=tuple(
                build(
                    schema.FeatureUpdateKey,
                    feature=feature,
                    max_version_level=level,
                    allow_downgrade=upgrade_type != 1,
                    upgrade_type=upgrade_type,
                )
                for feature, level in levels.items()
            ),
            validate_only=validate_only,
        ),
    )


class ConfigChange(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of IncrementalAlterConfigs; ``value`` None goes back to the default."""

    resource_type: int
    """2 topic, 4 broker."""
    resource_name: str
    """Topic, broker id, or "" for the default of all brokers."""
    name: str
    value: str | None


def incremental_alter_configs(changes: Sequence[ConfigChange], *, validate_only: bool) -> Request:
    """Set or delete configuration entries."""
    resources: dict[tuple[int, str], list[ConfigChange]] = {}
    for change in changes:
        resources.setdefault((change.resource_type, change.resource_name), []).append(change)

    def make(schema: ModuleType) -> Any:
        row = schema.AlterableConfig
        return build(
            schema.IncrementalAlterConfigsRequest,
            resources=tuple(
                build(
                    schema.AlterConfigsResource,
                    resource_type=kind,
                    resource_name=name,
                    configs=tuple(
                        build(
                            row,
                            name=change.name,
                            config_operation=1 if change.value is None else 0,
                            value=change.value,
                        )
                        for change in rows
                    ),
                )
                for (kind, name), rows in resources.items()
            ),
            validate_only=validate_only,
        )

    return Request(api=Api.INCREMENTAL_ALTER_CONFIGS, build=make)


def describe_configs(resource_type: int, resource_name: str, names: Sequence[str]) -> Request:
    """Ask for some configuration entries of a topic or broker."""

    def make(schema: ModuleType) -> Any:
        resource = build(
            schema.DescribeConfigsResource,
            resource_type=resource_type,
            resource_name=resource_name,
            configuration_keys=tuple(names),
        )
        return build(schema.DescribeConfigsRequest, resources=(resource,))

    return Request(api=Api.DESCRIBE_CONFIGS, build=make)
