"""The requests of this client, built from plain values for the negotiated version.

One function per API, named as Kafka names it. Fields that a version lacks are left out
(``codec.build``), so a function lists its fields once. Scenarios that need a version which no
proper client would choose pass ``within``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from txnsim.client.errors import NotSupportedError
from txnsim.client.versions import ANY, ClientApi, VersionedRequest, VersionRange
from txnsim.errors import ErrorCode
from txnsim.on_demand_imports import OnDemand
from txnsim.types import TopicPartition
from txnsim.wire.codec import build
from txnsim.wire.filters import TransactionFilters

if TYPE_CHECKING:
    from txnsim.wire.messages import write_txn_markers_kip_664 as kip_664
else:
    kip_664 = OnDemand("txnsim.wire.messages.write_txn_markers_kip_664")

COORDINATOR_TRANSACTION = 1
"""KeyType of FindCoordinator."""


class MessageRow:
    """A struct in a message: the name of its class, and its fields. It is built once the version is
    known, and so are the rows in its lists.
    """

    __slots__ = ("fields", "kind")

    def __init__(self, kind: str, /, **fields: Any) -> None:
        self.kind = kind
        self.fields = fields

    def build(self, schema: ModuleType) -> Any:
        """Build the struct from a version's schema."""
        row_class = getattr(schema, self.kind)
        fields_of_kind = row_class.__dataclass_fields__
        field_values = {
            # What the version has no field for may be of a class that it has not either.
            field_name: _build_value(field_value, schema)
            if field_name in fields_of_kind
            else field_value
            for field_name, field_value in self.fields.items()
        }
        return build(row_class, **field_values)


def _build_value(value: Any, schema: ModuleType) -> Any:
    """Build a row or a list of rows; any other value stays as it is."""
    if isinstance(value, list):
        return tuple(nested_row.build(schema) for nested_row in value)
    return value.build(schema) if isinstance(value, MessageRow) else value


def versioned_request(
    api: ClientApi,
    accepted_versions: VersionRange = ANY,
    /,
    *,
    request_timeout_ms: float | None = None,
    is_answered: bool = True,
    **fields: Any,
) -> VersionedRequest:
    """A request of an API with these fields; lists contain rows."""
    message = MessageRow(f"{api.name.title().replace('_', '')}Request", **fields)
    return VersionedRequest(
        api=api,
        accepted_versions=accepted_versions,
        build=message.build,
        timeout_ms=request_timeout_ms,
        is_answered=is_answered,
    )


def per_topic(
    row_field: str,
    partitions: Iterable[TopicPartition],
    build_row: Callable[[TopicPartition], MessageRow] | None = None,
    *,
    name_field: str = "name",
    partitions_field: str = "partitions",
    id_by_topic: Mapping[str, UUID | None] | None = None,
) -> list[MessageRow]:
    """A row for each topic, in order of first appearance.

    Args:
        row_field: The name of the row's class.
        partitions: The partitions, in any order.
        build_row: Builds the row of a partition; by default its index.
        name_field: The field for the topic's name.
        partitions_field: The field for its partitions.
        id_by_topic: Topic ids by name, if topics may be named by id.
    """
    rows_by_topic: dict[str, list[Any]] = {}
    for partition in partitions:
        rows_by_topic.setdefault(partition.topic, []).append(
            partition.partition if build_row is None else build_row(partition)
        )
    return [
        MessageRow(
            row_field,
            **{
                name_field: topic_name,
                partitions_field: tuple(partition_rows) if build_row is None else partition_rows,
            },
            **({} if id_by_topic is None else {"topic_id": id_by_topic.get(topic_name)}),
        )
        for topic_name, partition_rows in rows_by_topic.items()
    ]


def metadata(topics: Sequence[str] | None, *, create: bool = False) -> VersionedRequest:
    """Ask for brokers and topics; None: all topics, empty: none."""
    return versioned_request(
        ClientApi.METADATA,
        topics=None
        if topics is None
        else [
            MessageRow("MetadataRequestTopic", topic_id=None, name=topic_name)
            for topic_name in topics
        ],
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def find_coordinator(
    transactional_ids: Sequence[str], *, accepted_versions: VersionRange = ANY
) -> VersionedRequest:
    """Ask for transaction coordinators; below version 4 only for the first id."""
    return versioned_request(
        ClientApi.FIND_COORDINATOR,
        accepted_versions,
        key=transactional_ids[0],
        key_type=COORDINATOR_TRANSACTION,
        coordinator_keys=tuple(transactional_ids),
    )


# Transactions

_ALL: Final = TransactionFilters()


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """One marker of WriteTxnMarkers; ``transaction_version`` is dropped below version 2."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    partitions: tuple[TopicPartition, ...]
    transaction_version: int = 0
    start_offset: int | None = None
    """Start offset of the transaction to end; only for ``named_txn_markers``."""


def named_txn_markers(markers: Sequence[Marker]) -> VersionedRequest:
    """End the transactions that began at given offsets, by the text of KIP-664.

    Only for the listener of ``--kip-text``: every other one rejects this layout as malformed.
    """

    def place(marker: Marker) -> Callable[[TopicPartition], MessageRow]:
        start_offset = -1 if marker.start_offset is None else marker.start_offset
        return lambda partition: MessageRow(
            "WritableTxnMarkerPartition",
            partition_index=partition.partition,
            txn_start_offset=start_offset,
        )

    marker_rows = [
        _marker(marker, per_topic("WritableTxnMarkerTopic", marker.partitions, place(marker)))
        for marker in markers
    ]
    message = MessageRow("WriteTxnMarkersRequest", markers=marker_rows).build(kip_664)
    return VersionedRequest(
        api=ClientApi.WRITE_TXN_MARKERS,
        accepted_versions=VersionRange(1, 1),
        build=lambda _schema: message,
    )


def write_txn_markers(markers: Sequence[Marker]) -> VersionedRequest:
    """Write markers on partitions, without their transaction's coordinator."""
    marker_rows = [
        _marker(
            marker,
            per_topic(
                "WritableTxnMarkerTopic", marker.partitions, partitions_field="partition_indexes"
            ),
            transaction_version=marker.transaction_version,
        )
        for marker in markers
    ]
    return versioned_request(ClientApi.WRITE_TXN_MARKERS, markers=marker_rows)


def _marker(marker: Marker, topic_rows: list[MessageRow], **further_fields: int) -> MessageRow:
    return MessageRow(
        "WritableTxnMarker",
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        coordinator_epoch=marker.coordinator_epoch,
        topics=topic_rows,
        **further_fields,
    )


def describe_producers(partitions: Iterable[TopicPartition]) -> VersionedRequest:
    """Ask a replica for the active producers of its partitions."""
    return versioned_request(
        ClientApi.DESCRIBE_PRODUCERS,
        topics=per_topic("TopicRequest", partitions, partitions_field="partition_indexes"),
    )


def describe_transactions(transactional_ids: Sequence[str]) -> VersionedRequest:
    """Ask a coordinator for the state of transactions."""
    return versioned_request(
        ClientApi.DESCRIBE_TRANSACTIONS, transactional_ids=tuple(transactional_ids)
    )


def list_transactions(filters: TransactionFilters = _ALL) -> VersionedRequest:
    """Ask one broker for the transactions it coordinates.

    A filter that the chosen version can't express is refused when the message is built, with a
    NotSupportedError in the words of Java's ``ListTransactionsRequest.Builder``.
    """

    def make(schema: ModuleType) -> Any:
        request_class = schema.ListTransactionsRequest
        refusal = filters.refusal(request_class.__version__)
        if refusal is not None:
            raise NotSupportedError(refusal, error=ErrorCode.unsupported_version)
        return build(request_class, **filters.fields())

    return VersionedRequest(api=ClientApi.LIST_TRANSACTIONS, build=make)


# Records


def produce(
    batches: Mapping[TopicPartition, bytes],
    *,
    id_by_topic: Mapping[str, UUID | None],
    transactional_id: str | None = None,
    acks: int = -1,
    timeout_ms: int = 30_000,
    request_timeout_ms: float | None = None,
    accepted_versions: VersionRange = ANY,
) -> VersionedRequest:
    """Append batches, one per partition. Version 13 names topics by id, so every id must be given
    for it."""
    if any(id_by_topic.get(partition.topic) is None for partition in batches):
        accepted_versions = VersionRange(
            accepted_versions.lowest, min(accepted_versions.highest, 12)
        )
    return versioned_request(
        ClientApi.PRODUCE,
        accepted_versions,
        request_timeout_ms=request_timeout_ms,
        is_answered=acks != 0,
        transactional_id=transactional_id,
        acks=acks,
        timeout=timeout_ms,
        topic_data=per_topic(
            "TopicProduceData",
            batches,
            lambda partition: MessageRow(
                "PartitionProduceData", index=partition.partition, records=batches[partition]
            ),
            partitions_field="partition_data",
            id_by_topic=id_by_topic,
        ),
    )


def fetch(
    positions: Mapping[TopicPartition, int],
    *,
    id_by_topic: Mapping[str, UUID | None],
    isolation_level: int,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    partition_max_bytes: int,
    leader_epochs: Mapping[TopicPartition, int] | None = None,
    rack: str = "",
    timeout_ms: float | None = None,
) -> VersionedRequest:
    """Read from offsets, without a fetch session. From version 13 on topics are named by id, from
    11 on a consumer names its rack (KIP-392).
    """
    epochs = leader_epochs or {}
    highest = (
        12
        if any(id_by_topic.get(partition.topic) is None for partition in positions)
        else ANY.highest
    )

    def row(topic_partition: TopicPartition) -> MessageRow:
        return MessageRow(
            "FetchPartition",
            partition=topic_partition.partition,
            current_leader_epoch=epochs.get(topic_partition, -1),
            fetch_offset=positions[topic_partition],
            partition_max_bytes=partition_max_bytes,
        )

    return versioned_request(
        ClientApi.FETCH,
        VersionRange(0, highest),
        request_timeout_ms=timeout_ms,
        max_wait=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=per_topic("FetchTopic", positions, row, name_field="topic", id_by_topic=id_by_topic),
        forgotten_topics_data=(),
        rack_id=rack,
        replica_id=-1,
    )


def list_offsets(
    timestamps: Mapping[TopicPartition, int], *, isolation_level: int, timeout_ms: int
) -> VersionedRequest:
    """Ask a leader for offsets by timestamp; -1 latest, -2 earliest, -3 largest timestamp."""

    def row(partition: TopicPartition) -> MessageRow:
        return MessageRow(
            "ListOffsetsPartition",
            partition_index=partition.partition,
            timestamp=timestamps[partition],
        )

    lowest_version = (
        7
        if any(timestamp == -3 for timestamp in timestamps.values())
        else 2
        if isolation_level
        else 1
    )
    return versioned_request(
        ClientApi.LIST_OFFSETS,
        VersionRange(lowest_version, ANY.highest),
        replica_id=-1,
        isolation_level=isolation_level,
        timeout=timeout_ms,
        topics=per_topic("ListOffsetsTopic", timestamps, row),
    )


# Topics, configuration, cluster


class NewTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to create; -1 asks for the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()
    assignments: tuple[tuple[int, ...], ...] = ()
    """Replicas of each partition; ``partitions`` and ``replication_factor`` must then be -1."""


def create_topics(
    topics: Sequence[NewTopic], *, timeout_ms: int, validate_only: bool
) -> VersionedRequest:
    """Create topics; defaults of the broker need version 4."""

    def row(topic: NewTopic) -> MessageRow:
        return MessageRow(
            "CreatableTopic",
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            assignments=[
                MessageRow(
                    "CreatableReplicaAssignment", partition_index=index, broker_ids=broker_ids
                )
                for index, broker_ids in enumerate(topic.assignments)
            ],
            configs=[
                MessageRow("CreatableTopicConfig", name=config_name, value=config_value)
                for config_name, config_value in topic.configs
            ],
        )

    lowest_version = (
        4
        if any(-1 in (new_topic.partitions, new_topic.replication_factor) for new_topic in topics)
        else 2
    )
    return versioned_request(
        ClientApi.CREATE_TOPICS,
        VersionRange(lowest_version, ANY.highest),
        topics=[row(topic) for topic in topics],
        timeout=timeout_ms,
        validate_only=validate_only,
    )


def delete_topics(names: Sequence[str], *, timeout_ms: int) -> VersionedRequest:
    return versioned_request(
        ClientApi.DELETE_TOPICS,
        topics=[
            MessageRow("DeleteTopicState", name=topic_name, topic_id=None) for topic_name in names
        ],
        topic_names=tuple(names),
        timeout=timeout_ms,
    )


def describe_cluster() -> VersionedRequest:
    """Ask for the brokers, the cluster id and the controller."""
    return versioned_request(
        ClientApi.DESCRIBE_CLUSTER,
        include_cluster_authorized_operations=False,
        include_fenced_brokers=False,
    )


def update_features(
    levels: Mapping[str, int], *, upgrade_type: int, validate_only: bool, timeout_ms: int
) -> VersionedRequest:
    """Change finalized feature levels; upgrade type 1 upgrade, 2 safe, 3 unsafe downgrade."""
    return versioned_request(
        ClientApi.UPDATE_FEATURES,
        # Version 0 can neither only validate nor tell a safe downgrade from an unsafe one.
        VersionRange(1 if validate_only or upgrade_type == 3 else 0, ANY.highest),
        timeout=timeout_ms,
        feature_updates=[
            MessageRow(
                "FeatureUpdateKey",
                feature=feature,
                max_version_level=level,
                allow_downgrade=upgrade_type != 1,
                upgrade_type=upgrade_type,
            )
            for feature, level in levels.items()
        ],
        validate_only=validate_only,
    )


class ConfigChange(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of IncrementalAlterConfigs; a ``value`` of None restores the default."""

    resource_type: int
    """2 topic, 4 broker, 32 group."""
    resource_name: str
    """Topic, broker id, group, or "" for the default of all brokers."""
    name: str
    value: str | None


def incremental_alter_configs(
    changes: Sequence[ConfigChange], *, validate_only: bool
) -> VersionedRequest:
    """Set or delete configuration entries."""
    resources: dict[tuple[int, str], list[MessageRow]] = {}
    for change in changes:
        config_rows = resources.setdefault((change.resource_type, change.resource_name), [])
        operation = 1 if change.value is None else 0
        config_rows.append(
            MessageRow(
                "AlterableConfig", name=change.name, config_operation=operation, value=change.value
            )
        )
    return versioned_request(
        ClientApi.INCREMENTAL_ALTER_CONFIGS,
        resources=[
            MessageRow(
                "AlterConfigsResource",
                resource_type=resource_type,
                resource_name=resource_name,
                configs=config_rows,
            )
            for (resource_type, resource_name), config_rows in resources.items()
        ],
        validate_only=validate_only,
    )


def describe_configs(
    resource_type: int, resource_name: str, names: Sequence[str]
) -> VersionedRequest:
    """Ask for some configuration entries of a topic or broker."""
    resource = MessageRow(
        "DescribeConfigsResource",
        resource_type=resource_type,
        resource_name=resource_name,
        configuration_keys=tuple(names),
    )
    return versioned_request(ClientApi.DESCRIBE_CONFIGS, resources=[resource])


# Partitions

PREFERRED: Final = 0
"""Election type: elect the first replica, only if it is in sync."""


def delete_records(before: Mapping[TopicPartition, int], *, timeout_ms: int) -> VersionedRequest:
    """Raise log start offsets; -1 stands for the high watermark."""

    def row(partition: TopicPartition) -> MessageRow:
        return MessageRow(
            "DeleteRecordsPartition", partition_index=partition.partition, offset=before[partition]
        )

    topic_rows = per_topic("DeleteRecordsTopic", before, row)
    return versioned_request(ClientApi.DELETE_RECORDS, topics=topic_rows, timeout=timeout_ms)


def alter_partition_reassignments(
    replicas: Mapping[TopicPartition, Sequence[int]], *, timeout_ms: int
) -> VersionedRequest:
    """Change the replicas of partitions."""

    def row(partition: TopicPartition) -> MessageRow:
        new_replicas = tuple(replicas[partition])
        return MessageRow(
            "ReassignablePartition", partition_index=partition.partition, replicas=new_replicas
        )

    topic_rows = per_topic("ReassignableTopic", replicas, row)
    return versioned_request(
        ClientApi.ALTER_PARTITION_REASSIGNMENTS, timeout=timeout_ms, topics=topic_rows
    )


def elect_preferred_leaders(
    partitions: Iterable[TopicPartition], *, timeout_ms: int
) -> VersionedRequest:
    """Elect the first replica of each partition, where it is in sync."""
    return versioned_request(
        ClientApi.ELECT_LEADERS,
        election_type=PREFERRED,
        timeout=timeout_ms,
        topic_partitions=per_topic("TopicPartitions", partitions, name_field="topic"),
    )
